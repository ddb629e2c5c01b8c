//! Results of all seeds of a combination in one row.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use crate::file::Experiment;
use crate::matrix::{Cell, Run};
use crate::results::{Outcome, ResultsFile};

/// A figure over all seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Number of seeds with this figure.
    pub count: usize,
    /// Mean over these seeds.
    pub mean: f64,
    /// Half of the 95 % confidence interval of the mean (Student's t); none with a single seed.
    pub half_interval: Option<f64>,
    /// Smallest value of any seed.
    pub min: f64,
    /// Largest value of any seed.
    pub max: f64,
}

/// A combination.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Settings of the combination.
    pub cell: Cell,
    /// Figures by name.
    pub figures: BTreeMap<String, Figure>,
    /// Seeds that could not be run.
    pub refused: usize,
    /// The reason for the first run that was not possible.
    pub why: Option<String>,
}

/// All combinations of an experiment, in its order.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Subject of the experiment.
    pub title: String,
    /// Settings that vary: the first columns of a table.
    pub varying: Vec<String>,
    /// Names of figures: the other columns.
    pub names: Vec<String>,
    /// Combinations.
    pub rows: Vec<Row>,
}

/// Summarises the stored results; runs that are not done yet are left out.
#[must_use]
pub fn summarise(experiment: &Experiment, results: &ResultsFile) -> Summary {
    let rows: Vec<Row> = experiment
        .cells
        .iter()
        .map(|cell| row(experiment, cell, results))
        .collect();
    let names = match experiment.figures.is_empty() {
        false => experiment.figures.clone(),
        true => {
            let mut names: Vec<String> = Vec::new();
            for name in rows.iter().flat_map(|row| row.figures.keys()) {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
            names
        }
    };
    Summary {
        title: experiment.title.clone(),
        varying: experiment.varying.clone(),
        names,
        rows,
    }
}

fn row(experiment: &Experiment, cell: &Cell, results: &ResultsFile) -> Row {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let (mut refused, mut why) = (0, None);
    for &seed in &experiment.seeds {
        let run = Run {
            cell: cell.clone(),
            seed,
        };
        match results.get(&run).map(|record| &record.outcome) {
            Some(Outcome::Figures(figures)) => {
                flatten("", figures, &mut values);
                for asked in experiment.asked() {
                    let there = f64::from(u8::from(is_there(figures, asked)));
                    values.entry(asked.to_owned()).or_default().push(there);
                }
            }
            Some(Outcome::Refused(text)) => {
                refused += 1;
                why.get_or_insert_with(|| text.clone());
            }
            None => {}
        }
    }
    Row {
        cell: cell.clone(),
        figures: values
            .into_iter()
            .filter_map(|(name, of)| Some((name, figure(&of)?)))
            .collect(),
        refused,
        why,
    }
}

/// True if a result has the value that a name with a question mark asks for.
fn is_there(figures: &Map<String, Json>, asked: &str) -> bool {
    let mut names = asked.trim_end_matches('?').split('.');
    let first = names.next().and_then(|name| figures.get(name));
    let found = names.fold(first, |object, name| object.and_then(|object| object.get(name)));
    !matches!(found, None | Some(Json::Null | Json::Bool(false)))
}

/// Collects the numbers, also those in nested objects: `latency_ns.p99`.
fn flatten(before: &str, figures: &Map<String, Json>, values: &mut BTreeMap<String, Vec<f64>>) {
    for (name, value) in figures {
        let name = format!("{before}{name}");
        match value {
            Json::Number(number) => values.entry(name).or_default().extend(number.as_f64()),
            Json::Bool(flag) => values.entry(name).or_default().push(f64::from(u8::from(*flag))),
            Json::Object(inner) => flatten(&format!("{name}."), inner, values),
            Json::Null | Json::String(_) | Json::Array(_) => {}
        }
    }
}

fn figure(values: &[f64]) -> Option<Figure> {
    let count = values.len();
    let mean = values.iter().sum::<f64>() / count as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let half_interval = t_quantile(count).map(|t| t * (squares / (count - 1) as f64 / count as f64).sqrt());
    (count > 0).then(|| Figure {
        count,
        mean,
        half_interval,
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    })
}

/// Returns the 97.5 % quantile of Student's t for the mean of `count` values. Between two values of the table the
/// larger is used, which gives the wider interval.
fn t_quantile(count: usize) -> Option<f64> {
    const FIRST: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    match count.checked_sub(1)? {
        0 => None,
        freedom @ 1..=30 => Some(FIRST[freedom - 1]),
        31..=59 => Some(2.042),
        60..=119 => Some(2.000),
        _ => Some(1.980),
    }
}

impl Summary {
    /// Returns the names of a table's columns.
    #[must_use]
    pub fn header(&self) -> Vec<String> {
        let figures = self
            .names
            .iter()
            .flat_map(|name| [name.clone(), format!("{name}_ci95")]);
        let counts = ["seeds", "refused", "why"].map(str::to_owned);
        self.varying.iter().cloned().chain(figures).chain(counts).collect()
    }

    /// Returns the rows of a table: settings, the mean of each figure with half of its interval, and seeds.
    #[must_use]
    pub fn cells(&self) -> Vec<Vec<String>> {
        let shown = |value: Option<f64>| value.map_or_else(String::new, short);
        let row = |row: &Row| {
            let settings = self
                .varying
                .iter()
                .map(|name| row.cell.get(name).map(ToString::to_string));
            let mut cells: Vec<String> = settings.map(Option::unwrap_or_default).collect();
            for name in &self.names {
                let figure = row.figures.get(name);
                cells.push(shown(figure.map(|figure| figure.mean)));
                cells.push(shown(figure.and_then(|figure| figure.half_interval)));
            }
            let seeds = row.figures.values().map(|figure| figure.count).max().unwrap_or(0);
            cells.extend([seeds.to_string(), row.refused.to_string()]);
            cells.push(row.why.clone().unwrap_or_default());
            cells
        };
        self.rows.iter().map(row).collect()
    }

    /// Returns a JSON object for each combination.
    #[must_use]
    pub fn json_rows(&self) -> Vec<Json> {
        let figure = |of: &Figure| {
            json!({
                "count": of.count, "mean": of.mean, "ci95": of.half_interval, "min": of.min, "max": of.max,
            })
        };
        let row = |row: &Row| {
            let figures: Map<String, Json> = row
                .figures
                .iter()
                .map(|(name, of)| (name.clone(), figure(of)))
                .collect();
            let settings = row.cell.json_with_labels();
            json!({ "settings": settings, "figures": figures, "refused": row.refused, "why": row.why })
        };
        self.rows.iter().map(row).collect()
    }
}

/// Returns a number with six significant digits: more would be noise.
fn short(value: f64) -> String {
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    format!("{rounded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_over_seeds() {
        let check = |values: &[f64], want: Option<(f64, Option<f64>)>| {
            let found = figure(values).map(|f| (f.mean, f.half_interval.map(|half| (half * 1000.0).round() / 1000.0)));
            assert_eq!(found, want, "{values:?}");
        };
        check(&[], None);
        check(&[2.0], Some((2.0, None)));
        check(&[1.0, 3.0], Some((2.0, Some(12.706))));
        check(&[1.0, 2.0, 3.0, 4.0], Some((2.5, Some(2.054))));
        check(&[5.0; 200], Some((5.0, Some(0.0))));
    }

    #[test]
    fn numbers_are_found_where_they_are() {
        let text = r#"{"a": 1, "b": {"p99": 2.5, "name": "x"}, "ok": true, "list": [1], "none": null}"#;
        let Json::Object(figures) = serde_json::from_str(text).unwrap() else {
            panic!()
        };
        let mut values = BTreeMap::new();
        flatten("", &figures, &mut values);
        let want = [("a", vec![1.0]), ("b.p99", vec![2.5]), ("ok", vec![1.0])];
        assert_eq!(values, want.map(|(name, of)| (name.to_owned(), of)).into());
    }

    #[test]
    fn a_question_is_answered() {
        let text = r#"{"a": null, "b": {"c": {"d": 1}}, "ok": false, "list": []}"#;
        let Json::Object(figures) = serde_json::from_str(text).unwrap() else {
            panic!()
        };
        let check = |asked: &str, want: bool| assert_eq!(is_there(&figures, asked), want, "{asked}");
        check("a?", false);
        check("b?", true);
        check("b.c.d?", true);
        check("b.c.e?", false);
        check("ok?", false);
        check("list?", true);
        check("none?", false);
    }

    #[test]
    fn tables_show_six_digits() {
        let check = |value: f64, want: &str| assert_eq!(short(value), want);
        check(0.0, "0");
        check(1.0 / 3.0, "0.333333");
        check(1_234_567.0, "1234570");
        check(-2.5, "-2.5");
    }
}
