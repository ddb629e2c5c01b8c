//! Judges a repair: a change set that has only forwarding entries, and Sets without an effect on packets.
//!
//! Only changed entries are compared: the work is that of [`Standing::apply`], plus the links of the switch for each
//! written entry. The new plan is judged as usual, and the transition as [`crate::phases`] judges it: any mix of a
//! step's old and new entries, together with the packets in flight after earlier steps and lost links. After a wait of
//! [`wait_ns`] those packets are gone.

use std::cmp::Ordering;

use selvedge_fabric::{Fabric, SwitchIdx, SwitchSettings};
use selvedge_plan::{BLOCK_LIDS, ChangeSet, Op};
use selvedge_types::{Idx, Lid};

use crate::judged::{Judged, proved};
use crate::phases::{Passage, QuickProof, drain_bound_ns};
use crate::standing::flows::Coming;
use crate::standing::left::Replaced;
use crate::standing::prepared::Prepared;
use crate::standing::shape::{Goal, NOWHERE};
use crate::standing::{Entry, LinkChange, Standing};
use crate::verdict::Verdict;

/// A value for a switch or channel, and the number of the LID that it was computed for.
type Noted<T> = Vec<(u32, T)>;

/// Judges a change set after `links` have changed. It leads from the state that `standing` proves, which is the state
/// of the agents, to a correct state. `under_way` lists entries that were replaced so recently that packets they
/// forwarded may be in flight. `before` is the verdict on the current state; its findings are kept and its loads
/// updated.
///
/// `None` means only that this method does not apply: the change set writes something other than entries, the proof
/// would not hold, or the steps are not safe in every order. [`crate::judge`] then finds out which. In that case the
/// proof stays unchanged. Otherwise it is updated to the change.
#[must_use]
pub fn judge_repair(
    standing: &mut Standing,
    fabric: &Fabric,
    links: &[LinkChange],
    changes: ChangeSet,
    under_way: &[Replaced],
    before: &Verdict,
) -> Option<Judged<ChangeSet>> {
    let taken = standing.take_all((fabric, links), &changes, under_way)?;
    let verdict = standing.verdict_of(taken.proof, before);
    proved(verdict, changes, Passage::Quick(taken.way))
}

/// Number of packet lifetimes after which each packet is on a channel that some entry in force leads to, or is gone.
/// When the last entry is acknowledged, a packet may be in a switch that still forwards it by an old entry. One
/// lifetime later it is in the next switch. After another lifetime it is on a path of the entries in force, or was
/// dropped.
const LIFETIMES: u32 = 2;

/// Returns how long a step of a repair must wait, in nanoseconds, until packets of replaced entries are gone. `None` if
/// a switch has an infinite lifetime.
#[must_use]
pub fn wait_ns(fabric: &Fabric) -> Option<u64> {
    let nodes = fabric.switches().iter();
    let lifetimes = nodes.map(|&node| fabric.node(node).switch_settings.lifetime);
    drain_bound_ns(lifetimes, LIFETIMES)
}

/// True if a Set only clears PortStateChange of a switch.
pub(super) fn is_quiet(fabric: &Fabric, op: &Op) -> bool {
    let Op::Switch { node, settings } = op else {
        return false;
    };
    let quiet = |held: SwitchSettings| SwitchSettings {
        port_state_change: false,
        ..held
    };
    fabric.switch_index(*node).is_some() && *settings == quiet(fabric.node(*node).switch_settings)
}

/// A written block: its index among all blocks, the step, and the new contents.
type Written<'a> = (usize, usize, &'a [u8; BLOCK_LIDS]);

/// Returns the indexes at which two blocks differ. Most entries are equal, so eight are compared at once.
pub(super) fn differing<'a>(old: &'a [u8; BLOCK_LIDS], new: &'a [u8; BLOCK_LIDS]) -> impl Iterator<Item = usize> + 'a {
    let words = old.as_chunks::<8>().0.iter().zip(new.as_chunks::<8>().0);
    let differ = words.enumerate().filter(|(_, (old, new))| old != new);
    differ.flat_map(|(word, (old, new))| (0..8).filter(|&i| old[i] != new[i]).map(move |i| word * 8 + i))
}

impl Standing {
    /// True if packets from hosts to a LID leave a switch.
    #[must_use]
    pub fn carries_hosts(&self, switch: SwitchIdx, lid: Lid) -> bool {
        let (switches, lid) = (self.flows.shape.switches, lid.index());
        let row = lid / BLOCK_LIDS * switches + switch.to_usize();
        row < self.flows.carries.len() && self.flows.carries_hosts(row, lid % BLOCK_LIDS)
    }

    /// Returns the entries that each phase writes; `None` if the change set writes something else.
    pub(super) fn steps(&self, fabric: &Fabric, changes: &ChangeSet) -> Option<Vec<Vec<Entry>>> {
        let shape = &self.flows.shape;
        let mut written: Vec<Written<'_>> = Vec::new();
        for (number, phase) in changes.phases.iter().enumerate() {
            for op in &phase.ops {
                match op {
                    Op::Lft { node, block, data } => {
                        let switch = fabric.switch_index(*node).filter(|s| s.to_usize() < shape.switches)?;
                        written.push((usize::from(*block) * shape.switches + switch.to_usize(), number, data));
                    }
                    Op::Switch { .. } if is_quiet(fabric, op) => {}
                    Op::Switch { .. }
                    | Op::PKeys { .. }
                    | Op::SlToVl { .. }
                    | Op::Arbitration { .. }
                    | Op::Port { .. }
                    | Op::Link { .. } => return None,
                }
            }
        }
        // Block by block, each in order of time.
        written.sort_by_key(|&(place, step, _)| (place, step));
        let mut steps = vec![Vec::new(); changes.phases.len()];
        for of_block in written.chunk_by(|a, b| a.0 == b.0) {
            let place = of_block[0].0;
            let mut held = self.flows.rows.get(place)?;
            let (switch, first) = (
                SwitchIdx::from_usize(place % shape.switches),
                place / shape.switches * BLOCK_LIDS,
            );
            for &(_, step, data) in of_block {
                for i in differing(held, data) {
                    let (lid, egress) = (u16::try_from(first + i).map(Lid).ok()?, data[i]);
                    steps[step].push(Entry { switch, lid, egress });
                }
                held = data;
            }
        }
        Some(steps)
    }

    /// Returns the added dependencies, if no mix of old and new entries, step by step, closes a cycle in traffic of
    /// hosts and agents after links have changed. It must be called before anything is applied. All existing
    /// dependencies are assumed to continue.
    ///
    /// Lost links are an exception: a switch discards packets for a port with a link that is down, so no packet waits
    /// for its channel and no cycle leads over it. [`crate::phases`] likewise ignores links that are not ACTIVE.
    pub(super) fn safe_way(
        &mut self,
        links: &[LinkChange],
        steps: &[Vec<Entry>],
        under_way: &[Replaced],
    ) -> Option<QuickProof> {
        // Packets to LIDs of an earlier plan that no port has any more are not counted here.
        let goal = |old: &Replaced| self.flows.shape.goals.get(old.entry.lid.index());
        let is_of_nobody = |old: &Replaced| matches!(goal(old), None | Some(Goal::Unused));
        if under_way.iter().any(is_of_nobody) {
            return None;
        }
        let flips = self.flips(links).ok()?;
        let shape = &self.flows.shape;
        let mut lost = Vec::new();
        for &(arc, _) in flips.iter().filter(|(_, is_up)| !is_up) {
            for cell in [shape.arcs[arc].cell, shape.arcs[arc].back] {
                let first = (0..shape.lane_count).map(|lane| (lane * shape.total()) as u32);
                lost.extend(first.map(|first| first + cell));
            }
        }
        let prepared = self.prepared.take().filter(|prepared| prepared.is_for(under_way));
        // A link that has come up since may add to what was computed before.
        let prepared = prepared.filter(|_| flips.iter().all(|(_, is_up)| !is_up));
        let way = prepared.and_then(|prepared| self.prepared_way(&flips, &lost, (steps, under_way), &prepared));
        way.or_else(|| {
            let (lids, turns) = self.turns_after(&flips, steps, under_way);
            self.way_with(lids, &turns, &lost)
        })
    }

    /// Does the same as [`Self::safe_way`], with the precomputed dependencies of packets in flight. May fail although
    /// the transition is safe.
    fn prepared_way(
        &mut self,
        flips: &[(usize, bool)],
        lost: &[u32],
        (steps, under_way): (&[Vec<Entry>], &[Replaced]),
        prepared: &Prepared,
    ) -> Option<QuickProof> {
        let mut lids: Vec<Lid> = steps.iter().flatten().map(|entry| entry.lid).collect();
        lids.sort_unstable();
        lids.dedup();
        let mut here = under_way.to_vec();
        here.retain(|old| lids.binary_search(&old.entry.lid).is_ok());
        let (_, mut turns) = self.turns_after(flips, steps, &here);
        turns.extend(prepared.without(&self.graphs[0], &self.flows.shape, lost));
        self.way_with(lids.len() as u64 + prepared.others(&lids), &turns, lost)
    }

    /// Returns [`Self::turns_of`] as if the links had changed already.
    fn turns_after(
        &mut self,
        flips: &[(usize, bool)],
        steps: &[Vec<Entry>],
        under_way: &[Replaced],
    ) -> (u64, Vec<(u32, u8)>) {
        self.flip(flips);
        let found = self.turns_of(steps, under_way, HOSTS);
        let back: Vec<_> = flips.iter().map(|&(arc, is_up)| (arc, !is_up)).collect();
        self.flip(&back);
        found
    }

    /// Returns the additions of a number of LIDs, if they close no cycle without the lost vertices.
    fn way_with(&mut self, lids: u64, turns: &[(u32, u8)], lost: &[u32]) -> Option<QuickProof> {
        let added = self.graphs[0].stays_acyclic_with(&self.flows.shape, turns, lost)?;
        Some(QuickProof {
            lids,
            standing: self.flows.sums.dependencies.iter().sum(),
            added,
        })
    }

    /// Returns the dependencies that may occur during the transition, and the number of LIDs. The links must have been
    /// changed in the proof already. For LIDs of switches, only packets of the senders in `least` count.
    pub(super) fn turns_of(
        &mut self,
        steps: &[Vec<Entry>],
        under_way: &[Replaced],
        least: u8,
    ) -> (u64, Vec<(u32, u8)>) {
        let scratch = std::mem::take(&mut self.scratch);
        let total = self.flows.shape.total();
        let senders = if scratch.len() == total {
            scratch
        } else {
            vec![(0, (0, 0)); total]
        };
        let mut replaced = under_way.to_vec();
        replaced.sort_by_key(|old| (old.entry.lid, old.entry.switch));
        // Step 0 stands for the recently replaced entries.
        let mut writes: Vec<(Lid, usize, Entry)> = replaced.iter().map(|old| (old.entry.lid, 0, old.entry)).collect();
        for (number, step) in (1..).zip(steps) {
            writes.extend(step.iter().map(|&entry| (entry.lid, number, entry)));
        }
        writes.sort_by_key(|&(lid, step, entry)| (lid, step, entry.switch));
        // If all packets of switches count, none are missed.
        let lost = if least == HOSTS {
            self.flows.down.clone()
        } else {
            Vec::new()
        };
        let mut mix = Mix {
            standing: self,
            lid: 0,
            round: self.round,
            least,
            written: vec![(0, (0, 0, 0)); self.flows.shape.switches],
            begun: vec![(0, 0); self.flows.shape.switches],
            senders,
            reached: vec![0; self.flows.shape.switches],
            coming: vec![(0, (0, (0, 0))); self.flows.shape.switches],
            links: Vec::new(),
            open: Vec::new(),
            turns: Vec::new(),
            of_switch: false,
            lost,
            strays: Vec::new(),
            first: 0,
        };
        for writes in writes.chunk_by(|a, b| a.0 == b.0) {
            mix.follow(writes, &replaced);
        }
        let Mix {
            turns, senders, round, ..
        } = mix;
        (self.scratch, self.round) = (senders, round);
        (writes.chunk_by(|a, b| a.0 == b.0).count() as u64, turns)
    }
}

/// A phase later than all others.
const ALWAYS: u16 = u16::MAX;

/// Bits of the senders: hosts, and switches.
pub(super) const HOSTS: u8 = 1;
pub(super) const SWITCHES: u8 = 2;

/// Follows LIDs one after another while their entries are written.
pub(super) struct Mix<'a> {
    pub(super) standing: &'a Standing,
    pub(super) lid: u16,
    pub(super) round: u32,
    /// Senders that count if a LID belongs to a switch: hosts only, or switches too.
    least: u8,
    /// By switch: the entry written last, its value before and after, and the step.
    written: Noted<(u8, u8, usize)>,
    /// By switch: the phase since which its entry is in force, if the entry was replaced recently.
    pub(super) begun: Noted<u16>,
    /// By cell: the senders with packets that may be on the channel, and the phase since which they may be there.
    pub(super) senders: Noted<(u8, u16)>,
    /// Switches with a channel to them that has new packets or new senders.
    reached: Vec<u32>,
    /// A record for each switch, for one block: a running number of the block, the number of requests, and a range in
    /// `links`. After [`Coming::MANY`] requests, the range has the links on which packets to any LID of the block enter
    /// the switch.
    coming: Noted<(u32, (u32, u32))>,
    links: Vec<u32>,
    pub(super) open: Vec<(u32, u8)>,
    /// New dependencies that may occur: vertex and egress port, some more than once.
    turns: Vec<(u32, u8)>,
    pub(super) of_switch: bool,
    /// Links that are down, by index. Packets may have crossed them before.
    pub(super) lost: Vec<u32>,
    /// Switches that packets from hosts to the LID have reached over links in `lost`.
    pub(super) strays: Vec<SwitchIdx>,
    /// The lane's first vertex.
    first: usize,
}

impl Mix<'_> {
    /// Adds the dependencies that may occur while the entries of one LID are written.
    fn follow(&mut self, writes: &[(Lid, usize, Entry)], replaced: &[Replaced]) {
        let (shape, lid) = (&self.standing.flows.shape, writes[0].0);
        let goal = shape.goals[lid.index()];
        if goal == Goal::Unused {
            return;
        }
        (self.lid, self.of_switch) = (lid.0, matches!(goal, Goal::Switch(_)));
        self.first = usize::from(shape.lanes[lid.index()]) * shape.total();
        self.round += 1;
        let first = replaced.partition_point(|old| old.entry.lid < lid);
        let count = writes.iter().take_while(|write| write.1 == 0).count();
        let of_lid = &replaced[first..first + count];
        if !of_lid.is_empty() {
            self.left_behind(of_lid);
        }
        if self.of_switch {
            self.stray(of_lid);
        }
        for step in writes[count..].chunk_by(|a, b| a.1 == b.1) {
            self.step(step);
        }
    }

    fn step(&mut self, writes: &[(Lid, usize, Entry)]) {
        for &(_, step, Entry { switch, egress, .. }) in writes {
            let (_, before) = self.entries(switch.to_usize(), step);
            self.written[switch.to_usize()] = (self.round, (before, egress, step));
        }
        for &(_, step, Entry { switch, egress, .. }) in writes {
            let are_hosts_here = self.standing.flows.shape.own[switch.to_usize()] > 0 || self.strays.contains(&switch);
            let own = if are_hosts_here { HOSTS } else { 0 };
            let switch = switch.to_usize();
            self.leave(switch, egress, 0, (0, ALWAYS));
            self.reach(switch, egress, own | SWITCHES, ALWAYS);
            self.drift(step);
        }
    }

    /// Returns the range in `links` of the links on which packets to the LID may enter a switch.
    fn coming_in(&mut self, switch: usize) -> (u32, u32) {
        let (flows, shape) = (&self.standing.flows, &self.standing.flows.shape);
        if self.reached[switch] == self.round {
            let first = self.links.len() as u32;
            self.links
                .extend(shape.entering_from[switch]..shape.entering_from[switch + 1]);
            return (first, self.links.len() as u32);
        }
        let block = usize::from(self.lid) / BLOCK_LIDS;
        let (noted, (asked, part)) = &mut self.coming[switch];
        if *noted as usize != block + 1 {
            (*noted, *asked) = (block as u32 + 1, 0);
        }
        *asked += 1;
        let first = self.links.len() as u32;
        match (*asked).cmp(&Coming::MANY) {
            Ordering::Less => flows.coming_in_to(self.lid, switch, &mut self.links),
            Ordering::Equal => flows.coming_in(block * shape.switches, switch, &mut self.links),
            Ordering::Greater => return *part,
        }
        *part = (first, self.links.len() as u32);
        *part
    }

    /// Continues packets that are on a channel for the first time.
    fn drift(&mut self, step: usize) {
        while let Some((cell, senders)) = self.open.pop() {
            let behind = self.standing.flows.shape.behind(cell as usize);
            let (before, now) = self.entries(usize::from(behind), step);
            self.turn(cell, senders, before, ALWAYS);
            if now != before {
                self.turn(cell, senders, now, ALWAYS);
            }
        }
    }

    /// Returns the entries in force in a step: before and after it.
    fn entries(&self, switch: usize, step: usize) -> (u8, u8) {
        let (round, (before, after, last)) = self.written[switch];
        if round != self.round {
            let entry = self.standing.flows.entry(switch as u16, self.lid);
            (entry, entry)
        } else if last == step {
            (before, after)
        } else {
            (after, after)
        }
    }

    /// Returns the phase since which a switch's entry is in force; 0: for as long as matters.
    pub(super) fn begun(&self, switch: usize) -> u16 {
        match self.begun[switch] {
            (round, phase) if round == self.round => phase,
            _ => 0,
        }
    }

    /// Returns the kinds of senders (bits [`HOSTS`], [`SWITCHES`]) with packets that may be on a channel, and the first
    /// phase in which they may be there. Packets of the entries in force and of the dependencies added so far are
    /// considered.
    fn on(&mut self, cell: u32, src: usize, port: u8) -> (u8, u16) {
        let begun = self.begun(src);
        let noted = &mut self.senders[cell as usize];
        if noted.0 == self.round {
            return noted.1;
        }
        let flows = &self.standing.flows;
        let is_used = flows.next[cell as usize] != NOWHERE && flows.entry(src as u16, self.lid) == port;
        let senders = if !is_used {
            0
        } else if self.standing.carries_hosts(SwitchIdx::from_usize(src), Lid(self.lid)) {
            HOSTS | SWITCHES
        } else {
            SWITCHES
        };
        *noted = (self.round, (senders, begun));
        (senders, begun)
    }

    /// Adds the dependencies of packets that enter a switch and wait for the channel of an entry that was in force from
    /// phase `since` to phase `until`. `more` are senders to add to those that the current entries lead here: earlier
    /// packets of these senders may still be on the way.
    pub(super) fn leave(&mut self, switch: usize, entry: u8, more: u8, (since, until): (u16, u16)) {
        let (first, end) = self.coming_in(switch);
        for i in first..end {
            let arc = self.standing.flows.shape.entering[self.links[i as usize] as usize];
            let (senders, earliest) = self.on(arc.cell, usize::from(arc.src), arc.port);
            if senders != 0 && earliest <= until {
                self.turn(arc.cell, senders | more, entry, earliest.max(since));
            }
        }
        let (_, (asked, part)) = self.coming[switch];
        if asked < Coming::MANY || part != (first, end) {
            self.links.truncate(first as usize);
        }
    }

    /// Adds packets that leave a switch by an entry, not before phase `time`.
    pub(super) fn reach(&mut self, switch: usize, entry: u8, senders: u8, time: u16) {
        let flows = &self.standing.flows;
        let cell = flows.shape.cell(switch, entry);
        if flows.next[cell] == NOWHERE {
            return;
        }
        let (known, earliest) = self.on(cell as u32, switch, entry);
        let is_earlier = known != 0 && time < earliest;
        let new = if is_earlier { known | senders } else { senders & !known };
        if new != 0 {
            let earliest = if known == 0 { time } else { earliest.min(time) };
            self.senders[cell].1 = (known | new, earliest);
            self.reached[usize::from(flows.next[cell])] = self.round;
            self.open.push((cell as u32, new));
        }
    }

    /// Adds the turns of packets on a channel that reach an entry behind it, not before phase `time`.
    pub(super) fn turn(&mut self, cell: u32, senders: u8, entry: u8, time: u16) {
        let (flows, shape) = (&self.standing.flows, &self.standing.flows.shape);
        let switch = usize::from(shape.behind(cell as usize));
        if flows.next[shape.cell(switch, entry)] == NOWHERE {
            return;
        }
        if senders & (HOSTS | self.least) != 0 || !self.of_switch {
            let vertex = (self.first + cell as usize) as u32;
            if !self.standing.graphs[0].has(vertex, entry) {
                self.turns.push((vertex, entry));
            }
        }
        self.reach(switch, entry, senders, time);
    }
}
