//! Judges a repair: a change set that writes forwarding entries, and nothing else that packets notice.
//!
//! Nothing is compared that has not changed: work is what [`Standing::apply`] says, and for each entry that is written
//! the links of its switch. The plan is judged as it will be, and the way to it as [`crate::phases`] judges it: any mix
//! of a step's old and new entries, with the packets that earlier steps and the lost links have left behind.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, SwitchIdx, SwitchSettings};
use selvedge_plan::{BLOCK_LIDS, ChangeSet, Op};
use selvedge_types::{Idx, Lid};

use crate::judged::{Judged, sentence};
use crate::standing::shape::{Goal, NOWHERE};
use crate::standing::{Change, Entry, LinkChange, Standing};
use crate::verdict::Verdict;

/// A switch, and the last entry of a LID that was written there: before, after, and the step.
type Written = BTreeMap<u16, (u8, u8, usize)>;

/// Judges a change set that leads from what `standing` proves, and the agents hold, to what is right after `links` have
/// changed. `before` is the verdict on what stands; its findings stay, its loads are brought up to date.
///
/// `None` says no more than that this way of judging does not do: something else than entries would be set, the proof
/// would not hold, or the steps are not safe in every order; [`crate::judge`] finds out which. The proof is then what it
/// was; else it follows.
#[must_use]
pub fn judge_repair(
    standing: &mut Standing,
    fabric: &Fabric,
    links: &[LinkChange],
    changes: ChangeSet,
    before: &Verdict,
) -> Option<Judged<ChangeSet>> {
    let steps = standing.steps(fabric, &changes)?;
    standing.graphs[0].removed = Some(Vec::new());
    let of_links = Change {
        links: links.to_vec(),
        entries: Vec::new(),
    };
    let undo_links = standing.apply(&of_links).ok()?;
    if standing.is_safe_way(&steps) {
        let mut entries = steps.concat();
        // The last of several for one entry counts.
        entries.reverse();
        entries.sort_by_key(|e| (e.lid, e.switch));
        entries.dedup_by_key(|e| (e.lid, e.switch));
        let change = Change {
            entries,
            links: Vec::new(),
        };
        if let Ok(undo) = standing.apply(&change) {
            let proof = standing.proof();
            if proof.holds() {
                let mut verdict = before.clone();
                verdict.figures.host_pairs_reached = proof.host_pairs_reached;
                verdict.figures.hops.clear();
                (verdict.figures.hops_max, verdict.figures.hops_mean) = (0, proof.hops_mean);
                (verdict.figures.load, verdict.figures.lanes) = (proof.load, proof.lanes);
                return sentence(verdict, changes).ok();
            }
            // It was in force a moment ago, so it has no circle.
            drop(standing.apply(&undo));
        }
    }
    drop(standing.apply(&undo_links));
    None
}

impl Standing {
    /// True if packets of hosts to a LID leave a switch.
    #[must_use]
    pub fn carries_hosts(&self, switch: SwitchIdx, lid: Lid) -> bool {
        let (switches, lid) = (self.flows.shape.switches, lid.index());
        let row = self.flows.pairs.get(lid / BLOCK_LIDS * switches + switch.to_usize());
        row.is_some_and(|row| row[lid % BLOCK_LIDS] > 0)
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

    /// True if no mix of old and new entries, step by step and without a wait, closes a cycle in traffic of hosts and
    /// agents. The links have changed already; what led over them is still on its way.
    fn is_safe_way(&mut self, steps: &[Vec<Entry>]) -> bool {
        let mut turns: BTreeSet<(u32, u8)> = self.graphs[0].removed.take().into_iter().flatten().collect();
        let shape = &self.flows.shape;
        let total = shape.total();
        let is_up = |cell: usize| self.flows.next[cell] != NOWHERE;
        turns.retain(|&(vertex, port)| {
            let cell = vertex as usize % total;
            is_up(cell) && is_up(usize::from(shape.behind(cell)) * shape.cells + usize::from(port))
        });
        let mut by_lid: BTreeMap<Lid, Vec<(usize, Entry)>> = BTreeMap::new();
        for (number, step) in steps.iter().enumerate() {
            for &entry in step {
                by_lid.entry(entry.lid).or_default().push((number, entry));
            }
        }
        for (lid, writes) in &by_lid {
            self.mixed_turns(*lid, writes, &mut turns);
        }
        self.graphs[0].stays_acyclic_with(&self.flows.shape, &turns)
    }

    /// Dependencies that may come about while the entries of one LID are written.
    fn mixed_turns(&self, lid: Lid, writes: &[(usize, Entry)], turns: &mut BTreeSet<(u32, u8)>) {
        let shape = &self.flows.shape;
        let goal = shape.goals[lid.index()];
        if goal == Goal::Unused {
            return;
        }
        let mut mix = Mix {
            standing: self,
            lid: lid.0,
            written: Written::new(),
            senders: BTreeMap::new(),
            open: Vec::new(),
            turns,
            of_switch: matches!(goal, Goal::Switch(_)),
            first: usize::from(shape.lanes[lid.index()]) * shape.total(),
        };
        for step in writes.chunk_by(|a, b| a.0 == b.0) {
            mix.step(step);
        }
    }
}

/// Packets of hosts, and of switches.
const HOSTS: u8 = 1;
const SWITCHES: u8 = 2;

/// One LID while its entries are written.
struct Mix<'a> {
    standing: &'a Standing,
    lid: u16,
    written: Written,
    /// Who may be on a channel, by cell: only those that are not on it by what stood.
    senders: BTreeMap<u32, u8>,
    open: Vec<(u32, u8)>,
    turns: &'a mut BTreeSet<(u32, u8)>,
    of_switch: bool,
    /// Its lane's first vertex.
    first: usize,
}

impl Mix<'_> {
    fn step(&mut self, writes: &[(usize, Entry)]) {
        for &(step, Entry { switch, egress, .. }) in writes {
            let (_, before) = self.entries(switch.0 as u16, step);
            self.written.insert(switch.0 as u16, (before, egress, step));
        }
        for &(step, Entry { switch, egress, .. }) in writes {
            let shape = &self.standing.flows.shape;
            let switch = switch.to_usize();
            for i in shape.entering_from[switch] as usize..shape.entering_from[switch + 1] as usize {
                let cell = shape.entering[i].cell;
                let senders = self.on(cell);
                if senders != 0 {
                    self.turn(cell, senders, egress);
                }
            }
            let own = if shape.own[switch] > 0 { HOSTS } else { 0 };
            self.reach(switch, egress, own | SWITCHES);
            while let Some((cell, senders)) = self.open.pop() {
                let (before, now) = self.entries(shape.behind(cell as usize), step);
                self.turn(cell, senders, before);
                if now != before {
                    self.turn(cell, senders, now);
                }
            }
        }
    }

    /// Entries in force in a step: before and after it.
    fn entries(&self, switch: u16, step: usize) -> (u8, u8) {
        match self.written.get(&switch) {
            None => {
                let entry = self.standing.flows.entry(switch, self.lid);
                (entry, entry)
            }
            Some(&(before, after, last)) if last == step => (before, after),
            Some(&(_, after, _)) => (after, after),
        }
    }

    /// Who may be on a channel by what stood, and by what was added.
    fn on(&self, cell: u32) -> u8 {
        let (flows, shape) = (&self.standing.flows, &self.standing.flows.shape);
        let (src, port) = (cell as usize / shape.cells, cell as usize % shape.cells);
        let added = self.senders.get(&cell).copied().unwrap_or(0);
        if flows.next[cell as usize] == NOWHERE || usize::from(flows.entry(src as u16, self.lid)) != port {
            return added;
        }
        let hosts = self.standing.carries_hosts(SwitchIdx::from_usize(src), Lid(self.lid));
        added | SWITCHES | if hosts { HOSTS } else { 0 }
    }

    /// Packets leave a switch by an entry.
    fn reach(&mut self, switch: usize, entry: u8, senders: u8) {
        let flows = &self.standing.flows;
        let cell = flows.shape.cell(switch, entry);
        if flows.next[cell] == NOWHERE {
            return;
        }
        let cell = cell as u32;
        let new = senders & !self.on(cell);
        if new != 0 {
            *self.senders.entry(cell).or_default() |= new;
            self.open.push((cell, new));
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
            self.turns.insert(((self.first + cell as usize) as u32, entry));
        }
        self.reach(switch, entry, senders);
    }
}
