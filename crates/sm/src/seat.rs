//! The manager's own port, while a plan waits for packets under way: it is asked whether its link, LID and master are
//! as before. All directed routes begin at it. If its cable was moved, Sets reach other nodes than they are meant for.

use std::time::Duration;

use selvedge_fabric::Port;
use selvedge_sim::Time;
use selvedge_types::PortState;
use selvedge_wire::{Attribute, Mad, PortInfo};

use crate::apply::Wait;
use crate::core::{Sm, ok};
use crate::event::SweepReason;
use crate::stage::Stage;
use crate::timer::Timer;

/// When our own port was asked in a wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seat {
    asked: Time,
    is_open: bool,
}

impl Seat {
    /// A wait begins: what was acknowledged until now got to who it was meant for.
    pub const fn new(began: Time) -> Self {
        Self {
            asked: began,
            is_open: false,
        }
    }

    /// When it is to be asked next: now and then, so that what is planned anew does not come late, and at the end.
    /// `None` while an answer is due, and when nothing is left to ask.
    pub fn due(&self, wait: &Wait, interval: Duration) -> Option<Time> {
        let is_due = !self.is_open && self.asked < wait.until;
        is_due.then(|| (self.asked + interval).min(wait.until))
    }

    /// True if it has been asked since the wait was over.
    pub fn is_known(&self, wait: &Wait) -> bool {
        !self.is_open && self.asked >= wait.until
    }
}

/// True if a port is not what it was: its link went, or somebody else made himself its master. A link that is ARMED
/// becomes ACTIVE by the first packet. Source: IBA vol 1 §7.2.7 (link state machine, Arm to Active).
fn is_other(known: &Port, seen: &PortInfo) -> bool {
    let state = seen.state.unwrap_or(PortState::Down);
    let held = &known.settings;
    state < known.link.state || (seen.lid, seen.sm_lid) != (held.lids.base, held.sm_lid)
}

impl Sm {
    /// Asks our own port while a plan waits, when that is due.
    pub(crate) fn ask_for_the_seat(&mut self, now: Time) {
        let is_due = self.is_due(Timer::Seat);
        let Stage::Applying(apply, inventory) = &mut self.stage else {
            return;
        };
        if is_due {
            (apply.seat.asked, apply.seat.is_open) = (now, true);
            let inventory = std::sync::Arc::clone(inventory);
            self.ask_own_port(&inventory);
        }
    }

    /// Takes what our own port says while a plan waits. Nothing: it is as busy as others may be, and the plan goes on.
    pub(crate) fn seat_answered(&mut self, answer: Option<&Mad>) {
        let Stage::Applying(apply, inventory) = &mut self.stage else {
            return;
        };
        apply.seat.is_open = false;
        let seen = ok(answer).and_then(|mad| PortInfo::parse(mad.smp_data()).ok());
        let known = apply.fabric.port(inventory.local);
        if seen.zip(known).is_some_and(|(seen, known)| is_other(known, &seen)) {
            self.want_sweep_unless_due(SweepReason::Overtaken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    #[test]
    fn it_is_asked_now_and_then_and_at_the_end() {
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        let wait = Wait {
            until: at(2_500),
            wait_ns: 2_500_000_000,
            phase: 1,
            phases: 2,
            label: "",
        };
        let interval = Duration::from_secs(1);
        let mut seat = Seat::new(at(0));
        for due in [1_000, 2_000, 2_500] {
            assert!(!seat.is_known(&wait));
            assert_eq!(seat.due(&wait, interval), Some(at(due)));
            (seat.asked, seat.is_open) = (at(due), true);
            assert_eq!(seat.due(&wait, interval), None, "one question at a time");
            assert!(!seat.is_known(&wait));
            seat.is_open = false;
        }
        assert!(seat.is_known(&wait));
        assert_eq!(seat.due(&wait, interval), None);
    }

    #[test]
    fn a_link_that_went_or_another_master_is_another_seat() {
        let known = made::inventory(made::row());
        let check = |state: PortState, seen: PortInfo, want: bool| {
            let mut port = known.fabric.port(known.local).unwrap().clone();
            port.link.state = state;
            assert_eq!(is_other(&port, &seen), want, "{state:?} {seen:?}");
        };
        use PortState::{Active, Armed, Down, Init};
        check(Active, made::info(Active), false);
        check(Armed, made::info(Active), false);
        check(Active, made::info(Init), true);
        check(Armed, made::info(Init), true);
        check(Active, made::info(Down), true);
        let served = PortInfo {
            sm_lid: selvedge_types::Lid(7),
            ..made::info(Active)
        };
        check(Active, served, true);
    }
}
