//! `apm show`: alternate paths of pairs, of hosts and over all pairs; tables from files; mistakes.

use crate::support::Lab;
use serde_json::Value;

fn show(lab: &Lab, args: &str, exit: i32) -> Value {
    let words: Vec<&str> = args.split(' ').collect();
    let front = ["apm", "show", "--json"];
    lab.run(&[&front[..], &words[..]].concat()).exits(exit).json()
}

#[test]
fn two_planes_survive_every_single_fault() {
    let lab = Lab::new("apm-planes");
    let found = show(&lab, "--fabric sx6536:rails=2 --policy port", 0);
    assert_eq!(found["schema"], "selvedge.alternates");
    let pairs = 324 * 323 / 2;
    for key in ["pairs", "pairs_there_are", "with_alternate", "disjoint"] {
        assert_eq!(found[key], pairs, "{key}");
    }
    assert!(found["faults"].as_array().unwrap().is_empty());
    // With one plane, two LIDs of one port leave port and leaf as single faults.
    let found = show(&lab, "--fabric sx6536 --lmc 1 --policy openmpi --top 1000", 1);
    assert_eq!((&found["with_alternate"], &found["lmc"]), (&pairs.into(), &1.into()));
    let leaves = found["faults"].as_array().unwrap().iter();
    let leaves = leaves.filter(|fault| fault["kind"] == "switch" && fault["unavoidable"].as_u64() > Some(0));
    // 18 hosts of a leaf: 153 pairs among them, 18 × 306 with others.
    let lost: Vec<u64> = leaves.map(|fault| fault["unavoidable"].as_u64().unwrap()).collect();
    assert_eq!(lost, [153 + 18 * 306; 18]);
}

#[test]
fn a_pair_is_shown_by_every_policy() {
    let lab = Lab::new("apm-pair");
    let found = show(&lab, "H-0 H-15 --fabric karytree:k=4,n=2,rails=2,hcas=2 --lmc 1", 0);
    assert_eq!(found["schema"], "selvedge.alternate_paths");
    let rows = found["paths"].as_array().unwrap();
    let policies: Vec<&str> = rows.iter().map(|row| row["policy"].as_str().unwrap()).collect();
    assert_eq!(policies, ["manager", "port", "hca", "lmc=1", "openmpi", "mvapich2"]);
    let row = |policy: &str| rows.iter().find(|row| row["policy"] == policy).unwrap();
    assert!(row("port")["refused"].as_str().unwrap().starts_with("SLV-APM-0007"));
    assert_eq!(row("hca")["in_hardware"], false);
    assert_eq!(row("hca")["alternate"]["source_port"], "\"H-0 HCA-2\"[1]");
    assert!(row("hca")["fatal"].as_array().unwrap().is_empty());
    let (primary, alternate) = (&row("openmpi")["primary"], &row("openmpi")["alternate"]);
    for (bits, leg) in [(0, primary), (1, alternate)] {
        assert_eq!(leg["path_bits"], bits);
    }
    assert_eq!(
        primary["dlid"].as_u64().unwrap() + 1,
        alternate["dlid"].as_u64().unwrap()
    );
    // Named below the table, with one policy.
    let said = lab.run(&[
        "apm",
        "show",
        "H-0",
        "H-15",
        "--fabric",
        "karytree:k=4,n=2",
        "--lmc",
        "1",
        "--policy",
        "openmpi",
    ]);
    said.says("breaks both paths: switch \"S-L1-0\" (no alternate path can avoid it)");
}

#[test]
fn tables_and_names_come_from_files() {
    let lab = Lab::new("apm-files");
    let (net, lids, lfts) = (lab.path("net.topo"), lab.path("guid2lid"), lab.path("lfts"));
    let spec = "karytree:k=4,n=2,hcas=2";
    let route = ["route", "--fabric", spec, "--lmc", "1", "--no-contention"];
    lab.run(&[&route[..], &["--lids-out", &lids, "--lfts-out", &lfts]].concat())
        .exits(0);
    let written = lab.run(&["topology", "generate", spec, "--output", &net]);
    written.exits(0);
    let direct = show(&lab, &format!("H-3 --fabric {spec} --lmc 1 --policy lmc=1"), 0);
    let files = format!("H-3 --fabric {net} --lids {lids} --lfts {lfts} --engine updn --lmc 1 --policy lmc=1");
    let read = show(&lab, &files, 0);
    assert_eq!(direct["paths"], read["paths"]);
    assert_eq!(direct["paths"].as_array().unwrap().len(), 15);
}

#[test]
fn mistakes_are_explained() {
    let lab = Lab::new("apm-mistakes");
    let check = |args: &str, says: &str| {
        let words: Vec<&str> = args.split(' ').collect();
        let front = ["apm", "show", "--fabric", "karytree:k=4,n=2"];
        lab.run(&[&front[..], &words[..]].concat()).exits(2).complains(says);
    };
    check(
        "H-0 H-99",
        "SLV-APM-0002: no connected host is called 'H-99'; did you mean 'H-9'?",
    );
    check("H-0 H-0", "SLV-APM-0003");
    check("H-0 H-9 --policy openmpi", "SLV-APM-0005");
    check("H-0 H-9 --policy lmc=0", "SLV-APM-0004");
    check("H-0 H-9 --policy lmc=2 --lmc 1", "SLV-APM-0006");
    check("H-0 H-9 --policy port", "SLV-APM-0007");
    check("H-0 H-9 --policy hca", "SLV-APM-0008");
    check("H-0 H-9 --policy manager", "SLV-APM-0010");
    check("--policy mvapich3", "SLV-APM-0001");
    check("H-0 H-9 --path-bits 1", "SLV-APM-0006");
    check("H-0 --among H-1,H-2", "cannot be used with");
    check("--among H-1,spine-17", "SLV-APM-0002");
}
