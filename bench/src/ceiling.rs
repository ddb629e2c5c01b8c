//! Measures the most MADs a second that the simulator answers to a plain load generator (*blaster*), which uses the
//! same transport as the manager.
//!
//! It keeps a window of requests in flight and does nothing else: PortInfo Gets and LinearForwardingTable Sets, as many
//! of each as a bring-up has Gets and Sets, along directed routes of the fabric's real depth. It writes the contents of
//! a fresh table, so a later manager finds the fabric unchanged.

use std::time::{Duration, Instant};

use selvedge_types::{PortNum, TransactionId};
use selvedge_wire::{Address, Arrival, AttributeId, Datagram, LinearForwardingTable, Mad, MadPort, Method, Status};

use crate::case::Case;
use crate::error::BenchError;
use crate::formula::{Counts, Minimum};

/// Windows that are tried. Queues of local datagram sockets hold 10 datagrams, so a window of more than 64 only adds
/// waiting.
pub const WINDOWS: [usize; 3] = [16, 32, 64];
/// MADs of one measurement: about 0.3 s.
pub const MADS: usize = 40_000;
/// MADs of one measurement in quick mode.
pub const QUICK_MADS: usize = 4_000;
/// Entry of a table that leads nowhere.
const NO_PATH: u8 = 0xFF;
/// Time after which a request is sent again, as the manager's default.
const TIMEOUT: Duration = Duration::from_millis(200);
/// Longest time that one measurement may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The result of one blast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blast {
    /// Requests in flight at most.
    pub window: usize,
    /// Requests answered per second.
    pub mads_per_s: f64,
    /// Requests that had to be sent again.
    pub repeats: usize,
}

/// The requests of a blast.
#[derive(Debug)]
pub struct Load(Vec<Datagram>);

impl Load {
    /// Returns `count` requests for a fabric: spread evenly over its nodes, Gets and Sets mixed evenly.
    #[must_use]
    pub fn new(case: &Case, count: usize) -> Self {
        let minimum = Minimum::of(&Counts::of(&case.fabric));
        let routes = case.routes();
        // Strides without a common factor with the number of nodes visit all of them, near and far alike.
        let stride = |len: usize| (len * 5 / 8..).find(|&s| gcd(s, len) == 1).unwrap_or(1);
        let is_switch = |node| case.fabric.node(node).is_switch();
        let everywhere: Vec<_> = routes.iter().map(|&(node, route)| (is_switch(node), route)).collect();
        let switches: Vec<_> = everywhere
            .iter()
            .filter(|(switch, _)| *switch)
            .map(|(_, route)| *route)
            .collect();
        let blocks = minimum.lft_set / switches.len().max(1) as u64;
        let (node_stride, switch_stride) = (stride(everywhere.len()), stride(switches.len()));
        let (mut gets, mut sets) = (0, 0);
        let mads = (0..count as u64).map(|i| {
            let wanted_sets = (i + 1) * minimum.sets() / minimum.total();
            if sets < wanted_sets {
                let route = &switches[sets as usize * switch_stride % switches.len()];
                let block = sets / switches.len() as u64 % blocks.max(1);
                sets += 1;
                let mut mad = Mad::directed(Method::Set, AttributeId::LINEAR_FORWARDING, block as u32, route);
                mad.write(&LinearForwardingTable { ports: [NO_PATH; 64] });
                mad
            } else {
                let (switch, route) = &everywhere[gets * node_stride % everywhere.len()];
                gets += 1;
                let port = if *switch { PortNum::MANAGEMENT } else { case.host_port() };
                Mad::directed(Method::Get, AttributeId::PORT_INFO, u32::from(port.get()), route)
            }
        });
        let address = Address::DIRECTED;
        Self(mads.map(|mad| Datagram { address, mad }).collect())
    }

    /// Returns the requests. The sender sets their transaction ids.
    #[must_use]
    pub fn datagrams(&self) -> &[Datagram] {
        &self.0
    }

    /// Sends all requests through `port`, `window` at a time, and waits for every answer.
    pub fn blast(&self, port: &mut dyn MadPort, window: usize) -> Result<Blast, BenchError> {
        let start = Instant::now();
        let (mut next, mut open, mut answered, mut repeats) = (0, 0, 0, 0);
        let mut again: Option<Datagram> = None;
        while answered < self.0.len() {
            while open < window && (again.is_some() || next < self.0.len()) {
                let datagram = again.take().unwrap_or_else(|| {
                    let mut datagram = self.0[next];
                    next += 1;
                    datagram.mad.set_transaction(TransactionId(next as u64));
                    datagram
                });
                port.send(&datagram, TIMEOUT)?;
                open += 1;
            }
            match port.receive(TIMEOUT)? {
                Some(Arrival::Received(answer)) if answer.mad.method() == Method::GetResp => {
                    if answer.mad.status() != Status::OK {
                        // A refusal may be cheaper than an answer.
                        return Err(BenchError::Refused {
                            mad: answer.mad.to_string(),
                        });
                    }
                    open -= 1;
                    answered += 1;
                }
                Some(Arrival::Returned(datagram)) => {
                    open -= 1;
                    repeats += 1;
                    again = Some(datagram);
                }
                Some(Arrival::Received(_)) | None => {}
            }
            if start.elapsed() > LIMIT {
                let wanted = self.0.len();
                let limit_s = LIMIT.as_secs();
                return Err(BenchError::Silent {
                    answered,
                    wanted,
                    limit_s,
                });
            }
        }
        Ok(Blast {
            window,
            mads_per_s: self.0.len() as f64 / start.elapsed().as_secs_f64(),
            repeats,
        })
    }

    /// One blast per window.
    pub fn all_windows(&self, port: &mut dyn MadPort) -> Result<Vec<Blast>, BenchError> {
        WINDOWS.iter().map(|&window| self.blast(port, window)).collect()
    }
}

const fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, VecDeque};

    use selvedge_types::Guid;
    use selvedge_wire::{LocalPort, PortError};

    #[test]
    fn the_mix_is_that_of_a_bring_up() {
        let check = |spec: &str| {
            let case = Case::new(spec).unwrap();
            let minimum = Minimum::of(&Counts::of(&case.fabric));
            let load = Load::new(&case, 10_000);
            let sets = load.0.iter().filter(|d| d.mad.method() == Method::Set).count() as u64;
            assert_eq!(sets, 10_000 * minimum.sets() / minimum.total(), "{spec}");
            // Every node is asked before any is asked twice.
            let mut asked = BTreeMap::<_, u64>::new();
            for get in load.0.iter().filter(|d| d.mad.method() == Method::Get) {
                *asked.entry(get.mad.route().unwrap().ports().to_vec()).or_default() += 1;
            }
            let (most, least) = (asked.values().max().unwrap(), asked.values().min().unwrap());
            assert!(asked.len() == case.fabric.nodes().len() && most - least <= 1, "{spec}");
        };
        check("sx6536");
        check("karytree:k=4,n=3");
    }

    /// A port that answers everything, but first returns every tenth request unanswered.
    #[derive(Default)]
    struct Echo {
        waiting: VecDeque<Datagram>,
        seen: u64,
        most: usize,
    }

    impl MadPort for Echo {
        fn local(&self) -> LocalPort {
            LocalPort {
                node_guid: Guid::NONE,
                port_guid: Guid::NONE,
                port: PortNum::MANAGEMENT,
            }
        }

        fn send(&mut self, datagram: &Datagram, _: Duration) -> Result<(), PortError> {
            self.waiting.push_back(*datagram);
            self.most = self.most.max(self.waiting.len());
            Ok(())
        }

        fn receive(&mut self, _: Duration) -> Result<Option<Arrival>, PortError> {
            let Some(mut datagram) = self.waiting.pop_front() else {
                return Ok(None);
            };
            self.seen += 1;
            if self.seen.is_multiple_of(10) {
                return Ok(Some(Arrival::Returned(datagram)));
            }
            datagram.mad.set_method(Method::GetResp);
            Ok(Some(Arrival::Received(datagram)))
        }

        fn set_is_sm(&mut self, _: bool) -> Result<(), PortError> {
            Ok(())
        }
    }

    #[test]
    fn a_blast_fills_its_window_and_repeats_what_is_lost() {
        let case = Case::new("karytree:k=2,n=2").unwrap();
        let mut port = Echo::default();
        let blast = Load::new(&case, 90).blast(&mut port, 16).unwrap();
        assert_eq!((blast.repeats, port.most, port.seen), (9, 16, 99));
    }
}
