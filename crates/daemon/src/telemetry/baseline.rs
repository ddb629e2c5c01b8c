//! Baselines: totals from which an operator counts. Devices are not touched, and totals go on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_api::{Baseline, BaselineRequest, Error};
use selvedge_telemetry::{Group, Latest, Metric, Row, SampleKey, Wall};
use selvedge_types::Guid;

use super::place;
use super::state::Telemetry;

/// When a port and group got its baseline, and the totals then.
pub(super) type Baselines = BTreeMap<SampleKey, (Wall, Row)>;

impl Telemetry {
    /// Counts ports from now on, or from their first reading on again. Stored baselines hold after a restart.
    pub(crate) fn set_baseline(&self, request: &BaselineRequest, unix_ns: u64) -> Result<Baseline, Error> {
        let snapshot = self.sampled()?;
        let ends = place::ends(&snapshot.inventory, request.node.as_deref(), request.port)?;
        let keys = ends.iter().flat_map(|end| {
            let key = |group| SampleKey {
                node: end.node,
                port: end.port,
                group,
            };
            Group::ALL.map(key)
        });
        let at = Wall(unix_ns);
        let is_stored = match request.clear {
            true => {
                let keys: BTreeSet<SampleKey> = keys.filter(|key| snapshot.baselines.contains_key(key)).collect();
                let stored = self.store.written(|database| database.clear_baselines(&keys))?;
                self.change_baselines(|baselines| baselines.retain(|key, _| !keys.contains(key)));
                stored
            }
            false => {
                let totals = keys.filter_map(|key| Some((key, snapshot.latest.get(key)?.totals)));
                let totals: Vec<(SampleKey, Row)> = totals.collect();
                let stored = self.store.written(|database| database.set_baselines(at, &totals))?;
                let new = totals.into_iter().map(|(key, totals)| (key, (at, totals)));
                self.change_baselines(|baselines| baselines.extend(new));
                stored
            }
        };
        Ok(Baseline {
            at_ms: (!request.clear).then_some(unix_ns / 1_000_000),
            ports: ends.len() as u64,
            stored: is_stored,
        })
    }

    /// Takes baselines that an earlier process has stored.
    pub(super) fn take_baselines(&self, stored: Vec<(SampleKey, Wall, Row)>) {
        let stored = stored.into_iter().map(|(key, at, totals)| (key, (at, totals)));
        self.change_baselines(|baselines| baselines.extend(stored));
    }
}

/// Returns what a counter grew by since its baseline; `None`: it has none, or began anew since.
pub(super) fn since(baselines: &Baselines, latest: &Latest, key: SampleKey, counter: usize) -> Option<u64> {
    let (_, totals) = baselines.get(&key)?;
    latest.counter(key, counter)?.checked_sub(*totals.get(counter)?)
}

/// Returns what a metric of a port grew by, taken from the group that [`Latest::metric`] takes.
pub(super) fn metric_since(
    (baselines, latest): (&Baselines, &Latest),
    (node, port): (Guid, u8),
    metric: Metric,
) -> Option<u64> {
    let places = [Group::Extended, Group::Base].into_iter();
    let mut places = places.filter_map(|group| Some((SampleKey { node, port, group }, group.place(metric)?)));
    let (key, counter) = places.find(|(key, counter)| latest.counter(*key, *counter).is_some())?;
    since(baselines, latest, key, counter)
}

/// Returns when a port got its baseline, in milliseconds since 1970-01-01 UTC.
pub(super) fn set_ms(baselines: &Baselines, node: Guid, port: u8) -> Option<u64> {
    let keys = Group::ALL.into_iter().map(|group| SampleKey { node, port, group });
    let set = keys
        .filter_map(|key| baselines.get(&key))
        .map(|(at, _)| at.0 / 1_000_000);
    set.max()
}

/// Baselines that readers share.
pub(super) type Shared = Arc<Baselines>;
