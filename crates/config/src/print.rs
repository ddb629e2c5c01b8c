//! Writes configuration files.

use std::fmt::Write as _;

use crate::{Key, Settings, Value};

/// The commented default file: every key with its legal values, default and consequence, commented out.
#[must_use]
pub fn print_defaults() -> String {
    let defaults = Settings::default();
    let mut text = String::from(
        "# Selvedge's configuration. Every key stands here with its default; remove '# ' to change one.\n",
    );
    for section in Key::sections() {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n[{section}]\n");
        for key in Key::ALL.iter().filter(|key| key.section == section) {
            let _ = write!(text, "\n# {}\n# Values: {}.\n", key.doc, key.want);
            let _ = match key.shown(&defaults) {
                Some(value) => writeln!(text, "# {} = {value}", key.name),
                None => writeln!(text, "# {} = \"...\"", key.name),
            };
        }
    }
    text
}

/// Returns `settings` as the text of a file, without secret keys. If the file is read back, the placeholder of a secret
/// key is refused.
#[must_use]
pub fn print_settings(settings: &Settings) -> String {
    print(|key| key.shown(settings))
}

/// Returns `settings` as a file with keys, which reads back to the same settings. Only for files that their owner alone
/// may read.
#[must_use]
pub fn print_settings_with_keys(settings: &Settings) -> String {
    print(|key| key.value(settings).map(Value::exposed))
}

fn print(value: impl Fn(&Key) -> Option<Value>) -> String {
    let mut text = String::new();
    for section in Key::sections() {
        let _ = writeln!(text, "[{section}]");
        for key in Key::ALL.iter().filter(|key| key.section == section) {
            if let Some(value) = value(key) {
                let _ = writeln!(text, "{} = {value}", key.name);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::parse;

    #[test]
    fn the_default_file_says_the_defaults() {
        let text = print_defaults();
        assert_eq!(parse(&text, Path::new("x")).unwrap(), Settings::default());
        // The same with every key that has a default uncommented.
        let active: String = text
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(rest) if rest.contains(" = ") && !rest.contains("...") && !rest.contains("Values") => {
                    format!("{rest}\n")
                }
                _ => format!("{line}\n"),
            })
            .collect();
        assert_eq!(parse(&active, Path::new("x")).unwrap(), Settings::default(), "{active}");
        assert!(active.contains("\nlmc = 0\n"), "{active}");
    }

    #[test]
    fn every_key_comes_back() {
        let text = "[routing]\nengines = [\"updn\", \"weave\"]\nroots = [\"0x0000000000000010\"]\n\
                    compute = [\"0x0000000000000011\"]\nio = [\"0x0000000000000012\"]\n\
                    guid_order = [\"0x0000000000000013\"]\ncount_switches = true\nlmc = 3\n\
                    reassign_lids = true\nlid_layout = \"sequential\"\nlanes = 4\nused_lanes = 2\n\
                    assume_sl_aware = true\nmulticast_lane = \"own\"\nflap_downs = 5\nflap_window_s = 6\n\
                     flap_hold_s = 7\nrebalance = \"never\"\nrebalance_blocks = 8\nrebalance_quiet_s = 9\n\
                     rebalance_pause_s = 10\n[qos]\n\
                     classes = [\"A: share=70, default\", \"B: latency=low, sl=3\"]\n\
                     [fabric]\nmtu_max_bytes = 2048\npacket_life = 1\nhoq_life = 2\n\
                    leaf_hoq_life = 3\nvl_stall_count = 4\nsubnet_timeout = 5\nlocal_phy_errors = 6\n\
                    overrun_errors = 7\nsubnet_prefix = \"0x0000000000000001\"\nsm_sl = 8\n\
                    partitions = [\"A=1: ALL;\"]\npart_enforce = \"in\"\nexpected = \"g\"\n[keys]\n\
                    m_key = \"0x8000000000000002\"\nm_key_lease_s = 9\nm_key_protect = 1\n\
                    sm_key = \"0x0000000000000003\"\nsa_key = \"0x0000000000000004\"\n[manager]\npriority = 10\n\
                    window = 11\nagent_window = 12\n\
                    timeout_ms = 13\nretries = 14\nsweep_interval_s = 15\nread_back_sweeps = 19\n\
                    backups_after_s = 26\npoll_interval_ms = 16\npoll_misses = 17\n\
                    disable_babbling_ports = true\n\
                    [sa]\nrate_per_s = 20\nburst = 21\ntransfers_per_client = 22\n\
                    services_per_client = 23\nsubscriptions_per_client = 24\ngroups = 25\ngroups_per_client = 26\n\
                    [telemetry]\nenabled = false\ninterval_ms = 1000\nerrors_interval_ms = 2000\n\
                    detail_interval_ms = 0\ncable_interval_ms = 0\nends = \"one\"\n\
                    window = 27\nnode_window = 2\ntimeout_ms = 28\n\
                    retries = 3\nmetrics_listen = \"[::1]:9315\"\nmetrics_guilbaults = true\n\
                    remote_write = \"http://p:9090/w\"\nhistory = false\nhistory_dir = \"h\"\n\
                    history_interval_ms = 29000\nhistory_days = 30\nhistory_max_gib = 31\n\
                    history_window_mib = 32\nhistory_fabric = \"hall 2\"\ndetail = [\"PortXmitDataSL\"]\n\
                    metrics = \"h\"\nexpected_types = \"i\"\nhost_counters = \"/j\"\n\
                    isolate_per_day = 29\ninclude = [\"leaf*\"]\nexclude = [\"0x5\", \"h\"]\n\
                    [telemetry.alarms]\nwindow_s = 100\nttl_s = 0\n\
                    SymbolErrorCounter = { info = 1, warning = 2, critical = 3, clear = 1, ttl_s = 4 }\n\
                    LinkErrorRecoveryCounter = { warning = 5, clear = 2 }\n\
                    LinkDownedCounter = { warning = 6, clear = 2 }\n\
                    PortRcvErrors = { warning = 7, clear = 2 }\n\
                    PortRcvRemotePhysicalErrors = { warning = 8, clear = 2 }\n\
                    PortRcvSwitchRelayErrors = { warning = 9, clear = 2 }\n\
                    PortXmitDiscards = { warning = 10, clear = 2 }\n\
                    PortXmitConstraintErrors = { warning = 11, clear = 2 }\n\
                    PortRcvConstraintErrors = { warning = 12, clear = 2 }\n\
                    LocalLinkIntegrityErrors = { warning = 13, clear = 2 }\n\
                    ExcessiveBufferOverrunErrors = { warning = 14, clear = 2 }\n\
                    VL15Dropped = { warning = 15, clear = 2 }\n\
                    QP1Dropped = false\nflaps = 33\nflap_window_s = 34\nbit_errors = \"1e-13\"\n\
                    bit_errors_critical = \"1e-8\"\ncongestion_s = 35\n\
                    [daemon]\nsocket = \"/a b\"\nstate_dir = \"c\"\nlog_file = \"d\"\nnode_name_map = \"e\"\n\
                    dump_dir = \"f\"\ndump_routes = true\nevent_ring = 18\n";
        let settings = parse(text, Path::new("x")).unwrap();
        assert_eq!(print_settings_with_keys(&settings), text);
        let shown = print_settings(&settings);
        for key in ["m_key", "sm_key", "sa_key"] {
            assert!(shown.contains(&format!("\n{key} = \"(not shown)\"\n")), "{shown}");
        }
        assert!(
            !shown.contains("0x8000000000000002") && shown.contains("m_key_lease_s = 9"),
            "{shown}"
        );
        // A hidden key is never read back as "no key".
        assert!(
            parse(&shown, Path::new("x"))
                .unwrap_err()
                .to_string()
                .contains("SLV-CONFIG-0004")
        );
    }
}
