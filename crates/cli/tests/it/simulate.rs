//! `selvedge simulate` from the command line.

use crate::support::Lab;
use selvedge_experiment::misfits::misfits;

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
    for load in ["0", "-0.5", "101", "1000000", "1e308", "inf", "NaN"] {
        check(&[&format!("--load={load}")], "SLV-WORKLOAD-0011");
    }
    check(&["--traffic", "incast:to=0,from=999"], "SLV-WORKLOAD-0003");
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
    for wrong in [
        "num_ranks 2\nrank 0 {\nsend 1b to 7 tag 1\n}\n",
        "num_ranks 2\nrank 0 {\nsend 1b to 1\n}\n",
        "num_ranks 2\nrank 0 {\nsend 1b to 1\n}\nrank 1 {\n}\n",
        "num_ranks 2\nrank 0 {\nsend 4096b to 1\n}\nrank 1 {\nrecv 100b from 0\n}\n",
        "num_ranks 2\nrank 0 {\na: recv 1b from 1\nb: send 1b to 1\nb requires a\n}\n\
         rank 1 {\na: recv 1b from 0\nb: send 1b to 0\nb requires a\n}\n",
    ] {
        std::fs::write(&goal, wrong).unwrap();
        lab.run(&words).exits(2).complains("SLV-WORKLOAD-0006: line ");
    }
}

#[test]
fn a_run_has_pictures_and_counters() {
    let lab = Lab::new("simulate-pictures");
    let [links, series, timeline, heatmap] =
        ["links.csv", "series.csv", "timeline.svg", "heatmap.svg"].map(|name| lab.path(name));
    let flap = "5us flap \"S-L1-0\"[5] down=2us up=3us times=2";
    let words = [
        ["--load", "0.9"],
        ["--vls", "2"],
        ["--sl", "flow"],
        ["--vlarb-low", "0:33,1:99"],
        ["--warmup", "0ns"],
        ["--duration", "20us"],
        ["--change", flap],
        ["--links", &links],
        ["--series", &series],
        ["--timeline", &timeline],
        ["--heatmap", &heatmap],
    ];
    let words: Vec<&str> = TREE
        .into_iter()
        .chain(words.iter().flatten().copied())
        .chain(["--json"])
        .collect();
    let found = lab.run(&words).exits(0).json();
    assert_eq!(
        found["settings"]["vl_arb"]["low"],
        serde_json::json!([[0, 33], [1, 99]])
    );
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let (links, series) = (read(&links), read(&series));
    let mut lines = links.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let sum = |name: &str| -> u64 {
        let place = header.iter().position(|column| *column == name).unwrap();
        let value = |line: &str| line.split(',').nth(place).unwrap().parse::<u64>().unwrap();
        links.lines().skip(1).map(value).sum()
    };
    assert_eq!(sum("link_downed"), 4, "two ends, two times");
    let dropped = found["drops"]["link_down"].as_u64().unwrap();
    assert!(dropped > 0, "{found}");
    assert_eq!(sum("xmit_discards"), dropped);
    // What was sent came in, was lost with its cable, or is on one.
    let (sent, came) = (sum("xmit_packets"), sum("rcv_packets"));
    let lost = found["drops"]["in_flight"].as_u64().unwrap();
    assert!(came + lost <= sent && sent <= came + lost + 100, "{sent} {came} {lost}");
    assert_eq!(lines.count(), 2 * (16 + 16), "both ends of every cable");
    assert_eq!(series.lines().count(), 1 + 200);
    let drops: u64 = series
        .lines()
        .skip(1)
        .map(|line| line.rsplit(',').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(drops, dropped + lost);
    let (timeline, heatmap) = (read(&timeline), read(&heatmap));
    for word in ["offered load", "flap", "drops a step"] {
        assert!(timeline.contains(word), "{word}");
    }
    assert!(heatmap.contains("S-L2-3") && heatmap.contains("no credits"));
    for picture in [timeline, heatmap] {
        assert_eq!(misfits(&picture), [] as [&str; 0]);
    }
}

#[test]
fn tables_change_at_a_time() {
    let lab = Lab::new("simulate-tables");
    let [before, after] = ["before.lfts", "after.lfts"].map(|name| lab.path(name));
    lab.run(&[
        "route",
        "--fabric",
        "karytree:k=4,n=2",
        "--engine",
        "fat-tree",
        "--lfts-out",
        &before,
    ])
    .exits(0);
    // The same tables without some of the LIDs, hosts among them.
    let text = std::fs::read_to_string(&before).unwrap();
    let stays = |line: &&str| {
        let lid = line.split(' ').next().and_then(|word| word.strip_prefix("0x"));
        lid.and_then(|lid| u16::from_str_radix(lid, 16).ok())
            .is_none_or(|lid| !(12..=20).contains(&lid))
    };
    let fewer: Vec<&str> = text.lines().filter(stays).collect();
    std::fs::write(&after, fewer.join("\n") + "\n").unwrap();
    let change = format!("60us tables {after}");
    let run = |more: &[&str]| {
        let words = [
            "--engine",
            "file",
            "--lfts",
            &before,
            "--traffic",
            "shift:by=5",
            "--load",
            "0.9",
            "--json",
        ];
        let words: Vec<&str> = TREE.into_iter().chain(words).chain(more.iter().copied()).collect();
        lab.run(&words).exits(0).json()
    };
    let (whole, changed) = (run(&[]), run(&["--change", &change]));
    assert_eq!(whole["drops"]["no_entry"], 0);
    assert!(
        changed["drops"]["no_entry"].as_u64().unwrap() > 1_000,
        "{}",
        changed["drops"]
    );
    // Nothing is dropped before the change, and something in every step after it.
    let dropped = changed["series"]["dropped"].as_array().unwrap();
    assert!(dropped[..99].iter().all(|drops| *drops == 0), "{dropped:?}");
    assert!(dropped[101..].iter().all(|drops| *drops != 0), "{dropped:?}");
}

#[test]
fn a_cut_under_reliable_connections_ends_none_with_repair_and_migration() {
    let lab = Lab::new("simulate-apm");
    let (series, picture) = (lab.path("series.csv"), lab.path("t.svg"));
    let run = |more: &[&str], code: i32| {
        let all = [
            "--traffic",
            "all-to-all",
            "--lmc",
            "1",
            "--ack-timeout",
            "4",
            "--duration",
            "2ms",
            "--cut-at",
            "200us",
        ];
        let words: Vec<&str> = TREE.into_iter().chain(all).chain(more.iter().copied()).collect();
        lab.run(&words).exits(code)
    };
    let both = ["--apm", "request", "--told", "20us", "--repair", "50us", "--json"];
    let files = ["--series", series.as_str(), "--timeline", picture.as_str()];
    let found = run(&[&both[..], &files[..]].concat(), 0).json();
    assert_eq!(found["schema"], "selvedge.migration");
    assert_eq!(found["run"]["qp_errors"], 0);
    let count = |key: &str| found["run"][key].as_u64().unwrap();
    assert!(count("migrations") > 0 && count("rearmed") > 0, "{found}");
    assert!(found["faults"][0]["entries"].as_u64().unwrap() > 0, "{found}");
    assert_eq!(std::fs::read_to_string(&series).unwrap().lines().count(), 1 + 200);
    let drawn = std::fs::read_to_string(&picture).unwrap();
    assert!(drawn.contains("migrations") && misfits(&drawn).is_empty());
    run(&["--apm", "off", "--repair", "none", "--retries", "1"], 1)
        .says("RETRY_EXC_ERR")
        .says("lost time");
}

#[test]
fn software_recovers_by_its_second_way() {
    let lab = Lab::new("simulate-rival");
    for rival in ["failover", "striping"] {
        let words =
            "--traffic shift:by=4 --link 1x-sdr --duration 20ms --ack-timeout 8 --retries 2 --repair none --rival";
        let cut = ["--lmc", "1", "--change", "1ms cut \"S-L1-0\"[5]", "--json"];
        let all: Vec<&str> = TREE
            .into_iter()
            .chain(cut)
            .chain(words.split(' '))
            .chain([rival])
            .collect();
        let found = lab.run(&all).exits(0).json();
        assert_eq!(found["rival"], rival);
        assert_eq!(found["run"]["messages_failed"], 0);
        let count = |key: &str| found["run"][key].as_u64().unwrap();
        assert!(count("qp_errors") > 0 && count("repeated") > 0, "{found}");
    }
}

#[test]
fn a_trace_cuts_cables_and_nodes_and_its_mistakes_are_named() {
    let lab = Lab::new("simulate-trace");
    let run = |text: &str, code: i32| {
        let path = lab.path("faults.txt");
        std::fs::write(&path, text).unwrap();
        let words = "--apm error --lmc 1 --duration 300us --ack-timeout 4 --repair 20us --json --trace";
        let all: Vec<&str> = TREE
            .into_iter()
            .chain(words.split(' '))
            .chain([path.as_str()])
            .collect();
        lab.run(&all).exits(code)
    };
    let found = run(
        "# two faults\n100us down \"S-L1-0\"[5]\n120us up \"S-L1-0\"[5]\n200us down S-L2-0\n",
        0,
    )
    .json();
    let faults = found["faults"].as_array().unwrap();
    assert_eq!(
        faults.len(),
        2 + 4,
        "the cables of a switch above four leaf switches: {found}"
    );
    run("100us down \"S-L9-0\"[5]\n", 2).complains("SLV-TOLERANCE-0021");
    run("100us down S-L1-0\n50us up S-L1-0\n", 2).complains("SLV-TOLERANCE-0022");
    run("100us sideways S-L1-0\n", 2).complains("SLV-TOLERANCE-0020");
    let drawn = "--apm off --duration 2ms --repair 20us --json --mtbf 5ms --mttr 200us --ack-timeout 8";
    let all: Vec<&str> = TREE.into_iter().chain(drawn.split(' ')).collect();
    let found = lab.run(&all).exits(0).json();
    assert!(found["faults"].as_array().unwrap().len() > 2, "{found}");
}

#[test]
fn mistakes_of_migrations_are_refused() {
    let lab = Lab::new("simulate-apm-errors");
    for (words, want) in [
        ("--apm error --alternate lmc=1", "SLV-APM-0005"),
        ("--apm error --alternate lmc=0 --lmc 1", "SLV-APM-0004"),
        ("--apm error --alternate lcm=1", "SLV-APM-0001"),
        ("--apm off --change cut", "there is no change"),
        ("--apm off --connections 20000", "SLV-STUDY-0004"),
        ("--apm off --cut-at 2us --cut-at 1us", "SLV-STUDY-0005"),
        ("--apm off --in-flight 0", "in-flight"),
        ("--apm error --lmc 1 --mtbf 0ns", "SLV-TOLERANCE-0023"),
        ("--apm policy --lmc 1 --sample-every 0ns", "SLV-STUDY-0008"),
        ("--rival failover", "SLV-APM"),
        ("--rival striping --apm error", "cannot be used with"),
        ("--rival striping --respecify", "cannot be used with"),
        ("--respecify", "--apm"),
        ("--mttr 1ms --apm off", "--mtbf"),
        ("--trace no-such-file --apm off", "no-such-file"),
        ("--apm off --load 0.5", "cannot be used with"),
        ("--alternate port", "--apm"),
    ] {
        let all: Vec<&str> = TREE.into_iter().chain(words.split(' ')).collect();
        lab.run(&all).exits(2).complains(want);
    }
}
