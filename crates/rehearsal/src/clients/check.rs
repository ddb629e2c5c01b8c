//! Actions of clients for the checkers: hosts ask for paths, and a node is switched off and on again.
//! `checkers::served` judges the results.

use super::ways::arrives;
use super::{Clients, chassis_of};
use crate::checkers::Seen;
use crate::{Rehearsal, RehearsalError, Violation};

impl Clients {
    /// True if all hosts are served, managers know their registrations, and switches copy packets as planned.
    #[must_use]
    pub fn is_content(&self, world: &Rehearsal) -> bool {
        world.hosts(self.served()).are_content(|| world.is_any_block_astray())
    }

    /// Waits this number of seconds. Then returns the first violation of hosts that are not served as planned.
    #[must_use]
    pub fn complaint(&self, world: &Rehearsal, when: &'static str, seconds: u64) -> Violation {
        world.hosts(self.served()).complaint(when, seconds)
    }

    /// Checks everything that must hold when all managers are idle.
    pub fn check(&mut self, world: &mut Rehearsal) -> Result<(), RehearsalError> {
        world.observe(&Seen::HostsRest(self.served()))?;
        self.check_paths(world)
    }

    /// Makes every host ask for a path to another host of the same master.
    fn check_paths(&mut self, world: &mut Rehearsal) -> Result<(), RehearsalError> {
        self.begin_draws("check");
        for number in 0..self.hosts.len() {
            let hosts = world.hosts(self.served());
            let Some(server) = hosts.server(number) else {
                continue;
            };
            let others: Vec<usize> = (0..self.hosts.len())
                .filter(|other| hosts.server(*other) == Some(server))
                .collect();
            let other = others[self.below(others.len())];
            let (chassis, to) = (chassis_of(world), &self.hosts[other]);
            let lid = chassis.port(to.at).settings().lids.base;
            let arrives = arrives(chassis, self.hosts[number].at, lid) == Some(to.at);
            let path = self.ask_for_path(world, number, other)?;
            world.observe(&Seen::PathAtRest { path, arrives })?;
        }
        Ok(())
    }

    /// Discards earlier Reports. Returns the description of a node without a manager, which the caller then switches
    /// off and on again. `None` if there is no such node.
    pub fn expect_reports(&mut self, world: &Rehearsal) -> Option<String> {
        self.hosts.iter_mut().for_each(|host| host.reports.clear());
        self.led_before = world.counts.led;
        self.begin_draws("reports");
        let chassis = chassis_of(world);
        let seats: Vec<_> = self.desks.iter().map(|desk| chassis.port_ref(desk.seat).node).collect();
        let nodes = self.hosts.iter().map(|host| host.node);
        let free: Vec<_> = nodes.filter(|node| !seats.contains(node)).collect();
        let node = *free.get(self.below(free.len()))?;
        Some(chassis.fabric().node(node).description.clone())
    }

    /// True if subscribers got Reports of both events: the node went away, and it came back. Also true if a manager
    /// became master in the meantime: then no Reports are needed.
    #[must_use]
    pub fn are_reported(&self, world: &Rehearsal, gone: &str) -> bool {
        self.has_master_changed(world) || world.hosts(self.served()).reported(gone).is_ok()
    }

    /// Fails if subscribers lack Reports of one event: the node went away, or it came back. Does not fail if a manager
    /// became master in the meantime. A new master does not report all ports of a fabric, and an event after the end of
    /// one master and before the begin of the next is reported by neither.
    pub fn check_reports(&self, world: &mut Rehearsal, gone: &str) -> Result<(), RehearsalError> {
        if self.has_master_changed(world) {
            return Ok(());
        }
        let (served, node) = (self.served(), gone);
        world.observe(&Seen::NodeReturned { served, node })
    }

    /// True if a manager became master since Reports are expected.
    const fn has_master_changed(&self, world: &Rehearsal) -> bool {
        world.counts.led != self.led_before
    }
}
