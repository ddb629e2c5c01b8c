//! The part of a dry run's report about tables that the switches already hold.

use std::sync::Arc;

use selvedge_api::FoundTables;
use selvedge_health::Duty;
use selvedge_planner::engine_options;
use selvedge_routing::Engine;
use selvedge_study::found::Question;

use crate::exit::CliError;
use crate::manage::Ended;
use crate::meter::all_threads;
use crate::out::thousands;
use crate::progress::{self, Drawn};

/// Returns the data on the tables that the switches held when a dry run began; `None` if they held none, or if this was
/// no dry run.
pub fn tables(ended: &Ended) -> Result<Option<FoundTables>, CliError> {
    let view = &ended.view;
    let (Some(fabric), Some(plan), Some(policy)) = (&view.fabric, &view.plan, &view.policy) else {
        return Ok(None);
    };
    if view.facts.duty != Duty::DryRun {
        return Ok(None);
    }
    let question = Question {
        fabric: Arc::clone(fabric),
        held: Arc::clone(&view.installed),
        lids: Arc::new(plan.lids.clone()),
        tables: plan.tables.clone(),
        load: view
            .verdict
            .as_ref()
            .map(|verdict| verdict.figures.load)
            .unwrap_or_default(),
        engines: policy
            .engines
            .iter()
            .filter_map(|name| Engine::try_from(name).ok())
            .collect(),
        options: engine_options(policy),
        threads: all_threads(),
    };
    let bar = progress::bar();
    let found = question.answer(&Drawn(&bar))?;
    bar.finish_and_clear();
    Ok(found)
}

/// Returns the data on the tables that the switches held, as a few lines of text.
pub fn lines(found: &FoundTables) -> Vec<String> {
    let (entries, kept) = (thousands(found.entries), thousands(found.kept));
    let stay = match found.kept == found.entries {
        true => format!("tables were found, and are kept: all {entries} entries"),
        false => format!("tables were found: {kept} of {entries} entries are kept"),
    };
    let percent = found.equal as f64 * 100.0 / found.entries.max(1) as f64;
    let alike = match found.engines.as_slice() {
        [] => format!("they look like those of no known engine; the closest one agrees in {percent:.1} % of them"),
        engines => format!(
            "they look like those of {}: {percent:.1} % are equal",
            engines.join(" and ")
        ),
    };
    let mut lines = vec![format!("found     {stay}; {alike}")];
    if let Some(own) = &found.own {
        lines.push(format!(
            "          without them {} would plan: busiest link {} pairs, now {}; 'selvedge rebalance' moves to that",
            own.engine,
            thousands(own.load_max),
            thousands(found.load_max)
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use selvedge_api::OwnTables;

    use super::*;

    #[test]
    fn what_was_found_is_said_in_words() {
        let found = |kept: u64, equal: u64, engines: &[&str]| FoundTables {
            entries: 1_000,
            kept,
            engines: engines.iter().map(|&name| name.to_owned()).collect(),
            equal,
            load_max: 24,
            own: Some(OwnTables {
                engine: "fat-tree".to_owned(),
                load_max: 18,
            }),
        };
        assert_eq!(
            lines(&found(1_000, 1_000, &["updn"])),
            [
                "found     tables were found, and are kept: all 1,000 entries; they look like those of updn: 100.0 % \
                 are equal",
                "          without them fat-tree would plan: busiest link 18 pairs, now 24; 'selvedge rebalance' moves \
                 to that",
            ]
        );
        let lines = lines(&found(900, 401, &[]));
        assert_eq!(
            lines[0],
            "found     tables were found: 900 of 1,000 entries are kept; they look like those of no known engine; the \
             closest one agrees in 40.1 % of them"
        );
    }
}
