//! Section qos-setup: tables of ports in scope.
//!
//! OpenSM reads this section and does nothing with it, so its meaning is that of its names:
//!
//! - `group` names the ports that the tables belong to; a switch is in scope if its port 0 is in the group.
//! - `across` names the ports at the other end of the link: an arbitration table belongs to the port that sends to
//!   them.
//! - `from` and `to` are ingress and egress ports, `across-from` and `across-to` the ports beyond them.
//! - Criteria of different kinds must all be met, values of one kind are alternatives.
//! - As for match rules, the first scope that fits applies. An arbitration scope gives only the tables that it names,
//!   and a later scope may give the others.

use selvedge_fabric::{Fabric, PortRef};
use selvedge_types::{PortNum, Sl, Vl};

use super::{End, Ranges, Resolved, RowScope};
use crate::opensm::Template;

/// The tables that scopes give a port; `None`: no scope does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopedTables<'a> {
    /// Entries of the high-priority table.
    pub high: Option<&'a [(Vl, u8)]>,
    /// Entries of the low-priority table.
    pub low: Option<&'a [(Vl, u8)]>,
    /// VLHighLimit, in units of 4,096 bytes.
    pub high_limit: Option<u8>,
    /// The row for packets that arrived by the ingress port.
    pub row: Option<[Vl; Sl::COUNT]>,
}

impl ScopedTables<'_> {
    /// True if no scope gives anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Replaces what scopes give in the settings of a kind of port.
    pub fn apply(&self, template: &mut Template) {
        if let Some(high) = self.high {
            template.high = high.to_vec();
        }
        if let Some(low) = self.low {
            template.low = low.to_vec();
        }
        template.high_limit = self.high_limit.unwrap_or(template.high_limit);
        template.row = self.row.unwrap_or(template.row);
    }
}

/// Returns the tables that the scopes of a policy give a port, with the row for packets that arrived by `ingress` (0:
/// the node's own packets).
#[must_use]
pub fn tables_in_scope<'a>(
    resolved: &'a Resolved,
    fabric: &Fabric,
    egress: PortRef,
    ingress: PortNum,
) -> ScopedTables<'a> {
    let at = Place {
        resolved,
        own: end_of(fabric, egress),
        beyond: fabric.peer(egress).and_then(|peer| end_of(fabric, peer)),
        before: (ingress != PortNum::MANAGEMENT)
            .then_some(PortRef {
                port: ingress,
                ..egress
            })
            .and_then(|from| fabric.peer(from))
            .and_then(|peer| end_of(fabric, peer)),
    };
    let mut found = ScopedTables::default();
    for scope in &resolved.policy.arbitration {
        if at.fits(&scope.groups, at.own) && at.fits(&scope.across, at.beyond) {
            found.high = found.high.or(scope.high.as_deref());
            found.low = found.low.or(scope.low.as_deref());
            found.high_limit = found.high_limit.or(scope.high_limit);
        }
    }
    let has = |ports: &Ranges, port: PortNum| ports.is_empty() || ports.contains(u64::from(port.get()));
    let fits = |scope: &&RowScope| {
        at.fits(&scope.groups, at.own)
            && has(&scope.from, ingress)
            && has(&scope.to, egress.port)
            && at.fits(&scope.across_from, at.before)
            && at.fits(&scope.across_to, at.beyond)
    };
    found.row = resolved.policy.rows.iter().find(fits).map(|scope| scope.row);
    found
}

/// A port, and the ports at the other ends of two links.
struct Place<'a> {
    resolved: &'a Resolved,
    own: Option<End>,
    beyond: Option<End>,
    before: Option<End>,
}

impl Place<'_> {
    fn fits(&self, groups: &[usize], end: Option<End>) -> bool {
        groups.is_empty() || end.is_some_and(|end| self.resolved.is_in(groups, end))
    }
}

/// Returns the end port that stands for a port: a switch's port 0 for all its ports.
fn end_of(fabric: &Fabric, at: PortRef) -> Option<End> {
    let node = fabric.nodes().get(at.node)?;
    let num = if node.is_switch() { PortNum::MANAGEMENT } else { at.port };
    node.port(num).map(|port| End {
        guid: port.guid,
        kind: node.kind,
    })
}
