//! Congestion as the API shows it, and pictures of the fabric's loads.

use selvedge_api as api;
use selvedge_api::{CongestionQuery, Error, PictureQuery, Shade};
use selvedge_telemetry::congestion::{Cause, Load, Pair, Routes, Tree};
use selvedge_telemetry::picture::{LinkLoad, connections, heat_map};
use selvedge_telemetry::{End, Inventory, Metric};

use super::alarms::end;
use super::meaning::Traced;
use crate::shared::Shared;

/// Trees that are listed unless another number is asked for.
const TREES: usize = 20;

/// Returns the congestion by the last trace. The pairs of each listed tree are counted now, by the caller's thread.
pub(crate) fn shown(shared: &Shared, query: &CongestionQuery) -> Result<api::Congestion, Error> {
    let inventory = shared.telemetry.sampled()?.inventory;
    let (traced, without_root) = {
        let state = shared.telemetry.meaning.lock();
        let without_root = state.traced.congestion.without_root.iter();
        let without_root =
            without_root.map(|at| waiting(*at, 0, state.watch.load(*at).unwrap_or_default(), &inventory));
        let without_root: Vec<api::WaitingPort> = without_root.collect();
        (std::sync::Arc::clone(&state.traced), without_root)
    };
    let limit = query
        .limit
        .map_or(TREES, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let trees = &traced.congestion.trees;
    let in_trees = trees.iter().flat_map(|tree| &tree.branches).map(|branch| branch.port);
    let in_trees: std::collections::BTreeSet<End> = in_trees.collect();
    let trees_shown = trees
        .iter()
        .take(limit)
        .map(|tree| shown_tree(tree, &traced, &inventory, query));
    Ok(api::Congestion {
        traced_ms: traced.at.map(|at| shared.clock.unix_ms(at)),
        took_us: u64::try_from(traced.took.as_micros()).unwrap_or(u64::MAX),
        waiting: (in_trees.len() + without_root.len()) as u64,
        trees_found: trees.len() as u64,
        trees: trees_shown.collect(),
        without_root,
        horizon: traced.congestion.horizon,
    })
}

fn shown_tree(tree: &Tree, traced: &Traced, inventory: &Inventory, query: &CongestionQuery) -> api::CongestionTree {
    let pairs: Vec<Pair> = traced.routes.as_ref().map_or_else(Vec::new, |(fabric, plan)| {
        let routes = Routes {
            fabric,
            lids: &plan.lids,
            tables: &plan.tables,
        };
        routes.crossing(tree.root)
    });
    let most = query
        .pairs
        .map_or(0, |pairs| usize::try_from(pairs).unwrap_or(usize::MAX));
    let name = |of: End| end(of, inventory).node_name;
    let listed = pairs.iter().take(most).map(|pair| api::CrossingPair {
        from_guid: pair.from.node,
        from: name(pair.from),
        to_guid: pair.to.node,
        to: name(pair.to),
        lid: pair.lid.0,
    });
    let branches = tree.branches.iter();
    api::CongestionTree {
        root: end(tree.root, inventory),
        to: end(tree.to, inventory),
        cause: cause(tree.cause).to_owned(),
        load_ppm: ppm(tree.load.utilisation),
        wait_ppm: ppm(tree.load.wait),
        waiting: branches
            .map(|of| waiting(of.port, of.hops, of.load, inventory))
            .collect(),
        hosts: tree.hosts.iter().map(|at| end(*at, inventory)).collect(),
        pairs_found: pairs.len() as u64,
        pairs: listed.collect(),
    }
}

fn waiting(at: End, hops: u32, load: Load, inventory: &Inventory) -> api::WaitingPort {
    api::WaitingPort {
        port: end(at, inventory),
        hops,
        load_ppm: ppm(load.utilisation),
        wait_ppm: ppm(load.wait),
    }
}

const fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Saturated => "saturated",
        Cause::SlowLink => "slow_link",
        Cause::SlowReceiver => "slow_receiver",
        Cause::Cycle => "cycle",
    }
}

/// Returns a share from 0 to 1 in parts of a million.
pub(super) fn ppm(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * 1e6).round() as u64
}

/// Returns a picture: SVG or a Graphviz graph.
pub(crate) fn picture(shared: &Shared, query: PictureQuery) -> Result<String, Error> {
    let snapshot = shared.telemetry.sampled()?;
    let inventory = &snapshot.inventory;
    let rates = shared.telemetry.meaning.lock().rates.clone();
    if !query.dot {
        let (what, share): (_, fn(Load) -> f64) = match query.by {
            Shade::Wait => ("waiting", |load| load.wait),
            Shade::Load => ("load", |load| load.utilisation),
        };
        let of = |end: End| {
            let rates = rates.of(end)?;
            let (utilisation, wait) = (rates.xmit_utilisation, rates.wait_share);
            Some(share(Load {
                utilisation: utilisation.unwrap_or(0.0),
                wait: wait.unwrap_or(0.0),
            }))
        };
        return Ok(heat_map(inventory, of).svg(what));
    }
    let errors = |end: End| {
        let errors = Metric::ALL.into_iter().filter(|metric| metric.is_error());
        let totals = errors.filter_map(|metric| snapshot.latest.metric(end.node, end.port, metric));
        totals.fold(0, u64::saturating_add)
    };
    let load = |end: End| {
        let rates = rates.of(end);
        LinkLoad {
            utilisation: rates.and_then(|rates| rates.xmit_utilisation),
            wait: rates.and_then(|rates| rates.wait_share),
            errors: errors(end),
        }
    };
    Ok(connections(inventory, load, query.hosts))
}
