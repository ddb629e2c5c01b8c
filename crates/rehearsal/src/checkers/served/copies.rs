//! Checks that a packet to a multicast group arrives once at each member, and at no other port.

use selvedge_chassis::PortIdx;
use selvedge_routing::{Capability, Engine};
use selvedge_types::{Guid, Lid};

use super::Hosts;
use crate::Violation;
use crate::clients::host::What;
use crate::clients::ways::{copies, next_to};

impl Hosts<'_> {
    /// Fails if a packet to a group does not arrive exactly once at each member, or arrives at another port. Members
    /// that the master may leave out of their tree are not counted.
    pub(super) fn copies(&self) -> Result<(), Violation> {
        for what in What::ALL {
            let Some(group) = what.group() else { continue };
            for (number, host) in self.served.hosts.iter().enumerate() {
                if let Some(server) = self.server(number).filter(|_| host.has[what as usize]) {
                    self.copies_from(number, server, (what, group))?;
                }
            }
        }
        Ok(())
    }

    /// Checks the copies of one member's packets.
    fn copies_from(&self, number: usize, server: usize, (what, group): (What, u128)) -> Result<(), Violation> {
        let host = &self.served.hosts[number];
        // `registered` finds a group that the administrator does not know.
        let Some((mlid, members)) = self.members(server, group) else {
            return Ok(());
        };
        let wrong = |what: String| {
            let sender = self.port_name(host.at);
            Err(Violation::WrongCopies { mlid, sender, what })
        };
        let Some(got) = copies(self.chassis(), host.at, mlid) else {
            return wrong("they go round".to_owned());
        };
        let is_apart = |guid: Guid| self.is_left_apart(server, (mlid, guid));
        let receivers = self.served.hosts.iter().enumerate().filter(|(other, receiver)| {
            let has_joined = receiver.has[what as usize] && *other != number;
            has_joined && self.server(*other) == Some(server)
        });
        let receivers = receivers.filter(|(_, receiver)| !is_apart(host.guid) && !is_apart(receiver.guid));
        for (_, receiver) in receivers {
            let times = got.iter().filter(|port| **port == receiver.at).count();
            if times != 1 {
                return wrong(format!("{} gets {times}", self.port_name(receiver.at)));
            }
        }
        // A channel adapter at the other end of the sender's own cable takes or drops what arrives by itself.
        let has_switch = next_to(self.chassis(), host.at).is_none();
        let is_member = |port: PortIdx| {
            let (fabric, at) = (self.chassis().fabric(), self.chassis().port_ref(port));
            let own = fabric.port(at).map(|port| port.guid);
            [own, self.seen_as(server, port)]
                .iter()
                .flatten()
                .any(|guid| members.contains(guid))
        };
        match got.iter().find(|port| has_switch && !is_member(**port)) {
            Some(&other) => wrong(format!("{}, which is no member, gets one", self.port_name(other))),
            None => Ok(()),
        }
    }

    /// True if a master reports that no tree connects a member with the others, and no engine of its policy promises
    /// routes that leave room for one.
    fn is_left_apart(&self, server: usize, member: (Lid, Guid)) -> bool {
        let Some(life) = self.scene.life(self.served.desks[server].id) else {
            return false;
        };
        let promises = |engine: Engine| engine.can(Capability::LeavesRoomForCopies);
        let mut engines = life.sm.policy().engines.iter().map(Engine::try_from);
        life.sm.left_apart().contains(&member) && !engines.any(|engine| engine.is_ok_and(promises))
    }
}
