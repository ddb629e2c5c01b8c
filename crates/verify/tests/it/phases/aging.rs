//! How long a change matters although entries change again, compared with packets that stay in each switch for up to a
//! lifetime.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Lids, NO_PATH};
use selvedge_sim::{Rng, Seed};
use selvedge_types::{Idx, Lid, LidRange, PortNum, PortState};
use selvedge_verify::phases::Aging;
use selvedge_verify::standing::{Entry, Replaced};

use super::support;

/// Ticks that a switch keeps a packet.
const LIFETIME: usize = 3;
/// Ticks to simulate.
const TICKS: usize = 60;

/// A channel by which packets leave a switch, and their port of arrival (`None`: sent there).
type Wait = (Option<(usize, u8)>, (usize, u8));

/// Entries of one switch's LID as time goes by.
struct Case {
    fabric: Fabric,
    lids: Lids,
    lid: Lid,
    senders: Vec<usize>,
    first: Vec<u8>,
    /// Changes of entries, one for each step: tick, switch, entry.
    changes: Vec<(usize, usize, u8)>,
}

impl Case {
    fn random(rng: &mut Rng) -> Self {
        let mut below = |most: usize| rng.below(most as u64) as usize;
        let switches = 4 + below(4);
        let more = below(5);
        let mut net = support::Net::new(switches as u64, 20);
        for i in 1..switches {
            net.link(i, below(i));
        }
        for _ in 0..more {
            let a = below(switches);
            let b = (a + 1 + below(switches - 1)) % switches;
            net.link(a, b);
        }
        let own = below(switches);
        let senders: BTreeSet<usize> = (0..1 + below(3)).map(|_| below(switches)).collect();
        for &switch in &senders {
            net.host(switch);
        }
        let fabric = net.finish(PortState::Active);
        let (mut lids, lid) = (Lids::new(), Lid(5));
        let node = fabric.switches()[SwitchIdx::from_usize(own)];
        let port = PortNum::MANAGEMENT;
        lids.insert(PortRef { node, port }, LidRange::single(lid)).unwrap();
        let out = |switch: usize| -> Vec<u8> {
            let node = fabric.switches()[SwitchIdx::from_usize(switch)];
            let ports = fabric.node(node).external_ports();
            let is_link = |at: PortRef| {
                fabric
                    .peer(at)
                    .is_some_and(|peer| fabric.switch_index(peer.node).is_some())
            };
            let links = ports.filter(|(port, _)| is_link(PortRef { node, port: *port }));
            links.map(|(port, _)| port.get()).collect()
        };
        let mut entry = |switch: usize| match switch == own {
            true => 0,
            false => out(switch)[below(out(switch).len())],
        };
        let first = (0..switches).map(&mut entry).collect();
        let mut changes: Vec<(usize, usize, u8)> = Vec::new();
        let mut tick = 6;
        for _ in 0..6 {
            let switch = (own + 1 + tick % (switches - 1)) % switches;
            changes.push((tick, switch, entry(switch)));
            tick += [1, 2, 3, 5][tick % 4];
        }
        let senders = senders.into_iter().filter(|&switch| switch != own).collect();
        Self {
            fabric,
            lids,
            lid,
            senders,
            first,
            changes,
        }
    }

    fn entry(&self, switch: usize, tick: usize) -> u8 {
        let is_here = |&&(at, of, _): &&(usize, usize, u8)| at <= tick && of == switch;
        let mut here = self.changes.iter().filter(is_here);
        here.next_back().map_or(self.first[switch], |change| change.2)
    }

    /// Returns the dependencies tick by tick of packets sent from a tick on that stay at most this long. With
    /// `lasting`, a dependency counts for ever once it existed.
    fn waits(&self, from: usize, most: usize, lasting: bool) -> Vec<BTreeSet<Wait>> {
        let mut waits = vec![BTreeSet::new(); TICKS];
        let mut coming = vec![BTreeSet::new(); TICKS];
        for arrivals in &mut coming[from..] {
            arrivals.extend(self.senders.iter().map(|&switch| (switch, None)));
        }
        for tick in from..TICKS {
            let mut done: BTreeSet<(usize, Option<(usize, u8)>)> = BTreeSet::new();
            while let Some(arrived) = coming[tick].difference(&done).next().copied() {
                done.insert(arrived);
                let (switch, came) = arrived;
                let egress = self.entry(switch, tick);
                let node = self.fabric.switches()[SwitchIdx::from_usize(switch)];
                let Some(port) = PortNum::new(egress).filter(|_| egress != 0 && egress != NO_PATH) else {
                    continue;
                };
                let Some(next) = self.fabric.peer(PortRef { node, port }) else {
                    continue;
                };
                let next = self.fabric.switch_index(next.node).unwrap().to_usize();
                let last = (tick + most).min(TICKS - 1);
                let waits_until = if lasting { TICKS - 1 } else { last };
                for waits in &mut waits[tick..=waits_until] {
                    waits.insert((came, (switch, egress)));
                }
                for arrivals in &mut coming[tick..=last] {
                    arrivals.insert((next, Some((switch, egress))));
                }
            }
        }
        waits
    }

    /// Returns the number of lifetimes for which the change with this number must be considered.
    fn asked(&self, number: usize) -> Option<u32> {
        let now = |switch: SwitchIdx| self.entry(switch.to_usize(), TICKS);
        let mut replaced = Vec::new();
        for (step, &(tick, switch, _)) in (1..).zip(&self.changes[number + 1..]) {
            let egress = self.entry(switch, tick - 1);
            let earlier = self.changes[number + 1..].iter().zip(1_u16..);
            let since = earlier
                .take_while(|(_, s)| *s < step)
                .filter(|(c, _)| c.1 == switch)
                .last();
            replaced.push(Replaced {
                entry: Entry {
                    switch: SwitchIdx::from_usize(switch),
                    lid: self.lid,
                    egress,
                },
                since: since.map_or(0, |(_, step)| step),
                until: step,
                is_emptied: false,
            });
        }
        Aging::new(&self.fabric, &self.lids, &[]).lifetimes(self.lid, now, &replaced)
    }
}

/// After the computed lifetimes, packets that were in flight when an entry changed make no dependency that packets sent
/// later do not make. One lifetime earlier some do.
#[test]
fn what_is_forgotten_makes_no_dependency_of_its_own() {
    let (mut bounded, mut tight, mut longest) = (0, 0, 0);
    for number in 0..1_500 {
        let case = Case::random(&mut Seed(77).nth(number).rng());
        if case.senders.is_empty() {
            continue;
        }
        let all = case.waits(0, LIFETIME, false);
        for forgotten in 0..case.changes.len() {
            let Some(asked) = case.asked(forgotten) else { continue };
            let changed_at = case.changes[forgotten].0;
            let since = case.waits(changed_at, TICKS, true);
            let is_other = |tick: &usize| !all[*tick].is_subset(&since[*tick]);
            let last = (changed_at..TICKS).rfind(is_other);
            let needed = last.map_or(0, |last| (last + 1 - changed_at).div_ceil(LIFETIME));
            assert!(
                asked as usize >= needed,
                "case {number}, change {forgotten}: {asked}, {needed}"
            );
            bounded += 1;
            tight += u32::from(asked as usize == needed);
            longest = longest.max(needed);
        }
    }
    println!("{bounded} changes, {tight} tight, longest {longest}");
    assert!(
        bounded > 3_000 && longest >= 4 && tight > 200,
        "{bounded} {tight} {longest}"
    );
}
