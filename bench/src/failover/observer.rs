//! The packets between a manager and the fabric, with their times; for any manager and any clock.
//!
//! The observer knows the cables and nothing else about the manager: it reads the contents of tables from the answers
//! to Sets.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_plan::{BLOCK_LIDS, Lids, NO_PATH, Tables};
use selvedge_transport::ibsim::Way;
use selvedge_types::{Lid, LidRange, Lmc, PortNum};
use selvedge_wire::attribute::PortInfo;
use selvedge_wire::{Address, AttributeId, Datagram, Mad, Method, Status};

use crate::case::Case;

/// Bits of a transaction id that come back as they were sent. The simulator uses the bits above.
const OWN_BITS: u64 = 0xFFFF_FFFF;

/// What a manager did since [`Observer::begin`]. Times are those of the observer's clock.
#[derive(Clone, Debug, Default)]
pub struct Span {
    /// First trap that was handed to the manager.
    pub trap: Option<Duration>,
    /// Answer to the last Set of a table that changed an entry.
    pub last_change: Option<Duration>,
    /// Last packet of all.
    pub last: Option<Duration>,
    /// Time between the trap and the last change without a request in flight: the manager computes or waits.
    pub thinking: Duration,
    /// Requests sent.
    pub mads: u64,
    /// Sets of tables sent, including repeats and Sets that change nothing.
    pub table_sets: u64,
    /// Sets of tables that changed an entry.
    pub changing_sets: u64,
    /// Entries that were changed.
    pub entries: u64,
    /// Requests in the order they were sent, those after the last change included.
    pub requests: Vec<(Duration, Datagram)>,
    /// First and last packet of any other client.
    pub others: Option<(Duration, Duration)>,
    /// The time since which no request is in flight, and the total of earlier such times.
    idle: (Option<Duration>, Duration),
}

/// A packet that passes the observer.
pub struct Passing<'m> {
    /// When the packet passes.
    pub at: Duration,
    /// Its direction.
    pub way: Way,
    /// The other end of the packet.
    pub address: Address,
    /// True for a request that comes back unanswered.
    pub is_returned: bool,
    /// The MAD.
    pub mad: &'m Mad,
}

/// A request in flight.
struct Asked {
    /// The port by which the request reaches its node.
    at: Option<PortRef>,
    method: Method,
}

/// The observer.
pub struct Observer<'c> {
    case: &'c Case,
    asked: BTreeMap<u64, Asked>,
    ports: BTreeMap<Vec<u8>, Option<PortRef>>,
    lids: BTreeMap<Lid, PortRef>,
    blocks: BTreeMap<(NodeIdx, u32), [u8; BLOCK_LIDS]>,
    /// The observations.
    pub span: Span,
}

impl<'c> Observer<'c> {
    /// Returns an observer that has seen no packet yet.
    #[must_use]
    pub const fn new(case: &'c Case) -> Self {
        Self {
            case,
            asked: BTreeMap::new(),
            ports: BTreeMap::new(),
            lids: BTreeMap::new(),
            blocks: BTreeMap::new(),
            span: Span {
                trap: None,
                last_change: None,
                last: None,
                thinking: Duration::ZERO,
                mads: 0,
                table_sets: 0,
                changing_sets: 0,
                entries: 0,
                requests: Vec::new(),
                others: None,
                idle: (None, Duration::ZERO),
            },
        }
    }

    /// Begins a new span.
    pub fn begin(&mut self) {
        self.span = Span::default();
    }

    /// Returns the owners of LIDs, as far as observed.
    #[must_use]
    pub fn lids(&self) -> Lids {
        let mut lids = Lids::new();
        for (&lid, &port) in &self.lids {
            // A LID seen at two ports was moved; this tool does not report mistakes of managers.
            let _ = lids.insert(port, LidRange::single(lid));
        }
        lids
    }

    /// Returns the tables, as the agents have confirmed them.
    #[must_use]
    pub fn tables(&self) -> Tables {
        let fabric = &self.case.fabric;
        let blocks = self.blocks.keys().map(|key| key.1 as usize + 1).max().unwrap_or(1);
        let top = u16::try_from(blocks * BLOCK_LIDS - 1).unwrap_or(u16::MAX);
        let mut tables = Tables::new(fabric.switches().len(), Lid(top));
        for (&(node, block), bytes) in &self.blocks {
            if let Some(switch) = fabric.switch_index(node) {
                *tables.block_mut(switch, block as usize) = *bytes;
            }
        }
        tables
    }

    /// Handles a packet of the manager.
    pub fn take(&mut self, passing: &Passing<'_>) {
        self.span.last = Some(passing.at);
        let id = passing.mad.transaction().0 & OWN_BITS;
        match (passing.way, passing.mad.method()) {
            (Way::Up, Method::Get | Method::Set) => self.asks(id, passing),
            (Way::Down, _) if passing.is_returned => drop(self.asked.remove(&id)),
            (Way::Down, Method::GetResp) => self.answers(id, passing),
            (Way::Down, Method::Trap) if self.span.trap.is_none() => {
                self.span.trap = Some(passing.at);
                self.span.idle = (None, Duration::ZERO);
            }
            _ => {}
        }
        let idle = &mut self.span.idle;
        if self.asked.is_empty() && idle.0.is_none() {
            idle.0 = Some(passing.at);
        }
    }

    fn asks(&mut self, id: u64, passing: &Passing<'_>) {
        let mad = passing.mad;
        self.span.mads += 1;
        let is_set = mad.method() == Method::Set;
        self.span.table_sets += u64::from(is_set && mad.attribute() == AttributeId::LINEAR_FORWARDING);
        let at = match passing.address.lid {
            Lid::PERMISSIVE => self.port_at(mad),
            lid => self.lids.get(&lid).copied(),
        };
        let method = mad.method();
        let idle = &mut self.span.idle;
        if let Some(since) = idle.0.take() {
            idle.1 += passing.at.saturating_sub(since);
        }
        self.asked.insert(id, Asked { at, method });
        let (address, mad) = (passing.address, *mad);
        self.span.requests.push((passing.at, Datagram { address, mad }));
    }

    fn answers(&mut self, id: u64, passing: &Passing<'_>) {
        let mad = passing.mad;
        let Some(asked) = self.asked.remove(&id) else { return };
        let Some(at) = asked.at.filter(|_| mad.status() == Status::OK) else {
            return;
        };
        if mad.attribute() == AttributeId::PORT_INFO {
            self.learn_lid(at, mad);
        }
        if asked.method == Method::Set && mad.attribute() == AttributeId::LINEAR_FORWARDING {
            let block = self
                .blocks
                .entry((at.node, mad.modifier()))
                .or_insert([NO_PATH; BLOCK_LIDS]);
            let changed = block.iter().zip(mad.smp_data()).filter(|(old, new)| old != new).count();
            *block = *mad.smp_data();
            if changed > 0 {
                self.span.changing_sets += 1;
                self.span.entries += changed as u64;
                self.span.last_change = Some(passing.at);
                self.span.thinking = self.span.idle.1;
            }
        }
    }

    /// Learns the LID of a port. For a switch, only port 0 has a LID; for a host, the request names the port that it
    /// reaches.
    fn learn_lid(&mut self, at: PortRef, mad: &Mad) {
        let Ok(info) = mad.read::<PortInfo>() else { return };
        let is_switch = self.case.fabric.node(at.node).is_switch();
        let port = if is_switch { PortNum::MANAGEMENT } else { at.port };
        let is_own = !is_switch || mad.modifier() == 0;
        if is_own && info.lid.is_unicast() && info.lmc == Lmc::ZERO {
            self.lids.insert(info.lid, PortRef { port, ..at });
        }
    }

    /// Returns the port at which a directed route ends.
    fn port_at(&mut self, mad: &Mad) -> Option<PortRef> {
        let route = mad.route().ok()?;
        if let Some(&known) = self.ports.get(route.ports()) {
            return known;
        }
        let start = PortRef {
            node: self.case.host,
            port: self.case.host_port(),
        };
        let end = route.ports().iter().try_fold(start, |at, &port| {
            let port = PortNum::new(port)?;
            self.case.fabric.peer(PortRef { port, ..at })
        });
        self.ports.insert(route.ports().to_vec(), end);
        end
    }
}
