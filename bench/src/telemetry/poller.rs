//! The bare poller: a window of requests and nothing else.

use std::time::{Duration, Instant};

use selvedge_transport::ibsim::IbsimPort;
use selvedge_types::{Lid, Sl, TransactionId};
use selvedge_wire::{
    Address, Arrival, AttributeId, Class, Datagram, GmpAttribute as _, Mad, MadPort, Method, PortCounters,
    PortCountersExtended,
};

use super::{WINDOW, silent};
use crate::error::BenchError;

/// Time after which nothing more is expected.
const TIMEOUT: Duration = Duration::from_millis(1_000);

/// Sends so many requests: PortCountersExtended of each port in turn, then PortCounters. Returns how long that took.
pub fn poll(port: &mut IbsimPort, targets: &[(Lid, u8)], requests: u64) -> Result<Duration, BenchError> {
    let wanted = usize::try_from(requests).unwrap_or(usize::MAX);
    let begin = Instant::now();
    let (mut next, mut open, mut answered) = (0, 0, 0);
    while answered < wanted {
        while open < WINDOW && next < wanted {
            port.send(&request(targets, next), TIMEOUT)?;
            (next, open) = (next + 1, open + 1);
        }
        match port.receive(TIMEOUT)? {
            Some(Arrival::Received(answer)) if answer.mad.method() == Method::GetResp => {
                (open, answered) = (open - 1, answered + 1);
            }
            Some(_) => {}
            None => return Err(silent(answered, wanted)),
        }
    }
    Ok(begin.elapsed())
}

pub(super) fn request(targets: &[(Lid, u8)], at: usize) -> Datagram {
    let (lid, port_select) = targets[at % targets.len()];
    let is_base = at / targets.len() % 2 == 1;
    let attribute = if is_base {
        AttributeId::PORT_COUNTERS
    } else {
        PortCountersExtended::ID
    };
    let mut mad = Mad::request(Class::PerfMgt, Method::Get, attribute, 0);
    if is_base {
        mad.write_gmp(&PortCounters {
            port_select,
            ..PortCounters::default()
        });
    } else {
        mad.write_gmp(&PortCountersExtended {
            port_select,
            ..PortCountersExtended::default()
        });
    }
    mad.set_transaction(TransactionId(at as u64 + 1));
    let address = Address::gsi(lid, Sl::default());
    Datagram { address, mad }
}
