//! Changes of the policy: what a reload answers, waits for, and rolls back, and which Sets it would send.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Lab, Process, wait_for};

/// On a ring of six switches minimal hops have a credit loop, so the judge refuses `minhop`.
const RING: [&str; 5] = ["run", "--fabric", "ring:switches=6,hosts=1", "--sweep-interval", "1"];
const GOOD: &str = "[routing]\nengines = [\"updn\"]\n";
const BAD: &str = "[routing]\nengines = [\"minhop\"]\n";

fn manager(lab: &Lab) -> Process {
    let config = lab.write("fm.toml", GOOD);
    let process = lab.start(&[&RING[..], &["--config", &config]].concat());
    wait_for("subnet that is up", || (lab.run(&["status"]).code == 0).then_some(()));
    process
}

fn end(process: Process) {
    process.signal("TERM");
    assert_eq!(process.exit_code(), Some(0));
}

/// The changes as `status changes` lists them.
fn changes(lab: &Lab) -> Vec<Value> {
    let all = lab.run(&["status", "changes", "--json"]).exits(0).json();
    assert_eq!(all["schema"], "selvedge.changes");
    all["changes"].as_array().unwrap().clone()
}

fn plan(lab: &Lab) -> Value {
    lab.run(&["status", "plan", "--json"]).exits(0).json()
}

fn sent(lab: &Lab) -> u64 {
    lab.run(&["status", "--json"]).json()["mads"]["sets"].as_u64().unwrap()
}

#[test]
fn a_refused_reload_is_rolled_back_and_the_old_plan_stays() {
    let lab = Lab::new("change-refused");
    let process = manager(&lab);
    let before = plan(&lab);
    let sets = sent(&lab);
    lab.write("fm.toml", BAD);
    lab.run(&["reload"])
        .exits(1)
        .says("change 1 of routing.engines is rolled back")
        .says("minhop")
        .says("SLV-JUDGE-");
    let status = lab.run(&["status"]).exits(1);
    status.says("degraded").says("last change rolled back");
    lab.run(&["health"]).exits(1).says("WARNING");
    let after = plan(&lab);
    assert_eq!((&after["engine"], &after["lids"]), (&before["engine"], &before["lids"]));
    lab.run(&["status", "findings"]).exits(0).says("none");
    assert_eq!(sent(&lab), sets, "no Set is sent for it");
    let listed = changes(&lab);
    assert_eq!(
        (listed.len(), &listed[0]["state"], &listed[0]["serial"]),
        (1, &"rolled_back".into(), &1.into())
    );
    assert!(!listed[0]["findings"].as_array().unwrap().is_empty(), "{listed:?}");
    lab.run(&["status", "changes"]).exits(0).says("rolled back");

    // The signal does the same; nothing waits for it.
    process.signal("HUP");
    wait_for("end of the second change", || {
        changes(&lab)
            .get(1)
            .filter(|change| change["state"] == "rolled_back")
            .cloned()
    });
    let again = lab.run(&["reload", "--json"]).exits(1).json();
    assert_eq!(
        (&again["schema"], &again["serial"]),
        (&"selvedge.change".into(), &3.into())
    );

    // The former file clears the condition: a change that is kept.
    lab.write("fm.toml", GOOD);
    lab.run(&["reload"])
        .exits(0)
        .says("change 4: the policy stays as it is");
    lab.run(&["status"]).exits(0).says("healthy");
    lab.write(
        "fm.toml",
        "[routing]\nengines = [\"updn\"]\nlmc = 1\n[manager]\npriority = 3\n",
    );
    let kept = lab.run(&["reload", "--json"]).exits(0).json();
    assert_eq!(kept["state"], "kept");
    assert_eq!(kept["changed"], serde_json::json!(["routing.lmc"]));
    assert_eq!(kept["needs_restart"], serde_json::json!(["manager.priority"]));
    end(process);
}

/// Waits until the manager has sent no Set for a second.
fn quiet_second(lab: &Lab) {
    let mut last = (sent(lab), Instant::now());
    wait_for("quiet second", || {
        let now = sent(lab);
        if now != last.0 {
            last = (now, Instant::now());
        }
        let is_idle = lab.run(&["status", "--json"]).json()["stage"] == "idle";
        (is_idle && last.1.elapsed() > Duration::from_secs(1)).then_some(())
    });
}

#[test]
fn a_dry_run_lists_the_sets_that_are_sent_then() {
    let lab = Lab::new("change-dry-run");
    let process = manager(&lab);
    quiet_second(&lab);
    let texts = [
        "[routing]\nengines = [\"updn\"]\n[fabric]\npacket_life = 17\n",
        "[routing]\nengines = [\"updn\"]\n[fabric]\npacket_life = 17\nhoq_life = 15\nleaf_hoq_life = 14\n",
        "[routing]\nengines = [\"updn\"]\nlmc = 1\n[fabric]\npacket_life = 17\nhoq_life = 15\nleaf_hoq_life = 14\n",
    ];
    for text in texts {
        lab.write("fm.toml", text);
        let before = (sent(&lab), changes(&lab).len());
        let would = lab.run(&["reload", "--dry-run", "--json"]).exits(0).json();
        assert_eq!(
            (&would["schema"], &would["accepted"]),
            (&"selvedge.would_send".into(), &true.into())
        );
        let listed = would["sets"].as_array().unwrap().len() as u64;
        assert!(listed > 0, "{text}");
        let rows = lab.run(&["reload", "--dry-run", "--csv"]).exits(0).out.lines().count() as u64;
        assert_eq!(rows, listed + 1, "a row each, and the header");
        lab.run(&["reload", "--dry-run"])
            .exits(0)
            .says("nothing was changed")
            .says("S-0");
        assert_eq!((sent(&lab), changes(&lab).len()), before, "a dry run changes nothing");
        lab.run(&["reload"]).exits(0).says("is kept");
        // Multicast tables follow the plan.
        wait_for("all Sets of the change", || {
            (sent(&lab) >= before.0 + listed).then_some(())
        });
        quiet_second(&lab);
        assert_eq!(sent(&lab), before.0 + listed, "{text}: {would:?}");
    }
    // No row for a policy that is in force, and none for one that is refused.
    let would = lab.run(&["reload", "--dry-run", "--json"]).exits(0).json();
    assert_eq!(would["sets"], serde_json::json!([]));
    lab.write("fm.toml", BAD);
    lab.run(&["reload", "--dry-run"])
        .exits(1)
        .says("the change would be rolled back")
        .says("minhop");
    assert_eq!(plan(&lab)["engine"], "updn");
    lab.run(&["status"]).exits(0);
    end(process);
}

#[test]
fn a_dry_run_of_a_first_plan_lists_its_sets() {
    let lab = Lab::new("change-first");
    let run = ["run", "--fabric", "mport:m=4,n=2", "--dry-run"];
    let shown = lab.run(&[&run[..], &["--json"]].concat()).json();
    let listed = shown["would_send"].as_array().unwrap();
    assert_eq!(
        listed.len() as u64,
        shown["status"]["plan"]["changes"]["sets"].as_u64().unwrap()
    );
    let tables = listed.iter().filter(|set| set["attribute"] == "LinearForwardingTable");
    assert_eq!(
        tables.count() as u64,
        shown["status"]["plan"]["changes"]["lft_blocks"].as_u64().unwrap()
    );
    let text = lab.run(&run);
    text.says("what the plan would set").says("S-L1-0").says("LFT BLOCKS");
}
