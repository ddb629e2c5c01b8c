//! Drawn single faults, each for a run of its own: do connections survive with migration and repair?

use selvedge_api::Migration;
use selvedge_fabric::{Fabric, PortRef};
use selvedge_sim::Seed;
use selvedge_study::migration::{Mode, Question, cables};
use selvedge_workload::Pattern;
use serde_json::{Value as Json, json};

use super::{Args, Case, PS_PER_US, REPAIR_US, Variant, answer, cut};
use crate::error::BenchError;

/// A fault after which queue pairs were in ERR.
struct Exception {
    cable: String,
    qp_errors: u64,
    why: &'static str,
}

/// What drawn faults did.
pub struct Single {
    variant: &'static str,
    faults: u32,
    /// Faults that lost a packet or made a connection migrate.
    with_effect: u32,
    qp_errors: u64,
    exceptions: Vec<Exception>,
}

impl Single {
    pub fn json(&self) -> Json {
        let exception = |of: &Exception| json!({ "cable": of.cable, "qp_errors": of.qp_errors, "why": of.why });
        json!({
            "hosts": self.variant,
            "faults": self.faults,
            "with_effect": self.with_effect,
            "qp_errors": self.qp_errors,
            "exceptions": self.exceptions.iter().map(exception).collect::<Vec<_>>(),
        })
    }
}

/// Time of the fault, and of the whole run.
const AT_US: u64 = 200;

/// Cuts drawn cables one at a time, those of hosts too. Traffic is that of the hosts nearest to the cable.
pub fn measure(variant: &Variant, args: &Args) -> Result<Single, BenchError> {
    let case = Case::new("APM and repair", Mode::Request, Some(REPAIR_US));
    let all = cables(&variant.fabric);
    let mut rng = Seed(args.draw).child("single").rng();
    let mut single = Single {
        variant: variant.name,
        faults: args.single_faults,
        with_effect: 0,
        qp_errors: 0,
        exceptions: Vec::new(),
    };
    for _ in 0..args.single_faults {
        let cable = all[rng.below(all.len() as u64) as usize];
        let found = answer(&one_fault(variant, args, &case, cable)?)?;
        let run = &found.run;
        single.with_effect += u32::from(run.packets_lost + run.migrations > 0);
        single.qp_errors += run.qp_errors;
        if run.qp_errors > 0 {
            single.exceptions.push(Exception {
                cable: variant.fabric.link_name_of(cable),
                qp_errors: run.qp_errors,
                why: why(&variant.fabric, cable, &found),
            });
        }
    }
    Ok(single)
}

/// Asks what the cut of a cable does, with the traffic of the hosts nearest to it.
pub fn one_fault(variant: &Variant, args: &Args, case: &Case, cable: PortRef) -> Result<Question, BenchError> {
    let mut question = variant.question(args, case)?;
    question.compare = false;
    question.pattern = near(&variant.fabric, cable);
    // Until repeats are used up, should nothing help.
    let patience = (4_096_u64 << args.ack_timeout) * (u64::from(args.retries) + 2);
    question.settings.duration_ns = (AT_US + REPAIR_US) * 1_000 + patience;
    question.settings.link = "1x-sdr".parse().ok();
    question.changes.push(cut(&variant.fabric, cable, AT_US * PS_PER_US));
    Ok(question)
}

/// Returns the ports of hosts, in order.
fn hosts(fabric: &Fabric) -> Vec<PortRef> {
    let mut found: Vec<PortRef> = fabric.end_ports().map(|(at, _)| at).collect();
    found.retain(|at| !fabric.node(at.node).is_switch());
    found.dedup_by_key(|at| at.node);
    found
}

/// Returns traffic over the cable: hosts at either of its ends, or all of them, to hosts half of the fabric away.
fn near(fabric: &Fabric, cable: PortRef) -> Pattern {
    let hosts = hosts(fabric);
    let count = hosts.len() as u32;
    let ends: Vec<_> = std::iter::once(cable)
        .chain(fabric.peer(cable))
        .map(|end| end.node)
        .collect();
    let is_near = |host: &PortRef| {
        let ports = fabric.node(host.node).external_ports();
        let peers = ports.filter_map(|(_, port)| port.peer).map(|peer| peer.node);
        ends.contains(&host.node) || peers.into_iter().any(|peer| ends.contains(&peer))
    };
    let numbered = (0..).zip(&hosts);
    let mut senders: Vec<u32> = numbered.filter(|(_, at)| is_near(at)).map(|(host, _)| host).collect();
    if senders.is_empty() {
        senders = (0..count).collect();
    }
    let pairs = senders.into_iter().map(|host| (host, (host + count / 2) % count));
    Pattern::Pairs(pairs.collect())
}

/// Returns why connections could not survive.
fn why(fabric: &Fabric, cable: PortRef, found: &Migration) -> &'static str {
    let ends: Vec<PortRef> = std::iter::once(cable).chain(fabric.peer(cable)).collect();
    let only = |end: &PortRef| {
        let node = fabric.node(end.node);
        let cabled = node.external_ports().filter(|(_, port)| port.peer.is_some());
        !node.is_switch() && cabled.count() == 1
    };
    if ends.iter().any(only) {
        "the only port of a host"
    } else if found.run.dead_alternates > 0 {
        "the alternate path uses the cable as well"
    } else {
        "connections were not armed"
    }
}

/// Returns a table, and the exceptions by reason.
pub fn markdown(singles: &[Single]) -> String {
    let mut text =
        "| hosts | single faults | with effect | queue pairs in ERR | faults with such |\n|---|---|---|---|---|\n"
            .to_owned();
    for single in singles {
        let Single {
            variant,
            faults,
            with_effect,
            qp_errors,
            exceptions,
        } = single;
        text += &format!(
            "| {variant} | {faults} | {with_effect} | {qp_errors} | {} |\n",
            exceptions.len()
        );
    }
    for single in singles {
        let mut reasons: Vec<&str> = single.exceptions.iter().map(|of| of.why).collect();
        reasons.sort_unstable();
        reasons.dedup();
        for why in reasons {
            let of = single.exceptions.iter().filter(|of| of.why == why);
            let named: Vec<&str> = of.clone().take(3).map(|of| of.cable.as_str()).collect();
            text += &format!(
                "\n{}: {why}: {} faults, as {}",
                single.variant,
                of.count(),
                named.join("; ")
            );
        }
    }
    text + "\n"
}
