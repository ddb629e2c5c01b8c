//! Plans trees and has them judged. A pure function of its inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::Fabric;
use selvedge_plan::multicast::{MulticastChange, MulticastGroups, MulticastTables, multicast_changes};
use selvedge_routing::multicast::{TreeRequest, trees};
use selvedge_types::{Guid, Lid};
use selvedge_verify::{Judged, MulticastSubject};

use crate::event::Event;
use crate::job::{Job, JobResult, in_words};
use crate::multicast::MulticastEvent;

/// Trees that are to be planned.
#[derive(Clone, Debug)]
pub struct MulticastTask {
    /// All groups.
    pub groups: Arc<MulticastGroups>,
    /// What switches copy now.
    pub held: MulticastTables,
    /// Roots of the trees in force, by group.
    pub roots: BTreeMap<Lid, Guid>,
    /// Groups that are to be planned.
    pub stale: BTreeSet<Lid>,
    /// Switches that are left out.
    pub left_out: BTreeSet<Guid>,
}

/// Trees that may be written.
#[derive(Clone, Debug)]
pub struct MulticastPlan {
    /// The way to them.
    pub change: Judged<MulticastChange>,
    /// Their roots.
    pub roots: BTreeMap<Lid, Guid>,
    /// Members that no tree can reach.
    pub unreached: Vec<(Lid, Guid)>,
}

impl MulticastTask {
    /// About what one core needs: 20 µs, and for each group 1 µs a switch.
    pub(crate) fn virtual_cost(&self, switches: u64) -> Duration {
        Duration::from_nanos(20_000 + 1_000 * switches * self.stale.len() as u64)
    }

    /// Plans and has it judged.
    pub(crate) fn run(&self, job: &Job) -> JobResult {
        let mut fabric = Arc::clone(&job.inventory.fabric);
        for guid in &self.left_out {
            if let Some(node) = fabric.find(*guid) {
                Fabric::set_multicast_room(Arc::make_mut(&mut fabric), node, 0);
            }
        }
        let made = trees(&TreeRequest {
            fabric: &fabric,
            groups: &self.groups,
            held: &self.held,
            roots: &self.roots,
            stale: &self.stale,
        });
        let change = multicast_changes(job.generation, &self.held, &made.tables);
        let subject = MulticastSubject {
            fabric: &fabric,
            groups: &self.groups,
            held: &self.held,
            wanted: &made.tables,
        };
        match job.judge.judge_multicast(&job.inventory, &subject, change) {
            Ok(change) => JobResult {
                multicast: Some(Box::new(MulticastPlan {
                    change,
                    roots: made.roots,
                    unreached: made.unreached,
                })),
                ..JobResult::default()
            },
            Err(refusal) => JobResult {
                events: vec![Event::Multicast(MulticastEvent::Refused {
                    why: in_words(&refusal),
                })],
                ..JobResult::default()
            },
        }
    }
}
