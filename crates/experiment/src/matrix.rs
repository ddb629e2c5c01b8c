//! All combinations of the settings that vary.

use std::collections::BTreeMap;
use std::fmt;

use crate::schema::Value;

/// One combination of settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell(pub BTreeMap<String, Value>);

impl Cell {
    /// A setting, if it is given.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// What it is stored under: one text for one combination.
    pub(crate) fn json(&self) -> serde_json::Value {
        self.0
            .iter()
            .map(|(name, value)| (name.clone(), value.json()))
            .collect()
    }
}

/// The settings, as a line.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.0.iter().enumerate() {
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
    /// What it is stored under.
    pub(crate) fn key(&self) -> String {
        format!("{} {}", self.cell.json(), self.seed)
    }
}

/// How many combinations there are.
pub fn count(vary: &[(String, Vec<Value>)], together: usize) -> u128 {
    let axes = vary.iter().map(|(_, values)| values.len() as u128);
    axes.fold(together.max(1) as u128, u128::saturating_mul)
}

/// All combinations: the first setting by name changes slowest, what varies together fastest.
pub fn cells(
    common: &BTreeMap<String, Value>,
    vary: &[(String, Vec<Value>)],
    together: &[BTreeMap<String, Value>],
) -> Vec<Cell> {
    let mut cells = vec![Cell(common.clone())];
    for (name, values) in vary {
        cells = cells
            .iter()
            .flat_map(|cell| values.iter().map(|value| with(cell, [(name, value)])))
            .collect();
    }
    if !together.is_empty() {
        cells = cells
            .iter()
            .flat_map(|cell| together.iter().map(|set| with(cell, set)))
            .collect();
    }
    cells
}

fn with<'a>(cell: &Cell, more: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Cell {
    let mut cell = cell.clone();
    cell.0
        .extend(more.into_iter().map(|(name, value)| (name.clone(), value.clone())));
    cell
}
