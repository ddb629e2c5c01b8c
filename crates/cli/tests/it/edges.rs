//! Tests numbers at the limits of their types, for every numeric flag of every command and every key of a fabric
//! specification. The result may be an error, an answer or long work, but never a panic or unbounded memory.
//!
//! The flags come from `--help`, so that a new one is tested without a change here.
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::support::Lab;

/// Whole numbers to try: both limits of 8, 16, 32 and 64 bits, and beyond.
const WHOLE: [&str; 9] = [
    "0",
    "1",
    "255",
    "65536",
    "4294967295",
    "4294967296",
    "18446744073709551614",
    "18446744073709551615",
    "18446744073709551616",
];
const REAL: [&str; 7] = ["-1", "0", "1e-300", "1e300", "nan", "inf", "18446744073709551616"];
const TIMES: [&str; 7] = ["0ns", "1ns", "1s", "3600s", "18446744073709551615ns", "1e300s", "-1ns"];
const RANGES: [&str; 6] = [
    "0..1",
    "0..18446744073709551615",
    "18446744073709551610..18446744073709551615",
    "18446744073709551614..18446744073709551615",
    "18446744073709551615..18446744073709551616",
    "5..5",
];

/// A command that still works after this time has started without a panic.
const LONG: Duration = Duration::from_millis(1_500);
/// Memory limit of a command, in KiB.
const MEMORY_KIB: u32 = 6 << 20;

const RING: &str = "ring:switches=4,hosts=1";

/// Commands with numeric flags, each with arguments that let it end soon. Commands that would run for ever or start
/// others get an invalid fabric: they end right after flag parsing.
const COMMANDS: [(&str, &[&str]); 12] = [
    ("backups", &["--fabric", RING, "--engine", "updn"]),
    ("compare", &["--fabric", RING, "--engines", "updn", "--seeds", "1"]),
    ("demo", &["--fabric", "none:x=1"]),
    ("emulate", &["--fabric", "none:x=1"]),
    ("experiment", &["edges.toml"]),
    ("model", &["--fabric", RING]),
    ("route", &["--fabric", RING]),
    ("run", &["--fabric", RING, "--once"]),
    ("simulate", &["--fabric", RING, "--duration", "1us", "--warmup", "0ns"]),
    ("soak", &["--seeds", "1..2"]),
    ("status", &["--socket", "none"]),
    ("transition", &["--fabric", RING, "--from", "updn", "--to", "minhop"]),
];

/// Returns values for a flag by its value name in `--help`; `None` if the flag takes no number.
fn values(name: &str) -> Option<&'static [&'static str]> {
    let is_range = name.split_once('-').is_some_and(|(from, to)| {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        is_number(from) && is_number(to)
    });
    match name {
        "N" | "N|A-B" | "LEVEL" | "US" | "NS" | "MS" | "PPM" | "BYTES" | "BLOCKS" | "MESSAGES" | "PACKETS"
        | "SECONDS" | "FLAGS" | "LINKS" => Some(&WHOLE),
        "FRACTION" | "SHARE" => Some(&REAL),
        "TIME" => Some(&TIMES),
        "A..B" => Some(&RANGES),
        _ => is_range.then_some(&WHOLE),
    }
}

/// Returns the numeric flags in the `--help` of a command.
fn numeric_flags(lab: &Lab, command: &str) -> Vec<(String, &'static [&'static str])> {
    let help = lab.run(&[command, "--help"]).exits(0).out;
    let flag = |line: &str| {
        let (_, rest) = line.split_once("--")?;
        let (name, rest) = rest.split_once(" <")?;
        let (value, _) = rest.split_once('>')?;
        let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        Some((format!("--{name}"), values(value)?)).filter(|_| is_name)
    };
    help.lines()
        .filter(|line| line.trim_start().starts_with('-'))
        .filter_map(flag)
        .collect()
}

/// Runs the program. Returns an error if it ended by a panic or a signal.
fn run(lab: &Lab, args: &[String]) -> Result<(), String> {
    let limited = format!("ulimit -v {MEMORY_KIB}; exec \"$0\" \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &limited, env!("CARGO_BIN_EXE_selvedge")])
        .args(args)
        .env("XDG_RUNTIME_DIR", lab.folder())
        .env("OSM_TMP_DIR", lab.folder())
        .current_dir(lab.folder())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let stderr = child.stderr.take().unwrap();
    let said = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
    let end = Instant::now() + LONG;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if Instant::now() > end => {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            None => std::thread::park_timeout(Duration::from_millis(5)),
        }
    };
    let said = said.join().unwrap();
    let code = status.map(|status| status.code());
    let is_orderly = !said.contains("panicked") && code.is_none_or(|code| code.is_some_and(|code| code < 100));
    match is_orderly {
        true => Ok(()),
        false => Err(format!("{} (process {pid}): {code:?}\n{said}", args.join(" "))),
    }
}

/// Runs all command lines, several at a time. Fails with all errors.
fn try_all(lab: &Lab, lines: Vec<Vec<String>>) {
    let count = lines.len();
    let (left, failed) = (Mutex::new(lines), Mutex::new(Vec::new()));
    let next = || left.lock().unwrap().pop();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(line) = next() {
                    if let Err(what) = run(lab, &line) {
                        failed.lock().unwrap().push(what);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {count}:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn numbers_of_flags() {
    let lab = Lab::new("edges");
    lab.write(
        "edges.toml",
        &format!("[common]\nfabric = \"{RING}\"\nduration = \"1us\"\nwarmup = \"0ns\"\n"),
    );
    let mut lines = Vec::new();
    for (command, base) in COMMANDS {
        let flags = numeric_flags(&lab, command);
        for (flag, values) in &flags {
            for value in *values {
                // The tested flag replaces the same flag among the arguments.
                let at = base.iter().position(|arg| arg == flag);
                let kept = base
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| at.is_none_or(|at| *i != at && *i != at + 1));
                let mut line = vec![command.to_owned()];
                line.extend(kept.map(|(_, arg)| (*arg).to_owned()));
                line.push(format!("{flag}={value}"));
                lines.push(line);
            }
        }
    }
    assert!(
        lines.len() > 300,
        "only {} command lines: has --help another form?",
        lines.len()
    );
    try_all(&lab, lines);
}

#[test]
fn numbers_of_specifications() {
    let lab = Lab::new("edges-spec");
    let mut lines = Vec::new();
    let specs = [
        "karytree:k=V,n=2",
        "karytree:k=2,n=V",
        "mport:m=V,n=2",
        "mport:m=4,n=V",
        "pgft:m=VxV,w=1xV,p=1xV",
        "pgft:h=V,m=4x4,w=1x4",
        "xgft:m=4xV,w=1xV",
        "mesh:VxV",
        "torus:VxVxV,hosts=V",
        "random:switches=V,degree=4",
        "random:switches=8,degree=V",
        "ring:switches=V,hosts=1",
        "ring:switches=4,hosts=V",
        "single:ports=V,hosts=V",
        "single:ports=4,hosts=V",
        "sx6536:remove-links=V",
        "sx6536:remove-links=V%",
        "sx6536:rails=V",
        "sx6536:ports-per-host=V",
        "sx6536:hcas=V",
        "sx6536:guids=shuffled,seed=V",
        "sx6536:mtu=V",
        "sx6536:vls=V",
        "sx6536:guidcap=V",
    ];
    for spec in specs {
        for value in WHOLE {
            let spec = spec.replace('V', value);
            lines.push(["topology", "show", &spec].map(str::to_owned).to_vec());
        }
    }
    try_all(&lab, lines);
}

/// Returns command lines with traces that have `value` in every numeric place.
fn traces(lab: &Lab, base: &[&str], value: &str) -> Vec<Vec<String>> {
    let ops = [
        ("calc", "calc V", ""),
        ("send", "send Vb to 1 tag V", "recv Vb from 0 tag V"),
        ("recv", "recv Vb from V", "send Vb to 0"),
    ];
    let line = |(name, text, peer): (&str, &str, &str)| {
        let trace = format!("num_ranks 2\nrank 0 {{\na: {text}\nb: calc 1\nb requires a\n}}\nrank 1 {{\n{peer}\n}}\n");
        let trace = trace.replace('V', value);
        let file = lab.write(&format!("{name}-{value}.goal"), &trace);
        let flag = ["--goal".to_owned(), file];
        base.iter().map(|word| (*word).to_owned()).chain(flag).collect()
    };
    ops.map(line).into()
}

#[test]
fn numbers_of_traffic_and_experiments() {
    let lab = Lab::new("edges-traffic");
    let mut lines = Vec::new();
    let traffic = [
        "uniform:senders=V",
        "shift:by=V",
        "hotspot:to=V,share=5%",
        "hotspot:to=0,share=V",
        "incast:to=V,from=V",
        "incast:to=0,from=V",
        "pairs:0>V",
        "ring-all-reduce:bytes=V,repeat=2",
        "exchange:bytes=64,repeat=V",
        "stencil-3d:bytes=V,repeat=1000",
    ];
    let arrivals = ["bursts:mean=V", "closed:window=V"];
    let jobs = [
        "uniform hosts=V",
        "uniform hosts=2 place=stride=V",
        "exchange place=list=0+V",
        "uniform hosts=2 sl=V",
        "uniform hosts=2 load=V",
    ];
    let changes = [
        "Vns cut \"S-0\"[1]",
        "0ns entry \"S-0\" V 1",
        "0ns entry \"S-0\" 1 V",
        "0ns flap \"S-0\"[1] times=V",
    ];
    let base = ["simulate", "--fabric", RING, "--duration", "1us", "--warmup", "0ns"];
    for value in WHOLE {
        let flags = [
            ("--traffic", &traffic[..]),
            ("--arrivals", &arrivals[..]),
            ("--job", &jobs[..]),
            ("--change", &changes[..]),
        ];
        for (flag, texts) in flags {
            for text in texts {
                let mut line: Vec<String> = base.map(str::to_owned).to_vec();
                line.extend([flag.to_owned(), text.replace('V', value)]);
                lines.push(line);
            }
        }
        for (name, text) in [
            ("seed", "seeds = \"0-V\""),
            ("last", "seeds = \"V-V\""),
            ("list", "seeds = [V]"),
        ] {
            let file = lab.write(
                &format!("{name}-{value}.toml"),
                &format!("{}\n[common]\nfabric = \"{RING}\"\n", text.replace('V', value)),
            );
            lines.push(vec!["experiment".to_owned(), "--check".to_owned(), file]);
        }
        lines.extend(traces(&lab, &base, value));
    }
    try_all(&lab, lines);
}
