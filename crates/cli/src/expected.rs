//! The expected topology: a file or generator that is compared with the fabric that a manager finds.

use selvedge_daemon::Expected;
use selvedge_fabric::Fabric;
use selvedge_health::{Deviation, End, NodeName, Place, What};
use selvedge_topology::{Deviation as Differs, deviations};
use selvedge_types::{Guid, NodeKind, PortNum};

use crate::exit::CliError;
use crate::load;

/// Reads the expected topology.
pub fn read(spec: &str) -> Result<Expected, CliError> {
    let expected = load::fabric(spec)?;
    let spec = spec.to_owned();
    Ok(Box::new(move |found| compared(&spec, &expected, found)))
}

fn compared(spec: &str, expected: &Fabric, found: &Fabric) -> Vec<Deviation> {
    let words = Words { expected, found };
    match deviations(expected, found) {
        Ok(all) => all.iter().map(|differs| words.deviation(differs)).collect(),
        Err(other) => vec![Deviation {
            what: What::OtherTopology,
            place: Place::Manager,
            evidence: format!("{spec}: {other}"),
        }],
    }
}

/// Names of nodes: as found, else as expected.
struct Words<'a> {
    expected: &'a Fabric,
    found: &'a Fabric,
}

impl Words<'_> {
    fn deviation(&self, differs: &Differs) -> Deviation {
        let link = |(a, b): (_, _)| Place::Link(self.end(a), self.end(b));
        let (what, place, evidence) = match *differs {
            Differs::NodeMissing { guid } => (What::ExpectedMissing, self.node(guid), String::new()),
            Differs::NodeAdditional { guid } => (What::Additional, self.node(guid), String::new()),
            Differs::LinkMissing { ends } => (What::ExpectedMissing, link(ends), String::new()),
            Differs::LinkAdditional { ends } => (What::Additional, link(ends), String::new()),
            Differs::WrongPort { expected, leads_to } => {
                let evidence = format!("{} leads to {}", self.end(expected.0), self.end(leads_to));
                (What::WrongPort, link(expected), evidence)
            }
            Differs::Slow { ends, expected, found } => (
                What::Slow,
                link(ends),
                format!("{expected} is expected, {found} was found"),
            ),
            Differs::Narrow { ends, expected, found } => (
                What::Narrow,
                link(ends),
                format!("{expected} is expected, {found} was found"),
            ),
        };
        Deviation { what, place, evidence }
    }

    fn node(&self, guid: Guid) -> Place {
        let node = [self.found, self.expected]
            .into_iter()
            .find_map(|fabric| Some(fabric.node(fabric.find(guid)?)));
        Place::Node(NodeName {
            guid,
            kind: node.map_or(NodeKind::Ca, |node| node.kind),
            name: node.map(|node| node.description.clone()).unwrap_or_default(),
        })
    }

    fn end(&self, (node, port): (Guid, PortNum)) -> End {
        let name = match self.node(node) {
            Place::Node(node) => node.name,
            Place::Manager | Place::Port(_) | Place::Link(..) => String::new(),
        };
        End { node, name, port }
    }
}
