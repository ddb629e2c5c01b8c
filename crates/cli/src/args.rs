//! Every command, and where it is carried out.

use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::exit::{CliError, Exit};
use crate::out::note;
use crate::{
    apm, backups, bench, changes, compare, config, decode, demo, emulate, experiment, fault, headings, health, job,
    maintenance, man, model, rebalance, replay, route, run, shell, simulate, soak, status, telemetry, topology,
    transition, verify,
};

/// Largest number of threads that a flag may request: more than the processors of any machine in use, but few enough to
/// start.
pub const THREADS_MAX: i64 = 1_024;

/// Largest number of random pairings of a measurement. One number is kept for each: 160 MB in all.
pub const PAIRINGS_MAX: i64 = 10_000_000;

/// A fabric manager for InfiniBand that proves every change before a switch sees it.
#[derive(Debug, Parser)]
#[command(name = "selvedge", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Run(Box<run::RunArgs>),
    Watch(Box<run::WatchArgs>),
    Status(status::StatusArgs),
    Health(health::HealthArgs),
    Telemetry(telemetry::TelemetryArgs),
    Forget(health::ForgetArgs),
    Drain(maintenance::DrainArgs),
    Isolate(maintenance::IsolateArgs),
    Enable(maintenance::EnableArgs),
    Job(job::JobArgs),
    Sweep(status::SweepArgs),
    Rebalance(rebalance::RebalanceArgs),
    Reload(changes::ReloadArgs),
    Topology(topology::TopologyArgs),
    Route(Box<route::RouteArgs>),
    Compare(Box<compare::CompareArgs>),
    Transition(transition::TransitionArgs),
    Backups(Box<backups::BackupsArgs>),
    Apm(apm::ApmArgs),
    Bench(bench::BenchArgs),
    Verify(verify::VerifyArgs),
    Model(Box<model::ModelArgs>),
    Simulate(Box<simulate::SimulateArgs>),
    Experiment(experiment::ExperimentArgs),
    Emulate(emulate::EmulateArgs),
    Fault(fault::FaultArgs),
    Decode(decode::DecodeArgs),
    Replay(replay::ReplayArgs),
    Soak(soak::SoakArgs),
    Config(config::ConfigArgs),
    Completions(shell::CompletionsArgs),
    Man(man::ManArgs),
}

/// Old spellings of flags with the new ones. Each is a hidden alias of its flag.
pub const OLD_SPELLINGS: [(&str, &str); 1] = [("cn", "compute")];
/// Commands that have such a flag.
const WITH_OLD_SPELLINGS: [&str; 4] = ["backups", "compare", "route", "simulate"];

/// Warns once about each old spelling on the command line, and names the new one.
pub fn warn_of_old_spellings(words: impl Iterator<Item = OsString>) {
    let words: Vec<String> = words.filter_map(|word| word.into_string().ok()).collect();
    if !words
        .get(1)
        .is_some_and(|word| WITH_OLD_SPELLINGS.contains(&word.as_str()))
    {
        return;
    }
    for (old, new) in OLD_SPELLINGS {
        let flag = format!("--{old}");
        let is_it = |word: &String| *word == flag || word.starts_with(&format!("{flag}="));
        if words.iter().any(is_it) {
            note(format!("warning: {flag} is an old name of --{new}; write --{new}"));
        }
    }
}

/// Returns the definition of every command and flag, with headings. Parser, help, manual pages and completions are all
/// made from it.
pub fn command() -> clap::Command {
    headings::under(Cli::command())
}

impl Cli {
    /// Reads the command line of this process.
    pub fn of_process() -> Result<Self, clap::Error> {
        Self::from_arg_matches(&command().try_get_matches()?)
    }

    /// True if errors are wanted as JSON.
    pub fn json(&self) -> bool {
        match &self.command {
            Command::Run(args) => args.json(),
            Command::Watch(args) => args.json(),
            Command::Status(args) => args.json(),
            Command::Health(args) => args.json(),
            Command::Telemetry(args) => args.json(),
            Command::Forget(args) => args.json(),
            Command::Drain(args) => args.json(),
            Command::Isolate(args) => args.json(),
            Command::Enable(args) => args.json(),
            Command::Job(args) => args.json(),
            Command::Topology(args) => args.json(),
            Command::Route(args) => args.json(),
            Command::Compare(args) => args.json(),
            Command::Transition(args) => args.json(),
            Command::Backups(args) => args.json(),
            Command::Apm(args) => args.json(),
            Command::Verify(args) => args.json(),
            Command::Model(args) => args.json(),
            Command::Simulate(args) => args.json(),
            Command::Experiment(args) => args.json(),
            Command::Fault(args) => args.json(),
            Command::Sweep(args) => args.json(),
            Command::Rebalance(args) => args.json(),
            Command::Reload(args) => args.json(),
            Command::Decode(args) => args.json(),
            Command::Replay(args) => args.json(),
            Command::Soak(args) => args.json(),
            Command::Config(args) => args.json(),
            Command::Bench(_) | Command::Demo(_) | Command::Emulate(_) | Command::Completions(_) | Command::Man(_) => {
                false
            }
        }
    }

    /// Carries out the command.
    pub fn run(&self) -> Result<Exit, CliError> {
        match &self.command {
            Command::Demo(args) => demo::run(args),
            Command::Run(args) => run::run(args),
            Command::Watch(args) => run::watch(args),
            Command::Status(args) => status::run(args),
            Command::Health(args) => health::run(args),
            Command::Telemetry(args) => telemetry::run(args),
            Command::Forget(args) => health::forget(args),
            Command::Drain(args) => maintenance::drain(args),
            Command::Isolate(args) => maintenance::isolate(args),
            Command::Enable(args) => maintenance::enable(args),
            Command::Job(args) => job::run(args),
            Command::Sweep(args) => status::sweep(args),
            Command::Rebalance(args) => rebalance::run(args),
            Command::Reload(args) => changes::reload(args),
            Command::Topology(args) => topology::run(args),
            Command::Route(args) => route::run(args),
            Command::Compare(args) => compare::run(args),
            Command::Transition(args) => transition::run(args),
            Command::Backups(args) => backups::run(args),
            Command::Apm(args) => apm::run(args),
            Command::Bench(args) => bench::run(args),
            Command::Verify(args) => verify::run(args),
            Command::Model(args) => model::run(args),
            Command::Simulate(args) => simulate::run(args),
            Command::Experiment(args) => experiment::run(args),
            Command::Emulate(args) => emulate::run(args),
            Command::Fault(args) => fault::run(args),
            Command::Decode(args) => decode::run(args),
            Command::Replay(args) => replay::run(args),
            Command::Soak(args) => soak::run(args),
            Command::Config(args) => config::run(args),
            Command::Completions(args) => shell::completions(args),
            Command::Man(args) => man::run(args),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Splits a command line as a shell does: by blanks, but not within single quotes.
    pub fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut is_quoted = false;
        for letter in line.chars() {
            match letter {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                letter => words.last_mut().unwrap().push(letter),
            }
        }
        words
    }

    #[test]
    fn the_cheat_sheet_has_commands_that_the_program_takes() {
        let page = include_str!("../../../docs/cheat-sheet.md");
        let code = page.split('`').skip(1).step_by(2);
        let lines: Vec<&str> = code.filter(|code| code.starts_with("selvedge ")).collect();
        assert!(lines.len() > 25, "{lines:?}");
        for line in lines {
            if let Err(error) = command().try_get_matches_from(words(line)) {
                panic!("{line}\n{error}");
            }
        }
    }

    #[test]
    fn definitions_are_sound() {
        command().debug_assert();
    }
}
