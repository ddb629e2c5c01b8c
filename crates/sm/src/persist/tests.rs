//! Tests when a state is stored, and which plan waits until it is stored.

use std::sync::Arc;

use selvedge_plan::Lids;
use selvedge_types::PortNum;
use selvedge_wire::LocalPort;

use super::*;
use crate::config::Mode;
use crate::made::{FAR, FIRST, NEAR, SECOND, empty_plan, inventory, place, row};

/// The stored state of the fabric of [`row`] (host, two switches, host).
struct Bench {
    persist: Persist,
    config: Config,
    inventory: Inventory,
}

impl Bench {
    fn new(state: PersistentState) -> Self {
        let local = LocalPort {
            node_guid: Guid(1),
            port_guid: Guid(2),
            port: PortNum::MANAGEMENT,
        };
        Self {
            persist: Persist::new(state),
            config: Config::new(Mode::Manage, local, Arc::default()),
            inventory: inventory(row()),
        }
    }

    /// Hands in one input; returns the requests to store, and names of other effects.
    fn hand(&mut self, input: In<'_>) -> (Vec<(u64, PersistentState)>, Vec<&'static str>) {
        let ctx = Ctx {
            config: &self.config,
            in_force: None,
        };
        let mut effects = Vec::new();
        self.persist.handle(&ctx, input, &mut effects);
        let (mut stored, mut others) = (Vec::new(), Vec::new());
        for effect in effects {
            match effect {
                Effect::Store { id, state } => stored.push((id, *state)),
                Effect::ReplacePlan => others.push("replace"),
                Effect::AdmitPorts => others.push("admit"),
            }
        }
        (stored, others)
    }

    /// Accepts a plan that gives the hosts these LIDs; returns the numbers of requests to store.
    fn accept(&mut self, generation: u64, lids: [u16; 2]) -> Vec<u64> {
        let mut plan = empty_plan();
        plan.generation = Generation(generation);
        let mut claims = BTreeMap::new();
        plan.lids = Lids::new();
        for (node, lid) in [NEAR, FAR].into_iter().zip(lids) {
            let (at, range) = (place(&self.inventory, node, 1), LidRange::single(Lid(lid)));
            plan.lids.insert(at, range).unwrap();
            claims.insert(self.inventory.fabric.port(at).unwrap().guid, range);
        }
        let (inventory, aside) = (self.inventory.clone(), BTreeMap::new());
        let input = In::Accepted {
            inventory: &inventory,
            plan: &plan,
            lids: KnownLids {
                claims,
                befores: BTreeMap::new(),
                aside: &aside,
            },
        };
        let (stored, others) = self.hand(input);
        assert!(others.is_empty());
        stored.into_iter().map(|(id, _)| id).collect()
    }
}

#[test]
fn a_plan_waits_until_what_it_gives_out_is_stored() {
    let mut bench = Bench::new(PersistentState::default());
    assert_eq!(bench.accept(1, [1, 2]), [1]);
    assert!(!bench.persist.is_plan_stored());
    bench.hand(In::Stored(1));
    assert!(bench.persist.is_plan_stored());
    // The next one gives out nothing new, and its generation is covered.
    assert!(bench.accept(2, [1, 2]).is_empty());
    assert!(bench.persist.is_plan_stored());
    assert_eq!(bench.accept(3, [1, 3]), [2]);
    assert!(!bench.persist.is_plan_stored());
}

#[test]
fn a_plan_that_gives_out_nothing_new_does_not_wait_for_a_full_disk() {
    let mut bench = Bench::new(PersistentState::default());
    assert_eq!(bench.accept(1, [1, 2]), [1]);
    assert_eq!(bench.hand(In::NotStored(1)).1, ["replace"]);
    // Each attempt is reported.
    assert!(bench.hand(In::NotStored(1)).1.is_empty());
    assert!(bench.persist.is_failing());
    assert!(bench.accept(2, [1, 2]).is_empty());
    assert!(
        !bench.persist.is_plan_stored(),
        "the LIDs of the first plan are not on the disk"
    );

    let mut bench = Bench::new(PersistentState::default());
    bench.accept(1, [1, 2]);
    bench.hand(In::Stored(1));
    assert_eq!(bench.accept(GENERATIONS_AHEAD + 2, [1, 2]), [2]);
    bench.hand(In::NotStored(2));
    assert!(bench.accept(GENERATIONS_AHEAD + 3, [1, 2]).is_empty());
    assert!(bench.persist.is_plan_stored(), "only the generation is not on the disk");
}

#[test]
fn ports_that_were_left_out_are_admitted_when_the_disk_works() {
    let check = |fails: bool, mode: Mode, stored: &[usize], want: &[usize]| {
        let found = row();
        let lid = |&node: &usize| (found[node].info.port_guid, LidRange::single(Lid(9)));
        let mut bench = Bench::new(PersistentState {
            lids: stored.iter().map(lid).collect(),
            ..PersistentState::default()
        });
        bench.config.mode = mode;
        bench.hand(In::Repair(Generation(1)));
        if fails {
            bench.hand(In::NotStored(1));
        }
        let ctx = Ctx {
            config: &bench.config,
            in_force: None,
        };
        let nodes = bench.persist.nodes_to_leave_out(&ctx, &found);
        assert_eq!(
            nodes.iter().flatten().copied().collect::<Vec<_>>(),
            want,
            "{fails} {mode:?} {stored:?}"
        );
        bench.hand(In::LeavesOut(nodes.is_some()));
        assert!(bench.hand(In::Stored(0)).1.is_empty());
        let admitted = bench.hand(In::Stored(1)).1;
        assert_eq!(admitted.len(), usize::from(nodes.is_some()), "{admitted:?}");
        assert!(bench.hand(In::Stored(1)).1.is_empty());
    };
    check(true, Mode::Manage, &[FIRST], &[SECOND, FAR]);
    check(true, Mode::Manage, &[FIRST, SECOND], &[]);
    // Nothing but the manager's own node would be left.
    check(true, Mode::Manage, &[SECOND], &[]);
    check(true, Mode::Watch, &[FIRST], &[]);
    check(false, Mode::Manage, &[FIRST], &[]);
}

#[test]
fn the_levels_of_another_master_are_not_taken_for_those_of_this_manager() {
    let state = PersistentState {
        lanes: [(Guid(1), 1)].into(),
        engines: vec![empty_plan().engine],
        lane_count: 4,
        lanes_wanted: 4,
        ..PersistentState::default()
    };
    let mut bench = Bench::new(state);
    let none = BTreeMap::new();
    let known = || KnownLids {
        claims: BTreeMap::new(),
        befores: BTreeMap::new(),
        aside: &none,
    };
    let (stored, _) = bench.hand(In::StoodBy(known()));
    assert_eq!(stored, [(1, PersistentState::default())]);
    assert!(bench.hand(In::StoodBy(known())).0.is_empty());
    // A copy is stored with the next plan, not by itself.
    let told = ToldLevels {
        by: Lid(7),
        lanes: 2,
        by_port: [(Guid(5), vec![1])].into(),
    };
    assert!(bench.hand(In::Copied(told)).0.is_empty());
    assert_eq!(
        (bench.persist.state.lane_count, bench.persist.levels_by),
        (2, Some(Lid(7)))
    );
}

#[test]
fn generations_are_stored_ahead() {
    let mut bench = Bench::new(PersistentState::default());
    let stored = |bench: &mut Bench, generation: u64| {
        let (stored, _) = bench.hand(In::Repair(Generation(generation)));
        stored
            .into_iter()
            .map(|(_, state)| state.generation.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(stored(&mut bench, 1), [GENERATIONS_AHEAD + 1]);
    assert!(stored(&mut bench, GENERATIONS_AHEAD + 1).is_empty());
    assert_eq!(stored(&mut bench, GENERATIONS_AHEAD + 2), [2 * GENERATIONS_AHEAD + 2]);
}

#[test]
fn keys_are_on_the_disk_once_the_newest_state_is() {
    let keys = |keys: &[u64]| keys.iter().copied().map(SecretKey::new).collect::<Vec<_>>();
    let mut bench = Bench::new(PersistentState::default());
    let retired = Vec::new;
    let note = |held| In::Keys {
        held,
        retired: retired(),
        at_once: false,
    };
    // Nothing waits for a key that ports without one get: it is stored with the next plan.
    assert!(bench.hand(note(keys(&[1]))).0.is_empty());
    assert_eq!(bench.accept(1, [1, 2]), [1]);
    bench.hand(In::Stored(1));
    let store = |held| In::Keys {
        held,
        retired: retired(),
        at_once: true,
    };
    let (stored, _) = bench.hand(store(keys(&[2, 1])));
    assert_eq!((stored[0].0, &stored[0].1.m_keys), (2, &keys(&[2, 1])));
    assert!(bench.hand(store(keys(&[2, 1]))).0.is_empty());
    assert_eq!(bench.persist.keys_on_disk(), keys(&[1]));
    // Another request follows, and the disk fails in between. A plan does not wait for the key.
    bench.hand(In::NotStored(2));
    assert!(bench.accept(2, [1, 2]).is_empty());
    assert!(bench.persist.is_plan_stored());
    assert_eq!(
        bench.hand(In::Repair(Generation(GENERATIONS_AHEAD + 5))).0[0].1.m_keys,
        keys(&[2, 1])
    );
    bench.hand(In::Stored(2));
    assert_eq!(bench.persist.keys_on_disk(), keys(&[1]));
    bench.hand(In::Stored(3));
    assert_eq!(bench.persist.keys_on_disk(), keys(&[2, 1]));
    // Another fabric's state is dropped; its keys may still be those of these ports.
    bench.hand(In::Foreign);
    assert_eq!(bench.persist.keys_on_disk(), keys(&[2, 1]));
    let (stored, _) = bench.hand(In::SmKeys(keys(&[5, 1])));
    assert_eq!(stored[0].1.sm_keys, keys(&[5, 1]));
}
