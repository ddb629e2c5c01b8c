//! Tables of alternate paths.

use selvedge_api::{AlternateFault, AlternateLeg, AlternatePath, AlternatePaths, AlternateShare, Alternates};

use crate::exit::CliError;
use crate::out::{Cell, Format, Grid, Out, count, thousands};

/// Prints figures over pairs.
pub fn figures(out: &mut Out, format: Format, found: &Alternates) -> Result<(), CliError> {
    if format.json {
        return out.document(found.clone());
    }
    out.grid(&faults(&found.faults))?;
    if format.csv {
        return Ok(());
    }
    out.line("")?;
    if !found.worst.is_empty() {
        out.grid(&rows(&found.worst))?;
        out.line("")?;
    }
    words(found).iter().try_for_each(|line| out.line(line))
}

/// Prints the alternate paths of a host or a pair.
pub fn paths(out: &mut Out, format: Format, found: &AlternatePaths) -> Result<(), CliError> {
    if format.json {
        return out.document(found.clone());
    }
    out.grid(&rows(&found.paths))?;
    if format.csv {
        return Ok(());
    }
    let mut lines = vec![String::new()];
    if let [pair] = &found.paths[..] {
        lines.extend(pair.fatal.iter().enumerate().map(|(at, fault)| {
            let note = if (at as u64) < pair.avoidable {
                ""
            } else {
                " (no alternate path can avoid it)"
            };
            format!("breaks both paths: {fault}{note}")
        }));
    }
    let is_pair = found.paths.windows(2).all(|two| two[0].target == two[1].target);
    let refused: Vec<_> = (found.paths.iter())
        .filter_map(|path| {
            let of = if is_pair { &path.policy } else { &path.target };
            Some(format!("{of}: {}", path.refused.as_ref()?))
        })
        .collect();
    lines.extend(refused.iter().take(REFUSALS_MAX).cloned());
    if let Some(more) = refused.len().checked_sub(REFUSALS_MAX).filter(|&more| more > 0) {
        lines.push(format!("and {more} more without an alternate path"));
    }
    if found
        .paths
        .iter()
        .any(|path| path.alternate.is_some() && !path.level_planned)
    {
        lines.push(
            "level_planned no: the plan has another service level for this LID; the proof against deadlock does \
                    not cover the path"
                .to_owned(),
        );
    }
    lines.push(format!(
        "{}, LMC {}; links and switches of the round trip that an alternate path could avoid count as shared",
        found.engine, found.lmc
    ));
    lines.iter().try_for_each(|line| out.line(line))
}

/// Largest number of pairs without an alternate path that text explains.
const REFUSALS_MAX: usize = 10;

fn faults(faults: &[AlternateFault]) -> Grid {
    let mut grid = Grid::new(&["kind", "name", "pairs", "unavoidable"]);
    for fault in faults {
        grid.row([
            (&fault.kind).into(),
            (&fault.name).into(),
            fault.pairs.into(),
            fault.unavoidable.into(),
        ]);
    }
    grid
}

fn rows(paths: &[AlternatePath]) -> Grid {
    let keys = [
        "source",
        "target",
        "policy",
        "primary",
        "alternate",
        "slid",
        "dlid",
        "path_bits",
        "sl",
        "level_planned",
        "in_hardware",
        "hops",
        "busiest",
        "shared_links",
        "shared_switches",
        "fatal",
    ];
    let lost = [
        "level_planned",
        "busiest",
        "hops",
        "slid",
        "sl",
        "primary",
        "in_hardware",
    ];
    let mut grid = Grid::new(&keys).lose_first(&lost);
    for path in paths {
        let alternate = path.alternate.as_ref();
        let ports = |leg: Option<&AlternateLeg>| leg.map(|leg| format!("{} {}", leg.source_port, leg.target_port));
        let of = |value: u64| alternate.map(|_| value);
        grid.row([
            (&path.source).into(),
            (&path.target).into(),
            (&path.policy).into(),
            ports(path.primary.as_ref()).into(),
            ports(alternate).into(),
            alternate.map_or(Cell::None, |leg| Cell::id(leg.slid)),
            alternate.map_or(Cell::None, |leg| Cell::id(leg.dlid)),
            alternate.map_or(Cell::None, |leg| Cell::id(leg.path_bits)),
            alternate.map_or(Cell::None, |leg| Cell::id(leg.sl)),
            alternate.map(|_| path.level_planned).into(),
            alternate.map(|_| path.in_hardware).into(),
            alternate.map(|leg| leg.hops).into(),
            alternate.map(|leg| leg.busiest).into(),
            of(path.shared_links).into(),
            of(path.shared_switches).into(),
            of(path.fatal.len() as u64).into(),
        ]);
    }
    grid
}

fn words(found: &Alternates) -> Vec<String> {
    let shares = |by: &[AlternateShare]| {
        let each = by
            .iter()
            .map(|share| format!("{}: {}", share.shared, thousands(share.pairs)));
        each.collect::<Vec<_>>().join(", ")
    };
    let mut lines = vec![
        format!(
            "{} of {} ({} possible) have an alternate path by policy {} ({}, LMC {})",
            thousands(found.with_alternate),
            count(found.pairs, "pair"),
            thousands(found.pairs_there_are),
            found.policy,
            found.engine,
            found.lmc,
        ),
        format!(
            "{} share nothing with the primary path that an alternate could avoid",
            count(found.disjoint, "pair")
        ),
    ];
    if found.with_alternate > 0 {
        lines.push(format!("pairs by shared links: {}", shares(&found.shared_links)));
        lines.push(format!("pairs by shared switches: {}", shares(&found.shared_switches)));
        lines.push(
            "pairs: pairs of hosts that lose both paths; unavoidable: by the only port or leaf of a host".to_owned(),
        );
    }
    for refusal in &found.refused {
        lines.push(format!(
            "{} have none: {}",
            count(refusal.pairs, "pair"),
            refusal.example
        ));
    }
    lines
}
