//! Random changes, faults and sweeps on generated fabrics, and invariants of the record after each of them.

use selvedge_fabric::{LinkState, PortRef, SwitchIdx};
use selvedge_plan::BLOCK_LIDS;
use selvedge_sim::{Rng, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Idx, Lid, LidRange, PortState};

use super::*;
use crate::made::empty_plan;

/// Specifications of fabrics, each with the LifeTimeValue of all its switches.
const SPECS: [&str; 4] = [
    "karytree:k=2,n=2",
    "mesh:3x2,hosts=1",
    "torus:3x3,hosts=1",
    "ring:switches=4,hosts=2",
];
const LIFETIMES: [u8; 4] = [0, 5, 18, 20];

/// A fabric, the tables of its switches, and the record of its changes.
struct World {
    rng: Rng,
    fabric: Arc<Fabric>,
    /// State of the agents, as far as known.
    held: Installed,
    known: Arc<Installed>,
    plan: Arc<Plan>,
    /// True if a Set has not been acknowledged, and its block has not been read since.
    is_unsure: bool,
    now: Time,
    past: Past,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Seed(seed).rng();
        let spec = SPECS[rng.below(4) as usize];
        let Ok(Spec::Generated(recipe)) = spec.parse() else {
            panic!("{spec}")
        };
        let mut fabric = recipe.fabric().unwrap();
        let lifetime = LIFETIMES[rng.below(4) as usize];
        let mut held = Installed::unknown(fabric.switches().len());
        for (switch, &node) in fabric.switches().clone().iter_enumerated() {
            let mut settings = fabric.node(node).switch_settings;
            (settings.lifetime, settings.linear_top) = (lifetime, 99);
            fabric.set_switch(node, settings);
            (0..2).for_each(|block| held.learn(switch, block, [NO_PATH; BLOCK_LIDS]));
        }
        let ends: Vec<PortRef> = fabric.links().flat_map(|link| [link.a, link.b]).collect();
        ends.into_iter().for_each(|at| set(&mut fabric, at, PortState::Active));
        let mut plan = empty_plan();
        for (at, lid) in fabric.end_ports().map(|(at, _)| at).zip((1..).step_by(17).take(6)) {
            plan.lids.insert(at, LidRange::single(Lid(lid))).unwrap();
        }
        Self {
            rng,
            fabric: Arc::new(fabric),
            known: Arc::new(held.clone()),
            held,
            plan: Arc::new(plan),
            is_unsure: false,
            now: Time::from_secs(1),
            past: Past::default(),
        }
    }

    /// Returns a random number below `bound`.
    fn any(&mut self, bound: usize) -> usize {
        self.rng.below(bound as u64) as usize
    }

    /// Changes one entry of some switch. Returns the switch, the block, and its contents before and after.
    fn rewrite(&mut self) -> (SwitchIdx, u16, [[u8; BLOCK_LIDS]; 2]) {
        let switch = SwitchIdx::from_usize(self.any(self.fabric.switches().len()));
        let lid = 1 + 17 * self.any(6);
        let block = lid / BLOCK_LIDS;
        let before = *self.held.block(switch, block).unwrap();
        let mut data = before;
        data[lid % BLOCK_LIDS] = [1, 2, 3, NO_PATH][self.any(4)];
        (switch, block as u16, [before, data])
    }

    fn guid(&self, switch: SwitchIdx) -> Guid {
        self.fabric.switch(switch).guid
    }

    /// Writes blocks in some steps. All are acknowledged, except perhaps the last.
    fn change(&mut self, waited: bool) {
        let mut taken = Taken::default();
        for _ in 0..self.any(4) {
            let (switch, block, [met, data]) = self.rewrite();
            taken.note_sent();
            taken.note((self.guid(switch), block, data), Some(met));
            self.held.learn(switch, block.into(), data);
            if self.any(2) == 0 {
                taken.end_phase();
            }
        }
        if self.any(4) == 0 {
            let (switch, block, [met, data]) = self.rewrite();
            let mut unanswered = Unanswered::default();
            unanswered.note((self.guid(switch), block, data), Some(met));
            self.past.note_unanswered(unanswered);
            let taken = [met, data][self.any(2)];
            self.held.learn(switch, block.into(), taken);
            self.is_unsure = true;
        }
        self.known = Arc::new(self.held.clone());
        let after = After {
            fabric: Arc::clone(&self.fabric),
            plan: Arc::clone(&self.plan),
            installed: Arc::clone(&self.known),
        };
        self.past.add(taken, waited, self.now, after);
    }

    /// Lets a sweep read all tables. `off` is a switch that was powered off.
    fn sweep(&mut self, off: Option<SwitchIdx>) {
        let mut fabric = Fabric::clone(&self.fabric);
        for (switch, &node) in fabric.switches().clone().iter_enumerated() {
            let mut settings = fabric.node(node).switch_settings;
            settings.linear_top = if off == Some(switch) { 0 } else { 99 };
            fabric.set_switch(node, settings);
        }
        if let Some(off) = off {
            (0..2).for_each(|block| self.held.learn(off, block, [NO_PATH; BLOCK_LIDS]));
        }
        let before = (Arc::clone(&self.fabric), Arc::clone(&self.known));
        (self.fabric, self.known) = (Arc::new(fabric), Arc::new(self.held.clone()));
        let before = Some((&*before.0, &*before.1));
        self.past.note_read(&self.fabric, before, &self.known, self.now);
        self.is_unsure = false;
    }

    fn act(&mut self) {
        let ns_max = [1, 4_000, 90_000, 3_000_000_000][self.any(4)];
        self.now += Duration::from_nanos(self.rng.below(ns_max));
        let links: Vec<PortRef> = self.fabric.links().map(|link| link.a).collect();
        let at = links[self.any(links.len())];
        match self.any(12) {
            0..5 => self.change(false),
            5 => self.change(true),
            6 => {
                let state = [PortState::Down, PortState::Init, PortState::Active][self.any(3)];
                set(Arc::make_mut(&mut self.fabric), at, state);
            }
            7 => self.sweep(None),
            8 => {
                let off = SwitchIdx::from_usize(self.any(self.fabric.switches().len()));
                self.sweep(Some(off));
            }
            9 => self
                .past
                .note_emptied(self.fabric.node(at.node).guid, at.port, self.now),
            10 => self.past.settle(self.now),
            _ => drop(self.past.under_way(&self.fabric, self.now)),
        }
    }

    /// Checks that the record contains each written block, its first contents and its current contents.
    fn invariant_blocks_are_as_held(&self) {
        let written = &self.past.recent.written;
        let last: BTreeMap<_, _> = written.blocks().map(|b| ((b.0, b.1), b.2)).collect();
        assert!(last.keys().eq(written.before.keys()));
        for ((guid, block), data) in last.into_iter().filter(|_| !self.is_unsure) {
            let switch = self.fabric.switch_index(self.fabric.find(guid).unwrap()).unwrap();
            assert_eq!(self.held.block(switch, block.into()), Some(&data));
        }
        let is_over = |step: &Step| !step.blocks.is_empty() && step.ended.is_some_and(|ended| ended <= self.now);
        assert!(written.steps.iter().all(is_over));
    }

    /// Checks that every change is reported as long as its packets may be in flight, and not for ever. The results must
    /// be equal before and after `settle`.
    fn invariant_all_is_told_until_it_is_over(&self) {
        let mut settled = self.past.clone();
        settled.settle(self.now);
        assert!(!settled.is_unsettled());
        let (written, left) = (&self.past.recent.written, &settled.recent.written);
        let is_aged = written.before != left.before || !written.blocks().eq(left.blocks());
        let [found, prepared] = [&self.past, &settled].map(|past| past.clone().under_way(&self.fabric, self.now));
        // If no entry has really changed, that becomes known once it is computed.
        assert!(is_aged || found == prepared || prepared.is_none());
        if let Some(found) = prepared {
            let steps = left.steps.len();
            assert_eq!(found.phases.len(), steps);
            assert_eq!(u128::from(found.age_ns), self.now.since(self.past.at).as_nanos());
            assert!(found.emptied.iter().all(|link| link.phases <= steps));
            let node = |switch| self.fabric.switches()[switch];
            for link in &found.lost {
                let port = PortNum::new(link.into).unwrap();
                let to = self
                    .fabric
                    .port(PortRef {
                        node: node(link.to),
                        port,
                    })
                    .unwrap();
                assert!(link.from.is_none() || to.link.state != PortState::Active);
            }
        }
        let later = self.now + 10 * ASSUMED_GONE;
        assert_eq!(settled.under_way(&self.fabric, later), None);
        assert_eq!(settled.fog(later), Duration::ZERO);
    }
}

/// Sets the state of a link at both ends.
fn set(fabric: &mut Fabric, at: PortRef, state: PortState) {
    for at in [Some(at), fabric.peer(at)].into_iter().flatten() {
        let (link, settings) = fabric.port(at).map(|port| (port.link, port.settings)).unwrap();
        fabric.set_port(at, LinkState { state, ..link }, settings);
    }
}

#[test]
fn nothing_is_forgotten_too_early_or_never() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        for _ in 0..40 {
            world.act();
            world.invariant_blocks_are_as_held();
            world.invariant_all_is_told_until_it_is_over();
        }
    }
}
