//! Expectations of a scenario.

use std::collections::BTreeSet;

use selvedge_chassis::{PortData, PortIdx};
use selvedge_plan::PartEnforce;
use selvedge_sm::View;
use selvedge_types::PortState;
use selvedge_wire::{CapabilityMask, Method};

use super::ScriptError;
use super::run::{Runner, held_lids};
use super::show::port_named;
use super::words::{number, span, syntax};
use crate::{Observed, lanes};

const EXPECTATIONS: &str = "up NAME, role NAME ROLE, sets NAME N, no sets, lids unchanged, tables unchanged, \
    levels NAME unchanged, \
    event NAME CODE, no event NAME CODE, all active NAME, judged NAME, is-sm PORT yes|no, state PORT STATE, \
    lanes N or N+1 (that of copies), enforced PORT off|in|out|both, lid PORT N, within SPAN, \
    reason NAME PORT CODE, unexplained NAME N";

impl Runner<'_> {
    /// Checks one expectation. Expectations about change compare with the last `mark`.
    pub(super) fn expect(&mut self, what: &[&str]) -> Result<(), ScriptError> {
        let want = what.join(" ");
        let check = |found: String, holds: bool| match holds {
            true => Ok(()),
            false => Err(ScriptError::Expectation {
                want: want.clone(),
                found,
            }),
        };
        match *what {
            ["up", name] => {
                let view = self.view(name)?;
                check(
                    format!("{} {}, failed {}", view.role, view.stage, view.failed),
                    view.is_up(),
                )
            }
            ["role", name, role] => {
                let found = self.view(name)?.role.to_string();
                check(found.clone(), found == role)
            }
            ["sets", name, count] => {
                let count: u64 = number(count)?;
                let world = self.world()?;
                let client = world.client(self.id(name)?);
                let found = client.map_or(0, |client| world.emulator().sets_sent_by(client));
                check(found.to_string(), found == count)
            }
            ["no", "sets"] => {
                let of = |counts: &selvedge_emulator::Counts| counts.sent.of_method(Method::Set);
                let found = of(self.world()?.emulator().counts()) - of(&self.mark.counts);
                check(format!("{found} Sets"), found == 0)
            }
            ["lids", "unchanged"] => self.lids_unchanged(&check),
            ["tables", "unchanged"] => {
                let same = self.world()?.emulator().chassis().tables() == self.mark.tables;
                check("other tables".to_owned(), same)
            }
            ["levels", name, "unchanged"] => self.levels_unchanged(name, &check),
            ["event", name, code] => check("none".to_owned(), self.has_event(name, code)?),
            ["no", "event", name, code] => check("one".to_owned(), !self.has_event(name, code)?),
            ["all", "active", name] => {
                let observed = self.observed(name)?;
                let idle: Vec<String> = observed.not_active().map(|at| observed.fabric.port_name(at)).collect();
                check(idle.join(", "), idle.is_empty())
            }
            ["judged", name] => {
                let observed = self.observed(name)?;
                let relied_on = self.view(name)?.plan.filter(|plan| plan.lanes > 1);
                let verdict = match relied_on {
                    Some(plan) => observed.judge_levels(plan.told_levels()),
                    None => observed.judge(),
                };
                let first = verdict.errors().next().map(ToString::to_string);
                let conflict = observed.without_lid.first().map(|(_, conflict)| conflict.to_string());
                let found = first.or(conflict);
                check(found.clone().unwrap_or_default(), found.is_none())
            }
            ["lanes", lanes] => {
                let wanted = lanes::wanted(lanes).ok_or_else(|| syntax(lanes, "lanes, as 4 or 4+1"))?;
                let found = lanes::first_wrong(self.world()?.emulator().chassis(), wanted);
                check(found.clone().unwrap_or_default(), found.is_none())
            }
            ["within", time] => {
                let (limit, took) = (span(time)?, self.world()?.now().since(self.mark.at));
                check(format!("{took:?}"), took <= limit)
            }
            _ => self.expect_of_port(what, &check),
        }
    }

    fn expect_of_port(
        &self,
        what: &[&str],
        check: &dyn Fn(String, bool) -> Result<(), ScriptError>,
    ) -> Result<(), ScriptError> {
        let chassis = self.world()?.emulator().chassis();
        let port = |text: &str| {
            let at = port_named(chassis, text)?;
            chassis.port_idx(at).ok_or_else(|| syntax(text, "a port"))
        };
        match *what {
            ["is-sm", at, want] => {
                let mask = CapabilityMask(chassis.port(port(at)?).capability_mask);
                let found = if mask.contains(CapabilityMask::IS_SM) {
                    "yes"
                } else {
                    "no"
                };
                check(found.to_owned(), found == want)
            }
            ["state", at, want] => {
                let found: PortState = chassis.wire(port(at)?).state();
                check(found.to_string(), found.to_string() == want)
            }
            ["enforced", at, want] => {
                // Keys first: without them a port that enforces lets nothing pass.
                let held = chassis.port(port(at)?);
                let behind = chassis.wire(port(at)?).peer().map(|host| chassis.port(host));
                let keys = |port: &PortData| {
                    port.pkeys
                        .iter()
                        .filter(|key| key.0 != 0)
                        .copied()
                        .collect::<BTreeSet<_>>()
                };
                let lacks = behind.is_some_and(|host| keys(host) != keys(held)) && held.settings().enforcement != 0;
                let found = PartEnforce::ALL
                    .iter()
                    .find(|(_, e)| e.bits() == held.settings().enforcement);
                let found = found.map_or("?", |(name, _)| name);
                check(
                    format!("{found}, keys as the host's: {}", !lacks),
                    found == want && !lacks,
                )
            }
            ["lid", at, want] => {
                let found = chassis.port(port(at)?).settings().lids.base;
                check(found.to_string(), found.0 == number::<u16>(want)?)
            }
            ["reason", name, at, want] => {
                let view = self.view(name)?;
                let fabric = view.fabric.clone().unwrap_or_default();
                let at = at.parse::<selvedge_emulator::PortName>().and_then(|p| p.find(&fabric));
                let at = at.map_err(super::run::emulator)?;
                let found = view
                    .ports
                    .iter()
                    .find(|p| p.port == at)
                    .map_or("none", |p| p.reason.code());
                check(found.to_owned(), found == want)
            }
            ["unexplained", name, want] => {
                let view = self.view(name)?;
                let unexplained = |p: &&selvedge_sm::PortReport| p.reason == selvedge_planner::PortReason::Unexplained;
                let found = view.ports.iter().filter(unexplained).count();
                check(found.to_string(), found == number::<usize>(want)?)
            }
            _ => Err(syntax(&what.join(" "), EXPECTATIONS)),
        }
    }

    fn lids_unchanged(&self, check: &dyn Fn(String, bool) -> Result<(), ScriptError>) -> Result<(), ScriptError> {
        let world = self.world()?;
        let now = held_lids(world);
        let fabric = world.emulator().chassis().fabric();
        let changed = self
            .mark
            .lids
            .iter()
            .filter(|(at, range)| now.get(at).is_some_and(|held| held != *range));
        let names: Vec<String> = changed.map(|(at, _)| fabric.port_name(*at)).collect();
        check(format!("other LIDs at {}", names.join(", ")), names.is_empty())
    }

    fn has_event(&self, name: &str, code: &str) -> Result<bool, ScriptError> {
        let id = self.id(name)?;
        let since = &self.world()?.log()[self.mark.logged..];
        Ok(since.iter().any(|e| e.manager == id && e.event.code() == code))
    }

    pub(super) fn view(&self, name: &str) -> Result<View, ScriptError> {
        let view = self.world()?.view(self.id(name)?);
        view.ok_or_else(|| ScriptError::Missing {
            what: format!("running manager {name}"),
        })
    }

    pub(super) fn port_of(&self, name: &str) -> Result<PortIdx, ScriptError> {
        let world = self.world()?;
        let at = world
            .client(self.id(name)?)
            .and_then(|client| world.emulator().port_of(client));
        at.ok_or_else(|| ScriptError::Missing {
            what: format!("running manager {name}"),
        })
    }

    /// Returns the subnet around a manager, as its hardware is now.
    pub(super) fn observed(&self, name: &str) -> Result<Observed, ScriptError> {
        Ok(Observed::around(self.world()?.emulator(), self.port_of(name)?))
    }
}
