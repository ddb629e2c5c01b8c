//! Recent changes of tables: packets in flight may still use the old entries.
//!
//! [`Past`] records what was written, when it was acknowledged, and which links were lost since. From this follows how
//! long packets of old entries must be considered, and the [`UnderWay`] value that plans and proofs start from.

mod aged;
mod asleep;
mod leaving;
mod lost;
#[cfg(test)]
mod random;
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
use self::taken::{Step, Written};
pub use self::taken::{Taken, goes_unnoticed};
pub use self::unanswered::Unanswered;

/// Number of packet lifetimes after which a packet to a host is delivered, dropped, or on a path of the entries in
/// force, whichever entries have forwarded it before.
pub(crate) const FOG_LIFETIMES: u32 = 2;
/// Time after which packets of an earlier change are assumed to be gone if switches have an infinite packet lifetime.
/// There is no real bound in that case.
const ASSUMED_GONE: Duration = Duration::from_secs(60);

/// The fabric, LIDs and tables after a change.
#[derive(Clone, Debug)]
pub struct After {
    /// The fabric, with the settings of its agents.
    pub fabric: Arc<Fabric>,
    /// The plan, with the owners of LIDs.
    pub plan: Arc<Plan>,
    /// Tables as acknowledged.
    pub installed: Arc<Installed>,
}

/// The last changes; each stays until the packets of its old entries are gone.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// The changes with old entries that packets may use.
    recent: Recent,
    /// When the last step was acknowledged. It stays set when the step's packets are gone.
    at: Time,
    /// When the last block was acknowledged, even if it changes no forwarding of its switch.
    sent_at: Time,
    /// For how many packet lifetimes after the last step packets in flight must be considered. If that is not computed
    /// yet, this is the number of an earlier change.
    lifetimes: u32,
    /// End of the fog: until then packets of unknown entries may be in flight.
    fog_until: Time,
    /// Tables of switches that are no longer visible.
    gone: Gone,
    /// Blocks with unanswered Sets.
    unanswered: Unanswered,
    /// Counts changes of this record. Results computed from an earlier revision are discarded.
    revision: u64,
}

/// The part of the record that is forgotten once all packets in flight are gone.
#[derive(Clone, Debug, Default)]
struct Recent {
    /// Blocks that were written.
    written: Written,
    /// Ends of links that were not ACTIVE at some time and came back. Packets that waited there were discarded by that
    /// time.
    emptied: BTreeMap<(Guid, u8), Time>,
    /// The fabric after the last change; `None`: this manager has changed nothing.
    seen: Option<Seen>,
}

/// The fabric after the last change, with what follows from it for packets in flight.
#[derive(Clone, Debug)]
struct Seen {
    fabric: Arc<Fabric>,
    /// The longest LifeTimeValue of all switches that were changed. The last sweep may not have found some of them, but
    /// they still keep packets for that long.
    longest: u8,
    /// Links that had carried packets, and did not after some change.
    lost: BTreeSet<Lost>,
    matter: Matter,
}

/// What is known of the time for which packets in flight must be considered.
#[derive(Clone, Debug)]
enum Matter {
    /// The time is not known; it must be computed from this state.
    Unknown(After),
    /// The number of lifetimes is known.
    Lifetimes,
    /// The number of lifetimes is known, and so are the changed blocks, for exactly this snapshot of the fabric.
    Prepared(Arc<Fabric>, UnderWay),
}

impl Past {
    /// Adds a change that was applied completely or up to a wait. `waited`: it has let packets drain on the way.
    pub fn add(&mut self, mut taken: Taken, waited: bool, now: Time, after: After) {
        taken.end_phase();
        let Taken { written, is_sent, .. } = taken;
        self.revision += 1;
        if is_sent {
            self.sent_at = now;
        }
        if written.is_blind {
            self.fog_from(now, &after.fabric);
        }
        if waited {
            self.forget();
        }
        if written.is_empty() && self.recent.written.is_empty() {
            return;
        }
        // Also if no table changed, as when a link comes back, so that the next repair need not search for links lost
        // since.
        let seen = self.recent.seen.get_or_insert_with(|| Seen::new(&after.fabric));
        seen.follow(&after.fabric);
        if written.is_empty() {
            return;
        }
        self.at = now;
        self.recent.written.follow(written, now);
        seen.longest = seen.longest.max(longest(&after.fabric));
        seen.matter = Matter::Unknown(after.clone());
        if self.recent.written.is_long() {
            // `settle` was not called in time.
            self.recent.forget_aged(now, &after);
        }
        if std::mem::take(&mut self.recent.written.is_blind) {
            self.fog_from(now, &after.fabric);
        }
    }

    /// True if it is not known yet how long packets in flight must be considered.
    pub fn is_unsettled(&self) -> bool {
        let seen = self.recent.seen.as_ref();
        seen.is_some_and(|seen| seen.prepared_for(&seen.fabric).is_none())
    }

    /// True if packets may be in flight, and it is known for how long they may be.
    pub fn is_settled_with_some(&self) -> bool {
        !self.recent.written.is_empty() && !self.is_unsettled()
    }

    /// Replaces this record by `settled`, a copy of it in which a job has computed how long packets in flight must be
    /// considered. Returns false, and changes nothing, if changes were added to this record since the copy was made.
    pub fn take_settled(&mut self, settled: Self) -> bool {
        let is_of_this = settled.revision == self.revision;
        if is_of_this {
            *self = settled;
        }
        is_of_this
    }

    /// Computes how long packets in flight must be considered, unless that is known. This takes some milliseconds in a
    /// large fabric, and a repair must not wait for it, so it is a job.
    pub fn settle(&mut self, now: Time) {
        if let Some(after) = self.know_lifetimes() {
            self.recent.forget_aged(now, &after);
        }
        if let Some(fabric) = self.recent.seen.as_ref().map(|seen| Arc::clone(&seen.fabric)) {
            let blocks = self.recent.blocks_on(&fabric);
            self.recent.set_matter(Matter::Prepared(fabric, blocks));
        }
    }

    /// Computes for how many packet lifetimes packets in flight must be considered, unless that is known. Returns the
    /// state that was used for it.
    fn know_lifetimes(&mut self) -> Option<After> {
        let after = self.recent.unknown()?.clone();
        let entry = |switch, lid| after.installed.get(switch, lid).unwrap_or(NO_PATH);
        let lids = self.recent.written.lids();
        self.lifetimes = lifetimes_after(&after.fabric, &after.plan.lids, entry, lids);
        self.recent.set_matter(Matter::Lifetimes);
        Some(after)
    }

    /// Called when all packets in flight are gone.
    fn forget(&mut self) {
        self.revision += 1;
        self.recent = Recent::default();
    }

    /// Records that a switch port was seen not ACTIVE, by a request that was sent at `asked`. Only a manager makes it
    /// ACTIVE again. So packets are gone that old entries, replaced before this time, have led to this port.
    pub fn note_emptied(&mut self, switch: Guid, port: PortNum, asked: Time) {
        if !self.recent.written.is_empty() {
            self.revision += 1;
            self.recent.emptied.insert((switch, port.get()), asked);
        }
    }

    /// Records that tables differ from the result of the last change, because some of its Sets reached other agents.
    pub fn note_astray(&mut self, fabric: &Fabric) {
        self.fog_from(self.at.max(self.sent_at), fabric);
    }

    /// Records that another manager was master until now. Its last changes are unknown.
    pub fn note_stranger(&mut self, now: Time, fabric: &Fabric) {
        self.fog_from(now, fabric);
    }

    /// Records that packets in flight at this time may have been forwarded by unknown entries.
    fn fog_from(&mut self, at: Time, fabric: &Fabric) {
        self.revision += 1;
        self.know_lifetimes();
        let until = at + self.recent.bound(fabric, self.lifetimes.max(FOG_LIFETIMES));
        self.fog_until = self.fog_until.max(until);
    }

    /// Returns how much longer packets of unknown entries may be in flight. No proof can consider them, so a change of
    /// tables waits that long.
    pub fn fog(&self, now: Time) -> Duration {
        self.fog_until.since(now)
    }

    /// Records that blocks were written at this time or before, and not by a change of this manager.
    fn note_written(&mut self, at: Time) {
        self.know_lifetimes();
        self.at = self.at.max(at);
        self.lifetimes = self.lifetimes.max(FOG_LIFETIMES);
        self.recent.set_matter(Matter::Lifetimes);
    }

    /// Returns the replaced entries with packets that may still be in flight on a fabric; `None`: none.
    pub fn under_way(&mut self, fabric: &Fabric, now: Time) -> Option<Arc<UnderWay>> {
        if self.recent.written.is_empty() {
            return None;
        }
        // Before even the shortest possible time is over, the number of lifetimes need not be computed.
        if !self.recent.is_surely_under_way(fabric, self.at, now) {
            self.know_lifetimes();
        }
        let age = now.since(self.at);
        if self.recent.unknown().is_none() && age >= self.recent.bound(fabric, self.lifetimes) {
            self.forget();
            return None;
        }
        Some(Arc::new(UnderWay {
            age_ns: u64::try_from(age.as_nanos()).unwrap_or(u64::MAX),
            lost: self.recent.lost_until(fabric),
            emptied: self.recent.emptied_on(fabric),
            ..self.recent.blocks_on(fabric)
        }))
    }
}

impl Recent {
    /// Returns the state from which the number of lifetimes must be computed, if the number is unknown.
    fn unknown(&self) -> Option<&After> {
        match &self.seen.as_ref()?.matter {
            Matter::Unknown(after) => Some(after),
            Matter::Lifetimes | Matter::Prepared(..) => None,
        }
    }

    fn set_matter(&mut self, matter: Matter) {
        if let Some(seen) = &mut self.seen {
            seen.matter = matter;
        }
    }

    /// Returns the LifeTimeValue of the switch that keeps packets longest, visible or not.
    fn longest(&self, fabric: &Fabric) -> u8 {
        longest(fabric).max(self.seen.as_ref().map_or(0, |seen| seen.longest))
    }

    /// Returns how long packets must be considered, given the number of lifetimes.
    fn bound(&self, fabric: &Fabric, lifetimes: u32) -> Duration {
        drain_time(self.longest(fabric), lifetimes)
    }

    /// True if packets of a step that was acknowledged at time `at` must still be considered, whatever [`Past::settle`]
    /// computes: every change of an entry must be considered for at least [`FOG_LIFETIMES`] lifetimes.
    fn is_surely_under_way(&self, fabric: &Fabric, at: Time, now: Time) -> bool {
        now.since(at) < self.bound(fabric, FOG_LIFETIMES)
    }

    /// Returns the changed blocks, with the switch numbers of a fabric.
    fn blocks_on(&self, fabric: &Fabric) -> UnderWay {
        if let Some(blocks) = self.seen.as_ref().and_then(|seen| seen.prepared_for(fabric)) {
            return blocks.clone();
        }
        let on_switch = |(guid, block, data): BlockOf<Guid>| {
            let switch = fabric.switch_index(fabric.find(guid)?)?;
            Some((switch, block, data))
        };
        let before = self.written.before.iter().map(|(at, data)| (at.0, at.1, *data));
        let step = |step: &Step| step.blocks.iter().copied().filter_map(on_switch).collect();
        UnderWay {
            before: before.filter_map(on_switch).collect(),
            phases: self.written.steps.iter().map(step).collect(),
            ..UnderWay::default()
        }
    }

    /// Returns the ends of links that were emptied, each with the number of steps acknowledged when it was queried.
    fn emptied_on(&self, fabric: &Fabric) -> Vec<EmptiedLink> {
        let of = |(&(switch, port), asked): (&(Guid, u8), &Time)| {
            let is_over = |step: &&Step| step.ended.is_some_and(|ended| ended <= *asked);
            Some(EmptiedLink {
                from: fabric.switch_index(fabric.find(switch)?)?,
                port,
                phases: self.written.steps.iter().take_while(is_over).count(),
            })
        };
        self.emptied.iter().filter_map(of).collect()
    }

    /// Returns the links that have gone down since the first of the changes.
    fn lost_until(&self, now: &Fabric) -> Vec<LostLink> {
        let Some(seen) = &self.seen else { return Vec::new() };
        let of_last = lost_since(&seen.fabric, now);
        let all = seen.lost.iter().chain(&of_last);
        let mut lost: Vec<LostLink> = all.filter_map(|link| link.in_fabric(now)).collect();
        lost.sort_unstable();
        lost.dedup();
        lost
    }
}

impl Seen {
    fn new(fabric: &Arc<Fabric>) -> Self {
        Self {
            fabric: Arc::clone(fabric),
            longest: 0,
            lost: BTreeSet::new(),
            matter: Matter::Lifetimes,
        }
    }

    /// Returns the changed blocks, if they were computed for this very snapshot of the fabric.
    fn prepared_for(&self, fabric: &Fabric) -> Option<&UnderWay> {
        match &self.matter {
            Matter::Prepared(of, blocks) if std::ptr::eq(Arc::as_ptr(of), fabric) => Some(blocks),
            Matter::Prepared(..) | Matter::Unknown(_) | Matter::Lifetimes => None,
        }
    }

    /// Updates the record to the fabric after another change.
    fn follow(&mut self, fabric: &Arc<Fabric>) {
        let last = std::mem::replace(&mut self.fabric, Arc::clone(fabric));
        self.lost.extend(lost_since(&last, fabric));
        // A link that goes down again will be seen again, so links that came back are removed. The list must stay
        // bounded if links flap for hours.
        let is_back = |link: &Lost| link.found_in(fabric).is_some_and(|(_, is_back)| is_back);
        self.lost.retain(|link| !is_back(link));
    }
}

/// Returns the duration of this many lifetimes, given the longest LifeTimeValue of any switch.
pub(crate) fn drain_time(longest: u8, lifetimes: u32) -> Duration {
    drain_bound_ns([longest], lifetimes).map_or(ASSUMED_GONE, Duration::from_nanos)
}

/// Returns the LifeTimeValue of the switch that keeps packets longest.
pub(crate) fn longest(fabric: &Fabric) -> u8 {
    let switches = fabric.switches().iter();
    let lifetimes = switches.map(|&node| fabric.node(node).switch_settings.lifetime);
    lifetimes.max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
