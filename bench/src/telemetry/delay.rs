//! How much longer an SMP takes while counters are read through the same port.
//!
//! ibsim serves one request at a time and in order, so an SMP waits for the requests that were sent before it: at most
//! the window, each as long as ibsim takes for one.

use std::time::{Duration, Instant};

use selvedge_transport::ibsim::IbsimPort;
use selvedge_types::{Lid, TransactionId};
use selvedge_wire::{Address, Arrival, AttributeId, Class, Datagram, Mad, MadPort, Method};

use super::{poller, silent};
use crate::error::BenchError;
use crate::stats::Spread;

/// SMPs that are timed, without and with other requests.
const SMPS: usize = 2_000;
/// Time after which nothing more is expected.
const TIMEOUT: Duration = Duration::from_millis(1_000);
/// Transaction ids of SMPs begin here, above those of the poller. The upper half of an id belongs to the port.
const FIRST_ID: u32 = 1 << 31;

/// Round trips of an SMP, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    /// With nothing else in flight: least, median, most.
    pub alone: Spread,
    /// Behind a full window of requests to Performance Management: least, median, most.
    pub behind: Spread,
    /// The window, over the requests that ibsim serves in a microsecond: what the window can add.
    pub bound_us: f64,
}

/// Times SMPs, first alone, then with this number of requests for counters in flight.
pub fn measure(port: &mut IbsimPort, targets: &[(Lid, u8)], window: usize) -> Result<Delay, BenchError> {
    let mut times = [Vec::with_capacity(SMPS), Vec::with_capacity(SMPS)];
    let lid = targets.last().map_or(Lid::default(), |(lid, _)| *lid);
    let (mut sent, mut open) = (0, 0);
    let mut busy = Duration::ZERO;
    for (with_others, times) in [false, true].into_iter().zip(&mut times) {
        for number in 0..SMPS {
            while with_others && open < window {
                port.send(&poller::request(targets, sent), TIMEOUT)?;
                (sent, open) = (sent + 1, open + 1);
            }
            let id = FIRST_ID + number as u32;
            let begin = Instant::now();
            port.send(&smp(lid, id), TIMEOUT)?;
            loop {
                match port.receive(TIMEOUT)? {
                    Some(Arrival::Received(answer)) if answer.mad.transaction().0 as u32 == id => break,
                    Some(Arrival::Received(answer)) if answer.mad.method() == Method::GetResp => {
                        open = usize::saturating_sub(open, 1);
                    }
                    Some(_) => {}
                    None => return Err(silent(number, SMPS)),
                }
            }
            times.push(begin.elapsed());
        }
        busy = times.iter().sum();
    }
    let served = (sent - open + SMPS) as f64;
    let micros = |times: &[Duration]| Spread::of(times.iter().map(|time| time.as_secs_f64() * 1e6));
    let [alone, behind] = times.each_ref().map(|times| micros(times));
    match (alone, behind) {
        (Some(alone), Some(behind)) => Ok(Delay {
            alone,
            behind,
            bound_us: window as f64 * busy.as_secs_f64() * 1e6 / served.max(1.0),
        }),
        _ => Err(silent(0, SMPS)),
    }
}

/// A request for NodeInfo of the node with this LID.
fn smp(lid: Lid, id: u32) -> Datagram {
    let mut mad = Mad::request(Class::SubnLid, Method::Get, AttributeId::NODE_INFO, 0);
    mad.set_transaction(TransactionId(id.into()));
    Datagram {
        address: Address::smi(lid),
        mad,
    }
}
