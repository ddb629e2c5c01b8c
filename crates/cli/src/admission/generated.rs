//! Tests with generated configurations: check, start and reload must give the same result for each.
//!
//! `SELVEDGE_CONFIGURATIONS=10000` sets their number; the default is small enough for every test run.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use selvedge_api::CheckRequest;
use selvedge_config::{Against, Key, OpenSmOption, Settings, Sources, admit};
use selvedge_daemon::{Service as _, Until};
use selvedge_sim::{Rng, Seed};

use super::*;
use crate::run::{self, RunArgs};

/// Number of configurations without the environment variable.
const CASES: u64 = 300;

const FABRIC: &str = "single:ports=4,hosts=2";

#[derive(Debug, Parser)]
struct Words {
    #[command(flatten)]
    args: RunArgs,
}

fn cases() -> u64 {
    let asked = std::env::var("SELVEDGE_CONFIGURATIONS").ok();
    asked.map_or(CASES, |text| text.parse().expect("SELVEDGE_CONFIGURATIONS is a number"))
}

/// The generator, with a folder for the files that its configurations name.
struct Shop {
    folder: PathBuf,
    rng: Rng,
}

impl Shop {
    fn new(name: &str, seed: u64) -> Self {
        let folder = std::env::temp_dir().join(format!("selvedge-admission-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("folder")).unwrap();
        let files = [
            ("guids", "0x0002c90300000001\n# second\n0x0002c90300000002 leaf\n"),
            ("no-guids", "0x1\nspine\n"),
            ("partitions", "Default=0x7fff,ipoib: ALL=full;\nA=2: ALL;\n"),
            ("no-partitions", "Default=0x7fff: ALL=full\nA=2: ALL;\n"),
            ("map", "0x0002c90300000001 \"rack 7\"\n"),
            ("no-map", "rack 7\n"),
            ("lids", "0x0002c90300000001 0x0005 0x0005\n"),
            ("no-lids", "five\n"),
            ("empty", ""),
        ];
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        for (name, lids) in [
            ("good-state", "0x0002c90300000001 0x0005 0x0005\n"),
            ("bad-state", "five\n"),
        ] {
            fs::create_dir(folder.join(name)).unwrap();
            fs::write(folder.join(name).join("guid2lid"), lids).unwrap();
        }
        let fifo = std::process::Command::new("mkfifo").arg(folder.join("fifo")).status();
        assert!(fifo.unwrap().success());
        Self {
            folder,
            rng: Seed(seed).rng(),
        }
    }

    /// Returns every folder, and every file with the time of its last change.
    fn listing(&self) -> Vec<(PathBuf, std::time::SystemTime)> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            // On a file system without nameless files, a probe changes the time of a folder.
            found.push((folder.clone(), std::time::SystemTime::UNIX_EPOCH));
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let meta = entry.metadata().unwrap();
                match meta.is_dir() {
                    true => folders.push(entry.path()),
                    false => found.push((entry.path(), meta.modified().unwrap())),
                }
            }
        }
        found.sort();
        found
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.rng.below(count as u64)).unwrap()
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// True at random, on average once in `times` calls.
    fn seldom(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn path(&mut self, of: &[&str]) -> String {
        let name = self.one(of);
        self.folder.join(name).display().to_string()
    }

    fn list(&mut self) -> String {
        self.path(&["guids", "guids", "empty", "no-guids", "nowhere", "folder"])
    }

    fn partitions(&mut self) -> String {
        self.path(&[
            "partitions",
            "partitions",
            "empty",
            "no-partitions",
            "nowhere",
            "folder",
        ])
    }

    fn map(&mut self) -> String {
        self.path(&["map", "no-map", "nowhere", "folder"])
    }

    fn log(&mut self) -> String {
        self.path(&["log", "log", "folder/log", "folder", "nowhere/log", "map/log", "fifo"])
    }

    fn state(&mut self) -> String {
        let fresh = format!("state-{}", self.rng.next_u64());
        let names = [
            fresh.as_str(),
            "folder/state",
            "good-state",
            "bad-state",
            "map",
            "map/state",
            "/proc/x",
        ];
        let name = self.one(&names).to_owned();
        self.folder.join(name).display().to_string()
    }

    fn socket(&mut self) -> String {
        // A path of a socket has at most 107 bytes.
        let long = format!("folder/{}", "x".repeat(120));
        let name = self
            .one(&["sock", "folder/sock", "map/sock", "fifo", "/proc/y", &long])
            .to_owned();
        self.folder.join(name).display().to_string()
    }

    fn engines(&mut self) -> String {
        let all = [
            "updn",
            "minhop",
            "auto",
            "ftree, updn",
            "fat-tree,weave",
            "lash",
            "torus-2QoS",
            "updn,no_fallback",
            "(null)",
            "fattree",
            "ar_updn",
            "updn,none",
            "no_fallback",
            "file",
            "ftree",
            "file,ftree",
        ];
        self.one(&all).to_owned()
    }

    /// Returns a value for a key of the TOML file, usually a legal one.
    fn toml_value(&mut self, key: &Key) -> String {
        let wrong = [
            "-1",
            "\"x\"",
            "true",
            "[\"x\"]",
            "99999999999",
            "1.5",
            "{}",
            "\"0x10\"",
            "\"\"",
            "[]",
            "0",
        ];
        if self.seldom(8) {
            return self.one(&wrong).to_owned();
        }
        match key.name {
            "engines" => {
                let engines = self.engines();
                self.one(&[
                    format!("\"{engines}\""),
                    format!("[\"{engines}\"]"),
                    format!("[\"{engines}\", \"updn\"]"),
                ])
            }
            "state_dir" => format!("\"{}\"", self.state()),
            "log_file" => format!("\"{}\"", self.log()),
            "node_name_map" => format!("\"{}\"", self.map()),
            "expected" => format!("\"{}\"", self.path(&["folder", "nowhere", "map"])),
            "dump_dir" => format!("\"{}\"", self.path(&["folder", "nowhere", "map"])),
            "socket" => format!("\"{}\"", self.socket()),
            "lmc" => self.one(&["0", "1", "2"]).to_owned(),
            "roots" | "compute" | "io" | "guid_order" => {
                self.one(&["[]", "[\"0x10\"]", "[\"0x10\", \"x\"]"]).to_owned()
            }
            "partitions" => self
                .one(&["[]", "[\"A=1: ALL;\"]", "[\"A=1: ALL\", \"B=2: ALL;\"]"])
                .to_owned(),
            "m_key" => self.one(&["\"0x5\"", "\"0x6\"", "5", "0"]).to_owned(),
            _ => {
                let default = key.shown(&Settings::default()).map(|value| value.to_string());
                let one = if matches!(default.as_deref(), Some("true" | "false")) {
                    "true"
                } else {
                    "1"
                };
                self.one(&[default.unwrap_or_default(), one.to_owned()])
            }
        }
    }

    fn toml(&mut self) -> String {
        let mut keys: Vec<&Key> = (0..self.below(6))
            .map(|_| &Key::ALL[self.below(Key::ALL.len())])
            .collect();
        if !self.seldom(4) {
            keys.retain(|key| !["engines", "lmc", "m_key"].contains(&key.name));
            let usual = ["engines", "lmc", "m_key"];
            keys.extend(Key::ALL.iter().filter(|key| usual.contains(&key.name)));
        }
        keys.sort_by_key(|key| Key::sections().iter().position(|section| *section == key.section));
        let mut text = String::new();
        let mut section = "";
        for key in keys {
            if key.section != section || self.seldom(30) {
                section = key.section;
                text += &format!("[{section}]\n");
            }
            let name = match self.below(25) {
                0 => key.name.get(1..).unwrap_or("x").to_owned(),
                1 => format!("{}s", key.name),
                _ => key.name.to_owned(),
            };
            text += &format!("{name} = {}\n", self.toml_value(key));
        }
        if self.seldom(40) {
            text += "[routing\n";
        }
        text
    }

    fn opensm(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..self.below(7) {
            let option = &OpenSmOption::ALL[self.below(OpenSmOption::ALL.len())];
            let name = match self.below(25) {
                0 => format!("{}s", option.name),
                1 => "virt_enabled".to_owned(),
                _ => option.name.to_owned(),
            };
            let value = self.opensm_value(option);
            text += &format!("{name} {value}\n");
        }
        if self.seldom(3) {
            text += &format!("routing_engine {}\n", self.engines());
        }
        if !self.seldom(4) {
            text += "m_key 2\n";
        }
        // The default would be a file of the machine.
        text + &format!("log_file {}\n", self.log())
    }

    fn opensm_value(&mut self, option: &OpenSmOption) -> String {
        match option.name {
            "routing_engine" => self.engines(),
            "log_file" => self.log(),
            "node_name_map_name" => self.map(),
            "partition_config_file" => self.partitions(),
            "dump_files_dir" => self.folder.join("folder").display().to_string(),
            "root_guid_file" | "cn_guid_file" | "io_guid_file" | "guid_routing_order_file" => self.list(),
            name if name.ends_with("_file") => {
                let path = self.path(&["guids", "nowhere"]);
                self.one(&[path.as_str(), "(null)", option.default]).to_owned()
            }
            _ => self
                .one(&[
                    option.default,
                    option.default,
                    "(null)",
                    "TRUE",
                    "FALSE",
                    "1",
                    "0x2",
                    "99999",
                    "x",
                    "",
                ])
                .to_owned(),
        }
    }

    /// Returns flags that are used in addition to the file.
    fn flags(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
        if self.seldom(4) {
            flag("-R", self.engines());
        }
        for name in ["-a", "-u", "-G", "-X"] {
            if self.seldom(10) {
                flag(name, self.list());
            }
        }
        if self.seldom(8) {
            flag("-P", self.partitions());
        }
        if self.seldom(8) {
            flag("--node-name-map", self.map());
        }
        if self.seldom(8) {
            flag("--guid2lid", self.path(&["lids", "no-lids", "nowhere"]));
        }
        if self.seldom(8) {
            flag("-f", self.log());
        }
        if self.seldom(8) {
            flag("--state", self.state());
        }
        if self.seldom(12) {
            flag(
                "--record",
                self.path(&["record", "folder", "nowhere/record", "map/record"]),
            );
        }
        if self.seldom(20) {
            flag("--at", self.one(&["0x1", "NoSuch"]).to_owned());
        }
        if self.seldom(20) {
            flag("--lfts", self.path(&["no-lids", "nowhere", "folder"]));
        }
        words
    }

    /// Returns the command line of a start that ends after its first sweep.
    fn start(&mut self, file: &Path, is_opensm: bool) -> RunArgs {
        let mut words = vec![
            "run".to_owned(),
            "--fabric".to_owned(),
            FABRIC.to_owned(),
            "--once".to_owned(),
        ];
        words.extend([
            if is_opensm { "-F" } else { "--config" }.to_owned(),
            file.display().to_string(),
        ]);
        if is_opensm && self.seldom(3) {
            words.push("--skip-refused".to_owned());
        }
        words.extend(self.flags());
        Words::try_parse_from(words).expect("a command line").args
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn the_verdict_of_a_check_is_that_of_the_start() {
    let mut shop = Shop::new("start", 1);
    let (mut taken, mut refused) = (0, 0);
    for case in 0..cases() {
        let is_opensm = case % 2 == 1;
        let text = if is_opensm { shop.opensm() } else { shop.toml() };
        let file = shop.folder.join("file");
        fs::write(&file, &text).unwrap();
        let args = shop.start(&file, is_opensm);
        let before = shop.listing();
        let (verdict, _) = args.judged(&args.sources(&args.process()));
        assert_eq!(shop.listing(), before, "a check changes nothing: {text}\n{args:?}");
        assert_eq!(verdict.is_ok(), exit(&verdict) == Exit::Good, "{text}");
        let started = run::started(&args);
        let said = started.as_ref().err().map(ToString::to_string);
        assert_eq!(
            verdict.is_ok(),
            started.is_ok(),
            "{text}\n{args:?}\n{said:?}\n{:?}",
            verdict.findings
        );
        *if started.is_ok() { &mut taken } else { &mut refused } += 1;
    }
    assert!(
        taken > cases() / 10 && refused > cases() / 10,
        "{taken} taken, {refused} refused"
    );
}

fn sources(file: &Path, is_opensm: bool) -> Sources {
    let path = file.to_owned();
    Sources {
        file: match is_opensm {
            true => SettingsFile::OpenSm(path),
            false => SettingsFile::Toml(path),
        },
        ..Sources::new(crate::load::READERS)
    }
}

/// Returns a running manager that reads `file` again on a reload.
fn manager(file: &Path, is_opensm: bool) -> selvedge_daemon::Running {
    let sources = sources(file, is_opensm);
    let verdict = start(admit(&sources, Against::Start)).unwrap();
    let door = crate::manage::DoorArgs {
        fabric: Some(FABRIC.to_owned()),
        ..Default::default()
    };
    selvedge_daemon::start(selvedge_daemon::Options {
        settings: verdict.settings,
        sources: Some(sources),
        until: Until::Stopped,
        ..selvedge_daemon::Options::new(selvedge_sm::Mode::Manage, door.door().unwrap())
    })
    .unwrap()
}

/// Waits until the judge has decided upon the last change.
fn decided(manager: &selvedge_daemon::Manager, serial: u64) -> selvedge_api::PolicyChange {
    let begin = std::time::Instant::now();
    loop {
        let last = manager.policy_changes().unwrap().changes.pop();
        // The list that is shown may be older than the answer to the reload.
        let is_decided = |last: &selvedge_api::PolicyChange| {
            last.serial == serial && last.state != "proposed" && last.state != "planned"
        };
        if let Some(last) = last.clone().filter(is_decided) {
            return last;
        }
        assert!(begin.elapsed() < std::time::Duration::from_secs(60), "{last:?}");
        std::thread::yield_now();
    }
}

#[test]
fn the_verdict_of_a_check_against_a_manager_is_that_of_its_reload() {
    for is_opensm in [false, true] {
        let mut shop = Shop::new(if is_opensm { "reload-opensm" } else { "reload" }, 2);
        let file = shop.folder.join("file");
        let log = shop.folder.join("log").display().to_string();
        let first = if is_opensm {
            format!("m_key 2\nlog_file {log}\n")
        } else {
            "[keys]\nm_key = 5\n".to_owned()
        };
        fs::write(&file, first).unwrap();
        let running = manager(&file, is_opensm);
        let manager = &running.manager;
        let (mut taken, mut refused) = (0, 0);
        for _ in 0..cases() / 2 {
            let text = if is_opensm { shop.opensm() } else { shop.toml() };
            let before = manager.settings();
            let request = CheckRequest {
                path: file.display().to_string(),
                text: text.clone(),
                is_toml: !is_opensm,
            };
            let told = manager.check(&request).unwrap();
            fs::write(&file, &text).unwrap();
            assert_eq!(manager.check(&CheckRequest::default()).unwrap(), told, "{text}");
            assert_eq!(manager.settings(), before, "a check changes nothing");
            let start = admit(&sources(&file, is_opensm), Against::Start);
            let reloaded = manager.reload();
            assert_eq!(reloaded.is_ok(), told.ok, "{text}\n{reloaded:?}");
            assert!(start.is_ok() || reloaded.is_err(), "a start refuses it: {text}");
            match reloaded {
                Ok(change) => {
                    assert_eq!(change.lines, told.findings, "{text}");
                    let want = match decided(manager, change.serial).is_refused() {
                        true => before.policy,
                        false => start.settings.policy,
                    };
                    // Another M_Key is in force when it is stored.
                    let begin = std::time::Instant::now();
                    while manager.settings().policy != want && begin.elapsed() < std::time::Duration::from_secs(60) {
                        std::thread::yield_now();
                    }
                    assert_eq!(manager.settings().policy, want, "{text}");
                    taken += 1;
                }
                Err(_) => {
                    assert_eq!(manager.settings(), before, "{text}");
                    refused += 1;
                }
            }
        }
        assert!(
            taken > cases() / 200 && refused > cases() / 200,
            "{taken} taken, {refused} refused"
        );
        manager.stop();
        running.join().unwrap();
    }
}

#[test]
fn what_the_start_needs_is_refused_by_all_three_alike() {
    let shop = Shop::new("needs", 3);
    let file = shop.folder.join("file");
    fs::write(&file, "").unwrap();
    let running = manager(&file, false);
    let manager = &running.manager;
    let long = shop.folder.join("x".repeat(141));
    let [fifo, bad, log] = ["fifo", "bad-state", "log"].map(|name| shop.folder.join(name).display().to_string());
    let cases = [
        (
            format!("[daemon]\nsocket = \"{}\"\n", long.display()),
            "SLV-CONFIG-0009",
        ),
        ("[daemon]\nsocket = \"\"\n".to_owned(), "SLV-CONFIG-0004"),
        ("[daemon]\nstate_dir = \"/proc/x\"\n".to_owned(), "SLV-CONFIG-0009"),
        (format!("[daemon]\nstate_dir = \"{bad}\"\n"), "SLV-STORE-0003"),
        (format!("[daemon]\nlog_file = \"{fifo}\"\n"), "SLV-CONFIG-0009"),
        ("[daemon]\nlog_file = \"\"\n".to_owned(), "SLV-CONFIG-0004"),
        ("[routing]\nengines = [\"file\"]\n".to_owned(), "SLV-CONFIG-0011"),
        (
            "[routing]\nengines = [\"ftree\"]\nlmc = 2\n".to_owned(),
            "SLV-CONFIG-0011",
        ),
        (
            "[routing]\nengines = [\"ftree\", \"file\"]\nlmc = 1\n".to_owned(),
            "SLV-CONFIG-0011",
        ),
        (
            format!("[routing]\nengines = [\"ftree\", \"updn\"]\nlmc = 2\n[daemon]\nlog_file = \"{log}\"\n"),
            "",
        ),
    ];
    for (text, code) in cases {
        fs::write(&file, &text).unwrap();
        let verdict = admit(&sources(&file, false), Against::Start);
        assert_eq!(verdict.is_ok(), code.is_empty(), "{text}\n{:?}", verdict.findings);
        let errors: String = verdict.stops().map(|found| found.error.as_str()).collect();
        assert!(errors.contains(code), "{text}\n{errors}");
        let told = manager.check(&CheckRequest::default()).unwrap();
        assert_eq!(told.ok, code.is_empty(), "{text}");
        let reloaded = manager.reload();
        assert_eq!(reloaded.is_ok(), code.is_empty(), "{text}\n{reloaded:?}");
        if code.is_empty() {
            let warned: Vec<&str> = verdict.warnings().map(|found| found.why.as_str()).collect();
            assert!(warned[0].contains("routing.lmc = 2"), "{warned:?}");
            continue;
        }
        // Not --once: such a run leaves the configured log alone.
        let words = ["run", "--fabric", FABRIC, "--config", file.to_str().unwrap()];
        let args = Words::try_parse_from(words).unwrap().args;
        let error = run::started(&args).err().expect("a refused start").to_string();
        assert!(error.contains(code), "{text}\n{error}");
    }
    manager.stop();
    running.join().unwrap();
}

#[test]
fn a_manager_of_an_opensm_file_refuses_to_check_toml() {
    let shop = Shop::new("kind", 4);
    let file = shop.folder.join("file");
    fs::write(&file, format!("log_file {}\n", shop.folder.join("log").display())).unwrap();
    let running = manager(&file, true);
    let manager = &running.manager;
    let request = |is_toml| CheckRequest {
        path: "/x".to_owned(),
        text: format!("log_file {}\n", shop.folder.join("log").display()),
        is_toml,
    };
    let error = manager.check(&request(true)).unwrap_err();
    assert!(error.message.contains("reads OpenSM's file"), "{error}");
    assert!(manager.check(&request(false)).unwrap().ok);
    manager.stop();
    running.join().unwrap();
}
