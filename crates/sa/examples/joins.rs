//! Every host of a fabric joins so many groups; trees are planned and judged for what has changed after so many joins.
//!
//! `cargo run -p selvedge-sa --example joins -- karytree:k=18,n=3 100 10000`: fabric, groups, joins before trees are
//! planned again.

#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use selvedge_plan::Generation;
use selvedge_plan::multicast::{MulticastGroups, MulticastTables, multicast_changes};
use selvedge_routing::multicast::{TreeRequest, trees};
use selvedge_sa::{Config, Input};
use selvedge_types::{Guid, Lid};
use selvedge_verify::{JudgeOptions, MulticastSubject, judge_multicast};
use selvedge_wire::sa::records;
use selvedge_wire::{Address, Datagram, Gid, Method, Status};
use support::{Bench, Wish, number};

/// What switches copy, and what it took to get there.
#[derive(Default)]
struct Trees {
    groups: MulticastGroups,
    held: MulticastTables,
    roots: BTreeMap<Lid, Guid>,
    rounds: u64,
    sets: usize,
    planning: Duration,
    judging: Duration,
    longest: Duration,
}

impl Trees {
    fn follow(&mut self, bench: &mut Bench) {
        let mut stale = BTreeSet::new();
        for group in bench.sa.take_changed_groups() {
            stale.insert(group.mlid);
            self.groups.put(group);
        }
        let fabric = bench.snapshot.fabric();
        let began = Instant::now();
        let made = trees(&TreeRequest {
            fabric,
            groups: &self.groups,
            held: &self.held,
            roots: &self.roots,
            stale: &stale,
        });
        let change = multicast_changes(Generation(self.rounds), &self.held, &made.tables);
        let planned = began.elapsed();
        self.sets += change.sets();
        let subject = MulticastSubject {
            fabric,
            groups: &self.groups,
            held: &self.held,
            wanted: &made.tables,
        };
        if let Err(refusal) = judge_multicast(&subject, change, &JudgeOptions::default()) {
            panic!("{refusal}");
        }
        self.planning += planned;
        self.judging += began.elapsed().saturating_sub(planned);
        self.longest = self.longest.max(began.elapsed());
        self.rounds += 1;
        (self.held, self.roots) = (made.tables, made.roots);
    }
}

#[allow(clippy::unwrap_used, reason = "an example: wrong arguments may stop it")]
fn main() {
    let mut arguments = std::env::args().skip(1);
    let spec = arguments.next().unwrap_or_else(|| "pgft:m=2x4,w=1x2,p=1x1".to_owned());
    let groups: u32 = arguments.next().map_or(3, |text| text.parse().unwrap());
    let batch: usize = arguments.next().map_or(5, |text| text.parse().unwrap());
    let limitless = Config {
        burst: u32::MAX,
        ..Config::default()
    };
    let mut bench = Bench::with(&Wish::new(spec.leak()), limitless);
    let hosts = bench.hosts();
    let mut followed = Trees {
        held: MulticastTables::new(bench.snapshot.fabric().switches().len()),
        ..Trees::default()
    };
    use records::member as f;
    let fields = [
        (f::MGID, number(0_u8)),
        (f::PORT_GID, number(0_u8)),
        (f::JOIN_STATE, number(1_u8)),
        (f::QKEY, number(0xB1B_u16)),
        (f::TRAFFIC_CLASS, number(0_u8)),
        (f::PKEY, number(0xFFFF_u16)),
        (f::SL, number(0_u8)),
        (f::FLOW_LABEL, number(0_u8)),
        (f::MTU_SELECTOR, number(2_u8)),
        (f::MTU, number(4_u8)),
    ];
    let mut mad = bench.question(Method::Set, &records::MEMBER, &fields);
    let (mut out, mut joined, mut joining) = (Vec::new(), 0_usize, Duration::ZERO);
    let mut began = Instant::now();
    for host in &hosts {
        let gid = bench.snapshot.gid(host);
        let address = Address::gsi(host.lids.base, Default::default());
        for group in 0..groups {
            let mgid = Gid((0xFF12_401B_FFFF_u128 << 80 | u128::from(group + 1)).to_be_bytes());
            f::MGID.put(mad.sa_data_mut(), &mgid.0);
            f::PORT_GID.put(mad.sa_data_mut(), &gid.0);
            let now = bench.now;
            bench
                .sa
                .handle(now, Input::Received(Datagram { address, mad }), &mut out);
            joined += out.drain(..).filter(|o| o.datagram.mad.status() == Status::OK).count();
            if joined.is_multiple_of(batch) {
                joining += began.elapsed();
                followed.follow(&mut bench);
                began = Instant::now();
            }
        }
    }
    joining += began.elapsed();
    followed.follow(&mut bench);
    println!(
        "{joined} joins of {} hosts to {groups} groups: {joining:.1?} in the administrator; {} rounds of trees: {:.1?} \
         planning, {:.1?} judging, the longest {:.1?}; {} Sets",
        hosts.len(),
        followed.rounds,
        followed.planning,
        followed.judging,
        followed.longest,
        followed.sets
    );
}
