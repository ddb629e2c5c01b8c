//! Checks that the administrators of masters know the registrations that hosts have confirmed.

use selvedge_types::Guid;

use super::Hosts;
use crate::Violation;
use crate::clients::host::What;

impl Hosts<'_> {
    /// Fails if a master does not know a registration that was confirmed to a host.
    pub(super) fn registered(&self) -> Result<(), Violation> {
        let text = |id| {
            let sa = self.administrator(id);
            sa.map_or_else(String::new, |sa| sa.registrations().to_text())
        };
        let texts: Vec<String> = self.served.desks.iter().map(|desk| text(desk.id)).collect();
        for (number, host) in self.served.hosts.iter().enumerate() {
            let Some(server) = self.server(number) else {
                continue;
            };
            let has_line = |word: &str, guid: Guid| {
                let mut lines = texts[server].lines();
                lines.any(|line| line.split(' ').take(2).eq([word, &guid.to_string()]))
            };
            // A subscription names the LID of its host only: the administrator knows it by the GUID read there.
            let named = self.seen_as(server, host.at);
            // A host with a confirmed registration that has lost its link since may still be known: that does no harm.
            for what in What::ALL.into_iter().filter(|what| host.has[*what as usize]) {
                let is_known = match what.group() {
                    Some(group) => self
                        .members(server, group)
                        .is_some_and(|(_, members)| members.contains(&host.guid)),
                    None if what == What::Reports => has_line("subscription", named.unwrap_or(host.guid)),
                    None => has_line("service", host.guid),
                };
                if !is_known {
                    return Err(Violation::RegistrationLost {
                        manager: self.scene.manager_name(self.served.desks[server].id),
                        host: self.port_name(host.at),
                        what: what.name(),
                    });
                }
            }
        }
        Ok(())
    }
}
