//! What goes in and out of an administrator.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::Fabric;
use selvedge_plan::Plan;
use selvedge_plan::multicast::MftBlocks;
use selvedge_plan::partition::Partitions;
use selvedge_types::{Guid, Lid};
use selvedge_wire::{Class, Datagram, Method, Status};

use crate::kept::Registrations;
use crate::snapshot::Snapshot;

/// Everything an administrator reacts to.
#[derive(Clone, Debug)]
pub enum Input {
    /// A datagram of class 3.
    Received(Datagram),
    /// A trap that the manager was sent, for those who subscribed.
    Trap(Datagram),
    /// [`crate::Sa::next_wake`] has come.
    Wake,
    /// The manager is master: from now on questions are answered, with BUSY until a plan is in force.
    Serve,
    /// What a sweep saw; a plan for it is in force later, or never.
    Swept(Arc<Fabric>),
    /// A plan is on its way, for this fabric: its LIDs may be in force for some ports before it is.
    Coming(Arc<Fabric>, Arc<Plan>),
    /// A plan is in force.
    Committed(Arc<Snapshot>),
    /// Groups that are there from the start, by GID.
    Presets(Arc<Partitions>),
    /// What switches copy of multicast, by GUID.
    Copies(Arc<BTreeMap<Guid, MftBlocks>>),
    /// The manager is master no longer: nobody is answered.
    Withdraw,
    /// Somebody else is master: what clients registered here is his to know, and they tell him.
    Forget,
    /// What clients have registered with the master, while this manager stands by: it takes the place of what was known
    /// here.
    Copied(Box<Registrations>),
}

/// Everything an administrator wants done.
#[derive(Clone, Debug)]
pub struct Output {
    /// The datagram to send.
    pub datagram: Datagram,
    /// How long the layer below may wait for an answer; zero: there will be none that it should wait for.
    pub timeout: Duration,
}

impl Output {
    /// Replaces success by BUSY in an answer that confirms a registration or its end, so that the client repeats the
    /// request.
    pub fn withhold(&mut self) {
        use selvedge_wire::sa::records::{GUID_INFO, INFORM_INFO, MEMBER, SERVICE};
        let mad = &mut self.datagram.mad;
        let is_answer = matches!(mad.method(), Method::GetResp | Method::DeleteResp) && mad.status() == Status::OK;
        let registers = [MEMBER.id, SERVICE.id, INFORM_INFO.id, GUID_INFO.id].contains(&mad.attribute());
        if mad.class() == Class::SubnAdm && is_answer && registers {
            mad.set_status(Status::BUSY);
        }
    }
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams taken.
    pub received: u64,
    /// Requests answered with success.
    pub answered: u64,
    /// Requests refused by a status, BUSY left out.
    pub refused: u64,
    /// Of these: with an SM_Key that is not ours.
    pub bad_key: u64,
    /// Requests answered with BUSY: no plan yet, or the client asks too much.
    pub busy: u64,
    /// Requests above what one client may send.
    pub limited: u64,
    /// The client with the most of them, and how many.
    pub most_limited: Option<(Lid, u32)>,
    /// Datagrams dropped: not master, no request, a stray part of a transfer.
    pub dropped: u64,
    /// Records sent.
    pub records: u64,
    /// Segments of transfers sent, repeats included.
    pub segments: u64,
    /// Transfers that ended early: the client was silent, or said something wrong.
    pub failed: u64,
    /// Events reported to subscribers, repeats left out.
    pub reports: u64,
    /// Events that were not: too many waited, or the subscriber did not answer.
    pub reports_lost: u64,
}

#[cfg(test)]
mod tests {
    use selvedge_types::Sl;
    use selvedge_wire::sa::records::{GUID_INFO, INFORM_INFO, MEMBER, PATH, SERVICE};
    use selvedge_wire::{Address, AttributeId, Mad};

    use super::*;

    #[test]
    fn only_what_confirms_a_registration_is_withheld() {
        let check = |method, attribute: AttributeId, want: Status| {
            let mut mad = Mad::request(Class::SubnAdm, method, attribute, 0);
            mad.set_status(Status::OK);
            let address = Address::gsi(Lid(1), Sl::default());
            let mut output = Output {
                datagram: Datagram { address, mad },
                timeout: Duration::ZERO,
            };
            output.withhold();
            assert_eq!(output.datagram.mad.status(), want, "{method:?} {attribute:?}");
        };
        for attribute in [MEMBER.id, SERVICE.id, INFORM_INFO.id, GUID_INFO.id] {
            check(Method::GetResp, attribute, Status::BUSY);
            check(Method::DeleteResp, attribute, Status::BUSY);
            check(Method::GetTableResp, attribute, Status::OK);
            check(Method::Report, attribute, Status::OK);
        }
        check(Method::GetResp, PATH.id, Status::OK);
    }
}
