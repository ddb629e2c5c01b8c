//! `selvedge status partitions`: P_Keys, their members, and rules that match nothing.

use selvedge_api::{Partition, PartitionMember, Partitions};

use crate::exit::CliError;
use crate::out::{Cell, Grid, Out, thousands};

/// Prints the partitions. Text names `top` members of each kind; CSV has a row for each member.
pub fn show(out: &mut Out, partitions: Partitions, top: usize) -> Result<(), CliError> {
    let format = out.format();
    if format.json {
        return out.document(partitions);
    }
    if format.csv {
        return out.grid(&members(&partitions));
    }
    out.grid(&summary(&partitions, top))?;
    let idle = rules_without_ports(&partitions);
    if idle.is_empty() {
        return Ok(());
    }
    out.line("\nrules that match nothing:")?;
    out.grid(&idle)
}

fn key(partition: &Partition) -> String {
    format!("{:#06x}", partition.pkey.0)
}

/// Returns a table of partitions, one per row.
fn summary(partitions: &Partitions, top: usize) -> Grid {
    let keys = [
        "p_key",
        "name",
        "full",
        "limited",
        "not_set",
        "full_members",
        "limited_members",
    ];
    let mut grid = Grid::new(&keys).lose_first(&["limited_members", "full_members"]);
    for partition in &partitions.partitions {
        let count = |is_full| partition.members_of(is_full).count();
        grid.row([
            key(partition).into(),
            (&partition.name).into(),
            count(true).into(),
            count(false).into(),
            partition.not_set().into(),
            names(partition, true, top).into(),
            names(partition, false, top).into(),
        ]);
    }
    grid
}

/// Returns the names of the first members, and the number of the others; `None` without members.
fn names(partition: &Partition, is_full: bool, top: usize) -> Option<String> {
    let mut members = partition.members_of(is_full);
    let name = |member: &PartitionMember| format!("{}[{}]", member.node_name, member.port);
    let mut shown: Vec<String> = members.by_ref().take(top).map(name).collect();
    let more = members.count() as u64;
    if more > 0 {
        shown.push(format!("and {} more", thousands(more)));
    }
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// Returns a table of members, one per row.
fn members(partitions: &Partitions) -> Grid {
    let mut grid = Grid::new(&["p_key", "name", "membership", "set", "node", "port", "guid"]);
    for partition in &partitions.partitions {
        for member in &partition.members {
            grid.row([
                key(partition).into(),
                (&partition.name).into(),
                if member.full { "full" } else { "limited" }.into(),
                member.set.map_or(Cell::Unknown, Cell::Flag),
                (&member.node_name).into(),
                Cell::id(member.port),
                member.guid.to_string().into(),
            ]);
        }
    }
    grid
}

/// Returns a table of the rules that apply to no port of the fabric, one per row.
fn rules_without_ports(partitions: &Partitions) -> Grid {
    let mut grid = Grid::new(&["p_key", "name", "rule"]);
    for partition in &partitions.partitions {
        for rule in partition.rules.iter().filter(|rule| rule.matches == 0) {
            grid.row([key(partition).into(), (&partition.name).into(), (&rule.rule).into()]);
        }
    }
    grid
}
