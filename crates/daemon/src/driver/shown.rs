//! Reports events to operators, shows the manager's state to front ends, and writes dumps.

use std::sync::Arc;

use selvedge_api as api;
use selvedge_coordinator::In;
use selvedge_fabric::Fabric;
use selvedge_health::News;
use selvedge_plan::Policy;
use selvedge_planner::Severity;
use selvedge_sim::Time;
use selvedge_sm::{Committed, Event, Milestone};

use super::{Driver, Untold};
use crate::DaemonError;
use crate::dumps::Dump;
use crate::notice::Notice;
use crate::worker::{Note, ToCompare};

impl Driver {
    /// Reports events and acts upon milestones, after all datagrams are at the port: no Set may wait for that.
    pub(super) fn tell(&mut self) -> Result<(), DaemonError> {
        let is_event = |(_, untold): &(Time, Untold)| matches!(untold, Untold::Event(_));
        if !self.untold.iter().any(is_event) {
            return self.tell_untold();
        }
        // Before the events: a reader of an event must find the state that it reports.
        let news = self.show_state();
        let told = self.tell_untold();
        // After their causes: events are in order of time, and these have the time of now.
        self.shared.report(self.shown_at, news);
        told
    }

    fn tell_untold(&mut self) -> Result<(), DaemonError> {
        for (at, untold) in std::mem::take(&mut self.untold) {
            match untold {
                Untold::Event(event) => self.tell_event(at, &event),
                Untold::Milestone(milestone) => self.reached(milestone)?,
            }
        }
        Ok(())
    }

    fn tell_event(&self, at: Time, event: &Event) {
        let severity = match event.severity() {
            Severity::Info => api::Severity::Info,
            Severity::Warning => api::Severity::Warning,
            Severity::Error => api::Severity::Error,
        };
        let text = event.to_string();
        let text = text.strip_prefix(event.code()).map_or(text.as_str(), str::trim_start);
        self.shared.event(at, severity, event.code(), text);
    }

    /// Handles a milestone: the coordinator gets it, and the plan in force is compared and dumped.
    fn reached(&mut self, milestone: Milestone) -> Result<(), DaemonError> {
        match &milestone {
            Milestone::Committed(committed) => {
                self.compare_plans(committed);
                self.compare_with_expected(&committed.fabric);
                self.dump(false);
            }
            Milestone::CopiesChanged(_) => self.dump(true),
            Milestone::Swept(fabric) => self.compare_with_expected(fabric),
            Milestone::SweepStarted
            | Milestone::Coming { .. }
            | Milestone::RoleChanged { .. }
            | Milestone::TrapTaken(_)
            | Milestone::KnownChanged(_)
            | Milestone::KeyChanged(_)
            | Milestone::OutOfService { .. } => {}
            Milestone::RolledBack { policy, .. } => self.rolled_back(policy),
        }
        self.coordinate(In::Milestone(milestone))
    }

    /// Handles a change that was rolled back: the list of places out of service is again that of the policy in force.
    fn rolled_back(&self, policy: &Policy) {
        if let Err(error) = self.roster.restore(&policy.out_of_service) {
            self.notice(&Notice::NotStored(error));
        }
    }

    /// Starts to compare the fabric that was found with the expected topology, if there is one.
    fn compare_with_expected(&mut self, fabric: &Arc<Fabric>) {
        if let Some(expecter) = &self.expecter {
            self.busy += 1;
            expecter.hand(Arc::clone(fabric));
        }
    }

    /// Starts to write the plan in force into dump files, if that is configured.
    fn dump(&self, only_copies: bool) {
        let Some(dumper) = &self.dumper else { return };
        let view = self.sm.view();
        if let (selvedge_sm::Role::Master, Some(fabric), Some(plan)) = (view.role, view.fabric, view.plan) {
            dumper.hand(Dump {
                fabric: self.shared.names.apply(&fabric),
                plan,
                copies: view.copies,
                only_copies,
            });
        }
    }

    pub(super) fn dumped(&self, result: Result<(), (std::path::PathBuf, std::io::Error)>) {
        if let Err((path, cause)) = result {
            self.notice(&Notice::NotDumped { path, cause });
        }
    }

    /// Waits for the dumps that are being written.
    pub(super) fn end_dumps(&mut self) {
        self.dumper = None;
        while let Ok(note) = self.notes.try_recv() {
            if let Note::Dumped(result) = note {
                self.dumped(result);
            }
        }
    }

    /// Starts to compare the routes of a new plan with those of the previous plan.
    fn compare_plans(&mut self, committed: &Committed) {
        let now = (Arc::clone(&committed.fabric), Arc::clone(&committed.plan));
        if let Some(before) = self.in_force.replace(now.clone()) {
            self.busy += 1;
            self.comparer.hand(ToCompare { before, now });
        }
    }

    pub(super) fn show(&mut self) {
        let news = self.show_state();
        self.shared.report(self.shown_at, news);
    }

    fn show_state(&mut self) -> Vec<News> {
        self.shown_at = self.shared.clock.now();
        self.changed = false;
        let news = self.shared.show(self.shown_at, self.sm.view());
        self.systemd.turn(self.shown_at, &self.shared.manager_health());
        self.shared.show_intake(self.intake_counts());
        self.show_administration();
        news
    }

    pub(super) fn show_administration(&mut self) {
        let counts = self.seat.desk().counts();
        self.asked = counts.received;
        self.shared.show_administration(counts);
    }

    /// Returns the number of held datagrams, and the sources that babble, with the names of their ports.
    fn intake_counts(&self) -> api::Intake {
        let (held, babblers) = self.seat.desk().intake();
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
