//! Recent changes of tables, by whose old entries packets may still be under way.
//!
//! [`Past`] is an account of values: what was written, when it was acknowledged, which links were lost since. From it
//! follow how long packets of old entries matter, and the [`UnderWay`] that plans and proofs take into account.

mod aged;
mod asleep;
mod leaving;
mod lost;
mod reset;
mod taken;
mod unanswered;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::Fabric;
use selvedge_plan::{BlockOf, EmptiedLink, Installed, LostLink, NO_PATH, Plan, UnderWay};
use selvedge_sim::Time;
use selvedge_types::{Guid, PortNum};
use selvedge_verify::phases::{drain_bound_ns, lifetimes_after};

pub use self::asleep::with_links_asleep;
pub use self::leaving::leaving;
pub(crate) use self::lost::lost;
use self::lost::{Lost, lost_since};
use self::reset::Gone;
pub use self::taken::{Taken, goes_unnoticed};
pub use self::unanswered::Unanswered;

/// Lifetimes after which packets to hosts are where packets of the entries in force are as well, whichever entries sent
/// them.
pub(crate) const FOG_LIFETIMES: u32 = 2;
/// Where switches keep packets for ever, packets of an earlier change are assumed to be gone after this time. Nothing
/// bounds it.
pub(crate) const ASSUMED_GONE: Duration = Duration::from_secs(60);

/// The fabric, LIDs and tables after a change.
#[derive(Clone, Debug)]
pub struct After {
    /// What agents hold.
    pub fabric: Arc<Fabric>,
    /// The plan, with the owners of LIDs.
    pub plan: Arc<Plan>,
    /// Tables as acknowledged.
    pub installed: Arc<Installed>,
}

/// The last changes, until packets of their old entries are gone.
#[derive(Clone, Debug, Default)]
pub struct Past {
    taken: Taken,
    /// When the last step was acknowledged.
    at: Time,
    /// How many lifetimes after that its packets matter, once it is known.
    lifetimes: u32,
    /// When the last block was acknowledged, also if its switch forwards no packet otherwise for that.
    sent_at: Time,
    /// The longest of the switches that it was for: some may be out of sight now, and keep packets all the same.
    longest: u8,
    /// What it is to be worked out from, until it is.
    after: Option<After>,
    /// What will be told of the last fabric, but for how long ago it was.
    prepared: Option<Prepared>,
    /// The fabric after the last change.
    last: Option<Arc<Fabric>>,
    /// Links that had carried packets, and did not after some change.
    lost: BTreeSet<Lost>,
    /// Ends of links that were seen not to be ACTIVE, and came back: what had waited there was discarded by then.
    emptied: BTreeMap<(Guid, u8), Time>,
    /// Until when packets may be under way by entries that nobody knows.
    fog_until: Time,
    /// What switches held that are out of sight.
    gone: Gone,
    /// What nobody acknowledged.
    unanswered: Unanswered,
    /// Counts its changes: what was worked out of an earlier one is of no use.
    revision: u64,
}

/// What is known of packets under way on a fabric, worked out while nobody waits for it.
#[derive(Clone, Debug)]
struct Prepared {
    /// The fabric: this very snapshot.
    fabric: Arc<Fabric>,
    /// How long after the last step its packets matter; `None`: nothing bounds it.
    bound_ns: Option<u64>,
    blocks: UnderWay,
}

impl Past {
    /// Adds a change that was applied, wholly or up to a wait. `waited`: it has let packets drain on its way.
    pub fn add(&mut self, mut taken: Taken, waited: bool, now: Time, after: After) {
        taken.end_phase();
        self.revision += 1;
        if taken.is_sent {
            self.sent_at = now;
        }
        if taken.is_blind {
            self.fog_from(now, &after.fabric);
        }
        if waited {
            self.forget();
        }
        if taken.is_empty() && self.taken.is_empty() {
            return;
        }
        // Also where no table changed, as when a link is back: looking for what was lost since must not be left to the
        // next repair.
        if let Some(last) = self.last.replace(Arc::clone(&after.fabric)) {
            self.lost.extend(lost_since(&last, &after.fabric));
            // Should they go down again, that will be seen: where links come and go for hours this must not grow.
            let is_back = |link: &Lost| link.found_in(&after.fabric).is_some_and(|(_, is_back)| is_back);
            self.lost.retain(|link| !is_back(link));
        }
        if taken.is_empty() {
            return;
        }
        self.prepared = None;
        self.at = now;
        self.taken.follow(taken, now);
        self.longest = longest(&after.fabric).max(self.longest);
        if self.taken.is_long() {
            // Nobody had time to do so.
            self.forget_aged(now, &after);
        }
        let fabric = Arc::clone(&after.fabric);
        self.after = Some(after);
        if std::mem::take(&mut self.taken.is_blind) {
            self.fog_from(now, &fabric);
        }
    }

    /// Returns true if it is not known yet how long packets under way matter.
    pub fn is_unsettled(&self) -> bool {
        self.after.is_some() || self.last.as_ref().is_some_and(|last| self.prepared_for(last).is_none())
    }

    /// Returns true if packets may be under way, and it is known for how long they matter.
    pub fn is_settled_with_some(&self) -> bool {
        !self.taken.is_empty() && !self.is_unsettled()
    }

    /// Takes what was worked out on a copy of this, unless changes were added since; returns false then.
    pub fn take_settled(&mut self, settled: Self) -> bool {
        let is_of_this = settled.revision == self.revision;
        if is_of_this {
            *self = settled;
        }
        is_of_this
    }

    /// Works out how long packets under way matter, unless that is known. It takes some milliseconds in a large fabric,
    /// and a repair must not wait for that: it is a job.
    pub fn settle(&mut self, now: Time) {
        if let Some(after) = self.after.clone() {
            self.know_lifetimes();
            self.forget_aged(now, &after);
        }
        if let Some(fabric) = self.last.clone().filter(|last| self.prepared_for(last).is_none()) {
            self.prepared = Some(Prepared {
                bound_ns: self.bound_ns(&fabric),
                blocks: self.blocks_on(&fabric),
                fabric,
            });
        }
    }

    fn know_lifetimes(&mut self) {
        if let Some(after) = self.after.take() {
            let entry = |switch, lid| after.installed.get(switch, lid).unwrap_or(NO_PATH);
            self.lifetimes = lifetimes_after(&after.fabric, &after.plan.lids, entry, self.taken.lids());
        }
    }

    fn prepared_for(&self, fabric: &Fabric) -> Option<&Prepared> {
        let prepared = self.prepared.as_ref();
        prepared.filter(|prepared| std::ptr::eq(Arc::as_ptr(&prepared.fabric), fabric))
    }

    fn bound_ns(&self, fabric: &Fabric) -> Option<u64> {
        drain_bound_ns([longest(fabric).max(self.longest)], self.lifetimes)
    }

    /// Blocks that have changed, by the numbers that switches have in a fabric.
    fn blocks_on(&self, fabric: &Fabric) -> UnderWay {
        let switch = |guid: Guid| fabric.find(guid).and_then(|node| fabric.switch_index(node));
        let before = self.taken.before.iter();
        let step = |step: &Vec<BlockOf<Guid>>| {
            let blocks = step
                .iter()
                .filter_map(|(guid, block, data)| Some((switch(*guid)?, *block, *data)));
            blocks.collect()
        };
        UnderWay {
            before: before
                .filter_map(|((guid, block), data)| Some((switch(*guid)?, *block, *data)))
                .collect(),
            phases: self.taken.steps.iter().map(step).collect(),
            ..UnderWay::default()
        }
    }

    /// All packets are gone that were under way.
    fn forget(&mut self) {
        self.revision += 1;
        self.taken.clear();
        (self.last, self.after, self.prepared) = (None, None, None);
        self.lost.clear();
        self.emptied.clear();
        self.longest = 0;
    }

    /// Records that a switch port was not ACTIVE some time after `asked`. Only a manager makes it ACTIVE again: no
    /// packet waits for it by an entry that was replaced before.
    pub fn note_emptied(&mut self, switch: Guid, port: PortNum, asked: Time) {
        if !self.taken.is_empty() {
            self.revision += 1;
            self.emptied.insert((switch, port.get()), asked);
        }
    }

    /// Those ends on a fabric, each with the number of steps that had been taken when it was asked.
    fn emptied_on(&self, fabric: &Fabric) -> Vec<EmptiedLink> {
        let of = |(&(switch, port), asked): (&(Guid, u8), &Time)| {
            let is_over = |ended: &&Time| **ended != Time::ZERO && **ended <= *asked;
            Some(EmptiedLink {
                from: fabric.switch_index(fabric.find(switch)?)?,
                port,
                phases: self.taken.ended.iter().take_while(is_over).count(),
            })
        };
        self.emptied.iter().filter_map(of).collect()
    }

    /// Records that tables are not what the last change made of them: some of its Sets reached other agents.
    pub fn note_astray(&mut self, fabric: &Fabric) {
        self.fog_from(self.at.max(self.sent_at), fabric);
    }

    /// Records that another manager was master until now: its last changes are not known.
    pub fn note_stranger(&mut self, now: Time, fabric: &Fabric) {
        self.fog_from(now, fabric);
    }

    /// Packets that were under way then may have been forwarded by entries that nobody knows.
    fn fog_from(&mut self, at: Time, fabric: &Fabric) {
        self.revision += 1;
        self.know_lifetimes();
        let longest = longest(fabric).max(self.longest);
        let bound = drain_bound_ns([longest], self.lifetimes.max(FOG_LIFETIMES));
        let until = at + bound.map_or(ASSUMED_GONE, Duration::from_nanos);
        self.fog_until = self.fog_until.max(until);
    }

    /// Returns for how much longer packets may be under way by unknown entries. No proof can take them into account, so
    /// a change of tables waits for that long.
    pub fn fog(&self, now: Time) -> Duration {
        self.fog_until.since(now)
    }

    /// Links that have gone down since the first of the changes.
    fn lost_until(&self, now: &Fabric) -> Vec<LostLink> {
        let of_last = self.last.as_ref().map_or_else(Vec::new, |last| lost_since(last, now));
        let all = self.lost.iter().chain(&of_last);
        let mut lost: Vec<LostLink> = all.filter_map(|link| link.in_fabric(now)).collect();
        lost.sort_unstable();
        lost.dedup();
        lost
    }

    /// True if packets of a step that was taken then are gone, whatever has changed.
    fn is_waited_out(&self, fabric: &Fabric, at: Time, now: Time) -> bool {
        !self.is_surely_under_way(now.since(at), fabric)
    }

    /// True if packets are taken to be under way after so long, whatever has changed: every change of an entry matters
    /// for so many lifetimes at least.
    fn is_surely_under_way(&self, age: Duration, fabric: &Fabric) -> bool {
        let least = drain_bound_ns([longest(fabric).max(self.longest)], FOG_LIFETIMES);
        age < least.map_or(ASSUMED_GONE, Duration::from_nanos)
    }

    /// Returns what may still be under way on a fabric; `None`: nothing.
    pub fn under_way(&mut self, fabric: &Fabric, now: Time) -> Option<Arc<UnderWay>> {
        if self.taken.is_empty() {
            return None;
        }
        let age = now.since(self.at);
        // Nobody has to work out how long they matter who comes before the shortest time there is.
        if self.after.is_none() || !self.is_surely_under_way(age, fabric) {
            self.know_lifetimes();
            let prepared = self.prepared_for(fabric);
            let bound = prepared.map_or_else(|| self.bound_ns(fabric), |prepared| prepared.bound_ns);
            if age >= bound.map_or(ASSUMED_GONE, Duration::from_nanos) {
                self.forget();
                return None;
            }
        }
        let prepared = self.prepared_for(fabric);
        let blocks = prepared.map_or_else(|| self.blocks_on(fabric), |prepared| prepared.blocks.clone());
        Some(Arc::new(UnderWay {
            age_ns: u64::try_from(age.as_nanos()).unwrap_or(u64::MAX),
            lost: self.lost_until(fabric),
            emptied: self.emptied_on(fabric),
            ..blocks
        }))
    }
}

/// LifeTimeValue of the switch that keeps packets longest.
fn longest(fabric: &Fabric) -> u8 {
    let switches = fabric.switches().iter();
    let lifetimes = switches.map(|&node| fabric.node(node).switch_settings.lifetime);
    lifetimes.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, LinkState, Node, SwitchIdx};
    use selvedge_plan::{BLOCK_LIDS, LostLink};
    use selvedge_types::{NodeKind, PortNum, PortState};

    use super::*;
    use crate::made::empty_plan;

    fn port(n: u8) -> PortNum {
        PortNum::new(n).unwrap()
    }

    /// Switches with these GUIDs in a row; port 1 leads to the next.
    fn row(guids: &[u64], down: Option<u64>) -> Arc<Fabric> {
        let mut b = FabricBuilder::new();
        let keys: Vec<_> = guids
            .iter()
            .map(|&guid| {
                let mut node = Node::new(NodeKind::Switch, Guid(guid), 2, format!("s{guid}"));
                for n in [1, 2] {
                    let state = if down == Some(guid) && n == 1 {
                        PortState::Down
                    } else {
                        PortState::Active
                    };
                    let link = &mut node.port_mut(port(n)).unwrap().link;
                    *link = LinkState { state, ..*link };
                }
                b.add(node)
            })
            .collect();
        for pair in keys.windows(2) {
            b.link((pair[0], port(1)), (pair[1], port(2))).unwrap();
        }
        Arc::new(b.finish().unwrap())
    }

    fn check(now: &Arc<Fabric>, want: &[(Option<u32>, u8, u32, u8)]) {
        let before = row(&[1, 2, 3], None);
        // Lost at the last change, and before that.
        let mut past = Past {
            last: Some(Arc::clone(&before)),
            ..Past::default()
        };
        let found = past.lost_until(now);
        past.lost = lost_since(&before, now).into_iter().collect();
        past.last = Some(Arc::clone(now));
        assert_eq!(past.lost_until(now), found);
        // What carries packets again is not, if both its ends are known.
        past.last = Some(Arc::clone(&before));
        assert!(past.lost_until(&before).iter().all(|link| link.from.is_none()));
        let found: Vec<_> = found
            .iter()
            .map(|l| (l.from.map(|s| s.0), l.port, l.to.0, l.into))
            .collect();
        assert_eq!(found, want);
    }

    #[test]
    fn links_that_went_down_are_known_from_both_ends() {
        check(&row(&[1, 2, 3], None), &[]);
        check(&row(&[1, 2, 3], Some(2)), &[(Some(1), 1, 2, 2), (Some(2), 2, 1, 1)]);
        // Of a switch that is gone one end is left.
        check(&row(&[1, 2], None), &[(None, 2, 1, 1)]);
    }

    #[test]
    fn what_crossed_a_link_is_still_there_when_the_other_side_comes_into_sight_again() {
        let before = row(&[1, 2, 3], None);
        let past = Past {
            lost: lost_since(&before, &row(&[1], None)).into_iter().collect(),
            last: Some(row(&[1], None)),
            ..Past::default()
        };
        let found = past.lost_until(&row(&[1, 2, 3], Some(1)));
        let found: Vec<_> = found.iter().map(|l| (l.from.map(|s| s.0), l.to.0)).collect();
        // The first one's link leads to a switch again; who was behind it meanwhile nobody knows.
        assert_eq!(found, [(None, 0), (Some(0), 1), (Some(1), 0)]);
    }

    #[test]
    fn who_was_never_seen_has_sent_until_more_is_seen() {
        let past = Past {
            last: Some(row(&[1], None)),
            ..Past::default()
        };
        let found = past.lost_until(&row(&[1, 2], None));
        let found: Vec<_> = found.iter().map(|l| (l.from, l.to.0, l.into)).collect();
        assert_eq!(found, [(None, 0, 1)]);
        assert!(past.lost_until(&row(&[1], None)).is_empty());
    }

    #[test]
    fn links_that_come_and_go_are_forgotten_when_they_are_back() {
        let (up, down) = (row(&[1, 2, 3], None), row(&[1, 2, 3], Some(2)));
        let after = |fabric: &Arc<Fabric>| After {
            fabric: Arc::clone(fabric),
            plan: Arc::new(empty_plan()),
            installed: Arc::new(Installed::unknown(3)),
        };
        let mut past = Past::default();
        let mut taken = Taken::default();
        taken.note((Guid(2), 0, [1; BLOCK_LIDS]), Some([0; BLOCK_LIDS]));
        past.add(taken, false, Time::ZERO, after(&up));
        for _ in 0..2 {
            past.add(Taken::default(), false, Time::ZERO, after(&down));
            assert_eq!((past.lost.len(), past.lost_until(&down).len()), (2, 2));
            past.add(Taken::default(), false, Time::ZERO, after(&up));
            // It went down unseen meanwhile.
            assert_eq!((past.lost.len(), past.lost_until(&down).len()), (0, 2));
        }
    }

    #[test]
    fn what_a_host_has_sent_is_under_way_when_its_link_is_lost() {
        let with_host = |state: PortState| {
            let mut b = FabricBuilder::new();
            let keys = [(NodeKind::Switch, 1), (NodeKind::Ca, 2)].map(|(kind, guid)| {
                let mut node = Node::new(kind, Guid(guid), 1, format!("n{guid}"));
                let link = &mut node.port_mut(port(1)).unwrap().link;
                *link = LinkState { state, ..*link };
                b.add(node)
            });
            b.link((keys[0], port(1)), (keys[1], port(1))).unwrap();
            b.finish().unwrap()
        };
        let (up, down) = (with_host(PortState::Active), with_host(PortState::Down));
        let link = LostLink {
            from: None,
            port: 1,
            to: SwitchIdx(0),
            into: 1,
        };
        assert_eq!(lost(&up, &down), [link]);
        assert_eq!(lost(&up, &up), []);
        assert_eq!(lost(&down, &up), []);
    }

    #[test]
    fn what_a_block_held_between_two_changes_is_not_forgotten() {
        let fabric = row(&[1, 2, 3], None);
        let mut past = Past::default();
        let mut add = |held: u8, data: u8| {
            let mut taken = Taken::default();
            taken.note((Guid(2), 0, [data; BLOCK_LIDS]), Some([held; BLOCK_LIDS]));
            let after = After {
                fabric: Arc::clone(&fabric),
                plan: Arc::new(empty_plan()),
                installed: Arc::new(Installed::unknown(3)),
            };
            past.add(taken, false, Time::ZERO, after);
        };
        add(9, 1);
        add(1, 2);
        // Somebody else had written it.
        add(7, 2);
        let blocks = past.blocks_on(&fabric);
        let values = |step: &Vec<BlockOf<SwitchIdx>>| step.iter().map(|(_, _, data)| data[0]).collect::<Vec<_>>();
        assert_eq!(values(&blocks.before), [9]);
        assert_eq!(
            blocks.phases.iter().map(values).collect::<Vec<_>>(),
            [[1], [2], [7], [2]]
        );
    }

    #[test]
    fn what_waited_for_a_link_is_gone_up_to_the_step_before_it_was_asked_about() {
        let fabric = row(&[1, 2, 3], None);
        // When steps were acknowledged, when the second switch's port was asked, and the steps before that.
        let check = |ended: &[u64], asked: u64, want: Option<usize>| {
            let mut past = Past::default();
            for (data, at) in (1..).zip(ended) {
                let mut taken = Taken::default();
                taken.note((Guid(2), 0, [data; BLOCK_LIDS]), Some([data - 1; BLOCK_LIDS]));
                let after = After {
                    fabric: Arc::clone(&fabric),
                    plan: Arc::new(empty_plan()),
                    installed: Arc::new(Installed::unknown(3)),
                };
                past.add(taken, false, Time::from_millis(*at), after);
            }
            past.note_emptied(Guid(2), port(1), Time::from_millis(asked));
            past.note_emptied(Guid(9), port(1), Time::from_millis(asked));
            let found = past.emptied_on(&fabric);
            let of = |phases| EmptiedLink {
                from: SwitchIdx(1),
                port: 1,
                phases,
            };
            assert_eq!(found, want.map(of).into_iter().collect::<Vec<_>>(), "{ended:?} {asked}");
            past.forget();
            assert_eq!(past.emptied_on(&fabric), []);
        };
        check(&[], 5, None);
        check(&[3, 7], 2, Some(0));
        check(&[3, 7], 3, Some(1));
        check(&[3, 7], 6, Some(1));
        check(&[3, 7], 8, Some(2));
    }

    #[test]
    fn what_was_worked_out_of_an_earlier_change_is_not_taken() {
        let fabric = row(&[1, 2, 3], None);
        let after = || After {
            fabric: Arc::clone(&fabric),
            plan: Arc::new(empty_plan()),
            installed: Arc::new(Installed::unknown(3)),
        };
        let taken = |data: u8| {
            let mut taken = Taken::default();
            taken.note((Guid(1), 0, [data; BLOCK_LIDS]), Some([data - 1; BLOCK_LIDS]));
            taken
        };
        let mut past = Past::default();
        assert!(!past.is_unsettled() && !past.is_settled_with_some());
        past.add(taken(1), false, Time::ZERO, after());
        let mut settled = past.clone();
        settled.settle(Time::ZERO);
        assert!(past.is_unsettled() && settled.is_settled_with_some());
        let mut later = past.clone();
        later.add(taken(2), false, Time::ZERO, after());
        assert!(!later.take_settled(settled.clone()));
        assert_eq!((later.is_unsettled(), later.taken.steps.len()), (true, 2));
        assert!(past.take_settled(settled) && past.is_settled_with_some());
    }

    #[test]
    fn what_nobody_knows_is_waited_out() {
        let check = |taken: Taken, astray: bool, now: Duration, want: Duration| {
            let fabric = row(&[1, 2, 3], None);
            let mut past = Past::default();
            let after = After {
                fabric: Arc::clone(&fabric),
                plan: Arc::new(empty_plan()),
                installed: Arc::new(Installed::unknown(3)),
            };
            let start = Time::from_secs(1);
            past.add(taken, false, start, after);
            if astray {
                past.note_astray(&fabric);
            }
            assert_eq!(past.fog(start + now), want, "after {now:?}");
        };
        let taken = |is_blind: bool| {
            let mut taken = Taken::default();
            taken.note((Guid(1), 0, [1; BLOCK_LIDS]), None);
            if is_blind {
                taken.note_blind();
            }
            taken
        };
        // Two lifetimes of 4.096 us, the shortest.
        let (all, some) = (Duration::from_nanos(8_192), Duration::from_nanos(4_192));
        check(taken(false), false, Duration::ZERO, Duration::ZERO);
        check(taken(true), false, Duration::ZERO, all);
        check(taken(false), true, Duration::from_micros(4), some);
        check(taken(true), true, Duration::from_secs(1), Duration::ZERO);
        // Its switch forwards nothing otherwise for it; another one may have taken it.
        let mut unnoticed = Taken::default();
        unnoticed.note_sent();
        check(unnoticed, true, Duration::ZERO, all);
        check(Taken::default(), true, Duration::ZERO, Duration::ZERO);
    }
}
