//! `backups`: every single fault against the same fabric without it, routed and judged by `route`; single points of
//! failure; faults in a row; files.

use crate::support::Lab;
use selvedge_experiment::misfits::misfits;
use serde_json::Value;

fn backups(lab: &Lab, args: &str, exit: i32) -> Value {
    let words: Vec<&str> = args.split(' ').collect();
    let front = ["backups", "--json", "--fabric"];
    lab.run(&[&front[..], &words[..]].concat()).exits(exit).json()
}

fn faults(found: &Value) -> &Vec<Value> {
    found["faults"].as_array().unwrap()
}

#[test]
fn every_fault_is_listed_once_weakest_first() {
    let lab = Lab::new("backups");
    let check = |args: &str, exit: i32, (links, switches): (usize, usize), cut: usize| {
        let found = backups(&lab, args, exit);
        assert_eq!(
            (&found["schema"], &found["ok"]),
            (&"selvedge.backups".into(), &(exit == 0).into())
        );
        let of = |kind: &str| faults(&found).iter().filter(|fault| fault["kind"] == kind).count();
        assert_eq!((of("link"), of("switch")), (links, switches), "{args}");
        assert_eq!(found["faults_there_are"], (links + switches) as u64);
        let parting = faults(&found)
            .iter()
            .filter(|fault| fault["pairs_cut"].as_u64() > Some(0));
        assert_eq!(parting.count(), cut, "{args}");
        let loads = faults(&found)
            .iter()
            .skip(cut)
            .map(|fault| fault["max_load"].as_u64().unwrap());
        let loads: Vec<u64> = loads.collect();
        assert!(loads.is_sorted_by(|a, b| a >= b), "{args}: {loads:?}");
        found
    };
    let tree = check("sx6536", 0, (324, 27), 0);
    assert_eq!((&tree["max_load"], &tree["engine"]), (&306.into(), &"fat-tree".into()));
    // The death of a leaf cuts off its 18 hosts, and interrupts no other host.
    let leaves = faults(&tree).iter().filter(|fault| fault["hosts_lost"] == 18);
    let quiet = leaves.filter(|fault| (&fault["pairs_interrupted"], &fault["pairs_lost"]) == (&0.into(), &0.into()));
    assert_eq!(quiet.count(), 18);
    // A link carries 306 pairs each way; all of them find another way.
    let links = faults(&tree).iter().filter(|fault| fault["kind"] == "link");
    assert!(
        links
            .clone()
            .all(|fault| (&fault["pairs_interrupted"], &fault["pairs_lost"]) == (&612.into(), &0.into()))
    );
    check("torus:3x3,hosts=1 --engine weave", 0, (18, 9), 0);
    check("torus:3x3,hosts=1 --engine updn --kinds link", 0, (18, 0), 0);
    // In a chain of three all links part hosts, and so does the switch between the others.
    check("mesh:3x1,hosts=2 --engine updn", 1, (2, 3), 3);
}

/// The figures for one lost link equal those of `route` on the fabric without it.
#[test]
fn figures_are_those_of_the_damaged_fabric() {
    let lab = Lab::new("backups-figures");
    // A ring in both orders: one link less is a chain, whichever it is.
    let found = backups(&lab, "ring:switches=6,hosts=2 --engine updn --kinds link", 0);
    let chain = [
        "route",
        "--json",
        "--no-contention",
        "--engine",
        "updn",
        "--fabric",
        "mesh:6x1,hosts=2",
    ];
    let chain = lab.run(&chain).exits(0).json();
    assert_eq!(faults(&found).len(), 6);
    for fault in faults(&found) {
        assert_eq!(fault["max_load"], chain["max_load"], "{fault}");
        assert_eq!(
            (&fault["pairs_lost"], &fault["deadlock_free"]),
            (&0.into(), &true.into())
        );
        let share = found["max_load"].as_f64().unwrap() / fault["max_load"].as_f64().unwrap();
        assert!((fault["load_share"].as_f64().unwrap() - share).abs() < 1e-9);
    }
}

#[test]
fn threads_and_samples() {
    let lab = Lab::new("backups-threads");
    let args = "karytree:k=3,n=3 --below 0.8 --orders 4";
    let one = backups(&lab, &format!("{args} --threads 1"), 0);
    assert_eq!(one, backups(&lab, &format!("{args} --threads 3"), 0));
    let in_place = &one["in_place"];
    assert_eq!(in_place["runs"].as_array().unwrap().len(), 4);
    for run in in_place["runs"].as_array().unwrap() {
        let stood = run["faults"].as_u64().unwrap();
        let too_many = run["steps"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|step| step[1].as_f64() < Some(0.8));
        assert!(
            stood > 0 && too_many.clone().all(|step| step[0].as_u64() > Some(stood)),
            "{run}"
        );
        assert!(run["end"] != "slow" || too_many.count() > 0, "{run}");
    }
    let sample = backups(&lab, "karytree:k=3,n=3 --sample 5", 0);
    let all: Vec<&Value> = faults(&one).iter().collect();
    assert_eq!((faults(&sample).len(), &sample["faults_there_are"]), (5, &81.into()));
    assert!(faults(&sample).iter().all(|fault| all.contains(&fault)));
}

#[test]
fn tables_in_force_come_from_files() {
    let lab = Lab::new("backups-files");
    let (lids, lfts, svg) = (lab.path("guid2lid"), lab.path("lfts"), lab.path("b.svg"));
    let fabric = "random:switches=16,degree=4,hosts=2,seed=1";
    let route = |engine: &str, files: &[&str]| {
        let words = [
            "route",
            "--json",
            "--fabric",
            fabric,
            "--engine",
            engine,
            "--no-contention",
        ];
        lab.run(&[&words[..], files].concat()).exits(0).json()
    };
    let in_force = route("updn", &["--lids-out", &lids, "--lfts-out", &lfts]);
    assert_ne!(in_force["max_load"], route("weave", &[])["max_load"]);
    let args = format!("{fabric} --engine weave --lids {lids} --lfts {lfts} --kinds link --svg {svg}");
    let found = backups(&lab, &args, 0);
    assert_eq!(
        (&found["max_load"], &found["engine"]),
        (&in_force["max_load"], &"weave".into())
    );
    assert!(faults(&found).iter().all(|fault| fault["pairs_lost"] == 0));
    let picture = lab.read("b.svg");
    assert!(picture.contains("</svg>"));
    assert_eq!(misfits(&picture), [] as [&str; 0]);
    let csv = lab
        .run(&["backups", "--fabric", "ring:switches=4,hosts=1", "--csv"])
        .exits(0);
    csv.says("kind,name,hosts_lost,pairs_cut");
}
