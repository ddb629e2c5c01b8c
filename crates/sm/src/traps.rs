//! Traps: acted on at once, and repressed.

use std::time::Duration;

use selvedge_sim::Time;
use selvedge_wire::{Attribute, Datagram, Notice};

use crate::core::Sm;
use crate::event::{Event, SweepReason};
use crate::intake::repress;
use crate::io::Output;
use crate::milestone::Milestone;
use crate::stage::Stage;
use crate::timer::Timer;
use crate::view::Role;

impl Sm {
    /// Takes a trap, which an [`Intake`](crate::Intake) has told of. Only the master answers: a standby or a watcher
    /// was not meant.
    pub(crate) fn trap(&mut self, datagram: &Datagram, out: &mut Vec<Output>) {
        if self.view.role != Role::Master {
            self.view.mads.dropped += 1;
            return;
        }
        let notice = match Notice::parse(datagram.mad.smp_data()) {
            Ok(notice) => notice,
            Err(error) => {
                self.view.mads.dropped += 1;
                out.push(Output::Event(Event::BadDatagram { why: error.to_string() }));
                return;
            }
        };
        out.push(Output::Milestone(Milestone::TrapTaken(Box::new(*datagram))));
        // After what the trap is reason to send: nobody waits for it.
        self.represses
            .push((self.now, repress(datagram, self.config.policy.m_key)));
        if let Some(number) = notice.trap_number().filter(|n| changes_fabric(*n)) {
            if self.is_known_to_wait(&notice) {
                return;
            }
            if number == LINK_STATE && self.suspect_lid(notice.issuer_lid, SweepReason::Trap(number)) {
                return;
            }
            self.sweep_due.get_or_insert(SweepReason::Trap(number));
        }
    }
}

impl Sm {
    /// True while a fault is mended, and while what was mended is looked at again.
    #[must_use]
    pub fn is_at_a_fault(&self) -> bool {
        self.is_mending() || matches!(self.stage, Stage::Probing(_))
    }

    /// When traps are repressed: at once, but after the repair that they are reason for. Agents handle one SMP after
    /// another, and those of the repair are waited for.
    pub(crate) fn repress_at(&self) -> Option<Time> {
        let (first, _) = *self.represses.first()?;
        Some(if self.is_mending() {
            first + REPRESS_WITHIN
        } else {
            first
        })
    }

    /// True while packets are lost and something is done about it at once: from the look at what a trap is about until
    /// the last entry of the repair is acknowledged, but for waits. Whatever else there is to do can come after that.
    pub(crate) fn is_mending(&self) -> bool {
        match &self.stage {
            Stage::Probing(probe) => !probe.is_check,
            Stage::Planning { .. } => self.is_repairing(),
            Stage::Applying(apply, _) => self.is_repairing() && apply.wait().is_none(),
            Stage::Idle
            | Stage::Discovering(_)
            | Stage::Electing { .. }
            | Stage::Reading { .. }
            | Stage::Persisting { .. }
            | Stage::LightSweep { .. }
            | Stage::Copying(_)
            | Stage::Naming(_)
            | Stage::Standby { .. }
            | Stage::HandingOver { .. }
            | Stage::Disabled { .. }
            | Stage::Stopped => false,
        }
    }

    /// Represses the traps for which it is time.
    pub(crate) fn repress(&mut self, out: &mut Vec<Output>) {
        if self.is_due(Timer::Repress) {
            for (_, repress) in std::mem::take(&mut self.represses) {
                self.send_only(repress, out);
            }
        }
    }
}

/// Traps are repressed so long after they came at the latest. No switch repeats one sooner than after some tens of
/// milliseconds: SubnetTimeOut of the port, 18 (1 s) by default.
const REPRESS_WITHIN: Duration = Duration::from_millis(5);

/// A port of a switch changed its state. Source: IBA vol 1 §14.2.5.1.
const LINK_STATE: u16 = 128;

/// Link state (128) and capabilities, description or other local changes (144). Source: IBA vol 1 §14.2.5.1.
const fn changes_fabric(number: u16) -> bool {
    matches!(number, LINK_STATE | 144)
}
