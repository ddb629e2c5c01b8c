//! `selvedge config`: the configuration file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use selvedge_api as api;
use selvedge_config::{Against, Key, Settings, SettingsFile, Sources, Value, admit, print_defaults};
use selvedge_http::Client;
use selvedge_qos::intent;
use selvedge_qos::ufm::Bandwidths;

use crate::exit::{CliError, Exit};
use crate::out::{Format, JsonArg, Out, note};
use crate::{admission, load};

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
    /// Check a file as a start does, and print what it means, key by key
    Check {
        /// The file
        file: PathBuf,
        /// Check it as a reload of the manager that listens on SOCKET does
        #[arg(long, value_name = "SOCKET")]
        against: Option<PathBuf>,
        #[command(flatten)]
        format: JsonArg,
    },
    /// Print QoS classes for the bandwidths of a UFM file (enhanced_qos_policy_file), and what they do not keep
    FromUfm {
        /// The file
        file: PathBuf,
        /// Data rate of links between switches
        #[arg(long, value_name = "MBPS", value_parser = clap::value_parser!(u32).range(1..))]
        link_rate: u32,
    },
}

impl ConfigArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        matches!(&self.command, Command::Check { format, .. } if format.json)
    }
}

/// Returns every key that has a value, with the value; a placeholder for a secret one.
pub fn values(settings: &Settings) -> BTreeMap<String, serde_json::Value> {
    let json = |value| match value {
        Value::Bool(value) => value.into(),
        Value::Int(value) => value.into(),
        Value::List(texts) => texts.into(),
        Value::Secret(key) => key.to_string().into(),
        Value::Table(entries) => entries.into_iter().collect(),
        Value::Text(text) => text.into(),
    };
    let keys = Key::ALL.iter();
    keys.filter_map(|key| Some((key.path(), json(key.shown(settings)?))))
        .collect()
}

/// Runs the command.
pub fn run(args: &ConfigArgs) -> Result<Exit, CliError> {
    let mut out = Out::new(Format::default());
    match &args.command {
        Command::Defaults => out.write(&print_defaults())?,
        Command::FromUfm { file, link_rate } => from_ufm(&mut out, file, *link_rate)?,
        Command::Check { file, against, format } => {
            let format = Format::from(*format);
            return match against {
                Some(socket) => check_against(socket, file, format),
                None => {
                    let sources = Sources {
                        file: SettingsFile::Toml(file.clone()),
                        ..Sources::new(load::READERS)
                    };
                    admission::show(&admit(&sources, Against::Start), format)
                }
            };
        }
    }
    out.flush()?;
    Ok(Exit::Good)
}

/// Prints the section of the configuration file, and notes about what is lost.
fn from_ufm(out: &mut Out, file: &Path, link_rate: u32) -> Result<(), CliError> {
    let bytes = load::text_bytes(file)?;
    let text = String::from_utf8_lossy(&bytes);
    let import = Bandwidths::parse(&text).and_then(|read| read.intent(link_rate));
    let import = import.map_err(|cause| CliError::Ufm {
        path: file.to_owned(),
        cause,
    })?;
    import.notes.iter().for_each(|lost| note(lost.to_string()));
    out.line("[qos]")?;
    out.line("classes = [")?;
    for line in intent::lines(&import.intent) {
        out.line(format!("    \"{line}\","))?;
    }
    out.line("]")
}

/// Asks a running manager whether a reload would accept a file. This process reads the file itself; the manager reads
/// the files that are named in it.
fn check_against(socket: &Path, file: &Path, format: Format) -> Result<Exit, CliError> {
    let failed = |cause| CliError::Read {
        path: file.to_owned(),
        cause,
    };
    let request = api::CheckRequest {
        path: file.canonicalize().map_err(failed)?.display().to_string(),
        text: std::fs::read_to_string(file).map_err(failed)?,
        is_toml: true,
    };
    let check = Client::new(socket).check(&request)?;
    admission::complain(&check);
    let exit = if check.ok { Exit::Good } else { Exit::Usage };
    let mut out = Out::new(format);
    if format.json {
        out.document(check)?;
    } else {
        let words = match check.ok {
            true => out.good("a reload takes it"),
            false => out.bad("a reload refuses it, and changes nothing"),
        };
        out.line(words)?;
    }
    out.flush()?;
    Ok(exit)
}
