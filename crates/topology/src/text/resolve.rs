//! Builds a fabric from records: resolves node names, joins lines about the same cable, finds contradictions.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, FabricBuilder, LinkState, Node, NodeKey};
use selvedge_types::{Guid, Lid, LidRange, LinkSpeed, LinkWidth, Lmc, NodeKind, PhysState, PortNum, PortState, Rate};

use super::scan::{Cable, Record, Scanned};
use super::{FileError, Place, Warning, shorten};

/// A port: the index of its record, and its number.
type End = (usize, u8);

/// The other end of a port's cable, as a line states it.
#[derive(Clone, Copy, Debug)]
struct Claim<'t> {
    to: End,
    line: usize,
    rate: Option<Rate>,
    unreadable: Option<&'t str>,
}

struct Resolver<'a, 't> {
    file: &'a str,
    records: Vec<Record<'t>>,
    aliases: BTreeMap<String, End>,
    ids: BTreeMap<String, usize>,
    /// Claims of each port's own line.
    claims: BTreeMap<End, Claim<'t>>,
    /// Data that only the line of the other end has.
    mentions: BTreeMap<End, Mention>,
    warnings: Vec<Warning>,
}

/// Data of a line about the port at its other end.
#[derive(Clone, Copy, Debug)]
struct Mention {
    from: End,
    line: usize,
    guid: Option<Guid>,
    lid: Option<u64>,
}

/// Returns the fabric that the records describe, and the warnings.
pub fn resolve(file: &str, scanned: Scanned<'_>) -> Result<(Fabric, Vec<Warning>), FileError> {
    let mut resolver = Resolver {
        file,
        records: Vec::new(),
        aliases: scanned.aliases,
        ids: BTreeMap::new(),
        claims: BTreeMap::new(),
        mentions: BTreeMap::new(),
        warnings: scanned.warnings,
    };
    resolver.name_nodes(scanned.records)?;
    resolver.read_cables()?;
    let links = resolver.agree()?;
    resolver.build(&links)
}

impl<'t> Resolver<'_, 't> {
    /// Gives each node its id. A repeated node is merged with the first one.
    fn name_nodes(&mut self, records: Vec<Record<'t>>) -> Result<(), FileError> {
        let mut guids: BTreeMap<Guid, usize> = BTreeMap::new();
        // New index of each record of the file, because aliases use these indexes.
        let mut moved = Vec::with_capacity(records.len());
        for record in records {
            let Some(&first) = self.ids.get(record.id.as_ref()) else {
                if let Some(&first) = guids.get(&record.guid) {
                    return Err(self.duplicate(&record, first, record.guid.to_string()));
                }
                guids.insert(record.guid, self.records.len());
                self.ids.insert(record.id.to_string(), self.records.len());
                moved.push(self.records.len());
                self.records.push(record);
                continue;
            };
            let known = &self.records[first];
            let is_same = (known.guid, known.kind, known.ports, known.description)
                == (record.guid, record.kind, record.ports, record.description);
            if !is_same {
                return Err(self.duplicate(&record, first, format!("\"{}\"", record.id)));
            }
            self.warnings.push(Warning::ListedTwice {
                place: self.place(record.line),
                node: record.id.to_string(),
                first_line: known.line,
            });
            moved.push(first);
            self.records[first].cables.extend(record.cables);
        }
        for (node, _) in self.aliases.values_mut() {
            *node = moved[*node];
        }
        Ok(())
    }

    fn duplicate(&self, record: &Record<'_>, first: usize, name: String) -> FileError {
        FileError::DuplicateNode {
            place: self.place(record.line),
            name,
            first_line: self.records[first].line,
        }
    }

    fn read_cables(&mut self) -> Result<(), FileError> {
        for node in 0..self.records.len() {
            for at in 0..self.records[node].cables.len() {
                self.read_cable(node, at)?;
            }
        }
        Ok(())
    }

    fn read_cable(&mut self, node: usize, at: usize) -> Result<(), FileError> {
        let cable = &self.records[node].cables[at];
        let Some(peer) = &cable.peer else { return Ok(()) };
        let (from, line) = ((node, cable.port), cable.line);
        let (rate, unreadable) = (cable.rate, cable.unreadable);
        let to = match self.aliases.get(peer.id.as_ref()) {
            Some(&end) => end,
            None => self.peer_end(cable, peer.id.as_ref(), peer.port)?,
        };
        if to == from {
            self.warnings.push(Warning::LoopedBack {
                place: self.place(line),
                port: self.name(from),
            });
            return Ok(());
        }
        if let Some(known) = self.claims.get(&from).filter(|known| known.to != to) {
            return Err(self.contradiction(line, from, to, (known.to, known.line)));
        }
        let mention = Mention {
            from,
            line,
            guid: peer.guid,
            lid: peer.lid,
        };
        let claim = Claim {
            to,
            line,
            rate,
            unreadable,
        };
        self.claims.insert(from, claim);
        if let Some(known) = self.mentions.insert(to, mention).filter(|known| known.from != from) {
            return Err(self.contradiction(line, to, from, (known.from, known.line)));
        }
        Ok(())
    }

    fn peer_end(&self, cable: &Cable<'_>, id: &str, port: u32) -> Result<End, FileError> {
        let Some(&node) = self.ids.get(id) else {
            return Err(FileError::UnknownPeer {
                place: self.place(cable.line),
                peer: id.to_owned(),
            });
        };
        let record = &self.records[node];
        match u8::try_from(port).ok().filter(|n| (1..=record.ports).contains(n)) {
            Some(port) => Ok((node, port)),
            None => Err(FileError::NoSuchPort {
                place: self.place(cable.line),
                node: id.to_owned(),
                port,
                count: record.ports,
            }),
        }
    }

    /// Returns each cable once, after a comparison of both ends' lines.
    fn agree(&mut self) -> Result<Vec<(End, End, Rate)>, FileError> {
        let mut links = Vec::with_capacity(self.claims.len() / 2);
        let mut warnings = Vec::new();
        for (&from, claim) in &self.claims {
            let back = self.claims.get(&claim.to);
            match back {
                Some(back) if back.to != from => {
                    return Err(self.contradiction(claim.line, claim.to, from, (back.to, back.line)));
                }
                // The other end's line has added this link.
                Some(_) if claim.to < from => continue,
                Some(_) => {}
                None => warnings.push(Warning::MissingReverse {
                    place: self.place(claim.line),
                    peer: self.name(claim.to),
                }),
            }
            let rate = self.common_rate(claim, back)?;
            links.push((from, claim.to, rate));
        }
        self.warnings.extend(warnings);
        Ok(links)
    }

    /// Returns the rate that both ends support; 4xSDR if neither states any, as in ibsim. A rate, or a known speed,
    /// that only one end states counts for both.
    fn common_rate(&self, one: &Claim<'_>, other: Option<&Claim<'_>>) -> Result<Rate, FileError> {
        const SILENT: Rate = Rate {
            width: LinkWidth::X4,
            speed: LinkSpeed::Sdr,
        };
        match (one.rate, other.and_then(|other| other.rate)) {
            (Some(one), Some(other)) => Ok(Rate {
                width: one.width.min(other.width),
                speed: one.speed.min(other.speed),
            }),
            (Some(rate), None) | (None, Some(rate)) => Ok(rate),
            (None, None) => {
                let stated = |claim: &Claim<'_>| Some((claim.line, claim.unreadable?.to_owned()));
                match stated(one).or_else(|| other.and_then(stated)) {
                    None => Ok(SILENT),
                    Some((line, rate)) => Err(FileError::UnknownRate {
                        place: self.place(line),
                        rate: shorten(&rate),
                    }),
                }
            }
        }
    }

    fn build(mut self, links: &[(End, End, Rate)]) -> Result<(Fabric, Vec<Warning>), FileError> {
        let mut nodes: Vec<Node> = (0..self.records.len()).map(|at| self.node(at)).collect();
        self.invent_guids(&mut nodes);
        for &(a, b, rate) in links {
            for (node, port) in [a, b] {
                if let Some(port) = PortNum::new(port).and_then(|num| nodes[node].port_mut(num)) {
                    port.link = LinkState {
                        state: PortState::Init,
                        phys: PhysState::LinkUp,
                        rate,
                    };
                }
            }
        }
        nodes.iter_mut().for_each(set_capabilities);
        for (at, node) in nodes.iter_mut().enumerate() {
            self.read_lanes(at, node);
        }
        self.find_shared_guids(&nodes);
        let mut builder = FabricBuilder::new();
        let keys: Vec<NodeKey> = nodes.into_iter().map(|node| builder.add(node)).collect();
        let failed = |source| FileError::Build {
            file: self.file.to_owned(),
            source,
        };
        for &(a, b, _) in links {
            let end = |(node, port): End| (keys[node], PortNum::new(port).unwrap_or_default());
            builder.link(end(a), end(b)).map_err(failed)?;
        }
        Ok((builder.finish().map_err(failed)?, self.warnings))
    }

    fn node(&mut self, at: usize) -> Node {
        let record = &self.records[at];
        let mut node = Node::new(record.kind, record.guid, record.ports, record.description);
        node.system_guid = record.system_guid.unwrap_or(record.guid);
        (node.vendor_id, node.device_id) = (record.vendor, record.device);
        if let Some(switch) = &mut node.switch {
            switch.enhanced_port0 = record.enhanced.unwrap_or(switch.enhanced_port0);
        }
        let (lid, line) = (record.lid, record.line);
        if let Some(port) = node.port_mut(PortNum::MANAGEMENT) {
            (port.link.state, port.link.phys) = (PortState::Active, PhysState::LinkUp);
            port.guid = record.management_guid.unwrap_or(record.guid);
            port.settings.lids = self.lids(lid, line);
            return node;
        }
        for num in (1..=self.records[at].ports).filter_map(PortNum::new) {
            if let Some(port) = node.port_mut(num) {
                let stated = self.mentions.get(&(at, num.get())).and_then(|m| m.guid);
                port.guid = stated.unwrap_or(Guid::NONE);
                let lid = self
                    .mentions
                    .get(&(at, num.get()))
                    .and_then(|m| Some((m.lid?, 0, m.line)));
                if let Some((lid, lmc, line)) = lid {
                    port.settings.lids = self.lids(Some((lid, lmc)), line);
                }
            }
        }
        for cable in 0..self.records[at].cables.len() {
            self.own_line(at, cable, &mut node);
        }
        node
    }

    /// Gives a GUID to each host port for which the file states none: its node's GUID plus its number, as ibsim does,
    /// unless a port has that GUID already. Cabled ports come first, because dumps name them.
    fn invent_guids(&self, nodes: &mut [Node]) {
        /// Distance to the next GUID that is tried; far from GUIDs that vendors assign.
        const STEP: u64 = 1 << 56;
        let stated = nodes
            .iter()
            .flat_map(|node| node.end_ports().map(|(_, port)| port.guid));
        let mut taken: BTreeSet<Guid> = stated.filter(|guid| *guid != Guid::NONE).collect();
        for is_cabled in [true, false] {
            for (at, node) in nodes.iter_mut().enumerate().filter(|(_, node)| !node.is_switch()) {
                let first = node.guid;
                for num in (1..=self.records[at].ports).filter_map(PortNum::new) {
                    let end = (at, num.get());
                    let has_cable = self.claims.contains_key(&end) || self.mentions.contains_key(&end);
                    let port = node.port_mut(num).filter(|port| port.guid == Guid::NONE);
                    let Some(port) = port.filter(|_| has_cable == is_cabled) else {
                        continue;
                    };
                    let mut guid = Guid(first.0.wrapping_add(u64::from(num.get())));
                    while !taken.insert(guid) {
                        guid = Guid(guid.0.wrapping_add(STEP));
                    }
                    port.guid = guid;
                }
            }
        }
    }

    /// Sets GUID and LID of a host's port from its own line, which takes precedence over the other end's.
    fn own_line(&mut self, at: usize, cable: usize, node: &mut Node) {
        let cable = &self.records[at].cables[cable];
        let (number, line, own, lid) = (cable.port, cable.line, cable.guid, cable.lid);
        let Some(port) = PortNum::new(number).and_then(|num| node.port_mut(num)) else {
            return;
        };
        if let Some(own) = own {
            port.guid = own;
            let mention = self.mentions.get(&(at, number));
            if let Some((mention, there)) = mention
                .and_then(|m| Some((m, m.guid?)))
                .filter(|(_, there)| *there != own)
            {
                self.warnings.push(Warning::GuidMismatch {
                    place: self.place(mention.line),
                    port: self.name((at, number)),
                    own,
                    there,
                });
            }
        }
        if lid.is_some() {
            port.settings.lids = self.lids(lid, line);
        }
    }

    /// Returns the LIDs; 0 means none. An invalid LID is reported and left out.
    fn lids(&mut self, seen: Option<(u64, u64)>, line: usize) -> LidRange {
        let Some((lid, lmc)) = seen.filter(|&(lid, _)| lid != 0) else {
            return LidRange::default();
        };
        let base = u16::try_from(lid).ok().map(Lid).filter(|lid| lid.is_unicast());
        let range = base.zip(u8::try_from(lmc).ok().and_then(Lmc::new));
        let range = range.map(|(base, lmc)| LidRange { base, lmc });
        let fits = |r: &LidRange| r.base.0.is_multiple_of(r.lmc.lids()) && r.last().is_unicast();
        range.filter(fits).unwrap_or_else(|| {
            self.warnings.push(Warning::BadLid {
                place: self.place(line),
                lid: format!("lid {lid} lmc {lmc}"),
            });
            LidRange::default()
        })
    }

    fn read_lanes(&self, at: usize, node: &mut Node) {
        for cable in &self.records[at].cables {
            let port = PortNum::new(cable.port).and_then(|num| node.port_mut(num));
            if let Some((port, vls)) = port.zip(cable.vls) {
                port.capability.vls = vls;
            }
        }
    }

    fn find_shared_guids(&mut self, nodes: &[Node]) {
        let mut first: BTreeMap<Guid, End> = BTreeMap::new();
        for (at, node) in nodes.iter().enumerate() {
            for (num, port) in node.end_ports().filter(|(_, port)| port.guid != Guid::NONE) {
                let end = (at, num.get());
                let Some(&other) = first.get(&port.guid) else {
                    first.insert(port.guid, end);
                    continue;
                };
                self.warnings.push(Warning::SharedPortGuid {
                    place: self.place(self.records[at].line),
                    port: self.name(end),
                    guid: port.guid,
                    other: self.name(other),
                });
            }
        }
    }

    fn contradiction(&self, line: usize, port: End, peer: End, other: (End, usize)) -> FileError {
        FileError::Contradiction {
            place: self.place(line),
            port: self.name(port),
            peer: self.name(peer),
            other: self.name(other.0),
            other_line: other.1,
        }
    }

    fn name(&self, (node, port): End) -> String {
        format!("\"{}\"[{port}]", self.records[node].id)
    }

    fn place(&self, line: usize) -> Place {
        Place {
            file: self.file.to_owned(),
            line,
        }
    }
}

/// Sets the capabilities of ports: those of the port's link; without a link, those of the best link of its node.
fn set_capabilities(node: &mut Node) {
    let trained = |rate: Rate| (rate.width, rate.speed);
    let best = node
        .external_ports()
        .filter(|(_, port)| port.is_up())
        .map(|(_, port)| trained(port.link.rate))
        .reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)));
    let Some(best) = best else { return };
    for num in (0..=node.port_count()).filter_map(PortNum::new) {
        let is_external = num != PortNum::MANAGEMENT || node.kind != NodeKind::Switch;
        if let Some(port) = node.port_mut(num) {
            let (width, speed) = if port.is_up() && is_external {
                trained(port.link.rate)
            } else {
                best
            };
            port.capability.widths = LinkWidth::X1.bit() | width.bit();
            port.capability.speed = speed;
        }
    }
}
