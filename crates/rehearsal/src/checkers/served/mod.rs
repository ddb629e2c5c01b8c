//! Checks that hosts are served: administrators answer each request in time, and the answers stay true.

mod answers;
mod copies;
mod paths;
mod registered;
mod reports;

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::Fabric;
use selvedge_plan::Plan;
use selvedge_sa::Sa;
use selvedge_sm::Role;
use selvedge_types::{Guid, Lid};
use selvedge_wire::Gid;

use self::answers::Answers;
use super::check::{Check, Ctx};
use super::ledger::Ledger;
use super::names::port_name;
use super::seen::{Scene, Seen};
use crate::Violation;
use crate::clients::host::What;
use crate::clients::served::{Desk, Served};
use crate::clients::ways::{is_active, is_planned};
use crate::manager::ManagerId;

/// Checks that hosts are served. Its state: the requests without an answer.
#[derive(Debug, Default)]
pub(super) struct HostsServed(Answers);

impl Check for HostsServed {
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, _found: &mut Ledger) -> Result<(), Violation> {
        let hosts = |served| Hosts {
            scene: ctx.scene,
            served,
        };
        match *seen {
            Seen::HostAsks(question) => self.0.note_asked(ctx, question),
            Seen::HostAnswered { number } => self.0.note_answered(number),
            Seen::RoleChanged(id) => self.0.forget(id),
            Seen::HostsDone => return self.0.in_time(ctx),
            Seen::PathTold(path) => return paths::is_of_plan(ctx, &path),
            Seen::PathAtRest { path, arrives } => return paths::leads_there(&path, arrives),
            Seen::HostsRest(served) => return hosts(served).told(),
            Seen::NodeReturned { served, node } => return hosts(served).reported(node),
            _ => {}
        }
        Ok(())
    }
}

/// Hosts and their administrators at one instant, as input for checks.
#[derive(Clone, Copy)]
pub(crate) struct Hosts<'a> {
    pub(super) scene: Scene<'a>,
    pub(super) served: Served<'a>,
}

impl<'a> Hosts<'a> {
    /// Returns the administrator that serves a host. The host's link must be ACTIVE, and the administrator's manager
    /// must be master of the subnet that the link leads to.
    pub fn server(&self, host: usize) -> Option<usize> {
        let at = self.served.hosts[host].at;
        let is_master = |id| self.scene.life(id).is_some_and(|life| life.sm.role() == Role::Master);
        let serves = |desk: &Desk| is_master(desk.id) && self.scene.subnets.connected(desk.seat, at);
        let server = self.served.desks.iter().position(serves);
        server.filter(|_| is_active(self.chassis(), at))
    }

    /// True if all hosts have the registrations that they want, managers know all groups, and switches copy packets to
    /// groups as planned.
    ///
    /// This may take a while. Multicast trees may have to wait for seconds, until packets of old entries are gone. A
    /// block that a late Set has overwritten is found by a light sweep. A port that came up a moment ago has not been
    /// made ACTIVE yet.
    pub fn are_content(&self, is_any_block_astray: impl FnOnce() -> bool) -> bool {
        let mut desks = self.served.desks.iter();
        let are_groups_told = desks.all(|desk| {
            let sa = self.administrator(desk.id);
            sa.is_none_or(|sa| !sa.groups().has_changed())
        });
        let mut servers = (0..self.served.hosts.len()).filter_map(|host| self.server(host));
        let are_reached = servers.all(|server| is_active(self.chassis(), self.served.desks[server].seat));
        let are_served = are_groups_told && are_reached && self.unserved().is_none() && self.unknown().is_none();
        are_served && !is_any_block_astray() && self.copies().is_ok()
    }

    /// Returns the first violation of hosts that are not served as planned after this number of seconds.
    pub fn complaint(&self, when: &'static str, seconds: u64) -> Violation {
        let not_served = |what: String| Violation::NotServed { what, when, seconds };
        let unserved = self.unserved().or_else(|| self.unknown()).map(not_served);
        let rest = || not_served("it does not become idle".to_owned());
        unserved.or_else(|| self.told().err()).unwrap_or_else(rest)
    }

    /// Checks that answers to hosts are still true, when hosts have no more requests and all managers are idle.
    fn told(&self) -> Result<(), Violation> {
        self.registered().and_then(|()| self.copies())
    }

    /// Names the first host that has not registered everything that it wants; `None` if all have.
    fn unserved(&self) -> Option<String> {
        let hosts = self.served.hosts;
        let is_content = |host: &usize| hosts[*host].has == hosts[*host].wants;
        let host = (0..hosts.len()).find(|host| self.server(*host).is_some() && !is_content(host))?;
        let of = &hosts[host];
        let differs = What::ALL
            .into_iter()
            .find(|what| of.has[*what as usize] != of.wants[*what as usize]);
        let (name, what) = (self.port_name(of.at), differs.map_or("nothing", What::name));
        let said = of
            .answer
            .map_or_else(|| "nothing".to_owned(), |mad| mad.status().to_string());
        Some(format!(
            "{name} does not get {what}, or cannot remove it; the answer is {said}"
        ))
    }

    /// Names the first host with a LID that the master's plan in force does not have, or without a route to the master
    /// in that plan. A host that was left out because of a fault is found by a light sweep after the fault.
    ///
    /// The GUID under which the plan has the host does not matter. If a host showed another GUID for a time and did not
    /// lose its link, a manager cannot know that without a request of the host.
    fn unknown(&self) -> Option<String> {
        let is_known = |host: usize| {
            let Some(server) = self.server(host) else {
                return true;
            };
            let (desk, at) = (&self.served.desks[server], self.served.hosts[host].at);
            let [own, seat] = [at, desk.seat].map(|at| self.lid(at));
            self.in_force(desk.id).is_some_and(|(fabric, plan)| {
                let from = plan.lids.owner(own);
                from.is_some_and(|from| is_planned(fabric, plan, from, seat))
            })
        };
        let host = (0..self.served.hosts.len()).find(|&host| !is_known(host))?;
        let name = self.port_name(self.served.hosts[host].at);
        Some(format!("the plan in force does not know {name}"))
    }

    /// Returns the LID of a multicast group, and the port GUIDs of its members, as an administrator knows them.
    fn members(&self, server: usize, group: u128) -> Option<(Lid, BTreeSet<Guid>)> {
        let mgid = Gid(group.to_be_bytes());
        let groups = self.administrator(self.served.desks[server].id)?.groups();
        let group = groups.iter().find(|known| known.mgid == mgid)?;
        Some((group.mlid, group.members.iter().map(|member| member.guid).collect()))
    }

    /// Returns the GUID by which an administrator knows a port: the GUID that its manager read at the port's LID.
    fn seen_as(&self, server: usize, port: PortIdx) -> Option<Guid> {
        let (fabric, plan) = self.in_force(self.served.desks[server].id)?;
        let at = plan.lids.owner(self.lid(port))?;
        fabric.port(at).map(|port| port.guid)
    }

    fn chassis(&self) -> &'a Chassis {
        self.scene.chassis()
    }

    /// Returns the base LID that a port holds.
    fn lid(&self, port: PortIdx) -> Lid {
        self.chassis().port(port).settings().lids.base
    }

    fn administrator(&self, id: ManagerId) -> Option<&'a Sa> {
        self.scene.life(id)?.coordinator.administrator()
    }

    fn in_force(&self, id: ManagerId) -> Option<&'a (Arc<Fabric>, Arc<Plan>)> {
        self.scene.life(id)?.plans.in_force()
    }

    fn port_name(&self, port: PortIdx) -> String {
        port_name(self.chassis(), port)
    }
}
