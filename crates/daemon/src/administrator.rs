//! The administrator beside the manager: on the same thread, fed with the plans that are in force.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{SystemTime, UNIX_EPOCH};

use selvedge_api as api;
use selvedge_config::AdministratorOptions;
use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_plan::aliases::PortAliases;
use selvedge_plan::multicast::MulticastGroup;
pub(crate) use selvedge_sa::Config;
use selvedge_sa::{Agents, CopyConfig, Input, Output, Registrations, Sa, Snapshot, Sources};
use selvedge_sim::Time;
use selvedge_sm::{Committed, Inventory};
use selvedge_types::Guid;
use selvedge_wire::{PortInfo, SwitchInfo};

use crate::DaemonError;
use crate::worker::{Note, Worker, indexer};

/// What the manager has read of the agents.
struct Read(Arc<Inventory>);

impl Agents for Read {
    fn port_info(&self, at: PortRef) -> Option<&PortInfo> {
        self.0.port_info(at)
    }

    fn switch_info(&self, node: NodeIdx) -> Option<&SwitchInfo> {
        self.0.agents.get(node)?.switch.as_ref()
    }
}

/// The administrator's configuration that settings stand for.
pub(crate) fn config(options: &AdministratorOptions) -> Config {
    Config {
        sa_key: options.sa_key.expose(),
        burst: options.burst,
        rate_per_s: options.rate_per_s,
        transfers_per_client: options.transfers_per_client,
        services_per_client: options.services_per_client,
        subscriptions_per_client: options.subscriptions_per_client,
        groups: options.groups,
        groups_per_client: options.groups_per_client,
        ..Config::default()
    }
}

/// A number that no other life of an administrator of ours has: when it began, in nanoseconds.
pub(crate) fn life() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// How a standby asks the master for what hosts have registered.
pub(crate) fn copier(manager: &selvedge_sm::Config, options: &AdministratorOptions) -> CopyConfig {
    CopyConfig {
        sa_key: options.sa_key.expose(),
        m_key: manager.policy.m_key,
        port: manager.local.port.get(),
        interval: manager.poll_interval,
    }
}

/// The administrator, and the thread that makes plans ready for it.
pub(crate) struct Administrator {
    sa: Sa,
    indexer: Worker<Sources>,
    out: Vec<Output>,
}

impl Administrator {
    /// One that knows what hosts registered in an earlier life.
    pub(crate) fn new(config: Config, notes: Sender<Note>, kept: Registrations) -> Result<Self, DaemonError> {
        Ok(Self {
            sa: Sa::with_registrations(config, Time::ZERO, kept),
            indexer: indexer(notes)?,
            out: Vec::new(),
        })
    }

    /// What it did so far, to be shown.
    pub(crate) fn counts(&self) -> api::Administration {
        let counters = self.sa.counters();
        let [services, subscriptions, groups, members, aliases] = self.sa.registered().map(|count| count as u64);
        api::Administration {
            received: counters.received,
            answered: counters.answered,
            refused: counters.refused,
            bad_key: counters.bad_key,
            busy: counters.busy,
            limited: counters.limited,
            most_limited: counters.most_limited.map(|(lid, _)| lid),
            dropped: counters.dropped,
            failed: counters.failed,
            reports: counters.reports,
            reports_lost: counters.reports_lost,
            services,
            subscriptions,
            groups,
            members,
            aliases,
        }
    }

    /// Datagrams taken so far.
    pub(crate) const fn received(&self) -> u64 {
        self.sa.counters().received
    }

    /// Groups that have changed, for the manager.
    pub(crate) fn take_changed_groups(&mut self) -> Vec<MulticastGroup> {
        self.sa.take_changed_groups()
    }

    /// Ports whose alias GUIDs have changed, for the manager.
    pub(crate) fn take_changed_aliases(&mut self) -> Vec<PortAliases> {
        self.sa.take_changed_aliases()
    }

    /// See [`Sa::take_doubted`].
    pub(crate) fn take_doubted(&mut self) -> BTreeSet<Guid> {
        self.sa.take_doubted()
    }

    /// True if there are some, of either.
    pub(crate) fn has_changed_groups(&self) -> bool {
        self.sa.groups().has_changed() || self.sa.aliases().has_changed()
    }

    /// See [`Sa::revision`].
    pub(crate) const fn revision(&self) -> u64 {
        self.sa.revision()
    }

    /// See [`Sa::registrations`].
    pub(crate) fn registrations(&self) -> Registrations {
        self.sa.registrations()
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.sa.next_wake()
    }

    /// What is to be sent; the list comes back by [`Self::give_back`].
    pub(crate) fn handle(&mut self, now: Time, input: Input) -> Vec<Output> {
        let mut out = std::mem::take(&mut self.out);
        self.sa.handle(now, input, &mut out);
        out
    }

    pub(crate) fn give_back(&mut self, out: Vec<Output>) {
        self.out = out;
    }

    /// What is answered from.
    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.sa.snapshot()
    }

    /// Has a plan that is in force made ready.
    pub(crate) fn commit(&self, committed: Committed) {
        let Committed {
            fabric,
            plan,
            inventory,
            lanes,
            unasked,
            mut manager,
            ..
        } = committed;
        manager.sm_key = 0;
        self.indexer.hand(Sources {
            fabric,
            plan,
            manager: (inventory.local, manager),
            agents: Arc::new(Read(inventory)),
            lanes,
            unasked,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_settings_are_the_administrators_defaults() {
        assert_eq!(config(&AdministratorOptions::default()), Config::default());
    }
}
