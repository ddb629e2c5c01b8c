//! Carries out the commands of a scenario.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use selvedge_emulator::{EmulatorError, Fault};
use selvedge_fabric::{Fabric, FabricBuilder, NodeIdx, PortRef, SwitchAttributes};
use selvedge_plan::{EngineName, Policy, RebalanceWhen, Tables};
use selvedge_planner::{DefaultJudge, Judge};
use selvedge_sim::{Seed, Time};
use selvedge_sm::{Asked, Command, Config, Mode, StageName};
use selvedge_types::{Guid, Idx, Lid, LidRange, Lmc, PortNum};
use selvedge_wire::LocalPort;

use super::words::{number, pair, span, split, syntax};
use super::{FabricLoader, GRAMMAR, ScriptError};
use crate::{Digests, ManagerId, Options, RefuseAll, Rehearsal, RehearsalError};

/// A scenario in progress.
pub struct Runner<'a> {
    loader: &'a FabricLoader<'a>,
    world: Option<Rehearsal>,
    judge: Arc<dyn Judge>,
    pub(super) managers: BTreeMap<String, (ManagerId, Policy)>,
    /// Log entries that `show events` has shown, by manager.
    pub(super) shown: BTreeMap<ManagerId, usize>,
    pub(super) mark: Mark,
}

/// The state that `mark` records.
#[derive(Clone, Debug)]
pub struct Mark {
    pub at: Time,
    pub logged: usize,
    pub lids: BTreeMap<PortRef, LidRange>,
    pub tables: Tables,
    pub counts: selvedge_emulator::Counts,
    pub levels: BTreeMap<Guid, Vec<u8>>,
    pub asks: u64,
}

/// How long `run until …` waits if the line has no limit.
const BOUND: Duration = Duration::from_secs(120);

impl<'a> Runner<'a> {
    pub fn new(loader: &'a FabricLoader<'a>) -> Self {
        Self {
            loader,
            world: None,
            judge: Arc::new(DefaultJudge::default()),
            managers: BTreeMap::new(),
            shown: BTreeMap::new(),
            mark: Mark {
                at: Time::ZERO,
                logged: 0,
                lids: BTreeMap::new(),
                tables: Tables::new(0, Lid::NONE),
                counts: selvedge_emulator::Counts::default(),
                levels: BTreeMap::new(),
                asks: 0,
            },
        }
    }

    /// Carries out one line.
    pub fn command(&mut self, line: &str, out: &mut Vec<String>) -> Result<(), ScriptError> {
        let words = split(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["fabric", spec, ref options @ ..] => self.fabric(spec, options, out),
            ["sm", name, "at", port, ref options @ ..] => self.sm(name, port, options),
            ["start", name] => Ok(self.on(name, Rehearsal::start)?),
            ["kill", name] => Ok(self.on(name, Rehearsal::kill)?),
            ["stop", name] => Ok(self.on(name, |w, id| w.command(id, Command::Stop))?),
            ["sweep", name] => Ok(self.on(name, |w, id| w.command(id, Command::Sweep))?),
            ["rebalance", name] => self.rebalance(name, false),
            ["rebalance", name, "at-once"] => self.rebalance(name, true),
            ["policy", name, ref options @ ..] => self.policy(name, options),
            ["run", "until", ref what @ ..] => self.run_until(what),
            ["run", time] => Ok(self.world_mut()?.run_for(span(time)?)?),
            ["fault", ..] => {
                let fault: Fault = line.trim_start_matches("fault").parse().map_err(emulator)?;
                Ok(self.world_mut()?.fault(&fault)?)
            }
            ["plan-cost", "default"] => {
                self.world_mut()?.set_plan_cost(None);
                Ok(())
            }
            ["plan-cost", cost] => {
                let cost = span(cost)?;
                self.world_mut()?.set_plan_cost(Some(cost));
                Ok(())
            }
            ["judge", "refuse-all"] => {
                self.judge = Arc::new(RefuseAll);
                Ok(())
            }
            ["judge", "default"] => {
                self.judge = Arc::new(DefaultJudge::default());
                Ok(())
            }
            ["copy", name, "from", master] => self.copy_levels(name, master),
            ["mark"] => self.remember(),
            ["tool", from, "sminfo", to] => self.sm_info(from, to, out),
            ["tool", from, "tell", to, control, ref values @ ..] => self.tell(from, to, (control, values), out),
            ["tool", from, "lanes", port, lane] => self.tool_lanes(from, port, lane, out),
            ["tool", from, "set", port, ref values @ ..] => self.tool_set(from, port, values, out),
            ["show", ref what @ ..] => self.show(what, out),
            ["expect", ref what @ ..] => self.expect(what),
            _ => Err(syntax(line, GRAMMAR)),
        }
    }

    /// Returns the digests of the last fabric's run so far.
    pub fn digests(&self) -> Digests {
        self.world.as_ref().map_or_else(Digests::default, |world| Digests {
            wire: world.digest(),
            end: world.held_digest(),
        })
    }

    pub(super) fn world(&self) -> Result<&Rehearsal, ScriptError> {
        self.world.as_ref().ok_or_else(|| ScriptError::Missing {
            what: "fabric".to_owned(),
        })
    }

    pub(super) fn world_mut(&mut self) -> Result<&mut Rehearsal, ScriptError> {
        self.world.as_mut().ok_or_else(|| ScriptError::Missing {
            what: "fabric".to_owned(),
        })
    }

    pub(super) fn id(&self, name: &str) -> Result<ManagerId, ScriptError> {
        let found = self.managers.get(name).map(|(id, _)| *id);
        found.ok_or_else(|| ScriptError::Missing {
            what: format!("manager {name}"),
        })
    }

    fn on(
        &mut self,
        name: &str,
        act: impl FnOnce(&mut Rehearsal, ManagerId) -> Result<(), RehearsalError>,
    ) -> Result<(), ScriptError> {
        let id = self.id(name)?;
        Ok(act(self.world_mut()?, id)?)
    }

    fn fabric(&mut self, spec: &str, options: &[&str], out: &mut Vec<String>) -> Result<(), ScriptError> {
        let mut fabric = (self.loader)(spec).map_err(|what| ScriptError::Fabric { what })?;
        let mut rehearsal = Options::default();
        for option in options {
            match pair(option)? {
                ("seed", seed) => rehearsal.seed = Seed(number(seed)?),
                ("queue", depth) => rehearsal.emulator.queue_depth = number(depth)?,
                ("links", "training") => rehearsal.emulator.links_up = false,
                ("linear-cap", cap) => fabric = with_linear_cap(&fabric, number(cap)?),
                ("wildcards", "yes") => fabric = with_wildcards(&fabric),
                _ => {
                    return Err(syntax(
                        option,
                        "seed=N, queue=N, links=training, linear-cap=N or wildcards=yes",
                    ));
                }
            }
        }
        let (switches, hosts) = (fabric.switches().len(), fabric.host_count());
        out.push(format!(
            "{switches} switches, {hosts} hosts, {} links",
            fabric.links().count()
        ));
        self.world = Some(Rehearsal::new(&fabric, rehearsal));
        self.managers.clear();
        self.shown.clear();
        self.remember()
    }

    fn sm(&mut self, name: &str, port: &str, options: &[&str]) -> Result<(), ScriptError> {
        let mut policy = Policy::default();
        let nowhere = LocalPort {
            node_guid: Guid::NONE,
            port_guid: Guid::NONE,
            port: PortNum::MANAGEMENT,
        };
        let mut config = Config::new(Mode::Manage, nowhere, Arc::new(Policy::default()));
        for option in options {
            let (key, value) = pair(option)?;
            if !set_config(&mut config, key, value)? && !set_policy(&mut policy, key, value)? {
                return Err(syntax(option, GRAMMAR));
            }
        }
        config.policy = Arc::new(policy.clone());
        let judge = Arc::clone(&self.judge);
        let id = self.world_mut()?.add_manager(name, port, config, judge);
        self.managers.insert(name.to_owned(), (id, policy));
        Ok(())
    }

    fn rebalance(&mut self, name: &str, at_once: bool) -> Result<(), ScriptError> {
        let asked = Command::Rebalance(Asked { at_once });
        self.on(name, |w, id| w.command(id, asked))
    }

    fn policy(&mut self, name: &str, options: &[&str]) -> Result<(), ScriptError> {
        let id = self.id(name)?;
        let Some((_, policy)) = self.managers.get_mut(name) else {
            return Ok(());
        };
        for option in options {
            let (key, value) = pair(option)?;
            if !set_policy(policy, key, value)? {
                return Err(syntax(option, GRAMMAR));
            }
        }
        let policy = Arc::new(policy.clone());
        Ok(self.world_mut()?.reload(id, policy)?)
    }

    fn run_until(&mut self, what: &[&str]) -> Result<(), ScriptError> {
        let (what, bound) = match what {
            [what @ .., "max", bound] => (what, span(bound)?),
            what => (what, BOUND),
        };
        let text = what.join(" ");
        let id = what.get(1).map(|name| self.id(name)).transpose()?;
        let world = self.world_mut()?;
        let logged = world.log().len();
        match (what, id) {
            (["idle"], None) => world.run_until_quiet(bound)?,
            (["up", _], Some(id)) => {
                let is_up = |w: &Rehearsal| w.view(id).is_some_and(|v| v.is_up() && v.stage == StageName::Idle);
                world.run_until(bound, &text, is_up)?;
            }
            (["role", _, role], Some(id)) => {
                world.run_until(bound, &text, |w| {
                    w.view(id).is_some_and(|v| v.role.to_string() == *role)
                })?;
            }
            (["stage", _, stage], Some(id)) => {
                let stage = stage.replace('-', " ");
                world.run_until(bound, &text, |w| {
                    w.view(id).is_some_and(|v| v.stage.to_string() == stage)
                })?;
            }
            (["event", _, code], Some(id)) => {
                let wanted = |e: &crate::LogEntry| e.manager == id && e.event.code() == *code;
                world.run_until(bound, &text, |w| w.log()[logged..].iter().any(wanted))?;
            }
            _ => {
                return Err(syntax(
                    &text,
                    "idle, up NAME, role NAME ROLE, stage NAME STAGE or event NAME CODE",
                ));
            }
        }
        Ok(())
    }

    fn remember(&mut self) -> Result<(), ScriptError> {
        let world = self.world()?;
        self.mark = Mark {
            at: world.now(),
            logged: world.log().len(),
            lids: held_lids(world),
            tables: world.emulator().chassis().tables(),
            counts: world.emulator().counts().clone(),
            levels: self.told_by_masters()?,
            asks: world.asks(),
        };
        Ok(())
    }
}

/// Returns the same fabric with room for `cap` LIDs in the tables of its last switch.
fn with_linear_cap(fabric: &Fabric, cap: u16) -> Fabric {
    let last = fabric.switches().iter().next_back().copied();
    changed(fabric, |node, switch| {
        if Some(node) == last {
            switch.linear_cap = cap;
        }
    })
}

/// Returns the same fabric with switches that take many rows of their SLtoVLMappingTables in one Set.
fn with_wildcards(fabric: &Fabric) -> Fabric {
    changed(fabric, |_, switch| switch.optimized_sl2vl = true)
}

/// Returns the same fabric with changed switches.
fn changed(fabric: &Fabric, change: impl Fn(NodeIdx, &mut SwitchAttributes)) -> Fabric {
    let mut builder = FabricBuilder::new();
    let keys: Vec<_> = fabric.nodes().iter().map(|node| builder.add(node.clone())).collect();
    for &node in fabric.switches().iter() {
        if let Some(switch) = builder.node_mut(keys[node.to_usize()]).switch.as_mut() {
            change(node, switch);
        }
    }
    for link in fabric.links() {
        // Nodes and cables come from a fabric that a builder accepted, so none is refused.
        let _ = builder.link(
            (keys[link.a.node.to_usize()], link.a.port),
            (keys[link.b.node.to_usize()], link.b.port),
        );
    }
    builder.finish().unwrap_or_default()
}

/// Returns LIDs that end ports of nodes with power hold.
pub(super) fn held_lids(world: &Rehearsal) -> BTreeMap<PortRef, LidRange> {
    let chassis = world.emulator().chassis();
    let ports = chassis
        .fabric()
        .end_ports()
        .filter(|(at, _)| chassis.is_powered(at.node));
    let held = ports.filter_map(|(at, _)| Some((at, chassis.port(chassis.port_idx(at)?).settings().lids)));
    held.filter(|(_, range)| range.base != Lid::NONE).collect()
}

pub(super) fn emulator(error: EmulatorError) -> ScriptError {
    ScriptError::Rehearsal(error.into())
}

/// Sets one option of a manager. Returns false if there is no option of this name.
fn set_config(config: &mut Config, key: &str, value: &str) -> Result<bool, ScriptError> {
    match key {
        "mode" => {
            config.mode = match value {
                "manage" => Mode::Manage,
                "dry-run" => Mode::DryRun,
                "watch" => Mode::Watch,
                _ => return Err(syntax(value, "manage, dry-run or watch")),
            }
        }
        "priority" => config.priority = number(value)?,
        "key" => config.sm_key = number(value)?,
        "window" => config.window = number(value)?,
        "retries" => config.retries = number(value)?,
        "misses" => config.poll_misses = number(value)?,
        "timeout" => config.timeout = span(value)?,
        "poll" => config.poll_interval = span(value)?,
        "sweep" => config.sweep_interval = if value == "off" { None } else { Some(span(value)?) },
        _ => return Ok(false),
    }
    Ok(true)
}

fn seconds(value: &str) -> Result<u32, ScriptError> {
    let span = span(value)?;
    u32::try_from(span.as_secs()).map_err(|_| syntax(value, "a time span of seconds, as 300s"))
}

/// Sets one value of the operator's policy. Returns false if there is no value of this name.
fn set_policy(policy: &mut Policy, key: &str, value: &str) -> Result<bool, ScriptError> {
    match key {
        "lmc" => policy.lmc = Lmc::new(number(value)?).ok_or_else(|| syntax(value, "an LMC from 0 to 7"))?,
        "lanes" => policy.used_lanes = number(value)?,
        "sl-aware" => policy.assume_sl_aware = value == "yes",
        "multicast-lane" => policy.multicast_lane = value.parse().map_err(|want| syntax(value, want))?,
        "m_key" => policy.m_key = number(value)?,
        "protect" => policy.m_key_protect = number(value)?,
        "lease" => policy.m_key_lease_s = number(value)?,
        "engines" => policy.engines = value.split('+').map(|name| EngineName(name.to_owned())).collect(),
        "lid_layout" => policy.lid_layout = value.parse().map_err(|want| syntax(value, want))?,
        "rebalance" => {
            let all = [RebalanceWhen::Never, RebalanceWhen::Later, RebalanceWhen::AtOnce];
            let when = all.into_iter().find(|when| when.name() == value);
            policy.rebalance = when.ok_or_else(|| syntax(value, "never, later or at-once"))?;
        }
        "blocks" => policy.rebalance_blocks = number(value)?,
        "quiet" => policy.rebalance_quiet_s = seconds(value)?,
        "pause" => policy.rebalance_pause_s = seconds(value)?,
        "reassign" => policy.reassign_lids = value == "yes",
        "enforce" => policy.part_enforce = value.parse().map_err(|want| syntax(value, want))?,
        "known" => {
            let (guid, lid) = value.split_once(':').ok_or_else(|| syntax(value, "GUID:LID"))?;
            policy
                .known_lids
                .insert(Guid(number(guid)?), LidRange::single(Lid(number(lid)?)));
        }
        _ => return Ok(false),
    }
    Ok(true)
}
