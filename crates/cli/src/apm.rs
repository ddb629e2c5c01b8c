//! `selvedge apm`: alternate paths for automatic path migration, from the tables in force.

mod tables;

use std::sync::Arc;

use clap::{Args, Subcommand};
use selvedge_apm::Policy;
use selvedge_routing::Note;
use selvedge_study::alternates::{Question, Start};

use crate::args::THREADS_MAX;
use crate::exit::{CliError, Exit};
use crate::load::{self, NameArgs};
use crate::meter;
use crate::out::{Format, Out, note};
use crate::progress::{self, Drawn};
use crate::route::TablesArgs;

/// Show alternate paths for automatic path migration (APM)
#[derive(Args, Debug)]
pub struct ApmArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(Box<ShowArgs>),
}

/// Show which pairs of hosts have an alternate path, what it shares with the primary path, and which single faults
/// break both; exit code 1 if a pair has none that shares nothing avoidable
///
/// Without a host: figures over all pairs. With one: its alternate path to every other host. With two: the alternate
/// path by every policy.
#[derive(Args, Debug)]
struct ShowArgs {
    /// Hosts: a name, a NodeDescription or a GUID
    #[arg(value_name = "HOST", num_args = 0..=2)]
    hosts: Vec<String>,
    /// The fabric: a generator, as sx6536, or a file
    #[arg(long, value_name = "SPEC")]
    fabric: String,
    /// The engine that makes the tables; with another one than 'file', --lfts are the tables in force
    #[arg(long, value_name = "NAME", default_value = "auto")]
    engine: String,
    #[command(flatten)]
    tables: TablesArgs,
    /// How the alternate path is chosen: manager (most disjoint, then least loaded), port, hca, lmc=N (path bits N),
    /// openmpi, or mvapich2 (mvapich2=N for N queue pairs per port) (default: every policy for two hosts, else manager)
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
    /// Path bits of the primary paths
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=127))]
    path_bits: u8,
    /// Examine only the pairs of these hosts
    #[arg(long, value_name = "HOST", value_delimiter = ',', conflicts_with = "hosts")]
    among: Vec<String>,
    /// Examine at most this number of pairs, chosen at random if there are more (default: 250,000)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    sample: Option<u64>,
    /// Seed of the sample
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of faults and of pairs that are listed
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Threads to use; 0: as many as there are cores
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=THREADS_MAX))]
    threads: u16,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    format: Format,
}

/// Runs the command.
pub fn run(args: &ApmArgs) -> Result<Exit, CliError> {
    match &args.command {
        Command::Show(args) => args.show(),
    }
}

impl ApmArgs {
    /// True if errors are printed as JSON.
    pub fn json(&self) -> bool {
        match &self.command {
            Command::Show(args) => args.format.json,
        }
    }
}

impl ShowArgs {
    fn show(&self) -> Result<Exit, CliError> {
        let question = self.question()?;
        let bar = progress::bar();
        let watch = Drawn(&bar);
        let mut out = Out::new(self.format);
        let ok = match &self.hosts[..] {
            [] => {
                let answer = question.answer(&self.among, &watch);
                bar.finish_and_clear();
                let answer = answer?;
                say_notes(&answer.notes);
                tables::figures(&mut out, self.format, &answer.alternates)?;
                answer.alternates.ok
            }
            [first, more @ ..] => {
                let listed = match more.first() {
                    None => question.of_host(first, &watch),
                    Some(second) => question.of_pair((first, second), &watch),
                };
                bar.finish_and_clear();
                let listed = listed?;
                say_notes(&listed.notes);
                tables::paths(&mut out, self.format, &listed.paths)?;
                listed.paths.ok
            }
        };
        out.flush()?;
        Ok(if ok { Exit::Good } else { Exit::NotGood })
    }

    fn question(&self) -> Result<Question, CliError> {
        let engine = self.engine.parse()?;
        let policy = self.policy.as_deref().map(str::parse::<Policy>).transpose()?;
        let threads = meter::start_threads(self.threads)?;
        let fabric = load::named(&load::fabric(&self.fabric)?, &self.names.read()?);
        let (lids, options) = self.tables.read(&fabric)?;
        Ok(Question {
            name: self.fabric.clone(),
            start: Start {
                fabric: Arc::new(fabric),
                lids: Arc::new(lids),
                engine,
                options,
            },
            bits: self.path_bits,
            policy,
            sample: self.sample,
            seed: self.seed,
            top: self.top,
            threads,
        })
    }
}

fn say_notes(notes: &[Note]) {
    for found in notes {
        note(format!("note: {found}"));
    }
}
