//! Derives conditions and a verdict from facts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use selvedge_types::{Guid, PhysState};

use crate::facts::{
    AbsentLink, AbsentNode, Deviation, Duty, EndState, Facts, ForeignKey, How, NotStored, Peer, PeerTrouble, Role,
};
use crate::known::LinkKey;
use crate::place::{End, NodeName, Place};
use crate::{Condition, Health, Severity, Since, Verdict, What};

/// Largest number of ends that a text names; the others are only counted.
const NAMED_MAX: usize = 3;

/// Returns the conditions that these facts show, and the verdict. A condition gets `now` as the time when it began,
/// unless its fact has a time of its own.
#[must_use]
pub fn assess(facts: &Facts, now: Since) -> Health {
    let mut conditions = of_process(facts, now);
    match &facts.own_port_down {
        // The manager cannot see the fabric, so it reports no conditions of it.
        Some(why) => conditions.push(condition(
            What::OwnPortDown,
            Severity::Error,
            Place::Manager,
            now,
            &**why,
        )),
        None if facts.duty == Duty::Manage && facts.role == Role::Standby => {}
        None => {
            conditions.extend(of_fabric(facts, now));
            conditions.extend(of_expected(facts, now));
            conditions.extend(of_plan(facts, now));
            conditions.extend(of_alarms(facts));
            conditions.extend(facts.peers.iter().filter_map(|peer| of_peer(facts.role, peer, now)));
        }
    }
    // The sort is stable: conditions of one severity stay in the order in which they were found.
    conditions.sort_by_key(|condition| std::cmp::Reverse(condition.severity));
    let worst = conditions.first().map(|condition| condition.severity);
    Health {
        verdict: verdict(facts, worst),
        conditions,
    }
}

fn verdict(facts: &Facts, worst: Option<Severity>) -> Verdict {
    match (worst, facts.duty, facts.role) {
        (Some(Severity::Error), ..) => Verdict::Failed,
        (Some(Severity::Warning), ..) => Verdict::Degraded,
        (None, Duty::Manage, Role::Standby) => Verdict::StandbyReady,
        (None, Duty::Manage, Role::Master) if facts.is_planned => Verdict::Healthy,
        (None, Duty::Manage, Role::Discovering | Role::Master | Role::NotActive) => Verdict::Starting,
        (None, Duty::DryRun | Duty::Watch, _) if !facts.has_swept => Verdict::Starting,
        (None, Duty::DryRun | Duty::Watch, _) if facts.is_managed => Verdict::Watching,
        (None, Duty::DryRun | Duty::Watch, _) => Verdict::Unmanaged,
    }
}

fn condition(what: What, severity: Severity, place: Place, since: Since, evidence: impl Into<String>) -> Condition {
    Condition {
        what,
        place,
        since,
        evidence: evidence.into(),
        severity,
    }
}

/// Returns the conditions of the process.
fn of_process(facts: &Facts, now: Since) -> Vec<Condition> {
    let mut conditions = Vec::new();
    if let Some(first) = facts.not_stored.first() {
        let of_one = |not: &NotStored| format!("{}: {}", not.what, not.error);
        let evidence: Vec<String> = facts.not_stored.iter().map(of_one).collect();
        let evidence = evidence.join("; ");
        conditions.push(condition(
            What::NotStored,
            Severity::Warning,
            Place::Manager,
            first.since,
            evidence,
        ));
    }
    if let Some(why) = &facts.history_stopped {
        let what = What::HistoryStopped;
        conditions.push(condition(what, Severity::Warning, Place::Manager, now, why.to_string()));
    }
    if facts.duty == Duty::Manage && facts.role == Role::NotActive {
        let evidence = "its SMInfo state is NOTACTIVE";
        conditions.push(condition(
            What::Disabled,
            Severity::Error,
            Place::Manager,
            now,
            evidence,
        ));
    }
    if facts.is_sm_cleared && facts.own_port_down.is_none() {
        let evidence = "CapabilityMask of the port was read without IsSM, so other managers do not find this one";
        conditions.push(condition(
            What::IsSmCleared,
            Severity::Warning,
            Place::Manager,
            now,
            evidence,
        ));
    }
    conditions
}

/// Returns the condition of another manager. A manager that is not master gives way to a master.
fn of_peer(own: Role, peer: &Peer, now: Since) -> Option<Condition> {
    let guid = peer.port_guid;
    let place = Place::Peer(peer.at.clone());
    Some(match peer.trouble {
        PeerTrouble::Gone { since, sign } => {
            let evidence = format!("port GUID {guid}: {sign}");
            condition(What::StandbyGone, Severity::Warning, place, since, evidence)
        }
        PeerTrouble::Master { .. } if own != Role::Master => return None,
        PeerTrouble::Master { priority } => {
            let evidence = format!("port GUID {guid}, priority {priority}: both managers write to this subnet");
            condition(What::SecondMaster, Severity::Error, place, now, evidence)
        }
        PeerTrouble::OtherKey(role) => {
            let (severity, then) = match role {
                Role::Master => (Severity::Error, ": both managers write to this subnet"),
                Role::Discovering | Role::Standby | Role::NotActive => (Severity::Warning, ""),
            };
            let evidence = format!("port GUID {guid}, SMInfo state {role}{then}");
            condition(What::OtherSmKey, severity, place, now, evidence)
        }
    })
}

/// Returns the conditions of nodes and links.
fn of_fabric(facts: &Facts, now: Since) -> Vec<Condition> {
    let (absent, out) = (&facts.absent, &facts.out_of_service);
    let nodes = absent
        .nodes
        .iter()
        .filter(|node| !out.has_node(node))
        .map(of_absent_node);
    let silent = absent.silent.iter().filter(|(node, _)| !out.nodes.contains(&node.guid));
    let silent = silent.map(|(node, at)| of_silent(node, at.as_ref(), now));
    let links = absent
        .links
        .iter()
        .filter(|link| !out.has_link(link))
        .map(of_absent_link);
    nodes.chain(silent).chain(links).collect()
}

fn of_absent_node(absent: &AbsentNode) -> Condition {
    let what = match absent.how {
        How::Silent(_) => What::AgentSilent,
        How::NoLink | How::Behind(_) | How::Unknown => What::NodeMissing,
    };
    let mut evidence = absent.how.to_string();
    if !absent.was_at.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(evidence, "; it was cabled to {}", named(&absent.was_at));
    }
    let place = Place::Node(absent.node.clone());
    condition(what, Severity::Warning, place, absent.since, evidence)
}

fn of_silent(node: &NodeName, at: Option<&End>, now: Since) -> Condition {
    let evidence = at.map_or_else(String::new, |at| {
        format!("the link at {at} is up; packets still follow the tables and settings that it had")
    });
    let place = Place::Node(node.clone());
    condition(What::AgentSilent, Severity::Warning, place, now, evidence)
}

fn of_absent_link(absent: &AbsentLink) -> Condition {
    let (a, b) = &absent.ends;
    let state = |end: &End, state: EndState| match state {
        Some((state, phys)) => format!("{end} is {state} ({})", phys_words(phys)),
        None => format!("the state of {end} is not known"),
    };
    let evidence = match &absent.note {
        Some(why) => why.clone(),
        None => format!("{}, {}", state(a, absent.states.0), state(b, absent.states.1)),
    };
    let place = Place::Link(a.clone(), b.clone());
    condition(What::LinkMissing, Severity::Warning, place, absent.since, evidence)
}

/// Returns the deviations from the expected topology. A node or link that is reported as missing already is not
/// reported twice.
fn of_expected(facts: &Facts, now: Since) -> Vec<Condition> {
    let gone: BTreeSet<Guid> = facts.absent.nodes.iter().map(|absent| absent.node.guid).collect();
    let lost: BTreeSet<LinkKey> = facts.absent.links.iter().map(AbsentLink::key).collect();
    let is_told = |deviation: &&Deviation| match &deviation.place {
        Place::Node(node) => gone.contains(&node.guid),
        Place::Link(a, b) => {
            let (a, b) = ((a.node, a.port), (b.node, b.port));
            lost.contains(&(a.min(b), a.max(b)))
        }
        Place::Manager | Place::Port(_) | Place::Peer(_) => false,
    };
    let is_out = |deviation: &&Deviation| facts.out_of_service.has_place(&deviation.place);
    let is_new =
        |deviation: &&Deviation| deviation.what != What::ExpectedMissing || !is_told(deviation) && !is_out(deviation);
    let of_one = |deviation: &Deviation| {
        let (what, place) = (deviation.what, deviation.place.clone());
        condition(what, Severity::Warning, place, now, deviation.evidence.clone())
    };
    facts.deviations.iter().filter(is_new).map(of_one).collect()
}

/// Returns the alarms of telemetry. They are warnings, however grave the alarm is: the manager can do its work. Alarms
/// of one kind at one link are one condition, which began with the first of them.
fn of_alarms(facts: &Facts) -> Vec<Condition> {
    let mut merged: BTreeMap<(What, &Place), Condition> = BTreeMap::new();
    for alarm in facts
        .alarms
        .iter()
        .filter(|alarm| !facts.out_of_service.has_place(&alarm.place))
    {
        let (what, place) = (alarm.what, alarm.place.clone());
        let new = || condition(what, Severity::Warning, place, alarm.since, alarm.evidence.clone());
        merged
            .entry((alarm.what, &alarm.place))
            .and_modify(|first| {
                first.evidence = format!("{}; {}", first.evidence, alarm.evidence);
                if let (Since::Run(first_at), Since::Run(at)) = (first.since, alarm.since) {
                    first.since = Since::Run(first_at.min(at));
                }
            })
            .or_insert_with(new);
    }
    merged.into_values().collect()
}

/// Returns PortPhysicalState in the words of ibstat. Source: IBA vol 1 §14.2.5.6.
const fn phys_words(phys: PhysState) -> &'static str {
    match phys {
        PhysState::Sleep => "Sleep",
        PhysState::Polling => "Polling",
        PhysState::Disabled => "Disabled",
        PhysState::Training => "PortConfigurationTraining",
        PhysState::LinkUp => "LinkUp",
        PhysState::Recovery => "LinkErrorRecovery",
        PhysState::PhyTest => "Phy Test",
    }
}

/// Returns the conditions of the plan.
fn of_plan(facts: &Facts, now: Since) -> Vec<Condition> {
    let mut conditions = Vec::new();
    let mut add = |what, severity, evidence: &str| {
        conditions.push(condition(what, severity, Place::Manager, now, evidence));
    };
    if let Some(refused) = &facts.refused {
        let (severity, instead) = match refused.in_force {
            Some(generation) => (
                Severity::Warning,
                format!("the plan of generation {generation} stays in force"),
            ),
            None => (
                Severity::Error,
                "nothing is sent, switches keep the tables that they have".to_owned(),
            ),
        };
        add(What::PlanRefused, severity, &format!("{}; {instead}", refused.why));
    }
    if let Some(ForeignKey { ports, is_anothers }) = &facts.m_key_foreign {
        let (severity, instead) = match is_anothers {
            true => (Severity::Error, "nothing is sent"),
            false => (Severity::Warning, "the other ports are managed"),
        };
        add(
            What::MKeyForeign,
            severity,
            &format!("these ports refuse Sets, and {instead}: {ports}"),
        );
    }
    if let Some(ports) = &facts.m_key_former {
        let evidence = format!("these ports got a Set of the configured M_Key and still have a former one: {ports}");
        add(What::MKeyFormer, Severity::Warning, &evidence);
    }
    if facts.sets_failed > 0 {
        let evidence = format!("{} of the plan in force", facts.sets_failed);
        add(What::SetsFailed, Severity::Warning, &evidence);
    }
    if let Some(change) = &facts.rolled_back {
        let evidence = format!("{change}; the policy before it is in force");
        add(What::ChangeRolledBack, Severity::Warning, &evidence);
    }
    if let Some(apart) = &facts.apart {
        add(What::HostsApart, Severity::Warning, apart);
    }
    conditions
}

/// Returns the names of the first few ends, and the number of the others.
fn named(ends: &[End]) -> String {
    let first: Vec<String> = ends.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    match ends.len().saturating_sub(NAMED_MAX) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
