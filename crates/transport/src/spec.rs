//! Names of ports, and opening a port by name.

use std::fmt;
use std::str::FromStr;

use selvedge_types::{Guid, PortNum};
use selvedge_wire::{MadPort, PortError};

use crate::ibsim::{DEFAULT_BASE, IbsimPort};
use crate::umad::UmadPort;

/// Purpose of an open port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Receives traps and requests of other nodes. Only one manager or agent can do so on a real port.
    Manager,
    /// Receives only responses to its own requests. Works together with a manager on the same port.
    Observer,
}

/// The name of a port.
///
/// - ``: the first active port of the first HCA;
/// - `mlx5_0`, `mlx5_0/1`: an HCA, a port of it;
/// - `0x0002c90300001234`: the port of an HCA that has this GUID;
/// - `ibsim`, `ibsim:base`, `ibsim:base/node`: a node of a simulator with sockets that are named after `base`.
///
/// ```
/// use selvedge_transport::PortSpec;
/// let spec: PortSpec = "ibsim:lab/host-1".parse()?;
/// assert_eq!(spec, PortSpec::Ibsim { base: "lab".into(), node: "host-1".into() });
/// # Ok::<(), selvedge_transport::PortSpecError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortSpec {
    /// A port of an HCA, through libibumad.
    Umad {
        /// Name of the HCA, empty for the first one.
        ca: String,
        /// Port number, `None` for the first active port.
        port: Option<PortNum>,
    },
    /// The port of an HCA with this GUID, through libibumad.
    UmadGuid(Guid),
    /// A port of a simulated fabric, through the ibsim protocol.
    Ibsim {
        /// Base name of the server.
        base: String,
        /// Node, empty for the server's default.
        node: String,
    },
}

/// SLV-PORT-0107: the text is not the name of a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "SLV-PORT-0107: '{text}' names no port: {problem}; want CA, CA/PORT, a port GUID as 0x0002c90300001234, \
     ibsim:NAME or ibsim:NAME/NODE"
)]
pub struct PortSpecError {
    /// The text given.
    pub text: String,
    /// The reason for which the text is invalid.
    pub problem: &'static str,
}

impl FromStr for PortSpec {
    type Err = PortSpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |problem| PortSpecError {
            text: text.to_owned(),
            problem,
        };
        if let Some((scheme, rest)) = text.split_once(':') {
            if scheme != "ibsim" {
                return Err(error("unknown scheme before ':'"));
            }
            // Node names may contain '/', so only the first one is a separator.
            let (base, node) = rest.split_once('/').unwrap_or((rest, ""));
            if base.is_empty() || base.contains(':') {
                return Err(error("the simulator's name is empty or contains ':'"));
            }
            return Ok(Self::Ibsim {
                base: base.to_owned(),
                node: node.to_owned(),
            });
        }
        if text == "ibsim" {
            return Ok(Self::Ibsim {
                base: DEFAULT_BASE.to_owned(),
                node: String::new(),
            });
        }
        if text.starts_with("0x") {
            let guid = text.parse().map_err(|_| error("no GUID after 0x"))?;
            return Ok(Self::UmadGuid(guid));
        }
        let Some((ca, port)) = text.split_once('/') else {
            return Ok(Self::Umad {
                ca: text.to_owned(),
                port: None,
            });
        };
        match port.parse().ok().and_then(PortNum::new) {
            Some(port) if !ca.is_empty() => Ok(Self::Umad {
                ca: ca.to_owned(),
                port: Some(port),
            }),
            Some(_) => Err(error("no HCA before '/'")),
            None => Err(error("the port is no number from 0 to 254")),
        }
    }
}

impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Umad { ca, port: None } => f.write_str(ca),
            Self::Umad { ca, port: Some(port) } => write!(f, "{ca}/{port}"),
            Self::UmadGuid(guid) => write!(f, "{guid}"),
            Self::Ibsim { base, node } if node.is_empty() => write!(f, "ibsim:{base}"),
            Self::Ibsim { base, node } => write!(f, "ibsim:{base}/{node}"),
        }
    }
}

/// Opens the port that `spec` names.
pub fn open(spec: &PortSpec, role: Role) -> Result<Box<dyn MadPort>, PortError> {
    Ok(match spec {
        PortSpec::Umad { ca, port } => Box::new(UmadPort::open(ca, *port, role)?),
        PortSpec::UmadGuid(guid) => Box::new(UmadPort::open_guid(*guid, role)?),
        // A simulator delivers traps only to SMs, so both roles are the same here.
        PortSpec::Ibsim { base, node } => Box::new(IbsimPort::open(base, node)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let check = |text: &str, want: Option<&str>| {
            let got = text.parse::<PortSpec>().ok().map(|spec| spec.to_string());
            assert_eq!(got.as_deref(), want, "{text}");
        };
        check("", Some(""));
        check("mlx5_0", Some("mlx5_0"));
        check("mlx5_0/1", Some("mlx5_0/1"));
        check("0x0002c90300001234", Some("0x0002c90300001234"));
        check("0xports", None);
        check("mlx5_0/x", None);
        check("mlx5_0/255", None);
        check("/1", None);
        check("ibsim", Some("ibsim:sim"));
        check("ibsim:lab", Some("ibsim:lab"));
        check("ibsim:lab/H 1/U2", Some("ibsim:lab/H 1/U2"));
        check("ibsim:", None);
        check("ibsim:/node", None);
        check("tcp:lab", None);
    }
}
