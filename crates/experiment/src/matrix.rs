//! All combinations of the settings that vary.

use std::collections::BTreeMap;
use std::fmt;

use crate::schema::Value;

/// One combination of settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// The settings of the run.
    pub settings: BTreeMap<String, Value>,
    /// Further names in tables and charts: two combinations that differ only in these are one run.
    pub labels: BTreeMap<String, Value>,
}

impl Cell {
    /// Returns a setting or a label, if it is given.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.settings.get(name).or_else(|| self.labels.get(name))
    }

    /// Returns the text under which results of this combination are stored: one text for one combination.
    pub(crate) fn json(&self) -> serde_json::Value {
        json(&self.settings)
    }

    /// Returns that text with the labels added to the settings.
    pub(crate) fn json_with_labels(&self) -> serde_json::Value {
        let mut all = self.labels.clone();
        all.extend(self.settings.clone());
        json(&all)
    }
}

fn json(values: &BTreeMap<String, Value>) -> serde_json::Value {
    let value = |(name, value): (&String, &Value)| (name.clone(), value.json());
    values.iter().map(value).collect()
}

/// The settings, as a line.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.settings.iter().enumerate() {
            let space = if i == 0 { "" } else { " " };
            write!(f, "{space}{name}={value}")?;
        }
        Ok(())
    }
}

/// One run: settings and a seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The settings.
    pub cell: Cell,
    /// The seed.
    pub seed: u64,
}

impl Run {
    /// Returns the text under which the result of this run is stored.
    pub(crate) fn key(&self) -> String {
        format!("{} {}", self.cell.json(), self.seed)
    }
}

/// Returns the number of combinations.
pub fn count(vary: &[(String, Vec<Value>)], together: usize) -> u128 {
    let axes = vary.iter().map(|(_, values)| values.len() as u128);
    axes.fold(together.max(1) as u128, u128::saturating_mul)
}

/// Returns all combinations: the first setting by name changes slowest, settings that vary together change fastest.
pub fn cells(common: &BTreeMap<String, Value>, vary: &[(String, Vec<Value>)], together: &[Cell]) -> Vec<Cell> {
    let mut cells = vec![Cell {
        settings: common.clone(),
        labels: BTreeMap::new(),
    }];
    for (name, values) in vary {
        cells = cells
            .iter()
            .flat_map(|cell| {
                values.iter().map(|value| {
                    let mut cell = cell.clone();
                    cell.settings.insert(name.clone(), value.clone());
                    cell
                })
            })
            .collect();
    }
    if !together.is_empty() {
        cells = cells
            .iter()
            .flat_map(|cell| {
                together.iter().map(|set| {
                    let mut cell = cell.clone();
                    cell.settings.extend(set.settings.clone());
                    cell.labels.extend(set.labels.clone());
                    cell
                })
            })
            .collect();
    }
    cells
}
