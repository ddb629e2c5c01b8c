//! The operator's choices about telemetry, read from the files that the configuration names.

use std::path::{Path, PathBuf};

use selvedge_config::{Settings, TelemetryChoices};
use selvedge_store::{SETTINGS_MAX, read_text_file};
use selvedge_telemetry::Group;
use selvedge_telemetry::exposition::expected::ExpectedTypes;
use selvedge_telemetry::selection::{self, Selected};

use super::nodes::Nodes;
use crate::DaemonError;

/// The operator's choices.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// Metrics of metric sets.
    pub(super) selected: Vec<Selected>,
    /// Expected types of nodes and ports.
    pub(super) expected: ExpectedTypes,
    /// Folder with the devices of the local host.
    pub(super) host_counters: Option<PathBuf>,
    /// Which nodes are read.
    pub(super) nodes: Nodes,
}

impl Default for Chosen {
    fn default() -> Self {
        Self {
            selected: Selected::all().collect(),
            expected: ExpectedTypes::default(),
            host_counters: None,
            nodes: Nodes::default(),
        }
    }
}

impl Chosen {
    /// Reads the files.
    pub(crate) fn read(choices: &TelemetryChoices) -> Result<Self, DaemonError> {
        let mut chosen = Self {
            host_counters: choices.host_counters.clone(),
            nodes: Nodes::of(choices),
            ..Self::default()
        };
        if let Some(path) = &choices.metrics {
            let cause = |cause| DaemonError::Selection {
                path: path.clone(),
                cause,
            };
            chosen.selected = selection::parse(&text(path, "telemetry.metrics")?).map_err(cause)?;
        }
        if let Some(path) = &choices.expected_types {
            let cause = |cause| DaemonError::ExpectedTypes {
                path: path.clone(),
                cause,
            };
            chosen.expected = ExpectedTypes::parse(&text(path, "telemetry.expected_types")?).map_err(cause)?;
        }
        Ok(chosen)
    }
}

/// Fails if a file that `[telemetry]` names cannot be read, or has a line that is wrong: a start would fail too.
pub fn check_telemetry_files(settings: &Settings) -> Result<(), DaemonError> {
    Chosen::read(&settings.telemetry_choices).map(drop)
}

fn text(path: &Path, key: &'static str) -> Result<String, DaemonError> {
    read_text_file(path, SETTINGS_MAX).map_err(|cause| DaemonError::Read {
        path: path.to_owned(),
        key,
        cause,
    })
}

/// Returns the counter groups of the class `detail`. Names that no group has are not in a configuration that was read.
pub(super) fn groups(names: &[String]) -> Vec<Group> {
    let group = |name: &String| Group::ALL.into_iter().find(|group| group.name() == name);
    names.iter().filter_map(group).collect()
}

#[cfg(test)]
mod tests {
    use selvedge_config::DETAIL_ATTRIBUTES;

    use super::*;

    #[test]
    fn every_attribute_of_the_configuration_is_a_group() {
        let names = DETAIL_ATTRIBUTES.map(str::to_owned);
        let groups = groups(&names);
        let shown: Vec<&str> = groups.iter().map(|group| group.name()).collect();
        assert_eq!(shown, DETAIL_ATTRIBUTES);
        // The others are of the classes data, errors and cable.
        assert_eq!(groups.len() + 3, Group::ALL.len());
    }

    #[test]
    fn files_are_read_or_refused() {
        let folder = std::env::temp_dir().join(format!("selvedge-choices-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("file");
        let read = |text: &str, is_metrics: bool| {
            std::fs::write(&file, text).unwrap();
            let path = Some(file.clone());
            let none = TelemetryChoices::default();
            let choices = match is_metrics {
                true => TelemetryChoices { metrics: path, ..none },
                false => TelemetryChoices {
                    expected_types: path,
                    ..none
                },
            };
            Chosen::read(&choices).map_err(|error| error.to_string())
        };
        let chosen = read("#link_downed\nport_xmit_data\n", true).unwrap();
        let names: Vec<&str> = chosen.selected.iter().map(|metric| metric.name()).collect();
        assert_eq!(names, ["port_xmit_data"]);
        let error = read("port_xmit_date\n", true).unwrap_err();
        assert!(error.contains("did you mean port_xmit_data? (file /"), "{error}");
        assert_ne!(
            read("hosts = ConnectX-6", false).unwrap().expected,
            ExpectedTypes::default()
        );
        let error = read("hosts = ConnectX-60", false).unwrap_err();
        assert!(error.starts_with("SLV-TELEMETRY-0216: line 1"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
        let gone = TelemetryChoices {
            metrics: Some(file),
            ..TelemetryChoices::default()
        };
        let error = Chosen::read(&gone).unwrap_err().to_string();
        assert!(
            error.starts_with("SLV-DAEMON-0005: cannot read") && error.contains("telemetry.metrics"),
            "{error}"
        );
    }
}
