//! Prints the state of the run.

use std::collections::BTreeMap;

use selvedge_chassis::{Chassis, Egress};
use selvedge_emulator::{DropReason, NodeName, PortName};
use selvedge_fabric::NodeIdx;
use selvedge_health::{Since, assess};
use selvedge_planner::PortReason;
use selvedge_sim::Time;
use selvedge_types::PortNum;
use selvedge_wire::{AttributeId, Class, Method};

use super::ScriptError;
use super::run::{Runner, emulator, held_lids};
use super::words::syntax;
use crate::subnet::{Subnets, ports_of};
use crate::{LogEntry, ManagerId};

/// Characters of an event that are shown.
const LINE_MAX: usize = 180;
/// Number of lines of one kind that are shown; the others are only counted.
const SHOWN_MAX: usize = 40;

impl Runner<'_> {
    pub(super) fn show(&mut self, what: &[&str], out: &mut Vec<String>) -> Result<(), ScriptError> {
        match *what {
            ["events"] => {
                let all: Vec<ManagerId> = self.managers.values().map(|(id, _)| *id).collect();
                self.events(&all, out)
            }
            ["events", name] => {
                let id = self.id(name)?;
                self.events(&[id], out)
            }
            ["ports", name] => self.ports(name, out),
            ["status", name] => self.status(name, out),
            ["health", name] => self.health(name, out),
            ["judge", name] => self.verdict(name, out),
            ["unreachable", name] => self.unreachable(name, out),
            ["lids"] => self.lids(out),
            ["sets"] => self.sets(out),
            ["cost"] => self.cost(out),
            ["drops"] => self.drops(out),
            ["traps"] => self.traps(out),
            ["counts", name] => self.counts(name, out),
            ["asked"] => {
                let asks = self.world()?.asks() - self.mark.asks;
                out.push(format!("{asks} hosts asked to register again"));
                Ok(())
            }
            ["loops"] => {
                out.push(format!("{} forwarding loops met half-way", self.world()?.loops_met()));
                Ok(())
            }
            ["path", from, to] => self.path(from, to, out),
            _ => Err(syntax(&what.join(" "), super::GRAMMAR)),
        }
    }

    /// Prints the events since they were last shown, with their time to a tenth of a second.
    fn events(&mut self, of: &[ManagerId], out: &mut Vec<String>) -> Result<(), ScriptError> {
        let world = self.world()?;
        let names: Vec<&str> = world.managers().map(|(_, name)| name).collect();
        let entries = world.log().iter().enumerate();
        let is_new =
            |i: usize, e: &LogEntry| of.contains(&e.manager) && i >= self.shown.get(&e.manager).copied().unwrap_or(0);
        let new = entries.filter(|(i, e)| is_new(*i, e));
        let line = |e: &LogEntry| shortened(format!("{} {} {}", tenths(e.at), names[e.manager.0], e.event));
        let lines: Vec<String> = new.map(|(_, e)| line(e)).collect();
        let logged = world.log().len();
        out.extend(limited(lines));
        self.shown.extend(of.iter().map(|id| (*id, logged)));
        Ok(())
    }

    fn ports(&self, name: &str, out: &mut Vec<String>) -> Result<(), ScriptError> {
        let view = self.view(name)?;
        let Some(fabric) = &view.fabric else { return Ok(()) };
        let lines = view.ports.iter().map(|p| {
            let reason: PortReason = p.reason;
            format!("{} {} {reason}", fabric.port_name(p.port), reason.code())
        });
        out.extend(limited(lines.collect()));
        Ok(())
    }

    fn status(&self, name: &str, out: &mut Vec<String>) -> Result<(), ScriptError> {
        let view = self.view(name)?;
        let engine = view.plan.as_ref().map_or("no plan", |p| p.engine.0.as_str());
        let up = if view.is_up() { "up" } else { "not up" };
        out.push(format!(
            "{} {}, {up}, {engine}, sweep {}",
            view.role, view.stage, view.sweeps.ended
        ));
        Ok(())
    }

    /// Prints the verdict and the conditions as `selvedge status` does.
    fn health(&self, name: &str, out: &mut Vec<String>) -> Result<(), ScriptError> {
        let health = assess(&self.view(name)?.facts, Since::Run(self.world()?.now()));
        out.push(health.summary());
        for condition in &health.conditions {
            out.push(format!("{}: {condition}", condition.what.code()));
            out.push(format!("  cleared when: {}", condition.clears()));
        }
        Ok(())
    }

    /// Prints the judge's verdict on the plan in force, and on the installed tables.
    fn verdict(&self, name: &str, out: &mut Vec<String>) -> Result<(), ScriptError> {
        let planned = self.view(name)?.verdict;
        let observed = self.observed(name)?;
        let verdicts = [
            ("plan", planned.as_deref().cloned()),
            ("installed", Some(observed.judge())),
        ];
        for (what, verdict) in verdicts.into_iter().filter_map(|(what, v)| Some((what, v?))) {
            let word = if verdict.is_ok() { "accepted" } else { "refused" };
            let pairs = (verdict.figures.host_pairs_reached, verdict.figures.host_pairs);
            out.push(format!("{what}: {word}, {} of {} host pairs reached", pairs.0, pairs.1));
            out.extend(
                verdict
                    .totals
                    .iter()
                    .map(|t| format!("{} {:?} {:?} x{}", t.code, t.severity, t.kind, t.count)),
            );
        }
        Ok(())
    }

    /// Prints the nodes that the manager cannot reach.
    fn unreachable(&self, name: &str, out: &mut Vec<String>) -> Result<(), ScriptError> {
        let at = self.port_of(name)?;
        let chassis = self.world()?.emulator().chassis();
        let subnets = Subnets::of(chassis);
        let nodes = chassis.fabric().nodes().iter_enumerated();
        let gone = nodes.filter(|(node, _)| !ports_of(chassis, *node).any(|port| subnets.connected(port, at)));
        out.extend(limited(gone.map(|(_, n)| format!("\"{}\"", n.description)).collect()));
        Ok(())
    }

    fn lids(&self, out: &mut Vec<String>) -> Result<(), ScriptError> {
        let world = self.world()?;
        let mut held: Vec<_> = held_lids(world).into_iter().map(|(at, range)| (range, at)).collect();
        held.sort_unstable_by_key(|(range, at)| (range.base, *at));
        let fabric = world.emulator().chassis().fabric();
        let line = |(range, at): &(selvedge_types::LidRange, _)| match range.lmc.get() {
            0 => format!("{} {}", range.base, fabric.port_name(*at)),
            lmc => format!("{} {} (LMC {lmc})", range.base, fabric.port_name(*at)),
        };
        out.extend(limited(held.iter().map(line).collect()));
        Ok(())
    }

    /// Prints the number of MADs that managers have sent since the last `mark`, and the time since.
    fn cost(&self, out: &mut Vec<String>) -> Result<(), ScriptError> {
        let world = self.world()?;
        let sent = world.emulator().counts().sent.total() - self.mark.counts.sent.total();
        let took = world.now().since(self.mark.at);
        out.push(format!("{sent} MADs sent in {:.1} ms", took.as_secs_f64() * 1e3));
        Ok(())
    }

    /// Prints the number of Sets that agents carried out since the last `mark`, by attribute.
    fn sets(&self, out: &mut Vec<String>) -> Result<(), ScriptError> {
        let (now, before) = (self.world()?.emulator().counts(), &self.mark.counts);
        let kinds = [
            ("LinearForwardingTable", AttributeId::LINEAR_FORWARDING),
            ("PortInfo", AttributeId::PORT_INFO),
            ("SwitchInfo", AttributeId::SWITCH_INFO),
            ("P_KeyTable", AttributeId::PKEY_TABLE),
            ("SLtoVLMappingTable", AttributeId::SL_TO_VL),
            ("VLArbitrationTable", AttributeId::VL_ARBITRATION),
        ];
        let count = |attribute| {
            let of =
                |counts: &selvedge_emulator::Counts| counts.accepted.of(Class::SubnDirected, Method::Set, attribute);
            of(now) - of(before)
        };
        let texts: Vec<String> = kinds
            .into_iter()
            .map(|(name, attribute)| (name, count(attribute)))
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        out.push(if texts.is_empty() {
            "no Set".to_owned()
        } else {
            texts.join(", ")
        });
        Ok(())
    }

    /// Prints the traps since the last `mark`. A trap is repeated until it is acknowledged.
    fn traps(&self, out: &mut Vec<String>) -> Result<(), ScriptError> {
        let (now, before) = (self.world()?.emulator().counts(), &self.mark.counts);
        let repressed = now.accepted.of_method(Method::TrapRepress) - before.accepted.of_method(Method::TrapRepress);
        out.push(format!(
            "{} traps sent, {repressed} acknowledged",
            now.traps - before.traps
        ));
        Ok(())
    }

    /// Prints how often each event happened since the last `mark`.
    fn counts(&self, name: &str, out: &mut Vec<String>) -> Result<(), ScriptError> {
        let id = self.id(name)?;
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in self.world()?.log()[self.mark.logged..]
            .iter()
            .filter(|e| e.manager == id)
        {
            *counts.entry(entry.event.code()).or_default() += 1;
        }
        out.extend(counts.iter().map(|(code, count)| format!("{count} {code}")));
        Ok(())
    }

    /// Prints the number of datagrams dropped since the last `mark`, by reason.
    fn drops(&self, out: &mut Vec<String>) -> Result<(), ScriptError> {
        let (now, before) = (self.world()?.emulator().counts(), &self.mark.counts);
        let all = DropReason::ALL
            .into_iter()
            .map(|reason| (reason, now.drops(reason) - before.drops(reason)));
        out.extend(
            all.filter(|(_, n)| *n > 0)
                .map(|(reason, n)| format!("{n} {} {reason}", reason.code())),
        );
        Ok(())
    }

    /// Prints the route of a packet between two hosts, by the installed tables.
    fn path(&self, from: &str, to: &str, out: &mut Vec<String>) -> Result<(), ScriptError> {
        let chassis = self.world()?.emulator().chassis();
        let fabric = chassis.fabric();
        let end = |text: &str| {
            let name: PortName = text.parse().map_err(emulator)?;
            name.end_port(fabric).map_err(emulator)
        };
        let (from, to) = (end(from)?, end(to)?);
        let Some((mut port, target)) = chassis.port_idx(from).zip(chassis.port_idx(to)) else {
            return Ok(());
        };
        let lid = chassis.port(target).settings().lids.base;
        let mut names = vec![fabric.port_name(from)];
        for _ in 0..=fabric.switches().len() {
            let node = chassis.wire(port).node();
            let egress = match chassis.is_switch(node) {
                true => chassis.egress(node, lid),
                false => Egress::Port(port),
            };
            let Egress::Port(exit) = egress else {
                names.push(if egress == Egress::Own {
                    "here".to_owned()
                } else {
                    "dropped".to_owned()
                });
                break;
            };
            let Some(next) = chassis
                .wire(exit)
                .peer()
                .filter(|_| crate::subnet::is_up(chassis, exit))
            else {
                names.push(format!("link down at {}", fabric.port_name(chassis.port_ref(exit))));
                break;
            };
            port = next;
            names.push(fabric.port_name(chassis.port_ref(port)));
            if port == target {
                break;
            }
        }
        out.push(names.join(" -> "));
        Ok(())
    }
}

/// Returns the node that a text names.
pub(super) fn node_named(chassis: &Chassis, text: &str) -> Result<NodeIdx, ScriptError> {
    let name: NodeName = text.parse().map_err(emulator)?;
    name.find(chassis.fabric()).map_err(emulator)
}

/// Returns the port that a text names.
pub(super) fn port_named(chassis: &Chassis, text: &str) -> Result<selvedge_fabric::PortRef, ScriptError> {
    let name: PortName = text.parse().map_err(emulator)?;
    match name.port {
        Some(0) => Ok(selvedge_fabric::PortRef {
            node: node_named(chassis, &name.node.to_string())?,
            port: PortNum::MANAGEMENT,
        }),
        Some(_) => name.find(chassis.fabric()).map_err(emulator),
        None => name.end_port(chassis.fabric()).map_err(emulator),
    }
}

/// Returns the start of a long line: a witness can name every hop of a cycle.
fn shortened(line: String) -> String {
    match line.char_indices().nth(LINE_MAX) {
        Some((at, _)) => format!("{} …", &line[..at]),
        None => line,
    }
}

fn limited(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(SHOWN_MAX);
    if more > 1 {
        lines.truncate(SHOWN_MAX);
        lines.push(format!("… and {more} more"));
    }
    lines
}

/// Returns a time in tenths of seconds. With more digits, every change of the manager that saves a datagram would
/// change the transcripts.
fn tenths(at: Time) -> String {
    format!("{}.{}s", at.0 / 1_000_000_000, at.0 / 100_000_000 % 10)
}
