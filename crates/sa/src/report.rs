//! Reports: events sent to subscribers, each repeated until it is answered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_sim::Time;
use selvedge_types::{Lid, TransactionId};
use selvedge_wire::sa::records;
use selvedge_wire::{Address, Attribute, AttributeId, Class, Datagram, Gid, Mad, Method, Notice};

use crate::config::Config;
use crate::io::{Counters, Output};

/// An event that is reported to subscribers.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Number of the trap.
    pub number: u16,
    /// Severity (Notice.Type).
    pub kind: u8,
    /// Kind of node that reports the event (Notice.ProducerType).
    pub producer: u32,
    /// LID of the port that reports the event.
    pub issuer: Lid,
    /// The port or group that the event concerns, if any.
    pub about: Option<Gid>,
    /// The Notice, in wire format.
    notice: [u8; 64],
}

impl Event {
    /// Returns the event of a trap that a node sent to the manager; `None` if the trap is vendor-specific.
    pub fn of_trap(notice: &Notice) -> Option<Self> {
        let number = notice.trap_number()?;
        let bytes = notice.emit();
        Some(Self {
            number,
            kind: bytes[0] & 0x7F,
            producer: u32::from_be_bytes([0, bytes[1], bytes[2], bytes[3]]),
            issuer: notice.issuer_lid,
            about: None,
            notice: bytes,
        })
    }

    /// Returns an event of the manager itself about a port or group: traps 64 to 67. Source: IBA vol 1 §14.2.5.1:
    /// details are six reserved bytes and the GID.
    pub fn of_gid(number: u16, issuer: Lid, gid: Gid) -> Self {
        /// Notice.Type "informational". The next constant is Notice.ProducerType of a class manager.
        const KIND: u8 = 4;
        const PRODUCER: u32 = 4;
        let mut data = [0; selvedge_wire::sa::SA_DATA_LEN];
        use records::notice as f;
        f::IS_GENERIC.set(&mut data, 1);
        f::TYPE.set(&mut data, u64::from(KIND));
        f::PRODUCER.set(&mut data, u64::from(PRODUCER));
        f::TRAP_NUMBER.set(&mut data, u64::from(number));
        f::ISSUER_LID.set(&mut data, u64::from(issuer.0));
        data[16..32].copy_from_slice(&gid.0);
        Self {
            number,
            kind: KIND,
            producer: PRODUCER,
            issuer,
            about: Some(gid),
            notice: core::array::from_fn(|i| data[i]),
        }
    }
}

#[derive(Debug)]
struct Waiting {
    datagram: Datagram,
    due: Time,
    retries_left: u8,
}

/// Reports that wait for their responses, by transaction id.
#[derive(Debug, Default)]
pub struct Reports {
    waiting: BTreeMap<u64, Waiting>,
    /// When each report is due, earliest first.
    due: BTreeSet<(Time, u64)>,
    last: u32,
}

impl Reports {
    /// Sends a report and waits for its response.
    pub fn send(
        &mut self,
        config: &Config,
        now: Time,
        (event, issuer_gid): (&Event, Gid),
        to: Address,
        counters: &mut Counters,
    ) -> Option<Output> {
        if self.waiting.len() >= config.reports {
            counters.reports_lost += 1;
            return None;
        }
        let mut mad = Mad::request(Class::SubnAdm, Method::Report, AttributeId::NOTICE, 0);
        self.last = self.last.wrapping_add(1);
        let transaction = u64::from(self.last);
        mad.set_transaction(TransactionId(transaction));
        let data = mad.sa_data_mut();
        data[..64].copy_from_slice(&event.notice);
        records::notice::ISSUER_GID.put(data, &issuer_gid.0);
        let datagram = Datagram { address: to, mad };
        let waiting = Waiting {
            datagram,
            due: now + config.timeout,
            retries_left: config.retries,
        };
        self.due.insert((waiting.due, transaction));
        self.waiting.insert(transaction, waiting);
        counters.reports += 1;
        Some(output(config, datagram))
    }

    /// Handles a subscriber's response. Returns false if no report waits for it.
    pub fn answered(&mut self, datagram: &Datagram) -> bool {
        // The lower layer uses the upper half.
        let transaction = datagram.mad.transaction().0 & 0xFFFF_FFFF;
        let same = |w: &Waiting| w.datagram.address.lid == datagram.address.lid;
        if !self.waiting.get(&transaction).is_some_and(same) {
            return false;
        }
        let answered = self.waiting.remove(&transaction);
        answered.is_some_and(|w| self.due.remove(&(w.due, transaction)))
    }

    /// Repeats the reports that are due. Calls `gone` with subscribers that do not answer.
    pub fn tick(&mut self, config: &Config, now: Time, out: &mut Vec<Output>, mut gone: impl FnMut(Lid)) {
        while let Some(&(due, transaction)) = self.due.first().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, transaction));
            let Some(waiting) = self.waiting.get_mut(&transaction) else {
                continue;
            };
            if waiting.retries_left == 0 {
                gone(waiting.datagram.address.lid);
                self.waiting.remove(&transaction);
                continue;
            }
            waiting.retries_left -= 1;
            waiting.due = now + config.timeout;
            self.due.insert((waiting.due, transaction));
            out.push(output(config, waiting.datagram));
        }
    }

    /// Returns when the next report is due.
    pub fn next_wake(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Removes all waiting reports.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.due.clear();
    }
}

/// Returns the output that sends a report. Its time-out is a little longer than the time until the report is repeated;
/// a request that the lower layer returns is ignored.
fn output(config: &Config, datagram: Datagram) -> Output {
    Output {
        datagram,
        timeout: config.timeout.saturating_add(Duration::from_millis(100)),
    }
}
