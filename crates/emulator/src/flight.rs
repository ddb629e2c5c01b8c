//! MADs in flight in one array, so that a hop moves an index and not 256 bytes.

use selvedge_chassis::PortIdx;
use selvedge_types::{Lid, PKey, Sl};
use selvedge_wire::Mad;

use crate::ClientId;

/// Index of a MAD in the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub u32);

/// One MAD in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub mad: Mad,
    /// Source LID; permissive in the directed part of a directed route.
    pub slid: Lid,
    /// Destination LID; permissive in the directed part of a directed route.
    pub dlid: Lid,
    /// The port where the MAD is, or to which it travels.
    pub at: PortIdx,
    /// The client that sent the request, if any; the response goes to it.
    pub origin: Option<ClientId>,
    /// Source and destination queue pair: 0 or 1.
    pub qp: u32,
    /// How often the node had been powered on when its agent accepted the MAD.
    pub boot: u32,
    /// Number of links crossed.
    pub hops: u16,
    /// P_Key of a GMP.
    pub pkey: PKey,
    pub sl: Sl,
}

/// The array of MADs in flight.
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
