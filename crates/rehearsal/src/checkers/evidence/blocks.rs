//! Blocks of linear tables that differ, or may differ, from what their switches acknowledged; managers read them back
//! in time.
//!
//! Of some blocks no manager can know this. A flipped bit (real links would discard such a packet) or a moved cable led
//! the block to another switch. Or an earlier process sent the block, and the block arrived after the next process had
//! read the tables.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_chassis::Chassis;
use selvedge_emulator::Change;
use selvedge_fabric::NodeIdx;
use selvedge_plan::{BLOCK_LIDS, NO_PATH};
use selvedge_sim::Time;
use selvedge_sm::Role;

use super::faults::is_since;
use crate::Violation;
use crate::checkers::ledger::Ledger;
use crate::checkers::names::node_name;
use crate::checkers::rules::{Checker, Rule};
use crate::checkers::seen::Scene;
use crate::checkers::taken::Taken;
use crate::digest::Digest;
use crate::manager::{Life, ManagerId};

/// Time beyond the interval of light sweeps: the sweep itself takes longer if agents answer late.
const READ_BACK_GRACE: Duration = Duration::from_secs(4);

/// A switch and a block.
pub(in crate::checkers) type Block = (NodeIdx, u32);

/// A block that a switch acknowledged and does not hold.
#[derive(Clone, Copy, Debug)]
struct Lie {
    since: Time,
    /// When the manager that wrote the block was last unable to reach the switch.
    apart: Time,
    by: ManagerId,
}

/// Blocks with contents that may differ from what their switches acknowledged.
#[derive(Clone, Debug, Default)]
pub(in crate::checkers) struct Blocks {
    /// Switches with lying agents: they acknowledge blocks without storing them.
    liars: BTreeSet<NodeIdx>,
    lies: BTreeMap<Block, Lie>,
    /// Times at which a Set corrected a block that a switch had acknowledged but not stored. Until then the switch
    /// forwarded by entries that no manager knew.
    lies_ended: Vec<Time>,
    /// When a block was last acknowledged but not stored.
    lied: Option<Time>,
    /// Blocks with contents that no manager knows, and the rule for each.
    strays: BTreeMap<Block, Rule>,
}

impl Blocks {
    /// Sets the switches that have lying agents from now on.
    pub fn set_liars(&mut self, liars: &BTreeSet<NodeIdx>) {
        self.liars.clone_from(liars);
    }

    /// Records that a block was read, so that its contents are known again.
    pub fn note_read(&mut self, change: &Change) {
        if let Change::Read { node, modifier, .. } = *change {
            self.lies.remove(&(node, modifier));
            self.strays.remove(&(node, modifier));
        }
    }

    /// Records a block that a switch has stored. If a flipped bit led it to the wrong switch, the answer looks like
    /// that of the intended switch. The blocks of both switches are then unknown until they are read or set again.
    pub fn note_stray(&mut self, taken: &Taken, is_corrupting: bool) {
        let (Some((node, block)), Some(sent)) = (taken.block(), taken.sent) else {
            return;
        };
        match sent.to.filter(|to| *to != node && is_corrupting) {
            Some(to) => {
                let both = [(node, block), (to, block)];
                self.strays.extend(both.map(|block| (block, Rule::CorruptMedium)));
            }
            None if taken.is_late => {}
            None => drop(self.strays.remove(&(node, block))),
        }
    }

    /// Records a block that the wrong switch has stored: a cable had been moved, and no manager could know of that. The
    /// blocks of both switches are unknown until they are read or set again.
    pub fn note_unheard(&mut self, (node, block): Block, meant: NodeIdx) {
        let both = [(node, block), (meant, block)];
        self.strays.extend(both.map(|block| (block, Rule::Unheard)));
    }

    /// Records a block that a switch has stored and that an earlier process of a manager had sent. The present process
    /// may have read the tables of the switch before.
    pub fn note_bequeathed(&mut self, taken: &Taken) {
        if let Some(block) = taken.block() {
            self.strays.entry(block).or_insert(Rule::Predecessor);
        }
    }

    /// Records whether a switch holds the block that it acknowledged. Returns true if this Set ends a *lie*: until now
    /// the switch held other contents than it had acknowledged to the manager.
    pub fn note_lie(&mut self, now: Time, chassis: &Chassis, taken: &Taken, is_corrupting: bool) -> bool {
        let (Some((node, modifier)), Some(sent)) = (taken.block(), taken.sent) else {
            return false;
        };
        let block = usize::try_from(modifier).unwrap_or(usize::MAX);
        let empty = [NO_PATH; BLOCK_LIDS];
        let held = chassis.switch(node).map_or(&empty, |switch| switch.linear_block(block));
        let is_held = Digest::default().bytes(held).0 == sent.content;
        if is_held && !taken.is_late {
            let was_lied = self.lies.remove(&(node, modifier)).is_some();
            if was_lied {
                self.lies_ended.push(now);
            }
            return was_lied;
        }
        // Where bits are flipped the switch may have taken the block as it came: that is no lie, and its content is
        // unknown.
        if is_corrupting && !self.liars.contains(&node) {
            self.strays.insert((node, modifier), Rule::CorruptMedium);
            return false;
        }
        self.lied = Some(now);
        self.lies.entry((node, modifier)).or_insert(Lie {
            since: now,
            apart: now,
            by: sent.manager,
        });
        false
    }

    /// True if a switch still lies, or has lied since this time.
    pub fn lied_since(&self, then: Time) -> bool {
        !self.lies.is_empty() || is_since(self.lied, then)
    }

    /// True if a lie ended at that time.
    pub fn has_lie_ended(&self, at: Time) -> bool {
        self.lies_ended.contains(&at)
    }

    /// True if the contents of any block are unknown for this reason.
    pub fn is_any_stray(&self, why: Rule) -> bool {
        self.strays.values().any(|rule| *rule == why)
    }

    /// Returns the blocks that their switches acknowledged but do not hold.
    pub fn lies(&self) -> impl Iterator<Item = Block> {
        self.lies.keys().copied()
    }

    /// Returns the blocks with contents that no manager knows, and the rule for each.
    pub fn strays(&self) -> impl Iterator<Item = (Block, Rule)> {
        self.strays.iter().map(|(block, rule)| (*block, *rule))
    }

    /// Returns the switches with blocks that they acknowledged but do not hold, or that no manager knows.
    pub fn switches(&self) -> impl Iterator<Item = NodeIdx> {
        self.lies.keys().chain(self.strays.keys()).map(|(node, _)| *node)
    }

    /// True if a switch holds another block than it acknowledged last (it lied, or a late Set arrived afterwards), and
    /// the manager that wrote the block can read it.
    pub fn is_any_astray(&self, scene: &Scene<'_>) -> bool {
        let mut lies = self.lies.iter();
        lies.any(|(&(node, _), lie)| reader(lie, node, scene).is_some())
    }

    /// Fails if an idle manager does not read back, in time, a block that its switch does not hold.
    pub fn read_back_in_time(
        &mut self,
        scene: &Scene<'_>,
        is_outside: bool,
        found: &mut Ledger,
    ) -> Result<(), Violation> {
        let (now, managers) = (scene.now, scene.managers);
        for (&(node, _), lie) in self.lies.iter_mut().filter(|_| !is_outside) {
            if reader(lie, node, scene).is_none() {
                lie.apart = now;
            }
        }
        let overdue = self.lies.iter().find(|(_, lie)| {
            let sweep = managers.get(lie.by.0).and_then(|m| m.config.sweep_interval);
            let is_over = |from: Time| sweep.is_some_and(|sweep| now > from + sweep + READ_BACK_GRACE);
            // A manager cannot read a switch that it cannot reach: the next light sweep finds that the switch is back.
            is_over(lie.since) && (lie.apart == now || is_over(lie.apart))
        });
        let Some((&(node, block), &lie)) = overdue else {
            return Ok(());
        };
        let reaches = reader(&lie, node, scene).is_some_and(|life| life.sm.is_resting());
        if !reaches && !is_outside {
            // The manager has other work, and must read the block after it.
            self.lies.insert((node, block), Lie { since: now, ..lie });
            return Ok(());
        }
        self.lies.remove(&(node, block));
        let manager = managers.get(lie.by.0);
        found.judge(Checker::ReadBack, None, || Violation::NotReadBack {
            manager: manager.map_or_else(String::new, |m| m.name.clone()),
            switch: node_name(scene.chassis(), node),
            block,
            seconds: now.since(lie.since).as_secs(),
        })
    }
}

/// Returns the manager that wrote a block which its switch does not hold, if it is master and can reach the switch.
fn reader<'a>(lie: &Lie, node: NodeIdx, scene: &Scene<'a>) -> Option<&'a Life> {
    let life = scene.life(lie.by).filter(|life| life.sm.role() == Role::Master)?;
    let (at, own) = (scene.emulator.port_of(life.client)?, scene.chassis().port_at(node, 0)?);
    scene.subnets.connected(at, own).then_some(life)
}

#[cfg(test)]
mod tests {
    use selvedge_types::Guid;
    use selvedge_wire::AttributeId;

    use super::*;
    use crate::checkers::evidence::links::tests::row;
    use crate::checkers::taken::Sent;

    fn taken(node: NodeIdx, attribute: AttributeId, content: u64, to: Option<NodeIdx>) -> Taken {
        let sent = Sent {
            manager: ManagerId(0),
            content,
            serial: 1,
            at: Time::ZERO,
            looked_at: None,
            to,
            astray: None,
        };
        Taken {
            node,
            attribute,
            modifier: 0,
            by: None,
            sent: Some(sent),
            is_late: false,
            excuse: None,
            is_renumbering: false,
        }
    }

    #[test]
    fn nobody_lies_where_a_bit_was_flipped() {
        let fabric = row();
        let switch = fabric.find(Guid(2)).unwrap();
        let chassis = Chassis::new(&fabric);
        let table = |content: u64| taken(switch, AttributeId::LINEAR_FORWARDING, content, Some(switch));
        // Whether bits are flipped, whether the agent lies, and whether a block that differs counts as a lie, or as a
        // flipped bit.
        let check = |is_corrupting: bool, is_liar: bool, want: (bool, bool)| {
            let mut blocks = Blocks::default();
            blocks.liars.extend(is_liar.then_some(switch));
            blocks.note_lie(Time::ZERO, &chassis, &table(1), is_corrupting);
            let is_of_bit = blocks.strays.get(&(switch, 0)) == Some(&Rule::CorruptMedium);
            assert_eq!((!blocks.lies.is_empty(), is_of_bit), want, "{is_corrupting} {is_liar}");
            // A block that it does hold is neither.
            let truth = table(Digest::default().bytes(&[NO_PATH; BLOCK_LIDS]).0);
            blocks.note_stray(&truth, is_corrupting);
            let ends = blocks.note_lie(Time::ZERO, &chassis, &truth, is_corrupting);
            assert_eq!(ends, want.0);
            assert!(blocks.lies.is_empty() && blocks.strays.is_empty());
        };
        check(false, false, (true, false));
        check(false, true, (true, false));
        check(true, false, (false, true));
        check(true, true, (true, false));
    }

    #[test]
    fn what_a_flipped_bit_took_elsewhere_is_nobody_s_until_it_comes_again() {
        let fabric = row();
        let [first, second] = [2, 3].map(|guid| fabric.find(Guid(guid)).unwrap());
        let mut blocks = Blocks::default();
        let mut check = |is_corrupting: bool, node: NodeIdx, is_late: bool, want: &[NodeIdx]| {
            let table = taken(node, AttributeId::LINEAR_FORWARDING, 0, Some(second));
            blocks.note_stray(&Taken { is_late, ..table }, is_corrupting);
            let found: Vec<NodeIdx> = blocks.strays.keys().map(|(node, _)| *node).collect();
            assert_eq!(found, want, "{is_corrupting} {node:?} {is_late}");
        };
        // Without a flipped bit a moved cable is the reason.
        check(false, first, false, &[]);
        check(true, second, false, &[]);
        check(true, first, false, &[first, second]);
        check(false, second, true, &[first, second]);
        check(false, second, false, &[first]);
        check(false, first, false, &[]);
    }

    #[test]
    fn what_an_earlier_life_had_sent_is_nobody_s_until_it_comes_again() {
        let switch = row().find(Guid(2)).unwrap();
        let mut blocks = Blocks::default();
        blocks.note_bequeathed(&taken(switch, AttributeId::SWITCH_INFO, 0, None));
        assert!(blocks.strays.is_empty());
        let table = taken(switch, AttributeId::LINEAR_FORWARDING, 0, Some(switch));
        blocks.note_bequeathed(&table);
        assert_eq!(blocks.strays.get(&(switch, 0)), Some(&Rule::Predecessor));
        blocks.note_stray(&Taken { is_late: true, ..table }, false);
        assert!(!blocks.strays.is_empty());
        blocks.note_stray(&table, false);
        assert!(blocks.strays.is_empty());
    }
}
