//! The administrator beside a manager, and what of it outlives a kill: fed, stored and copied as `daemon` does it.

use std::sync::Arc;
use std::time::Duration;

use selvedge_chassis::PortIdx;
use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_plan::Plan;
use selvedge_sa::{Agents, Config, Copier, CopyConfig, Input, Output, Registrations, Sa, Snapshot, Sources, Worth};
use selvedge_sim::Time;
use selvedge_sm::{Command, Committed, Inventory, Role, ToldLevels};
use selvedge_store::{Found, Keeper, MemoryDisk, StateDir, StoreError};
use selvedge_wire::{Datagram, Mad, Method, PortInfo, SmInfo, SwitchInfo};

use super::DeskDefect;
use crate::manager::open_folder;
use crate::{ManagerId, Rehearsal, RehearsalError};

/// As `daemon` gathers groups that changed.
const GATHER_GROUPS: Duration = Duration::from_millis(10);
/// Timers of an administrator that are served at one moment.
const WAKES_MAX: u32 = 1_000;

/// What agents said.
struct Said(Arc<Inventory>);

impl Agents for Said {
    fn port_info(&self, at: PortRef) -> Option<&PortInfo> {
        self.0.port_info(at)
    }

    fn switch_info(&self, node: NodeIdx) -> Option<&SwitchInfo> {
        self.0.agents.get(node)?.switch.as_ref()
    }
}

/// The administrator beside a manager.
pub struct Desk {
    /// The manager.
    pub id: ManagerId,
    /// Where both sit.
    pub seat: PortIdx,
    /// The administrator.
    pub sa: Sa,
    /// Copies the master's tables while the manager stands by.
    pub copier: Copier,
    /// The process runs.
    pub runs: bool,
    /// What is in force, as the manager showed it last.
    pub in_force: Option<(Arc<Fabric>, Arc<Plan>)>,
    defect: Option<DeskDefect>,
    /// What of it outlives the process: the manager's disk, or one of its own that never fails.
    disk: Arc<MemoryDisk>,
    folder: Option<Arc<StateDir>>,
    keeper: Keeper,
    groups_told: Time,
    copy_worth: Worth,
    is_ready: bool,
    commits: u32,
}

impl Desk {
    /// Beside a manager that was never started.
    pub fn new(id: ManagerId, seat: PortIdx, disk: Option<Arc<MemoryDisk>>, defect: Option<DeskDefect>) -> Self {
        Self {
            id,
            seat,
            sa: Sa::new(Config::default()),
            copier: Copier::new(CopyConfig::default()),
            runs: false,
            in_force: None,
            defect,
            disk: disk.unwrap_or_default(),
            folder: None,
            keeper: Keeper::new(None, true),
            groups_told: Time::ZERO,
            copy_worth: Worth::Part,
            is_ready: false,
            commits: 0,
        }
    }

    /// The process begins, with what is on disk; `life` is a number that no other life has. False if it ends at once,
    /// as it cannot read that.
    pub fn start(&mut self, world: &mut Rehearsal, life: u64) -> Result<(), RehearsalError> {
        let found = self.read().map_err(|error| world.cannot_start(self.id, &error))?;
        let config = Config {
            life,
            ..Config::default()
        };
        self.sa = Sa::with_registrations(config, world.now(), found.registrations);
        self.copier = Copier::new(CopyConfig::default());
        (self.runs, self.commits) = (true, 0);
        (self.copy_worth, self.is_ready, self.in_force) = (Worth::Part, false, None);
        let forgotten = self.sa.registrations().forgotten().clone();
        if found.is_lost {
            world.tell(self.id, Command::Reregister)?;
        } else if !forgotten.is_empty() {
            world.tell(self.id, Command::ReregisterThese(forgotten))?;
        }
        world.tell(self.id, Command::HoldBack)
    }

    /// What an earlier life left on the disk.
    fn read(&mut self) -> Result<Found, StoreError> {
        let folder = Arc::new(open_folder(&self.disk)?);
        let found = Found::read(Some(&folder))?;
        if found.is_lost {
            folder.mark_unstored()?;
        }
        self.keeper = Keeper::new(Some(Arc::clone(&folder)), found.is_lost);
        self.folder = Some(folder);
        Ok(found)
    }

    /// Hands the administrator an input; what it wants sent is appended.
    pub fn administer(&mut self, now: Time, input: Input, out: &mut Vec<Output>) {
        let first = out.len();
        self.sa.handle(now, input, out);
        let mut unguarded = Vec::new();
        let guarded = match self.defect {
            Some(DeskDefect::ConfirmsUnmarked) => &mut unguarded,
            _ => &mut out[first..],
        };
        // A failure is tried again; there are no events of administrators here.
        let _ = self.keeper.guard(now, self.sa.revision(), guarded);
        if let (Some(DeskDefect::StoresNothing), Some(folder)) = (self.defect, &self.folder) {
            let _ = folder.mark_stored(false);
        }
    }

    /// A datagram of subnet administration arrives.
    pub fn receives(&mut self, now: Time, datagram: &Datagram, out: &mut Vec<Output>) {
        let method = datagram.mad.method();
        if !method.is_response() || method == Method::ReportResp {
            return self.administer(now, Input::Received(*datagram), out);
        }
        self.copier.received(now, datagram, out);
        self.copied(now, out);
    }

    fn copied(&mut self, now: Time, out: &mut Vec<Output>) {
        if let Some(copy) = self.copier.take() {
            self.administer(now, Input::Copied(copy), out);
        }
    }

    /// A plan is in force.
    pub fn committed(&mut self, now: Time, committed: Committed, out: &mut Vec<Output>) {
        if !committed.asks_all {
            self.keeper.hosts_were_asked(now);
        }
        let Committed {
            fabric,
            plan,
            inventory,
            lanes,
            policy,
            unasked,
            ..
        } = committed;
        self.administer(now, Input::Presets(Arc::clone(&policy.partitions)), out);
        self.in_force = Some((Arc::clone(&fabric), Arc::clone(&plan)));
        self.commits += 1;
        if self.commits > 1 && self.defect == Some(DeskDefect::AnswersFromThePast) {
            return;
        }
        let sources = Sources {
            fabric,
            plan,
            manager: (inventory.local, SmInfo::default()),
            agents: Arc::new(Said(inventory)),
            lanes,
            unasked,
        };
        self.administer(now, Input::Committed(Arc::new(Snapshot::new(sources))), out);
    }

    /// The manager says that its role is another one.
    pub fn role_changed(
        &mut self,
        world: &mut Rehearsal,
        role: Role,
        out: &mut Vec<Output>,
    ) -> Result<(), RehearsalError> {
        let now = world.now();
        self.copier.end();
        match role {
            Role::Master => {
                self.copier.lead();
                self.administer(now, Input::Serve, out);
                Ok(())
            }
            Role::Discovering => {
                self.in_force = None;
                self.administer(now, Input::Withdraw, out);
                Ok(())
            }
            Role::Standby | Role::NotActive => {
                self.in_force = None;
                self.keeper.lose();
                self.administer(now, Input::Forget, out);
                self.copier.begin(now);
                if role == Role::NotActive {
                    self.copier.end();
                }
                (self.copy_worth, self.is_ready) = (Worth::Part, false);
                world.tell(self.id, Command::Reregister)
            }
        }
    }

    /// Timers of the administrator, its copier and its disk; what it says to its manager.
    pub fn turn(&mut self, world: &mut Rehearsal, out: &mut Vec<Output>) -> Result<(), RehearsalError> {
        let now = world.now();
        for _ in 0..WAKES_MAX {
            if self.sa.next_wake().is_none_or(|at| at > now) {
                break;
            }
            self.administer(now, Input::Wake, out);
        }
        let mut asked = Vec::new();
        self.copier.wake(now, &mut asked);
        for output in asked {
            if output.datagram.mad.class().is_smp() {
                let answer = own_port(world, self.seat, &output.datagram);
                self.copier.received(now, &answer, out);
                self.copied(now, out);
            } else {
                out.push(output);
            }
        }
        let _ = self.keeper.mark_if_due(now);
        if self.keeper.is_due(now) {
            let all = match self.defect {
                Some(DeskDefect::StoresNothing) => Registrations::default(),
                _ => self.sa.registrations(),
            };
            let folder = self.folder.as_ref();
            let saved = folder.map_or(Ok(()), |folder| folder.save_registrations(&all));
            let _ = self.keeper.saved(now, self.sa.revision(), saved);
        }
        // As the program does: both at once, not too often.
        let has_changed = self.sa.groups().has_changed() || self.sa.aliases().has_changed();
        if has_changed && now.since(self.groups_told) >= GATHER_GROUPS {
            self.groups_told = now;
            let (groups, ports) = (self.sa.take_changed_groups(), self.sa.take_changed_aliases());
            if !ports.is_empty() {
                world.aliases(self.id, ports)?;
            }
            if !groups.is_empty() {
                world.groups(self.id, groups)?;
            }
        }
        let doubted = self.sa.take_doubted();
        if !doubted.is_empty() {
            world.tell(self.id, Command::Doubt(doubted))?;
        }
        self.tell_copy(world)
    }

    /// What the manager is told of the copy.
    fn tell_copy(&mut self, world: &mut Rehearsal) -> Result<(), RehearsalError> {
        let (worth, is_settled) = (self.copier.worth(), self.copier.is_settled(world.now()));
        if let Some(told) = self.copier.take_levels() {
            let selvedge_sa::ToldLevels { by, lanes, by_port } = *told;
            world.tell(self.id, Command::Told(Box::new(ToldLevels { by, lanes, by_port })))?;
        }
        let forgotten = self.copier.take_forgotten();
        if let Some(forgotten) = forgotten.filter(|_| self.defect != Some(DeskDefect::CopiesNoForgotten)) {
            world.tell(self.id, Command::ReregisterThese(forgotten))?;
        }
        if std::mem::replace(&mut self.copy_worth, worth) != worth {
            let command = match worth {
                Worth::All => Command::Registered,
                Worth::Unproven => Command::Unproven,
                Worth::Part => Command::Reregister,
            };
            world.tell(self.id, command)?;
        }
        if is_settled && !std::mem::replace(&mut self.is_ready, true) {
            world.tell(self.id, Command::Ready)?;
        }
        Ok(())
    }
}

/// What the agent of the own port answers to the copier: who is master, and which LID the port has.
fn own_port(world: &Rehearsal, seat: PortIdx, asked: &Datagram) -> Datagram {
    let settings = *world.emulator().chassis().port(seat).settings();
    let mut mad: Mad = asked.mad;
    mad.set_method(Method::GetResp);
    let info = PortInfo {
        lid: settings.lids.base,
        sm_lid: settings.sm_lid,
        ..PortInfo::default()
    };
    mad.set_smp_data(&selvedge_wire::Attribute::emit(&info));
    Datagram { mad, ..*asked }
}
