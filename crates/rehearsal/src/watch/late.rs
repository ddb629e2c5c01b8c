//! What must be noticed in time: switches that lied, and traps.

use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_emulator::Emulator;
use selvedge_fabric::NodeIdx;
use selvedge_plan::BLOCK_LIDS;
use selvedge_sim::Time;
use selvedge_sm::Role;
use selvedge_wire::AttributeId;

use super::{Checker, Rule, Sent, Watcher, name};
use crate::Violation;
use crate::digest::Digest;
use crate::manager::{Life, Manager, ManagerId};
use crate::subnet::Subnets;

/// A trap is repressed in the same breath.
const TRAP_ANSWER: Duration = Duration::from_millis(10);
const TRAP_ANSWER_OUTSIDE: Duration = Duration::from_secs(1);
/// A light sweep comes at its interval; then it takes as long as agents that answer late make it.
const READ_BACK_GRACE: Duration = Duration::from_secs(4);

/// A block that a switch acknowledged and does not hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lie {
    since: Time,
    /// When its switch was last out of reach of who wrote it.
    apart: Time,
    by: ManagerId,
}

impl Watcher {
    /// What a switch acknowledged and does not hold. True if this Set ends such a lie: who sent it believed the switch
    /// to hold something else than it did.
    pub(super) fn note_lie(
        &mut self,
        now: Time,
        chassis: &Chassis,
        (node, attribute, modifier): (NodeIdx, AttributeId, u32),
        sent: Option<Sent>,
        late: bool,
    ) -> bool {
        let Some(sent) = sent.filter(|_| attribute == AttributeId::LINEAR_FORWARDING) else {
            return false;
        };
        let block = usize::try_from(modifier).unwrap_or(usize::MAX);
        let empty = [selvedge_plan::NO_PATH; BLOCK_LIDS];
        let held = chassis.switch(node).map_or(&empty, |switch| switch.linear_block(block));
        let is_held = Digest::default().bytes(held).0 == sent.content;
        if is_held && !late {
            let was_lied = self.lies.remove(&(node, modifier)).is_some();
            if was_lied {
                self.lies_ended.push(now);
            }
            return was_lied;
        }
        // Where bits are flipped the switch may have taken what came, or not: nobody lied, and nobody knows.
        if self.corrupting && !self.liars.contains(&node) {
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

    /// True if a switch holds another block than it acknowledged last, because it lied or a late Set came after, and
    /// the manager that wrote the block can read it.
    pub fn is_any_block_astray(&self, emulator: &Emulator, managers: &[Manager], subnets: &Subnets) -> bool {
        let mut lies = self.lies.iter();
        lies.any(|(&(node, _), lie)| reader(lie, node, emulator, managers, subnets).is_some())
    }

    /// Something was found that a rule excuses.
    pub fn count(&mut self, checker: Checker, rule: Rule) {
        *self.exemptions.entry((checker, rule)).or_default() += 1;
    }

    /// How long a port that a flipped bit gave another M_Key may be locked for: the longest lease.
    pub fn locked_for(&self, chassis: &Chassis, m_key: u64) -> Option<Duration> {
        self.corrupted?;
        let ports = (0..chassis.port_count()).filter_map(|port| u32::try_from(port).ok().map(PortIdx));
        let settings = ports
            .filter(|&port| chassis.end_port(port) == port && chassis.is_powered(chassis.wire(port).node()))
            .map(|port| chassis.port(port).settings());
        let is_locked = |m_key_held: u64, protect: u8| m_key_held != 0 && m_key_held != m_key && protect > 0;
        let locked = settings.filter(|held| is_locked(held.m_key, held.m_key_protect));
        let lease = locked.map(|held| held.m_key_lease_s).filter(|lease| *lease > 0).max()?;
        Some(Duration::from_secs(lease.into()))
    }

    /// End ports whose M_Key differs from this one in one bit, where bits were flipped: nobody meant them to have it.
    pub fn keys_flipped(&self, chassis: &Chassis, m_key: u64) -> Vec<PortIdx> {
        if self.corrupted.is_none() {
            return Vec::new();
        }
        let ports = (0..chassis.port_count()).filter_map(|port| u32::try_from(port).ok().map(PortIdx));
        let own = ports.filter(|&port| chassis.end_port(port) == port && chassis.is_powered(chassis.wire(port).node()));
        own.filter(|&port| (chassis.port(port).settings().m_key ^ m_key).is_power_of_two())
            .collect()
    }

    /// Whoever rests over a block that its switch does not hold must read it back in time.
    pub(super) fn read_back_in_time(
        &mut self,
        now: Time,
        emulator: &Emulator,
        managers: &[Manager],
        subnets: &Subnets,
    ) -> Result<(), Violation> {
        let life = |lie: &Lie, node| reader(lie, node, emulator, managers, subnets);
        let is_outside = self.counting.is_some();
        for (&(node, _), lie) in self.lies.iter_mut().filter(|_| !is_outside) {
            if life(lie, node).is_none() {
                lie.apart = now;
            }
        }
        let overdue = self.lies.iter().find(|(_, lie)| {
            let sweep = managers.get(lie.by.0).and_then(|m| m.config.sweep_interval);
            let is_over = |from: Time| sweep.is_some_and(|sweep| now > from + sweep + READ_BACK_GRACE);
            // Nobody reads where he cannot reach: that a switch is back he finds by the next light sweep.
            is_over(lie.since) && (lie.apart == now || is_over(lie.apart))
        });
        let Some((&(node, block), &lie)) = overdue else {
            return Ok(());
        };
        let manager = managers.get(lie.by.0);
        let reaches = life(&lie, node).is_some_and(|life| life.sm.is_resting());
        let chassis = emulator.chassis();
        if !reaches && self.counting.is_none() {
            // It has something else to do, and is to read it when that is done.
            self.lies.insert((node, block), Lie { since: now, ..lie });
            return Ok(());
        }
        self.lies.remove(&(node, block));
        let (manager, switch) = (
            manager.map_or_else(String::new, |m| m.name.clone()),
            name(chassis, node),
        );
        let seconds = now.since(lie.since).as_secs();
        self.judge(Checker::ReadBack, None, || Violation::NotReadBack {
            manager,
            switch,
            block,
            seconds,
        })
    }

    /// A program takes longer: its process may have to wait.
    fn traps_outside(&mut self, now: Time, managers: &[Manager]) -> Result<(), Violation> {
        let overdue = self.traps.iter().find(|(_, (_, at))| now > *at + TRAP_ANSWER_OUTSIDE);
        let Some((&key, &(id, _))) = overdue else { return Ok(()) };
        self.traps.remove(&key);
        let manager = managers.get(id.0).map_or_else(String::new, |m| m.name.clone());
        let millis = u64::try_from(TRAP_ANSWER_OUTSIDE.as_millis()).unwrap_or(0);
        self.raise(Checker::Traps, Violation::TrapIgnored { manager, millis })
    }

    /// Forgets what somebody was told who is no more.
    pub fn forgets_traps(&mut self, id: ManagerId) {
        self.traps.retain(|_, (whose, _)| *whose != id);
    }

    /// A master represses a trap at once; one that was killed or gave way meanwhile does not.
    pub(super) fn traps_in_time(&mut self, now: Time, managers: &[Manager]) -> Result<(), Violation> {
        let mut ignored = None;
        if self.counting.is_some() {
            return self.traps_outside(now, managers);
        }
        self.traps.retain(|&(client, _), &mut (id, at)| {
            let manager = managers.get(id.0);
            let life = manager
                .and_then(|m| m.life.as_ref())
                .filter(|life| life.client == client);
            let counts = life.is_some_and(|life| life.sm.role() == Role::Master);
            if counts && now > at + TRAP_ANSWER {
                ignored = manager.map(|m| m.name.clone());
            }
            counts
        });
        match ignored {
            Some(manager) => Err(Violation::TrapIgnored {
                manager,
                millis: u64::try_from(TRAP_ANSWER.as_millis()).unwrap_or(0),
            }),
            None => Ok(()),
        }
    }
}

/// The manager that wrote a block which its switch does not hold, if it is master and can reach the switch.
fn reader<'a>(
    lie: &Lie,
    node: NodeIdx,
    emulator: &Emulator,
    managers: &'a [Manager],
    subnets: &Subnets,
) -> Option<&'a Life> {
    let life = managers.get(lie.by.0)?.life.as_ref();
    let life = life.filter(|life| life.sm.role() == Role::Master)?;
    let (at, own) = (emulator.port_of(life.client)?, emulator.chassis().port_at(node, 0)?);
    subnets.connected(at, own).then_some(life)
}

#[cfg(test)]
mod tests {
    use selvedge_emulator::EmulatorConfig;
    use selvedge_sim::Seed;
    use selvedge_types::Guid;

    use super::*;
    use crate::watch::heard::tests::row;

    #[test]
    fn nobody_lies_where_a_bit_was_flipped() {
        let fabric = row();
        let switch = fabric.find(Guid(2)).unwrap();
        // Whether bits are flipped, whether the agent lies, and whether what it does not hold is a lie, or of a bit.
        let check = |corrupting: bool, is_liar: bool, want: (bool, bool)| {
            let mut emulator = Emulator::new(&fabric, EmulatorConfig::default(), Seed(1));
            let mut watcher = Watcher::new(&mut emulator);
            watcher.set_corrupting(Time::ZERO, corrupting);
            watcher.liars.extend(is_liar.then_some(switch));
            let sent = Sent {
                manager: ManagerId(0),
                content: 1,
                serial: 1,
                at: Time::ZERO,
                looked_at: None,
                to: Some(switch),
                astray: None,
            };
            let block = (switch, AttributeId::LINEAR_FORWARDING, 0);
            watcher.note_lie(Time::ZERO, emulator.chassis(), block, Some(sent), false);
            let is_of_bit = watcher.strays.get(&(switch, 0)) == Some(&Rule::CorruptMedium);
            assert_eq!((!watcher.lies.is_empty(), is_of_bit), want, "{corrupting} {is_liar}");
            // What it holds after all is none.
            let empty = [selvedge_plan::NO_PATH; BLOCK_LIDS];
            let content = Digest::default().bytes(&empty).0;
            let truth = Some(Sent { content, ..sent });
            watcher.note_stray(block, truth, false);
            let ends = watcher.note_lie(Time::ZERO, emulator.chassis(), block, truth, false);
            assert_eq!(ends, want.0);
            assert!(watcher.lies.is_empty() && watcher.strays.is_empty());
        };
        check(false, false, (true, false));
        check(false, true, (true, false));
        check(true, false, (false, true));
        check(true, true, (true, false));
    }
}
