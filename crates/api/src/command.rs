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

/// How two fabrics differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diff {
    /// True if they do not.
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
    /// A line per datagram, in their order.
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
    /// The first input with other outputs.
    pub difference: Option<ReplayDifference>,
}

impl Body for Replay {
    const SCHEMA: &'static str = "selvedge.replay";
}

/// The truncated end of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayTorn {
    /// Its first byte.
    pub at_byte: u64,
    /// Its length.
    pub left_out_bytes: u64,
}

/// The first input with other outputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayDifference {
    /// Its number, counted from 1.
    pub number: u64,
    /// As text.
    pub input: String,
    /// How many outputs were recorded.
    pub recorded_outputs: u32,
    /// Their digest in hexadecimal.
    pub recorded_digest: String,
    /// How many outputs there are now.
    pub outputs: u32,
    /// Their digest in hexadecimal.
    pub digest: String,
}

/// What a configuration file means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Every key that has a value, as `routing.lmc`, with it.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// True if a start accepts it.
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
    /// The file.
    pub file: String,
    /// True if a manager can do all that the file requests.
    pub ok: bool,
    /// Its lines, without those that have OpenSM's default and need no explanation.
    pub options: Vec<OpenSmLine>,
    /// How many lines have OpenSM's default.
    pub defaults: u64,
    /// Every key that has a value, as `routing.lmc`, with it.
    pub settings: BTreeMap<String, serde_json::Value>,
}

/// The verdict on one line, flag or key of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSmLine {
    /// Line, counted from 1; 0 without a line.
    pub line: u64,
    /// The option, key or flag.
    pub option: String,
    /// Its value.
    pub value: String,
    /// What becomes of this line: `default`, `honoured`, `mapped`, `without effect`, `refused`, `unknown`, `warning`,
    /// `wrong`, `refused for now` or `at the next start`.
    pub treatment: String,
    /// The key or flag that takes the value.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key: Option<String>,
    /// Why, or what to do instead.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub why: String,
    /// The complete error with its code, if it makes a start or a reload fail.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub error: String,
}

/// A configuration for a running manager to check. Without a text, the manager checks the files of its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRequest {
    /// Path of the file, for messages and for paths in it.
    pub path: String,
    /// Its text.
    pub text: String,
    /// True for a TOML file. A manager that reads OpenSM's file refuses such a text.
    #[serde(skip_serializing_if = "core::ops::Not::not", default)]
    pub is_toml: bool,
}

/// A running manager's answer about a configuration that it checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// True if a reload accepts it.
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
    /// Combinations that differ in more than labels; only they are run.
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
    /// Its name.
    pub setting: String,
    /// The accepted values, as text.
    pub takes: String,
    /// Its meaning.
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
