//! Sends every JoinState in MCMemberRecord, and a query for ClassPortInfo, to real OpenSM and to our master. Answers
//! about groups must be equal. The capability bits that only one of the two sets are listed with reasons.

use std::collections::BTreeMap;

use selvedge_conformance::{HeavyLock, OpenSmOptions, PeerLab, Probe, until};
use selvedge_types::Guid;
use selvedge_wire::sa::Field;
use selvedge_wire::sa::records::{self, member as f};
use selvedge_wire::{Class, Mad, Method, Status};

use crate::support::{LIMIT, emulate, lid_of, port, wait_sm_state};

const SPEC: &str = "mport:m=4,n=2";
const MASTER: &str = "H-0";
/// The two hosts that join groups.
const HOSTS: [&str; 2] = ["H-3", "H-5"];

/// A request: the JoinState of the group's creator (0: none), the requested JoinState, and whether it has all
/// components.
type Question = (u8, u8, bool);
/// An answer: its status, and its JoinState if the status is good.
type Answer = (u16, u64);

/// An administrator and two hosts that send requests to it.
struct Asker {
    probes: [Probe; 2],
    guids: [Guid; 2],
    sm: u16,
    /// Last byte of the last group's GID: each request has its own group.
    group: u16,
}

impl Asker {
    fn new(lab: &PeerLab) -> Self {
        let sm = lid_of(lab, MASTER);
        wait_sm_state(lab, HOSTS[0], sm, "SMINFO_MASTER");
        let guid = |node| {
            let said = lab.output(node, "smpquery", &["-D", "nodeinfo", "0"]).unwrap();
            let guid = selvedge_conformance::parse::Fields::parse(&said).number("PortGuid");
            Guid(guid.unwrap())
        };
        Self {
            probes: HOSTS.map(|node| Probe::open(lab.base(), node).unwrap()),
            guids: HOSTS.map(guid),
            sm,
            group: 0,
        }
    }

    /// Sends a host's request until an answer arrives.
    fn ask(&mut self, host: usize, mad: &Mad) -> Mad {
        let (probe, sm) = (&mut self.probes[host], self.sm);
        until(
            "an answer",
            LIMIT,
            || mad.to_string(),
            || probe.administration(sm, *mad),
        )
        .unwrap()
    }

    fn member(&mut self, method: Method, host: usize, state: u8, creates: bool) -> Answer {
        let mut mad = Mad::request(Class::SubnAdm, method, records::MEMBER.id, 0);
        let data = mad.sa_data_mut();
        let mut mgid = [0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0x77, 0, 0];
        mgid[14..].copy_from_slice(&self.group.to_be_bytes());
        f::MGID.put(data, &mgid);
        let gid = 0xFE80_u128 << 112 | u128::from(self.guids[host].0);
        f::PORT_GID.put(data, &gid.to_be_bytes());
        f::JOIN_STATE.set(data, u64::from(state));
        let mut mask = f::MGID.mask() | f::PORT_GID.mask() | f::JOIN_STATE.mask();
        let parameters: [(Field, u64); 5] = [
            (f::QKEY, 0xB1B),
            (f::TRAFFIC_CLASS, 0),
            (f::PKEY, 0xFFFF),
            (f::SL, 0),
            (f::FLOW_LABEL, 0),
        ];
        for (field, value) in parameters.into_iter().filter(|_| creates) {
            field.set(data, value);
            mask |= field.mask();
        }
        mad.set_component_mask(mask);
        let answer = self.ask(host, &mad);
        let is_good = answer.status() == Status::OK;
        let state = if is_good {
            f::JOIN_STATE.get(answer.sa_data())
        } else {
            0
        };
        // OpenSM answers a Delete with the MLID of the request.
        if is_good && method == Method::Set {
            assert!(f::MLID.get(answer.sa_data()) >= 0xC000, "{answer}");
        }
        (answer.status().0, state)
    }

    /// Sends every JoinState, without a group and with a group that a full member created.
    fn joins(&mut self) -> BTreeMap<Question, Answer> {
        let mut all = BTreeMap::new();
        for creator in [0, 1] {
            for state in 0..16 {
                for creates in [false, true] {
                    self.group += 1;
                    if creator != 0 {
                        assert_eq!(self.member(Method::Set, 0, creator, true).0, 0);
                    }
                    let answer = self.member(Method::Set, 1, state, creates);
                    all.insert((creator, state, creates), answer);
                    self.end(state);
                }
            }
        }
        all
    }

    /// Sends a leave for each pair of present and given-up states, beside a full member.
    fn leaves(&mut self) -> BTreeMap<(u8, u8), Answer> {
        let mut all = BTreeMap::new();
        for (held, given) in (1..16_u8).flat_map(|held| (0..16_u8).map(move |given| (held, given))) {
            self.group += 1;
            assert_eq!(self.member(Method::Set, 0, 1, true).0, 0);
            assert_eq!(self.member(Method::Set, 1, held, false).0, 0);
            all.insert((held, given), self.member(Method::Delete, 1, given, false));
            self.end(held & !given);
        }
        all
    }

    /// Returns for each state whether a member keeps the group after its full member has left.
    fn lives(&mut self) -> BTreeMap<u8, bool> {
        let mut all = BTreeMap::new();
        for state in 1..16 {
            self.group += 1;
            assert_eq!(self.member(Method::Set, 0, 1, true).0, 0);
            assert_eq!(self.member(Method::Set, 1, state, false).0, 0);
            assert_eq!(self.member(Method::Delete, 0, 1, false).0, 0);
            // A join with so few components succeeds only in an existing group.
            all.insert(state, self.member(Method::Set, 0, 2, false).0 == 0);
            self.end(state);
        }
        all
    }

    /// Removes both hosts from the group, if they are members, so that groups do not accumulate.
    fn end(&mut self, state: u8) {
        for (host, states) in [(1, state), (0, 3)] {
            for bit in [1, 2, 4, 8] {
                if states & bit != 0 {
                    self.member(Method::Delete, host, bit, false);
                }
            }
        }
    }

    fn class_port_info(&mut self) -> (u64, u64) {
        use records::class_port_info as c;
        let mad = Mad::request(Class::SubnAdm, Method::Get, records::CLASS_PORT_INFO.id, 0);
        let answer = self.ask(1, &mad);
        (
            c::CAPABILITIES.get(answer.sa_data()),
            c::CAPABILITIES2.get(answer.sa_data()),
        )
    }
}

/// All answers of an administrator.
#[derive(Debug)]
struct Told {
    joins: BTreeMap<Question, Answer>,
    leaves: BTreeMap<(u8, u8), Answer>,
    lives: BTreeMap<u8, bool>,
    class_port_info: (u64, u64),
}

fn told(lab: &PeerLab) -> Told {
    let mut asker = Asker::new(lab);
    Told {
        joins: asker.joins(),
        leaves: asker.leaves(),
        lives: asker.lives(),
        class_port_info: asker.class_port_info(),
    }
}

/// Returns the entries that differ between two tables: OpenSM's answer, our answer.
fn differences<K: Copy + Ord, V: Copy + PartialEq>(
    theirs: &BTreeMap<K, V>,
    ours: &BTreeMap<K, V>,
) -> BTreeMap<K, (V, V)> {
    let both = theirs.iter().map(|(key, theirs)| (*key, (*theirs, ours[key])));
    both.filter(|(_, (theirs, ours))| theirs != ours).collect()
}

#[test]
fn join_states_beside_opensm() {
    let _heavy = HeavyLock::acquire().unwrap();
    let theirs = {
        let lab = PeerLab::new().unwrap();
        let _emulator = emulate(&lab, SPEC);
        let mut opensm = lab.opensm(MASTER, &OpenSmOptions::default()).unwrap();
        opensm.wait_up(1, LIMIT).unwrap();
        told(&lab)
    };
    let ours = {
        let lab = PeerLab::new().unwrap();
        let _emulator = emulate(&lab, SPEC);
        let _manager = lab.start_daemon(&["run", "--port", &port(lab.base(), MASTER)]).unwrap();
        until("LIDs", LIMIT, String::new, || {
            Ok([MASTER, HOSTS[0], HOSTS[1]]
                .iter()
                .all(|node| lid_of(&lab, node) != 0)
                .then_some(()))
        })
        .unwrap();
        told(&lab)
    };
    assert_eq!(differences(&theirs.joins, &ours.joins), BTreeMap::new());
    assert_eq!(differences(&theirs.leaves, &ours.leaves), BTreeMap::new());
    assert_eq!(differences(&theirs.lives, &ours.lives), BTreeMap::new());
    // Ensures that not all compared answers are refusals: states that keep a group, and the case of a public report.
    let alive = ours.lives.iter().filter(|(_, lives)| **lives).map(|(state, _)| *state);
    assert!(alive.eq((1..16).filter(|state| state & 9 != 0)));
    assert_eq!(theirs.joins[&(0, 8, true)], (0, 8));
    capabilities(theirs.class_port_info, ours.class_port_info);
}

/// Compares both masks with OpenSM's: the bits that only one side has. The reasons: `docs/reference/sa-attributes.md`.
fn capabilities(theirs: (u64, u64), ours: (u64, u64)) {
    let bits = |mask: u64| (0..27).filter(|bit| mask >> bit & 1 == 1).collect::<Vec<u32>>();
    let alone = |a: u64, b: u64| bits(a & !b);
    // OpenSM supports Get and Set of Notice.
    assert_eq!(alone(theirs.0, ours.0), [1]);
    assert_eq!(alone(ours.0, theirs.0), [] as [u32; 0]);
    // OpenSM sets MulticastFDBTop at switches, and accepts services of multicast groups.
    assert_eq!(alone(theirs.1, ours.1), [3, 8]);
    // Bit 17, NDR, is newer than OpenSM 3.3.23.
    assert_eq!(alone(ours.1, theirs.1), [17]);
}
