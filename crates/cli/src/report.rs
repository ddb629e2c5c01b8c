//! A manager's state in a few sentences.

use selvedge_api::Status;
use selvedge_verify::{Fault, Figures, Severity, Traffic, Verdict};

use crate::out::{count, thousands};

/// Returns lines about the fabric, the plan, the judge's verdict, and the cost.
pub fn lines(status: &Status, verdict: Option<&Verdict>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(fabric) = &status.fabric {
        let silent = &status.silent;
        let switches = count(fabric.switches, "switch") + &missed(silent.switches, silent.switches_behind);
        let hosts = count(fabric.hosts, "host") + &missed(silent.hosts, silent.hosts_behind);
        let (active, links) = (thousands(fabric.links_active), count(fabric.links, "link"));
        lines.push(format!("fabric    {switches}, {hosts}, {active} of {links} ACTIVE"));
    }
    if let Some(plan) = &status.plan {
        let (lids, entries) = (thousands(plan.lids), thousands(plan.lft_entries));
        lines.push(format!(
            "plan      {}: {lids} LIDs, {entries} forwarding entries",
            plan.engine
        ));
        let changes = &plan.changes;
        let (sets, blocks) = (thousands(changes.sets), thousands(changes.lft_blocks));
        let done = format!(
            "{} acknowledged, {} failed",
            thousands(changes.acknowledged),
            thousands(changes.failed)
        );
        lines.push(format!("changes   {sets} Sets ({blocks} LFT blocks): {done}"));
    }
    if let Some(verdict) = verdict {
        lines.push(format!("judged    {}", judged(verdict)));
    }
    if !status.multicast.is_empty() {
        let (groups, members) = (
            status.multicast.len() as u64,
            status.multicast.iter().map(|g| g.members).sum(),
        );
        let (groups, members) = (count(groups, "group"), count(members, "member"));
        lines.push(format!("multicast {groups} with {members} in all"));
    }
    let mads = &status.mads;
    let (gets, sets) = (thousands(mads.gets), thousands(mads.sets));
    let up = status
        .first_up_ms
        .map_or_else(String::new, |ms| format!("up after {} s; ", seconds(ms)));
    lines.push(format!(
        "MADs      {up}{gets} Gets and {sets} Sets sent, {} of them repeats",
        thousands(mads.repeats)
    ));
    lines
}

/// Returns text that follows the count of found nodes: how many known nodes do not answer, and how many are out of
/// reach behind them.
pub fn missed(silent: u64, behind: u64) -> String {
    let mut text = match silent {
        0 => String::new(),
        1 => ", and 1 that does not answer".to_owned(),
        _ => format!(", and {} that do not answer", thousands(silent)),
    };
    if behind > 0 {
        text += &format!(", and {} behind agents that do not answer", thousands(behind));
    }
    text
}

/// Returns a text about hosts of an emulated fabric that the manager did not find; `None` if it found all.
pub fn not_found(hosts: &[String]) -> Option<String> {
    const NAMED_MAX: usize = 5;
    let named = hosts[..NAMED_MAX.min(hosts.len())].join(", ");
    let more = match hosts.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {} more", thousands(more as u64)),
    };
    (!hosts.is_empty()).then(|| {
        format!(
            "not found {}: {named}{more}; no link leads there, or it is beyond the 63 hops of a directed route",
            count(hosts.len() as u64, "host")
        )
    })
}

/// Returns how far an interrupted run had come.
pub fn interrupted(status: &Status) -> String {
    let (done, total) = (thousands(status.progress.done), thousands(status.progress.total));
    format!("interrupted while in stage {}, {done} of {total} done", status.stage)
}

/// Returns the judge's verdict in a sentence.
pub fn judged(verdict: &Verdict) -> String {
    let Figures {
        host_pairs,
        host_pairs_reached,
        load,
        hops_max,
        ..
    } = &verdict.figures;
    let count = |severity, one: &str| count(verdict.count(severity), one);
    let word = match (verdict.is_ok(), verdict.count(Severity::Warning)) {
        (true, _) if !verdict.is_good() => {
            let warnings = count(Severity::Warning, "warning");
            format!("no errors, but hosts are apart or out of reach: {warnings}")
        }
        (true, 0) => "no errors".to_owned(),
        (true, _) if only_between_switches(verdict) => {
            format!(
                "no errors, {} about traffic between switches only",
                count(Severity::Warning, "warning")
            )
        }
        (true, _) => format!("no errors, {}", count(Severity::Warning, "warning")),
        (false, _) => count(Severity::Error, "error"),
    };
    let (reached, pairs) = (thousands(*host_pairs_reached), thousands(*host_pairs));
    // A mended proof knows the loads, but not the longest path.
    let longest = match (hops_max, load.max) {
        (0, 1..) => String::new(),
        (hops, _) => format!(", over {hops} links between switches at most"),
    };
    format!(
        "{word}; {reached} of {pairs} host pairs reach each other{longest}; busiest link {} pairs (mean {:.1})",
        thousands(load.max),
        load.mean
    )
}

/// True if all warnings are about packets from switch to switch. Such warnings are harmless, because agents in switches
/// hardly ever send to each other. (With up/down routes, switches at the top of a tree have no path to each other.)
fn only_between_switches(verdict: &Verdict) -> bool {
    let warnings = verdict.findings.iter().filter(|f| f.severity == Severity::Warning);
    warnings.map(|finding| &finding.fault).all(|fault| match fault {
        Fault::BlackHole { lost, .. }
        | Fault::Loop { lost, .. }
        | Fault::WrongDelivery { lost, .. }
        | Fault::LaneDrop { lost, .. } => lost.hosts == 0,
        Fault::Cycle { traffic, .. } => *traffic == Traffic::Switches,
        _ => false,
    })
}

/// Returns milliseconds as seconds.
pub fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_do_not_answer_are_counted_beside_those_that_are_found() {
        let check = |silent: u64, behind: u64, want: &str| assert_eq!(missed(silent, behind), want);
        check(0, 0, "");
        check(1, 0, ", and 1 that does not answer");
        check(1_200, 0, ", and 1,200 that do not answer");
        check(0, 4, ", and 4 behind agents that do not answer");
        check(
            1,
            4,
            ", and 1 that does not answer, and 4 behind agents that do not answer",
        );
    }
}
