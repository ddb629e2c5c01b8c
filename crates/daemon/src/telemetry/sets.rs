//! Metric sets as LDMS has them, for aggregators that pull them by name.

use std::fs;

use selvedge_api::{Error, ErrorKind, MetricSetEntry, MetricSets, SetForm, SetQuery};
use selvedge_config::closest;
use selvedge_telemetry::selection;
use selvedge_telemetry::{End, Group, MetricSet, NodeEntry, SampleKey};
use selvedge_types::Guid;

use super::state::{Snapshot, Telemetry};

/// The set of the whole fabric. Source: the instance of Sandia's fabric sampler (OpenFabrics Alliance Workshop 2017).
const FABRIC: &str = "ibfabric";

impl Telemetry {
    /// Returns the names of all sets: one of the fabric, and one of each node.
    pub(crate) fn sets(&self) -> Result<MetricSets, Error> {
        let snapshot = self.sampled()?;
        let entry = |name: String, ports: usize| MetricSetEntry {
            name,
            ports: ports as u64,
        };
        let nodes = snapshot.inventory.nodes.iter();
        let of_nodes = nodes.map(|(guid, node)| {
            let ports = shown(&snapshot, *guid, node).count();
            (format!("{FABRIC}/{}", node.description), ports)
        });
        let of_nodes: Vec<(String, usize)> = of_nodes.filter(|(_, ports)| *ports > 0).collect();
        let all = of_nodes.iter().map(|(_, ports)| ports).sum();
        let sets = std::iter::once((FABRIC.to_owned(), all)).chain(of_nodes);
        Ok(MetricSets {
            producer: producer(),
            sets: sets.map(|(name, ports)| entry(name, ports)).collect(),
        })
    }

    /// Returns the text of a set.
    pub(crate) fn set(&self, query: &SetQuery) -> Result<String, Error> {
        let snapshot = self.sampled()?;
        let selected = match &query.metrics {
            Some(names) => {
                let lines = names.replace(',', "\n");
                selection::parse(&lines).map_err(|error| Error::of_text(&error.to_string()))?
            }
            None => self.chosen().selected.clone(),
        };
        let ports = ports(&snapshot, &query.name)?;
        let mut set = MetricSet::new(producer(), query.name.clone(), self.config().agent.into());
        set.job_id = query.job_id;
        if let (Some(class), Some(of)) = (snapshot.classes.first(), self.config().classes.first())
            && let Some(last) = &class.last
        {
            set.begin = last.slot.begin(of.interval);
            set.duration_us = class.last_sample_us;
            set.generation = class.slots;
            let is_in = |end: End| ports.contains(&end);
            let is_missing = |key: SampleKey| {
                is_in(End {
                    node: key.node,
                    port: key.port,
                })
            };
            set.is_consistent = !class.has_overrun && !last.missing.iter().any(|missing| is_missing(missing.key));
        }
        set.fill(&ports, &selected, &snapshot.inventory, &snapshot.latest);
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = match query.form {
            SetForm::Ldms => set.write_text(&mut text),
            SetForm::Csv => set.write_csv_header(&mut text).and_then(|()| set.write_csv(&mut text)),
            SetForm::CsvRow => set.write_csv(&mut text),
        };
        Ok(text)
    }
}

/// Returns the ports of a set in order.
fn ports(snapshot: &Snapshot, name: &str) -> Result<Vec<End>, Error> {
    let nodes = &snapshot.inventory.nodes;
    let of = |(guid, node): (&Guid, &NodeEntry)| -> Vec<End> {
        let node_guid = *guid;
        let end = |port| End { node: node_guid, port };
        shown(snapshot, node_guid, node).map(end).collect()
    };
    if name == FABRIC {
        return Ok(nodes.iter().flat_map(of).collect());
    }
    let wanted = name.strip_prefix(FABRIC).and_then(|rest| rest.strip_prefix('/'));
    let found = wanted.and_then(|wanted| nodes.iter().find(|(_, node)| node.description == wanted));
    found.map(of).ok_or_else(|| {
        let known: Vec<String> = nodes
            .values()
            .map(|node| format!("{FABRIC}/{}", node.description))
            .collect();
        let known = known.iter().map(String::as_str).chain([FABRIC]);
        let hint = closest(name, known).map_or_else(String::new, |name| format!("; did you mean {name}?"));
        ErrorKind::NoSuchPlace.error(format!("there is no metric set '{name}'{hint}"))
    })
}

/// Returns the ports of a node that sets have: those that are up, and those that were read before they went down. A set
/// that lost them would have other columns from one row to the next.
fn shown(snapshot: &Snapshot, guid: Guid, node: &NodeEntry) -> impl Iterator<Item = u8> {
    let was_read = move |port: u8| {
        let shown = [Group::Extended, Group::Base].into_iter().filter_map(move |group| {
            let key = SampleKey {
                node: guid,
                port,
                group,
            };
            snapshot.latest.get(key)
        });
        shown.into_iter().any(|shown| shown.known != 0)
    };
    let ports = node.ports.iter();
    let ports = ports.filter(move |port| port.is_up() || was_read(port.num));
    ports.map(|port| port.num)
}

/// Returns the name of this machine.
pub(super) fn producer() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "selvedge".to_owned(),
        name => name.to_owned(),
    }
}
