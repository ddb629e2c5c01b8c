//! The *floor*: the time that the MADs of a manager take if a program sends them again that does nothing else.

use std::time::{Duration, Instant};

use selvedge_transport::ibsim::IbsimPort;
use selvedge_types::TransactionId;
use selvedge_wire::{Arrival, AttributeId, Datagram, MadPort, Method};

use crate::error::BenchError;

/// Longest wait for one packet before the clock is read again.
const TIMEOUT: Duration = Duration::from_millis(200);
/// Longest time for all packets.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns requests that change nothing when they are sent again: Gets, Sets of tables that agents hold already, and in
/// place of other Sets a Get of the same attribute.
#[must_use]
pub fn harmless(requests: impl Iterator<Item = Datagram>) -> Vec<Datagram> {
    let each = requests.map(|mut datagram| {
        if datagram.mad.attribute() != AttributeId::LINEAR_FORWARDING {
            datagram.mad.set_method(Method::Get);
        }
        datagram
    });
    each.collect()
}

/// Sends all of `requests`, `window` at a time, and waits for every answer; returns the sender's own time.
pub fn send(port: &mut IbsimPort, requests: &[Datagram], window: usize) -> Result<Duration, BenchError> {
    let start = Instant::now();
    let mut is_open = vec![false; requests.len()];
    let (mut next, mut open, mut answered) = (0, 0, 0);
    while answered < requests.len() {
        while open < window {
            let Some(mut datagram) = requests.get(next).copied() else {
                break;
            };
            datagram.mad.set_transaction(TransactionId(next as u64 + 1));
            port.send(&datagram, TIMEOUT)?;
            is_open[next] = true;
            next += 1;
            open += 1;
        }
        let place = |mad: &selvedge_wire::Mad| (mad.transaction().0 as usize).wrapping_sub(1);
        // A request that comes back unanswered crossed the cut: the manager got no answer to it either.
        if let Some(Arrival::Received(back) | Arrival::Returned(back)) = port.receive(TIMEOUT)?
            && back.mad.method() != Method::Trap
            && is_open.get_mut(place(&back.mad)).is_some_and(std::mem::take)
        {
            open -= 1;
            answered += 1;
        }
        if start.elapsed() > LIMIT {
            return Err(BenchError::Silent {
                answered,
                wanted: requests.len(),
                limit_s: LIMIT.as_secs(),
            });
        }
    }
    Ok(start.elapsed())
}
