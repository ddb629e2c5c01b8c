//! Inputs and outputs of an administrator.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::Fabric;
use selvedge_plan::Plan;
use selvedge_plan::multicast::MftBlocks;
use selvedge_plan::partition::Partitions;
use selvedge_types::{Guid, Lid};
use selvedge_wire::{Class, Datagram, Method, Status};

use crate::jobs::JobRequest;
use crate::kept::Registrations;
use crate::snapshot::Snapshot;

/// An input of an administrator.
#[derive(Clone, Debug)]
pub enum Input {
    /// A datagram of class 3.
    Received(Datagram),
    /// A trap that the manager received, for subscribers.
    Trap(Datagram),
    /// [`crate::Sa::next_wake`] has come.
    Wake,
    /// The manager is master. From now on requests are answered, with BUSY until a plan is in force.
    Serve,
    /// The fabric as discovered by a sweep. A plan for it follows later or never.
    Swept(Arc<Fabric>),
    /// A plan for this fabric is being applied. Some ports may use its LIDs before it is in force.
    Coming(Arc<Fabric>, Arc<Plan>),
    /// A plan is in force.
    Committed(Arc<Snapshot>),
    /// The preset groups, by GID.
    Presets(Arc<Partitions>),
    /// Current MFT blocks of switches, by GUID.
    Copies(Arc<BTreeMap<Guid, MftBlocks>>),
    /// The text of the list of places out of service that is in force, for standbys.
    OutOfService(Arc<str>),
    /// A job starts or ends. [`crate::Sa::take_job_answer`] has the answer at once.
    Job(JobRequest),
    /// The manager is no longer master: no request is answered.
    Withdraw,
    /// Another manager is master, and hosts register there. Registrations here are removed.
    Forget,
    /// Registrations copied from the master while this manager is standby. They replace those known here.
    Copied(Box<Registrations>),
}

/// An output of an administrator.
#[derive(Clone, Debug)]
pub struct Output {
    /// The datagram to send.
    pub datagram: Datagram,
    /// How long the lower layer may wait for a response; zero if none is expected.
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

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams received.
    pub received: u64,
    /// Requests answered with success.
    pub answered: u64,
    /// Requests refused by a status other than BUSY.
    pub refused: u64,
    /// Refused requests with a wrong SM_Key.
    pub bad_key: u64,
    /// Requests answered with BUSY: no plan yet, or too many requests from the client.
    pub busy: u64,
    /// Requests above the limit per client.
    pub limited: u64,
    /// The client with the most requests above its limit, and their number.
    pub most_limited: Option<(Lid, u32)>,
    /// Dropped datagrams: this manager is not master, they are no requests, or they are unexpected parts of a transfer.
    pub dropped: u64,
    /// Records sent.
    pub records: u64,
    /// Segments sent, including repeats.
    pub segments: u64,
    /// Transfers that ended early: no answer from the client, or an error.
    pub failed: u64,
    /// Events reported to subscribers, without repeats.
    pub reports: u64,
    /// Events that were not reported: too many were waiting, or the subscriber did not answer.
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
