//! An experiment's file.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value as Toml};

use crate::error::ExperimentError;
use crate::figures::Figures;
use crate::matrix::{Cell, Run, cells, count};
use crate::schema::{Schema, Value, nearest};

/// Largest number of runs: more are a mistake in the file.
const RUNS_MAX: u128 = 1_000_000;

/// The runs, and the output.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The subject, in a line.
    pub title: String,
    /// Seeds. Each combination is run with all of them.
    pub seeds: Vec<u64>,
    /// All combinations.
    pub cells: Vec<Cell>,
    /// Names of all settings and labels that differ between combinations: settings of `[vary]`, settings that vary
    /// together, and labels.
    pub varying: Vec<String>,
    /// Figures for the table; empty: all.
    pub figures: Vec<String>,
    /// Charts.
    pub pictures: Vec<Picture>,
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Name of the picture's file, in the folder of the results.
    pub file: String,
    /// The title above the chart.
    pub title: String,
    /// The setting or figure on the horizontal axis.
    pub x: String,
    /// The figure on the vertical axis.
    pub y: String,
    /// The settings of which each value, or combination of values, gets a line or colour.
    pub series: Vec<String>,
    /// The settings of which each value, or combination of values, gets a panel.
    pub panel: Vec<String>,
    /// A figure: a point gets a cross where this figure is not 0.
    pub mark: Option<String>,
    /// Lines or bars.
    pub kind: PictureKind,
    /// The extent of the vertical axis.
    pub scale: Scale,
}

/// The range of the vertical axes of a chart's panels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// All panels have the same range, so that heights can be compared.
    #[default]
    Common,
    /// Each panel has its own range, and the chart states it.
    Panel,
}

/// How a chart is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PictureKind {
    /// Lines with a mark at each mean and its confidence interval.
    #[default]
    Lines,
    /// Groups of bars with their confidence intervals.
    Bars,
}

impl Experiment {
    /// Reads a file. Everything in it is checked before anything is run.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, ExperimentError> {
        let mut file: Table = text.parse().map_err(|error: toml::de::Error| toml_error(&error))?;
        let title = text_of(&mut file, "title")?.unwrap_or_else(|| "experiment".to_owned());
        let seeds = seeds(file.remove("seeds"))?;
        let figures = texts_of(&mut file, "figures")?;
        let common = settings(table_of(&mut file, "common")?, "common", schema)?;
        let vary = vary(table_of(&mut file, "vary")?, schema)?;
        let together = together(&mut file, schema)?;
        let pictures = tables_of(&mut file, "picture")?;
        only(
            &file,
            "the file",
            &["title", "seeds", "figures", "common", "vary", "together", "picture"],
        )?;
        let places = [
            ("common", common.keys().collect::<BTreeSet<_>>()),
            ("vary", vary.iter().map(|(name, _)| name).collect()),
            (
                "together",
                together.iter().flat_map(|set| set.settings.keys()).collect(),
            ),
        ];
        for (i, (first, names)) in places.iter().enumerate() {
            for (second, others) in &places[i + 1..] {
                if let Some(field) = names.intersection(others).next() {
                    let field = (*field).clone();
                    return Err(ExperimentError::Twice { field, first, second });
                }
            }
        }
        let runs = count(&vary, together.len()).saturating_mul(seeds.len() as u128);
        if runs > RUNS_MAX {
            return Err(ExperimentError::TooMany { runs, max: RUNS_MAX });
        }
        let mut varying: Vec<String> = vary.iter().map(|(name, _)| name.clone()).collect();
        // A setting that only names files by the other settings distinguishes no result.
        let says_more = |name: &&&String| {
            let mut values = together.iter().filter_map(|set| set.settings.get(**name));
            !values.all(|value| matches!(value, Value::Text(text) if text.contains('{')))
        };
        varying.extend(places[2].1.iter().filter(says_more).map(|name| (*name).clone()));
        let labels: BTreeSet<&String> = together.iter().flat_map(|set| set.labels.keys()).collect();
        varying.extend(labels.into_iter().cloned());
        let pictures: Result<_, _> = pictures.into_iter().map(|table| picture(table, &varying)).collect();
        Ok(Self {
            cells: cells(&common, &vary, &together),
            pictures: pictures?,
            title,
            seeds,
            varying,
            figures,
        })
    }

    /// Refuses a file with figures that no result has, if it is known which figures the runner gives. This checks the
    /// table, charts, marks of charts, and axes. An axis may also be a setting or a label.
    pub fn check_figures(&self, known: &Figures) -> Result<(), ExperimentError> {
        for name in &self.figures {
            known.check(name, &[]).map_err(|what| ExperimentError::Figure {
                place: "'figures'".to_owned(),
                what,
            })?;
        }
        let of_cell = |cell: &Cell| {
            cell.settings
                .keys()
                .chain(cell.labels.keys())
                .cloned()
                .collect::<Vec<_>>()
        };
        let named: BTreeSet<String> = self.cells.iter().flat_map(of_cell).collect();
        let named: Vec<String> = named.into_iter().collect();
        for picture in &self.pictures {
            let axes = [
                ("x", Some(&picture.x)),
                ("y", Some(&picture.y)),
                ("mark", picture.mark.as_ref()),
            ];
            for (axis, name) in axes.into_iter().filter_map(|(axis, name)| Some((axis, name?))) {
                let settings: &[String] = if axis == "x" { &named } else { &[] };
                known.check(name, settings).map_err(|what| ExperimentError::Figure {
                    place: format!("picture '{}', {axis}", picture.file),
                    what,
                })?;
            }
        }
        Ok(())
    }

    /// Returns the number of combinations with different settings. Each seed is run once with each of them.
    #[must_use]
    pub fn different_cells(&self) -> usize {
        let keys: BTreeSet<String> = self.cells.iter().map(|cell| cell.json().to_string()).collect();
        keys.len()
    }

    /// Returns the names with a question mark; they are true if a result has the value.
    pub(crate) fn asked(&self) -> BTreeSet<&str> {
        let pictures = self
            .pictures
            .iter()
            .flat_map(|picture| [Some(&picture.y), picture.mark.as_ref()]);
        let names = self.figures.iter().chain(pictures.flatten());
        names.map(String::as_str).filter(|name| name.ends_with('?')).collect()
    }

    /// Returns all runs: all seeds of the first combination, then all seeds of the next, so that after an interruption
    /// the first combinations are complete. Combinations that differ only in labels are run once.
    pub fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        let seeds = |cell: &Cell| self.seeds.iter().map(|&seed| (cell.clone(), seed)).collect::<Vec<_>>();
        let runs = self.cells.iter().flat_map(seeds).map(|(cell, seed)| Run { cell, seed });
        let mut known = BTreeSet::new();
        runs.filter(move |run| known.insert(run.key()))
    }
}

fn toml_error(error: &toml::de::Error) -> ExperimentError {
    ExperimentError::Toml {
        what: error.to_string().trim_end().to_owned(),
    }
}

fn shape(key: &str, want: &str) -> ExperimentError {
    ExperimentError::Toml {
        what: format!("'{key}': want {want}"),
    }
}

/// Fails if a table has keys left that the reader does not know.
fn only(left: &Table, place: &str, known: &[&str]) -> Result<(), ExperimentError> {
    let Some(found) = left.keys().next() else { return Ok(()) };
    let meant = nearest(found, known.iter().copied());
    Err(ExperimentError::Toml {
        what: format!("{place} has no key '{found}'{meant}; known: {}", known.join(", ")),
    })
}

fn text_of(table: &mut Table, key: &str) -> Result<Option<String>, ExperimentError> {
    match table.remove(key) {
        None => Ok(None),
        Some(Toml::String(text)) => Ok(Some(text)),
        Some(_) => Err(shape(key, "text")),
    }
}

/// Reads a text, or a list of texts.
fn texts_of(table: &mut Table, key: &str) -> Result<Vec<String>, ExperimentError> {
    let list = match table.remove(key) {
        None => return Ok(Vec::new()),
        Some(Toml::Array(list)) => list,
        Some(one) => vec![one],
    };
    let text = |value: Toml| match value {
        Toml::String(text) => Ok(text),
        _ => Err(shape(key, "a list of names")),
    };
    list.into_iter().map(text).collect()
}

fn table_of(table: &mut Table, key: &str) -> Result<Table, ExperimentError> {
    match table.remove(key) {
        None => Ok(Table::new()),
        Some(Toml::Table(table)) => Ok(table),
        Some(_) => Err(shape(key, "a table, [section]")),
    }
}

fn tables_of(table: &mut Table, key: &str) -> Result<Vec<Table>, ExperimentError> {
    let list = match table.remove(key) {
        None => return Ok(Vec::new()),
        Some(Toml::Array(list)) => list,
        Some(one) => vec![one],
    };
    let table = |value: Toml| match value {
        Toml::Table(table) => Ok(table),
        _ => Err(shape(key, "a table, [[section]]")),
    };
    list.into_iter().map(table).collect()
}

fn checked(section: &str, name: &str, value: &Toml, schema: &Schema) -> Result<Value, ExperimentError> {
    schema.check(name, value).map_err(|what| ExperimentError::Field {
        section: section.to_owned(),
        what: Box::new(what),
    })
}

fn settings(table: Table, section: &str, schema: &Schema) -> Result<BTreeMap<String, Value>, ExperimentError> {
    let checked = |(name, value): (String, Toml)| checked(section, &name, &value, schema).map(|value| (name, value));
    table.into_iter().map(checked).collect()
}

fn vary(table: Table, schema: &Schema) -> Result<Vec<(String, Vec<Value>)>, ExperimentError> {
    let axis = |(name, values): (String, Toml)| {
        let Toml::Array(values) = values else {
            return Err(shape(
                &name,
                "a list of values in [vary]; a single one belongs into [common]",
            ));
        };
        if values.is_empty() {
            let what = format!("'{name}' in [vary]");
            return Err(ExperimentError::Empty { what });
        }
        let values: Result<_, _> = values
            .iter()
            .map(|value| checked("vary", &name, value, schema))
            .collect();
        Ok((name, values?))
    };
    table.into_iter().map(axis).collect()
}

/// Reads the settings that vary together. A setting that only some of the sets have keeps the runner's default in the
/// others.
fn together(file: &mut Table, schema: &Schema) -> Result<Vec<Cell>, ExperimentError> {
    let set = |mut set: Table| {
        let labels = labels(table_of(&mut set, "label")?, schema)?;
        let settings = settings(set, "together", schema)?;
        Ok(Cell { settings, labels })
    };
    tables_of(file, "together")?.into_iter().map(set).collect()
}

/// Reads the names for tables and charts. A setting already has a name.
fn labels(table: Table, schema: &Schema) -> Result<BTreeMap<String, Value>, ExperimentError> {
    let label = |(name, value): (String, Toml)| {
        if schema.find(&name).is_ok() {
            return Err(shape(&format!("label.{name}"), "a name that no setting has"));
        }
        match value {
            Toml::String(text) => Ok((name, Value::Text(text))),
            Toml::Integer(number) => Ok((name, Value::Whole(number))),
            _ => Err(shape(&format!("label.{name}"), "text or a whole number")),
        }
    };
    table.into_iter().map(label).collect()
}

/// Reads the seeds: a range such as `"1-10"`, or a list.
fn seeds(value: Option<Toml>) -> Result<Vec<u64>, ExperimentError> {
    let Some(value) = value else { return Ok(vec![1]) };
    let refused = || ExperimentError::Seeds {
        found: value.to_string().chars().take(60).collect(),
    };
    let seeds: Option<Vec<u64>> = match &value {
        Toml::String(text) => text.split_once('-').and_then(|(first, last)| {
            let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (last.checked_sub(first)? < RUNS_MAX as u64).then(|| (first..=last).collect())
        }),
        Toml::Integer(seed) => u64::try_from(*seed).ok().map(|seed| vec![seed]),
        Toml::Array(list) => {
            let seed = |value: &Toml| u64::try_from(value.as_integer()?).ok();
            list.iter().map(seed).collect()
        }
        _ => None,
    };
    let seeds = seeds.ok_or_else(refused)?;
    let once: BTreeSet<u64> = seeds.iter().copied().collect();
    match seeds.len() {
        0 => Err(ExperimentError::Empty {
            what: "'seeds'".to_owned(),
        }),
        many if many != once.len() => Err(refused()),
        _ => Ok(seeds),
    }
}

fn picture(mut table: Table, varying: &[String]) -> Result<Picture, ExperimentError> {
    let file = text_of(&mut table, "file")?.unwrap_or_default();
    let wrong = |what: String| ExperimentError::Picture {
        file: file.clone(),
        what,
    };
    if !file.ends_with(".svg") || file.contains(['/', '\\']) {
        return Err(wrong(
            "file = \"NAME.svg\" is missing; it lands beside the results".to_owned(),
        ));
    }
    let missing = |key: &str| wrong(format!("'{key}' is missing"));
    let y = text_of(&mut table, "y")?.ok_or_else(|| missing("y"))?;
    let x = text_of(&mut table, "x")?.ok_or_else(|| missing("x"))?;
    let picture = Picture {
        title: text_of(&mut table, "title")?.unwrap_or_else(|| y.clone()),
        series: texts_of(&mut table, "series")?,
        panel: texts_of(&mut table, "panel")?,
        mark: text_of(&mut table, "mark")?,
        kind: match text_of(&mut table, "kind")?.as_deref() {
            None | Some("lines") => PictureKind::Lines,
            Some("bars") => PictureKind::Bars,
            Some(other) => return Err(wrong(format!("there is no kind '{other}'; known: lines, bars"))),
        },
        scale: match text_of(&mut table, "scale")?.as_deref() {
            None | Some("common") => Scale::Common,
            Some("panel") => Scale::Panel,
            Some(other) => return Err(wrong(format!("there is no scale '{other}'; known: common, panel"))),
        },
        file: file.clone(),
        x,
        y,
    };
    only(
        &table,
        "a picture",
        &["file", "title", "x", "y", "series", "panel", "mark", "kind", "scale"],
    )?;
    for name in picture.series.iter().chain(&picture.panel) {
        if !varying.contains(name) {
            let meant = nearest(name, varying.iter().map(String::as_str));
            let known = varying.join(", ");
            return Err(wrong(format!("'{name}' does not vary{meant}; what varies: {known}")));
        }
    }
    Ok(picture)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schema::tests::schema;

    const FILE: &str = r#"
        title = "accepted load"
        seeds = "3-5"
        [common]
        load = 1
        [vary]
        fabric = ["sx6536", "ring"]
        vls = [1, 2]
        [[together]]
        queue = "fifo"
        [[together]]
        queue = "voq"
        series = true
        [[picture]]
        file = "a.svg"
        x = "vls"
        y = "accepted_load"
        series = "queue"
        panel = "fabric"
    "#;

    #[test]
    fn a_file_says_all_combinations() {
        let experiment = Experiment::parse(FILE, &schema()).unwrap();
        assert_eq!(experiment.seeds, [3, 4, 5]);
        assert_eq!(experiment.varying, ["fabric", "vls", "queue", "series"]);
        let cells: Vec<String> = experiment.cells.iter().map(ToString::to_string).collect();
        assert_eq!(cells.len(), 8);
        assert_eq!(cells[0], "fabric=sx6536 load=1 queue=fifo vls=1");
        assert_eq!(cells[7], "fabric=ring load=1 queue=voq series=true vls=2");
        assert_eq!(experiment.runs().count(), 24);
        assert_eq!(experiment.pictures[0].series, ["queue"]);
    }

    #[test]
    fn combinations_that_differ_in_labels_are_run_once() {
        let text = "seeds = [1, 2]\n[[together]]\nvls = 1\nfabric = \"{vls}\"\nlabel.buffer = \"a lane\"\n\
            [[together]]\nvls = 1\nfabric = \"{vls}\"\nlabel.buffer = \"a port\"\n\
            [[together]]\nvls = 2\nfabric = \"{vls}\"\nlabel.buffer = \"a port\"\n";
        let experiment = Experiment::parse(text, &schema()).unwrap();
        assert_eq!(experiment.varying, ["vls", "buffer"]);
        assert_eq!(experiment.cells.len(), 3);
        assert_eq!(experiment.runs().count(), 4);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |text: &str, want: &str| {
            let error = Experiment::parse(text, &schema()).unwrap_err().to_string();
            assert!(error.contains(want), "{text}: {error:?} has no {want:?}");
        };
        check("title", "SLV-EXPERIMENT-0001");
        check("titel = \"a\"", "the file has no key 'titel'; did you mean 'title'?");
        check("common = 1", "'common': want a table");
        check(
            "[common]\nvsl = 1",
            "SLV-EXPERIMENT-0002: [common] there is no setting 'vsl'; did you mean 'vls'?",
        );
        check("[vary]\nvls = 1", "a list of values in [vary]");
        check("[vary]\nvls = []", "'vls' in [vary] is empty");
        check("[vary]\nvls = [1, true]", "[vary] 'vls': found true");
        check(
            "[common]\nvls = 1\n[vary]\nvls = [1]",
            "'vls' is given in [common] and in [vary]",
        );
        check(
            "[vary]\nvls = [1]\n[[together]]\nvls = 1",
            "in [vary] and in [together]",
        );
        check("together = 1", "'together': want a table");
        check("[[together]]\nlabel = 1", "'label': want a table");
        check(
            "[[together]]\nlabel.vls = 1",
            "'label.vls': want a name that no setting has",
        );
        check("[[together]]\nlabel.a = [1]", "'label.a': want text or a whole number");
        check("seeds = \"5-3\"", "SLV-EXPERIMENT-0005: seeds = \"5-3\"");
        check("seeds = [1, 1]", "each once");
        check("seeds = []", "SLV-EXPERIMENT-0004");
        check(
            "seeds = \"1-999999\"\n[vary]\nvls = [1, 2]",
            "SLV-EXPERIMENT-0006: 1999998 runs",
        );
        check("[[picture]]\nx = \"vls\"", "file = \"NAME.svg\" is missing");
        check("[[picture]]\nfile = \"../a.svg\"", "file = \"NAME.svg\" is missing");
        check("[[picture]]\nfile = \"a.svg\"", "picture 'a.svg': 'y' is missing");
        check(
            "[[picture]]\nfile = \"a.svg\"\ny = \"z\"\nx = \"v\"\nseries = \"queue\"",
            "'queue' does not vary",
        );
        check(
            "[[picture]]\nfile = \"a.svg\"\ny = \"z\"\nx = \"v\"\nkind = \"pie\"",
            "no kind 'pie'",
        );
        check(
            "[[picture]]\nfile = \"a.svg\"\ny = \"z\"\nx = \"v\"\nscale = \"log\"",
            "no scale 'log'; known: common, panel",
        );
        check(
            "[[picture]]\nfile = \"a.svg\"\ny = \"z\"\nx = \"v\"\ncolor = 1",
            "a picture has no key 'color'",
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,200}") {
            let _ = Experiment::parse(&text, &schema());
        }

        #[test]
        fn no_change_of_a_file_panics(at in 0..FILE.len(), with in "\\PC{0,3}", cut in 0_usize..4) {
            let end = (at + cut).min(FILE.len());
            if let (Some(head), Some(tail)) = (FILE.get(..at), FILE.get(end..)) {
                let _ = Experiment::parse(&format!("{head}{with}{tail}"), &schema());
            }
        }
    }
}
