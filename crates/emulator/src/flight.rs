//! MADs on their way: a slab, so that a hop moves an index and not 256 bytes.

use selvedge_chassis::PortIdx;
use selvedge_types::{Lid, PKey, Sl};
use selvedge_wire::Mad;

use crate::ClientId;

/// Position of a MAD in the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub u32);

/// One MAD on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub mad: Mad,
    /// Source LID; permissive in the directed part of a directed route.
    pub slid: Lid,
    /// Destination LID; permissive in the directed part of a directed route.
    pub dlid: Lid,
    /// The port where it is, or to which it is on its way.
    pub at: PortIdx,
    /// The client that sent the request, if one did; an answer goes back to it.
    pub origin: Option<ClientId>,
    /// Queue pair it was sent to and from: 0 or 1.
    pub qp: u32,
    /// How often the node had been switched on when an agent took it in.
    pub boot: u32,
    /// Cables crossed.
    pub hops: u16,
    /// P_Key of a GMP.
    pub pkey: PKey,
    pub sl: Sl,
}

/// The slab.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flights {
    slots: Vec<Flight>,
    free: Vec<Slot>,
}

impl Flights {
    pub fn put(&mut self, flight: &Flight) -> Slot {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot.0 as usize] = *flight;
                slot
            }
            None => {
                self.slots.push(*flight);
                // `EmulatorConfig::in_flight_max` is a u32, so there are never more.
                Slot(u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX))
            }
        }
    }

    pub fn at(&self, slot: Slot) -> &Flight {
        &self.slots[slot.0 as usize]
    }

    pub fn at_mut(&mut self, slot: Slot) -> &mut Flight {
        &mut self.slots[slot.0 as usize]
    }

    pub fn release(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
