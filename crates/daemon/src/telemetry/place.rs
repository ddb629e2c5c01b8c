//! Nodes and counters by name.

use selvedge_api::{Error, ErrorKind};
use selvedge_config::closest;
use selvedge_history::counter_name;
use selvedge_telemetry::{End, Group, Inventory, Metric, NodeEntry};
use selvedge_types::Guid;

/// Returns the node with this name or GUID.
pub(super) fn node<'a>(inventory: &'a Inventory, name: &str) -> Result<(Guid, &'a NodeEntry), Error> {
    let nodes = &inventory.nodes;
    let guid: Option<Guid> = name.parse().ok();
    let named = nodes
        .iter()
        .filter(|(of, node)| node.description == *name || Some(**of) == guid);
    let named: Vec<_> = named.collect();
    match named[..] {
        [(guid, node)] => Ok((*guid, node)),
        [] => {
            let known = nodes.values().map(|node| node.description.as_str());
            let hint = closest(name, known).map_or_else(String::new, |name| format!("; did you mean {name}?"));
            Err(ErrorKind::NoSuchPlace.error(format!("there is no node '{name}'{hint}")))
        }
        _ => {
            let guids: Vec<String> = named.iter().map(|(guid, _)| guid.to_string()).collect();
            let what = format!(
                "several nodes are named '{name}'; name one by GUID: {}",
                guids.join(", ")
            );
            Err(ErrorKind::NoSuchPlace.error(what))
        }
    }
}

/// Returns the ports of a node, or of all; with a number, the port with it.
pub(super) fn ends(inventory: &Inventory, name: Option<&str>, port: Option<u8>) -> Result<Vec<End>, Error> {
    let of = |node: Guid, entry: &NodeEntry| -> Vec<End> {
        let ports = entry.ports.iter().map(|port| End { node, port: port.num });
        ports.collect()
    };
    let Some(name) = name else {
        let nodes = inventory.nodes.iter();
        return Ok(nodes.flat_map(|(guid, entry)| of(*guid, entry)).collect());
    };
    let (guid, entry) = node(inventory, name)?;
    match port {
        None => Ok(of(guid, entry)),
        Some(port) if entry.port(port).is_none() => Err(no_port(name, entry, port)),
        Some(port) => Ok(vec![End { node: guid, port }]),
    }
}

/// Returns the refusal of a port that a node does not have.
pub(super) fn no_port(name: &str, node: &NodeEntry, port: u8) -> Error {
    let what = format!("node '{name}' has {} ports, and no port {port}", node.ports.len());
    ErrorKind::NoSuchPlace.error(what)
}

/// A counter by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    /// One that ports have in 32 or 64 bits.
    Metric(Metric),
    /// A detailed one: its group and its number in it.
    Detail(Group, usize),
}

impl Counter {
    /// Returns the counter with this name: in the standard, in stored files, or a short one.
    pub(super) fn of(name: &str) -> Result<Self, Error> {
        let short = [
            ("xmit", Metric::XmitData),
            ("rcv", Metric::RcvData),
            ("wait", Metric::XmitWait),
        ];
        let of_short = short.iter().find(|(known, _)| *known == name);
        if let Some(metric) = of_short.map(|(_, metric)| *metric).or_else(|| Metric::of_name(name)) {
            return Ok(Self::Metric(metric));
        }
        let groups = Group::ALL
            .into_iter()
            .filter(|group| !matches!(group, Group::Base | Group::Extended));
        let mut details = groups.flat_map(|group| (0..group.counters()).map(move |counter| (group, counter)));
        let is_named = |(group, counter): &(Group, usize)| {
            let names = [group.counter_name(*counter), counter_name(*group, *counter)];
            names.iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        let found = details.find(is_named);
        found
            .map(|(group, counter)| Self::Detail(group, counter))
            .ok_or_else(|| {
                let known = short
                    .map(|(name, _)| name)
                    .into_iter()
                    .chain(Metric::ALL.map(Metric::iba_name));
                let hint = closest(name, known).map_or_else(String::new, |name| format!("; did you mean {name}?"));
                ErrorKind::BadRequest.error(format!("there is no counter '{name}'{hint}"))
            })
    }

    /// Returns its name in the standard.
    pub(super) fn name(self) -> String {
        match self {
            Self::Metric(metric) => metric.iba_name().to_owned(),
            Self::Detail(group, counter) => group.counter_name(counter),
        }
    }

    /// Returns what it counts.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Metric(metric) => metric.unit(),
            Self::Detail(group, counter) => group.unit(counter),
        }
    }

    /// Returns where it is stored, 64 bits first.
    pub(super) fn places(self) -> Vec<(Group, usize)> {
        match self {
            Self::Metric(metric) => {
                let places = [Group::Extended, Group::Base].into_iter();
                places.filter_map(|group| Some((group, group.place(metric)?))).collect()
            }
            Self::Detail(group, counter) => vec![(group, counter)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_several_names() {
        let check = |name: &str, want: Counter| assert_eq!(Counter::of(name), Ok(want), "{name}");
        check("xmit", Counter::Metric(Metric::XmitData));
        check("PortXmitWait", Counter::Metric(Metric::XmitWait));
        check("portrcvdata", Counter::Metric(Metric::RcvData));
        check("PortVLXmitWait3", Counter::Detail(Group::VlXmitWait, 3));
        check("PortVLXmitWaitCounters[3]", Counter::Detail(Group::VlXmitWait, 3));
        let error = Counter::of("PortXmitDat").unwrap_err();
        assert!(error.message.ends_with("did you mean PortXmitData?"), "{error}");
        assert_eq!(Counter::of("wait").unwrap().places().len(), 2);
    }
}
