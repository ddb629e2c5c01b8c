//! `selvedge simulate` from the command line.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod support;

use support::Lab;

const TREE: [&str; 3] = ["simulate", "--fabric", "karytree:k=4,n=2"];

#[test]
fn one_object_has_every_field_that_others_rely_on() {
    let lab = Lab::new("simulate");
    let links = lab.path("links.csv");
    let more = [
        "--engine",
        "fat-tree",
        "--traffic",
        "uniform",
        "--load",
        "0.3",
        "--mtu",
        "2048",
        "--link",
        "4x-hdr",
        "--vls",
        "2",
        "--sl",
        "dest-hash",
        "--queue",
        "voq",
        "--speedup",
        "2",
        "--duration",
        "50us",
        "--seed",
        "7",
        "--json",
        "--links",
        &links,
        "--bare-queue",
    ];
    let words: Vec<&str> = TREE.into_iter().chain(more).collect();
    let found = lab.run(&words).exits(0).json();
    assert_eq!(found["schema"], "selvedge.simulation");
    for field in ["offered_load", "accepted_load", "wire_load"] {
        assert!(found[field].as_f64().unwrap() > 0.0, "{field}: {found}");
    }
    // The system counts in ticks: a run this short may take none.
    for field in ["cpu_seconds", "ns_per_event", "queue_ns_per_event"] {
        assert!(found[field].as_f64().unwrap() >= 0.0, "{field}: {found}");
    }
    for field in ["units_delivered", "packets_delivered", "events", "peak_rss_bytes"] {
        assert!(found[field].as_u64().unwrap() > 0, "{field}: {found}");
    }
    for field in ["p50", "p99", "mean"] {
        assert!(found["latency_ns"][field].as_f64().unwrap() > 400.0, "{field}: {found}");
    }
    let load = found["accepted_load"].as_f64().unwrap();
    assert!((load - 0.3).abs() < 0.02, "{load}");
    // Defaults are stated.
    assert_eq!(found["settings"]["buffers"]["per_vl_blocks"], 132);
    assert_eq!(found["settings"]["queueing"], "voq");
    assert_eq!(found["settings"]["vl_arb"]["low"].as_array().unwrap().len(), 2);
    let packets = &found["packets"];
    let sum: u64 = ["delivered", "dropped", "under_way"]
        .iter()
        .map(|key| packets[*key].as_u64().unwrap())
        .sum();
    assert_eq!(packets["sent"].as_u64(), Some(sum));
    // 16 cables to hosts and 16 between switches, both ways.
    assert_eq!(std::fs::read_to_string(links).unwrap().lines().count(), 1 + 64);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let lab = Lab::new("simulate-seed");
    let run = |seed| {
        let words: Vec<&str> = TREE
            .into_iter()
            .chain(["--json", "--seed", seed, "--duration", "30us"])
            .collect();
        let mut found = lab.run(&words).exits(0).json();
        let found = found.as_object_mut().unwrap();
        found.remove("cpu_seconds");
        found.remove("peak_rss_bytes");
        format!("{found:?}")
    };
    assert_eq!(run("3"), run("3"));
    assert_ne!(run("3"), run("4"));
}

#[test]
fn what_is_mistyped_is_refused_with_what_is_allowed() {
    let lab = Lab::new("simulate-refused");
    let check = |words: &[&str], want: &str| {
        let words: Vec<&str> = TREE.into_iter().chain(words.iter().copied()).collect();
        let found = lab.run(&words).exits(2);
        assert!(found.err.contains(want), "{}", found.err);
    };
    check(&["--traffic", "unifrom"], "did you mean 'uniform'?");
    check(&["--traffic", "uniform:sender=3"], "it has: senders");
    check(&["--arrivals", "possion"], "poisson");
    check(&["--queue", "lifo"], "voq");
    check(&["--sl", "hash"], "dest-hash");
    check(&["--link", "4x-hrd"], "hdr");
    check(&["--mtu", "1000"], "2048");
    check(&["--duration", "100"], "100us");
    check(&["--load", "0"], "above 0");
    check(&["--buffer", "3"], "SLV-DATA-0003");
    check(&["--engine", "weav"], "weave");
    check(&["--traffic", "hotspot:to=99"], "SLV-WORKLOAD-0002");
    check(&["--change", "5us burn x[1]"], "mend PORT");
    check(&["--job", "uniform hosts=99"], "SLV-WORKLOAD-0007");
    check(&["--job", "uniform hosts=4 size=1"], "there is no field 'size'");
    check(&["--goal", "/nonexistent"], "SLV-CLI-0001");
}

#[test]
fn a_deadlock_is_no_good_answer() {
    let lab = Lab::new("simulate-deadlock");
    let words = "simulate --fabric ring:switches=6,hosts=1 --engine minhop --traffic shift:by=2 --load 1 --buffer 33";
    let words: Vec<&str> = words.split(' ').collect();
    lab.run(&words).exits(1).says("deadlock").says("VL 0");
    let json: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
    let found = lab.run(&json).exits(1).json();
    assert_eq!(found["deadlock"]["cycle"].as_array().unwrap().len(), 6);
}

#[test]
fn collectives_and_traces_come_to_an_end() {
    let lab = Lab::new("simulate-programs");
    let words: Vec<&str> = TREE
        .into_iter()
        .chain([
            "--traffic",
            "ring-all-reduce:bytes=65536",
            "--warmup",
            "0ns",
            "--duration",
            "10ms",
            "--json",
        ])
        .collect();
    let found = lab.run(&words).exits(0).json();
    assert!(found["completed_ns"].as_u64().unwrap() < 100_000, "{found}");
    let two = [
        "--job",
        "exchange hosts=6 place=random",
        "--job",
        "uniform hosts=8 sl=1 load=0.9",
        "--vls",
        "2",
    ];
    let more = ["--warmup", "0ns", "--duration", "10ms", "--json"];
    let words: Vec<&str> = TREE.into_iter().chain(two).chain(more).collect();
    let found = lab.run(&words).exits(0).json();
    assert!(found["jobs"][0]["completed_ns"].as_u64().is_some(), "{found}");
    assert_eq!(found["jobs"][1]["hosts"].as_array().unwrap().len(), 8);
    assert_eq!(found["completed_ns"], found["jobs"][0]["completed_ns"]);
    let goal = lab.path("trace.goal");
    std::fs::write(
        &goal,
        "num_ranks 2\nrank 0 {\nsend 9000b to 1 tag 1\n}\nrank 1 {\nrecv 9000b from 0 tag 1\n}\n",
    )
    .unwrap();
    let words: Vec<&str> = TREE
        .into_iter()
        .chain([
            "--goal",
            &goal,
            "--warmup",
            "0ns",
            "--duration",
            "10ms",
            "--transport",
            "rc",
            "--json",
        ])
        .collect();
    let found = lab.run(&words).exits(0).json();
    assert!(found["completed_ns"].as_u64().unwrap() < 2_000, "{found}");
    std::fs::write(&goal, "num_ranks 2\nrank 0 {\nsend 1b to 7 tag 1\n}\n").unwrap();
    lab.run(&words).exits(2);
}
