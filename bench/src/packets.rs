//! The packet simulator beside CAMINOS on the same work: 64-byte units of payload that arrive, per second of processor
//! time of the whole process.
//!
//! CAMINOS moves phits: it knows neither lanes bound to service levels nor forwarding tables nor credits in blocks, and
//! its lanes are chosen from hop to hop, so the same load is not the same work in every detail. Equal are the tree,
//! uniform traffic of one packet a message, packet size, offered load, buffer per lane, and simulated time.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use indicatif::ProgressBar;
use selvedge_conformance::HeavyLock;
use serde_json::Value;

use crate::error::BenchError;
use crate::ours;
use crate::stats::Spread;

/// Name of the other simulator's program.
const CAMINOS: &str = "caminos";
/// The command that installs it.
const INSTALL: &str = "cargo install caminos --version 0.6.3 --locked";
/// Bytes of a unit.
const UNIT_BYTES: u32 = 64;
/// Time of a unit on a 4x QDR link, in ns: one cycle of CAMINOS.
const CYCLE_NS: u64 = 16;

/// One piece of work.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// Name of the task for people.
    pub name: &'static str,
    fabric: &'static str,
    hosts: u64,
    /// The tree in CAMINOS's notation, without the word `XGFT`.
    tree: &'static str,
    mtu: u32,
    load: f64,
    vls: u32,
    /// Units that each lane of an input may hold.
    buffer: u32,
    warmup_cycles: u64,
    cycles: u64,
    /// Target for Selvedge, in units a second.
    target: f64,
    /// Largest memory for Selvedge, in bytes.
    memory_target: Option<u64>,
}

const TREE: &str = "height: 1, down: [18], up: [18], servers_per_leaf: 18";

const fn tree_324(name: &'static str, mtu: u32, load: f64, vls: u32, target: f64) -> Task {
    Task {
        name,
        fabric: "karytree:k=18,n=2",
        hosts: 324,
        tree: TREE,
        mtu,
        load,
        vls,
        buffer: if vls == 1 { 128 } else { 64 },
        warmup_cycles: 5_000,
        cycles: 10_000,
        target,
        memory_target: None,
    }
}

/// All tasks. The targets are measured results of CAMINOS, multiplied by the required factor.
pub const TASKS: [Task; 5] = [
    tree_324("324 hosts, MTU 2048, load 0.5, 4 VL", 2048, 0.5, 4, 10e6),
    tree_324("324 hosts, MTU 2048, saturated, 1 VL", 2048, 1.0, 1, 6e6),
    tree_324("324 hosts, MTU 2048, saturated, 4 VL", 2048, 1.0, 4, 5e6),
    tree_324("324 hosts, MTU 256, load 0.5, 4 VL", 256, 0.5, 4, 1.6e6),
    Task {
        name: "5,832 hosts, MTU 2048, load 0.4, 1 VL",
        fabric: "karytree:k=18,n=3",
        hosts: 5_832,
        tree: "height: 2, down: [18, 18], up: [18, 18], servers_per_leaf: 18",
        mtu: 2048,
        load: 0.4,
        vls: 1,
        buffer: 128,
        warmup_cycles: 500,
        cycles: 1_500,
        target: 4e6,
        memory_target: Some(100_000_000),
    },
];

/// Results of one process.
#[derive(Clone, Debug)]
pub struct Run {
    /// Name of the task.
    pub task: &'static str,
    /// The simulator.
    pub simulator: &'static str,
    /// Number of the repetition.
    pub pair: usize,
    /// Processor time, user and system, in seconds.
    pub cpu_s: f64,
    /// Load that arrived, as a fraction of the link.
    pub accepted: f64,
    /// Units that arrived in the whole run, warm-up included, per second of processor time.
    pub units_per_s: f64,
    /// Most memory, in bytes.
    pub peak_bytes: u64,
    /// For Selvedge: the cost of events.
    pub events: Option<Events>,
}

/// The number of events per packet, and their cost.
#[derive(Clone, Copy, Debug)]
pub struct Events {
    per_packet: f64,
    /// Processor time of the whole process, routing included, divided by the number of events.
    ns: f64,
    /// Processor time per event of the simulation alone, in a second process with the same work.
    ns_alone: f64,
    /// Time per event if the same events pass through the bare queue, in that process.
    ns_in_queue: f64,
}

/// Measures every task `repeats` times, Selvedge and CAMINOS in turn.
pub fn measure(quick: bool, repeats: usize, bar: &ProgressBar) -> Result<Vec<Run>, BenchError> {
    let program = ours::program()?;
    let peer = caminos()?;
    let folder = std::env::temp_dir().join(format!("selvedge-packets-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(BenchError::store("making", folder.display()))?;
    let tasks = if quick { &TASKS[..1] } else { &TASKS[..] };
    bar.set_length((tasks.len() * repeats * 2) as u64);
    let mut runs = Vec::new();
    for task in tasks {
        for pair in 0..repeats {
            let _quiet = HeavyLock::acquire()?;
            bar.set_message(task.name);
            let own = task.ours(&program, pair)?;
            bar.inc(1);
            let theirs = task.caminos(&peer, &folder, pair)?;
            bar.inc(1);
            runs.extend([own, theirs]);
        }
    }
    fs::remove_dir_all(&folder).map_err(BenchError::store("removing", folder.display()))?;
    Ok(runs)
}

/// Returns the path of CAMINOS, which must be on the search path.
fn caminos() -> Result<PathBuf, BenchError> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(CAMINOS));
    found.into_iter().find(|path| path.is_file()).ok_or(BenchError::NoPeer {
        peer: CAMINOS,
        install: INSTALL,
    })
}

impl Task {
    fn total(&self) -> u64 {
        self.warmup_cycles + self.cycles
    }

    /// Returns the units that arrive in the whole run at this accepted load.
    fn units(&self, accepted: f64) -> f64 {
        self.hosts as f64 * self.total() as f64 * accepted
    }

    fn ours(&self, program: &Path, pair: usize) -> Result<Run, BenchError> {
        let mut command = Command::new(program);
        let nanoseconds = |cycles: u64| format!("{}ns", cycles * CYCLE_NS);
        command.args(["simulate", "--json", "--engine", "fat-tree", "--traffic", "uniform"]);
        command.args(["--fabric", self.fabric, "--link", "4x-qdr", "--queue", "fifo"]);
        command.args(["--mtu", &self.mtu.to_string(), "--load", &self.load.to_string()]);
        command.args(["--vls", &self.vls.to_string(), "--sl", "dest-hash"]);
        command.args(["--buffer", &self.buffer.to_string(), "--seed", &(pair + 1).to_string()]);
        command.args(["--warmup", &nanoseconds(self.warmup_cycles)]);
        command.args(["--duration", &nanoseconds(self.cycles)]);
        let lacks = || failed("selvedge", "its JSON lacks a figure");
        let read = |text: &str| -> Result<Value, BenchError> {
            serde_json::from_str(text).map_err(|error| failed("selvedge", &error.to_string()))
        };
        let number = |of: &Value, key: &str| of.get(key).and_then(Value::as_f64).ok_or_else(lacks);
        let (text, cpu_s) = timed(&command, "selvedge")?;
        let found = read(&text)?;
        let accepted = number(&found, "accepted_load")?;
        let events = number(&found, "events")?;
        // Events through the bare queue take time that must not count for the process above.
        let second = read(&timed(command.arg("--bare-queue"), "selvedge")?.0)?;
        Ok(Run {
            task: self.name,
            simulator: "selvedge",
            pair,
            cpu_s,
            accepted,
            units_per_s: self.units(accepted) / cpu_s,
            peak_bytes: number(&found, "peak_rss_bytes")? as u64,
            events: Some(Events {
                per_packet: number(&found, "events_per_packet")?,
                ns: cpu_s * 1e9 / events,
                ns_alone: number(&second, "ns_per_event")?,
                ns_in_queue: number(&second, "queue_ns_per_event")?,
            }),
        })
    }

    fn caminos(&self, program: &Path, folder: &Path, pair: usize) -> Result<Run, BenchError> {
        let [config, results] = ["main.cfg", "results.txt"].map(|name| folder.join(name));
        fs::write(&config, self.config(pair)).map_err(BenchError::store("writing", config.display()))?;
        let mut command = Command::new(program);
        command.arg(&config).arg(format!("--results={}", results.display()));
        let (_, cpu_s) = timed(&command, CAMINOS)?;
        let text = fs::read_to_string(&results).map_err(BenchError::store("reading", results.display()))?;
        let number = |key: &str| value_after(&text, key).ok_or_else(|| failed(CAMINOS, "its results lack a figure"));
        let accepted = number("accepted_load")?;
        Ok(Run {
            task: self.name,
            simulator: CAMINOS,
            pair,
            cpu_s,
            accepted,
            units_per_s: self.units(accepted) / cpu_s,
            peak_bytes: (number("linux_high_water_mark")? * 1024.0) as u64,
            events: None,
        })
    }

    /// Returns the configuration for CAMINOS. Switching is virtual cut-through: what CAMINOS calls a router's "flit" is
    /// a packet here.
    fn config(&self, pair: usize) -> String {
        let packet = self.mtu / UNIT_BYTES;
        let Self {
            tree,
            hosts,
            load,
            vls,
            buffer,
            warmup_cycles,
            cycles,
            ..
        } = self;
        format!(
            "Configuration {{
                random_seed: {seed}, warmup: {warmup_cycles}, measured: {cycles},
                topology: XGFT {{ {tree} }},
                traffic: HomogeneousTraffic {{
                    pattern: Uniform, servers: {hosts}, load: {load}, message_size: {packet}
                }},
                maximum_packet_size: {packet},
                router: Basic {{
                    virtual_channels: {vls}, virtual_channel_policies: [EnforceFlowControl, Random], delay: 0,
                    buffer_size: {buffer}, bubble: false, flit_size: {packet}, intransit_priority: false,
                    allow_request_busy_port: true, output_buffer_size: 64, output_prioritize_lowest_label: false
                }},
                routing: UpDown,
                link_classes: [LinkClass {{ delay: 1 }}, LinkClass {{ delay: 1 }}, LinkClass {{ delay: 1 }}],
                launch_configurations: []
            }}\n",
            seed = pair + 42,
        )
    }
}

fn failed(simulator: &'static str, cause: &str) -> BenchError {
    BenchError::NotSimulated {
        simulator,
        cause: cause.to_owned(),
    }
}

/// Runs a command; returns its output, and its processor time in seconds, user and system, as the shell measures it.
fn timed(command: &Command, simulator: &'static str) -> Result<(String, f64), BenchError> {
    let mut shell = Command::new("bash");
    shell.args(["-c", "TIMEFORMAT='cpu %U %S'; time \"$0\" \"$@\""]);
    shell.arg(command.get_program()).args(command.get_args());
    let output = shell.stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(simulator, &error.to_string()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(failed(simulator, &said));
    }
    let words = said.lines().rev().find_map(|line| line.strip_prefix("cpu "));
    let seconds = words.and_then(|words| words.split(' ').map(|word| word.parse::<f64>().ok()).sum());
    let seconds: f64 = seconds.ok_or_else(|| failed(simulator, "the shell reported no processor time"))?;
    // A run that takes no time is none.
    let seconds = seconds.max(0.001);
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), seconds))
}

/// Returns the number on the line after `key:`, the form of CAMINOS's output.
fn value_after(text: &str, key: &str) -> Option<f64> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| line.strip_suffix(':') == Some(key))?;
    lines.next()?.trim_end_matches(',').parse().ok()
}

/// A table for people.
#[must_use]
pub fn summary(runs: &[Run]) -> String {
    let mut text = String::from(
        "\n## Packets simulated, beside CAMINOS\n\n64-byte units of payload that arrive per second of processor time \
         of the whole process, ours and CAMINOS in turn. CAMINOS works per phit and has no semantics of InfiniBand.\n\n\
         | work | ours, million units/s | CAMINOS | times | target | accepted, ours / CAMINOS | thousand packets/s | \
         memory, ours / CAMINOS, MB | events a packet | ns an event: process / simulation / bare queue |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for task in &TASKS {
        let of = |simulator: &'static str| {
            runs.iter()
                .filter(move |r| r.task == task.name && r.simulator == simulator)
        };
        let units = |simulator| Spread::of(of(simulator).map(|run| run.units_per_s / 1e6));
        let (Some(own), Some(theirs)) = (units("selvedge"), units(CAMINOS)) else {
            continue;
        };
        let pairs = of("selvedge").zip(of(CAMINOS));
        let times = Spread::of(pairs.map(|(own, theirs)| own.units_per_s / theirs.units_per_s));
        let mean = |simulator| Spread::of(of(simulator).map(|run| run.accepted)).map_or(0.0, |spread| spread.mean);
        let memory = |simulator| of(simulator).map(|run| run.peak_bytes).max().unwrap_or(0);
        let events = |pick: fn(&Events) -> f64| {
            let spread = Spread::of(of("selvedge").filter_map(|run| run.events.as_ref().map(pick)));
            spread.map_or_else(String::new, |spread| format!("{:.1}", spread.median))
        };
        let fits = task.memory_target.is_none_or(|most| memory("selvedge") <= most);
        let met = if own.median * 1e6 >= task.target && fits {
            "met"
        } else {
            "missed"
        };
        let most = task
            .memory_target
            .map_or_else(String::new, |most| format!(", ≤ {} MB", most / 1_000_000));
        let _ = writeln!(
            text,
            "| {} | {own:.2} | {theirs:.3} | {} | ≥ {}{most}: {met} | {:.3} / {:.3} | {:.0} | {} / {} | {} | \
             {} / {} / {} |",
            task.name,
            times.map_or_else(String::new, |times| format!("{times:.1}")),
            task.target / 1e6,
            mean("selvedge"),
            mean(CAMINOS),
            own.median * 1e3 / f64::from(task.mtu / UNIT_BYTES),
            memory("selvedge") / 1_000_000,
            memory(CAMINOS) / 1_000_000,
            events(|events| events.per_packet),
            events(|events| events.ns),
            events(|events| events.ns_alone),
            events(|events| events.ns_in_queue),
        );
    }
    text
}

/// One line per process.
#[must_use]
pub fn csv(runs: &[Run]) -> String {
    let mut text = String::from(
        "work,pair,simulator,cpu_s,accepted_load,units_per_cpu_s,peak_bytes,events_per_packet,ns_per_event,\
         ns_per_event_simulation,ns_per_event_bare_queue\n",
    );
    for run in runs {
        let events = run.events.map_or_else(
            || ",,,".to_owned(),
            |of| {
                format!(
                    "{:.3},{:.1},{:.1},{:.1}",
                    of.per_packet, of.ns, of.ns_alone, of.ns_in_queue
                )
            },
        );
        let _ = writeln!(
            text,
            "\"{}\",{},{},{:.3},{:.5},{:.0},{},{events}",
            run.task, run.pair, run.simulator, run.cpu_s, run.accepted, run.units_per_s, run.peak_bytes
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found() {
        let text = "Result\n{\n\tcycle:\n\t1500,\n\taccepted_load:\n\t0.49,\n\tinner:\n\t[\n\t\t1,\n\t]\n,\n}";
        let check = |key: &str, want: Option<f64>| assert_eq!(value_after(text, key), want, "{key}");
        check("cycle", Some(1500.0));
        check("accepted_load", Some(0.49));
        check("inner", None);
        check("load", None);
    }

    #[test]
    fn the_shell_tells_processor_time() {
        let mut command = Command::new("bash");
        command.args(["-c", "echo out; for i in {1..20000}; do :; done"]);
        let (out, seconds) = timed(&command, "bash").unwrap();
        assert_eq!(out, "out\n");
        assert!(seconds > 0.0 && seconds < 60.0, "{seconds}");
        command.args(["-c", "exit 3"]);
        let mut command = Command::new("false");
        command.arg("now");
        assert!(timed(&command, "false").is_err());
    }
}
