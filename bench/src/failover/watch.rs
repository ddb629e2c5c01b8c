//! The one observer: what passed a relay, and when, whoever the manager is.
//!
//! It knows the cables and nothing else of the manager: what a table holds it learns from the answers to Sets.

use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use selvedge_conformance::Seen;
use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_plan::{BLOCK_LIDS, Lids, NO_PATH, Tables};
use selvedge_transport::ibsim::Way;
use selvedge_types::{Lid, LidRange, Lmc, PortNum};
use selvedge_wire::attribute::PortInfo;
use selvedge_wire::{AttributeId, Datagram, Mad, Method, Status};

use crate::case::Case;
use crate::error::BenchError;

/// How long a manager must neither send nor work before it is said to have done.
const SILENCE: Duration = Duration::from_millis(600);
/// How often is looked.
const STEP: Duration = Duration::from_millis(20);
/// Processor time, in hundredths of a second, that an idle manager may use while it is silent.
const IDLE_TICKS: u64 = 3;
/// Bits of a transaction id that come back as they were sent; above are the simulator's.
const OWN_BITS: u64 = 0xFFFF_FFFF;

/// What one client of a relay did since [`Watch::begin`].
#[derive(Clone, Debug, Default)]
pub struct Span {
    /// First trap that was handed to the manager.
    pub trap: Option<Instant>,
    /// Answer to the last Set of a table that changed an entry.
    pub last_change: Option<Instant>,
    /// Last packet of all.
    pub last: Option<Instant>,
    /// Requests sent.
    pub mads: u64,
    /// Sets of tables sent, repeats and those that change nothing included.
    pub table_sets: u64,
    /// Sets of tables that changed an entry.
    pub changing_sets: u64,
    /// Entries that were changed.
    pub entries: u64,
    /// Requests in the order they were sent, those after the last change included.
    pub requests: Vec<(Instant, Datagram)>,
    /// First and last packet of any other client.
    pub others: Option<(Instant, Instant)>,
}

/// A request on its way.
struct Asked {
    /// The port by which it reaches its node.
    at: Option<PortRef>,
    method: Method,
}

/// The observer.
pub struct Watch<'c> {
    case: &'c Case,
    seen: Receiver<Seen>,
    /// The client that is watched: a process id.
    client: u32,
    asked: BTreeMap<u64, Asked>,
    ports: BTreeMap<Vec<u8>, Option<PortRef>>,
    lids: BTreeMap<Lid, PortRef>,
    blocks: BTreeMap<(NodeIdx, u32), [u8; BLOCK_LIDS]>,
    span: Span,
}

impl<'c> Watch<'c> {
    /// Watches what a relay tells of the client with this process id.
    #[must_use]
    pub fn new(case: &'c Case, seen: Receiver<Seen>, client: u32) -> Self {
        Self {
            case,
            seen,
            client,
            asked: BTreeMap::new(),
            ports: BTreeMap::new(),
            lids: BTreeMap::new(),
            blocks: BTreeMap::new(),
            span: Span::default(),
        }
    }

    /// From now on a new span.
    pub fn begin(&mut self) {
        self.drain();
        self.span = Span::default();
    }

    /// The span so far.
    pub fn span(&mut self) -> &Span {
        self.drain();
        &self.span
    }

    /// Waits until the manager has done: `is_done` says so, and it neither sends nor uses its processor any more.
    pub fn settle(&mut self, limit: Duration, mut is_done: impl FnMut(&Span) -> bool) -> Result<(), BenchError> {
        let (start, mut silent) = (Instant::now(), None);
        loop {
            let packets = self.drain();
            let (now, ticks) = (Instant::now(), ticks(self.client));
            let (since, first) = match silent {
                Some(silent) if packets == 0 => silent,
                _ => (now, ticks),
            };
            silent = Some((since, first));
            if now.duration_since(since) >= SILENCE {
                if ticks - first > IDLE_TICKS {
                    silent = None;
                } else if is_done(&self.span) {
                    return Ok(());
                }
            }
            if start.elapsed() > limit {
                return Err(BenchError::NotQuiet {
                    fabric: self.case.spec.clone(),
                    limit_s: limit.as_secs(),
                });
            }
            thread::park_timeout(STEP);
        }
    }

    /// Which LID is whose, as far as it was seen.
    #[must_use]
    pub fn lids(&self) -> Lids {
        let mut lids = Lids::new();
        for (&lid, &port) in &self.lids {
            // A LID seen at two ports was moved; the manager's mistakes are not ours to report.
            let _ = lids.insert(port, LidRange::single(lid));
        }
        lids
    }

    /// Tables as the agents confirmed them.
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

    /// Takes in what has come; how many packets of the manager.
    fn drain(&mut self) -> usize {
        let mut packets = 0;
        while let Ok(seen) = self.seen.try_recv() {
            if seen.client == self.client {
                packets += 1;
                self.take(&seen);
            } else {
                let first = self.span.others.map_or(seen.at, |(first, _)| first);
                self.span.others = Some((first, seen.at));
            }
        }
        packets
    }

    fn take(&mut self, seen: &Seen) {
        let mad = &seen.packet.mad;
        self.span.last = Some(seen.at);
        match (seen.way, mad.method()) {
            (Way::Up, Method::Get | Method::Set) => self.asks(seen),
            (Way::Down, Method::GetResp) if seen.packet.status == 0 => self.answers(seen),
            (Way::Down, Method::Trap) => self.span.trap = self.span.trap.or(Some(seen.at)),
            _ => {}
        }
    }

    fn asks(&mut self, seen: &Seen) {
        let mad = seen.packet.mad;
        self.span.mads += 1;
        let is_set = mad.method() == Method::Set;
        self.span.table_sets += u64::from(is_set && mad.attribute() == AttributeId::LINEAR_FORWARDING);
        let at = match seen.packet.to.lid {
            Lid::PERMISSIVE => self.port_at(&mad),
            lid => self.lids.get(&lid).copied(),
        };
        let method = mad.method();
        self.asked.insert(mad.transaction().0 & OWN_BITS, Asked { at, method });
        let address = seen.packet.to.into();
        self.span.requests.push((seen.at, Datagram { address, mad }));
    }

    fn answers(&mut self, seen: &Seen) {
        let mad = &seen.packet.mad;
        let Some(asked) = self.asked.remove(&(mad.transaction().0 & OWN_BITS)) else {
            return;
        };
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
                self.span.last_change = Some(seen.at);
            }
        }
    }

    /// Of a switch only port 0 has a LID; a host is asked for the port that is reached.
    fn learn_lid(&mut self, at: PortRef, mad: &Mad) {
        let Ok(info) = mad.read::<PortInfo>() else { return };
        let is_switch = self.case.fabric.node(at.node).is_switch();
        let port = if is_switch { PortNum::MANAGEMENT } else { at.port };
        let is_own = !is_switch || mad.modifier() == 0;
        if is_own && info.lid.is_unicast() && info.lmc == Lmc::ZERO {
            self.lids.insert(info.lid, PortRef { port, ..at });
        }
    }

    /// Where a directed route ends.
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

/// Processor time that a process has used, in hundredths of a second; 0 if it is gone.
fn ticks(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is a name in brackets and may hold anything; utime and stime are the 12th and 13th after it.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let times = fields.split_whitespace().skip(11).take(2);
    times.filter_map(|field| field.parse::<u64>().ok()).sum()
}
