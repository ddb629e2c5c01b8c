//! Which links a manager has heard of in this life, and of which nothing came through although it asked.

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_emulator::Emulator;
use selvedge_wire::{AttributeId, Class, Mad, PortInfo};

use super::Watcher;

/// What one life of a manager has heard, by port.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    /// The port at the other end of the cable through which an answer came, if one did.
    through: Vec<Option<PortIdx>>,
    /// A question to what is behind the link was lost, or its answer.
    is_cut_off: Vec<bool>,
    /// The last question for the port's state was lost, or its answer: whoever does not know that a link is up asks
    /// nothing through it.
    is_unknown: Vec<bool>,
}

impl Heard {
    pub fn new(chassis: &Chassis) -> Self {
        let ports = chassis.port_count();
        Self {
            through: vec![None; ports],
            is_cut_off: vec![false; ports],
            is_unknown: vec![false; ports],
        }
    }

    /// An answer came: every link on its way lets MADs pass.
    pub fn answer(&mut self, chassis: &Chassis, at: PortIdx, mad: &Mad) {
        let end = along(chassis, at, mad, |from, to| {
            self.through[from.0 as usize] = Some(to);
            self.through[to.0 as usize] = Some(from);
        });
        if let Some(port) = end.and_then(|end| asked_about(chassis, end, mad)) {
            self.is_unknown[port.0 as usize] = false;
        }
    }

    /// A question or its answer was lost.
    pub fn lost(&mut self, chassis: &Chassis, at: PortIdx, mad: &Mad) {
        let mut last = None;
        let end = along(chassis, at, mad, |from, to| last = Some((from, to)));
        for port in last.into_iter().flat_map(|(from, to)| [from, to]) {
            self.is_cut_off[port.0 as usize] = true;
        }
        if let Some(port) = end.and_then(|end| asked_about(chassis, end, mad)) {
            self.is_unknown[port.0 as usize] = true;
        }
    }

    /// True if no answer ever came through the link of a port, and that is the medium's doing: what was asked through
    /// it was lost, or whether it is up.
    pub fn is_unseen(&self, chassis: &Chassis, port: PortIdx) -> bool {
        let Some(far) = chassis.wire(port).peer() else {
            return false;
        };
        let ends = [port, far].map(|end| end.0 as usize);
        let is_heard = self.through[ends[0]] == Some(far) || self.through[ends[1]] == Some(port);
        !is_heard && ends.into_iter().any(|end| self.is_cut_off[end] || self.is_unknown[end])
    }
}

/// Calls for every link on a directed route; the port by which its last node is entered, if it leads there now.
fn along(chassis: &Chassis, at: PortIdx, mad: &Mad, mut call: impl FnMut(PortIdx, PortIdx)) -> Option<PortIdx> {
    if mad.class() != Class::SubnDirected {
        return None;
    }
    let mut at = at;
    for &num in mad.route().ok()?.ports() {
        let from = chassis.port_at(chassis.wire(at).node(), num)?;
        let to = chassis.wire(from).peer()?;
        call(from, to);
        at = to;
    }
    Some(at)
}

/// The port whose PortInfo is asked for at the node of a port, if it is.
fn asked_about(chassis: &Chassis, end: PortIdx, mad: &Mad) -> Option<PortIdx> {
    if mad.attribute() != AttributeId::PORT_INFO {
        return None;
    }
    let num = mad.modifier() & !PortInfo::SM_SUPPORTS_EXTENDED_SPEEDS;
    chassis.port_at(chassis.wire(end).node(), u8::try_from(num).ok()?)
}

impl Watcher {
    /// Takes note of what the medium has lost.
    pub(super) fn note_lost(&mut self, emulator: &mut Emulator) {
        let mut lost = std::mem::take(&mut self.lost);
        emulator.take_lost(&mut lost);
        let chassis = emulator.chassis();
        for (client, mad) in lost.drain(..) {
            if let Some(at) = emulator.port_of(client) {
                let heard = self.heard.entry(client).or_insert_with(|| Heard::new(chassis));
                heard.lost(chassis, at, &mad);
            }
        }
        self.lost = lost;
    }
}
