//! Dump files under OpenSM's names: after a take-over from OpenSM, Selvedge's files have the same bytes as OpenSM's,
//! and OpenSM reads them.

use std::fs;

use crate::support::{Fabric, LIMIT, run_once};
use selvedge_conformance::{HeavyLock, OpenSmOptions, PeerLab};

/// The host of both managers.
const SEAT: &str = "H-0";

/// OpenSM brings a fabric up and ends; Selvedge takes over from the same node with the same file, and then OpenSM loads
/// Selvedge's dump.
fn check(spec: &str, lmc: u8) {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let fabric = Fabric::new(&lab, spec);
    let _simulator = lab.ibsim(&fabric.text).unwrap();
    let options = OpenSmOptions {
        lines: vec![format!("lmc {lmc}")],
        once: true,
        dump: true,
        ..OpenSmOptions::default()
    };
    let mut opensm = lab.opensm(SEAT, &options).unwrap();
    opensm.wait_up(1, LIMIT).unwrap();
    let folder = lab.folder().join("dumps");
    fs::create_dir_all(&folder).unwrap();
    let conf = lab.folder().join("opensm.conf");
    let text = format!(
        "routing_engine {}\nlmc {lmc}\ndump_files_dir {}\nlog_flags 0x43\n",
        options.engine,
        folder.display()
    );
    fs::write(&conf, text).unwrap();
    let names = [
        "opensm-lfts.dump",
        "opensm-lid-matrix.dump",
        "opensm.fdbs",
        "opensm.mcfdbs",
        "opensm-subnet.lst",
    ];
    let theirs = names.map(|name| (name, opensm.file(name).unwrap()));
    opensm.finish(LIMIT).unwrap();
    run_once(&lab, lab.base(), SEAT, &["-F", conf.to_str().unwrap()]);
    for (name, theirs) in &theirs {
        let ours = fs::read_to_string(folder.join(name)).unwrap();
        let differs = ours.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs);
        assert!(ours == *theirs, "{spec} LMC {lmc} {name}, ours and theirs: {differs:?}");
        assert_eq!(
            ours.is_empty(),
            *name == "opensm.mcfdbs",
            "{name}: nobody is in a group"
        );
    }
    let file = |name: &str| folder.join(name).display().to_string();
    let loads = OpenSmOptions {
        engine: "file".to_owned(),
        lines: vec![
            format!("lmc {lmc}"),
            format!("lfts_file {}", file("opensm-lfts.dump")),
            format!("lid_matrix_dump_file {}", file("opensm-lid-matrix.dump")),
        ],
        ..options
    };
    let mut opensm = lab.opensm(SEAT, &loads).unwrap();
    opensm.wait_up(1, LIMIT).unwrap();
    let log = opensm.log();
    assert!(!log.contains("ERR"), "{log}");
    for name in ["opensm-lfts.dump", "opensm-lid-matrix.dump"] {
        let ours = fs::read_to_string(folder.join(name)).unwrap();
        assert!(opensm.file(name).unwrap() == ours, "{name} as OpenSM has loaded it");
    }
    opensm.finish(LIMIT).unwrap();
}

#[test]
fn the_same_bytes() {
    check("mport:m=4,n=2", 0);
}

#[test]
fn the_same_bytes_with_several_lids() {
    check("karytree:k=3,n=2", 1);
}

/// Without the option only the list of links is written, as with OpenSM.
#[test]
fn links_are_listed_unasked() {
    let lab = PeerLab::new().unwrap();
    let folder = lab.folder().join("dumps");
    fs::create_dir_all(&folder).unwrap();
    let conf = lab.folder().join("opensm.conf");
    fs::write(&conf, format!("dump_files_dir {}\n", folder.display())).unwrap();
    let file = conf.to_str().unwrap();
    let run = ["run", "--fabric", "mport:m=4,n=2", "--once", "-F", file];
    lab.selvedge(&run).unwrap().success().unwrap();
    let found: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(found, ["opensm-subnet.lst"]);
    let text = fs::read_to_string(folder.join("opensm-subnet.lst")).unwrap();
    // Both ends of 8 cables between switches and of 8 to hosts.
    assert_eq!(text.lines().count(), 32);
    assert!(
        text.lines().all(|line| line.ends_with("PHY=4x LOG=ACT SPD=50")),
        "{text}"
    );
}
