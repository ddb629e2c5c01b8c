//! Packets in flight, in one array with reused entries.

use crate::units::Ps;

/// Stands for no packet.
pub(crate) const NIL: u32 = u32::MAX;

/// Transport opcode of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    /// Part of a message without a connection.
    Data,
    /// Part of a message of a queue pair.
    Request {
        /// True if the packet requests an acknowledgement.
        asks: bool,
    },
    /// Acknowledges all packets before a number.
    Ack,
    /// Acknowledges all packets before a number, and reports that the packet with this number is missing.
    Nak,
}

/// A packet in one cache line: header fields, position and times.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Packet {
    /// When the packet's message was posted.
    pub created: Ps,
    /// When the packet's first byte arrived at the current switch; at a host, when the packet was sent.
    pub arrived: Ps,
    /// The next packet in the same queue.
    pub next: u32,
    /// The packet's message.
    pub message: u32,
    /// The packet's queue pair.
    pub qp: u32,
    /// Packet sequence number.
    pub psn: u32,
    /// Sending host.
    pub source: u32,
    /// Destination host.
    pub destination: u32,
    /// Destination LID.
    pub dlid: u16,
    /// Payload bytes.
    pub payload: u16,
    /// Header and CRC bytes.
    pub overhead: u8,
    /// Credit blocks.
    pub blocks: u8,
    /// Service level.
    pub sl: u8,
    /// Lane of the link by which the packet arrived.
    pub vl: u8,
    /// Input by which the packet arrived.
    pub input: u8,
    /// Output by which the packet will leave.
    pub output: u8,
    /// Lane of the output by which the packet will leave.
    pub output_vl: u8,
    /// Purpose of the packet.
    pub opcode: Opcode,
    /// How often the packet's current link had come up when the packet was sent.
    pub epoch: u8,
    /// True for the last packet of a message.
    pub last: bool,
    /// True if the packet is in the part of the buffer that all lanes share.
    pub shared: bool,
    /// True if it has been delayed because it goes from a slow link to a fast one.
    pub held: bool,
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

impl Packet {
    #[inline]
    pub const fn spot(&self) -> Spot {
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
    #[inline]
    pub const fn wire_bytes(&self) -> u32 {
        self.payload as u32 + self.overhead as u32
    }
}

/// All packets in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packets {
    all: Vec<Packet>,
    free: u32,
    live: u32,
}

impl Packets {
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
    pub fn insert(&mut self, packet: Packet) -> u32 {
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
    pub fn get(&self, index: u32) -> &Packet {
        &self.all[index as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, index: u32) -> &mut Packet {
        &mut self.all[index as usize]
    }
}
