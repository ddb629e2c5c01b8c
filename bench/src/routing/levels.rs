//! Service levels of paths, queried from a running OpenSM: they are available only there.

use std::time::{Duration, Instant};

use selvedge_types::{Lid, Sl, TransactionId};
use selvedge_wire::{Address, Arrival, AttributeId, Class, Datagram, Mad, MadPort, Method, Status};

use crate::error::BenchError;

/// PathRecord of subnet administration. Source: IBA vol 1 §15.2.5.
const PATH_RECORD: AttributeId = AttributeId::from_code(0x0035);
/// Component mask: DLID and SLID are given. Source: IBA vol 1 §15.2.5.17.
const BY_LIDS: u64 = 1 << 4 | 1 << 5;
/// Where fields of a subnet administration MAD and of its PathRecord are. Source: IBA vol 1 §15.2.1.1, §15.2.5.17.
mod at {
    use core::ops::Range;

    pub const COMPONENT_MASK: Range<usize> = 48..56;
    pub const DLID: Range<usize> = 96..98;
    pub const SLID: Range<usize> = 98..100;
    /// Service level in the low four bits.
    pub const SL: usize = 109;
}
/// Requests in flight: local datagram queues hold 10.
const WINDOW: usize = 16;
/// Time after which a request is sent again.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Longest time for all requests.
const LIMIT: Duration = Duration::from_secs(120);

/// The service level of every `(source, destination)`; `None` where there is no path record.
pub fn ask(port: &mut dyn MadPort, sm: Lid, pairs: &[(Lid, Lid)]) -> Result<Vec<Option<Sl>>, BenchError> {
    let start = Instant::now();
    let mut found: Vec<Option<Option<Sl>>> = vec![None; pairs.len()];
    let (mut next, mut open, mut answered) = (0, 0, 0);
    let mut again = Vec::new();
    while answered < pairs.len() {
        while open < WINDOW {
            let datagram = match again.pop() {
                Some(datagram) => datagram,
                None if next < pairs.len() => {
                    next += 1;
                    request(sm, pairs[next - 1], next)
                }
                None => break,
            };
            port.send(&datagram, TIMEOUT)?;
            open += 1;
        }
        match port.receive(TIMEOUT)? {
            Some(Arrival::Received(answer)) if answer.mad.method() == Method::GetResp => {
                open -= 1;
                let slot = usize::try_from(answer.mad.transaction().0)
                    .ok()
                    .and_then(|id| found.get_mut(id.wrapping_sub(1)));
                if let Some(slot @ None) = slot {
                    *slot = Some(level(&answer.mad));
                    answered += 1;
                }
            }
            Some(Arrival::Returned(datagram)) => {
                open -= 1;
                again.push(datagram);
            }
            Some(Arrival::Received(_)) | None => {}
        }
        if start.elapsed() > LIMIT {
            let (wanted, limit_s) = (pairs.len(), LIMIT.as_secs());
            return Err(BenchError::Silent {
                answered,
                wanted,
                limit_s,
            });
        }
    }
    Ok(found.into_iter().map(Option::flatten).collect())
}

fn request(sm: Lid, (source, destination): (Lid, Lid), id: usize) -> Datagram {
    let mut mad = Mad::request(Class::SubnAdm, Method::Get, PATH_RECORD, 0);
    mad.set_transaction(TransactionId(id as u64));
    let bytes = mad.as_bytes_mut();
    bytes[at::COMPONENT_MASK].copy_from_slice(&BY_LIDS.to_be_bytes());
    bytes[at::DLID].copy_from_slice(&destination.0.to_be_bytes());
    bytes[at::SLID].copy_from_slice(&source.0.to_be_bytes());
    let address = Address::gsi(sm, Sl::default());
    Datagram { address, mad }
}

fn level(answer: &Mad) -> Option<Sl> {
    if answer.status() != Status::OK {
        return None;
    }
    Sl::new(answer.as_bytes()[at::SL] & 0xF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    use selvedge_types::{Guid, PortNum};
    use selvedge_wire::{LocalPort, PortError};

    /// A manager that gives SL = DLID modulo 8, has no path to LID 5, and hands every third request back first.
    #[derive(Default)]
    struct Manager {
        waiting: VecDeque<Datagram>,
        seen: u64,
    }

    impl MadPort for Manager {
        fn local(&self) -> LocalPort {
            LocalPort {
                node_guid: Guid::NONE,
                port_guid: Guid::NONE,
                port: PortNum::MANAGEMENT,
            }
        }

        fn send(&mut self, datagram: &Datagram, _: Duration) -> Result<(), PortError> {
            assert_eq!((datagram.address.lid, datagram.address.qp), (Lid(9), 1));
            self.waiting.push_back(*datagram);
            Ok(())
        }

        fn receive(&mut self, _: Duration) -> Result<Option<Arrival>, PortError> {
            let Some(mut datagram) = self.waiting.pop_front() else {
                return Ok(None);
            };
            self.seen += 1;
            if self.seen.is_multiple_of(3) {
                return Ok(Some(Arrival::Returned(datagram)));
            }
            datagram.mad.set_method(Method::GetResp);
            let to = datagram.mad.as_bytes()[at::DLID.end - 1];
            // A traffic class of QoS stands beside the SL.
            datagram.mad.as_bytes_mut()[at::SL] = 0xA0 | (to % 8);
            if to == 5 {
                datagram.mad.set_status(Status(0x0300));
            }
            Ok(Some(Arrival::Received(datagram)))
        }

        fn set_is_sm(&mut self, _: bool) -> Result<(), PortError> {
            Ok(())
        }
    }

    #[test]
    fn every_pair_is_answered_in_its_place() {
        let pairs: Vec<(Lid, Lid)> = (1..=60).map(|to| (Lid(1), Lid(to))).collect();
        let found = ask(&mut Manager::default(), Lid(9), &pairs).unwrap();
        for (&(_, to), sl) in pairs.iter().zip(&found) {
            let want = (to != Lid(5)).then_some((to.0 % 8) as u8);
            assert_eq!(sl.map(|sl| sl.get()), want, "{to}");
        }
    }
}
