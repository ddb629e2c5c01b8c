//! Names of nodes and ports as operators give them.

use selvedge_types::Guid;

use crate::names::Names;

/// A name as the operator gave it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// A description or a GUID.
    pub(crate) node: &'a str,
    /// The GUID, if the name is one.
    pub(crate) guid: Option<Guid>,
    /// The port number after the name.
    pub(crate) port: Option<u8>,
}

impl<'a> Wanted<'a> {
    /// Reads `name`, `"name"` or `0xGUID`, each with or without `[port]` after it.
    pub(crate) fn of(text: &'a str) -> Self {
        let text = text.trim();
        let (node, port) = match text.strip_suffix(']').and_then(|rest| rest.rsplit_once('[')) {
            Some((node, port)) if port.parse::<u8>().is_ok() => (node, port.parse().ok()),
            _ => (text, None),
        };
        let node = node
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap_or(node);
        Self {
            node,
            guid: node.starts_with("0x").then(|| node.parse().ok()).flatten(),
            port,
        }
    }

    /// True if the name means a node with this GUID and description.
    pub(crate) fn is(&self, guid: Guid, name: &str, names: &Names) -> bool {
        self.guid == Some(guid) || name == self.node || names.of(guid).as_deref() == Some(self.node)
    }
}
