//! What the intake lets through to the manager, and what it tells.

use selvedge_api as api;
use selvedge_sim::Time;
use selvedge_sm::{Command, Event, Input};
use selvedge_wire::Datagram;

use super::{Driver, Untold};
use crate::DaemonError;

impl Driver {
    /// Hands a datagram to the manager.
    pub(super) fn hear(&mut self, datagram: Datagram) -> Result<(), DaemonError> {
        let said = self.seat.desk().take_said();
        self.untold.extend(said.into_iter().map(untold));
        self.heard_at = self.shared.clock.now();
        self.feed(Input::Received(datagram))
    }

    /// Lets the intake end the intervals that are over, and tells the manager of sources that babble.
    pub(super) fn attend_intake(&mut self, now: Time) -> Result<(), DaemonError> {
        let mut desk = self.seat.desk();
        desk.intake.serve(self.sm.represses_with());
        let again = desk.wake_intake(now)?;
        let accused = desk.intake.take_accused();
        self.untold.extend(desk.take_said().into_iter().map(untold));
        drop(desk);
        self.changed |= !again.is_empty() || !accused.is_empty();
        for datagram in again {
            self.hear(datagram)?;
        }
        for babbler in accused {
            let (lid, port) = (babbler.lid, babbler.port);
            self.feed(Input::Command(Command::Babbles { lid, port }))?;
        }
        Ok(())
    }

    /// Returns what the intake has held, and the sources that babble, with the names of their ports.
    pub(super) fn intake_counts(&self) -> api::Intake {
        let desk = self.seat.desk();
        let (held, babblers): (_, Vec<_>) = (desk.intake.held(), desk.intake.babblers().collect());
        drop(desk);
        let view = (!babblers.is_empty()).then(|| self.sm.view());
        let name = |lid| {
            let (fabric, plan) = view
                .as_ref()
                .and_then(|view| view.fabric.as_ref().zip(view.plan.as_ref()))?;
            Some(self.shared.names.apply(fabric).port_name(plan.lids.owner(lid)?))
        };
        let babbling = babblers.into_iter().map(|babbler| api::Babbler {
            lid: babbler.lid,
            port: name(babbler.lid),
            what: babbler.kind.to_string(),
            since_ms: babbler.since.0 / 1_000_000,
            came: babbler.came,
        });
        api::Intake {
            held,
            babbling: babbling.collect(),
        }
    }
}

fn untold((at, event): (Time, Event)) -> (Time, Untold) {
    (at, Untold::Event(event))
}
