//! Answers of commands that need no running process, or only start work in one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Body;

/// A request that was accepted; events report its results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// `sweep`.
    pub request: String,
}

impl Body for Accepted {
    const SCHEMA: &'static str = "selvedge.accepted";
}

/// The differences of two fabrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diff {
    /// True if there are no differences.
    pub equal: bool,
    /// The differences as text, such as `- link "a"[1] - "b"[2]`.
    pub changes: Vec<String>,
}

impl Body for Diff {
    const SCHEMA: &'static str = "selvedge.diff";
}

/// Datagrams as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decoded {
    /// One line per datagram, in the order of the datagrams.
    pub mads: Vec<String>,
}

impl Body for Decoded {
    const SCHEMA: &'static str = "selvedge.decoded";
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// True if every output is the same.
    pub same: bool,
    /// Inputs in the record.
    pub inputs: u64,
    /// The truncated end of the record, left by a killed process; replay skips it.
    pub torn: Option<ReplayTorn>,
    /// The first input to which the new manager reacted differently.
    pub difference: Option<ReplayDifference>,
}

impl Body for Replay {
    const SCHEMA: &'static str = "selvedge.replay";
}

/// The truncated end of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayTorn {
    /// Offset of the truncated end in the record.
    pub at_byte: u64,
    /// Length of the truncated end.
    pub left_out_bytes: u64,
}

/// The first input to which the new manager reacted differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayDifference {
    /// Number of the input, counted from 1.
    pub number: u64,
    /// The input as text.
    pub input: String,
    /// Number of recorded outputs.
    pub recorded_outputs: u32,
    /// Digest of the recorded outputs, in hexadecimal.
    pub recorded_digest: String,
    /// Number of outputs of the replay.
    pub outputs: u32,
    /// Digest of these outputs, in hexadecimal.
    pub digest: String,
}

/// The settings that follow from a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Every key that has a value, such as `routing.lmc`, with its value.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// True if a start accepts the file.
    pub ok: bool,
    /// Errors and warnings about lines, flags and keys.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub findings: Vec<OpenSmLine>,
}

impl Body for Settings {
    const SCHEMA: &'static str = "selvedge.settings";
}

/// The treatment of each line of an `opensm.conf`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSmCheck {
    /// Name of the file.
    pub file: String,
    /// True if a manager can do all that the file requests.
    pub ok: bool,
    /// Lines of the file, except those that have OpenSM's default and need no explanation.
    pub options: Vec<OpenSmLine>,
    /// Number of lines that have OpenSM's default.
    pub defaults: u64,
    /// Every key that has a value, such as `routing.lmc`, with its value.
    pub settings: BTreeMap<String, serde_json::Value>,
}

/// The verdict on one line, flag or key of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSmLine {
    /// Line, counted from 1; 0 without a line.
    pub line: u64,
    /// The option, key or flag.
    pub option: String,
    /// Value on the line.
    pub value: String,
    /// Treatment of the line: `default`, `honoured`, `mapped`, `without effect`, `refused`, `unknown`, `warning`,
    /// `wrong`, `refused for now` or `at the next start`.
    pub treatment: String,
    /// The key or flag that takes the value.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key: Option<String>,
    /// The reason, or what to do instead.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub why: String,
    /// The complete error with its code, if it makes a start or a reload fail.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub error: String,
}

/// A configuration for a running manager to check. Without a text, the manager checks the files of its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRequest {
    /// Path of the file, for messages and for relative paths in the file.
    pub path: String,
    /// Text of the file.
    pub text: String,
    /// True for a TOML file. A manager that reads OpenSM's file refuses such a text.
    #[serde(skip_serializing_if = "core::ops::Not::not", default)]
    pub is_toml: bool,
}

/// A running manager's answer about a configuration that it checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// True if a reload accepts the configuration.
    pub ok: bool,
    /// Lines, flags and keys with a verdict worth reporting.
    pub findings: Vec<OpenSmLine>,
}

impl Body for Check {
    const SCHEMA: &'static str = "selvedge.config_check";
}

impl Body for OpenSmCheck {
    const SCHEMA: &'static str = "selvedge.opensm_check";
}

/// The size of an experiment, from its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExperimentCheck {
    /// Combinations of settings.
    pub combinations: u64,
    /// Number of combinations that differ in more than labels; only these are run.
    pub different_combinations: u64,
    /// Seeds for each combination.
    pub seeds: u64,
    /// Number of simulations.
    pub simulations: u64,
}

impl Body for ExperimentCheck {
    const SCHEMA: &'static str = "selvedge.experiment_check";
}

/// The settings that an experiment file may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExperimentSettings {
    /// The settings.
    pub settings: Vec<ExperimentSetting>,
}

/// A setting of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExperimentSetting {
    /// Name of the setting.
    pub setting: String,
    /// The accepted values, as text.
    pub takes: String,
    /// Meaning of the setting.
    pub help: String,
}

impl Body for ExperimentSettings {
    const SCHEMA: &'static str = "selvedge.experiment_settings";
}

/// The results of an experiment over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentSummary {
    /// The title of the experiment.
    pub title: String,
    /// One object for each combination: `settings`, `figures` by name (`count`, `mean`, `ci95`, `min`, `max`),
    /// `refused` and `why`.
    pub rows: Vec<serde_json::Value>,
}

impl Body for ExperimentSummary {
    const SCHEMA: &'static str = "selvedge.experiment";
}
