//! Finds witnesses: packets that make the turns of a cycle, and switches among which packets of a LID loop.

use std::collections::BTreeMap;

use selvedge_fabric::{PortRef, SwitchIdx};
use selvedge_types::{Idx, PortNum, Vl};

use super::drift::Drift;
use super::net::{Net, Owner, Way};
use super::report::{Era, MixedStep, PhaseFault};
use super::trial::{Bad, LidPlan, Trial};
use super::turns::Turn;
use crate::finding::{Hop, Place, Step, Traffic};

/// Finds witnesses for one trial with its waits.
#[derive(Debug)]
pub struct Finder<'a> {
    /// The trial.
    pub trial: &'a Trial<'a>,
    /// The waits of the trial.
    pub waits: &'a [bool],
}

impl Finder<'_> {
    /// Returns for each turn of a cycle a packet that makes it.
    pub fn of_cycle(&self, bad: &Bad) -> Vec<MixedStep> {
        let trial = self.trial;
        let next = bad.cycle.iter().cycle().skip(1);
        let turns: Vec<Turn> = bad
            .cycle
            .iter()
            .zip(next)
            .map(|(&held, &wanted)| turn(held, wanted))
            .collect();
        let mut open: BTreeMap<Turn, Option<MixedStep>> = turns.iter().map(|&turn| (turn, None)).collect();
        let mut missing = open.len();
        // Treats this step as the last, so that the arrays describe its window.
        let waits = &self.waits[..=bad.step as usize];
        let mut drift = Drift::new(&trial.net, trial.subject.tables, &trial.rules);
        let others = trial.others.iter().map(|&lid| LidPlan {
            lid,
            owner: trial.net.owner(trial.subject.fabric, trial.subject.lids, lid),
            writes: Vec::new(),
        });
        for plan in trial.plans.iter().cloned().chain(others) {
            if missing == 0 {
                break;
            }
            let done = plan.writes.iter().take_while(|write| write.0 <= bad.step).count();
            drift.follow(plan.lid, plan.owner, &plan.writes[..done], waits);
            let counts = |traffic: Traffic| traffic as usize <= bad.traffic as usize;
            for made in drift
                .made
                .iter()
                .filter(|made| made.until > bad.step && counts(made.traffic))
            {
                if let Some(place @ None) = open.get_mut(&made.turn) {
                    *place = self.step(&drift, &plan, made.turn, (made.traffic, bad.step));
                    missing -= usize::from(place.is_some());
                }
            }
        }
        turns
            .iter()
            .filter_map(|turn| open.get(turn).cloned().flatten())
            .collect()
    }

    fn step(
        &self,
        drift: &Drift<'_>,
        plan: &LidPlan,
        turn: Turn,
        (traffic, step): (Traffic, u32),
    ) -> Option<MixedStep> {
        let trial = self.trial;
        let (held, wanted) = (
            trial.net.channels[turn.from as usize],
            trial.net.channels[turn.to as usize],
        );
        let first = trial.net.channels[drift.origin(turn.from, traffic) as usize].src;
        let eras = [
            era(trial, plan, held.src, held.out, step),
            era(trial, plan, wanted.src, wanted.out, step),
        ];
        Some(MixedStep {
            step: Step {
                source: self.source(plan, first, traffic),
                lid: plan.lid,
                from_vl: Vl::new(turn.from_vl)?,
                hop: Hop {
                    switch: self.place(held.dst),
                    ingress: PortNum::new(held.into)?,
                    egress: wanted.out,
                    vl: Vl::new(turn.to_vl),
                },
            },
            era: if eras.contains(&Era::Ghost) {
                Era::Ghost
            } else {
                eras[1]
            },
        })
    }

    fn source(&self, plan: &LidPlan, switch: u32, traffic: Traffic) -> Place {
        let fabric = self.trial.subject.fabric;
        let owner = self.trial.subject.lids.owner(plan.lid);
        let mut hosts = self.trial.net.hosts_of(switch as usize).iter().map(|host| host.at);
        let port0 = PortRef {
            node: fabric.switches()[SwitchIdx(switch)],
            port: PortNum::MANAGEMENT,
        };
        let host = if traffic == Traffic::Hosts {
            hosts.find(|at| Some(*at) != owner)
        } else {
            None
        };
        Place::port(fabric, host.unwrap_or(port0))
    }

    fn place(&self, switch: u32) -> Place {
        let fabric = self.trial.subject.fabric;
        Place::node(fabric, fabric.switches()[SwitchIdx(switch)])
    }

    /// Returns a loop that packets of a LID may follow during a step, made by traffic up to `upto`.
    pub fn of_loop(&self, plan: &LidPlan, step: u32, upto: Traffic) -> Option<PhaseFault> {
        let trial = self.trial;
        let own = if matches!(plan.owner, Owner::Switch(_)) {
            Traffic::Switches
        } else {
            Traffic::Agents
        };
        let mut column: Vec<[u8; 2]> = (0..trial.net.switches)
            .map(|switch| [trial.subject.tables.get(SwitchIdx::from_usize(switch), plan.lid); 2])
            .collect();
        for &(at, switch, entry) in plan.writes.iter().take_while(|write| write.0 <= step) {
            let pair = &mut column[switch as usize];
            *pair = if at == step { [pair[0], entry] } else { [entry; 2] };
        }
        let leaf = |switch: usize| {
            let hosts = trial.net.hosts_of(switch).len();
            hosts > usize::from(matches!(plan.owner, Owner::Host(_, leaf) if leaf as usize == switch))
        };
        for traffic in [Traffic::Hosts, own] {
            if traffic as usize > upto as usize {
                return None;
            }
            let starts = (0..trial.net.switches).filter(|&s| traffic != Traffic::Hosts || leaf(s));
            if let Some(circle) = circle(&trial.net, &column, starts) {
                let owner = trial.subject.lids.owner(plan.lid);
                return Some(PhaseFault::MixedLoop {
                    traffic,
                    lid: plan.lid,
                    owner: owner.map_or_else(|| self.place(circle[0]), |at| Place::port(trial.subject.fabric, at)),
                    switches: circle.into_iter().map(|switch| self.place(switch)).collect(),
                });
            }
        }
        None
    }
}

/// Returns the switches of a loop that can be reached from `starts`, if there is one. Searches depth-first until a
/// switch on the path repeats.
fn circle(net: &Net, column: &[[u8; 2]], starts: impl Iterator<Item = usize>) -> Option<Vec<u32>> {
    const NEW: usize = usize::MAX;
    const DONE: usize = usize::MAX - 1;
    let next = |switch: u32, way: usize| match net.way(switch as usize, column[switch as usize][way]) {
        Way::Channel(channel) => Some(net.channels[channel as usize].dst),
        Way::Host(_) | Way::Own | Way::Dead => None,
    };
    let mut place = vec![NEW; net.switches];
    for start in starts {
        if place[start] != NEW {
            continue;
        }
        place[start] = 0;
        let mut path = vec![(start as u32, 0)];
        while let Some((switch, way)) = path.last_mut() {
            let (at, which) = (*switch, *way);
            if which == 2 {
                place[at as usize] = DONE;
                path.pop();
                continue;
            }
            *way += 1;
            let Some(to) = next(at, which) else { continue };
            match place[to as usize] {
                DONE => {}
                NEW => {
                    place[to as usize] = path.len();
                    path.push((to, 0));
                }
                first => return Some(path[first..].iter().map(|(switch, _)| *switch).collect()),
            }
        }
    }
    None
}

const fn turn((from_vl, from): (u8, u32), (to_vl, to): (u8, u32)) -> Turn {
    Turn {
        from,
        to,
        from_vl,
        to_vl,
    }
}

/// Returns the time at which an entry is in force, relative to a step.
fn era(trial: &Trial<'_>, plan: &LidPlan, switch: u32, entry: u8, step: u32) -> Era {
    if plan.writes.is_empty() {
        return Era::Standing;
    }
    let mut before = trial.subject.tables.get(SwitchIdx(switch), plan.lid);
    let mut written = None;
    for &(at, _, to) in plan
        .writes
        .iter()
        .filter(|(at, place, _)| *place == switch && *at <= step)
    {
        if at == step {
            written = Some(to);
        } else {
            before = to;
        }
    }
    match written {
        Some(to) if to == entry => Era::New,
        Some(_) if before == entry => Era::Old,
        None if before == entry => Era::InForce,
        _ => Era::Ghost,
    }
}
