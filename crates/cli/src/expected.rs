//! The expected topology: a file or generator that is compared with the fabric that a manager finds.

use std::path::{Path, PathBuf};

use selvedge_daemon::Expected;
use selvedge_fabric::Fabric;
use selvedge_health::{Deviation, End, NodeName, Place, What};
use selvedge_topology::{Deviation as Differs, Spec, deviations};
use selvedge_types::{Guid, NodeKind, PortNum};

use crate::exit::CliError;
use crate::load;

/// Reads the expected topology that a flag names. A file is read again before each comparison, so that an operator can
/// approve another one while the manager runs.
pub fn read(spec: &str) -> Result<Expected, CliError> {
    match spec.parse()? {
        Spec::File(path) if path != Path::new("-") => read_file(&path),
        Spec::File(_) | Spec::Generated(_) => Ok(comparer(spec.to_owned(), load::fabric(spec)?, None)),
    }
}

/// Reads a file of the expected topology.
pub fn read_file(path: &Path) -> Result<Expected, CliError> {
    let name = path.display().to_string();
    let bytes = load::text_bytes(path)?;
    let expected = selvedge_topology::read(&name, &bytes)?.fabric;
    // A process in the background leaves its folder.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    Ok(comparer(name, expected, Some((path, bytes))))
}

/// Returns a function that compares fabrics with an expected topology. `file`: the path from which it is read again,
/// and its last contents.
fn comparer(spec: String, mut expected: Fabric, mut file: Option<(PathBuf, Vec<u8>)>) -> Expected {
    Box::new(move |found: &Fabric| {
        let mut unread = None;
        if let Some((path, bytes)) = &mut file {
            match again(path, bytes) {
                Ok(None) => {}
                Ok(Some((fabric, read))) => (expected, *bytes) = (fabric, read),
                Err(error) => unread = Some(error),
            }
        }
        let mut deviations = compared(&spec, &expected, found);
        deviations.extend(unread.map(|error| Deviation {
            what: What::ExpectedUnread,
            place: Place::Manager,
            evidence: format!("{error}; until then the fabric is compared with what it stated before"),
        }));
        deviations
    })
}

/// Reads the file of the expected topology again; `None` if its contents are unchanged.
fn again(path: &Path, before: &[u8]) -> Result<Option<(Fabric, Vec<u8>)>, CliError> {
    let bytes = load::text_bytes(path)?;
    if before == &*bytes {
        return Ok(None);
    }
    let loaded = selvedge_topology::read(&path.display().to_string(), &bytes)?;
    Ok(Some((loaded.fabric, bytes)))
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
            Place::Manager | Place::Port(_) | Place::Peer(_) | Place::Link(..) => String::new(),
        };
        End { node, name, port }
    }
}
