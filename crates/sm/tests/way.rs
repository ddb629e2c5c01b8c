//! Ways between the tables of any two engines, on whole and damaged fabrics: each is proved by the judge.
#![allow(clippy::unwrap_used, reason = "a test may stop")]

use selvedge_fabric::{Fabric, LinkState, PortRef};
use selvedge_plan::{ChangeSet, EngineName, Generation, Installed, Lids, Plan, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Rng, Seed};
use selvedge_sm::way::{self, WayOptions};
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange, PortState};
use selvedge_verify::JudgeOptions;
use selvedge_verify::phases::{Passage, passage};

/// A fabric under traffic, with LIDs.
#[derive(Clone)]
struct Bench {
    fabric: Fabric,
    lids: Lids,
}

fn bench(spec: &str) -> Bench {
    let Spec::Generated(recipe) = spec.parse::<Spec>().unwrap() else {
        panic!("{spec}: only generated fabrics here")
    };
    let mut fabric = recipe.fabric().unwrap();
    let mut lids = Lids::new();
    for ((at, _), lid) in fabric.end_ports().zip(1..) {
        lids.insert(at, LidRange::single(Lid(lid))).unwrap();
    }
    let ends: Vec<PortRef> = fabric.links().flat_map(|link| [link.a, link.b]).collect();
    ends.iter().for_each(|&at| set(&mut fabric, at, PortState::Active));
    for node in fabric.switches().iter().copied().collect::<Vec<_>>() {
        let mut settings = fabric.node(node).switch_settings;
        settings.lifetime = 18;
        fabric.set_switch(node, settings);
    }
    Bench { fabric, lids }
}

fn set(fabric: &mut Fabric, at: PortRef, state: PortState) {
    let port = fabric.port(at).unwrap();
    let (link, settings) = (port.link, port.settings);
    fabric.set_port(at, LinkState { state, ..link }, settings);
}

impl Bench {
    fn route(&self, engine: Engine, previous: Option<&Tables>) -> Option<Tables> {
        let options = Options {
            previous: previous.cloned().map(Into::into),
            lanes: Some(1),
            ..Options::default()
        };
        let routed = engine.route(&self.fabric, &self.lids, &options, Seed(0), Par::Sequential);
        routed.ok().map(|routed| routed.tables)
    }

    /// Cuts links between switches that leave every switch connected.
    fn cut(&mut self, rng: &mut Rng, count: usize) {
        for _ in 0..count {
            let cables: Vec<_> = self
                .fabric
                .links()
                .filter(|l| self.is_between(l.a) && self.is_between(l.b))
                .collect();
            let cable = cables[usize::try_from(rng.below(cables.len() as u64)).unwrap()];
            [cable.a, cable.b]
                .into_iter()
                .for_each(|at| set(&mut self.fabric, at, PortState::Down));
        }
    }

    fn is_between(&self, at: PortRef) -> bool {
        self.fabric.switch_index(at.node).is_some()
    }

    fn installed(&self, tables: &Tables) -> Installed {
        let mut installed = Installed::unknown(tables.switches());
        for switch in tables.switch_indices() {
            for block in 0..tables.blocks() {
                installed.learn(switch, block, *tables.block(switch, block));
            }
        }
        installed
    }

    fn plan(&self, tables: Tables) -> Plan {
        let settings = self
            .fabric
            .switches()
            .iter()
            .map(|&node| self.fabric.node(node).switch_settings);
        Plan {
            generation: Generation(7),
            engine: EngineName("test".to_owned()),
            lids: self.lids.clone(),
            tables,
            service_levels: ServiceLevels::default(),
            sl_to_vl: SlToVl::default(),
            lanes: 1,
            ports: Default::default(),
            end_ports: Default::default(),
            switches: settings.collect(),
        }
    }

    /// The way, and what the judge says of it.
    fn way(&self, from: &Tables, to: Tables) -> (ChangeSet, Passage) {
        let (installed, plan) = (self.installed(from), self.plan(to));
        let changes = way::propose(&self.fabric, &installed, &plan, &WayOptions::default());
        let passage = passage(
            &self.fabric,
            &installed,
            &plan,
            &changes,
            None,
            &JudgeOptions::default(),
        );
        (changes, passage)
    }
}

/// Steps of a way in short: entries' Sets, `+` after a wait.
fn shape(changes: &ChangeSet) -> String {
    let phase = |phase: &selvedge_plan::Phase| {
        let wait = if phase.wait_before_ns > 0 { "+" } else { "" };
        format!("{wait}{}", phase.ops.len())
    };
    changes.phases.iter().map(phase).collect::<Vec<_>>().join(" ")
}

fn check(spec: &str, from: Engine, to: Engine, want: &str) {
    let bench = bench(spec);
    let (old, new) = (bench.route(from, None).unwrap(), bench.route(to, None).unwrap());
    let (changes, passage) = bench.way(&old, new);
    let said = match &passage {
        Passage::Still => "still",
        Passage::Quick(_) | Passage::Proved(_) => "proved",
        Passage::Inherited(_) => "inherited",
        Passage::Refused(refusal) => panic!("{spec} {from:?} {to:?}: {refusal}"),
    };
    if let Passage::Proved(proof) = &passage {
        assert_eq!(proof.figures.waits_spare, [], "{spec} {from:?} {to:?}");
        assert_eq!(proof.figures.waits_short, [], "{spec} {from:?} {to:?}");
    }
    let got = format!("{said} {}", shape(&changes));
    println!("{spec} {from:?} {to:?}: {got}");
    assert_eq!(got, want, "{spec} {from:?} {to:?}");
}

#[test]
fn engines_follow_one_another() {
    check("ring:switches=6,hosts=1", Engine::UpDn, Engine::Weave, "proved 2 5 +5");
}

#[test]
fn every_way_is_proved() {
    let specs = [
        "ring:switches=6,hosts=1",
        "torus:4x4,hosts=1",
        "karytree:k=3,n=3",
        "karytree:k=4,n=2",
    ];
    let engines = [Engine::UpDn, Engine::MinHop, Engine::FatTree, Engine::Weave];
    for (number, spec) in (0..).zip(specs) {
        for cuts in 0..3 {
            let mut rng = Seed(1).nth(number * 10 + cuts).rng();
            let whole = bench(spec);
            let mut damaged = whole.clone();
            damaged.cut(&mut rng, cuts as usize);
            for from in engines {
                let Some(old) = whole.route(from, None) else { continue };
                for to in engines {
                    for keep in [None, Some(&old)] {
                        let Some(new) = damaged.route(to, keep) else { continue };
                        let (changes, passage) = damaged.way(&old, new.clone());
                        let said = match &passage {
                            Passage::Still => "still".to_owned(),
                            Passage::Quick(_) | Passage::Proved(_) => "proved".to_owned(),
                            Passage::Inherited(_) => "inherited".to_owned(),
                            Passage::Refused(refusal) => format!("REFUSED {refusal}"),
                        };
                        let kept = keep.is_some();
                        println!("{spec} cuts {cuts} {from:?} {to:?} {kept}: {said} {}", shape(&changes));
                    }
                }
            }
        }
    }
}
