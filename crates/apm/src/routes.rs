//! Primary and alternate paths of pairs of hosts.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{Lids, ServiceLevels, Tables};
use selvedge_types::{Lid, LidRange, Sl};

use crate::compare::{common, next};
use crate::index::{Index, Step, switch};
use crate::{ApmError, Fault, Host, Policy, Shared, Way};

/// Largest number of paths between two ports of which an alternate is chosen.
const CANDIDATES_MAX: u16 = 256;

/// What paths depend on: a fabric and the plan in force in it.
#[derive(Clone, Copy, Debug)]
pub struct Subnet<'a> {
    /// The fabric.
    pub fabric: &'a Fabric,
    /// LIDs of every end port.
    pub lids: &'a Lids,
    /// Forwarding tables of every switch of the fabric.
    pub tables: &'a Tables,
    /// Service levels that hosts get in path records.
    pub levels: &'a ServiceLevels,
}

/// A path between two ports, as a queue pair has it in its address vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Source port.
    pub source: PortRef,
    /// Destination port.
    pub target: PortRef,
    /// Source LID: base LID plus path bits.
    pub slid: Lid,
    /// Destination LID.
    pub dlid: Lid,
    /// Source path bits.
    pub bits: u8,
    /// Service level of packets to the destination.
    pub sl: Sl,
}

/// A primary path with its alternate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternate {
    /// The primary path.
    pub primary: Path,
    /// The alternate path.
    pub alternate: Path,
    /// Links and switches of the primary path.
    pub primary_way: Way,
    /// Links and switches of the alternate path.
    pub alternate_way: Way,
    /// What both have.
    pub shared: Shared,
}

impl Alternate {
    /// True if a channel adapter can migrate by itself: both paths begin and end at the same adapters.
    #[must_use]
    pub fn is_in_hardware(&self) -> bool {
        let same = |a: PortRef, b: PortRef| a.node == b.node;
        same(self.primary.source, self.alternate.source) && same(self.primary.target, self.alternate.target)
    }

    /// True if the plan has the service level of the alternate path for its destination LID. Open MPI and MVAPICH2 keep
    /// the level of the primary path; the proof against deadlock then does not cover the alternate one.
    #[must_use]
    pub fn level_is_planned(&self, levels: &ServiceLevels) -> bool {
        levels.to(self.alternate.dlid) == self.alternate.sl
    }
}

/// The paths of a subnet.
#[derive(Clone, Copy, Debug)]
pub struct Routes<'a> {
    /// The subnet.
    pub subnet: Subnet<'a>,
    /// Its index.
    pub index: &'a Index,
}

impl Routes<'_> {
    /// Returns the primary path of two hosts: from the first port of the first adapter to that of the other host, with
    /// these path bits at both ends. Programs use 0 unless they are told otherwise.
    ///
    /// # Errors
    ///
    /// The hosts are the same one, or a port has no LID with these bits.
    pub fn primary(&self, pair: (&Host, &Host), bits: u8) -> Result<Path, ApmError> {
        let (source, target) = pair;
        let first = |host: &Host| host.hcas.first().and_then(|ports| ports.first()).copied();
        let (Some(from), Some(to)) = (first(source), first(target)) else {
            let name = source.name.clone();
            return Err(ApmError::NoSecondHca { host: name });
        };
        if from == to {
            let name = source.name.clone();
            return Err(ApmError::SameHost { name });
        }
        self.path("of the primary path", (from, to), bits.into())
    }

    /// Returns the primary path of two hosts, the alternate that a policy gives, and what both share.
    ///
    /// # Errors
    ///
    /// The policy gives no alternate path, or the tables have no path.
    pub fn alternate(&self, pair: (&Host, &Host), bits: u8, policy: Policy) -> Result<Alternate, ApmError> {
        let primary = self.primary(pair, bits)?;
        let primary_way = self.way(&primary).ok_or_else(|| self.no_path(&primary))?;
        let (alternate, alternate_way) = match policy {
            Policy::Manager => self.best(pair, (&primary, &primary_way))?,
            other => {
                let alternate = self.chosen(pair, &primary, other)?;
                let way = self.way(&alternate).ok_or_else(|| self.no_path(&alternate))?;
                (alternate, way)
            }
        };
        if (alternate.slid, alternate.dlid) == (primary.slid, primary.dlid) {
            return Err(ApmError::IsPrimary {
                policy: policy.to_string(),
                slid: primary.slid.0,
                dlid: primary.dlid.0,
            });
        }
        Ok(Alternate {
            shared: self.shared(pair, &primary, (&primary_way, &alternate_way)),
            primary,
            alternate,
            primary_way,
            alternate_way,
        })
    }

    /// Follows a path through the tables, there and back; `None` if they do not lead to the other end.
    #[must_use]
    pub fn way(&self, path: &Path) -> Option<Way> {
        let (source, target) = (self.index.end_at(path.source)?, self.index.end_at(path.target)?);
        let mut way = Way::default();
        let mut links = 0;
        for (ends, dlid) in [((source, target), path.dlid), ((target, source), path.slid)] {
            let arrives = self.index.walk(self.subnet, ends, dlid, |step| match step {
                Step::Switch(switch) => way.switches.push(switch),
                Step::Cable(cable, pairs) => {
                    links += 1;
                    way.cables.push(cable);
                    way.busiest = way.busiest.max(pairs);
                }
            });
            if !arrives {
                return None;
            }
            if way.hops == 0 {
                way.hops = links;
            }
        }
        for list in [&mut way.cables, &mut way.switches] {
            list.sort_unstable();
            list.dedup();
        }
        Some(way)
    }

    /// Returns one end of each cable of a way, there and back, those of the end ports too.
    pub fn cables<'b>(&'b self, way: &'b Way) -> impl Iterator<Item = PortRef> + 'b {
        way.cables.iter().map(|&cable| self.index.cable(cable))
    }

    /// Returns the alternate path of every policy but the manager's.
    fn chosen(&self, (source, target): (&Host, &Host), primary: &Path, policy: Policy) -> Result<Path, ApmError> {
        let name = policy.to_string();
        let ports = (primary.source, primary.target);
        let bits = u16::from(primary.bits);
        let mut path = match policy {
            Policy::Port => {
                let ports = (self.other_port(source, ports.0)?, self.other_port(target, ports.1)?);
                self.path(&name, ports, 0)?
            }
            Policy::Hca => {
                let ports = (other_hca(source, ports.0)?, other_hca(target, ports.1)?);
                self.path(&name, ports, 0)?
            }
            Policy::Offset(0) => self.path(&name, ports, 0)?,
            Policy::Offset(offset) => self.with_bits(&name, ports, |_| offset.into())?,
            Policy::OpenMpi => self.with_bits(&name, ports, |_| bits + 1)?,
            Policy::Mvapich2 { queue_pairs } => {
                self.with_bits(&name, ports, |lids| (bits + u16::from(queue_pairs)) % lids.lmc.lids())?
            }
            // Handled by `best`.
            Policy::Manager => *primary,
        };
        if policy.keeps_level() {
            path.sl = primary.sl;
        }
        Ok(path)
    }

    /// Returns the path of the same two ports with other path bits.
    fn with_bits(
        &self,
        policy: &str,
        ports: (PortRef, PortRef),
        bits: impl Fn(LidRange) -> u16,
    ) -> Result<Path, ApmError> {
        for at in [ports.0, ports.1] {
            if self.range(at).is_none_or(|lids| lids.lmc.lids() == 1) {
                return Err(ApmError::NoLmc {
                    policy: policy.to_owned(),
                    port: self.subnet.fabric.port_name(at),
                });
            }
        }
        let bits = self.range(ports.0).map_or(0, bits);
        self.path(policy, ports, bits)
    }

    /// Returns the path that shares least with the primary one, of all paths between ports of the same two adapters.
    fn best(&self, pair: (&Host, &Host), primary: (&Path, &Way)) -> Result<(Path, Way), ApmError> {
        let (path, way) = primary;
        let of_hca = |host: &Host, at: PortRef| {
            let own = host.hcas.iter().find(|ports| ports.contains(&at));
            own.cloned().unwrap_or_default()
        };
        let mut found: Vec<(Path, Way)> = Vec::new();
        for source in of_hca(pair.0, path.source) {
            for &target in &of_hca(pair.1, path.target) {
                found.extend(self.candidates((source, target), None).into_iter().filter_map(|other| {
                    let is_primary = (other.slid, other.dlid) == (path.slid, path.dlid);
                    if is_primary {
                        None
                    } else {
                        Some((other, self.way(&other)?))
                    }
                }));
            }
        }
        let best = next(way, found.iter().map(|(_, way)| way));
        best.map(|at| found.swap_remove(at)).ok_or_else(|| ApmError::OnlyOne {
            source_port: self.subnet.fabric.port_name(path.source),
            target_port: self.subnet.fabric.port_name(path.target),
        })
    }

    /// Returns the paths between two ports of which an alternate may be chosen: first those with the same LMC offset
    /// at both ends, then those with offsets that differ by 1, 2… modulo 2^LMC; at most 256, which are all up to LMC 4.
    /// A port with fewer LIDs uses them again from the first on. `slid`: only paths from this source LID.
    #[must_use]
    pub fn candidates(&self, ports: (PortRef, PortRef), slid: Option<Lid>) -> Vec<Path> {
        let Some((from, to)) = self.range(ports.0).zip(self.range(ports.1)) else {
            return Vec::new();
        };
        let path = |slid: Lid, offset: u16| {
            let dlid = Lid(to.base.0 + offset % to.lmc.lids());
            self.between(ports, (slid, dlid), slid.0.saturating_sub(from.base.0))
        };
        if let Some(slid) = slid {
            return (0..to.lmc.lids()).map(|offset| path(slid, offset)).collect();
        }
        let count = from.lmc.lids().max(to.lmc.lids());
        let mut found: Vec<Path> = Vec::new();
        for shift in 0..count.min(CANDIDATES_MAX / count) {
            for offset in 0..count {
                let slid = Lid(from.base.0 + offset % from.lmc.lids());
                let new = path(slid, (offset + shift) % count);
                if !found.contains(&new) {
                    found.push(new);
                }
            }
        }
        found
    }

    /// Returns the path between two ports with the same path bits at both ends.
    fn path(&self, policy: &str, ports: (PortRef, PortRef), bits: u16) -> Result<Path, ApmError> {
        let lid = |at: PortRef| {
            let range = self.range(at).unwrap_or(LidRange {
                base: Lid::NONE,
                lmc: selvedge_types::Lmc::ZERO,
            });
            if bits >= range.lmc.lids() {
                return Err(ApmError::OffsetBeyond {
                    policy: policy.to_owned(),
                    port: self.subnet.fabric.port_name(at),
                    lmc: range.lmc.get(),
                    last: range.lmc.lids() - 1,
                    bits,
                });
            }
            Ok(Lid(range.base.0 + bits))
        };
        let lids = (lid(ports.0)?, lid(ports.1)?);
        Ok(self.between(ports, lids, bits))
    }

    fn between(&self, (source, target): (PortRef, PortRef), (slid, dlid): (Lid, Lid), bits: u16) -> Path {
        Path {
            source,
            target,
            slid,
            dlid,
            // A port has at most 128 LIDs.
            bits: u8::try_from(bits).unwrap_or(u8::MAX),
            sl: self.subnet.levels.to(dlid),
        }
    }

    fn range(&self, at: PortRef) -> Option<LidRange> {
        let end = self.index.end(self.index.end_at(at)?)?;
        Some(end.lids)
    }

    /// Returns the next connected port of the same adapter.
    fn other_port(&self, host: &Host, at: PortRef) -> Result<PortRef, ApmError> {
        let own = host.hcas.iter().find(|ports| ports.contains(&at));
        own.and_then(|ports| after(ports, |&port| port == at))
            .copied()
            .ok_or_else(|| {
                let node = self.subnet.fabric.node(at.node);
                let hca = match node.description.is_empty() {
                    true => node.guid.to_string(),
                    false => format!("\"{}\"", node.description),
                };
                ApmError::NoSecondPort { hca }
            })
    }

    fn no_path(&self, path: &Path) -> ApmError {
        ApmError::NoPath {
            source_port: self.subnet.fabric.port_name(path.source),
            target_port: self.subnet.fabric.port_name(path.target),
            dlid: path.dlid.0,
        }
    }

    /// Returns what two paths share.
    fn shared(&self, pair: (&Host, &Host), primary: &Path, (one, other): (&Way, &Way)) -> Shared {
        let fabric = self.subnet.fabric;
        let mut bound: BTreeSet<Fault> = BTreeSet::new();
        for (host, at) in [(pair.0, primary.source), (pair.1, primary.target)] {
            let own = host.hcas.iter().find(|ports| ports.contains(&at));
            let ports = own.map_or(&[][..], Vec::as_slice);
            if ports.len() == 1 {
                bound.insert(Fault::Port(at));
            }
            let home = |at: PortRef| fabric.peer(at).and_then(|peer| fabric.switch_index(peer.node));
            if let Some(first) = home(at)
                && ports.iter().all(|&port| home(port) == Some(first))
            {
                bound.insert(Fault::Switch(first));
            }
        }
        let of_cable = |cable: u32| {
            let a = self.index.cable(cable);
            let ends = [Some(a), fabric.peer(a)];
            let host = ends
                .into_iter()
                .flatten()
                .find(|end| !fabric.node(end.node).is_switch());
            host.map_or(Fault::Link(a), Fault::Port)
        };
        let cables = common(&one.cables, &other.cables).map(of_cable);
        let switches = common(&one.switches, &other.switches).map(|at| Fault::Switch(switch(at)));
        let all = cables.chain(switches);
        let (unavoidable, avoidable) = all.partition(|fault| bound.contains(fault));
        Shared { avoidable, unavoidable }
    }
}

/// Returns the first port of the host's next adapter.
fn other_hca(host: &Host, at: PortRef) -> Result<PortRef, ApmError> {
    let next = after(&host.hcas, |ports| ports.contains(&at));
    next.and_then(|ports| ports.first())
        .copied()
        .ok_or_else(|| ApmError::NoSecondHca {
            host: host.name.clone(),
        })
}

/// Returns the item after the one that is named, and the first one after the last; `None` if there is no other.
fn after<T>(items: &[T], is_it: impl Fn(&T) -> bool) -> Option<&T> {
    let at = items.iter().position(is_it)?;
    let next = (at + 1) % items.len();
    (next != at).then(|| &items[next])
}

#[cfg(test)]
mod tests;
