//! Results on fat trees that other simulators or proofs also have.

use selvedge_dataplane::Queueing;

use super::support::{Lab, near};

fn tree() -> Lab {
    Lab::new("karytree:k=18,n=2", "fat-tree").with(|s| (s.warmup_ns, s.duration_ns) = (60_000, 120_000))
}

/// Ranges of four other simulators for 324 hosts, uniform traffic at saturation.
#[test]
fn saturation_of_324_hosts_lies_where_other_simulators_have_it() {
    let check = |lab: Lab, low: f64, high: f64| {
        let found = lab.run("uniform", "bernoulli", 1.0).results.accepted_load;
        assert!((low..=high).contains(&found), "{low} to {high}: {found}");
    };
    check(tree(), 0.48, 0.56);
    check(
        tree().with(|s| {
            s.vls = 4;
            s.sl = selvedge_dataplane::SlChoice::Random;
        }),
        0.73,
        0.93,
    );
    check(
        tree().with(|s| {
            s.queueing = Queueing::Voq;
            s.speedup = 7;
            // The other simulator has half of this before its crossbar and half behind it.
            s.buffers.per_vl_blocks = Some(264);
        }),
        0.85,
        0.95,
    );
}

#[test]
fn low_load_is_accepted_whole() {
    for load in [0.1, 0.3, 0.45] {
        let found = tree().run("uniform", "bernoulli", load).results;
        near(found.offered_load, load, 0.02, "offered");
        near(found.accepted_load, load, 0.02, "accepted");
    }
}

/// Zahavi et al.: flows of shift permutations share no link on a complete tree if each downward link serves one
/// destination.
#[test]
fn every_shift_is_free_of_contention() {
    let lab = tree().with(|s| (s.warmup_ns, s.duration_ns) = (3_000, 4_000));
    for by in 1..324 {
        let found = lab.run(&format!("shift:by={by}"), "even", 1.0);
        near(found.results.accepted_load, 1.0, 0.01, &format!("shift by {by}"));
    }
}

/// Hosts of one switch among each other use no link between switches.
#[test]
fn permutations_inside_a_leaf_run_at_full_rate() {
    let lab = tree();
    let leaf: Vec<String> = (0..18).map(|i| format!("{i}>{}", (i + 7) % 18)).collect();
    let found = lab.run(&format!("pairs:{}", leaf.join(",")), "even", 1.0);
    near(found.results.accepted_load * 324.0 / 18.0, 1.0, 0.002, "inside a leaf");
    assert_eq!(found.results.links.max, 0.0);
}
