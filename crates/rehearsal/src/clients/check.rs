//! What must hold of clients where nothing is left to do.

use std::collections::BTreeSet;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_routing::{Capability, Engine};
use selvedge_sm::Role;
use selvedge_types::{Guid, Lid};
use selvedge_wire::Gid;

use super::host::What;
use super::ways::{arrives, copies, is_active, is_planned, next_to};
use super::{Clients, chassis_of};
use crate::{Rehearsal, RehearsalError, Violation};

/// Traps of subnet administration: a port came, a port went. Source: IBA vol 1 §14.2.5.1.
const CAME: u64 = 64;
const WENT: u64 = 65;

impl Clients {
    /// The administrator that serves a host: its link carries packets, and there is a master where it leads.
    fn server(&self, world: &Rehearsal, host: usize) -> Option<usize> {
        let at = self.hosts[host].at;
        let is_master = |id| world.life_of(id).is_some_and(|sm| sm.role() == Role::Master);
        let serves = |number: &usize| {
            let desk = &self.desks[*number];
            is_master(desk.id) && world.connected(desk.seat, at)
        };
        (0..self.desks.len())
            .find(serves)
            .filter(|_| is_active(chassis_of(world), at))
    }

    /// The first host that is not served as it wants; none if all are.
    #[must_use]
    pub fn unserved(&self, world: &Rehearsal) -> Option<String> {
        let is_content = |host: &usize| self.hosts[*host].has == self.hosts[*host].wants;
        let mut hosts = 0..self.hosts.len();
        let host = hosts.find(|host| self.server(world, *host).is_some() && !is_content(host))?;
        let of = &self.hosts[host];
        let differs = What::ALL
            .into_iter()
            .find(|what| of.has[*what as usize] != of.wants[*what as usize]);
        let (name, what) = (world.port_name(of.at), differs.map_or("nothing", What::name));
        let said = of
            .answer
            .map_or_else(|| "nothing".to_owned(), |mad| mad.status().to_string());
        Some(format!(
            "{name} does not get {what}, or is not rid of it; it is answered {said}"
        ))
    }

    /// The first host whose LID the plan in force of its master does not have, or from where that has no way to the
    /// master. Who was left out for a fault that is over is found by a light sweep. (By whose GUID it is known is not
    /// asked: of a host that showed another one's for a while, and did not lose its link, nobody hears before it wants
    /// something.)
    fn unknown(&self, world: &Rehearsal) -> Option<String> {
        let chassis = chassis_of(world);
        let is_known = |host: usize| {
            let Some(server) = self.server(world, host) else {
                return true;
            };
            let (desk, at) = (&self.desks[server], self.hosts[host].at);
            let [own, seat] = [at, desk.seat].map(|at| chassis.port(at).settings().lids.base);
            world.in_force(desk.id).is_some_and(|(fabric, plan)| {
                let from = plan.lids.owner(own);
                from.is_some_and(|from| is_planned(fabric, plan, from, seat))
            })
        };
        let host = (0..self.hosts.len()).find(|&host| !is_known(host))?;
        let name = world.port_name(self.hosts[host].at);
        Some(format!("the plan in force does not know {name}"))
    }

    /// True if all are served as they want, what they registered has got to the managers, and switches copy as they are
    /// to: trees may have to wait for seconds, until packets of old routes are gone. A block that its switch does not
    /// hold, as a late Set has overwritten it, is found by a light sweep.
    #[must_use]
    pub fn is_content(&self, world: &Rehearsal) -> bool {
        let is_told = self
            .desks
            .iter()
            .all(|desk| world.administrator(desk.id).is_none_or(|sa| !sa.groups().has_changed()));
        let is_served = is_told && self.unserved(world).is_none() && self.unknown(world).is_none();
        is_served && !world.is_any_block_astray() && self.check_copies(world).is_ok()
    }

    /// What is not as it is to be, although it was waited for so many seconds.
    #[must_use]
    pub fn complaint(&self, world: &Rehearsal, when: &'static str, seconds: u64) -> Violation {
        let not_served = |what: String| Violation::NotServed { what, when, seconds };
        let wrong = || {
            self.check_registrations(world)
                .and_then(|()| self.check_copies(world))
                .err()
        };
        let unserved = self.unserved(world).or_else(|| self.unknown(world)).map(not_served);
        let rest = || not_served("it does not come to rest".to_owned());
        unserved.or_else(wrong).unwrap_or_else(rest)
    }

    /// All that must hold at rest.
    pub fn check(&mut self, world: &mut Rehearsal) -> Result<(), RehearsalError> {
        self.check_registrations(world)
            .and_then(|()| self.check_copies(world))
            .map_err(|violation| world.violated(violation))?;
        self.check_paths(world)
    }

    /// Members of a group as an administrator knows them, and the group's LID.
    fn members(&self, world: &Rehearsal, number: usize, group: u128) -> Option<(Lid, BTreeSet<Guid>)> {
        let mgid = Gid(group.to_be_bytes());
        let groups = world.administrator(self.desks[number].id)?.groups();
        let group = groups.iter().find(|known| known.mgid == mgid)?;
        Some((group.mlid, group.members.iter().map(|member| member.guid).collect()))
    }

    /// The GUID by which an administrator knows a port: the one that was seen where its LID is.
    fn seen_as(&self, world: &Rehearsal, number: usize, port: PortIdx) -> Option<Guid> {
        let lid = chassis_of(world).port(port).settings().lids.base;
        let (fabric, plan) = world.in_force(self.desks[number].id)?;
        let at = plan.lids.owner(lid)?;
        fabric.port(at).map(|port| port.guid)
    }

    /// Masters know what hosts were told.
    fn check_registrations(&self, world: &Rehearsal) -> Result<(), Violation> {
        let texts: Vec<String> = self
            .desks
            .iter()
            .map(|desk| {
                world
                    .administrator(desk.id)
                    .map_or_else(String::new, |sa| sa.registrations().to_text())
            })
            .collect();
        for (number, host) in self.hosts.iter().enumerate() {
            let Some(server) = self.server(world, number) else {
                continue;
            };
            let has_line = |word: &str, guid: Guid| {
                let mut lines = texts[server].lines();
                lines.any(|line| line.split(' ').take(2).eq([word, &guid.to_string()]))
            };
            // Who subscribes says its LID only: it is known by the GUID that was seen there.
            let named = self.seen_as(world, server, host.at);
            // Who was told so once and has lost its link since may still be known: that does no harm.
            for what in What::ALL.into_iter().filter(|what| host.has[*what as usize]) {
                let is_known = match what.group() {
                    Some(group) => self
                        .members(world, server, group)
                        .is_some_and(|(_, members)| members.contains(&host.guid)),
                    None if what == What::Reports => has_line("subscription", named.unwrap_or(host.guid)),
                    None => has_line("service", host.guid),
                };
                if !is_known {
                    return Err(Violation::RegistrationLost {
                        manager: world.name(self.desks[server].id),
                        host: world.port_name(host.at),
                        what: what.name(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Every host is told of a path to another one, and packets get there.
    fn check_paths(&mut self, world: &mut Rehearsal) -> Result<(), RehearsalError> {
        self.begin_draws("check");
        for number in 0..self.hosts.len() {
            let Some(server) = self.server(world, number) else {
                continue;
            };
            let others: Vec<usize> = (0..self.hosts.len())
                .filter(|other| self.server(world, *other) == Some(server))
                .collect();
            let other = others[self.below(others.len())];
            let chassis = chassis_of(world);
            let lid = |chassis: &Chassis, host: usize| chassis.port(self.hosts[host].at).settings().lids.base;
            let (from, to) = (lid(chassis, number), lid(chassis, other));
            let gets_there = arrives(chassis, self.hosts[number].at, to) == Some(self.hosts[other].at);
            self.ask_for_path(world, number, other)?;
            let wrong = |what: &str| {
                let what = what.to_owned();
                Err(world.violated(Violation::WrongPath { from, to, what }))
            };
            match self.hosts[number].answer {
                Some(answer) if answer.status() == selvedge_wire::Status::OK && !gets_there => {
                    return wrong("packets do not get there");
                }
                Some(answer) if answer.status() == selvedge_wire::Status::OK => {}
                Some(answer) => return wrong(&format!("it is refused: {}", answer.status())),
                None => return wrong("nobody answers"),
            }
        }
        Ok(())
    }

    /// Whether a master says of a member that no tree joins it with the others, and may: engines that promise room for
    /// a tree keep it.
    fn is_left_apart(&self, world: &Rehearsal, server: usize, member: (Lid, Guid)) -> bool {
        let desk = &self.desks[server];
        let is_told = world
            .life_of(desk.id)
            .is_some_and(|sm| sm.left_apart().contains(&member));
        let engine = world.in_force(desk.id).map(|(_, plan)| Engine::try_from(&plan.engine));
        let promises = |engine: Engine| engine.can(Capability::LeavesRoomForCopies);
        is_told && engine.is_some_and(|engine| !engine.is_ok_and(promises))
    }

    /// A packet to a group comes to each member once, and to nobody else; but for members that may be left apart.
    fn check_copies(&self, world: &Rehearsal) -> Result<(), Violation> {
        for what in What::ALL {
            let Some(group) = what.group() else { continue };
            for (number, host) in self.hosts.iter().enumerate() {
                let Some(server) = self.server(world, number).filter(|_| host.has[what as usize]) else {
                    continue;
                };
                // That it is not known is found elsewhere.
                let Some((mlid, members)) = self.members(world, server, group) else {
                    continue;
                };
                let wrong = |what: String| {
                    let sender = world.port_name(host.at);
                    Err(Violation::WrongCopies { mlid, sender, what })
                };
                let Some(got) = copies(chassis_of(world), host.at, mlid) else {
                    return wrong("they go round".to_owned());
                };
                let is_apart = |guid: Guid| self.is_left_apart(world, server, (mlid, guid));
                let receivers = self.hosts.iter().enumerate().filter(|(other, receiver)| {
                    let has_joined = receiver.has[what as usize] && *other != number;
                    has_joined && self.server(world, *other) == Some(server)
                });
                let receivers = receivers.filter(|(_, receiver)| !is_apart(host.guid) && !is_apart(receiver.guid));
                for (_, receiver) in receivers {
                    let times = got.iter().filter(|port| **port == receiver.at).count();
                    if times != 1 {
                        return wrong(format!("{} gets {times}", world.port_name(receiver.at)));
                    }
                }
                // What a cable without a switch brings, a channel adapter takes or throws away by itself.
                let has_switch = next_to(chassis_of(world), host.at).is_none();
                let is_member = |port: PortIdx| {
                    let (fabric, at) = (chassis_of(world).fabric(), chassis_of(world).port_ref(port));
                    let own = fabric.port(at).map(|port| port.guid);
                    [own, self.seen_as(world, server, port)]
                        .iter()
                        .flatten()
                        .any(|guid| members.contains(guid))
                };
                if let Some(&other) = got.iter().find(|port| has_switch && !is_member(**port)) {
                    return wrong(format!("{}, which is no member, gets one", world.port_name(other)));
                }
            }
        }
        Ok(())
    }

    /// Forgets what was reported, and names a node whose end and return are to be: no manager sits there.
    pub fn expect_reports(&mut self, world: &Rehearsal) -> Option<String> {
        self.hosts.iter_mut().for_each(|host| host.reports.clear());
        self.led_before = world.counts.led;
        self.begin_draws("reports");
        let chassis = chassis_of(world);
        let seats: Vec<_> = self.desks.iter().map(|desk| chassis.port_ref(desk.seat).node).collect();
        let free: Vec<_> = self
            .hosts
            .iter()
            .map(|host| host.node)
            .filter(|node| !seats.contains(node))
            .collect();
        let node = *free.get(self.below(free.len()))?;
        Some(chassis.fabric().node(node).description.clone())
    }

    /// Subscribers were told that the node went and came back, unless somebody became master meanwhile: nobody is told
    /// of a whole fabric, and what happens between two masters is told by neither.
    pub fn check_reports(&self, world: &Rehearsal, gone: &str) -> Result<(), RehearsalError> {
        if world.counts.led != self.led_before {
            return Ok(());
        }
        let chassis = chassis_of(world);
        let is_gone = |node| chassis.fabric().node(node).description == gone;
        // Another master than that of the node tells them nothing of it.
        let servers: BTreeSet<usize> = (0..self.hosts.len())
            .filter(|host| is_gone(self.hosts[*host].node))
            .filter_map(|host| self.server(world, host))
            .collect();
        for (number, host) in self.hosts.iter().enumerate() {
            let is_told = self
                .server(world, number)
                .is_some_and(|server| servers.contains(&server));
            if is_gone(host.node) || !is_told || !host.wants[What::Reports as usize] {
                continue;
            }
            for (trap, what) in [(WENT, "went"), (CAME, "came back")] {
                if !host.reports.contains(&trap) {
                    return Err(world.violated(Violation::NotReported {
                        host: world.port_name(host.at),
                        what: format!("{gone} {what}"),
                    }));
                }
            }
        }
        Ok(())
    }
}
