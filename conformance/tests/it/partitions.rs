//! Partitions that switches enforce, with one file for both managers. `smpquery` reads the same P_Key tables of hosts
//! and of the switch ports in front of them, and the same bits of PortInfo where the simulator keeps these.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use crate::support::{Fabric, LIMIT, emulate, port, run_once};
use selvedge_conformance::parse::{Discovery, Fields, Net};
use selvedge_conformance::{HeavyLock, OpenSmOptions, PeerLab, Survey, until};
use selvedge_types::Guid;

const SPEC: &str = "mport:m=4,n=2";
/// The host of each manager.
const SEAT: &str = "H-0";

/// A fabric with partitions.
struct Stage {
    lab: PeerLab,
    net: Net,
    /// Node GUIDs of hosts.
    hosts: Vec<Guid>,
    file: PathBuf,
}

/// Keys, and the two enforcement bits (in, out), by node and port. Ports of hosts have no bits.
type Seen = BTreeMap<(Guid, u8), (Vec<u16>, Option<(String, String)>)>;

impl Stage {
    /// Starts a stage without a manager.
    fn new() -> Self {
        let lab = PeerLab::new().unwrap();
        let net = Fabric::new(&lab, SPEC).net;
        let is_host = |guid: &Guid| !net.is_switch(*guid);
        let hosts = net.nodes.keys().copied().filter(is_host).collect();
        let file = lab.folder().join("partitions.conf");
        Self { lab, net, hosts, file }
    }

    /// Writes the partition file: one host is a full member of two partitions, another a limited member of the first.
    /// All other hosts are members of the default partition only.
    fn write(&self) {
        let found = Discovery::parse(&self.lab.output(SEAT, "ibnetdiscover", &[]).unwrap()).unwrap();
        let port = |host: usize| found.nodes[&self.hosts[host]].ports[&1].guid;
        let (one, two) = (port(1), port(2));
        let text = format!(
            "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\nStorage=0x0001 : {one}=full, {two}=limited ;\n\
             Other=0x0002 : {one}=full ;\n"
        );
        fs::write(&self.file, text).unwrap();
    }

    /// Returns the lines of OpenSM's configuration.
    fn lines(&self, enforce: &str) -> Vec<String> {
        let file = self.file.display();
        vec![
            format!("partition_config_file {file}"),
            format!("part_enforce {enforce}"),
        ]
    }

    fn opensm(&self, enforce: &str) {
        let options = OpenSmOptions {
            lines: self.lines(enforce),
            once: true,
            ..OpenSmOptions::default()
        };
        let mut opensm = self.lab.opensm(SEAT, &options).unwrap();
        opensm.wait_up(1, LIMIT).unwrap();
        opensm.finish(LIMIT).unwrap();
    }

    fn ours(&self, enforce: &str) {
        let conf = self.lab.folder().join("opensm.conf");
        fs::write(&conf, self.lines(enforce).join("\n")).unwrap();
        run_once(&self.lab, self.lab.base(), SEAT, &["-F", conf.to_str().unwrap()]);
    }

    /// Returns what `smpquery` reads of hosts and of the switch ports in front of them.
    fn look(&self) -> Seen {
        let ends = Survey::take(&self.lab, SEAT).unwrap().end_ports();
        let ask = |words: &[&str]| self.lab.output(SEAT, "smpquery", words).unwrap();
        let mut seen = Seen::new();
        for &host in &self.hosts {
            let (switch, port) = self.net.peer(host, 1).unwrap();
            let table = keys(&ask(&["pkeys", &ends[&(host, 1)].to_string()]));
            seen.insert((host, 1), (table, None));
            let (lid, number) = (ends[&(switch, 0)].to_string(), port.to_string());
            let table = keys(&ask(&["pkeys", &lid, &number]));
            let info = Fields::parse(&ask(&["portinfo", &lid, &number]));
            let bit = |name| info.text(name).unwrap().to_owned();
            let bits = (bit("PartEnforceInb"), bit("PartEnforceOutb"));
            seen.insert((switch, port), (table, Some(bits)));
        }
        seen
    }
}

/// Reads the keys of a table as `smpquery pkeys` prints it: lines ` 0: 0xffff 0x0000 …`.
fn keys(text: &str) -> Vec<u16> {
    let rows = text.lines().filter_map(|line| line.trim().split_once(": "));
    let words = rows.flat_map(|(_, row)| row.split_whitespace());
    let mut keys: Vec<u16> = words
        .filter_map(|word| u16::from_str_radix(word.strip_prefix("0x")?, 16).ok())
        .collect();
    while keys.last() == Some(&0) {
        keys.pop();
    }
    keys
}

/// Checks that both managers set the same for the file, each on a fabric that was off before, and that Selvedge after
/// OpenSM changes nothing.
fn check(modes: &[&str], start: impl Fn(&Stage) -> Box<dyn Any>, keeps_bits: bool) {
    let _heavy = HeavyLock::acquire().unwrap();
    for &enforce in modes {
        let [theirs, ours] = [Stage::opensm, Stage::ours].map(|bring_up| {
            let stage = Stage::new();
            let _simulator = start(&stage);
            stage.write();
            bring_up(&stage, enforce);
            let seen = stage.look();
            stage.ours(enforce);
            assert_eq!(stage.look(), seen, "{enforce}: nothing changes by ours");
            // From here to nothing, and back on links that carry packets.
            stage.ours("off");
            let off = stage.look();
            let is_off = |bits: &Option<(String, String)>| bits.as_ref().is_none_or(|(a, b)| a == "0" && b == "0");
            assert!(off.values().all(|(_, bits)| is_off(bits)), "{off:?}");
            stage.ours(enforce);
            assert_eq!(stage.look(), seen, "{enforce}: as before");
            seen
        });
        assert_eq!(ours, theirs, "{enforce}");
        let bits: BTreeSet<_> = ours.values().filter_map(|(_, bits)| bits.clone()).collect();
        let want = match enforce {
            _ if !keeps_bits => ("0", "0"),
            "both" => ("1", "1"),
            _ => ("1", "0"),
        };
        let want = BTreeSet::from([(want.0.to_owned(), want.1.to_owned())]);
        assert_eq!(bits, want, "{enforce}");
        let richest = ours.values().map(|(keys, _)| keys.len()).max();
        assert_eq!(richest, Some(3), "{ours:x?}");
    }
}

#[test]
fn on_our_emulator() {
    check(&["both", "in"], |stage| Box::new(emulate(&stage.lab, SPEC)), true);
}

/// ibsim does not keep the enforcement bits (observed with 0.12).
#[test]
fn on_ibsim() {
    let start = |stage: &Stage| -> Box<dyn Any> {
        let net = Fabric::new(&stage.lab, SPEC).text;
        Box::new(stage.lab.ibsim(&net).unwrap())
    };
    check(&["both"], start, false);
}

/// `saquery` gets the same tables of the switch ports in front of hosts from OpenSM and from Selvedge, and these are
/// the tables that the ports have.
#[test]
fn administrators_tell_what_switch_ports_hold() {
    let _heavy = HeavyLock::acquire().unwrap();
    let told = [true, false].map(|is_ours| {
        let stage = Stage::new();
        let _simulator = emulate(&stage.lab, SPEC);
        stage.write();
        let (seat, conf) = (
            port(stage.lab.base(), SEAT),
            stage.lab.folder().join("opensm.conf").to_str().unwrap().to_owned(),
        );
        fs::write(&conf, stage.lines("both").join("\n")).unwrap();
        let _manager: Box<dyn Any> = if is_ours {
            Box::new(stage.lab.start_daemon(&["run", "--port", &seat, "-F", &conf]).unwrap())
        } else {
            let options = OpenSmOptions {
                lines: stage.lines("both"),
                ..OpenSmOptions::default()
            };
            let mut opensm = stage.lab.opensm(SEAT, &options).unwrap();
            opensm.wait_up(1, LIMIT).unwrap();
            Box::new(opensm)
        };
        let ask = |what: &str| stage.lab.run(SEAT, "saquery", &["--smkey", "1", "PKTR", what]).unwrap();
        until("the administrator to answer", LIMIT, String::new, || {
            Ok(ask("1").stdout.contains("PKeyTableRecord").then_some(()))
        })
        .unwrap();
        let ends = Survey::take(&stage.lab, SEAT).unwrap().end_ports();
        let told = stage.hosts.iter().map(|&host| {
            let (switch, port) = stage.net.peer(host, 1).unwrap();
            let lid = ends[&(switch, 0)].to_string();
            let number = port.to_string();
            let held = stage.lab.output(SEAT, "smpquery", &["pkeys", &lid, &number]).unwrap();
            let said = ask(&format!("{lid}/{number}"));
            assert!(said.status.success(), "{}{}", said.stdout, said.stderr);
            let rows = said.stdout.lines().map(str::trim).filter(|line| line.starts_with("0x"));
            let rows: String = rows.map(|row| format!("0: {row}\n")).collect();
            assert_eq!(keys(&rows), keys(&held), "{}", said.stdout);
            ((switch, port), keys(&rows))
        });
        told.collect::<BTreeMap<_, _>>()
    });
    assert_eq!(told[0], told[1]);
}
