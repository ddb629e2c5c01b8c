//! Names of nodes and ports as text.

use core::fmt;
use core::str::FromStr;

use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_types::{Guid, PortNum};

use crate::EmulatorError;

/// A node by GUID or description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeName {
    /// `0x0002c90300001234`: GUID of the node, or of one of its end ports.
    Guid(Guid),
    /// `"S-L1-0"`; the quotes are optional if it has no space, bracket or quote.
    Description(String),
}

/// A port: its node, and its number, which may be omitted if it is unambiguous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortName {
    /// The node.
    pub node: NodeName,
    /// The number, as in `"S-L1-0"[20]`.
    pub port: Option<u8>,
}

const WANT_NAME: &str = "\"description\" or 0x<GUID>, with [port] behind it where a port is meant";

impl NodeName {
    /// Finds the node in a fabric.
    pub fn find(&self, fabric: &Fabric) -> Result<NodeIdx, EmulatorError> {
        let unknown = || EmulatorError::UnknownNode {
            name: self.bare().to_string(),
        };
        match self {
            Self::Guid(guid) => {
                let by_port = || fabric.find_port(*guid).map(|at| at.node);
                fabric.find(*guid).or_else(by_port).ok_or_else(unknown)
            }
            Self::Description(name) => {
                let mut found = fabric.nodes().iter_enumerated().filter(|(_, n)| n.description == *name);
                let (first, _) = found.next().ok_or_else(unknown)?;
                match found.count() {
                    0 => Ok(first),
                    others => Err(EmulatorError::AmbiguousNode {
                        name: name.clone(),
                        count: others + 1,
                    }),
                }
            }
        }
    }

    /// Prints without quotes.
    fn bare(&self) -> impl fmt::Display {
        match self {
            Self::Guid(guid) => guid.to_string(),
            Self::Description(name) => name.clone(),
        }
    }
}

impl PortName {
    /// Finds the port with this number in a fabric; the number is required.
    pub fn find(&self, fabric: &Fabric) -> Result<PortRef, EmulatorError> {
        let node = self.node.find(fabric)?;
        let want = "a port behind the node, as in \"S-L1-0\"[20]";
        match self.port {
            Some(num) => port_of(fabric, node, num),
            None => Err(EmulatorError::Syntax {
                text: self.to_string(),
                want,
            }),
        }
    }

    /// Finds the end port in a fabric. Without a number: port 0 of a switch, the port with that GUID, or the first
    /// cabled port of another node.
    pub fn end_port(&self, fabric: &Fabric) -> Result<PortRef, EmulatorError> {
        let node = self.node.find(fabric)?;
        if let Some(num) = self.port {
            return port_of(fabric, node, num);
        }
        if let NodeName::Guid(guid) = self.node
            && let Some(port) = fabric.find_port(guid)
        {
            return Ok(port);
        }
        let built = fabric.node(node);
        let cabled = built.end_ports().find(|(_, port)| port.peer.is_some());
        match cabled.or_else(|| built.end_ports().next()) {
            Some((port, _)) => Ok(PortRef { node, port }),
            None => port_of(fabric, node, 1),
        }
    }
}

fn port_of(fabric: &Fabric, node: NodeIdx, num: u8) -> Result<PortRef, EmulatorError> {
    let built = fabric.node(node);
    let port = PortNum::new(num).filter(|&port| built.port(port).is_some());
    match port {
        Some(port) => Ok(PortRef { node, port }),
        None => Err(EmulatorError::NoSuchPort {
            node: format!("\"{}\"", built.description),
            port: num,
            count: built.port_count(),
        }),
    }
}

impl FromStr for NodeName {
    type Err = EmulatorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name: PortName = text.parse()?;
        match name.port {
            None => Ok(name.node),
            Some(_) => Err(syntax(text)),
        }
    }
}

impl FromStr for PortName {
    type Err = EmulatorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let (node, rest) = match text.strip_prefix('"') {
            Some(quoted) => {
                let (name, rest) = unquote(quoted).ok_or_else(|| syntax(text))?;
                (NodeName::Description(name), rest)
            }
            None => {
                let end = text.find('[').unwrap_or(text.len());
                let (name, rest) = text.split_at(end);
                if name.is_empty() || name.contains(['"', ']']) || name.contains(char::is_whitespace) {
                    return Err(syntax(text));
                }
                let guid = name.strip_prefix("0x").and_then(|_| name.parse().ok());
                let node = guid.map_or_else(|| NodeName::Description(name.to_owned()), NodeName::Guid);
                (node, rest)
            }
        };
        let port = match rest {
            "" => None,
            _ => {
                let number = rest.strip_prefix('[').and_then(|r| r.strip_suffix(']'));
                Some(number.and_then(|n| n.parse().ok()).ok_or_else(|| syntax(text))?)
            }
        };
        Ok(Self { node, port })
    }
}

/// Returns the text up to the closing quote, and the rest.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((name, &text[at + 1..])),
            '\\' => name.push(chars.next()?.1),
            c => name.push(c),
        }
    }
    None
}

fn syntax(text: &str) -> EmulatorError {
    EmulatorError::Syntax {
        text: text.to_owned(),
        want: WANT_NAME,
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guid(guid) => guid.fmt(f),
            Self::Description(name) => {
                write!(f, "\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
            }
        }
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)?;
        match self.port {
            Some(port) => write!(f, "[{port}]"),
            None => Ok(()),
        }
    }
}
