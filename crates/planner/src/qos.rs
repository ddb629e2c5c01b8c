//! Quality of service of a plan: tables of every port from what the policy asks for, and what they promise.
//!
//! If a fabric cannot keep the promises of classes, a change to them fails, and the manager rolls it back. If links
//! were lost, the classes in force stay. A manager that starts takes the classes that `selvedge_qos` offers instead,
//! because a subnet without a plan would be worse.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortCapability, PortRef, PortSettings};
use selvedge_plan::qos::{
    Compiled, Hardware, Intent, Latency, LevelRef, OpenSmQos, PathRules, PlannedQos, PortLanes, Promise, QosPolicy,
    Resolved,
};
use selvedge_plan::{ArbBlock, Plan, Policy, has_sl_mapping, link_lanes};
use selvedge_qos::intent::{IntentError, Lanes, compile, tables_on};
use selvedge_qos::opensm::SubnetTables;
use selvedge_qos::opensm::policy::{Unresolved, resolved};
use selvedge_types::{Mtu, PortNum, Sl, Vl};

use crate::event::PlanEvent;

/// What a policy's quality of service means on a fabric, before routes are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meaning {
    /// The policy file, with the ports of its groups.
    pub resolved: Option<Arc<Resolved>>,
    /// Names of the policy file that lead to nothing.
    unresolved: Vec<Unresolved>,
}

impl Meaning {
    /// Finds the ports of the groups of the policy file, if there is one. `manager` is the port of the manager.
    pub(crate) fn new(fabric: &Fabric, policy: &Policy, manager: PortRef) -> Self {
        let Some(QosPolicy::OpenSm(opensm)) = policy.qos.as_deref() else {
            return Self::default();
        };
        let Some(file) = &opensm.policy else {
            return Self::default();
        };
        let (found, unresolved) = resolved(file, fabric, &policy.partitions, Some(manager));
        Self {
            resolved: Some(Arc::new(found)),
            unresolved,
        }
    }

    /// Returns the event about names that lead to nothing, if there are any.
    pub(crate) fn event(&self) -> Option<PlanEvent> {
        let first = self.unresolved.first()?.to_string();
        let names = self.unresolved.len();
        Some(PlanEvent::QosUnresolved { names, first })
    }
}

/// Returns PortInfo.VLHighLimit of a port; `None`: the policy leaves it as it is.
pub(crate) fn high_limit(fabric: &Fabric, policy: &Policy, file: Option<&Resolved>, at: PortRef) -> Option<u8> {
    match policy.qos.as_deref()? {
        QosPolicy::OpenSm(opensm) => {
            let ports = BTreeMap::new();
            let tables = subnet(fabric, opensm, file, &ports).of(at, PortNum::MANAGEMENT);
            tables.map(|tables| tables.high_limit)
        }
        // One packet of high priority, then one of low priority.
        QosPolicy::Classes(_) => Some(0),
    }
}

const fn subnet<'a>(
    fabric: &'a Fabric,
    opensm: &'a OpenSmQos,
    policy: Option<&'a Resolved>,
    ports: &'a BTreeMap<PortRef, PortSettings>,
) -> SubnetTables<'a> {
    SubnetTables {
        settings: &opensm.settings,
        policy,
        fabric,
        ports,
    }
}

/// What the quality of service of a plan depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quality<'a> {
    pub fabric: &'a Fabric,
    pub policy: &'a Policy,
    /// Planned settings of ports.
    pub ports: &'a BTreeMap<PortRef, PortSettings>,
    /// Layers of routing: number of lanes that the proof of the routes depends on.
    pub layers: u8,
    /// The plan in force, if there is one.
    pub in_force: Option<&'a Plan>,
}

impl Quality<'_> {
    /// Returns the planned quality of service; `None`: the policy asks for none, or its classes are refused while a
    /// plan without quality of service is in force.
    pub(crate) fn planned(&self, meaning: &Meaning) -> Option<PlannedQos> {
        let rules = match self.policy.qos.as_deref()? {
            QosPolicy::OpenSm(_) => PathRules::OpenSm(meaning.resolved.clone()),
            QosPolicy::Classes(intent) => PathRules::Classes(Arc::new(self.classes(intent)?)),
        };
        let promises = match &rules {
            PathRules::OpenSm(_) => Vec::new(),
            PathRules::Classes(compiled) => promises(compiled),
        };
        let mut planned = PlannedQos {
            ports: BTreeMap::new(),
            rules,
            promises,
        };
        for &at in self.ports.keys() {
            self.add(&mut planned, at);
        }
        if let (PathRules::OpenSm(file), Some(QosPolicy::OpenSm(_))) = (&planned.rules, self.policy.qos.as_deref()) {
            planned.promises = self.kept(file.as_deref(), &planned.ports);
        }
        Some(planned)
    }

    /// Returns why the fabric cannot keep the promises of the policy's classes, and what is possible; `None` if it
    /// can.
    pub(crate) fn refusal(&self) -> Option<String> {
        let QosPolicy::Classes(intent) = self.policy.qos.as_deref()? else {
            return None;
        };
        let refused = compile(intent, &hardware(self.fabric, self.ports), self.layers).err();
        refused.map(|why| why.to_string())
    }

    /// Returns the compiled classes: those of the policy; if they are refused, those in force; if there is no plan in
    /// force, those that are possible.
    fn classes(&self, intent: &Intent) -> Option<Compiled> {
        let hardware = hardware(self.fabric, self.ports);
        let refused = match compile(intent, &hardware, self.layers) {
            Ok(compiled) => return Some(compiled),
            Err(refused) => refused,
        };
        if let Some(plan) = self.in_force {
            let compiled = plan.classes().filter(|compiled| compiled.layers == self.layers);
            return compiled.map(|compiled| Compiled::clone(compiled));
        }
        let IntentError::Refused(refused) = refused else {
            return None;
        };
        let offer = &refused.offer;
        compile(&offer.intent, &hardware, offer.layers)
            .ok()
            .filter(|made| made.layers == self.layers)
    }

    /// Adds the tables of a port, if it gets any.
    pub(crate) fn add(&self, planned: &mut PlannedQos, at: PortRef) {
        let lanes = match (&planned.rules, self.policy.qos.as_deref()) {
            (PathRules::OpenSm(file), Some(QosPolicy::OpenSm(opensm))) => {
                subnet(self.fabric, opensm, file.as_deref(), self.ports).port(at)
            }
            (PathRules::Classes(compiled), _) => {
                let made = self.of_classes(compiled, at);
                made.map(|(lanes, keeps)| {
                    for (promise, keeps) in planned.promises.iter_mut().zip(keeps) {
                        match keeps {
                            true => promise.except.remove(&at),
                            false => promise.except.insert(at),
                        };
                    }
                    lanes
                })
            }
            (PathRules::OpenSm(_), _) => None,
        };
        // An agent may have declined the limit: then the port has another.
        let limit = self.ports.get(&at).map(|settings| settings.vl_high_limit);
        planned.ports.extend(lanes.map(|lanes| {
            let high_limit = limit.unwrap_or(lanes.high_limit);
            (at, PortLanes { high_limit, ..lanes })
        }));
    }

    /// Returns the tables of a port that compiled classes give it, and for each class whether its promise holds there.
    fn of_classes(&self, compiled: &Compiled, at: PortRef) -> Option<(PortLanes, Vec<bool>)> {
        let (settings, port) = (self.ports.get(&at)?, self.fabric.port(at)?);
        if at.port == PortNum::MANAGEMENT {
            return None;
        }
        let capability = &port.capability;
        let has_rows = has_sl_mapping(self.fabric.node(at.node), at.port);
        let tables = tables_on(
            compiled,
            &Lanes {
                // Without rows all packets use lane 0.
                lanes: if has_rows { link_lanes(settings) } else { 1 },
                vl_arb_high: capability.vl_arb_high,
                vl_arb_low: capability.vl_arb_low,
            },
        );
        let block = |number: u8| {
            let turns = ArbBlock::turns_of(number, capability);
            let entries = if number > 2 { &tables.high } else { &tables.low };
            let skipped = if number.is_multiple_of(2) { ArbBlock::TURNS } else { 0 };
            let mut block = ArbBlock::default();
            for (turn, entry) in block.turns.iter_mut().zip(entries.iter().skip(skipped)) {
                *turn = *entry;
            }
            // One lane needs no arbitration, but the tables of a former plan may not serve it.
            if tables.used == 1 && number == 1 {
                block.turns[0] = (Vl::default(), u8::MAX);
            }
            (turns > 0).then(|| block.cut(turns))
        };
        let lanes = PortLanes {
            row: has_rows.then_some(tables.row),
            rows: BTreeMap::new(),
            blocks: [block(1), block(2), block(3), block(4)],
            high_limit: tables.high_limit,
        };
        let is_short = !has_rows && compiled.classes.len() * usize::from(compiled.layers) > 1;
        Some((
            lanes,
            tables.keeps.into_iter().map(|keeps| keeps && !is_short).collect(),
        ))
    }

    /// Returns what OpenSM's tables promise: a lane with a turn at every hop, for the service levels that paths get. A
    /// level that some port drops or never serves has no promise.
    fn kept(&self, file: Option<&Resolved>, ports: &BTreeMap<PortRef, PortLanes>) -> Vec<Promise> {
        let promise = |class: String, levels: Vec<Sl>| Promise {
            class,
            levels,
            share: None,
            latency: Latency::Normal,
            mtu: Mtu::B4096,
            is_bounded: false,
            except: BTreeSet::new(),
        };
        if self.layers > 1 {
            let levels = (0..self.layers).filter_map(Sl::new).collect();
            return vec![promise("routing layers".to_owned(), levels)];
        }
        let mut levels: BTreeSet<Sl> = [Sl::default()].into();
        if let Some(file) = file {
            let rules = file.policy.rules.iter().map(|rule| rule.level);
            let all: Vec<LevelRef> = rules.chain([file.policy.default]).collect();
            levels.extend(all.into_iter().map(|level| file.policy.level(level).1));
        }
        let groups = self.policy.partitions.groups.values();
        levels.extend(groups.filter_map(|group| Sl::new(group.sl)));
        let has_lane = |sl: Sl| ports.values().all(|lanes| lanes.serves(sl));
        let kept = levels.into_iter().filter(|sl| has_lane(*sl));
        kept.map(|sl| promise(format!("SL {}", sl.get()), vec![sl])).collect()
    }
}

/// Returns what compiled classes promise.
fn promises(compiled: &Compiled) -> Vec<Promise> {
    let of_class = compiled.classes.iter().map(|plan| Promise {
        class: plan.class.name.clone(),
        levels: plan.sls.clone(),
        share: plan.class.share,
        latency: plan.class.latency,
        mtu: plan.mtu,
        is_bounded: true,
        except: BTreeSet::new(),
    });
    of_class.collect()
}

/// Returns what most links and their ports can do.
fn hardware(fabric: &Fabric, ports: &BTreeMap<PortRef, PortSettings>) -> Hardware {
    let of_links = || {
        let ports = ports.iter().filter(|(at, _)| at.port != PortNum::MANAGEMENT);
        ports.filter_map(|(at, settings)| {
            let capability = fabric.port(*at)?.capability;
            let far = fabric.port(fabric.peer(*at)?)?.capability;
            let rows = has_sl_mapping(fabric.node(at.node), at.port);
            let vls = if rows { capability.vls.min(far.vls).max(1) } else { 1 };
            let lanes = PortCapability::lanes_of_code(vls).max(1);
            Some((
                lanes,
                capability.vl_arb_high.min(64),
                capability.vl_arb_low.min(64),
                settings.mtu,
            ))
        })
    };
    Hardware {
        lanes: most(of_links().map(|of| of.0)).unwrap_or(1),
        vl_arb_high: most(of_links().map(|of| of.1)).unwrap_or(0),
        vl_arb_low: most(of_links().map(|of| of.2)).unwrap_or(0),
        mtu: most(of_links().map(|of| of.3)).unwrap_or(Mtu::B4096),
    }
}

/// Returns the value that occurs most often; of several, the lowest.
fn most<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    let most = *counts.values().max()?;
    counts
        .into_iter()
        .find(|(_, count)| *count == most)
        .map(|(value, _)| value)
}

/// Returns the most lanes that routes may use beside quality of service. Beside classes it is one: that classes keep
/// several layers apart while tables are written is not shown yet.
pub(crate) fn layers_beside(policy: &Policy) -> u8 {
    match policy.qos.as_deref() {
        Some(QosPolicy::Classes(_)) => 1,
        Some(QosPolicy::OpenSm(_)) | None => u8::MAX,
    }
}

/// Returns the events about the quality of service of a plan.
pub(crate) fn events(fabric: &Fabric, policy: &Policy, plan: &Plan) -> Vec<PlanEvent> {
    let mut events = Vec::new();
    let Some(wanted) = policy.qos.as_deref() else {
        return events;
    };
    let planned = plan.lane_tables.as_ref().and_then(|tables| tables.qos.as_deref());
    if let QosPolicy::Classes(intent) = wanted {
        let classes = plan.classes();
        let is_as_wanted =
            classes.is_some_and(|compiled| compiled.classes.iter().map(|plan| &plan.class).eq(&intent.classes));
        let refused = compile(intent, &hardware(fabric, &plan.ports), plan.lanes).err();
        if let Some(why) = refused.filter(|_| !is_as_wanted) {
            let (why, instead) = match (why, classes) {
                (IntentError::Refused(refused), Some(made)) => {
                    let offered = made
                        .classes
                        .iter()
                        .map(|plan| &plan.class)
                        .eq(&refused.offer.intent.classes);
                    let instead = if offered {
                        "the possible classes"
                    } else {
                        "the classes in force"
                    };
                    (refused.to_string(), instead)
                }
                (why, Some(_)) => (why.to_string(), "the classes in force"),
                (why, None) => (why.to_string(), "no classes"),
            };
            events.push(PlanEvent::QosRefused { why, instead });
        }
    }
    let broken = || {
        let promises = planned.iter().flat_map(|planned| &planned.promises);
        promises.flat_map(|promise| promise.except.iter().map(move |at| (*at, promise)))
    };
    let ports: BTreeSet<PortRef> = broken().map(|(at, _)| at).collect();
    if let Some((at, promise)) = broken().min_by_key(|(at, _)| *at) {
        events.push(PlanEvent::QosShort {
            ports: ports.len(),
            first: (fabric.port_name(at), promise.class.clone()),
        });
    }
    events
}
