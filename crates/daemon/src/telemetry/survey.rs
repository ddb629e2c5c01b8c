//! Makes the sampler's inventory on a thread of its own: with 5,832 hosts it takes a few milliseconds.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use selvedge_coordinator::survey;
use selvedge_fabric::Fabric;
use selvedge_plan::Plan;

use super::hardware;
use super::history::{OPEN_MAX, Resumed};
use crate::DaemonError;
use crate::shared::Shared;
use crate::worker::{Note, Worker, newest};

/// Samples that the manager's thread takes at once: 0.4 ms. The 140,000 of 5,832 hosts take 120 ms in all. Measured
/// with the example `large_fabric` of `telemetry`, on a busy machine.
const PORTION: usize = 1_024;

/// A thread that takes plans in force, with the fabrics that they are of.
pub(crate) type Surveyor = Worker<(Arc<Fabric>, Arc<Plan>)>;

/// Starts the thread. A newer plan supersedes those that wait. Nodes have the operator's names. `resumed` has the
/// samples from which the sampler goes on: they go before the first inventory.
pub(crate) fn surveyor(
    notes: Sender<Note>,
    shared: Arc<Shared>,
    mut resumed: Option<Resumed>,
) -> Result<Surveyor, DaemonError> {
    let dropped = notes.clone();
    let mut told = BTreeSet::new();
    Worker::start("survey", notes, move |item: (Arc<Fabric>, Arc<Plan>), queue| {
        if let Some(resumed) = resumed.take() {
            let in_time = resumed.recv_timeout(OPEN_MAX).or_else(|_| {
                shared.telemetry.store.give_up();
                resumed.try_recv()
            });
            // If the manager has gone, nothing is sampled.
            for portion in in_time.iter().flat_map(|samples| samples.chunks(PORTION)) {
                let _ = dropped.send(Note::Resume(portion.to_vec()));
            }
        }
        let (fabric, plan) = newest(item, queue, &dropped);
        let mut inventory = survey(&fabric, &plan);
        for (guid, node) in &mut inventory.nodes {
            if let Some(name) = shared.names.of(*guid) {
                node.description = name;
            }
        }
        hardware::compare(&shared, &fabric, &inventory);
        shared
            .telemetry
            .chosen()
            .nodes
            .apply(&shared, &mut inventory, &mut told);
        Note::Surveyed {
            generation: plan.generation,
            inventory: Arc::new(inventory),
        }
    })
}
