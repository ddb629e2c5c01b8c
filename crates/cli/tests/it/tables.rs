//! CSV and JSON of every command, and tables on narrow terminals.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::{Lab, Process, repeat_answers, wait_for};

/// Commands that print neither table nor figures: text for a shell, a file format, prose, or nothing.
const WITHOUT_TABLE: [&str; 23] = [
    "bench",
    "completions",
    "config check",
    "config defaults",
    "config from-ufm",
    "decode",
    "demo",
    "drain",
    "emulate",
    "enable",
    "forget",
    "health",
    "isolate",
    "job end",
    "job explain",
    "job start",
    "man",
    "replay",
    "sweep",
    "telemetry baseline",
    "topology approve",
    "topology convert",
    "topology generate",
];

/// Columns with arbitrary text. Numbers in other columns must be plain.
const TEXT: [&str; 19] = [
    "attribute",
    "becomes",
    "change",
    "event",
    "faults",
    "finding",
    "help",
    "here",
    "kind",
    "lost",
    "name",
    "node",
    "option",
    "peer",
    "reason",
    "takes",
    "time",
    "what",
    "why",
];

/// A folder with the files that commands read, and a running manager for them.
pub struct World {
    pub lab: Lab,
    _manager: Process,
}

impl World {
    pub fn new(name: &str) -> Self {
        let lab = Lab::new(name);
        let files = ["--lids-out", "lids", "--lfts-out", "lfts"];
        lab.run(&[&["route", "--fabric", "sx6536", "--engine", "minhop"][..], &files].concat());
        lab.run(&[
            "route",
            "--fabric",
            "ring:switches=6,hosts=1",
            "--engine",
            "minhop",
            "--lids-out",
            "ring-lids",
            "--lfts-out",
            "ring-lfts",
        ]);
        lab.write("opensm.conf", "max_wire_smps 16\nlmc 1\n");
        let experiment = "seeds = \"1-2\"\nfigures = [\"accepted_load\", \"latency_ns.p99\", \"deadlock?\"]\n\
             [common]\nfabric = \"ring:switches=4,hosts=1\"\nduration = \"2us\"\nwarmup = \"1us\"\n\
             [vary]\nload = [0.1, 0.2]\n";
        lab.write("e.toml", experiment);
        let intervals = "[telemetry]\ninterval_ms = 500\nerrors_interval_ms = 500\nhistory_interval_ms = 500\n\
                         [daemon]\nstate_dir = \"state\"\n[qos]\nclasses = [\"rest: default\", \"MPI: share=60\"]\n";
        let settings = |life: u8| format!("{intervals}[fabric]\npacket_life = {life}\n");
        lab.write("fm.toml", &settings(16));
        // A name without its folder: tables break long paths of files.
        let manager = lab.start(&["run", "--fabric", "sx6536", "--config", "fm.toml"]);
        wait_for("subnet that is up", || (lab.run(&["status"]).code == 0).then_some(()));
        let job = "job start sim --hosts H-0,H-1 --class MPI --share 40";
        lab.run(&job.split(' ').collect::<Vec<_>>()).exits(0);
        lab.write("fm.toml", &settings(17));
        lab.run(&["reload"]).exits(0);
        lab.write("fm.toml", &settings(18));
        wait_for("rates", || {
            let status = lab.run(&["telemetry", "status", "--json"]).exits(0).json();
            (status["classes"][0]["slots"].as_u64() > Some(1)).then_some(())
        });
        wait_for("stored counters", || {
            let history = lab.run(&["telemetry", "history", "--json"]).exits(0).json();
            (history["rows"].as_u64() > Some(0)).then_some(())
        });
        lab.run(&["fault", "load incast:H-0 100%"]).exits(0);
        lab.run(&["fault", "errors S-L1-1[1] symbol 1000"]).exits(0);
        for (list, what) in [("trees", "congestion"), ("alarms", "alarms")] {
            wait_for(what, || {
                let found = lab.run(&["telemetry", what, "--json"]).exits(0).json();
                found[list].as_array().is_some_and(|all| !all.is_empty()).then_some(())
            });
        }
        Self { lab, _manager: manager }
    }

    /// Returns every command that prints a table or figures, with arguments that make it print some.
    pub fn commands() -> Vec<(&'static str, &'static str)> {
        vec![
            ("backups", "--fabric mport:m=8,n=2 --sample 12"),
            (
                "compare",
                "--fabric mport:m=8,n=2 --faults 3 --seeds 2 --engines fat-tree,minhop --pairings 20",
            ),
            ("apm show", "--fabric mport:m=8,n=2 --lmc 1 --sample 50"),
            ("apm show", "H-0 --fabric mport:m=4,n=2 --lmc 1"),
            ("apm show", "H-0 H-7 --fabric mport:m=4,n=2,ports-per-host=2 --lmc 1"),
            ("experiment", "e.toml"),
            ("experiment", "--check e.toml"),
            ("experiment", "--settings"),
            ("model", "--fabric karytree:k=8,n=3"),
            ("model", "--paper paper"),
            ("job list", ""),
            ("rebalance", "--dry-run"),
            ("reload", "--dry-run"),
            ("route", "--fabric sx6536 --pairings 20"),
            ("run", "--fabric sx6536 --once"),
            ("run", "-F opensm.conf --check-config"),
            ("simulate", "--fabric sx6536 --duration 2us --warmup 1us"),
            ("soak", "--seeds 1..3"),
            ("status", ""),
            ("status", "conditions"),
            ("status", "changes"),
            ("status", "fabric"),
            ("status", "nodes"),
            ("status", "ports"),
            ("status", "links"),
            ("status", "plan"),
            ("status", "findings"),
            ("status", "groups"),
            ("status", "partitions"),
            ("status", "links --name S-L1-1 --sort rate"),
            ("status", "events"),
            ("status", "events --since 1h --severity info"),
            ("telemetry ack", "--all"),
            ("telemetry alarms", ""),
            ("telemetry cables", ""),
            ("telemetry congestion", ""),
            ("telemetry congestion", "--pairs 3"),
            ("telemetry history", ""),
            ("telemetry history", "events"),
            ("telemetry history", "topology"),
            ("telemetry history", "topology --at 0s"),
            ("telemetry plot", "S-L1-1 1"),
            ("telemetry port", "S-L1-1 1"),
            ("telemetry sets", ""),
            ("telemetry status", ""),
            ("telemetry top", "load"),
            ("telemetry top", "errors"),
            ("telemetry watch", "load --slots 1"),
            ("topology diff", "ring:switches=4,hosts=1 ring:switches=5,hosts=1"),
            ("topology show", "sx6536"),
            ("topology show", "sx6536 --nodes"),
            ("topology show", "sx6536 --links"),
            ("transition", "--fabric torus:3x3,hosts=1 --from updn --to weave"),
            ("verify", "--fabric sx6536 --lfts lfts --lids lids"),
            (
                "verify",
                "--fabric ring:switches=6,hosts=1 --lfts ring-lfts --lids ring-lids",
            ),
            ("watch", "--fabric sx6536 --once"),
            // Last: the manager sits behind this switch, and sees no link while it hangs.
            ("fault", "--no-wait 'hang S-L1-0'"),
        ]
    }

    pub fn words(command: &str, rest: &str) -> Vec<String> {
        let mut words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        for (at, part) in rest.split('\'').enumerate() {
            match at % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        words
    }

    fn run(&self, words: &[String], more: &[&str], columns: Option<usize>) -> (Option<i32>, String, String) {
        let words: Vec<&str> = words.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let mut command = self.lab.command(&words);
        command.env_remove("COLUMNS");
        if let Some(columns) = columns {
            command.env("COLUMNS", columns.to_string());
        }
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

/// Returns true if a table may have no rows here: no host has joined a group, the judge has no findings on a tree, and
/// nothing is wrong.
fn may_be_empty(command: &str, rest: &str) -> bool {
    let is_of_tree = command == "verify" && rest.contains("sx6536");
    is_of_tree || command == "status" && ["groups", "findings", "conditions"].contains(&rest)
}

/// Returns every command that help lists; those of `topology` and `config` with two words.
fn commands_of_help(lab: &Lab) -> Vec<String> {
    let listed = |words: &[&str]| -> Vec<String> {
        let help = lab.run(&[words, &["--help"]].concat()).exits(0).out;
        let Some((_, commands)) = help.split_once("Commands:\n") else {
            return Vec::new();
        };
        let lines = commands.lines().take_while(|line| !line.is_empty());
        let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let names = names.filter_map(|line| line.split_whitespace().next());
        names.filter(|name| *name != "help").map(str::to_owned).collect()
    };
    let mut all = Vec::new();
    for name in listed(&[]) {
        let inner = if name == "bench" { Vec::new() } else { listed(&[&name]) };
        match inner.is_empty() {
            true => all.push(name),
            false => all.extend(inner.iter().map(|inner| format!("{name} {inner}"))),
        }
    }
    all
}

#[test]
fn every_command_with_a_table_has_json_and_csv() {
    let lab = Lab::new("output-flags");
    let commands = commands_of_help(&lab);
    assert!(commands.len() > 25, "{commands:?}");
    let tested: BTreeSet<&str> = World::commands().iter().map(|(command, _)| *command).collect();
    for command in &commands {
        let is_without = WITHOUT_TABLE.contains(&command.as_str());
        assert_ne!(tested.contains(command.as_str()), is_without, "{command}");
        if is_without {
            continue;
        }
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = lab.run(&words).exits(0).out;
        assert!(help.contains("--json") && help.contains("--csv"), "{command}");
    }
    for command in tested {
        assert!(commands.iter().any(|of| of == command), "{command}");
    }
}

/// Returns the cells of a line of CSV.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => cells.last_mut().unwrap().push(c),
        }
    }
    cells
}

/// Returns what is wrong with a cell that should be a plain number or a name; `None` for a good cell.
fn wrong(cell: &str) -> Option<&'static str> {
    let words: Vec<&str> = cell.split(' ').collect();
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit()) && word.parse::<f64>().is_ok();
    let is_grouped = |word: &str| {
        let parts: Vec<&str> = word.split(',').collect();
        let is_digits = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        parts.len() > 1 && parts.iter().all(is_digits) && parts[1..].iter().all(|part| part.len() == 3)
    };
    match words[..] {
        [_, "of", _] => Some("x of y"),
        [word, ..] if is_grouped(word) => Some("separators"),
        [number, _] if is_number(number) => Some("a unit"),
        [word] if word.ends_with('%') && is_number(word.trim_end_matches('%')) => Some("a unit"),
        ["-"] => Some("a dash for nothing"),
        _ => None,
    }
}

#[test]
fn a_wrong_cell_is_found() {
    for cell in ["1 of 1", "104,652", "2.15 s", "12 %", "5%", "1,234 ns", "-"] {
        assert!(wrong(cell).is_some(), "{cell}");
    }
    for cell in [
        "",
        "104652",
        "2.15",
        "-6.6",
        "fat-tree",
        "0x0000000000000001",
        "4xHDR",
        "a, b",
        "true",
    ] {
        assert!(wrong(cell).is_none(), "{cell}");
    }
}

#[test]
fn csv_is_one_table_of_plain_numbers_and_json_has_a_schema() {
    let world = World::new("output-csv");
    for (command, rest) in World::commands() {
        let words = World::words(command, rest);
        let what = words.join(" ");
        let (code, csv, err) = world.run(&words, &["--csv"], Some(40));
        assert!(matches!(code, Some(0 | 1)), "{what}: {code:?} {err}");
        let mut lines = csv.lines();
        let header = cells(lines.next().unwrap_or_default());
        for key in &header {
            let is_word =
                |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
            assert!(key.split('_').all(is_word), "{what}: header {key}");
        }
        let lines: Vec<&str> = lines.collect();
        assert!(!lines.is_empty() || may_be_empty(command, rest), "{what}: {csv}");
        for line in lines {
            let cells = cells(line);
            assert_eq!(cells.len(), header.len(), "{what}: {line}");
            for (key, cell) in header.iter().zip(&cells) {
                let text = TEXT.contains(&key.as_str());
                assert!(
                    text || wrong(cell).is_none(),
                    "{what}: {key} is '{cell}': {:?}",
                    wrong(cell)
                );
            }
        }
        let (code, json, err) = world.run(&words, &["--json"], None);
        assert!(matches!(code, Some(0 | 1)), "{what}: {code:?} {err}");
        let found: serde_json::Value = serde_json::from_str(&json).unwrap_or_else(|e| panic!("{what}: {e}: {json}"));
        assert!(
            found["schema"].as_str().unwrap_or_default().starts_with("selvedge."),
            "{what}: {json}"
        );
        assert!(found["version"].is_u64(), "{what}");
    }
    let summary: serde_json::Value = serde_json::from_str(&world.lab.read("e/summary.json")).unwrap();
    assert_eq!(
        (&summary["schema"], &summary["version"]),
        (&"selvedge.experiment".into(), &1.into())
    );
    assert!(
        world
            .lab
            .read("e/table.csv")
            .starts_with("load,accepted_load,accepted_load_ci95,latency_ns_p99,")
    );
}

/// Returns the words of a text that contain a digit, except times in seconds, which a running manager counts down.
fn numbers(text: &str) -> BTreeSet<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_time = |at: usize| words.get(at + 1).is_some_and(|unit| *unit == "s");
    let has_digit = |word: &str| word.bytes().any(|b| b.is_ascii_digit());
    let numbers = words.iter().enumerate();
    let numbers = numbers.filter(|(at, word)| has_digit(word) && !is_time(*at));
    numbers.map(|(_, word)| (*word).to_owned()).collect()
}

/// Compares the words of the same table at every width. Commands that measure time therefore use only figures that stay
/// the same, and a manager gives every command the same answers at each width.
#[test]
fn no_number_is_broken_on_a_narrow_terminal() {
    let world = World::new("output-widths");
    let repeated = world.lab.path("repeated.sock");
    repeat_answers(
        Path::new(&repeated),
        Path::new(&world.lab.path("selvedge/selvedge.sock")),
    );
    let mut compared = 0;
    for (command, rest) in World::commands() {
        if ["fault", "soak", "compare", "route", "simulate"].contains(&command) && !rest.contains("sx6536 --pairings") {
            // Their times differ from run to run; `compare` is tested below.
            continue;
        }
        if command == "telemetry plot" {
            // A chart has as many values as columns.
            continue;
        }
        let words = World::words(command, rest);
        let more: &[&str] = match command.split(' ').next() {
            Some("status" | "telemetry") => &["--socket", &repeated],
            _ => &[],
        };
        let (_, wide, _) = world.run(&words, more, None);
        for columns in [40, 60, 80, 100, 120] {
            let (_, narrow, _) = world.run(&words, more, Some(columns));
            let known = numbers(&wide);
            let left_out = narrow.split("left out at").nth(1).unwrap_or_default().to_owned();
            assert!(
                !numbers(&narrow).is_empty() || may_be_empty(command, rest),
                "{words:?} at {columns}: {narrow}"
            );
            for number in numbers(&narrow) {
                let is_of_time = number.contains('.') || number.contains(':');
                let is_known = known.contains(&number) || left_out.contains(&number);
                assert!(
                    is_known || is_of_time,
                    "{} at {columns}: {number}\n{narrow}",
                    words.join(" ")
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 1_000, "{compared} numbers");
}

#[test]
fn comparisons_fit_and_name_what_they_leave_out() {
    let lab = Lab::new("output-compare");
    let words = [
        "compare",
        "--fabric",
        "mport:m=8,n=2",
        "--engines",
        "fat-tree,minhop",
        "--pairings",
        "20",
    ];
    for columns in [40, 60, 80, 100, 120] {
        let output = lab
            .command(&words)
            .env("COLUMNS", columns.to_string())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        for line in text.lines() {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
        let (table, left_out) = text.split_once("left out at").unwrap_or((&text, ""));
        let left_out = left_out.split_whitespace().collect::<Vec<_>>().join(" ");
        // A row is one line, because no cell of this table needs two.
        assert_eq!(
            table.lines().filter(|line| line.contains("fat-tree")).count(),
            1,
            "{text}"
        );
        let title = table.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in ["MEAN HOPS", "SHIFT MAX", "COMPUTE MS"] {
            let is_shown = word.split(' ').all(|part| title.contains(part));
            assert!(is_shown || left_out.contains(word), "{columns}: {word} in {text}");
        }
    }
}
