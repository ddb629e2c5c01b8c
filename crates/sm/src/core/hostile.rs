//! The manager among faulty agents: answers with any payload, unsolicited datagrams of any kind. It may refuse to plan;
//! it may not panic, and its memory stays bounded (invariant 5).

use selvedge_planner::{DefaultJudge, Job};
use selvedge_sim::{Par, Rng, Seed};
use selvedge_types::{Guid, NodeKind, PortNum, TransactionId};
use selvedge_wire::{Address, Class, LocalPort, MAD_LEN, NodeInfo};

use super::*;
use crate::io::Command;

/// Number of inputs of one run: enough for several sweeps, so that a false answer can meet a state which earlier false
/// answers have made.
const INPUTS: usize = 4_000;
/// Number of runs, each with a seed of its own.
const SEEDS: u64 = 40;

struct Liars {
    sm: Sm,
    rng: Rng,
    now: Time,
    asked: Vec<Datagram>,
    jobs: Vec<Job>,
}

impl Liars {
    fn new(seed: Seed) -> Self {
        let local = LocalPort {
            node_guid: Guid(1),
            port_guid: Guid(2),
            port: PortNum::new(1).unwrap(),
        };
        let config = Config::new(Mode::Manage, local, Arc::default());
        Self {
            sm: Sm::new(config, Arc::new(DefaultJudge::default()), PersistentState::default()),
            rng: seed.rng(),
            now: Time::ZERO,
            asked: Vec::new(),
            jobs: Vec::new(),
        }
    }

    fn scramble(&mut self, bytes: &mut [u8]) {
        bytes.fill_with(|| self.rng.below(256) as u8);
    }

    fn any_mad(&mut self) -> Mad {
        let mut bytes = [0; MAD_LEN];
        self.scramble(&mut bytes);
        // Half of them resemble datagrams that a manager handles.
        if self.rng.below(2) == 0 {
            bytes[0] = 1;
            bytes[1] = [0x01, 0x81, 0x03, 0x04][self.rng.below(4) as usize];
            bytes[2] = 1;
            bytes[3] = [0x01, 0x02, 0x05, 0x81, 0x07][self.rng.below(5) as usize];
            bytes[16..18].copy_from_slice(&[0, [0x02, 0x11, 0x15, 0x20][self.rng.below(4) as usize]]);
        }
        Mad::from_bytes(bytes)
    }

    /// Returns a damaged answer to a request: any bytes, one changed byte, or a plausible lie.
    fn lie(&mut self) -> Option<Mad> {
        if self.asked.is_empty() {
            return None;
        }
        let at = self.rng.below(self.asked.len() as u64) as usize;
        let mut mad = self.asked.swap_remove(at).mad;
        mad.set_method(Method::GetResp);
        mad.set_returning(mad.class() == Class::SubnDirected);
        match self.rng.below(4) {
            0 => self.scramble(&mut mad.as_bytes_mut()[64..128]),
            1 => {
                let byte = 64 + self.rng.below(64) as usize;
                mad.as_bytes_mut()[byte] = self.rng.below(256) as u8;
            }
            2 => mad.set_status(selvedge_wire::Status(self.rng.below(0x20) as u16)),
            _ if mad.attribute() == AttributeId::NODE_INFO => mad.write(&self.node_info()),
            _ if mad.attribute() == AttributeId::PORT_INFO => {
                // INIT or better, LinkUp: there is always a node behind it.
                self.scramble(&mut mad.as_bytes_mut()[64..128]);
                mad.as_bytes_mut()[64 + 32] = 0x12 + self.rng.below(3) as u8;
                mad.as_bytes_mut()[64 + 33] = 0x52;
                mad.as_bytes_mut()[64 + 36] = 0x40;
                mad.as_bytes_mut()[64 + 37] = 0x10;
                mad.as_bytes_mut()[64 + 41] = 0x04;
                mad.as_bytes_mut()[64 + 43] = 0x10;
            }
            _ => {}
        }
        Some(mad)
    }

    fn node_info(&mut self) -> NodeInfo {
        let kinds = [NodeKind::Ca, NodeKind::Switch, NodeKind::Router];
        let port_count = [0, 1, 2, 8, 254][self.rng.below(5) as usize];
        NodeInfo {
            base_version: 1,
            class_version: 1,
            kind: kinds[self.rng.below(3) as usize],
            port_count,
            system_guid: Guid(self.rng.below(4)),
            node_guid: Guid(self.rng.below(6)),
            port_guid: Guid(self.rng.below(6)),
            partition_cap: 32,
            device_id: 0,
            revision: 0,
            local_port: self.rng.below(u64::from(port_count) + 2) as u8,
            vendor_id: 0,
        }
    }

    fn input(&mut self) -> Input {
        let datagram = |mad| Datagram {
            address: Address::DIRECTED,
            mad,
        };
        match self.rng.below(20) {
            0 => Input::Received(datagram(self.any_mad())),
            1 => match self.asked.pop() {
                Some(request) => Input::Returned(request),
                None => Input::Wake,
            },
            2 => {
                let mut mad = self.any_mad();
                mad.set_transaction(TransactionId(self.rng.below(200)));
                Input::Returned(datagram(mad))
            }
            3 if !self.jobs.is_empty() => {
                let mut job = self.jobs.remove(0);
                let result = Box::new(job.run(Par::Sequential));
                Input::Computed { id: job.id, result }
            }
            4 => {
                self.now = self.sm.next_wake().unwrap_or(self.now).max(self.now);
                Input::Wake
            }
            5 if self.rng.below(50) == 0 => Input::Command(Command::Sweep),
            _ => match self.lie() {
                Some(mad) => Input::Received(datagram(mad)),
                None => Input::Wake,
            },
        }
    }

    fn hand(&mut self, input: Input) {
        self.now += Duration::from_micros(50);
        let mut out = Vec::new();
        self.sm.handle(self.now, input, &mut out);
        for output in out {
            match output {
                Output::Send { datagram, .. } => self.asked.push(datagram),
                Output::Compute(job) => self.jobs.push(*job),
                Output::Persist { id, .. } => self.hand(Input::Persisted { id }),
                Output::SetIsSm(_) | Output::Milestone(_) => {}
                // Every event can be shown.
                Output::Event(event) => assert!(event.to_string().starts_with(event.code())),
            }
        }
        self.asked.truncate(4_096);
    }
}

#[test]
fn no_datagram_panics_or_bloats_the_manager() {
    let (mut discovered, mut sets) = (0, 0);
    for seed in 0..SEEDS {
        let mut liars = Liars::new(Seed(seed));
        liars.hand(Input::Start);
        for _ in 0..INPUTS {
            let input = liars.input();
            liars.hand(input);
            // The agents show six GUIDs with 254 ports at most: more open requests than these would be unbounded
            // memory.
            assert!(liars.sm.exchange.open() < 6 * 4 * 255, "seed {seed}");
        }
        discovered += liars.sm.view().sweeps.ended;
        sets += liars.sm.view().mads.sets;
    }
    assert!(
        discovered > 0 && sets > 0,
        "{discovered} sweeps, {sets} Sets: the lies are too crude to test anything"
    );
}
