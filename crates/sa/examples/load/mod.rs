//! Loads on an administrator: many queries, many joins. For examples, and for the benchmark that stores their figures.

#![allow(dead_code, reason = "each example uses its own part")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use selvedge_plan::Generation;
use selvedge_plan::multicast::{MulticastGroups, MulticastTables, multicast_changes};
use selvedge_routing::multicast::{TreeRequest, trees};
use selvedge_sa::{Config, Input};
use selvedge_types::{Guid, Lid, TransactionId};
use selvedge_verify::{JudgeOptions, MulticastSubject, RouteTurns, judge_multicast};
use selvedge_wire::sa::records;
use selvedge_wire::{Address, Datagram, Gid, Method, Status};

use super::support::{Bench, Wish, group_parameters, number};

/// Returns a configuration without limits: no client gets BUSY, so that only the work is measured.
fn limitless() -> Config {
    Config {
        burst: u32::MAX,
        ..Config::default()
    }
}

/// Returns the processor time of this thread so far. Without support of the kernel, returns elapsed time.
fn thread_time() -> Duration {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|word| word.parse().ok());
    ns.map_or_else(|| BEGAN.get_or_init(Instant::now).elapsed(), Duration::from_nanos)
}

/// Results of queries.
#[derive(Clone, Copy, Debug)]
pub struct Questions {
    /// Number of queries.
    pub asked: u64,
    /// Queries answered with a path.
    pub found: u64,
    /// Elapsed time.
    pub took: Duration,
    /// Processor time.
    pub cpu: Duration,
    /// Ports of the fabric, including those of switches.
    pub ports: usize,
    /// Memory of the administrator's indexes.
    pub index_bytes: usize,
    /// Hosts of the fabric.
    pub hosts: usize,
}

impl Questions {
    /// Queries the path between random hosts, one query at a time: reversible, by LID, in both directions.
    pub fn ask(bench: &mut Bench, asked: u64) -> Self {
        let hosts: Vec<Lid> = bench.hosts().iter().map(|end| end.lids.base).collect();
        let nodes = bench.snapshot.fabric().nodes().iter();
        let ports = nodes.map(|node| usize::from(node.port_count())).sum();
        use records::path as f;
        let fields = [
            (f::SLID, number(0_u8)),
            (f::DLID, number(0_u8)),
            (f::NUMB_PATH, number(1_u8)),
            (f::REVERSIBLE, number(1_u8)),
        ];
        let mut mad = bench.question(Method::Get, &records::PATH, &fields);
        let (mut out, mut found, mut state) = (Vec::new(), 0, 1_u64);
        let (began, cpu) = (Instant::now(), thread_time());
        for transaction in 0..asked {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let pick = |shift: u32| hosts[(state >> shift) as usize % hosts.len()];
            let (from, to) = (pick(33), pick(17));
            f::SLID.set(mad.sa_data_mut(), u64::from(from.0));
            f::DLID.set(mad.sa_data_mut(), u64::from(to.0));
            mad.set_transaction(TransactionId(transaction));
            let address = Address::gsi(from, Default::default());
            let now = bench.now;
            bench
                .sa
                .handle(now, Input::Received(Datagram { address, mad }), &mut out);
            found += out.drain(..).filter(|o| o.datagram.mad.status() == Status::OK).count() as u64;
        }
        Self {
            asked,
            found,
            took: began.elapsed(),
            cpu: thread_time().saturating_sub(cpu),
            ports,
            index_bytes: bench.snapshot.index_bytes(),
            hosts: hosts.len(),
        }
    }

    /// Returns a fabric that is up, for [`Self::ask`].
    pub fn bench(spec: &str) -> Bench {
        Bench::with(&Wish::new(spec.to_owned().leak()), limitless())
    }

    /// Returns the queries per second of processor time.
    pub fn per_second(&self) -> f64 {
        self.asked as f64 / self.cpu.as_secs_f64().max(1e-9)
    }
}

impl fmt::Display for Questions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ports, {:.1} bytes of indices a port; {} questions, {} paths, {:.0} a second of processor time",
            self.ports,
            self.index_bytes as f64 / self.ports as f64,
            self.asked,
            self.found,
            self.per_second()
        )
    }
}

/// Results of joins: in the administrator, and in planning and judging of trees.
#[derive(Clone, Copy, Debug, Default)]
pub struct Joins {
    /// Hosts.
    pub hosts: usize,
    /// Groups that each host joins.
    pub groups: u32,
    /// Joins answered with success.
    pub joined: usize,
    /// Processor time in the administrator.
    pub joining: Duration,
    /// How often trees were planned.
    pub rounds: u64,
    /// Processor time to plan them.
    pub planning: Duration,
    /// Processor time to judge them.
    pub judging: Duration,
    /// The longest round, in time that passed.
    pub longest: Duration,
    /// Number of Sets of tables.
    pub sets: usize,
}

impl Joins {
    /// Lets every host of a fabric join a number of groups. Trees are planned again after `batch` joins.
    pub fn of(spec: &str, groups: u32, batch: usize) -> Self {
        let mut bench = Questions::bench(spec);
        let hosts = bench.hosts();
        let mut all = Self {
            hosts: hosts.len(),
            groups,
            ..Self::default()
        };
        let mut trees = Trees {
            held: MulticastTables::new(bench.snapshot.fabric().switches().len()),
            ..Trees::default()
        };
        use records::member as f;
        let mut fields = vec![
            (f::MGID, number(0_u8)),
            (f::PORT_GID, number(0_u8)),
            (f::JOIN_STATE, number(1_u8)),
        ];
        fields.extend(group_parameters());
        let mut mad = bench.question(Method::Set, &records::MEMBER, &fields);
        let mut out = Vec::new();
        let mut began = thread_time();
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
                all.joined += out.drain(..).filter(|o| o.datagram.mad.status() == Status::OK).count();
                if all.joined.is_multiple_of(batch) {
                    all.joining += thread_time().saturating_sub(began);
                    trees.follow(&mut bench, &mut all);
                    began = thread_time();
                }
            }
        }
        all.joining += thread_time().saturating_sub(began);
        trees.follow(&mut bench, &mut all);
        all
    }
}

impl fmt::Display for Joins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} joins of {} hosts to {} groups: {:.1?} in the administrator; {} rounds of trees: {:.1?} planning, \
             {:.1?} judging, the longest {:.1?}; {} Sets",
            self.joined,
            self.hosts,
            self.groups,
            self.joining,
            self.rounds,
            self.planning,
            self.judging,
            self.longest,
            self.sets
        )
    }
}

/// Multicast tables of the switches.
#[derive(Default)]
struct Trees {
    groups: MulticastGroups,
    held: MulticastTables,
    roots: BTreeMap<Lid, Guid>,
}

impl Trees {
    /// Plans and judges what has changed.
    fn follow(&mut self, bench: &mut Bench, all: &mut Joins) {
        let mut stale = BTreeSet::new();
        for group in bench.sa.take_changed_groups() {
            stale.insert(group.mlid);
            self.groups.put(group);
        }
        let fabric = bench.snapshot.fabric();
        let (began, cpu) = (Instant::now(), thread_time());
        let made = trees(&TreeRequest {
            fabric,
            groups: &self.groups,
            held: &self.held,
            roots: &self.roots,
            stale: &stale,
            routes: None,
        });
        let change = multicast_changes(Generation(all.rounds), &self.held, &made.tables);
        let planned = thread_time();
        all.sets += change.sets();
        let subject = MulticastSubject {
            fabric,
            groups: &self.groups,
            held: &self.held,
            wanted: &made.tables,
            routes: &RouteTurns::none(fabric),
            apart: &BTreeSet::new(),
        };
        if let Err(refusal) = judge_multicast(&subject, change, &JudgeOptions::default()) {
            panic!("{refusal}");
        }
        all.planning += planned.saturating_sub(cpu);
        all.judging += thread_time().saturating_sub(planned);
        all.longest = all.longest.max(began.elapsed());
        all.rounds += 1;
        (self.held, self.roots) = (made.tables, made.roots);
    }
}
