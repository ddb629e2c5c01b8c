//! `selvedge config`: the configuration file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use selvedge_api as api;
use selvedge_config::{Key, Settings, Value, print_defaults, print_settings, read};

use crate::exit::{CliError, Exit};
use crate::manage::warn_of_old_sections;
use crate::out::{Format, JsonArg, Out};

/// Print or check configuration files.
#[derive(Args, Debug)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print every key with its default and what it does
    Defaults,
    /// Check a file and print what it means, key by key
    Check {
        /// The file
        file: PathBuf,
        #[command(flatten)]
        format: JsonArg,
    },
}

impl ConfigArgs {
    /// The format of errors.
    pub const fn json(&self) -> bool {
        matches!(&self.command, Command::Check { format, .. } if format.json)
    }
}

/// Every key that has a value, with it.
pub fn values(settings: &Settings) -> BTreeMap<String, serde_json::Value> {
    let json = |value| match value {
        Value::Bool(value) => value.into(),
        Value::Int(value) => value.into(),
        Value::List(texts) => texts.into(),
        Value::Text(text) => text.into(),
    };
    let keys = Key::ALL.iter();
    keys.filter_map(|key| Some((key.path(), json(key.value(settings)?))))
        .collect()
}

/// Runs the command.
pub fn run(args: &ConfigArgs) -> Result<Exit, CliError> {
    let mut out = Out::new(Format::default());
    match &args.command {
        Command::Defaults => out.write(&print_defaults())?,
        Command::Check { file, format } => {
            let settings = read(file)?;
            warn_of_old_sections(&settings);
            match format.json {
                true => out.document(api::Settings {
                    settings: values(&settings),
                })?,
                false => out.write(&print_settings(&settings))?,
            }
        }
    }
    out.flush()?;
    Ok(Exit::Good)
}
