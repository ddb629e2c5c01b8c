//! The effect of a drawn event on the fabric, and when it happens.

use std::time::Duration;

use selvedge_sm::StageName;
use selvedge_types::Lmc;

use super::action::{Action, Setting};
use super::event::{Happening, Kind, When};
use super::schedule::{engines, other_setting};
use super::world::{STAGE_WAIT, World};
use crate::RehearsalError;

impl World<'_> {
    /// Waits until an event is due.
    pub(super) fn wait(&mut self, Happening { when, pick, .. }: Happening) -> Result<(), RehearsalError> {
        match when {
            When::After(span) => self.run_for(span),
            When::During(stage, span) => {
                self.run_until(STAGE_WAIT, |world| world.is_in(stage))?;
                self.run_for(span)
            }
            When::Amid(stage, span) => self.amid(stage, pick, span),
        }
    }

    /// Waits until the master is in a stage, and causes the stage if it does not come unasked.
    fn amid(&mut self, stage: StageName, pick: u32, span: Duration) -> Result<(), RehearsalError> {
        let wait = match stage {
            // A light sweep comes at its interval, once a manager is idle.
            StageName::LightSweep => self.schedule.setup.sweep() + STAGE_WAIT,
            _ => STAGE_WAIT / 4,
        };
        let mut reached = self.run_until(wait, |world| world.stage() == stage as u8)?;
        if !reached {
            self.bring_about(stage, pick)?;
            reached = self.run_until(STAGE_WAIT, |world| world.stage() == stage as u8)?;
        }
        // Half of the time at once: most stages are brief.
        match reached && pick.is_multiple_of(2) {
            true => Ok(()),
            false => self.run_for(span),
        }
    }

    /// Causes a stage of the master, by a flapping link, a start or another policy. Stages that come by themselves are
    /// not caused.
    fn bring_about(&mut self, stage: StageName, pick: u32) -> Result<(), RehearsalError> {
        match stage {
            StageName::Idle | StageName::LightSweep => Ok(()),
            StageName::Probing => {
                let link = self.ground.link(pick / 7);
                self.fault(&format!("flap {link} times=1 down=5ms up=5ms"))
            }
            // A manager that starts reads all tables and stores the state that it takes over.
            StageName::ReadingTables | StageName::Persisting => {
                let which = self.master();
                if self.managers.is_running(which) {
                    self.act(Action::Kill(which))?;
                }
                self.act(Action::Start(which))
            }
            StageName::Discovering | StageName::Planning | StageName::Applying => {
                // A policy that differs from the last one: else there is nothing to apply.
                let what = Happening {
                    when: When::After(Duration::ZERO),
                    kind: Kind::Settings,
                    pick,
                    other: 0,
                    span: Duration::ZERO,
                };
                self.reload(&what)
            }
        }
    }

    /// Carries out one event. Returns false if the fabric has nothing to which the event applies.
    pub(super) fn happen(&mut self, what: &Happening) -> Result<bool, RehearsalError> {
        let (pick, span) = (what.pick, what.span);
        let (link, node) = (self.ground.link(pick), self.ground.node(pick));
        let rare = 1 + what.other % 8;
        match what.kind {
            Kind::Cut => self.fault(&format!("cut {link}"))?,
            Kind::Restore => self.fault(&format!("restore {link}"))?,
            Kind::Flap => self.flap(&link, what)?,
            Kind::Die => self.fault(&format!("kill {node}"))?,
            Kind::Revive => self.fault(&format!("revive {node}"))?,
            Kind::Reboot => self.fault(&format!("reboot {node}"))?,
            Kind::Swap => {
                let with = self.ground.link(what.other);
                if link == with {
                    return Ok(false);
                }
                self.fault(&format!("swap {link} with {with}"))?;
            }
            Kind::Clone => {
                let of = self.ground.node(what.other);
                self.for_a_time(
                    span,
                    &format!("clone {node} of {of}"),
                    &format!("clone {node} of {node}"),
                )?;
            }
            Kind::Slow => {
                let by = 20 * (1 + what.other % 500);
                self.for_a_time(span, &format!("slow {node} by={by}us"), &format!("slow {node} by=0us"))?;
            }
            Kind::Hang => self.for_a_time(span, &format!("hang {node}"), &format!("unhang {node}"))?,
            Kind::Lie => {
                let switch = self.ground.switch(pick);
                self.for_a_time(span, &format!("lie {switch}"), &format!("honest {switch}"))?;
            }
            Kind::Lose => self.for_a_time(span, &format!("loss {rare}%"), "loss 0%")?,
            Kind::Double => self.for_a_time(span, &format!("duplicate {rare}%"), "duplicate 0%")?,
            Kind::Late => {
                let max = 1 + what.pick % 400;
                self.for_a_time(span, &format!("delay {rare}% max={max}ms"), "delay 0% max=0ms")?;
            }
            Kind::Corrupt => self.for_a_time(span, &format!("corrupt {rare}/200"), "corrupt 0%")?,
            Kind::Part => self.part(what)?,
            Kind::Kill | Kind::Start | Kind::Restart => return self.life(what),
            Kind::Engines | Kind::Lmc | Kind::Settings => self.reload(what)?,
            Kind::Drain | Kind::Isolate | Kind::Enable | Kind::Refused | Kind::MKey | Kind::Twice => {
                return self.change(what);
            }
            Kind::Sweep => {
                for which in 0..self.managers.ids().len() {
                    if self.managers.is_running(which) {
                        self.act(Action::Sweep(which))?;
                    }
                }
            }
        }
        Ok(true)
    }

    fn flap(&mut self, link: &str, what: &Happening) -> Result<(), RehearsalError> {
        let times = 2 + what.other % 6;
        let (down, up) = (1 + what.pick % 40, 1 + what.other % 90);
        self.fault(&format!("flap {link} times={times} down={down}ms up={up}ms"))
    }

    fn life(&mut self, what: &Happening) -> Result<bool, RehearsalError> {
        let which = what.pick as usize % self.managers.ids().len();
        match (what.kind, self.managers.is_running(which)) {
            (Kind::Kill, true) => self.act(Action::Kill(which))?,
            (Kind::Start, false) => self.act(Action::Start(which))?,
            (Kind::Restart, true) => {
                self.act(Action::Kill(which))?;
                self.act(Action::Start(which))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Lets no MAD pass between two parts of the fabric for a time.
    fn part(&mut self, what: &Happening) -> Result<(), RehearsalError> {
        let between = self.ground.between(what.pick);
        for at in between {
            self.for_a_time(what.span, &format!("loss 100% at {at}"), &format!("loss 0% at {at}"))?;
        }
        Ok(())
    }

    fn reload(&mut self, what: &Happening) -> Result<(), RehearsalError> {
        let setting = match what.kind {
            Kind::Engines => Setting::Engines(engines((what.pick % 8) as u8)),
            Kind::Lmc => Setting::Lmc(Lmc::new((what.pick % 3) as u8).unwrap_or_default()),
            _ => other_setting(&self.operator.policy, what.pick),
        };
        self.act(Action::Policy(setting))
    }
}
