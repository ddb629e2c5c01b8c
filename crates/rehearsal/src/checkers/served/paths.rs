//! Checks that paths in answers to hosts are paths of the plan in force, and lead to the other host.

use selvedge_wire::Status;
use selvedge_wire::sa::records;

use crate::Violation;
use crate::checkers::seen::Scene;
use crate::clients::served::PathAsked;
use crate::clients::ways::is_planned;

/// Fails if a path in an answer to a host is not in the master's plan in force, or has another service level than the
/// plan gives to senders to the path's destination.
pub(super) fn is_of_plan(scene: &Scene<'_>, path: &PathAsked<'_>) -> Result<(), Violation> {
    let Some(answer) = path.answer.filter(|mad| mad.status() == Status::OK) else {
        return Ok(());
    };
    let life = path.of.and_then(|id| scene.life(id));
    let wrong = match life.and_then(|life| life.plans.in_force()) {
        None => Some("no plan is in force".to_owned()),
        Some((fabric, plan)) => {
            let level = records::path::SL.get(answer.sa_data());
            let told = u64::from(plan.told_levels().to(path.to).get());
            let from = plan.lids.owner(path.from);
            match from.is_some_and(|from| is_planned(fabric, plan, from, path.to)) {
                false => Some("the plan has no such way".to_owned()),
                true => (level != told).then(|| format!("service level {level}, the plan's is {told}")),
            }
        }
    };
    wrong.map_or(Ok(()), |what| Err(violation(path, what)))
}

/// Fails if a host gets no path while all managers are idle, or if packets do not arrive by the path.
pub(super) fn leads_there(path: &PathAsked<'_>, arrives: bool) -> Result<(), Violation> {
    let wrong = match path.answer.map(|answer| answer.status()) {
        Some(Status::OK) if arrives => return Ok(()),
        Some(Status::OK) => "packets do not get there".to_owned(),
        Some(status) => format!("it is refused: {status}"),
        None => "no manager answers".to_owned(),
    };
    Err(violation(path, wrong))
}

const fn violation(path: &PathAsked<'_>, what: String) -> Violation {
    let (from, to) = (path.from, path.to);
    Violation::WrongPath { from, to, what }
}
