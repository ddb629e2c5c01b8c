//! Judges a repair: a change set that writes forwarding entries, and nothing else that packets notice.
//!
//! Nothing is compared that has not changed: work is what [`Standing::apply`] says, and for each entry that is written
//! the links of its switch. The plan is judged as it will be, and the way to it as [`crate::phases`] judges it: any mix
//! of a step's old and new entries, with the packets that earlier steps and the lost links have left behind. Waits are
//! not looked at.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, PortRef, SwitchIdx, SwitchSettings};
use selvedge_plan::{BLOCK_LIDS, ChangeSet, Op};
use selvedge_types::{Idx, Lid};

use crate::judged::{Judged, proved};
use crate::phases::{Passage, QuickProof};
use crate::standing::shape::{Goal, NOWHERE};
use crate::standing::{Change, Entry, LinkChange, Standing};
use crate::verdict::Verdict;

/// What is noted of a switch or channel, and the LID (as a count of LIDs) that it was noted for.
type Noted<T> = Vec<(u32, T)>;

/// Judges a change set that leads from what `standing` proves, and the agents hold, to what is right after `links` have
/// changed. `under_way` are entries that were replaced so lately that packets may still be where they sent them.
/// `before` is the verdict on what stands; its findings stay, its loads are brought up to date.
///
/// `None` says no more than that this way of judging does not do: something else than entries would be set, the proof
/// would not hold, or the steps are not safe in every order; [`crate::judge`] finds out which. The proof is then what
/// it was; else it follows.
#[must_use]
pub fn judge_repair(
    standing: &mut Standing,
    fabric: &Fabric,
    links: &[LinkChange],
    changes: ChangeSet,
    under_way: &[Entry],
    before: &Verdict,
) -> Option<Judged<ChangeSet>> {
    let steps = standing.steps(fabric, &changes)?;
    let way = standing.safe_way(links, &steps, under_way)?;
    let mut entries = steps.concat();
    // The last of several for one entry counts.
    entries.reverse();
    entries.sort_by_key(|e| (e.lid, e.switch));
    entries.dedup_by_key(|e| (e.lid, e.switch));
    let links = links.to_vec();
    let gone_ends = links.clone();
    let undo = standing.apply_quickly(&Change { links, entries }).ok()?;
    let gone = standing.newly_gone(fabric, &gone_ends);
    standing.set_gone(&gone, true);
    let proof = standing.proof();
    if !proof.holds() {
        standing.set_gone(&gone, false);
        // It was in force a moment ago, so it has no circle.
        drop(standing.apply(&undo));
        return None;
    }
    let mut verdict = before.clone();
    verdict.figures.host_pairs_reached = proof.host_pairs_reached;
    verdict.figures.hops.clear();
    (verdict.figures.hops_max, verdict.figures.hops_mean) = (0, proof.hops_mean);
    (verdict.figures.load, verdict.figures.lanes) = (proof.load, proof.lanes);
    if standing.flows.shape.gone.contains(&true) {
        (verdict.figures.host_ports, verdict.figures.host_pairs) = standing.live_hosts();
    }
    proved(verdict, changes, Passage::Quick(way))
}

impl Standing {
    /// True if packets of hosts to a LID leave a switch.
    #[must_use]
    pub fn carries_hosts(&self, switch: SwitchIdx, lid: Lid) -> bool {
        let (switches, lid) = (self.flows.shape.switches, lid.index());
        let row = self.flows.pairs.get(lid / BLOCK_LIDS * switches + switch.to_usize());
        row.is_some_and(|row| row[lid % BLOCK_LIDS] > 0)
    }

    /// Ends of links that have changed whose switch has no link any more, by the fabric and by the proof.
    fn newly_gone(&self, fabric: &Fabric, links: &[LinkChange]) -> Vec<u16> {
        let shape = &self.flows.shape;
        let is_gone = |switch: &SwitchIdx| {
            let node = fabric.switches()[*switch];
            let mut ports = fabric.node(node).external_ports();
            let first = switch.to_usize() * shape.cells;
            ports.all(|(port, _)| !fabric.link_is_up(PortRef { node, port }))
                && self.flows.next[first..first + shape.cells]
                    .iter()
                    .all(|next| *next == NOWHERE)
                && !shape.gone[switch.to_usize()]
        };
        let mut ends: Vec<SwitchIdx> = links.iter().map(|link| link.switch).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.retain(is_gone);
        ends.iter().map(|switch| switch.0 as u16).collect()
    }

    /// Host ports of switches that are not gone, and pairs of them.
    fn live_hosts(&self) -> (u64, u64) {
        let shape = &self.flows.shape;
        let live = shape.own.iter().zip(&shape.gone).filter(|(_, gone)| !**gone);
        let hosts = live.map(|(&own, _)| u64::from(own)).sum::<u64>();
        (hosts, hosts * hosts.saturating_sub(1))
    }

    /// The entries that each phase writes; `None` if it sets something else.
    fn steps(&self, fabric: &Fabric, changes: &ChangeSet) -> Option<Vec<Vec<Entry>>> {
        let shape = &self.flows.shape;
        let mut rows: BTreeMap<usize, [u8; BLOCK_LIDS]> = BTreeMap::new();
        let mut steps = Vec::with_capacity(changes.phases.len());
        for phase in &changes.phases {
            let mut entries = Vec::new();
            for op in &phase.ops {
                match op {
                    Op::Lft { node, block, data } => {
                        let switch = fabric.switch_index(*node).filter(|s| s.to_usize() < shape.switches)?;
                        let place = usize::from(*block) * shape.switches + switch.to_usize();
                        let held = *self.flows.rows.get(place)?;
                        let row = rows.entry(place).or_insert(held);
                        let first = usize::from(*block) * BLOCK_LIDS;
                        for (i, (old, &egress)) in row.iter_mut().zip(data).enumerate() {
                            if *old != egress {
                                let lid = u16::try_from(first + i).map(Lid).ok()?;
                                entries.push(Entry { switch, lid, egress });
                                *old = egress;
                            }
                        }
                    }
                    Op::Switch { node, settings } => {
                        fabric.switch_index(*node)?;
                        let held = fabric.node(*node).switch_settings;
                        let quiet = SwitchSettings {
                            port_state_change: false,
                            ..held
                        };
                        (*settings == quiet).then_some(())?;
                    }
                    Op::PKeys { .. } | Op::Port { .. } => return None,
                }
            }
            steps.push(entries);
        }
        Some(steps)
    }

    /// What is added, if no mix of old and new entries, step by step and without a wait, closes a cycle in traffic of
    /// hosts and agents once links have changed. Nothing has been applied: all that stands is counted as still on its
    /// way, what led over the links as well.
    fn safe_way(&mut self, links: &[LinkChange], steps: &[Vec<Entry>], under_way: &[Entry]) -> Option<QuickProof> {
        let flips = self.flips(links).ok()?;
        self.flip(&flips);
        let turns = self.turns_of(steps, under_way);
        let back: Vec<_> = flips.iter().map(|&(arc, is_up)| (arc, !is_up)).collect();
        self.flip(&back);
        let (lids, turns) = turns;
        let added = self.graphs[0].stays_acyclic_with(&self.flows.shape, &turns)?;
        Some(QuickProof {
            lids,
            standing: self.flows.sums.dependencies.iter().sum(),
            added,
        })
    }

    /// Dependencies that may come about on the way, and how many LIDs it concerns. Links have changed already.
    fn turns_of(&mut self, steps: &[Vec<Entry>], under_way: &[Entry]) -> (u64, Vec<(u32, u8)>) {
        let scratch = std::mem::take(&mut self.scratch);
        let total = self.flows.shape.total();
        let senders = if scratch.len() == total {
            scratch
        } else {
            vec![(0, 0); total]
        };
        // Step 0 is what was replaced lately.
        let mut writes: Vec<(Lid, usize, Entry)> = under_way.iter().map(|&entry| (entry.lid, 0, entry)).collect();
        for (number, step) in (1..).zip(steps) {
            writes.extend(step.iter().map(|&entry| (entry.lid, number, entry)));
        }
        writes.sort_by_key(|&(lid, step, entry)| (lid, step, entry.switch));
        let mut mix = Mix {
            standing: self,
            lid: 0,
            round: self.round,
            written: vec![(0, (0, 0, 0)); self.flows.shape.switches],
            senders,
            reached: vec![0; self.flows.shape.switches],
            coming: vec![(0, (0, 0)); self.flows.shape.switches],
            links: Vec::new(),
            open: Vec::new(),
            turns: Vec::new(),
            of_switch: false,
            first: 0,
        };
        for writes in writes.chunk_by(|a, b| a.0 == b.0) {
            mix.follow(writes);
        }
        let Mix {
            turns, senders, round, ..
        } = mix;
        (self.scratch, self.round) = (senders, round);
        (writes.chunk_by(|a, b| a.0 == b.0).count() as u64, turns)
    }
}

/// Packets of hosts, and of switches.
const HOSTS: u8 = 1;
const SWITCHES: u8 = 2;

/// LIDs while their entries are written, one after another.
struct Mix<'a> {
    standing: &'a Standing,
    lid: u16,
    round: u32,
    /// By switch: the entry that was written last, before and after, and the step.
    written: Noted<(u8, u8, usize)>,
    /// By cell: who may be on a channel.
    senders: Noted<u8>,
    /// By switch: some channel to it is used that was not, or by others.
    reached: Vec<u32>,
    /// By switch, for a block (noted as a count of blocks): links by which any LID of it comes in, as a part of `links`.
    coming: Noted<(u32, u32)>,
    links: Vec<u32>,
    open: Vec<(u32, u8)>,
    /// Dependencies that may come about, none of them there already: vertex and egress port, some more than once.
    turns: Vec<(u32, u8)>,
    of_switch: bool,
    /// The lane's first vertex.
    first: usize,
}

impl Mix<'_> {
    /// Dependencies that may come about while the entries of one LID are written.
    fn follow(&mut self, writes: &[(Lid, usize, Entry)]) {
        let (shape, lid) = (&self.standing.flows.shape, writes[0].0);
        let goal = shape.goals[lid.index()];
        if goal == Goal::Unused {
            return;
        }
        (self.lid, self.of_switch) = (lid.0, matches!(goal, Goal::Switch(_)));
        self.first = usize::from(shape.lanes[lid.index()]) * shape.total();
        self.round += 1;
        for step in writes.chunk_by(|a, b| a.1 == b.1) {
            match step[0].1 {
                0 => self.left_behind(step),
                _ => self.step(step),
            }
        }
    }

    /// Packets that replaced entries have sent on meet the entries in force.
    fn left_behind(&mut self, replaced: &[(Lid, usize, Entry)]) {
        let of_hosts = self.of_switch.then(|| self.met_by_hosts(replaced));
        for &(_, step, Entry { switch, egress, .. }) in replaced {
            let senders = match &of_hosts {
                Some(met) if !met.contains(&switch) => SWITCHES,
                _ => HOSTS | SWITCHES,
            };
            self.reach(switch.to_usize(), egress, senders);
            self.drift(step);
        }
    }

    /// Switches with replaced entries that packets of hosts can have met, by any mix of what was replaced and what is
    /// in force, over links that were there: those of hosts now, and what entries lead to from there.
    fn met_by_hosts(&self, replaced: &[(Lid, usize, Entry)]) -> BTreeSet<SwitchIdx> {
        let (flows, shape, lid) = (&self.standing.flows, &self.standing.flows.shape, Lid(self.lid));
        let is_of_hosts = |switch: &SwitchIdx| self.standing.carries_hosts(*switch, lid);
        let mut met: BTreeSet<SwitchIdx> = replaced
            .iter()
            .map(|write| write.2.switch)
            .filter(is_of_hosts)
            .collect();
        let mut open: Vec<SwitchIdx> = met.iter().copied().collect();
        while let Some(switch) = open.pop() {
            let first = replaced.partition_point(|write| write.2.switch < switch);
            let of_switch = replaced[first..].iter().take_while(|write| write.2.switch == switch);
            let now = flows.entry(switch.0 as u16, lid.0);
            for egress in of_switch.map(|write| write.2.egress).chain([now]) {
                let arc = shape.arc_of[shape.cell(switch.to_usize(), egress)];
                let Some(arc) = shape.arcs.get(arc as usize) else {
                    continue;
                };
                let next = SwitchIdx(arc.dst.into());
                if !is_of_hosts(&next) && met.insert(next) {
                    open.push(next);
                }
            }
        }
        met
    }

    fn step(&mut self, writes: &[(Lid, usize, Entry)]) {
        for &(_, step, Entry { switch, egress, .. }) in writes {
            let (_, before) = self.entries(switch.to_usize(), step);
            self.written[switch.to_usize()] = (self.round, (before, egress, step));
        }
        for &(_, step, Entry { switch, egress, .. }) in writes {
            let shape = &self.standing.flows.shape;
            let switch = switch.to_usize();
            let (first, end) = self.coming_in(switch);
            for i in first..end {
                let arc = shape.entering[self.links[i as usize] as usize];
                let senders = self.on(arc.cell, usize::from(arc.src), arc.port);
                if senders != 0 {
                    self.turn(arc.cell, senders, egress);
                }
            }
            if self.coming[switch].1 != (first, end) {
                self.links.truncate(first as usize);
            }
            let own = if shape.own[switch] > 0 { HOSTS } else { 0 };
            self.reach(switch, egress, own | SWITCHES);
            self.drift(step);
        }
    }

    /// Links by which packets to the LID may come to a switch, as a part of `links`.
    fn coming_in(&mut self, switch: usize) -> (u32, u32) {
        let (flows, shape) = (&self.standing.flows, &self.standing.flows.shape);
        if self.reached[switch] == self.round {
            let first = self.links.len() as u32;
            self.links
                .extend(shape.entering_from[switch]..shape.entering_from[switch + 1]);
            return (first, self.links.len() as u32);
        }
        let block = usize::from(self.lid) / BLOCK_LIDS;
        let (noted, part) = self.coming[switch];
        if noted as usize == block + 1 {
            return part;
        }
        let first = self.links.len() as u32;
        flows.coming_in(block * shape.switches, switch, &mut self.links);
        let part = (first, self.links.len() as u32);
        self.coming[switch] = (block as u32 + 1, part);
        part
    }

    /// Packets that are on a channel for the first time go on from there.
    fn drift(&mut self, step: usize) {
        while let Some((cell, senders)) = self.open.pop() {
            let behind = self.standing.flows.shape.behind(cell as usize);
            let (before, now) = self.entries(usize::from(behind), step);
            self.turn(cell, senders, before);
            if now != before {
                self.turn(cell, senders, now);
            }
        }
    }

    /// Entries in force in a step: before and after it.
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

    /// Who may be on a channel by what stood, and by what was added.
    fn on(&mut self, cell: u32, src: usize, port: u8) -> u8 {
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
        *noted = (self.round, senders);
        senders
    }

    /// Packets leave a switch by an entry.
    fn reach(&mut self, switch: usize, entry: u8, senders: u8) {
        let flows = &self.standing.flows;
        let cell = flows.shape.cell(switch, entry);
        if flows.next[cell] == NOWHERE {
            return;
        }
        let known = self.on(cell as u32, switch, entry);
        let new = senders & !known;
        if new != 0 {
            self.senders[cell].1 = known | new;
            self.reached[usize::from(flows.next[cell])] = self.round;
            self.open.push((cell as u32, new));
        }
    }

    /// Packets on a channel meet an entry behind it.
    fn turn(&mut self, cell: u32, senders: u8, entry: u8) {
        let (flows, shape) = (&self.standing.flows, &self.standing.flows.shape);
        let switch = usize::from(shape.behind(cell as usize));
        if flows.next[shape.cell(switch, entry)] == NOWHERE {
            return;
        }
        if senders & HOSTS != 0 || !self.of_switch {
            let vertex = (self.first + cell as usize) as u32;
            if !self.standing.graphs[0].has(shape, vertex, entry) {
                self.turns.push((vertex, entry));
            }
        }
        self.reach(switch, entry, senders);
    }
}
