//! The path that a plan means: its tables followed cable by cable through the file's fabric.

use selvedge_types::Guid;

use crate::parse::{Hop, Net, Plan};
use crate::survey::EndPort;

/// Source: IBA vol 1 §14.2.2: a directed route has at most 64 hops; no fabric here is deeper.
const HOPS_MAX: usize = 64;

/// The cables from an end port to another that has `lid`; hops name nodes by node GUID. The error has the place where
/// the path ends.
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
