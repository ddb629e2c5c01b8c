//! The page of OpenSM's options is generated from the reader's table, with a test for each option.
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use selvedge_config::{OpenSmConf, OpenSmOption, Treatment, parse_opensm_conf};

/// A test of an option's effect, beyond parsing.
struct Shown {
    /// Name of the test in the table of the page.
    name: &'static str,
    /// File of the test.
    file: &'static str,
    /// Name of the test's function; empty: the file is a scenario.
    test: &'static str,
    /// The effect that the test shows.
    what: &'static str,
    /// The options that the test covers.
    options: &'static [&'static str],
}

const SHOWN: &[Shown] = &[
    Shown {
        name: "ports",
        file: "conformance/tests/it/opensm_conf.rs",
        test: "values_of_a_file_stand_in_ports",
        what: "switches and ports hold the values of the file, as `smpquery` shows",
        options: &[
            "m_key",
            "m_key_lease_period",
            "m_key_protection_level",
            "subnet_prefix",
            "lmc",
            "sm_sl",
            "packet_life_time",
            "vl_stall_count",
            "head_of_queue_lifetime",
            "leaf_head_of_queue_lifetime",
            "max_op_vls",
            "subnet_timeout",
            "local_phy_errors_threshold",
            "overrun_errors_threshold",
        ],
    },
    Shown {
        name: "guid",
        file: "crates/cli/tests/it/opensm_conf.rs",
        test: "the_port_is_named_by_its_guid",
        what: "the manager uses the port with this GUID, and no other",
        options: &["guid"],
    },
    Shown {
        name: "sm-keys",
        file: "tests/scenarios/sm_keys.txt",
        test: "",
        what: "managers with different keys ignore each other's SMInfo",
        options: &["sm_key"],
    },
    Shown {
        name: "sa-key",
        file: "crates/sa/tests/it/records.rs",
        test: "keys_of_ports_are_for_trusted_eyes",
        what: "requests with the key, with another one, and with none",
        options: &["sa_key"],
    },
    Shown {
        name: "partitions",
        file: "conformance/tests/it/partitions.rs",
        test: "on_our_emulator",
        what: "keys of ports and enforcement, OpenSM's beside ours, with the same files",
        options: &["partition_config_file", "part_enforce"],
    },
    Shown {
        name: "old-word",
        file: "crates/config/src/opensm/read.rs",
        test: "the_older_word_for_enforcement_overrules",
        what: "the option means `part_enforce off`, wherever it is in the file",
        options: &["no_partition_enforcement"],
    },
    Shown {
        name: "light-sweeps",
        file: "tests/scenarios/lanes_read_back.txt",
        test: "",
        what: "a light sweep finds a change without a trap within a few intervals",
        options: &["sweep_interval"],
    },
    Shown {
        name: "new-lids",
        file: "conformance/tests/it/opensm_conf.rs",
        test: "lids_are_given_anew_only_where_a_file_asks_for_it",
        what: "ports with good LIDs get others, or keep theirs",
        options: &["reassign_lids"],
    },
    Shown {
        name: "take-over",
        file: "conformance/tests/it/engines_behind_opensm.rs",
        test: "on_a_tree",
        what: "each engine's tables, after OpenSM with the same file",
        options: &["routing_engine"],
    },
    Shown {
        name: "roots",
        file: "conformance/tests/it/engines_behind_opensm.rs",
        test: "where_there_are_cycles",
        what: "tables from the same roots are right, after OpenSM with the same file",
        options: &["root_guid_file"],
    },
    Shown {
        name: "nodes",
        file: "crates/routing/tests/it/opensm.rs",
        test: "ftree_with_compute_and_io_nodes",
        what: "OpenSM's tables, entry by entry",
        options: &["cn_guid_file", "io_guid_file"],
    },
    Shown {
        name: "order",
        file: "crates/routing/tests/it/opensm.rs",
        test: "minhop_with_a_routing_order",
        what: "OpenSM's tables, entry by entry",
        options: &["guid_routing_order_file"],
    },
    Shown {
        name: "absent",
        file: "crates/sm/src/listed.rs",
        test: "each_list_is_named_once_until_something_changes",
        what: "GUIDs of a list that are not in the fabric are reported",
        options: &[
            "root_guid_file",
            "cn_guid_file",
            "io_guid_file",
            "guid_routing_order_file",
        ],
    },
    Shown {
        name: "managers",
        file: "conformance/tests/it/standby.rs",
        test: "opensm_then_a_better_one_of_ours",
        what: "which manager is master, beside OpenSM",
        options: &["sm_priority"],
    },
    Shown {
        name: "polls",
        file: "crates/sm/src/core/tests/standing_by.rs",
        test: "a_master_that_missed_its_polls_is_not_asked_again",
        what: "polls and repeats until a standby takes over",
        options: &["sminfo_polling_timeout", "polling_retry_number", "transaction_retries"],
    },
    Shown {
        name: "window",
        file: "crates/rehearsal/tests/it/model.rs",
        test: "times_are_within_five_percent",
        what: "the duration of a start with this number of SMPs under way",
        options: &["max_wire_smps"],
    },
    Shown {
        name: "slow-agents",
        file: "tests/scenarios/agents_are_slow.txt",
        test: "",
        what: "agents drop requests while they serve another; the manager repeats these after the time-out",
        options: &["transaction_timeout"],
    },
    Shown {
        name: "babbling",
        file: "conformance/tests/it/trap_flood.rs",
        test: "the_port_of_a_babbling_host_is_disabled_if_that_is_wanted",
        what: "a host that floods the manager with traps is cut off",
        options: &["babbling_port_policy"],
    },
    Shown {
        name: "names",
        file: "crates/cli/tests/it/manage.rs",
        test: "a_daemon_answers_breaks_heals_and_ends",
        what: "outputs show the names of the map",
        options: &["node_name_map_name"],
    },
    Shown {
        name: "log",
        file: "crates/cli/tests/it/opensm_conf.rs",
        test: "a_one_shot_run_leaves_the_log_of_the_manager_alone",
        what: "events are written to the file",
        options: &["log_file"],
    },
    Shown {
        name: "dumps",
        file: "conformance/tests/it/dumps.rs",
        test: "the_same_bytes",
        what: "OpenSM's files, to the byte",
        options: &["log_flags", "dump_files_dir"],
    },
];

/// A value other than the default for each supported option.
const SAMPLES: &[(&str, &str)] = &[
    ("guid", "0x2"),
    ("m_key", "0x2"),
    ("m_key_lease_period", "60"),
    ("m_key_protection_level", "1"),
    ("sm_key", "0x2"),
    ("sa_key", "0x2"),
    ("subnet_prefix", "0xfe80000000000001"),
    ("lmc", "1"),
    ("sm_sl", "1"),
    ("packet_life_time", "0x11"),
    ("vl_stall_count", "0x06"),
    ("head_of_queue_lifetime", "0x11"),
    ("leaf_head_of_queue_lifetime", "0x0f"),
    ("max_op_vls", "2"),
    ("subnet_timeout", "17"),
    ("local_phy_errors_threshold", "0x07"),
    ("overrun_errors_threshold", "0x07"),
    ("partition_config_file", "/mine"),
    ("no_partition_enforcement", "TRUE"),
    ("part_enforce", "off"),
    ("sweep_interval", "20"),
    ("reassign_lids", "TRUE"),
    ("port_profile_switch_nodes", "TRUE"),
    ("routing_engine", "minhop"),
    ("root_guid_file", "/mine"),
    ("cn_guid_file", "/mine"),
    ("io_guid_file", "/mine"),
    ("guid_routing_order_file", "/mine"),
    ("sm_priority", "3"),
    ("sminfo_polling_timeout", "500"),
    ("polling_retry_number", "3"),
    ("max_wire_smps", "8"),
    ("transaction_timeout", "100"),
    ("transaction_retries", "2"),
    ("babbling_port_policy", "TRUE"),
    ("node_name_map_name", "/mine"),
    ("log_flags", "0x43"),
    ("log_file", "/mine"),
    ("dump_files_dir", "/mine"),
    ("qos", "TRUE"),
    ("qos_policy_file", "/mine"),
    ("qos_max_vls", "4"),
    ("qos_high_limit", "6"),
    ("qos_vlarb_high", "0:4"),
    ("qos_vlarb_low", "0:0,1:64"),
    ("qos_sl2vl", "0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,15"),
    ("qos_ca_max_vls", "4"),
    ("qos_ca_high_limit", "6"),
    ("qos_ca_vlarb_high", "0:4"),
    ("qos_ca_vlarb_low", "0:0,1:64"),
    ("qos_ca_sl2vl", "0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,15"),
    ("qos_sw0_max_vls", "4"),
    ("qos_sw0_high_limit", "6"),
    ("qos_sw0_vlarb_high", "0:4"),
    ("qos_sw0_vlarb_low", "0:0,1:64"),
    ("qos_sw0_sl2vl", "0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,15"),
    ("qos_swe_max_vls", "4"),
    ("qos_swe_high_limit", "6"),
    ("qos_swe_vlarb_high", "0:4"),
    ("qos_swe_vlarb_low", "0:0,1:64"),
    ("qos_swe_sl2vl", "0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,15"),
    ("qos_rtr_max_vls", "4"),
    ("qos_rtr_high_limit", "6"),
    ("qos_rtr_vlarb_high", "0:4"),
    ("qos_rtr_vlarb_low", "0:0,1:64"),
    ("qos_rtr_sl2vl", "0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,15"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    let mut page = "# Every option of opensm.conf\n\n\
        Written from the table that `selvedge run --opensm-conf FILE` reads by; `SELVEDGE_BLESS=1 cargo test -p \
        selvedge-config --test it opensm_options` writes it anew. Names and defaults are those of OpenSM 3.3.23. \
        With its default every option is taken, but for one: where the file is there that `prefix_routes_file` names \
        by default, OpenSM reads it, and a start is refused. The table says what another value becomes:\n\n\
        - **honoured**: it goes into the key or flag beside it, with the same meaning;\n\
        - **mapped**: it goes there, with the difference that is named;\n\
        - **without effect**: it changes nothing here, and nothing is lost;\n\
        - **refused**: the manager does not start (`--skip-refused`: starts without it).\n\n\
        An option of a feature that is off has no effect, and so has the value `(null)`.\n\n\
        | option | OpenSM's default | another value is | key or flag | why | tested |\n|---|---|---|---|---|---|\n"
        .to_owned();
    for option in OpenSmOption::ALL {
        let (treatment, key, why) = option.treatment();
        let only = option.only_with().map_or_else(String::new, |with| format!(" ({with})"));
        let code = |text: &str| match text {
            "" => String::new(),
            _ => format!("`{text}`"),
        };
        let shown: String = SHOWN
            .iter()
            .filter(|shown| shown.options.contains(&option.name))
            .map(|shown| format!(", {}", shown.name))
            .collect();
        writeln!(
            page,
            "| `{}` | {} | {}{only} | {} | {why} | read{shown} |",
            option.name,
            code(option.default),
            treatment.name(),
            code(key.unwrap_or_default()),
        )
        .unwrap();
    }
    page += "\n## How it is tested\n\n\
        **read**, of every option: its default and another value become what the table says, and a value that goes \
        into a key changes the settings (`crates/config/tests/it/opensm_options.rs`, \
        `crates/config/src/opensm/read.rs`); what becomes of a start with a value that is refused shows \
        `crates/cli/tests/it/opensm_conf.rs`. What a setting does:\n\n\
        | name | test | what it shows |\n|---|---|---|\n";
    for shown in SHOWN {
        let test = match shown.test {
            "" => format!("scenario `{}`", shown.file),
            test => format!("`{}`: `{test}`", shown.file),
        };
        writeln!(page, "| {} | {test} | {} |", shown.name, shown.what).unwrap();
    }
    page
}

#[test]
fn the_page_is_true() {
    let path = root().join("docs/reference/opensm-options.md");
    if std::env::var_os("SELVEDGE_BLESS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(
        found == page(),
        "{} is not what the table says; write it anew with SELVEDGE_BLESS=1",
        path.display()
    );
}

/// Each test that the page names exists, and each option that the page lists for a test exists and has an effect.
#[test]
fn what_is_named_is_there() {
    for shown in SHOWN {
        let text = std::fs::read_to_string(root().join(shown.file));
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", shown.file));
        // A macro may write the function, with the name on a line of its own.
        let is_there =
            text.contains(&format!("fn {}(", shown.test)) || text.contains(&format!("\n    {},\n", shown.test));
        assert!(
            shown.test.is_empty() || is_there,
            "{} has no {}",
            shown.file,
            shown.test
        );
        for name in shown.options {
            let option = OpenSmOption::ALL.iter().find(|option| option.name == *name);
            let treatment = option.unwrap_or_else(|| panic!("no option {name}")).treatment().0;
            assert!(matches!(treatment, Treatment::Honoured | Treatment::Mapped), "{name}");
        }
    }
}

/// Returns the settings of a file and the treatment of each line; the settings do not contain the findings.
fn settings(text: &str) -> (OpenSmConf, Vec<Treatment>) {
    let mut conf = parse_opensm_conf(text, Path::new("opensm.conf")).unwrap();
    let treatments = std::mem::take(&mut conf.findings);
    (conf, treatments.into_iter().map(|found| found.treatment).collect())
}

#[test]
fn another_value_of_each_option_becomes_what_the_table_says() {
    for option in OpenSmOption::ALL {
        let want = option.treatment().0;
        let is_taken = matches!(want, Treatment::Honoured | Treatment::Mapped);
        let sample = SAMPLES.iter().find(|(name, _)| *name == option.name);
        assert_eq!(is_taken, sample.is_some(), "a sample of {}", option.name);
        let other = if option.default == "FALSE" {
            "TRUE"
        } else {
            "something-else"
        };
        let value = sample.map_or(other, |(_, value)| value);
        let (with, treatments) = settings(&format!("{} {value}\n", option.name));
        let is_off = option
            .only_with()
            .is_some_and(|with| with != "only if the file is there");
        assert_eq!(
            treatments,
            [if is_off { Treatment::Moot } else { want }],
            "{}",
            option.name
        );
        let on = "qos TRUE\nrouting_engine lash,nue,torus-2QoS,file,ftree,updn,dnup\n";
        let (_, treatments) = settings(&format!("{on}{} {value}\n", option.name));
        assert_eq!(treatments.last(), Some(&want), "{} with its feature on", option.name);
        let (of_default, _) = settings(&format!("{} {}\n", option.name, option.default));
        assert_eq!(with != of_default, is_taken, "settings by {} {value}", option.name);
    }
}

/// OpenSM writes `(null)` for a text without a value, for every option.
#[test]
fn a_text_without_a_value_has_no_effect() {
    let mut texts = 0;
    for option in OpenSmOption::ALL {
        let is_text = option.default.is_empty() || option.default == "(null)" || option.default.starts_with('/');
        if is_text && option.name != "max_rate_enum" {
            let (_, treatments) = settings(&format!("{} (null)\n", option.name));
            let is_taken = !matches!(
                treatments[0],
                Treatment::Refused | Treatment::Wrong | Treatment::Unknown
            );
            assert!(is_taken, "{}: {treatments:?}", option.name);
            texts += 1;
        }
    }
    assert!(texts > 40, "{texts}");
    // A number needs a value.
    assert!(parse_opensm_conf("lmc (null)\n", Path::new("x")).is_err());
}
