//! `route` and `compare`: figures, lists of engines, files that other programs can judge, charts.

use std::collections::BTreeMap;

use crate::support::Lab;
use selvedge_experiment::misfits::misfits;
use serde_json::Value;

/// Routes with arguments of a command line, and checks some of the figures.
fn check_figures(lab: &Lab, args: &str, want: Value) -> Value {
    let route = ["route", "--json", "--threads", "1", "--fabric"];
    let words: Vec<&str> = args.split(' ').collect();
    let found = lab.run(&[&route[..], &words[..]].concat()).exits(0).json();
    for (key, want) in want.as_object().unwrap() {
        assert_eq!(found[key], *want, "{args}: {key} of {found}");
    }
    let times = ["compute_ms", "cold_ms", "verify_ms", "contention_ms"];
    let figures = ["mean_load", "mean_hops", "sd_load", "dependencies"];
    for key in times.iter().chain(&figures) {
        assert!(found[*key].is_number(), "{args}: {key} of {found}");
    }
    assert!(found["peak_rss_bytes"].as_u64().unwrap() > 1_000_000);
    found
}

#[test]
fn a_routing_has_all_figures() {
    let lab = Lab::new("figures");
    let want = serde_json::json!({
        "schema": "selvedge.route", "version": 1, "engine": "fat-tree", "engines": ["auto"], "ok": true,
        "max_load": 306, "mean_load": 306.0, "mean_hops": 2.0, "lanes_used": 1, "deadlock_free": true,
        "unreachable_pairs": 0, "shift_max": 1, "stretch_mean": 1.0, "threads": 1, "repeats": 3,
    });
    let whole = check_figures(&lab, "sx6536 --repeat 3", want);
    assert!(whole["detect_ms"].is_number());
    let ebb = ["ebb_low", "ebb", "ebb_high"].map(|key| whole[key].as_f64().unwrap());
    assert!(ebb.is_sorted() && ebb[0] > 0.8 && ebb[2] < 0.85, "{ebb:?}");
    let want = serde_json::json!({ "lanes_used": 4, "vls": 4, "effort": "best", "detect_ms": null });
    let args = "torus:4x4,hosts=1 --engine weave --vls 4 --effort best";
    let on_lanes = check_figures(&lab, args, want);
    assert_eq!(on_lanes["figures"]["lanes"].as_array().unwrap().len(), 4);
    let plain = [
        "route",
        "--fabric",
        "ring:switches=4,hosts=1",
        "--no-contention",
        "--json",
    ];
    let plain = lab.run(&plain).exits(0).json();
    assert_eq!((&plain["ebb"], &plain["contention"]), (&Value::Null, &Value::Null));
    lab.run(&["route", "--fabric", "sx6536", "--rebalance", "minimal"])
        .exits(0)
        .says("effective bisection bandwidth, 1,000 pairings")
        .says("in all 323 shifts");
}

/// Times apart, a routing is the same whatever the threads.
#[test]
fn figures_do_not_depend_on_threads() {
    let lab = Lab::new("threads");
    let on = |threads: &str| {
        let args = [
            "route",
            "--fabric",
            "random:switches=24,degree=4,hosts=2,seed=5",
            "--vls",
            "2",
            "--json",
        ];
        let mut found = lab.run(&[&args[..], &["--threads", threads]].concat()).exits(0).json();
        let fields = found.as_object_mut().unwrap();
        fields.retain(|key, _| !key.ends_with("_ms") && !key.ends_with("_bytes") && key != "threads");
        found
    };
    assert_eq!(on("1"), on("3"));
}

#[test]
fn lists_of_engines_are_tried_in_order() {
    let lab = Lab::new("lists");
    let ring = ["route", "--fabric", "ring:switches=5,hosts=1", "--json", "--engine"];
    let check = |list: &str, engine: &str, notes: &[&str]| {
        let ran = lab.run(&[&ring[..], &[list]].concat()).exits(0);
        assert_eq!(ran.json()["engine"], engine, "{list}");
        for note in notes {
            assert!(ran.err.contains(note), "{list}: no '{note}' in {}", ran.err);
        }
    };
    check(
        "fat-tree,weave",
        "weave",
        &["SLV-ROUTE-0133: engine fat-tree is not used: SLV-ROUTE-0011"],
    );
    check(
        "minhop,updn",
        "updn",
        &["SLV-ROUTE-0133: engine minhop is not used: SLV-JUDGE-0200"],
    );
    check(
        "ftree,file,auto",
        "weave",
        &["SLV-ROUTE-0004", "SLV-ROUTE-0007", "SLV-ROUTE-0131", "SLV-ROUTE-0132"],
    );
    // The last one's tables are shown, good or not; the last one's refusal is the answer.
    lab.run(&[&ring[..], &["ftree,minhop"]].concat()).exits(1);
    lab.run(&[&ring[..], &["minhop,fat-tree"]].concat())
        .exits(2)
        .complains("SLV-ROUTE-0011")
        .complains("minhop is not used");
    lab.run(&[&ring[..], &["updn,"]].concat())
        .exits(2)
        .complains("SLV-ROUTE-0001");
}

/// Written files are judged again from the files alone, on several lanes too, and by a few lines that share no code
/// with Selvedge.
#[test]
fn files_that_are_written_can_be_judged_by_anyone() {
    let lab = Lab::new("files");
    let check = |fabric: &str, engine: &str, vls: &str| {
        let [lids, lfts, sls, sl2vl] = ["lids", "lfts", "sls", "sl2vl"].map(|name| lab.path(name));
        let route = ["route", "--fabric", fabric, "--engine", engine, "--vls", vls, "--json"];
        let outputs = [
            "--lids-out",
            &lids,
            "--lfts-out",
            &lfts,
            "--sl-out",
            &sls,
            "--sl2vl-out",
            &sl2vl,
        ];
        let routed = lab.run(&[&route[..], &outputs[..]].concat()).exits(0).json();
        let verify = ["verify", "--fabric", fabric, "--lfts", &lfts, "--lids", &lids, "--json"];
        let judged = lab
            .run(&[&verify[..], &["--sls", &sls, "--sl2vl", &sl2vl]].concat())
            .exits(0)
            .json();
        assert_eq!(judged["figures"], routed["figures"], "{fabric} {engine} {vls}");
        assert_eq!(
            levels(&lab.read("sls")),
            routed["lanes_used"].as_u64().unwrap(),
            "{fabric}"
        );
        let (max_load, mean_hops) = busiest(&lab, fabric);
        assert_eq!(routed["max_load"], max_load, "{fabric}");
        assert!(
            (routed["mean_hops"].as_f64().unwrap() - mean_hops).abs() < 1e-9,
            "{fabric}"
        );
        // Without its lanes a routing on several can deadlock.
        if routed["lanes_used"] != 1 {
            lab.run(&verify).exits(1).says("SLV-JUDGE-0006");
        }
    };
    check("karytree:k=3,n=2", "fat-tree", "1");
    check("torus:5x5,hosts=1", "weave", "4");
    check("torus:4x4,hosts=2,guids=shuffled", "dfsssp", "8");
}

fn levels(text: &str) -> u64 {
    let levels: std::collections::BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    levels.len() as u64
}

/// Walks every host pair through the dump of tables, over the cables of the fabric: the busiest port and the mean way.
fn busiest(lab: &Lab, fabric: &str) -> (u64, f64) {
    let shown = lab
        .run(&["topology", "show", fabric, "--links", "--json"])
        .exits(0)
        .json();
    let mut peer = BTreeMap::new();
    for link in shown["links"].as_array().unwrap() {
        let end = |end: &Value| {
            (
                end["node_name"].as_str().unwrap().to_owned(),
                end["port"].as_u64().unwrap(),
            )
        };
        let (a, b) = (end(&link["a"]), end(&link["b"]));
        peer.insert(a.clone(), b.clone());
        peer.insert(b, a);
    }
    // Ports by switch and LID; hosts by LID.
    let mut tables: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    let mut hosts = BTreeMap::new();
    let mut switch = String::new();
    for line in lab.read("lfts").lines() {
        let name = line.split('\'').nth(1).unwrap_or_default().to_owned();
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if line.starts_with("Unicast lids") {
            switch = name;
        } else if line.starts_with("0x") {
            let entries = tables.entry(switch.clone()).or_default();
            entries.insert(words[0].to_owned(), words[1].parse().unwrap());
            if line.contains("# Channel Adapter") {
                hosts.insert(words[0].to_owned(), name);
            }
        }
    }
    let (mut loads, mut steps, mut far) = (BTreeMap::new(), 0, 0);
    for from in hosts.values() {
        for (lid, to) in hosts.iter().filter(|(_, to)| *to != from) {
            let mut at = peer[&(from.clone(), 1)].0.clone();
            let first = steps;
            while at != *to {
                let out = (at.clone(), tables[&at][lid]);
                at = peer[&out].0.clone();
                if tables.contains_key(&at) {
                    *loads.entry(out).or_insert(0) += 1;
                    steps += 1;
                }
            }
            far += u64::from(steps > first);
        }
    }
    (loads.into_values().max().unwrap(), steps as f64 / far as f64)
}

#[test]
fn engines_are_compared() {
    let lab = Lab::new("compare");
    let (svg, runs) = (lab.path("chart.svg"), lab.path("runs.csv"));
    let compare = [
        "compare",
        "--fabric",
        "sx6536",
        "--engines",
        "fat-tree,minhop,ftree,weave",
        "--faults",
        "1%,20",
    ];
    let more = ["--seeds", "21-22", "--vls", "1,2", "--pairings", "50"];
    let all = [&compare[..], &more[..]].concat();
    let found = lab
        .run(&[&all[..], &["--json", "--svg", &svg, "--runs", &runs]].concat())
        .exits(0)
        .json();
    assert_eq!(found["schema"], "selvedge.comparison");
    let rows = found["rows"].as_array().unwrap();
    let series = ["fat-tree, 1", "fat-tree, 2", "minhop", "ftree", "weave, 1", "weave, 2"].len();
    assert_eq!(rows.len(), 3 * series, "the whole fabric and two levels");
    assert_eq!(found["runs"].as_array().unwrap().len(), 5 * series);
    let row = |engine: &str, faults: &str| {
        rows.iter()
            .find(|row| row["engine"] == engine && row["faults"] == faults)
            .unwrap()
    };
    assert_eq!(
        (&row("fat-tree", "0")["max_load"], &row("fat-tree", "0")["runs"]),
        (&306.0.into(), &1.into())
    );
    assert_eq!(
        (&row("ftree", "1%")["refused"], &row("ftree", "1%")["good"]),
        (&2.into(), &0.into())
    );
    assert_eq!(
        (&row("fat-tree", "20")["deadlock_free"], &row("minhop", "20")["runs"]),
        (&2.into(), &2.into())
    );
    let lost = |run: &Value| {
        (
            run["faults"].as_str().unwrap().to_owned(),
            run["links_lost"].as_u64().unwrap(),
        )
    };
    let lost: std::collections::BTreeSet<_> = found["runs"].as_array().unwrap().iter().map(lost).collect();
    assert_eq!(lost.into_iter().map(|(_, links)| links).collect::<Vec<_>>(), [0, 3, 20]);
    let chart = lab.read("chart.svg");
    for text in [
        "<svg",
        "Busiest link",
        "fat-tree",
        "1% of links lost",
        "20 links lost",
        "weave, 2 VL",
    ] {
        assert!(chart.contains(text), "{text}");
    }
    assert_eq!(misfits(&chart), [] as [&str; 0]);
    assert_eq!(lab.read("runs.csv").lines().count(), 1 + 5 * series);
    lab.run(&all).exits(0).says("MAX LOAD").says("REFUSED");
    let csv = lab.run(&[&all[..], &["--csv"]].concat()).exits(0).out;
    assert_eq!(csv.lines().count(), 1 + 3 * series);
}

#[test]
fn comparisons_that_make_no_sense_are_refused() {
    let lab = Lab::new("no-comparison");
    let compare = ["compare", "--fabric", "sx6536"];
    let bad = |args: &[&str], want: &str| {
        lab.run(&[&compare[..], args].concat()).exits(2).complains(want);
    };
    bad(&["--seeds", "0"], "--seeds 0: want a number");
    bad(&["--faults", "many"], "--faults many: want a number of links");
    bad(&["--engines", "weaver"], "did you mean 'weave'?");
    bad(&["--svg", "no/such/folder"], "SLV-CLI-0002");
}
