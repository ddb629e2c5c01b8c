//! Compares the published model (`docs/reference/published-model.md`) with its own tables: where the equations of the
//! paper give numbers other than its tables.

use selvedge_api::ModelPaperRow;
use selvedge_model::published::{TABLES, Times, Tree, Unit};

/// A phase of the paper's tables.
struct Phase {
    name: &'static str,
    value: fn(&Times) -> f64,
    /// Possible reasons why the equations differ from the paper.
    why: &'static str,
}

const PHASES: [Phase; 3] = [
    Phase {
        name: "t_TD",
        value: |times| times.discovery,
        why: "78 SMPs of 10.6/41 ms each; the paper has another t",
    },
    Phase {
        name: "t_PC",
        value: |times| times.computation,
        why: "8 end nodes in both",
    },
    Phase {
        name: "t_PD",
        value: |times| times.distribution,
        why: "6 LFT Sets of 0.36 ms each; the paper has another t",
    },
];

/// Differences below this, in percent, are ignored, because the paper rounds.
const SAME_PERCENT: f64 = 0.05;

/// Returns Tables 1 and 2 of the paper beside the values that the equations give. Both tables use the time of one MAD
/// from the model column of Table 1.
#[must_use]
pub fn tables() -> Vec<ModelPaperRow> {
    let unit = Unit::of_table_1();
    let mut rows = Vec::new();
    for table in &TABLES {
        let ours = table.tree.times(&unit);
        for phase in &PHASES {
            let (paper, ours) = ((phase.value)(&table.model_ms), (phase.value)(&ours));
            let difference = 100.0 * (ours / paper - 1.0);
            let is_same = difference.abs() < SAME_PERCENT;
            rows.push(ModelPaperRow {
                table: table.number,
                tree: name(table.tree),
                phase: phase.name.to_owned(),
                experiment_ms: rounded((phase.value)(&table.experiment_ms), 100.0),
                paper_model_ms: rounded(paper, 100.0),
                equations_ms: rounded(ours, 100.0),
                difference_percent: if is_same { 0.0 } else { rounded(difference, 10.0) },
                why: match table.number {
                    1 => "t(1,1) is taken from here".to_owned(),
                    _ => phase.why.to_owned(),
                },
            });
        }
    }
    rows
}

fn rounded(value: f64, steps: f64) -> f64 {
    (value * steps).round() / steps
}

fn name(tree: Tree) -> String {
    format!("({}, {})", tree.m, tree.n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_that_of_table_1() {
        let rows = tables();
        assert_eq!(rows.len(), 6);
        let of = |table: u8| rows.iter().filter(move |row| row.table == table);
        assert!(of(1).all(|row| row.difference_percent == 0.0 && row.equations_ms == row.paper_model_ms));
        assert!(
            of(2).any(|row| row.difference_percent != 0.0),
            "the paper has another unit there"
        );
    }
}
