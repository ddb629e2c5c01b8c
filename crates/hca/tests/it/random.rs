//! Random programs, faults and transports. After each: completions in order and complete, conservation of packets,
//! states that only the program changes, and one path for both ends.

use selvedge_hca::{
    Atomic, AtomicOp, AttrMask as M, Costs, PS_PER_US, PathState, Qp, QpAttr, QpState, SendOp, SendWr, Transport,
    WcStatus,
};
use selvedge_sim::{Ratio, Rng, Seed};
use selvedge_types::PortState;

use crate::net::{Net, attributes, connect, connect_qps, path};

/// What a program has posted at one end.
#[derive(Default)]
struct Ledger {
    posted: u64,
    atomics: u64,
    /// Immediate data of posted SENDs, which count up.
    sends: u32,
    /// The word that the atomics count in, when the connection was made.
    word: u64,
}

struct World {
    net: Net,
    rng: Rng,
    transport: Transport,
    qps: [Qp; 2],
    ledgers: [Ledger; 2],
    receives: [u64; 2],
    errors: [bool; 2],
    restarts: usize,
}

impl World {
    fn new(seed: u64, transport: Transport) -> Self {
        let mut rng = Seed(seed).child("world").rng();
        let free = rng.below(2) == 0;
        let cache = rng.below(3) as u32;
        let mut net = Net::new(seed, 2, 2, |config| {
            if free {
                config.costs = Costs::FREE;
            }
            config.context_cache = cache;
            config.migrate_on_port_down = !seed.is_multiple_of(3);
            config.window_packets = 4 + (seed % 60) as u32;
            config.ack_every = 1 + (seed % 17) as u32;
            config.end_to_end_credits = seed % 4 < 2;
        });
        let reads = 1 + rng.below(4) as u8;
        let qps = connect(&mut net, transport, |a| {
            (a.max_rd_atomic, a.max_dest_rd_atomic) = (reads, reads);
            (a.primary.timeout, a.retry_cnt) = (6, (seed % 4) as u8);
            a.rnr_retry = if seed.is_multiple_of(5) { 2 } else { 7 };
        });
        Self {
            net,
            rng,
            transport,
            qps,
            ledgers: Default::default(),
            receives: [0; 2],
            errors: [false; 2],
            restarts: 0,
        }
    }

    fn act(&mut self) {
        let host = self.rng.below(2) as usize;
        match self.rng.below(22) {
            0..=9 => self.post(host),
            10..=13 => self.receive(host),
            14 | 15 => self.rearm(host),
            16 => self.migrate(host),
            17 => self.fault(host),
            18 | 19 => self.heal(),
            20 => self.drain_or_go_on(host),
            _ if self.rng.below(8) == 0 => self.restart(),
            _ => {}
        }
        let pause = self.rng.below(200) * PS_PER_US;
        self.net.run(pause);
        self.invariant_errors_stay();
    }

    fn post(&mut self, host: usize) {
        if !matches!(self.net.state(host, self.qps[host]), QpState::Rts | QpState::Sqd) {
            return;
        }
        let ledger = &mut self.ledgers[host];
        let rkey = self.net.hosts[1 - host].keys().rkey;
        // The first end counts in word 0 of the other, the second one in word 8.
        let addr = host as u64 * 8;
        let (op, bytes) = match (self.transport, self.rng.below(5)) {
            (Transport::Rc, 0) => (SendOp::Read { addr: 0, rkey }, self.rng.below(20_000) as u32),
            (Transport::Rc, 1) => {
                ledger.atomics += 1;
                (
                    SendOp::Atomic(Atomic {
                        addr,
                        rkey,
                        op: AtomicOp::FetchAdd(1),
                    }),
                    8,
                )
            }
            (_, 2) => (
                SendOp::Write {
                    addr: 64,
                    rkey,
                    immediate: None,
                },
                self.rng.below(9_000) as u32,
            ),
            _ => {
                ledger.sends += 1;
                (
                    SendOp::Send {
                        immediate: Some(ledger.sends),
                    },
                    self.rng.below(9_000) as u32,
                )
            }
        };
        let wr = SendWr {
            op,
            ..SendWr::send(ledger.posted, self.net.hosts[host].sge(bytes))
        };
        ledger.posted += 1;
        self.net.send_wr(host, self.qps[host], &wr);
    }

    fn receive(&mut self, host: usize) {
        if self.receives[host] < 900 && self.net.state(host, self.qps[host]) != QpState::Err {
            let count = self.rng.below(8);
            self.receives[host] += count;
            self.net.post_receives(host, self.qps[host], count, 10_000);
        }
    }

    /// Both ends load the path that is not in use, if they agree on the one in use.
    fn rearm(&mut self, host: usize) {
        let ports = [0, 1].map(|host| self.net.port_in_use(host, self.qps[host]));
        let state = self.net.path_state(host, self.qps[host]);
        if ports[0] != ports[1] || state != PathState::Migrated {
            return;
        }
        let port = 3 - ports[host];
        let attr = QpAttr {
            alternate: selvedge_hca::Path {
                timeout: 6,
                ..path(port, (1 - host, port), 0)
            },
            path_mig_state: PathState::Rearm,
            ..attributes(2, path(1, (1, 1), 0))
        };
        if self.net.state(host, self.qps[host]) == QpState::Rts {
            // Longer than any packet lives: no packet of the time before is under way.
            self.net.run(100 * PS_PER_US);
            let ports = [0, 1].map(|host| self.net.port_in_use(host, self.qps[host]));
            if ports == [3 - port; 2] && self.net.state(host, self.qps[host]) == QpState::Rts {
                self.net
                    .modify(host, self.qps[host], &attr, M::ALT_PATH.with(M::PATH_MIG_STATE))
                    .unwrap();
            }
        }
    }

    fn migrate(&mut self, host: usize) {
        let armed = self.net.path_state(host, self.qps[host]) == PathState::Armed;
        if armed && self.net.state(host, self.qps[host]) == QpState::Rts {
            let attr = QpAttr {
                path_mig_state: PathState::Migrated,
                ..QpAttr::default()
            };
            self.net.modify(host, self.qps[host], &attr, M::PATH_MIG_STATE).unwrap();
        }
    }

    /// Stops a send queue after the messages that have begun, or lets it go on.
    fn drain_or_go_on(&mut self, host: usize) {
        let to = match self.net.state(host, self.qps[host]) {
            QpState::Rts => QpState::Sqd,
            QpState::Sqd => QpState::Rts,
            _ => return,
        };
        let attr = QpAttr {
            state: to,
            ..QpAttr::default()
        };
        self.net.modify(host, self.qps[host], &attr, M::STATE).unwrap();
    }

    /// Checks what is complete, resets both ends, in whatever state, and connects them anew.
    fn restart(&mut self) {
        for host in [0, 1] {
            self.invariant_order(host);
            self.invariant_messages(host);
        }
        let reset = QpAttr {
            state: QpState::Reset,
            ..QpAttr::default()
        };
        for host in [0, 1] {
            self.net.modify(host, self.qps[host], &reset, M::STATE).unwrap();
        }
        self.heal();
        // Packets of the time before would be taken for new ones.
        self.net.run(100 * PS_PER_US);
        for host in [0, 1] {
            self.net.hosts[host].done.clear();
            let other = &self.net.hosts[1 - host];
            self.ledgers[host] = Ledger {
                word: other.hca.read_word(other.mr, host as u64 * 8).unwrap(),
                ..Ledger::default()
            };
        }
        (self.receives, self.errors) = ([0; 2], [false; 2]);
        self.restarts += 1;
        connect_qps(&mut self.net, self.transport, self.qps, |a| {
            (a.max_rd_atomic, a.max_dest_rd_atomic) = (2, 2);
            (a.primary.timeout, a.retry_cnt) = (6, 3);
        });
    }

    fn fault(&mut self, host: usize) {
        let port = 1 + self.rng.below(2) as u8;
        match self.rng.below(3) {
            0 => self.net.set_port(host, port, PortState::Down),
            1 => self.net.black_holes.push(((host, port), (1 - host, port))),
            _ => {
                self.net.loss = Ratio {
                    numerator: 1 + self.rng.below(10) as u32,
                    denominator: 100,
                };
            }
        }
    }

    fn heal(&mut self) {
        self.net.loss = Ratio::NEVER;
        self.net.black_holes.clear();
        for host in [0, 1] {
            for port in [1, 2] {
                self.net.set_port(host, port, PortState::Active);
            }
        }
    }

    fn invariant_errors_stay(&mut self) {
        for host in [0, 1] {
            let state = self.net.state(host, self.qps[host]);
            assert!(!self.errors[host] || state == QpState::Err, "left ERR by itself");
            self.errors[host] |= state == QpState::Err;
            assert!(matches!(state, QpState::Rts | QpState::Sqd | QpState::Err), "{state}");
        }
    }

    /// All requests are complete.
    fn invariant_completions(&self, host: usize) {
        let complete = self.invariant_order(host);
        assert_eq!(complete, self.ledgers[host].posted, "lost");
    }

    /// Requests complete once, in order; after the first error everything is flushed. Returns how many are complete.
    fn invariant_order(&self, host: usize) -> u64 {
        let is_send = |wc: &&selvedge_hca::Wc| {
            !matches!(
                wc.opcode,
                selvedge_hca::WcOpcode::Recv | selvedge_hca::WcOpcode::RecvRdmaWithImm
            )
        };
        let sends: Vec<_> = self.net.hosts[host].done.iter().filter(is_send).collect();
        let ids: Vec<u64> = sends.iter().map(|wc| wc.wr_id).collect();
        assert_eq!(
            ids,
            (0..ids.len() as u64).collect::<Vec<_>>(),
            "lost, doubled or reordered"
        );
        let mut after_success = sends.iter().skip_while(|wc| wc.status == WcStatus::Success).skip(1);
        assert!(after_success.all(|wc| wc.status == WcStatus::WrFlushErr));
        ids.len() as u64
    }

    /// The other end has each SEND once and in order, and not fewer than are complete here.
    fn invariant_messages(&self, host: usize) {
        let done = |host: usize| {
            self.net.hosts[host]
                .done
                .iter()
                .filter(|wc| wc.status == WcStatus::Success)
        };
        let got: Vec<u32> = done(1 - host).filter_map(|wc| wc.immediate).collect();
        let complete = done(host)
            .filter(|wc| wc.opcode == selvedge_hca::WcOpcode::Send)
            .count();
        if self.transport == Transport::Rc {
            assert_eq!(
                got,
                (1..=got.len() as u32).collect::<Vec<_>>(),
                "lost, doubled or reordered"
            );
            assert!(got.len() >= complete, "{} of {complete}", got.len());
        } else {
            // Packets of two paths overtake each other around a migration.
            let unique: std::collections::BTreeSet<u32> = got.iter().copied().collect();
            assert_eq!(unique.len(), got.len(), "doubled");
            assert!(got.len() <= complete);
        }
        let values: Vec<u64> = done(host)
            .filter_map(|wc| match wc.opcode {
                selvedge_hca::WcOpcode::Atomic(value) => Some(value),
                _ => None,
            })
            .collect();
        let Ledger { word, atomics, .. } = self.ledgers[host];
        assert_eq!(
            values,
            (word..word + values.len() as u64).collect::<Vec<_>>(),
            "an atomic was carried out twice"
        );
        let other = &self.net.hosts[1 - host];
        let counted = other.hca.read_word(other.mr, host as u64 * 8).unwrap() - word;
        assert!((values.len() as u64..=atomics).contains(&counted));
    }

    /// Every receive completes once, in order.
    fn invariant_receives(&self, host: usize) {
        let receives = self.net.hosts[host]
            .done
            .iter()
            .filter(|wc| wc.opcode == selvedge_hca::WcOpcode::Recv);
        let flushed = receives.clone().filter(|wc| wc.status == WcStatus::WrFlushErr).count() as u64;
        if self.net.state(host, self.qps[host]) == QpState::Err {
            assert_eq!(receives.count() as u64, self.receives[host]);
        } else {
            assert_eq!(flushed, 0);
        }
    }

    /// Packets that were carried have arrived, and each was handled or counted.
    fn invariant_conservation(&self) {
        let counts = [0, 1].map(|host| [1, 2].map(|port| self.net.hosts[host].hca.port_counts(port).unwrap()));
        let sum = |f: fn(&selvedge_hca::PortCounts) -> u64| counts.iter().flatten().map(f).sum::<u64>();
        assert_eq!(
            sum(|c| c.sent),
            sum(|c| c.received) + self.net.lost,
            "packets appear or vanish"
        );
        assert_eq!(
            sum(|c| c.no_receive + c.qkey_violations + c.pkey_violations + c.wrong_lid),
            0
        );
    }

    fn finish(&mut self) {
        self.heal();
        for host in [0, 1] {
            if self.net.state(host, self.qps[host]) == QpState::Sqd {
                self.drain_or_go_on(host);
            }
            if self.net.state(host, self.qps[host]) != QpState::Err {
                let room = 1_000 - self.receives[host];
                self.receives[host] += room;
                self.net.post_receives(host, self.qps[host], room, 10_000);
            }
        }
        self.net.settle();
        // A last message each way, so that both ends show their path.
        for _ in 0..2 {
            for host in [0, 1] {
                if self.net.state(host, self.qps[host]) == QpState::Rts {
                    let ledger = &mut self.ledgers[host];
                    ledger.sends += 1;
                    let op = SendOp::Send {
                        immediate: Some(ledger.sends),
                    };
                    let wr = SendWr {
                        op,
                        ..SendWr::send(ledger.posted, self.net.hosts[host].sge(8))
                    };
                    ledger.posted += 1;
                    self.net.send_wr(host, self.qps[host], &wr);
                }
                self.net.settle();
            }
        }
        self.invariant_errors_stay();
        self.invariant_conservation();
        for host in [0, 1] {
            self.invariant_completions(host);
            self.invariant_messages(host);
            self.invariant_receives(host);
        }
        if self.errors == [false; 2] {
            let ports = [0, 1].map(|host| self.net.port_in_use(host, self.qps[host]));
            assert_eq!(ports[0], ports[1], "the ends use different paths");
        }
    }
}

fn run(seed: u64, transport: Transport) -> World {
    let mut world = World::new(seed, transport);
    for _ in 0..60 {
        world.act();
    }
    world.finish();
    world
}

#[test]
fn random_programs_and_faults() {
    let (mut errors, mut migrations, mut repeats, mut completions, mut restarts) = (0, 0, 0, 0, 0);
    for seed in 0..400 {
        for transport in [Transport::Rc, Transport::Uc] {
            let world = run(seed, transport);
            restarts += world.restarts;
            for host in [0, 1] {
                let counts = world.net.hosts[host].hca.qp_counts(world.qps[host]).unwrap();
                errors += usize::from(world.errors[host]);
                migrations += counts.migrations;
                repeats += counts.send.repeated;
                completions += world.net.hosts[host].done.len();
            }
        }
    }
    // The programs reach what they are about.
    println!(
        "{errors} errors, {migrations} migrations, {repeats} repeats, {completions} completions, {restarts} restarts"
    );
    assert!(errors > 50 && migrations > 200 && repeats > 10_000 && completions > 10_000 && restarts > 100);
}

#[test]
fn the_same_seed_gives_the_same_completions() {
    let log = |seed| {
        let world = run(seed, Transport::Rc);
        world
            .net
            .hosts
            .iter()
            .flat_map(|host| host.done.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(log(11), log(11));
    assert_ne!(log(11), log(12));
}
