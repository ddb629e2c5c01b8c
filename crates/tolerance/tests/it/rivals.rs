//! Path migration and its rivals on the same traffic: nothing is lost, doubled or reordered.

use selvedge_hca::{PS_PER_US, Ps, VerbsError};
use selvedge_sim::Seed;
use selvedge_tolerance::{
    Apm, Carrier, Cluster, Ends, Failover, FailoverSettings, Objects, Place, Program, RailSettings, Rails, Striping,
    StripingSettings, Trace, ways,
};

use crate::duo::MS;

/// A message every so often.
struct Traffic<'a> {
    carrier: &'a mut dyn Carrier,
    messages: u64,
    bytes: u32,
    every: Ps,
    sent: u64,
    got: Vec<(u64, Ps)>,
}

impl Program for Traffic<'_> {
    fn run(&mut self, cluster: &mut Cluster) -> Result<(), VerbsError> {
        self.carrier.progress(cluster)?;
        self.carrier.take_delivered(&mut self.got);
        while self.sent < self.messages && self.sent * self.every <= cluster.now() {
            self.sent += 1;
            self.carrier.send(cluster, self.bytes)?;
        }
        Ok(())
    }

    fn next_wake(&self) -> Option<Ps> {
        let send = (self.sent < self.messages).then_some(self.sent * self.every);
        [send, self.carrier.next_wake()].into_iter().flatten().min()
    }

    fn is_over(&self) -> bool {
        let all = self.got.len() as u64 == self.messages && self.carrier.acknowledged() == self.messages;
        all || self.carrier.failure().is_some()
    }
}

impl<'a> Traffic<'a> {
    fn over(carrier: &'a mut dyn Carrier) -> Self {
        Self {
            carrier,
            messages: 400,
            bytes: 20_000,
            every: 100 * PS_PER_US,
            sent: 0,
            got: Vec::new(),
        }
    }

    /// Runs to the end; faults are those of a trace, of cables of host 0 or, in silence, between switches.
    fn run_with(&mut self, rails: &mut Rails, trace: &Trace, silent: bool) {
        for fault in trace.faults() {
            rails.cluster.drive(&mut *self, fault.at).unwrap();
            if self.carrier.failure().is_some() {
                return;
            }
            let Place::Link(link) = fault.place else { unreachable!() };
            if silent {
                rails.set_between(link as u8, fault.up);
            } else {
                rails.set_cable(0, link as u8, fault.up).unwrap();
            }
        }
        rails.cluster.drive(self, 20_000 * MS).unwrap();
    }
}

fn trace(text: &str) -> Trace {
    let find = |name: &str| name.strip_prefix("cable-")?.parse().ok().map(Place::Link);
    Trace::parse(text, find).unwrap()
}

fn rails() -> Rails {
    let settings = RailSettings {
        switches: 2,
        ..RailSettings::default()
    };
    Rails::new(&settings).unwrap()
}

/// Carriers with time-outs of the same order (code 8 is 1 ms), each on rails of its own.
fn carriers() -> Vec<(&'static str, Box<dyn Carrier>, Rails)> {
    let ways = ways([0, 1], 2, 8);
    let failover = FailoverSettings {
        timeout: 8,
        retry_cnt: 2,
        ..FailoverSettings::default()
    };
    let striping = StripingSettings {
        timeout: 8,
        retry_cnt: 2,
        resend_ps: 5 * MS,
        ..StripingSettings::default()
    };
    let mut all = [rails(), rails(), rails()];
    let ends = |on: &mut Rails| Ends::open(&mut on.cluster, [0, 1]).unwrap();
    let [apm, failing, striped] = all.each_mut().map(ends);
    let [a, b, c] = &mut all;
    let made: [(&'static str, Box<dyn Carrier>); 3] = [
        ("apm", Box::new(Apm::new(&mut a.cluster, apm, &ways, 8, 2).unwrap())),
        (
            "failover",
            Box::new(Failover::new(&mut b.cluster, failing, &ways, failover).unwrap()),
        ),
        (
            "striping",
            Box::new(Striping::new(&mut c.cluster, striped, &ways, striping).unwrap()),
        ),
    ];
    made.into_iter()
        .zip(all)
        .map(|((name, carrier), rails)| (name, carrier, rails))
        .collect()
}

/// Carries messages and returns the longest gap between two deliveries, and what was repeated.
fn carry(name: &str, carrier: &mut dyn Carrier, rails: &mut Rails, trace: &Trace, silent: bool) -> (Ps, u64) {
    let mut traffic = Traffic::over(carrier);
    traffic.run_with(rails, trace, silent);
    assert_eq!(traffic.carrier.failure(), None, "{name}");
    let numbers: Vec<u64> = traffic.got.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (0..400).collect::<Vec<_>>(), "{name}: each once, in order");
    assert_eq!(traffic.carrier.acknowledged(), 400, "{name}");
    let times: Vec<Ps> = traffic.got.iter().map(|(_, at)| *at).collect();
    let gap = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    (gap, traffic.carrier.repeated())
}

#[test]
fn nothing_is_lost_doubled_or_reordered_by_a_fault() {
    for silent in [false, true] {
        let mut gaps = Vec::new();
        for (name, mut carrier, mut rails) in carriers() {
            let fault = trace("# in the middle\n20.01ms down cable-1\n");
            let (gap, repeated) = carry(name, carrier.as_mut(), &mut rails, &fault, silent);
            // A packet of which the first byte has reached a switch counts as received.
            assert!(!silent || rails.cluster.lost_packets() > 0, "{name}: nothing was lost");
            let moved = rails.cluster.hca(0).unwrap().port_counts(2).unwrap().sent;
            assert!(moved > 0, "{name}: nothing was sent by the other port");
            gaps.push((name, gap));
            assert_eq!(
                repeated > 0,
                name != "apm",
                "{name}: software repeats, the HCA does it for path migration"
            );
        }
        let of = |wanted| gaps.iter().find(|(name, _)| *name == wanted).unwrap().1;
        if !silent {
            assert!(of("apm") < MS, "{gaps:?}");
        }
        assert!(of("apm") < of("failover"), "{gaps:?}");
        assert!(of("failover") > 10 * MS, "the probe delay: {gaps:?}");
    }
}

#[test]
fn no_carrier_notices_faults_that_are_none() {
    for (name, mut carrier, mut rails) in carriers() {
        let (gap, repeated) = carry(name, carrier.as_mut(), &mut rails, &trace(""), false);
        assert!(gap < 200 * PS_PER_US && repeated == 0, "{name}: {gap} {repeated}");
    }
}

#[test]
fn path_migration_goes_back_and_forth_and_a_second_fault_ends_failover() {
    let faults =
        trace("10.01ms down cable-1\n15ms up cable-1\n20.01ms down cable-2\n25ms up cable-2\n30ms down cable-1\n");
    for (name, mut carrier, mut rails) in carriers() {
        if name == "apm" {
            let (gap, _) = carry(name, carrier.as_mut(), &mut rails, &faults, false);
            assert!(gap < MS, "{gap}");
            continue;
        }
        // Failed paths are not used again: neither rival outlives a fault of the other path.
        let mut traffic = Traffic::over(carrier.as_mut());
        traffic.run_with(&mut rails, &faults, false);
        let numbers: Vec<u64> = traffic.got.iter().map(|(number, _)| *number).collect();
        assert!(numbers.is_sorted(), "{name}");
        let failure = carrier.failure().map(ToString::to_string).unwrap_or_default();
        assert!(failure.contains("SLV-TOLERANCE-0009"), "{name}: {failure}");
    }
}

#[test]
fn random_single_faults_lose_nothing() {
    for seed in 0..12 {
        let mut rng = Seed(seed).child("rivals").rng();
        let down = rng.below(35_000);
        let port = 1 + rng.below(2);
        let silent = rng.below(2) == 0;
        let mut text = format!("{down}us down cable-{port}\n");
        if rng.below(2) == 0 {
            text += &format!("{}us up cable-{port}\n", down + 1 + rng.below(9_000));
        }
        for (name, mut carrier, mut rails) in carriers() {
            // Before the alternate path is loaded, nothing helps; that takes 27 µs and the first messages.
            let early = down < 300;
            // Alternate paths that die in silence are the subject of `Deaths`.
            let unseen = silent && port == 2;
            if name != "apm" || !(early || unseen) {
                carry(
                    &format!("{name}, seed {seed}"),
                    carrier.as_mut(),
                    &mut rails,
                    &trace(&text),
                    silent,
                );
            }
        }
    }
}

/// Several carriers at once, between the same hosts and others.
struct Many {
    carriers: Vec<Box<dyn Carrier>>,
    sent: u64,
    got: Vec<Vec<(u64, Ps)>>,
}

const EACH: u64 = 100;

impl Program for Many {
    fn run(&mut self, cluster: &mut Cluster) -> Result<(), VerbsError> {
        for (carrier, got) in self.carriers.iter_mut().zip(&mut self.got) {
            carrier.progress(cluster)?;
            carrier.take_delivered(got);
        }
        while self.sent < EACH && self.sent * 100 * PS_PER_US <= cluster.now() {
            self.sent += 1;
            for carrier in &mut self.carriers {
                carrier.send(cluster, 5_000)?;
            }
        }
        Ok(())
    }

    fn next_wake(&self) -> Option<Ps> {
        let send = (self.sent < EACH).then_some(self.sent * 100 * PS_PER_US);
        let carriers = self.carriers.iter().filter_map(|carrier| carrier.next_wake());
        carriers.chain(send).min()
    }

    fn is_over(&self) -> bool {
        self.got.iter().all(|got| got.len() as u64 == EACH)
    }
}

#[test]
fn carriers_between_the_same_hosts_do_not_take_each_others_messages() {
    let mut rails = Rails::new(&RailSettings {
        hosts: 4,
        ..RailSettings::default()
    })
    .unwrap();
    let failover = FailoverSettings {
        timeout: 8,
        retry_cnt: 2,
        ..FailoverSettings::default()
    };
    let (there, back) = (ways([0, 1], 2, 8), ways([1, 0], 2, 8));
    let on = &mut rails.cluster;
    let all = [[0, 1], [1, 0], [0, 1], [1, 0], [2, 3]];
    let ends = all.map(|hosts| Ends::open(on, hosts).unwrap());
    let carriers: Vec<Box<dyn Carrier>> = vec![
        Box::new(Apm::new(on, ends[0], &there, 8, 2).unwrap()),
        Box::new(Apm::new(on, ends[1], &back, 8, 2).unwrap()),
        Box::new(Failover::new(on, ends[2], &there, failover).unwrap()),
        Box::new(Striping::new(on, ends[3], &back, StripingSettings::default()).unwrap()),
        Box::new(Apm::new(on, ends[4], &ways([2, 3], 2, 8), 8, 2).unwrap()),
    ];
    let mut many = Many {
        got: carriers.iter().map(|_| Vec::new()).collect(),
        carriers,
        sent: 0,
    };
    rails.cluster.drive(&mut many, 5 * MS).unwrap();
    rails.set_cable(0, 1, false).unwrap();
    rails.cluster.drive(&mut many, 10_000 * MS).unwrap();
    for (at, (carrier, got)) in many.carriers.iter().zip(&many.got).enumerate() {
        assert_eq!(carrier.failure(), None, "carrier {at}");
        let numbers: Vec<u64> = got.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (0..EACH).collect::<Vec<_>>(), "carrier {at}");
    }
}

/// An adapter has 1,024 contexts, of which its carriers need one.
#[test]
fn carriers_share_the_context_of_a_host() {
    let mut rails = rails();
    let on = &mut rails.cluster;
    let objects = [0, 1].map(|host| on.act(host, |hca, _| Objects::open(hca, 16)).unwrap());
    let ways = ways([0, 1], 2, 8);
    let mut carriers: Vec<Failover> = Vec::new();
    for _ in 0..1_100 {
        let ends = Ends::beside(on, [0, 1], objects).unwrap();
        carriers.push(Failover::new(on, ends, &ways, FailoverSettings::default()).unwrap());
    }
    assert!(objects[0].cq != carriers[0].ends().objects[0].cq, "a queue of its own");
    let last = carriers.last_mut().unwrap();
    let mut traffic = Traffic {
        messages: 5,
        ..Traffic::over(last)
    };
    rails.cluster.drive(&mut traffic, 20_000 * MS).unwrap();
    assert_eq!(traffic.got.len(), 5);
    let alone = |on: &mut Cluster| (0..1_100).find_map(|_| Ends::open(on, [0, 1]).err());
    assert!(alone(&mut rails.cluster).is_some(), "contexts are used up");
}

#[test]
fn rails_that_cannot_be_are_refused() {
    let check = |hosts: usize, ports: u8, switches: u8, want: &str| {
        let settings = RailSettings {
            hosts,
            ports,
            switches,
            ..RailSettings::default()
        };
        let found = Rails::new(&settings).err().and_then(|error| {
            let cause = std::error::Error::source(&error)?;
            Some(cause.to_string())
        });
        let found = found.unwrap_or_default();
        assert!(found.contains(want), "{hosts} {ports} {switches}: {found}");
    };
    check(3, 2, 0, "number of hosts on rails is 3; want 2 to 2");
    check(0, 2, 1, "is 0; want 2 to 64");
    check(65, 2, 1, "is 65; want 2 to 64");
    check(2, 0, 1, "number of ports of a host is 0; want 1 to 8");
    check(2, 9, 1, "is 9; want 1 to 8");
    check(2, 2, 3, "number of switches of a rail is 3; want 0 to 2");
    let mut rails = rails();
    assert!(rails.set_cable(2, 1, false).is_err());
    assert!(rails.set_cable(0, 3, false).is_err());
}
