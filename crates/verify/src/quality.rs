//! Judges the quality of service of a plan by its tables alone: what each port's tables give to each service level, and
//! whether that is what the plan promises.
//!
//! Every service level with a promise has, at every hop, a lane that the link has and the arbiter serves. Layers of
//! routing never share a lane, so a cycle over real lanes would be a cycle over the layers that were proved. A class
//! with a bound never waits behind a lane of unbounded high priority, a class of low latency has entries of high
//! priority, and weights give each class its share. What OpenSM's settings do to service levels without a promise is a
//! warning.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::qos::{Latency, PlannedQos, PortLanes, Promise};
use selvedge_plan::{HeldLanes, Plan, has_sl_mapping, link_lanes};
use selvedge_types::{Mtu, PortNum, PortState, Sl, Vl};

use crate::finding::{Fault, Finding, Place, QualityFault, Severity};

/// PortInfo.VLHighLimit without a bound. Source: IBA vol 1 §7.6.9.2.
const UNBOUNDED: u8 = 255;

/// Bytes of a unit of weight. Source: IBA vol 1 §14.2.5.9.
const UNIT_BYTES: u32 = 64;

/// Returns all findings about the quality of service of a plan; none if it has none.
pub fn findings(fabric: &Fabric, plan: &Plan) -> Vec<Finding> {
    let mut found = Vec::new();
    let Some(qos) = plan.lane_tables.as_ref().and_then(|tables| tables.qos.as_deref()) else {
        return found;
    };
    let sorted = Sorted::new(qos);
    for (&at, settings) in &plan.ports {
        let Some(node) = fabric.nodes().get(at.node) else {
            continue;
        };
        let Some(lanes) = qos.ports.get(&at) else {
            // Packets to port 0 of a switch need no lane.
            if at.port != PortNum::MANAGEMENT {
                found.push(error(fabric, at, QualityFault::NoTables));
            }
            continue;
        };
        if settings.vl_high_limit != lanes.high_limit {
            let (tables, port) = (lanes.high_limit, settings.vl_high_limit);
            found.push(error(fabric, at, QualityFault::HighLimit { tables, port }));
        }
        let is_external = at.port != PortNum::MANAGEMENT;
        let here = Here {
            lanes,
            link: if is_external { link_lanes(settings) } else { 15 },
            at,
        };
        if is_external && lanes.row.is_none() && has_sl_mapping(node, at.port) {
            found.push(error(fabric, at, QualityFault::NoTables));
        }
        here.check(&sorted, &mut |severity, why| {
            found.push(finding(severity, fabric, at, why));
        });
    }
    found
}

/// Returns the ports where a row in force puts a service level on a lane that another layer of routing has in the plan:
/// while rows change, packets of both layers would be on one lane. Only routes that rely on layers need this.
pub fn former(fabric: &Fabric, plan: &Plan, held: &HeldLanes) -> Vec<Finding> {
    let qos = plan.lane_tables.as_ref().and_then(|tables| tables.qos.as_deref());
    let Some(qos) = qos.filter(|_| plan.lanes > 1) else {
        return Vec::new();
    };
    let sorted = Sorted::new(qos);
    let mixed = qos.ports.iter().filter_map(|(&at, lanes)| {
        let node = fabric.nodes().get(at.node)?;
        let is_active = node
            .port(at.port)
            .is_some_and(|port| port.link.state == PortState::Active);
        let planned = lanes.row.iter().chain(lanes.rows.values());
        let mut layer_of: BTreeMap<Vl, (Sl, usize)> = BTreeMap::new();
        for row in planned.filter(|_| is_active) {
            let layers = sorted
                .of
                .iter()
                .map(|(&sl, &(_, layer))| (row[usize::from(sl.get())], (sl, layer)));
            layer_of.extend(layers);
        }
        let external = node.external_ports().map(|(ingress, _)| ingress);
        let ingresses = std::iter::once(PortNum::MANAGEMENT).chain(external);
        let rows = ingresses.filter_map(|ingress| held.row(node.guid, at.port, ingress));
        let mut found = rows.flat_map(|row| {
            sorted.of.iter().filter_map(|(&sl, &(_, layer))| {
                let vl = row[usize::from(sl.get())];
                let (other, of) = *layer_of.get(&vl).filter(|_| vl != Vl::MANAGEMENT)?;
                (of != layer).then_some(QualityFault::Mixed { sl, vl, other })
            })
        });
        found.next().map(|why| error(fabric, at, why))
    });
    mixed.collect()
}

/// Returns the lanes, as bits, on which planned rows of quality of service put packets towards a port, but which no
/// planned table of it serves.
pub fn lanes_without_turn(plan: &Plan, port: PortRef) -> u16 {
    let qos = plan.lane_tables.as_ref().and_then(|tables| tables.qos.as_ref());
    let Some(lanes) = qos.and_then(|qos| qos.ports.get(&port)) else {
        return 0;
    };
    let rows = lanes.row.iter().chain(lanes.rows.values()).flatten();
    let used = rows.fold(0, |lanes, vl| lanes | 1 << vl.get());
    let turns = lanes.blocks.iter().flatten().flat_map(|block| &block.turns);
    let served = turns
        .filter(|turn| turn.1 > 0)
        .fold(0, |lanes, turn| lanes | 1 << turn.0.get());
    used & !served
}

fn error(fabric: &Fabric, at: PortRef, why: QualityFault) -> Finding {
    finding(Severity::Error, fabric, at, why)
}

fn finding(severity: Severity, fabric: &Fabric, at: PortRef, why: QualityFault) -> Finding {
    let port = Place::port(fabric, at);
    Finding::new(severity, Fault::Quality { port, why })
}

/// The promises of a plan by service level.
struct Sorted<'a> {
    promises: &'a [Promise],
    /// For each service level: its promise, and its layer of routing.
    of: BTreeMap<Sl, (&'a Promise, usize)>,
    /// Most packets of a low-priority lane are not larger than this.
    largest: Mtu,
}

impl<'a> Sorted<'a> {
    fn new(qos: &'a PlannedQos) -> Self {
        let levels = qos.promises.iter().flat_map(|promise| {
            let layers = promise.levels.iter().enumerate();
            layers.map(move |(layer, sl)| (*sl, (promise, layer)))
        });
        Self {
            promises: &qos.promises,
            of: levels.collect(),
            largest: qos
                .promises
                .iter()
                .map(|promise| promise.mtu)
                .max()
                .unwrap_or(Mtu::B4096),
        }
    }
}

/// The tables of one port.
struct Here<'a> {
    at: PortRef,
    lanes: &'a PortLanes,
    /// Data lanes of the link.
    link: u8,
}

impl Here<'_> {
    /// Returns all rows towards the port. A port without rows puts all packets on lane 0.
    fn rows(&self) -> Vec<[Vl; Sl::COUNT]> {
        let all = self.lanes.row.iter().chain(self.lanes.rows.values());
        let rows: BTreeSet<[Vl; Sl::COUNT]> = all.copied().collect();
        match rows.is_empty() {
            true => vec![[Vl::default(); Sl::COUNT]],
            false => rows.into_iter().collect(),
        }
    }

    /// Returns the entries with a weight of one priority.
    fn entries(&self, is_high: bool) -> impl Iterator<Item = (Vl, u8)> + '_ {
        let (low, high) = self.lanes.blocks.split_at(2);
        let blocks = if is_high { high } else { low };
        let entries = blocks.iter().flatten().flat_map(|block| block.turns);
        entries.filter(|(_, weight)| *weight > 0)
    }

    fn has_entry(&self, is_high: bool, lane: Vl) -> bool {
        self.entries(is_high).any(|(vl, _)| vl == lane)
    }

    /// A port without any arbitration table serves all its lanes in turn.
    fn has_tables(&self) -> bool {
        self.lanes.blocks.iter().any(Option::is_some)
    }

    fn check(&self, sorted: &Sorted<'_>, note: &mut dyn FnMut(Severity, QualityFault)) {
        let mut worst: BTreeMap<Severity, BTreeSet<QualityFault>> = BTreeMap::new();
        for row in self.rows() {
            for (sl, &vl) in (0_u8..16).filter_map(Sl::new).zip(&row) {
                let promise = sorted.of.get(&sl).map(|(promise, _)| *promise);
                if let Some((severity, why)) = self.wrong(&row, (sl, vl), promise) {
                    worst.entry(severity).or_default().insert(why);
                }
            }
            if let Some(why) = mixed(&row, sorted) {
                worst.entry(Severity::Error).or_default().insert(why);
            }
            for promise in sorted
                .promises
                .iter()
                .filter(|promise| !promise.except.contains(&self.at))
            {
                worst
                    .entry(Severity::Error)
                    .or_default()
                    .extend(self.broken(&row, promise, sorted));
            }
        }
        // A port has one finding, so that a table with one fault is not told in 16 ways.
        for severity in [Severity::Error, Severity::Warning] {
            if let Some(why) = worst.remove(&severity).and_then(|faults| faults.into_iter().next()) {
                note(severity, why);
                return;
            }
        }
    }

    /// Returns what is wrong with the lane of a service level.
    fn wrong(&self, row: &[Vl; 16], (sl, vl): (Sl, Vl), promise: Option<&Promise>) -> Option<(Severity, QualityFault)> {
        let severity = if promise.is_some() {
            Severity::Error
        } else {
            Severity::Warning
        };
        if vl == Vl::MANAGEMENT {
            // Without a promise no path has this level: subnet administration masks it.
            return promise.map(|_| (Severity::Error, QualityFault::Dropped { sl }));
        }
        if vl.get() >= self.link {
            return Some((Severity::Error, QualityFault::NoLane { sl, vl }));
        }
        if !self.has_tables() {
            return None;
        }
        match (self.has_entry(true, vl), self.has_entry(false, vl)) {
            (false, false) => Some((severity, QualityFault::NeverServed { sl, vl })),
            (false, true) if self.lanes.high_limit == UNBOUNDED => {
                let mut used = row.iter().copied().filter(|other| *other != Vl::MANAGEMENT);
                let high = used.find(|other| *other != vl && self.has_entry(true, *other))?;
                let is_bounded = promise.is_some_and(|promise| promise.is_bounded);
                let severity = if is_bounded { Severity::Error } else { Severity::Warning };
                Some((severity, QualityFault::Starved { sl, vl, high }))
            }
            (_, _) => None,
        }
    }

    /// Returns the promise of a class that the tables break, if they do.
    fn broken(&self, row: &[Vl; 16], promise: &Promise, sorted: &Sorted<'_>) -> Option<QualityFault> {
        if !promise.is_bounded || !self.has_tables() {
            return None;
        }
        let own: BTreeSet<Vl> = promise.levels.iter().map(|sl| row[usize::from(sl.get())]).collect();
        let class = || promise.class.clone();
        // On a lane of its own: packets of another class would take some of the share.
        let strangers = sorted.of.iter().filter(|(_, (other, _))| other.class != promise.class);
        let stranger = strangers
            .map(|(sl, _)| *sl)
            .find(|sl| own.contains(&row[usize::from(sl.get())]));
        if let Some(other) = stranger {
            return Some(QualityFault::Shared { class: class(), other });
        }
        let is_high = promise.latency == Latency::Low;
        if is_high && own.iter().any(|vl| !self.has_entry(true, *vl)) && self.entries(false).next().is_some() {
            return Some(QualityFault::NotFirst { class: class() });
        }
        let share = u32::from(promise.share?);
        let found = match is_high {
            true => self.share_of_high(row, &own, sorted),
            false => self.share_of_low(&own, promise.mtu, sorted.largest),
        };
        (found < share).then(|| QualityFault::Share {
            class: class(),
            promised: share as u8,
            found: found as u8,
        })
    }

    /// Returns the least part, in percent, that lanes get of what low-priority lanes send, while all of these have
    /// packets of the largest size. A lane may send while some of its weight is left, so an entry of another lane
    /// counts up to its last packet. An own entry counts as its weight, unless packets of the same size fill it up.
    fn share_of_low(&self, own: &BTreeSet<Vl>, mtu: Mtu, largest: Mtu) -> u32 {
        let filled = |weight: u8, mtu: Mtu| {
            let packet = mtu.bytes() as u32 / UNIT_BYTES;
            u32::from(weight).div_ceil(packet) * packet
        };
        let (mut mine, mut all) = (0, 0);
        for (vl, weight) in self.entries(false) {
            let is_own = own.contains(&vl);
            let counted = match is_own && mtu != largest {
                true => u32::from(weight),
                false => filled(weight, largest),
            };
            all += counted;
            mine += if is_own { counted } else { 0 };
        }
        100 * mine / all.max(1)
    }

    /// Returns the least part of the link, in percent, that lanes of high priority get, while all lanes have packets of
    /// the largest size. A packet of low priority follows each packet of high priority while VLHighLimit is 0; with a
    /// larger limit fewer follow. Packets may have headers of up to a unit.
    fn share_of_high(&self, row: &[Vl; 16], own: &BTreeSet<Vl>, sorted: &Sorted<'_>) -> u32 {
        let packet = |mtu: Mtu| mtu.bytes() as u32 / UNIT_BYTES;
        let mtu_of = |lane: Vl| {
            let on_it = sorted.of.iter().filter(|(sl, _)| row[usize::from(sl.get())] == lane);
            on_it
                .map(|(_, (promise, _))| promise.mtu)
                .max()
                .unwrap_or(sorted.largest)
        };
        let (mut mine, mut others, mut turns) = (0, 0, 0);
        for (vl, weight) in self.entries(true) {
            let packets = u32::from(weight).div_ceil(packet(mtu_of(vl)) + 1);
            turns += packets;
            match own.contains(&vl) {
                true => mine += packets * packet(mtu_of(vl)),
                false => others += packets * packet(mtu_of(vl)),
            }
            others += packets;
        }
        let of_limit = u32::from(self.lanes.high_limit) * 4_096 / UNIT_BYTES;
        let low = match (self.entries(false).next(), of_limit) {
            (None, _) => 0,
            (Some(_), 0) => turns,
            (Some(_), limit) => (mine + others).div_ceil(limit),
        };
        100 * mine / (mine + others + low * (packet(sorted.largest) + 1)).max(1)
    }
}

/// Returns two service levels of different layers of routing that share a lane.
fn mixed(row: &[Vl; 16], sorted: &Sorted<'_>) -> Option<QualityFault> {
    let mut layer_of: BTreeMap<Vl, (Sl, usize)> = BTreeMap::new();
    for (&sl, &(_, layer)) in &sorted.of {
        let vl = row[usize::from(sl.get())];
        if vl == Vl::MANAGEMENT {
            continue;
        }
        let (other, before) = *layer_of.entry(vl).or_insert((sl, layer));
        if before != layer {
            return Some(QualityFault::Mixed { sl, vl, other });
        }
    }
    None
}

/// Writes a fault in words.
pub fn text(why: &QualityFault, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match why {
        QualityFault::NoTables => f.write_str("the plan's quality of service has no tables for it"),
        QualityFault::HighLimit { tables, port } => {
            write!(
                f,
                "VLHighLimit is planned as {port}, its arbitration tables need {tables}"
            )
        }
        QualityFault::Dropped { sl } => write!(f, "SL {} is mapped to VL 15, and paths have this SL", sl.get()),
        QualityFault::NoLane { sl, vl } => {
            write!(
                f,
                "SL {} is put on VL {}, which its link does not have",
                sl.get(),
                vl.get()
            )
        }
        QualityFault::NeverServed { sl, vl } => {
            write!(
                f,
                "SL {} is put on VL {}, which its arbiter never serves",
                sl.get(),
                vl.get()
            )
        }
        QualityFault::Mixed { sl, vl, other } => write!(
            f,
            "SL {} and SL {} of another layer of routing share VL {}",
            other.get(),
            sl.get(),
            vl.get()
        ),
        QualityFault::Starved { sl, vl, high } => write!(
            f,
            "with VLHighLimit 255, SL {} on VL {} is sent only while VL {} of high priority has no packet",
            sl.get(),
            vl.get(),
            high.get()
        ),
        QualityFault::Shared { class, other } => {
            write!(
                f,
                "class {class} shares a lane with SL {} of another class",
                other.get()
            )
        }
        QualityFault::NotFirst { class } => {
            write!(
                f,
                "class {class} is to have low latency, and has a lane without entry of high priority"
            )
        }
        QualityFault::Share { class, promised, found } => {
            write!(
                f,
                "class {class} is promised {promised} %, and its weights give it {found} %"
            )
        }
    }
}

#[cfg(test)]
mod tests;
