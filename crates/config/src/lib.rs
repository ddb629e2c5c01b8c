//! Reads the operator's files: a configuration file into [`Settings`], a GUID list into GUIDs.
//!
//! Every key is defined once, in [`Key::ALL`], with its unit, legal values, default and consequence; the reader, the
//! "did you mean …?" in its errors and the commented default file are all made from this list.

#[macro_use]
mod key_macros;
mod admit;
mod alarm_keys;
mod engines;
mod error;
mod finding;
mod guid_list;
mod history_keys;
mod key;
mod keys;
mod opensm;
mod parse;
mod partitions;
mod print;
mod probe;
mod qos_keys;
mod routing_keys;
mod secret;
mod settings;
mod telemetry_choices;
mod telemetry_keys;
mod url;
mod value;

pub use admit::{Against, FlagFile, LidsRead, Overrule, Readers, SettingsFile, Sources, Verdict, admit};
pub use alarm_keys::{AlarmOptions, CounterThresholds, ErrorRate};
pub use engines::{EngineList, parse_engines};
pub use error::ConfigError;
pub use finding::{Finding, Treatment};
pub use guid_list::{parse_guid_numbers, parse_guids, read_guid_numbers, read_guids};
pub use key::{Key, closest};
pub use opensm::{OPENSM_LOG_ROUTING, OpenSmConf, OpenSmFlag, OpenSmOption, opensm_dump_dir, parse_opensm_conf};
pub use parse::{apply, parse};
pub use partitions::{parse_partitions, read_partitions};
pub use print::{print_defaults, print_settings, print_settings_with_keys};
pub use secret::{KeyName, KeyText};
pub use settings::{AdministratorOptions, DaemonOptions, HistoryOptions, ManagerOptions, Settings, TelemetryOptions};
pub use telemetry_choices::{DETAIL_ATTRIBUTES, TelemetryChoices};
pub use url::{HttpUrl, NoHttpUrl};
pub use value::Value;
