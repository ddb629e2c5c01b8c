//! Random steps in random order: hosts join and leave, register services and subscribe, ports leave and return with
//! plans, leases expire, the manager loses its link, or is killed and restarts from its stored state. After each step
//! every answer of the administrator equals that of a model made of a few sets.

use crate::support;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::support::{Bench, Value, Wish, group_parameters, number};
use proptest::prelude::*;
use selvedge_sa::{Config, Input, Output, Registrations, Sa, Snapshot};
use selvedge_sim::Time;
use selvedge_types::{Lid, LinkSpeed, LinkWidth, Mtu, Rate};
use selvedge_wire::sa::{Field, SaStatus, records};
use selvedge_wire::{Datagram, Gid, Method, Status};

/// Eight hosts.
const TREE: &str = "pgft:m=2x4,w=1x2,p=1x1";
const HOSTS: usize = 8;
/// The host with a link that is slower with each plan.
const SLOW: usize = 2;
/// The host that sends the queries; it is always present.
const WITNESS: usize = 0;

/// A plan, the hosts missing in it, and the MTU of the slow host, as an IBA code.
type Planned = (Arc<Snapshot>, Vec<usize>, u64);

/// The plans in order: all hosts, some missing, others missing.
fn plans() -> &'static [Planned; 3] {
    static MADE: OnceLock<[Planned; 3]> = OnceLock::new();
    MADE.get_or_init(|| {
        let plan = |generation: u64, gone: Vec<usize>, mtu: Mtu, code: u64| {
            let rate = Rate {
                width: LinkWidth::X4,
                speed: LinkSpeed::Hdr,
            };
            let wish = Wish {
                generation,
                gone: gone.clone(),
                slow: BTreeMap::from([(SLOW, (rate, mtu))]),
                ..Wish::new(TREE)
            };
            (wish.snapshot(), gone, code)
        };
        [
            plan(1, vec![], Mtu::B4096, 5),
            plan(2, vec![1, 4], Mtu::B2048, 4),
            plan(3, vec![4, 7], Mtu::B1024, 3),
        ]
    })
}

/// One step.
#[derive(Clone, Copy, Debug)]
enum Step {
    Join {
        host: usize,
        group: u8,
    },
    Leave {
        host: usize,
        group: u8,
    },
    Offer {
        host: usize,
        id: u8,
        lease_s: Option<u8>,
    },
    Withdraw {
        host: usize,
        id: u8,
    },
    Subscribe {
        host: usize,
        begin: bool,
    },
    Plan {
        number: usize,
    },
    Later {
        seconds: u8,
    },
    /// SIGKILL when everything is stored, and a start.
    Kill,
    /// The manager's own link goes down and comes back.
    Link,
}

fn step() -> impl Strategy<Value = Step> {
    let host = 0..HOSTS;
    prop_oneof![
        4 => (host.clone(), 0_u8..3).prop_map(|(host, group)| Step::Join { host, group }),
        3 => (host.clone(), 0_u8..3).prop_map(|(host, group)| Step::Leave { host, group }),
        3 => (host.clone(), 0_u8..2, proptest::option::of(1_u8..9))
            .prop_map(|(host, id, lease_s)| Step::Offer { host, id, lease_s }),
        1 => (host.clone(), 0_u8..2).prop_map(|(host, id)| Step::Withdraw { host, id }),
        2 => (host, any::<bool>()).prop_map(|(host, begin)| Step::Subscribe { host, begin }),
        2 => (0_usize..3).prop_map(|number| Step::Plan { number }),
        2 => (0_u8..6).prop_map(|seconds| Step::Later { seconds }),
        1 => Just(Step::Kill),
        1 => Just(Step::Link),
    ]
}

/// Registrations of hosts, by host.
#[derive(Default)]
struct Model {
    members: BTreeSet<(u8, usize)>,
    services: BTreeMap<(u8, usize), Option<Time>>,
    subscribers: BTreeSet<usize>,
}

struct World {
    bench: Bench,
    model: Model,
    plan: usize,
    lids: Vec<Lid>,
    gids: Vec<Gid>,
}

fn mgid(group: u8) -> Gid {
    Gid((0xFF12_401B_FFFF_u128 << 80 | u128::from(group + 1)).to_be_bytes())
}

impl World {
    fn new() -> Self {
        let bench = Bench::new(&Wish::new(TREE));
        let hosts = bench.hosts();
        let mut world = Self {
            lids: hosts.iter().map(|end| end.lids.base).collect(),
            gids: hosts.iter().map(|end| bench.snapshot.gid(end)).collect(),
            bench,
            model: Model::default(),
            plan: 0,
        };
        world.commit(0);
        world
    }

    fn is_here(&self, host: usize) -> bool {
        !plans()[self.plan].1.contains(&host)
    }

    fn commit(&mut self, number: usize) {
        self.plan = number;
        let snapshot = Arc::clone(&plans()[number].0);
        self.bench.snapshot = Arc::clone(&snapshot);
        let out = self.bench.feed(Input::Committed(snapshot));
        self.answer_reports(out);
        // An absent host has no registrations.
        let gone = &plans()[number].1;
        self.model.members.retain(|(_, host)| !gone.contains(host));
        self.model.services.retain(|(_, host), _| !gone.contains(host));
        self.model.subscribers.retain(|host| !gone.contains(host));
    }

    /// Subscribers answer reports at once.
    fn answer_reports(&mut self, out: Vec<Output>) {
        let mut told: Vec<Datagram> = out.into_iter().map(|output| output.datagram).collect();
        told.append(&mut self.bench.beside);
        for mut datagram in told {
            if datagram.mad.method() == Method::Report {
                datagram.mad.set_method(Method::ReportResp);
                self.bench.feed(Input::Received(datagram));
            }
        }
    }

    /// Sends a query as a host. Returns the answer.
    fn ask(
        &mut self,
        host: usize,
        method: Method,
        layout: &'static selvedge_wire::sa::Layout,
        fields: &[(Field, Value)],
    ) -> support::Told {
        (self.bench.lid, self.bench.key) = (self.lids[host], 0);
        let told = self.bench.ask(method, layout, fields);
        self.answer_reports(Vec::new());
        told
    }

    /// Sends a change as a host. True if it succeeded. A host that is not in the plan in force gets BUSY.
    fn change(
        &mut self,
        host: usize,
        method: Method,
        layout: &'static selvedge_wire::sa::Layout,
        fields: &[(Field, Value)],
    ) -> bool {
        let status = self.ask(host, method, layout, fields).status;
        assert_eq!(status == Status::BUSY, !self.is_here(host), "host {host}: {status:?}");
        status == Status::OK
    }

    fn subscribe(&mut self, host: usize, begin: bool) {
        use records::inform_info as f;
        let fields = [
            (f::LID_BEGIN, number(0xFFFF_u16)),
            (f::IS_GENERIC, number(1_u8)),
            (f::SUBSCRIBE, number(u8::from(begin))),
            (f::TYPE, number(0xFFFF_u16)),
            (f::TRAP_NUMBER, number(0xFFFF_u16)),
            (f::PRODUCER, number(0xFF_FFFF_u32)),
        ];
        let was = self.model.subscribers.contains(&host);
        let done = self.change(host, Method::Set, &records::INFORM_INFO, &fields);
        assert_eq!(done, self.is_here(host) && (begin || was));
        if done && begin {
            self.model.subscribers.insert(host);
        } else if done {
            self.model.subscribers.remove(&host);
        }
    }

    fn take(&mut self, step: Step) {
        let now = self.bench.now;
        match step {
            Step::Join { host, group } => {
                use records::member as f;
                let mut fields = vec![
                    (f::MGID, Value::Gid(mgid(group))),
                    (f::PORT_GID, Value::Gid(self.gids[host])),
                    (f::JOIN_STATE, number(1_u8)),
                ];
                fields.extend(group_parameters());
                // The slow host's link may be too slow for a group of others.
                fields.truncate(fields.len() - 2);
                if self.change(host, Method::Set, &records::MEMBER, &fields) {
                    self.model.members.insert((group, host));
                }
            }
            Step::Leave { host, group } => {
                use records::member as f;
                let fields = [
                    (f::MGID, Value::Gid(mgid(group))),
                    (f::PORT_GID, Value::Gid(self.gids[host])),
                    (f::JOIN_STATE, number(1_u8)),
                ];
                let was = self.model.members.remove(&(group, host));
                assert_eq!(self.change(host, Method::Delete, &records::MEMBER, &fields), was);
            }
            Step::Offer { host, id, lease_s } => {
                use records::service as f;
                let mut fields = vec![(f::ID, number(id)), (f::GID, Value::Gid(self.gids[host]))];
                fields.extend(lease_s.map(|seconds| (f::LEASE, number(seconds))));
                if self.change(host, Method::Set, &records::SERVICE, &fields) {
                    let end = lease_s.map(|seconds| now + Duration::from_secs(seconds.into()));
                    self.model.services.insert((id, host), end);
                }
            }
            Step::Withdraw { host, id } => {
                use records::service as f;
                let fields = [(f::ID, number(id)), (f::GID, Value::Gid(self.gids[host]))];
                let was = self.model.services.remove(&(id, host)).is_some();
                assert_eq!(self.change(host, Method::Delete, &records::SERVICE, &fields), was);
            }
            Step::Subscribe { host, begin } => self.subscribe(host, begin),
            Step::Plan { number } => self.commit(number),
            Step::Later { seconds } => self.bench.later(Duration::from_secs(seconds.into())),
            Step::Kill => {
                let stored = self.bench.sa.registrations().to_text();
                let kept = Registrations::from_text(&stored).unwrap();
                self.bench.sa = Sa::with_registrations(Config::default(), now, kept);
                self.bench.feed(Input::Serve);
                self.commit(self.plan);
            }
            Step::Link => {
                self.bench.feed(Input::Withdraw);
                let silent = self.bench.question(Method::Get, &records::CLASS_PORT_INFO, &[]);
                assert!(self.bench.send(&silent).is_empty(), "who is not master says nothing");
                self.bench.feed(Input::Serve);
                self.commit(self.plan);
            }
        }
        let now = self.bench.now;
        self.model.services.retain(|_, end| end.is_none_or(|end| end > now));
    }

    /// Checks that every answer equals that of the model.
    fn check(&mut self) {
        (self.bench.lid, self.bench.key) = (self.lids[WITNESS], 1);
        let host = |gid: Gid| self.gids.iter().position(|known| *known == gid);
        let members = self.bench.ask(Method::GetTable, &records::MEMBER, &[]).rows;
        let mut mlids = BTreeMap::new();
        let mut found = BTreeSet::new();
        for row in &members {
            use records::member as f;
            let group = Gid(f::MGID.wide(row)).0[15] - 1;
            found.insert((group, host(Gid(f::PORT_GID.wide(row))).unwrap()));
            mlids.insert(f::MLID.get(row), group);
        }
        assert_eq!(found, self.model.members);
        let groups: BTreeSet<u8> = found.iter().map(|(group, _)| *group).collect();
        assert_eq!(mlids.len(), groups.len(), "a LID for each group: {mlids:?}");
        let services = self.bench.ask(Method::GetTable, &records::SERVICE, &[]).rows;
        let found: BTreeMap<(u8, usize), Option<u64>> = services
            .iter()
            .map(|row| {
                use records::service as f;
                let lease = Some(f::LEASE.get(row)).filter(|lease| *lease != u64::from(u32::MAX));
                ((f::ID.get(row) as u8, host(Gid(f::GID.wide(row))).unwrap()), lease)
            })
            .collect();
        let now = self.bench.now;
        let left = |end: &Option<Time>| end.map(|end| end.since(now).as_secs());
        let want: BTreeMap<_, _> = self
            .model
            .services
            .iter()
            .map(|(name, end)| (*name, left(end)))
            .collect();
        assert_eq!(found, want, "services and what is left of their leases");
        let subscriptions = self.bench.ask(Method::GetTable, &records::INFORM_INFO_RECORD, &[]).rows;
        let found: BTreeSet<usize> = subscriptions
            .iter()
            .map(|row| host(Gid(records::inform_info_record::SUBSCRIBER_GID.wide(row))).unwrap())
            .collect();
        assert_eq!(found, self.model.subscribers);
        assert_eq!(self.bench.sa.counters().reports_lost, 0);
        self.check_paths();
    }

    /// Paths are those of the last plan, and every present host has some.
    fn check_paths(&mut self) {
        use records::path as f;
        let (_, _, mtu) = plans()[self.plan];
        for to in 0..HOSTS {
            let fields = [
                (f::SGID, Value::Gid(self.gids[WITNESS])),
                (f::DGID, Value::Gid(self.gids[to])),
            ];
            let told = self.ask(WITNESS, Method::Get, &records::PATH, &fields);
            let want = if self.is_here(to) {
                Status::OK
            } else {
                SaStatus::INVALID_GID
            };
            assert_eq!(told.status, want, "to host {to}");
            if to == SLOW {
                assert_eq!(f::MTU.get(&told.rows[0]), mtu, "of an older plan");
            }
        }
    }
}

proptest! {
    #[test]
    fn what_is_told_is_what_was_registered_and_planned(steps in proptest::collection::vec(step(), 1..40)) {
        let mut world = World::new();
        world.check();
        for step in steps {
            world.take(step);
            world.check();
        }
    }
}
