//! Checks that subscribers get a Report when a node goes away and when it comes back.

use std::collections::BTreeSet;

use super::Hosts;
use crate::Violation;
use crate::clients::host::What;

/// Numbers of the traps of subnet administration which report that a port came, or went. Source: IBA vol 1 §14.2.5.1.
const CAME: u64 = 64;
const WENT: u64 = 65;

impl Hosts<'_> {
    /// Fails if a subscriber got no Report that the node with this description went away and came back. The same
    /// manager must have been master all the time.
    pub fn reported(&self, gone: &str) -> Result<(), Violation> {
        let (hosts, chassis) = (self.served.hosts, self.chassis());
        let is_gone = |node| chassis.fabric().node(node).description == gone;
        // Only the master of the node's subnet reports it.
        let servers: BTreeSet<usize> = (0..hosts.len())
            .filter(|host| is_gone(hosts[*host].node))
            .filter_map(|host| self.server(host))
            .collect();
        for (number, host) in hosts.iter().enumerate() {
            let is_told = self.server(number).is_some_and(|server| servers.contains(&server));
            if is_gone(host.node) || !is_told || !host.wants[What::Reports as usize] {
                continue;
            }
            for (trap, what) in [(WENT, "went"), (CAME, "came back")] {
                if !host.reports.contains(&trap) {
                    return Err(Violation::NotReported {
                        host: self.port_name(host.at),
                        what: format!("{gone} {what}"),
                    });
                }
            }
        }
        Ok(())
    }
}
