//! Every option of OpenSM 3.3.23, in the order of the file that `opensm --create-config` writes.

use std::path::PathBuf;
use std::time::Duration;

use selvedge_types::{Guid, Lmc, SecretKey, Sl};

use super::OpenSmOption;
use super::option::BABBLING;
use super::option::Meaning::{self, Engines, Lacking, Moot, Near, Qos, Same};
use super::value::{boolean, millis, small, within};

const BOOLEAN: &str = "TRUE or FALSE";
const KEY64: &str = "a 64-bit number, as 0x0123456789abcdef";
const LIFE: &str = "0 to 31 (4.096 us x 2^value)";

const OWN_SMPS: &str = "tables are written by difference, with as few SMPs as the difference needs; a refused one is \
    reported";
const NO_SPEED: &str = "ports keep the widths and speeds that they may negotiate";
const NO_CC: &str = "congestion control is not set up";
const NO_COUNTERS: &str = "counters are not read by the manager";
const NO_SA_FILE: &str = "registrations of hosts are not stored in OpenSM's format";
const NO_LISTS: &str = "the manager's engines take no such list; 'selvedge route' does, and shows the result";
const OWN_LOG: &str = "the log is a line per event with a code; it has no levels by module";

/// Bit of `log_flags` by which OpenSM dumps its tables (`OSM_LOG_ROUTING`).
pub const OPENSM_LOG_ROUTING: u8 = 0x40;

/// Defines an option that sets a number with the same meaning.
macro_rules! number {
    ($key:literal, $($field:ident).+, $max:literal, $want:expr) => {
        Same($key, |conf, text| {
            conf.settings.$($field).+ = small(text, $max).ok_or($want)?;
            Ok(())
        })
    };
}

/// Defines an option that sets a 64-bit number or key with the same meaning.
macro_rules! key64 {
    ($key:literal, $($field:ident).+ $(, $new:path)?) => {
        Same($key, |conf, text| {
            conf.settings.$($field).+ = $($new)? (within(text, 0, u64::MAX).ok_or(KEY64)?);
            Ok(())
        })
    };
}

/// Defines an option that names a file or folder; `(null)` means none.
macro_rules! file {
    ($key:literal, $($field:ident).+) => {
        Same($key, |conf, text| {
            conf.$($field).+ = (text != "(null)").then(|| PathBuf::from(text));
            Ok(())
        })
    };
}

const fn option(name: &'static str, default: &'static str, meaning: Meaning) -> OpenSmOption {
    OpenSmOption { name, default, meaning }
}

impl OpenSmOption {
    /// All options.
    pub const ALL: &'static [Self] = &[
        option(
            "guid",
            "0x0000000000000000",
            Same("--port", |conf, text| {
                let guid = within(text, 0, u64::MAX).ok_or(KEY64)?;
                conf.port_guid = (guid != 0).then_some(Guid(guid));
                Ok(())
            }),
        ),
        option("m_key", "0x0000000000000000", key64!("keys.m_key", policy.m_key)),
        option(
            "m_key_lease_period",
            "0",
            Same("keys.m_key_lease_s", |conf, text| {
                let seconds = within(text, 0, 65_535).and_then(|n| u16::try_from(n).ok());
                conf.settings.policy.m_key_lease_s = seconds.ok_or("0 to 65535 seconds")?;
                Ok(())
            }),
        ),
        option(
            "m_key_protection_level",
            "0",
            number!("keys.m_key_protect", policy.m_key_protect, 3, "0 to 3"),
        ),
        option(
            "m_key_lookup",
            "TRUE",
            Moot("all ports have the same M_Key, so no key is stored by GUID"),
        ),
        option(
            "sm_key",
            "0x0000000000000001",
            key64!("keys.sm_key", manager.sm_key, SecretKey::new),
        ),
        option(
            "sa_key",
            "0x0000000000000001",
            key64!("keys.sa_key", administrator.sa_key, SecretKey::new),
        ),
        option(
            "subnet_prefix",
            "0xfe80000000000000",
            key64!("fabric.subnet_prefix", policy.subnet_prefix),
        ),
        option(
            "lmc",
            "0",
            Same("routing.lmc", |conf, text| {
                conf.settings.policy.lmc = small(text, 7).and_then(Lmc::new).ok_or("0 to 7")?;
                Ok(())
            }),
        ),
        option(
            "lmc_esp0",
            "FALSE",
            Lacking("port 0 of a switch has one LID, whatever the LMC of hosts"),
        ),
        option(
            "sm_sl",
            "0",
            Same("fabric.sm_sl", |conf, text| {
                conf.settings.policy.sm_sl = small(text, 15).and_then(Sl::new).ok_or("0 to 15")?;
                Ok(())
            }),
        ),
        option(
            "packet_life_time",
            "0x12",
            number!("fabric.packet_life", policy.packet_life, 31, LIFE),
        ),
        option(
            "vl_stall_count",
            "0x07",
            number!("fabric.vl_stall_count", policy.vl_stall_count, 7, "0 to 7 packets"),
        ),
        option(
            "leaf_vl_stall_count",
            "0x07",
            Lacking("all ports have the same number: vl_stall_count"),
        ),
        option(
            "head_of_queue_lifetime",
            "0x12",
            number!("fabric.hoq_life", policy.hoq_life, 31, LIFE),
        ),
        option(
            "leaf_head_of_queue_lifetime",
            "0x10",
            number!("fabric.leaf_hoq_life", policy.leaf_hoq_life, 31, LIFE),
        ),
        option(
            "max_op_vls",
            "5",
            Same("routing.lanes", |conf, text| {
                let lanes = match within(text, 1, 5) {
                    Some(5) => 15,
                    Some(code) => 1 << (code - 1),
                    None => return Err("1 to 5 (1, 2, 4, 8 or 15 lanes)"),
                };
                conf.settings.policy.lanes = lanes;
                Ok(())
            }),
        ),
        option("force_link_speed", "15", Lacking(NO_SPEED)),
        option("force_link_speed_ext", "31", Lacking(NO_SPEED)),
        option("force_link_width", "255", Lacking(NO_SPEED)),
        option("fdr10", "1", Lacking(NO_SPEED)),
        option(
            "subnet_timeout",
            "18",
            number!("fabric.subnet_timeout", policy.subnet_timeout, 31, LIFE),
        ),
        option(
            "local_phy_errors_threshold",
            "0x08",
            number!("fabric.local_phy_errors", policy.local_phy_errors, 15, "0 to 15 errors"),
        ),
        option(
            "overrun_errors_threshold",
            "0x08",
            number!("fabric.overrun_errors", policy.overrun_errors, 15, "0 to 15 errors"),
        ),
        option(
            "use_mfttop",
            "TRUE",
            Moot("switches look up all multicast LIDs that they have room for"),
        ),
        option(
            "partition_config_file",
            "/etc/opensm/partitions.conf",
            Same("fabric.partitions", |conf, text| {
                conf.partitions_file = (text != "(null)").then(|| PathBuf::from(text));
                Ok(())
            }),
        ),
        option(
            "no_partition_enforcement",
            "FALSE",
            // The older name for part_enforce off; FALSE has no effect. What it overrides is known at the end of the
            // file.
            Same("fabric.part_enforce", |_, text| boolean(text).map(drop).ok_or(BOOLEAN)),
        ),
        option(
            "part_enforce",
            "both",
            Same("fabric.part_enforce", |conf, text| {
                conf.settings.policy.part_enforce = text.parse()?;
                Ok(())
            }),
        ),
        option(
            "allow_both_pkeys",
            "FALSE",
            Lacking("a port has one key of a partition; 'both' means full"),
        ),
        option(
            "keep_pkey_indexes",
            "TRUE",
            Moot("a key stays at its index of a port's table; only index 0 is reserved for the default partition"),
        ),
        option("sm_assigned_guid", "0x00", Lacking("aliases begin with 0x00140500")),
        option(
            "sweep_interval",
            "10",
            Same("manager.sweep_interval_s", |conf, text| {
                let seconds = within(text, 0, 86_400).ok_or("0 to 86400 seconds (0: no sweeps by time)")?;
                conf.settings.manager.sweep_interval = (seconds > 0).then(|| Duration::from_secs(seconds));
                Ok(())
            }),
        ),
        option(
            "reassign_lids",
            "FALSE",
            Same("routing.reassign_lids", |conf, text| {
                conf.settings.policy.reassign_lids = boolean(text).ok_or(BOOLEAN)?;
                Ok(())
            }),
        ),
        option(
            "force_heavy_sweep",
            "FALSE",
            Moot("a sweep reads what may have changed; 'selvedge sweep' reads everything"),
        ),
        option(
            "sweep_on_trap",
            "TRUE",
            Lacking("every trap is handled: it causes a probe of ports, not a sweep of the fabric"),
        ),
        option(
            "port_profile_switch_nodes",
            "FALSE",
            Same("routing.count_switches", |conf, text| {
                conf.settings.policy.count_switches = boolean(text).ok_or(BOOLEAN)?;
                Ok(())
            }),
        ),
        option("port_prof_ignore_file", "(null)", Lacking(NO_LISTS)),
        option("hop_weights_file", "(null)", Lacking(NO_LISTS)),
        option("port_search_ordering_file", "(null)", Lacking(NO_LISTS)),
        option("dimn_ports_file", "", Lacking(NO_LISTS)),
        option(
            "routing_engine",
            "(null)",
            Engines(
                "routing.engines",
                "a plan that the judge refuses is not sent: the next engine of the list is tried, and minhop is never \
                 tried silently after the last; an engine that does not exist here becomes weave",
            ),
        ),
        option(
            "avoid_throttled_links",
            "FALSE",
            Lacking("links that run below their width or speed are reported, and used"),
        ),
        option(
            "connect_roots",
            "FALSE",
            Moot("paths between all switches are always planned, unless they would close a credit loop"),
        ),
        option(
            "use_ucast_cache",
            "FALSE",
            Moot("tables are always kept and repaired; entries that are still right are not computed again"),
        ),
        option("lid_matrix_dump_file", "(null)", Lacking(NO_LISTS)),
        option("lfts_file", "(null)", Lacking(NO_LISTS)),
        option("root_guid_file", "(null)", file!("routing.roots", roots_file)),
        option("cn_guid_file", "(null)", file!("routing.compute", compute_file)),
        option("io_guid_file", "(null)", file!("routing.io", io_file)),
        option("quasi_ftree_indexing", "FALSE", Lacking(NO_LISTS)),
        option(
            "max_reverse_hops",
            "0",
            Lacking("paths that go down and up again could deadlock"),
        ),
        option("ids_guid_file", "(null)", Lacking(NO_LISTS)),
        option(
            "guid_routing_order_file",
            "(null)",
            file!("routing.guid_order", guid_order_file),
        ),
        option("do_mesh_analysis", "FALSE", Lacking("lash numbers switches by GUID")),
        option("lash_start_vl", "0", Lacking("used_lanes sets the number of lanes")),
        option("nue_max_num_vls", "1", Lacking("used_lanes sets the number of lanes")),
        option(
            "nue_include_switches",
            "FALSE",
            Moot("paths between switches are always planned and judged"),
        ),
        option("port_shifting", "FALSE", Lacking(NO_LISTS)),
        option("scatter_ports", "0", Lacking("ports are never chosen at random")),
        option(
            "guid_routing_order_no_scatter",
            "FALSE",
            Moot("ports are never chosen at random"),
        ),
        option("sa_db_file", "(null)", Lacking(NO_SA_FILE)),
        option("sa_db_dump", "FALSE", Lacking(NO_SA_FILE)),
        option("torus_config", "/etc/opensm/torus-2QoS.conf", Lacking(NO_LISTS)),
        option(
            "sm_priority",
            "0",
            number!("manager.priority", manager.priority, 15, "0 to 15"),
        ),
        option(
            "ignore_other_sm",
            "FALSE",
            Lacking("two masters would overwrite each other's tables"),
        ),
        option(
            "sminfo_polling_timeout",
            "10000",
            Same("manager.poll_interval_ms", |conf, text| {
                conf.settings.manager.poll_interval = millis(text).ok_or("1 to 3600000 milliseconds")?;
                Ok(())
            }),
        ),
        option(
            "polling_retry_number",
            "4",
            Same("manager.poll_misses", |conf, text| {
                // OpenSM counts repeats: it sends one poll more, and then takes over.
                let repeats = within(text, 0, 99).and_then(|n| u32::try_from(n).ok());
                conf.settings.manager.poll_misses = repeats.ok_or("0 to 99 repeats")? + 1;
                Ok(())
            }),
        ),
        option(
            "honor_guid2lid_file",
            "FALSE",
            Moot("LIDs that ports hold come first, then those of guid2lid: a LID in use never moves"),
        ),
        option(
            "max_wire_smps",
            "4",
            Near(
                "manager.window",
                |conf, text| {
                    let smps = within(text, 0, u64::from(u32::MAX)).ok_or("0 to 4294967295 SMPs")?;
                    // OpenSM's default is not treated as a request. 0 and very large numbers mean no limit in OpenSM.
                    if smps != 4 {
                        let smps = if smps == 0 { 1024 } else { smps.min(1024) };
                        conf.settings.manager.window = usize::try_from(smps).unwrap_or(1024);
                    }
                    Ok(())
                },
                "SMPs outstanding in all, at most 1024; of these each agent gets manager.agent_window",
            ),
        ),
        option(
            "max_wire_smps2",
            "4",
            Moot("there is one window, and lost SMPs do not enlarge it"),
        ),
        option(
            "max_smps_timeout",
            "600000",
            Moot("there is one window, and lost SMPs do not enlarge it"),
        ),
        option(
            "transaction_timeout",
            "200",
            Same("manager.timeout_ms", |conf, text| {
                conf.settings.manager.timeout = millis(text).ok_or("1 to 3600000 milliseconds")?;
                Ok(())
            }),
        ),
        option(
            "transaction_retries",
            "3",
            number!("manager.retries", manager.retries, 15, "0 to 15 repeats"),
        ),
        option(
            "long_transaction_timeout",
            "500",
            Moot("all requests have the same time-out: manager.timeout_ms"),
        ),
        option(
            "max_msg_fifo_timeout",
            "10000",
            Moot("there is no such queue; requests beyond a limit get BUSY"),
        ),
        option(
            "single_thread",
            "FALSE",
            Moot("answers never wait for a lock, and plans use all cores"),
        ),
        option(
            "daemon",
            "FALSE",
            Moot("the service manager keeps it in the background: 'systemctl start selvedge'"),
        ),
        option(
            "sm_inactive",
            "FALSE",
            Lacking("use 'selvedge watch', which sends no Set"),
        ),
        option("babbling_port_policy", "FALSE", BABBLING),
        option(
            "drop_event_subscriptions",
            "FALSE",
            Lacking("a port that is gone loses its subscriptions; a standby that takes over keeps the others"),
        ),
        option(
            "ipoib_mcgroup_creation_validation",
            "TRUE",
            Lacking("a group is created with the values that its first member gives, also a group of IPoIB"),
        ),
        option(
            "mcgroup_join_validation",
            "TRUE",
            Lacking("MTU, rate and partition of a port that joins are always checked"),
        ),
        option(
            "use_original_extended_sa_rates_only",
            "FALSE",
            Lacking("path records carry the true rate"),
        ),
        option("max_rate_enum", "", Lacking("path records carry the true rate")),
        option("use_optimized_slvl", "FALSE", Moot(OWN_SMPS)),
        option(
            "fsync_high_avail_files",
            "TRUE",
            Moot("state is always on the disk before a Set that depends on it is sent"),
        ),
        option("perfmgr", "FALSE", Lacking(NO_COUNTERS)),
        option("perfmgr_redir", "TRUE", Moot(NO_COUNTERS)),
        option("perfmgr_sweep_time_s", "180", Moot(NO_COUNTERS)),
        option("perfmgr_max_outstanding_queries", "500", Moot(NO_COUNTERS)),
        option("perfmgr_ignore_cas", "FALSE", Moot(NO_COUNTERS)),
        option("perfmgr_rm_nodes", "TRUE", Moot(NO_COUNTERS)),
        option("perfmgr_log_errors", "TRUE", Moot(NO_COUNTERS)),
        option("perfmgr_query_cpi", "TRUE", Moot(NO_COUNTERS)),
        option("perfmgr_xmit_wait_log", "FALSE", Moot(NO_COUNTERS)),
        option("perfmgr_xmit_wait_threshold", "65535", Moot(NO_COUNTERS)),
        option("event_db_dump_file", "(null)", Moot(NO_COUNTERS)),
        option(
            "event_plugin_name",
            "(null)",
            Lacking("plug-ins are OpenSM's own libraries; the HTTP API streams events"),
        ),
        option("event_plugin_options", "(null)", Moot("see event_plugin_name")),
        option(
            "node_name_map_name",
            "(null)",
            file!("daemon.node_name_map", settings.daemon.node_name_map),
        ),
        option(
            "log_flags",
            "0x03",
            Near(
                "daemon.dump_routes",
                |conf, text| {
                    let flags = small(text, u8::MAX).ok_or("0 to 0xff")?;
                    conf.settings.daemon.dump_routes = flags & OPENSM_LOG_ROUTING != 0;
                    Ok(())
                },
                "0x40 asks for dumps of all tables, as there; of the rest: the log is a line per event with a code, \
                 without levels by module",
            ),
        ),
        option("force_log_flush", "FALSE", Moot("each line is written at once")),
        option(
            "log_file",
            "/var/log/opensm.log",
            file!("daemon.log_file", settings.daemon.log_file),
        ),
        option(
            "log_max_size",
            "0",
            Lacking("let logrotate do it, with SIGUSR1 to reopen the file"),
        ),
        option("accum_log_file", "TRUE", Lacking("the log is always appended to")),
        option(
            "per_module_logging_file",
            "/etc/opensm/per-module-logging.conf",
            Moot(OWN_LOG),
        ),
        option(
            "dump_files_dir",
            "/var/log/",
            file!("daemon.dump_dir", settings.daemon.dump_dir),
        ),
        option(
            "enable_quirks",
            "FALSE",
            Moot("what a device cannot do is read from its capability masks"),
        ),
        option(
            "no_clients_rereg",
            "FALSE",
            Moot("hosts are asked to register again only if their registrations are lost"),
        ),
        option("disable_multicast", "FALSE", Lacking("groups with members have trees")),
        option(
            "exit_on_fatal",
            "TRUE",
            Moot("duplicate GUIDs are reported and left out; the rest of the fabric is managed"),
        ),
        option(
            "console",
            "off",
            Lacking("use 'selvedge status', 'selvedge sweep' or the HTTP API on its Unix socket"),
        ),
        option("console_port", "10000", Moot("there is no console")),
        option("qos", "FALSE", Qos),
        option("qos_policy_file", "/etc/opensm/qos-policy.conf", Qos),
        option("suppress_sl2vl_mad_status_errors", "FALSE", Moot(OWN_SMPS)),
        option("qos_max_vls", "0", Qos),
        option("qos_high_limit", "-1", Qos),
        option("qos_vlarb_high", "(null)", Qos),
        option("qos_vlarb_low", "(null)", Qos),
        option("qos_sl2vl", "(null)", Qos),
        option("qos_ca_max_vls", "0", Qos),
        option("qos_ca_high_limit", "-1", Qos),
        option("qos_ca_vlarb_high", "(null)", Qos),
        option("qos_ca_vlarb_low", "(null)", Qos),
        option("qos_ca_sl2vl", "(null)", Qos),
        option("qos_sw0_max_vls", "0", Qos),
        option("qos_sw0_high_limit", "-1", Qos),
        option("qos_sw0_vlarb_high", "(null)", Qos),
        option("qos_sw0_vlarb_low", "(null)", Qos),
        option("qos_sw0_sl2vl", "(null)", Qos),
        option("qos_swe_max_vls", "0", Qos),
        option("qos_swe_high_limit", "-1", Qos),
        option("qos_swe_vlarb_high", "(null)", Qos),
        option("qos_swe_vlarb_low", "(null)", Qos),
        option("qos_swe_sl2vl", "(null)", Qos),
        option("qos_rtr_max_vls", "0", Qos),
        option("qos_rtr_high_limit", "-1", Qos),
        option("qos_rtr_vlarb_high", "(null)", Qos),
        option("qos_rtr_vlarb_low", "(null)", Qos),
        option("qos_rtr_sl2vl", "(null)", Qos),
        option("congestion_control", "FALSE", Lacking(NO_CC)),
        option("cc_key", "0x0000000000000000", Moot(NO_CC)),
        option("cc_max_outstanding_mads", "500", Moot(NO_CC)),
        option("cc_sw_cong_setting_control_map", "0x0", Moot(NO_CC)),
        option("cc_sw_cong_setting_victim_mask", ZERO_MASK, Moot(NO_CC)),
        option("cc_sw_cong_setting_credit_mask", ZERO_MASK, Moot(NO_CC)),
        option("cc_sw_cong_setting_threshold", "0x00", Moot(NO_CC)),
        option("cc_sw_cong_setting_packet_size", "0", Moot(NO_CC)),
        option("cc_sw_cong_setting_credit_starvation_threshold", "0x00", Moot(NO_CC)),
        option("cc_sw_cong_setting_credit_starvation_return_delay", "0:0", Moot(NO_CC)),
        option("cc_sw_cong_setting_marking_rate", "0", Moot(NO_CC)),
        option("cc_ca_cong_setting_port_control", "0x0000", Moot(NO_CC)),
        option("cc_ca_cong_setting_control_map", "0x0000", Moot(NO_CC)),
        option("cc_ca_cong_setting_ccti_timer", "0 0", Moot(NO_CC)),
        option("cc_ca_cong_setting_ccti_increase", "0 0", Moot(NO_CC)),
        option("cc_ca_cong_setting_trigger_threshold", "0 0", Moot(NO_CC)),
        option("cc_ca_cong_setting_ccti_min", "0 0", Moot(NO_CC)),
        option("cc_cct", "(null)", Moot(NO_CC)),
        option(
            "prefix_routes_file",
            "/etc/opensm/prefix-routes.conf",
            Lacking("paths towards routers are not answered"),
        ),
        option(
            "consolidate_ipv6_snm_req",
            "FALSE",
            Lacking("every group has a multicast LID of its own"),
        ),
        option("log_prefix", "(null)", Lacking("lines of the log begin with the time")),
    ];
}

/// 256 bits, all zero.
const ZERO_MASK: &str = "0x0000000000000000000000000000000000000000000000000000000000000000";
