//! A fabric as the diagnostics see it, and its faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use selvedge_types::{Guid, NodeKind};

use crate::parse::{Discovery, Fields, LinkLine, Net, Plan, Table, hops, link_lines, tables};
use crate::probe::BLOCK;
use crate::{LabError, PeerLab, Probe, walk};

/// A fabric as `ibnetdiscover`, `iblinkinfo` and `dump_fts` see it from one node.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Nodes and cables.
    pub discovery: Discovery,
    /// Ports and their states.
    pub links: Vec<LinkLine>,
    /// Forwarding tables by the switch's GUID.
    pub tables: BTreeMap<Guid, Table>,
}

/// An end port: node GUID and port number; the number is 0 for a switch.
pub type EndPort = (Guid, u8);

impl Survey {
    /// Surveys the lab's fabric from `node`.
    pub fn take(lab: &PeerLab, node: &str) -> Result<Self, LabError> {
        let all = tables(&lab.output(node, "dump_fts", &[])?)?;
        let mut survey = Self {
            discovery: Discovery::parse(&lab.output(node, "ibnetdiscover", &[])?)?,
            links: link_lines(&lab.output(node, "iblinkinfo", &["-l"])?)?,
            tables: all.into_iter().map(|table| (table.guid, table)).collect(),
        };
        survey.read_last_lids(lab, node)?;
        Ok(survey)
    }

    /// Adds the entry that `dump_fts` leaves out: the one of the highest LID, if that LID is the first of a block.
    ///
    /// Observed with infiniband-diags 44: it reads LinearFDBTop / 64 blocks, rounded up, and so misses the block of
    /// LinearFDBTop if LinearFDBTop is a multiple of 64; `ibroute` does the same.
    fn read_last_lids(&mut self, lab: &PeerLab, node: &str) -> Result<(), LabError> {
        let mut probe = None;
        for (guid, table) in self
            .tables
            .iter_mut()
            .filter(|(_, table)| table.top.is_multiple_of(BLOCK))
        {
            let probe = match &mut probe {
                Some(probe) => probe,
                none => none.insert(Probe::open(lab.base(), node)?),
            };
            let lid = self
                .discovery
                .nodes
                .get(guid)
                .and_then(|node| node.lid)
                .unwrap_or_default();
            let exit = probe.block(lid, table.top)?[0];
            if exit != u8::MAX {
                table.exits.insert(table.top, exit);
            }
        }
        Ok(())
    }

    /// Returns every end port with its LID.
    #[must_use]
    pub fn end_ports(&self) -> BTreeMap<EndPort, u16> {
        let mut all = BTreeMap::new();
        for (&guid, node) in &self.discovery.nodes {
            all.extend(node.lid.map(|lid| ((guid, 0), lid)));
            let ports = node.ports.iter().filter(|_| node.kind != NodeKind::Switch);
            all.extend(ports.map(|(&port, seen)| ((guid, port), seen.lid)));
        }
        all
    }

    /// Returns the LIDs by port GUID. They must never change on live ports.
    #[must_use]
    pub fn lids(&self) -> BTreeMap<Guid, u16> {
        let ends = self.end_ports();
        ends.iter()
            .filter_map(|(&end, &lid)| Some((self.port_guid(end)?, lid)))
            .collect()
    }

    /// Returns the tables as text, in the form of OpenSM's `opensm-lfts.dump`, and the LIDs in the form of its
    /// `guid2lid`.
    #[must_use]
    pub fn dump(&self) -> (String, String) {
        let mut lfts = String::new();
        for (guid, table) in &self.tables {
            let lid = self
                .discovery
                .nodes
                .get(guid)
                .and_then(|node| node.lid)
                .unwrap_or_default();
            let (top, name) = (table.top, &table.name);
            lfts += &format!("Unicast lids [0-{top}] of switch Lid {lid} guid {guid} ('{name}'):\n");
            for (lid, exit) in &table.exits {
                lfts += &format!("{lid:#06x} {exit:03}\n");
            }
            lfts += &format!("{} lids dumped\n", table.exits.len());
        }
        let lids = self.lids();
        let lids = lids
            .iter()
            .map(|(guid, lid)| format!("{guid} {lid:#06x} {lid:#06x}\n\n"));
        (lfts, lids.collect())
    }

    /// Returns the GUID of a port. All ports of a switch have the same one.
    #[must_use]
    pub fn port_guid(&self, (node, port): (Guid, u8)) -> Option<Guid> {
        let seen = self.discovery.nodes.get(&node)?;
        match seen.kind {
            NodeKind::Switch => Some(node),
            NodeKind::Ca | NodeKind::Router => Some(seen.ports.get(&port)?.guid),
        }
    }

    /// Returns the number of cable ends that carry traffic.
    #[must_use]
    pub fn active_ends(&self) -> usize {
        self.links.iter().filter(|line| line.is_active()).count()
    }

    /// Returns what differs from the file and the plan, a line for each difference. The list is empty if all agrees.
    #[must_use]
    pub fn differences(&self, net: &Net, plan: &Plan) -> Vec<String> {
        let mut found = self.wrong_nodes(net);
        if found.is_empty() {
            found.extend(self.links_not_active(net));
            found.extend(self.wrong_lids(plan));
            found.extend(self.wrong_tables(plan));
        }
        found
    }

    fn wrong_nodes(&self, net: &Net) -> Vec<String> {
        let mut found = Vec::new();
        let counts = |switches, hosts, links| (switches, hosts, links);
        let seen = counts(
            self.discovery.switches(),
            self.discovery.hosts(),
            self.discovery.links(),
        );
        let want = counts(net.switches(), net.hosts(), net.cables());
        found.extend(unequal("switches, hosts and cables", &seen, &want));
        for (guid, node) in &net.nodes {
            let Some(seen) = self.discovery.nodes.get(guid) else {
                found.push(format!("node {guid} ({}) is not seen", node.id));
                continue;
            };
            let cables = seen.ports.iter().map(|(&port, far)| (port, (far.peer, far.peer_port)));
            let cables: BTreeMap<_, _> = cables.collect();
            found.extend(unequal(&format!("cables of {}", node.id), &cables, &node.cables));
            let what = format!("kind and ports of {}", node.id);
            found.extend(unequal(
                &what,
                &(seen.kind, seen.port_count),
                &(node.kind, node.port_count),
            ));
        }
        found
    }

    /// Returns the cables of the file that are not ACTIVE at both ends.
    fn links_not_active(&self, net: &Net) -> Vec<String> {
        let lines = self.links.iter().map(|line| ((line.guid, line.port), line));
        let lines: BTreeMap<_, _> = lines.collect();
        let mut found = Vec::new();
        for (&guid, node) in &net.nodes {
            for (&port, &peer) in &node.cables {
                let line = self.port_guid((guid, port)).and_then(|guid| lines.get(&(guid, port)));
                let Some(line) = line else {
                    found.push(format!("{}[{port}] is not listed by iblinkinfo", node.id));
                    continue;
                };
                let far = line.peer.as_ref().map(|far| (far.guid, far.port));
                let want = self.port_guid(peer).map(|guid| (guid, peer.1));
                if !line.is_active() || far != want {
                    found.push(format!("{}[{port}] is not active to {want:?}: {line:?}", node.id));
                }
            }
        }
        found
    }

    fn wrong_lids(&self, plan: &Plan) -> Vec<String> {
        let want: BTreeMap<Guid, u16> = plan.lids.iter().map(|(&guid, &(first, _))| (guid, first)).collect();
        unequal_maps("LID of port", &self.lids(), &want)
    }

    fn wrong_tables(&self, plan: &Plan) -> Vec<String> {
        let mut found = Vec::new();
        for guid in self
            .tables
            .keys()
            .chain(plan.tables.keys().filter(|guid| !self.tables.contains_key(guid)))
        {
            let (Some(seen), Some(want)) = (self.tables.get(guid), plan.tables.get(guid)) else {
                found.push(format!("table of switch {guid}: only one of switch and plan has it"));
                continue;
            };
            found.extend(unequal_maps(
                &format!("exit of switch {guid} for LID"),
                &seen.exits,
                &want.exits,
            ));
        }
        found
    }

    /// Traces `count` pairs in both directions with `ibtracert`. Returns what differs from the plan's paths, a line for
    /// each difference.
    pub fn wrong_paths(
        &self,
        lab: &PeerLab,
        node: &str,
        (net, plan): (&Net, &Plan),
        (count, seed): (usize, u64),
    ) -> Result<Vec<String>, LabError> {
        let ends: Vec<_> = self.end_ports().into_iter().collect();
        let pairs = random_pairs(ends.len(), count, seed);
        let both = pairs
            .into_iter()
            .flat_map(|(a, b)| [(a, b), (b, a)])
            .collect::<Vec<_>>();
        let lids = both
            .iter()
            .map(|&(a, b)| vec![ends[a].1.to_string(), ends[b].1.to_string()]);
        let outputs = lab.outputs(node, "ibtracert", lids.collect())?;
        let mut found = Vec::new();
        for (&(a, b), output) in both.iter().zip(&outputs) {
            let what = format!("path {:?} to {:?} (seed {seed})", ends[a], ends[b]);
            let seen = hops(output)?;
            match walk(net, plan, ends[a].0, ends[b]) {
                Ok(path) => {
                    let named = path.iter().map(|hop| crate::parse::Hop {
                        guid: self.port_guid((hop.guid, hop.entry)).unwrap_or_default(),
                        ..*hop
                    });
                    found.extend(unequal(&what, &seen, &named.collect::<Vec<_>>()));
                }
                Err(why) => found.push(format!("{what}: the plan has none: {why}")),
            }
        }
        Ok(found)
    }

    /// Runs `ibroute` on these switches. Returns what differs from the plan, a line for each difference.
    pub fn wrong_routes(
        &self,
        lab: &PeerLab,
        node: &str,
        plan: &Plan,
        switches: &[Guid],
    ) -> Result<Vec<String>, LabError> {
        let lid = |guid: &Guid| {
            self.discovery
                .nodes
                .get(guid)
                .and_then(|node| node.lid)
                .unwrap_or_default()
        };
        let lids = switches.iter().map(|guid| vec![lid(guid).to_string()]).collect();
        let outputs = lab.outputs(node, "ibroute", lids)?;
        let mut found = Vec::new();
        for (guid, output) in switches.iter().zip(&outputs) {
            let seen = tables(output)?.pop().map(|table| table.exits);
            let mut want = plan.tables.get(guid).map(|table| table.exits.clone());
            if let Some(exits) = want.as_mut().filter(|_| plan.top().is_multiple_of(BLOCK)) {
                exits.remove(&plan.top()); // as `read_last_lids` says
            }
            found.extend(unequal(&format!("ibroute of {guid}"), &seen, &want));
        }
        Ok(found)
    }

    /// Runs `smpquery` on these end ports. Returns what differs from the plan, a line for each difference.
    pub fn wrong_ports(
        &self,
        lab: &PeerLab,
        node: &str,
        plan: &Plan,
        (ends, sm_lid): (&[EndPort], u16),
    ) -> Result<Vec<String>, LabError> {
        let mut found = Vec::new();
        for &(guid, port) in ends {
            let lid = self.end_ports().get(&(guid, port)).copied().unwrap_or_default();
            let (text, number) = (lid.to_string(), port.to_string());
            let info = Fields::parse(&lab.output(node, "smpquery", &["portinfo", &text, &number])?);
            let what = |field: &str| format!("{field} of {guid}[{port}]");
            found.extend(unequal(&what("LID"), &info.number("Lid")?, &lid.into()));
            found.extend(unequal(&what("SM LID"), &info.number("SMLid")?, &sm_lid.into()));
            if port == 0 {
                let info = Fields::parse(&lab.output(node, "smpquery", &["switchinfo", &text])?);
                let top = info.number("LinearFdbTop")?;
                found.extend(unequal(&what("LinearFDBTop"), &top, &plan.top().into()));
                found.extend(unequal(&what("StateChange"), &info.number("StateChange")?, &0));
            } else {
                found.extend(unequal(&what("state"), &info.text("LinkState")?, &"Active"));
            }
            let info = Fields::parse(&lab.output(node, "smpquery", &["nodeinfo", &text])?);
            found.extend(unequal(&what("node GUID"), &info.number("Guid")?, &guid.0));
        }
        Ok(found)
    }
}

fn unequal<T: PartialEq + Debug>(what: &str, seen: &T, want: &T) -> Option<String> {
    (seen != want).then(|| format!("{what}: seen {seen:?}, want {want:?}"))
}

fn unequal_maps<K: Ord + Debug, V: PartialEq + Debug>(
    what: &str,
    seen: &BTreeMap<K, V>,
    want: &BTreeMap<K, V>,
) -> Vec<String> {
    let keys = seen.keys().chain(want.keys().filter(|key| !seen.contains_key(key)));
    keys.filter_map(|key| unequal(&format!("{what} {key:?}"), &seen.get(key), &want.get(key)))
        .collect()
}

/// Returns `count` pairs of two different indices below `below`, no pair twice, or all pairs if there are fewer. The
/// same seed gives the same pairs.
///
/// Source: the generator is Marsaglia's xorshift64 with the shifts 13, 7, 17.
fn random_pairs(below: usize, count: usize, seed: u64) -> Vec<(usize, usize)> {
    let all = (0..below).flat_map(|a| (0..a).map(move |b| (b, a)));
    if below * below.saturating_sub(1) / 2 <= count {
        return all.collect();
    }
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % below
    };
    let mut pairs = BTreeSet::new();
    while pairs.len() < count {
        let (a, b) = (draw(), draw());
        if a != b {
            pairs.insert((a.min(b), a.max(b)));
        }
    }
    pairs.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_two_ends_and_reach_everybody() {
        let pairs = random_pairs(40, 200, 1);
        assert_eq!(pairs.len(), 200);
        assert!(pairs.iter().all(|(a, b)| a < b && *b < 40));
        for one in 0..40 {
            assert!(pairs.iter().any(|&(a, b)| a == one || b == one), "{one}");
        }
        assert_ne!(random_pairs(40, 200, 2), pairs);
        assert_eq!(random_pairs(3, 200, 1), [(0, 1), (0, 2), (1, 2)]);
        assert_eq!(random_pairs(1, 200, 1), []);
        assert_eq!(random_pairs(0, 200, 1), []);
    }
}
