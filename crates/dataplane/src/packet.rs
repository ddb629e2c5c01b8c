//! Packets in flight, in one array with reused entries.

use selvedge_types::PKey;

use crate::units::{Ps, blocks};

/// Stands for no packet.
pub(crate) const NIL: u32 = u32::MAX;

/// A packet in one cache line, if the endpoint's part is not longer than 24 bytes: header fields, and its position.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Packet<H> {
    /// The endpoint's part.
    pub header: H,
    /// When the packet's first byte arrived at the current switch.
    pub(crate) arrived: Ps,
    /// The next packet in the same queue.
    pub(crate) next: u32,
    /// The copies that share the packet's buffer; [`NIL`] if it is no copy.
    pub(crate) copies: u32,
    /// Destination LID, with path bits.
    pub dlid: u16,
    /// Source LID, with path bits.
    pub slid: u16,
    /// Partition key.
    pub pkey: u16,
    /// Payload bytes.
    pub payload: u16,
    /// Bytes of headers, CRCs and padding.
    pub overhead: u8,
    /// Service level.
    pub sl: u8,
    /// Credit blocks.
    pub(crate) blocks: u8,
    /// Lane of the link by which the packet arrived.
    pub(crate) vl: u8,
    /// Input by which the packet arrived.
    pub(crate) input: u8,
    /// Output by which the packet will leave.
    pub(crate) output: u8,
    /// Lane of the output by which the packet will leave.
    pub(crate) output_vl: u8,
    /// How often the packet's current link had come up when the packet was sent.
    pub(crate) epoch: u8,
    /// True if the packet is in the part of the buffer that all lanes share.
    pub(crate) shared: bool,
    /// True if it has been delayed because it goes from a slow link to a fast one.
    pub(crate) held: bool,
}

/// The place of a packet in a switch. It is read byte by byte, because its fields were written by small stores shortly
/// before, and a wide load would have to wait for these stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub input: u8,
    pub vl: u8,
    pub output: u8,
    pub output_vl: u8,
    pub blocks: u8,
    pub shared: bool,
}

impl<H> Packet<H> {
    /// Returns a packet of the default partition with these LIDs, (source, destination).
    #[must_use]
    #[inline(always)]
    pub const fn new(header: H, (slid, dlid): (u16, u16), sl: u8, payload: u16, overhead: u8) -> Self {
        Self {
            header,
            arrived: 0,
            next: NIL,
            copies: NIL,
            dlid,
            slid,
            pkey: PKey::DEFAULT_FULL.0,
            payload,
            overhead,
            sl,
            blocks: blocks(payload as u32 + overhead as u32) as u8,
            vl: 0,
            input: 0,
            output: 0,
            output_vl: 0,
            epoch: 0,
            shared: false,
            held: false,
        }
    }

    /// Returns the packet with another partition key.
    #[must_use]
    pub const fn with_pkey(mut self, pkey: u16) -> Self
    where
        H: Copy,
    {
        self.pkey = pkey;
        self
    }

    /// Returns the lane of the link by which the packet arrived.
    #[must_use]
    pub const fn vl(&self) -> u8 {
        self.vl
    }

    #[inline]
    pub(crate) const fn spot(&self) -> Spot {
        Spot {
            input: self.input,
            vl: self.vl,
            output: self.output,
            output_vl: self.output_vl,
            blocks: self.blocks,
            shared: self.shared,
        }
    }

    /// Returns the length on the wire in bytes.
    #[must_use]
    #[inline]
    pub const fn wire_bytes(&self) -> u32 {
        self.payload as u32 + self.overhead as u32
    }
}

/// All packets in flight.
#[derive(Clone, Debug)]
pub(crate) struct Packets<H> {
    all: Vec<Packet<H>>,
    free: u32,
    live: u32,
}

impl<H> Packets<H> {
    pub fn new() -> Self {
        Self {
            all: Vec::new(),
            free: NIL,
            live: 0,
        }
    }

    /// Returns the number of packets in flight.
    pub const fn live(&self) -> u32 {
        self.live
    }

    /// Returns the largest number of packets that were in flight at the same time.
    pub const fn most(&self) -> usize {
        self.all.len()
    }

    #[inline(always)]
    pub fn insert(&mut self, packet: Packet<H>) -> u32 {
        self.live += 1;
        if let Some(place) = self.all.get_mut(self.free as usize) {
            let index = self.free;
            self.free = place.next;
            *place = packet;
            index
        } else {
            self.all.push(packet);
            // An event has 29 bits for a packet: 26 GB of packets.
            u32::try_from(self.all.len() - 1).unwrap_or(NIL)
        }
    }

    #[inline]
    pub fn remove(&mut self, index: u32) {
        self.live -= 1;
        self.all[index as usize].next = self.free;
        self.free = index;
    }

    #[inline]
    pub fn get(&self, index: u32) -> &Packet<H> {
        &self.all[index as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, index: u32) -> &mut Packet<H> {
        &mut self.all[index as usize]
    }
}
