//! The body of the fuzz target, also run by `cargo test` over the stored corpus.

use std::collections::{BTreeMap, BTreeSet};

use crate::chart::svg;
use crate::file::Experiment;
use crate::results::Record;
use crate::schema::{Field, Kind, Schema};
use crate::summary::{Figure, Row, Summary};

/// Largest number of combinations in a chart that is drawn: a fuzzer needs many short runs.
const DRAWN_MAX: usize = 64;

/// Reads any bytes as the file of an experiment, and each line as a stored result. Panics if writing what was read and
/// reading it again gives something else.
///
/// It checks three things. First, a refusal has a code. Second, an accepted file has as many runs as it announces, each
/// once; it is the same when it is written and read again; and its charts can be drawn or are refused with a code.
/// Third, a result is the same when it is written and read again.
pub fn read_and_draw(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for line in text.lines() {
        if let Ok(record) = Record::parse(line) {
            assert_eq!(Record::parse(&record.line()), Ok(record), "{line}");
        }
    }
    let schema = schema();
    let experiment = match Experiment::parse(&text, &schema) {
        Ok(experiment) => experiment,
        Err(error) => return assert!(error.to_string().starts_with("SLV-EXPERIMENT-0"), "{error}"),
    };
    assert_eq!(Experiment::parse(&text, &schema), Ok(experiment.clone()), "read twice");
    assert!(!experiment.cells.is_empty() && !experiment.seeds.is_empty());
    for name in experiment.cells.iter().flat_map(|cell| cell.settings.keys()) {
        assert!(schema.find(name).is_ok(), "{name} is no setting");
    }
    if experiment.cells.len() > DRAWN_MAX || experiment.seeds.len() > DRAWN_MAX {
        return;
    }
    let runs: Vec<String> = experiment.runs().map(|run| run.key()).collect();
    assert!(runs.len() <= experiment.cells.len() * experiment.seeds.len());
    assert_eq!(runs.iter().collect::<BTreeSet<_>>().len(), runs.len(), "a run twice");
    let summary = made_up(&experiment);
    for picture in &experiment.pictures {
        match svg(&summary, picture) {
            Ok(drawn) => assert!(drawn.contains("</svg>"), "{drawn}"),
            Err(error) => assert!(error.to_string().starts_with("SLV-EXPERIMENT-0"), "{error}"),
        }
    }
}

/// Returns a setting of each kind.
fn schema() -> Schema {
    let field = |name: &str, kind: Kind| Field {
        name: name.to_owned(),
        kind,
        help: String::new(),
    };
    let queues = ["fifo", "voq"].map(str::to_owned).into();
    Schema(vec![
        field("fabric", Kind::Any),
        field("vls", Kind::Any),
        field("load", Kind::Any),
        field("queue", Kind::Choice(queues)),
        field("grh", Kind::Flag),
        field("job", Kind::Many),
    ])
}

/// Returns invented figures for all pictures, one set for each combination.
fn made_up(experiment: &Experiment) -> Summary {
    let figure = |mean: f64| Figure {
        count: 3,
        mean,
        half_interval: Some(0.1 * mean),
        min: 0.9 * mean,
        max: 1.1 * mean,
    };
    let row = |(place, cell): (usize, &crate::Cell)| {
        let pictures = experiment.pictures.iter();
        let names = pictures.flat_map(|picture| [Some(picture.y.clone()), picture.mark.clone()]);
        let figures: BTreeMap<_, _> = names.flatten().map(|name| (name, figure((place % 7) as f64))).collect();
        Row {
            cell: cell.clone(),
            figures,
            refused: 0,
            why: None,
        }
    };
    Summary {
        title: experiment.title.clone(),
        varying: experiment.varying.clone(),
        names: experiment.figures.clone(),
        rows: experiment.cells.iter().enumerate().map(row).collect(),
    }
}
