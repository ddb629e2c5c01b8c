//! Engine options according to the policy, and texts from engines and the judge.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_plan::{Policy, Tables};
use selvedge_routing::{FatTreeOptions, FtreeOptions, HostLists, Note, Options, Routed, UpDnOptions, WeaveOptions};
use selvedge_types::Guid;
use selvedge_verify::Refusal;

use crate::event::PlanEvent;

/// Returns the engine options that the policy asks for, if routes use one lane. `lanes`: the lane in force of each
/// destination switch, by its GUID; `previous`: the tables that the engine starts from.
pub fn options(policy: &Policy, lanes: &Arc<BTreeMap<Guid, u8>>, previous: Option<Arc<Tables>>) -> Options {
    let roots = || policy.roots.clone();
    Options {
        previous,
        fat_tree: FatTreeOptions {
            roots: roots(),
            ..FatTreeOptions::default()
        },
        updn: UpDnOptions {
            roots: roots(),
            ..UpDnOptions::default()
        },
        ftree: FtreeOptions {
            roots: roots(),
            ..FtreeOptions::default()
        },
        weave: WeaveOptions {
            previous_lanes: (!lanes.is_empty()).then(|| Arc::clone(lanes)),
            ..WeaveOptions::default()
        },
        hosts: HostLists {
            compute: policy.compute.clone(),
            io: policy.io.clone(),
        },
        guid_order: policy.guid_order.clone(),
        count_switches: policy.count_switches,
        lanes: Some(1),
        ..Options::default()
    }
}

/// Returns the engine options that the policy asks for, with no tables to start from and no limit on the number of
/// lanes.
#[must_use]
pub fn of_policy(policy: &Policy) -> Options {
    Options {
        lanes: None,
        ..options(policy, &Arc::default(), None)
    }
}

/// Returns the choice of engine `auto` and its reasons, as events.
pub fn choices(routed: &Routed) -> impl Iterator<Item = PlanEvent> + '_ {
    let about_choice = |note: &&Note| matches!(note, Note::Recognised { .. } | Note::Chosen { .. });
    let notes = routed.notes.iter().filter(about_choice).map(ToString::to_string);
    notes.map(|note| PlanEvent::EngineChosen { note })
}

/// Returns the text of a refusal, with the path or cycle that proves it.
pub fn in_words(refusal: &Refusal) -> String {
    match refusal.verdict.errors().next().map(|first| first.witness.to_string()) {
        Some(witness) if !witness.is_empty() => format!("{refusal}; {witness}"),
        Some(_) | None => refusal.to_string(),
    }
}
