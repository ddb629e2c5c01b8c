//! OpenSM options that have an effect only while another feature is on.
//!
//! Sources: the comments in the file that `opensm --create-config` writes, and the manual page of OpenSM 3.3.23.

use super::{Finding, OpenSmOption, Treatment};
use crate::EngineList;

/// The condition under which an option has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// The option with this name must have this value.
    Option(&'static str, &'static str),
    /// One of these engines must be in `routing_engine`.
    Engine(&'static [&'static str]),
    /// The file that the option names exists.
    File,
}

/// Options by name, or by the beginning of their names where it ends in `*`.
const NEEDS: &[(&str, Needs)] = &[
    ("qos_*", Needs::Option("qos", "TRUE")),
    ("torus_config", Needs::Engine(&["torus-2QoS"])),
    ("do_mesh_analysis", Needs::Engine(&["lash"])),
    ("lash_start_vl", Needs::Engine(&["lash"])),
    ("nue_max_num_vls", Needs::Engine(&["nue"])),
    ("lfts_file", Needs::Engine(&["file"])),
    ("lid_matrix_dump_file", Needs::Engine(&["file"])),
    ("quasi_ftree_indexing", Needs::Engine(&["ftree"])),
    ("max_reverse_hops", Needs::Engine(&["ftree"])),
    ("ids_guid_file", Needs::Engine(&["dnup", "updn"])),
    ("prefix_routes_file", Needs::File),
];

impl OpenSmOption {
    pub(super) fn needs(&self) -> Option<Needs> {
        let is_meant = |pattern: &str| match pattern.strip_suffix('*') {
            Some(beginning) => self.name.starts_with(beginning),
            None => self.name == pattern,
        };
        NEEDS
            .iter()
            .find(|(pattern, _)| is_meant(pattern))
            .map(|(_, needs)| *needs)
    }

    /// Returns the condition, as `only with qos TRUE`; `None` if the option always has an effect.
    #[must_use]
    pub fn only_with(&self) -> Option<String> {
        self.needs().map(|needs| match needs {
            Needs::Option(name, value) => format!("only with {name} {value}"),
            Needs::Engine(names) => format!("only with routing_engine {}", names.join(" or ")),
            Needs::File => "only if the file is there".to_owned(),
        })
    }
}

/// Marks options for a feature that is off as without effect. `exists` returns true if a file is present.
pub(super) fn settle(findings: &mut [Finding], exists: impl Fn(&str) -> bool) {
    let last = |name: &str| findings.iter().rfind(|found| found.name == name);
    let engines = last("routing_engine").map_or_else(String::new, |found| found.value.clone());
    let is_on = |found: &Finding, needs: Needs| match needs {
        Needs::Option(name, value) => last(name).is_some_and(|found| found.value == value),
        Needs::Engine(names) => EngineList::words(&engines).any(|word| names.contains(&word)),
        Needs::File => exists(&found.value),
    };
    let is_off = |found: &&Finding| {
        let option = OpenSmOption::ALL.iter().find(|option| option.name == found.name);
        let needs = option.and_then(OpenSmOption::needs);
        matches!(found.treatment, Treatment::Refused | Treatment::Honoured)
            && needs.is_some_and(|needs| !is_on(found, needs))
    };
    let off: Vec<usize> = (0..findings.len()).filter(|&at| is_off(&&findings[at])).collect();
    for at in off {
        let found = &mut findings[at];
        let option = OpenSmOption::ALL.iter().find(|option| option.name == found.name);
        found.treatment = Treatment::Moot;
        found.why = option.and_then(OpenSmOption::only_with).unwrap_or_default();
        found.error.clear();
    }
}
