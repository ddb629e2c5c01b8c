//! Selvedge in OpenSM's place: with its configuration file, and its short flags on `selvedge run`.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _};
use selvedge_config::{FlagFile, OpenSmFlag};
use selvedge_plan::{PartEnforce, Policy};
use selvedge_types::Guid;

use crate::args::Cli;

/// What an OpenSM is started with.
#[derive(Args, Clone, Debug, Default)]
pub struct OpenSmArgs {
    /// Read OpenSM's configuration file instead of a TOML file
    #[arg(short = 'F', long, value_name = "FILE", conflicts_with = "config")]
    pub opensm_conf: Option<PathBuf>,
    /// Start although FILE has settings that Selvedge does not support; each of them is named
    #[arg(long, requires = "opensm_conf")]
    pub skip_refused: bool,
    /// Print the meaning of the configuration, with each option of FILE, and end
    #[arg(long, conflicts_with = "background")]
    pub check_config: bool,
    /// Manage the fabric of the local port with this GUID
    #[arg(short = 'g', long, value_name = "GUID", conflicts_with_all = ["port", "fabric"])]
    pub guid: Option<Guid>,
    /// Keep the LIDs of this file, as OpenSM's /var/cache/opensm/guid2lid; LIDs that ports hold come first
    #[arg(long, value_name = "FILE")]
    pub guid2lid: Option<PathBuf>,
    /// Partitions as in this file, as OpenSM's /etc/opensm/partitions.conf
    #[arg(short = 'P', long, value_name = "FILE")]
    partitions: Option<PathBuf>,
    /// Packets that switches check against partitions in front of hosts (default: off; in OpenSM's file: both)
    #[arg(short = 'Z', long, value_name = "both|in|out|off", visible_alias = "part_enforce")]
    part_enforce: Option<PartEnforce>,
    /// Give all ports new LIDs at the first sweep; DANGER: connections break
    #[arg(short = 'r', long, visible_alias = "reassign_lids")]
    reassign_lids: bool,
    /// GUIDs of ports of compute nodes, one a line: balanced first
    #[arg(short = 'u', long, value_name = "FILE", visible_alias = "cn_guid_file")]
    compute: Option<PathBuf>,
    /// GUIDs of ports of I/O nodes, one a line: balanced after compute nodes
    #[arg(short = 'G', long, value_name = "FILE", visible_alias = "io_guid_file")]
    io: Option<PathBuf>,
    /// GUIDs of ports in the order in which they are routed, one a line
    #[arg(short = 'X', long, value_name = "FILE", visible_alias = "guid_routing_order_file")]
    guid_order: Option<PathBuf>,
    /// OpenSM's log flags: with 0x40 (-D 0x43) all its dump files are written, as opensm.fdbs, not only that of links
    #[arg(short = 'D', long, value_name = "FLAGS", value_parser = log_flags)]
    pub log_flags: Option<u8>,
    /// Go on in the background
    #[arg(short = 'B', long, conflicts_with = "once")]
    pub background: bool,
}

impl OpenSmArgs {
    /// Returns the files that these flags name.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, FlagFile, PathBuf)> {
        let files = [
            ("--guid2lid", FlagFile::Guid2lid, &self.guid2lid),
            ("-P", FlagFile::Partitions, &self.partitions),
            ("-u", FlagFile::Compute, &self.compute),
            ("-G", FlagFile::Io, &self.io),
            ("-X", FlagFile::GuidOrder, &self.guid_order),
        ];
        files
            .map(|(flag, what, path)| Some((flag, what, path.clone()?)))
            .into_iter()
            .flatten()
    }

    /// Applies the other flags to the policy.
    pub fn over(&self, policy: &mut Policy) {
        policy.part_enforce = self.part_enforce.unwrap_or(policy.part_enforce);
        policy.reassign_lids |= self.reassign_lids;
    }
}

/// Reads `log_flags` as OpenSM does: hexadecimal after 0x, otherwise decimal.
fn log_flags(text: &str) -> Result<u8, String> {
    let flags = match text.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16),
        None => text.parse(),
    };
    flags.map_err(|error| format!("{error}; want 0x00 to 0xff"))
}

/// Returns explanations of the OpenSM flags on a `selvedge run` command line with an unknown flag.
pub fn foreign_flags(error: &clap::Error) -> Vec<String> {
    let is_run = std::env::args().nth(1).is_some_and(|word| word == "run");
    if error.kind() != ErrorKind::UnknownArgument || !is_run {
        return Vec::new();
    }
    let command = Cli::command();
    let run = command.find_subcommand("run");
    let is_known = |word: &str| run.is_some_and(|run| takes(run, word));
    let words = std::env::args().skip(2).filter(|word| !is_known(word));
    let mut said: Vec<String> = words
        .filter_map(|word| Some(OpenSmFlag::of_word(&word)?.explained()))
        .collect();
    said.dedup();
    said
}

/// True if the command has the flag of a command-line word.
fn takes(command: &clap::Command, word: &str) -> bool {
    let long = word
        .strip_prefix("--")
        .map(|name| name.split('=').next().unwrap_or(name));
    let short = word.strip_prefix('-').and_then(|name| name.chars().next());
    command.get_arguments().any(|argument| match long {
        Some(long) => {
            let aliases = argument.get_all_aliases().unwrap_or_default();
            argument.get_long() == Some(long) || aliases.contains(&long)
        }
        None => short.is_some() && argument.get_short() == short,
    })
}
