//! Traffic by a pattern and a pace, in the form that the simulator takes.

use selvedge_dataplane::{Arrival, Host, Message, Ps, Workload};
use selvedge_sim::{Rng, Seed};

use crate::{Arrivals, Pace, Pattern, Receivers, ReceiversError};

#[derive(Clone, Debug)]
struct Sender {
    rng: Rng,
    pace: Pace,
    to: Option<Host>,
}

/// Messages posted at given times, independent of the progress of earlier ones.
#[derive(Clone, Debug)]
pub struct OpenLoop {
    receivers: Receivers,
    senders: Vec<Sender>,
    bytes: u32,
}

impl Workload for OpenLoop {
    fn next(&mut self, host: Host, _now: Ps) -> Option<Message> {
        let sender = self.senders.get_mut(host as usize)?;
        let due = sender.pace.next(&mut sender.rng);
        if !due.same_receiver || sender.to.is_none() {
            sender.to = self.receivers.next(host, &mut sender.rng);
        }
        Some(Message {
            at: due.at,
            to: sender.to?,
            bytes: self.bytes,
            tag: 0,
            sl: None,
        })
    }
}

/// A fixed number of messages in flight per host.
#[derive(Clone, Debug)]
pub struct ClosedLoop {
    receivers: Receivers,
    rngs: Vec<Rng>,
    /// Number of messages that each host may still post.
    free: Vec<u32>,
    bytes: u32,
}

impl Workload for ClosedLoop {
    fn next(&mut self, host: Host, now: Ps) -> Option<Message> {
        let free = self.free.get_mut(host as usize).filter(|free| **free > 0)?;
        let to = self.receivers.next(host, self.rngs.get_mut(host as usize)?)?;
        *free -= 1;
        Some(Message {
            at: now,
            to,
            bytes: self.bytes,
            tag: 0,
            sl: None,
        })
    }

    fn arrived(&mut self, arrival: Arrival, _now: Ps, ready: &mut Vec<Host>) {
        if let Some(free) = self.free.get_mut(arrival.from as usize) {
            *free += 1;
            ready.push(arrival.from);
        }
    }
}

/// A pattern with a pace.
#[derive(Clone, Debug)]
pub enum PatternTraffic {
    /// Messages are posted at given times.
    Open(OpenLoop),
    /// Messages are posted when an earlier message arrives.
    Closed(ClosedLoop),
}

impl PatternTraffic {
    /// Returns messages of `bytes` between `hosts` hosts, at `load`. This is a fraction of the full rate, at which a
    /// byte of payload takes `byte_ps` picoseconds including its share of the headers of full packets.
    pub fn new(
        (pattern, arrivals): (&Pattern, Arrivals),
        hosts: u32,
        (load, bytes, byte_ps): (f64, u32, f64),
        seed: Seed,
    ) -> Result<Self, ReceiversError> {
        let receivers = Receivers::new(pattern, hosts, seed)?;
        let rng = |host: u32| seed.child("traffic").nth(u64::from(host)).rng();
        if let Arrivals::Closed { window } = arrivals {
            return Ok(Self::Closed(ClosedLoop {
                receivers,
                rngs: (0..hosts).map(rng).collect(),
                free: vec![window; hosts as usize],
                bytes,
            }));
        }
        let sender = |host| Sender {
            rng: rng(host),
            pace: Pace::new(arrivals, load, bytes, byte_ps),
            to: None,
        };
        Ok(Self::Open(OpenLoop {
            receivers,
            senders: (0..hosts).map(sender).collect(),
            bytes,
        }))
    }
}

impl Workload for PatternTraffic {
    #[inline]
    fn next(&mut self, host: Host, now: Ps) -> Option<Message> {
        match self {
            Self::Open(open) => open.next(host, now),
            Self::Closed(closed) => closed.next(host, now),
        }
    }

    #[inline]
    fn arrived(&mut self, arrival: Arrival, now: Ps, ready: &mut Vec<Host>) {
        match self {
            Self::Open(open) => open.arrived(arrival, now, ready),
            Self::Closed(closed) => closed.arrived(arrival, now, ready),
        }
    }
}
