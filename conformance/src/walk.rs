//! The path that a plan describes: its tables, followed cable by cable through the fabric of a topology file.

use selvedge_types::Guid;

use crate::parse::{Hop, Net, Plan};
use crate::survey::EndPort;

/// Number of cables at which a path counts as endless; no fabric here has such a long path. Source: IBA vol 1 §14.2.2:
/// a directed route has fewer than 64 hops.
const HOPS_MAX: usize = 64;

/// Returns the cables from an end port to the end port `to`, which has `lid`. Hops name nodes by node GUID. The error
/// states where the path ends.
pub fn walk(net: &Net, plan: &Plan, from: EndPort, (to, lid): (EndPort, u16)) -> Result<Vec<Hop>, String> {
    let (mut node, first) = from;
    let mut path = Vec::new();
    let mut exit = first;
    while path.len() < HOPS_MAX {
        if net.is_switch(node) {
            let table = plan
                .tables
                .get(&node)
                .ok_or_else(|| format!("switch {node} has no table"))?;
            let entry = table.exits.get(&lid);
            exit = *entry.ok_or_else(|| format!("switch {node} drops LID {lid}"))?;
            if exit == 0 {
                return arrived(to, (node, 0), path);
            }
        }
        let cable = net.peer(node, exit);
        let (next, entry) = cable.ok_or_else(|| format!("no cable at {node}[{exit}]"))?;
        path.push(Hop {
            exit,
            guid: next,
            entry,
        });
        if !net.is_switch(next) {
            return arrived(to, (next, entry), path);
        }
        node = next;
    }
    Err(format!("a loop: {path:?}"))
}

fn arrived(want: EndPort, at: (Guid, u8), path: Vec<Hop>) -> Result<Vec<Hop>, String> {
    if at == want {
        return Ok(path);
    }
    Err(format!("it ends at {at:?}, not at {want:?}"))
}
