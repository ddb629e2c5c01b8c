//! `selvedge run` in OpenSM's place: its file, its flags.

use crate::support::{Lab, wait_for};

const RING: &str = "ring:switches=3,hosts=1";

#[test]
fn each_option_is_explained() {
    let lab = Lab::new("opensm-check");
    let file = lab.path("opensm.conf");
    std::fs::write(
        &file,
        "sm_priority 3\nlmc 0\ncongestion_control TRUE # for MPI\nvirt_enabled 2\n",
    )
    .unwrap();
    let check = ["run", "-F", &file, "--check-config"];
    lab.run(&check)
        .exits(1)
        .says("honoured")
        .says("manager.priority")
        .says("refused")
        .says("1 option that Selvedge does not support");
    let found = lab.run(&[&check[..], &["--json"]].concat()).exits(1).json();
    assert_eq!(
        (&found["schema"], &found["ok"], &found["defaults"]),
        (&"selvedge.opensm_check".into(), &false.into(), &1.into())
    );
    assert_eq!(found["settings"]["manager.priority"], 3);
    let treatments: Vec<&str> = found["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| option["treatment"].as_str().unwrap())
        .collect();
    assert_eq!(treatments, ["honoured", "refused", "unknown"]);
}

#[test]
fn what_cannot_be_done_stops_the_start_unless_told_otherwise() {
    let lab = Lab::new("opensm-refused");
    let file = lab.path("opensm.conf");
    std::fs::write(&file, "congestion_control TRUE\nsm_priority 5\n").unwrap();
    let run = ["run", "-F", &file, "--fabric", RING, "-o"];
    let refused = lab.run(&run).exits(2);
    assert!(
        refused.err.contains("SLV-CLI-0030") && refused.err.contains("congestion_control TRUE"),
        "{}",
        refused.err
    );
    lab.run(&[&run[..], &["--skip-refused"]].concat()).exits(0).says("good");
    std::fs::write(&file, "routing_engine updn\nsm_priority 5\n").unwrap();
    lab.run(&[&run[..], &["-R", "minhop,updn", "-p", "7"]].concat())
        .exits(0)
        .says("good");
    std::fs::write(&file, "lmc 9\n").unwrap();
    let wrong = lab.run(&run).exits(2);
    assert!(wrong.err.contains("line 1: lmc = 9; want 0 to 7"), "{}", wrong.err);
}

#[test]
fn the_port_is_named_by_its_guid() {
    const NONE_HAS_IT: &str = "0x0002c90300abcdef";
    let lab = Lab::new("opensm-guid");
    // The flag overrules the file; neither an emulated fabric nor another port is taken instead.
    let file = lab.write("opensm.conf", "guid 0x0002c90300fedcba\n");
    for words in [&["-g", NONE_HAS_IT, "-o"][..], &["-F", &file, "-g", NONE_HAS_IT, "-o"]] {
        let found = lab.run(&[&["run"], words].concat()).exits(3);
        found.complains("SLV-PORT-").complains(NONE_HAS_IT);
    }
    lab.run(&["run", "-F", &file, "-o"])
        .exits(3)
        .complains("0x0002c90300fedcba");
    lab.run(&["run", "-g", NONE_HAS_IT, "--fabric", RING, "-o"]).exits(2);
    lab.run(&["run", "-g", "mlx5_0", "-o"]).exits(2).complains("--guid");
}

#[test]
fn a_one_shot_run_leaves_the_log_of_the_manager_alone() {
    let lab = Lab::new("opensm-dry");
    let log = lab.write("log", "OpenSM's\n");
    let file = lab.write("opensm.conf", &format!("log_file {log}\n"));
    let run = ["run", "-F", &file, "--fabric", RING];
    lab.run(&[&run[..], &["--dry-run"]].concat()).exits(0);
    assert_eq!(lab.read("log"), "OpenSM's\n");
    lab.run(&[&run[..], &["-o"]].concat()).exits(0);
    assert_eq!(lab.read("log"), "OpenSM's\n");
    lab.run(&[&run[..], &["-o", "-f", &log]].concat()).exits(0);
    assert!(lab.read("log").contains("SUBNET UP"));
}

#[test]
fn what_cannot_be_done_is_not_read_again_either() {
    let lab = Lab::new("opensm-reload");
    let file = lab.write("opensm.conf", &format!("log_file {}\n", lab.path("log")));
    let _manager = lab.start(&["run", "-F", &file, "--fabric", RING]);
    wait_for("subnet that is up", || (lab.run(&["status"]).code == 0).then_some(()));
    lab.write("opensm.conf", "congestion_control TRUE\n");
    lab.run(&["reload"])
        .exits(2)
        .complains("line 1: congestion_control = TRUE");
    lab.write("opensm.conf", "congestion_control FALSE\n");
    lab.run(&["reload"]).exits(0);
}

#[test]
fn flags_that_only_opensm_has_are_refused_with_advice() {
    let lab = Lab::new("opensm-flags");
    lab.run(&["run", "-Q"])
        .exits(2)
        .complains("--check-config explains each");
    lab.run(&["run", "-B", "-R", "none"])
        .exits(2)
        .complains("SLV-CONFIG-0008");
    let log = lab.path("no/such/folder/log");
    lab.run(&["run", "-B", "-f", &log]).exits(2).complains(&log);
}

#[test]
fn lids_of_its_cache_are_kept() {
    let lab = Lab::new("opensm-guid2lid");
    let first = lab.path("first");
    lab.run(&["run", "--fabric", RING, "-o", "--lids-out", &first]).exits(0);
    let shifted: String = std::fs::read_to_string(&first)
        .unwrap()
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let lid = u16::from_str_radix(words[1].trim_start_matches("0x"), 16).unwrap() + 0x100;
            format!("{} {lid:#06x} {lid:#06x}\n\n", words[0])
        })
        .collect();
    let cache = lab.path("guid2lid");
    std::fs::write(&cache, &shifted).unwrap();
    let second = lab.path("second");
    lab.run(&[
        "run",
        "--fabric",
        RING,
        "-o",
        "--guid2lid",
        &cache,
        "--lids-out",
        &second,
    ])
    .exits(0);
    let lids = |text: &str| {
        let mut lids: Vec<String> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
            .collect();
        lids.sort();
        lids
    };
    assert_eq!(lids(&std::fs::read_to_string(&second).unwrap()), lids(&shifted));
}

#[test]
fn it_goes_on_in_the_background() {
    let lab = Lab::new("opensm-background");
    let log = lab.path("log");
    let said = lab.run(&["run", "-B", "--fabric", RING, "-f", &log]).exits(0).err;
    let pid = said.split_whitespace().next_back().unwrap().to_owned();
    wait_for("subnet that is up", || (lab.run(&["status"]).code == 0).then_some(()));
    let end = std::process::Command::new("kill").args(["-TERM", &pid]).status();
    assert!(end.unwrap().success(), "{said}");
    wait_for("end of the manager", || (lab.run(&["status"]).code == 3).then_some(()));
    assert!(lab.read("log").contains("SUBNET UP"), "{}", lab.read("log"));
}
