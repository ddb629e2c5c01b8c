//! Four lanes on ibsim and on the built-in emulator: tools read the planned lanes from the agents and from Selvedge's
//! administrator; OpenSM takes the fabric over and gives it back.

use std::collections::BTreeSet;

use crate::support::{Fabric, LIMIT, emulate, lid_of, port};
use selvedge_conformance::{HeavyLock, OpenSmOptions, PeerLab, until};

const SPEC: &str = "mport:m=4,n=2";
const MASTER: &str = "H-0";
const CLIENT: &str = "H-5";
/// Ports of a switch; all have a link.
const PORTS: u8 = 4;
const LANES: usize = 4;

/// Returns the output of `smpquery`.
fn smpquery(lab: &PeerLab, arguments: &[&str]) -> String {
    lab.output(CLIENT, "smpquery", arguments).unwrap()
}

/// Reads the rows of an SLtoVLMappingTable that `smpquery sl2vl` prints: `ports: in 1, out 2: | 0| 1|…`.
fn rows(text: &str) -> Vec<Vec<usize>> {
    let row = |line: &str| {
        let cells = line.rsplit(": ").next()?;
        let cells = cells.split('|').filter_map(|cell| cell.trim().parse().ok());
        Some(cells.collect::<Vec<usize>>())
    };
    let lines = text.lines().filter(|line| line.contains("ports: in"));
    lines.filter_map(row).collect()
}

/// Reads the lanes with a weight from the output of `smpquery vlarb`: `VL : |0x0 |0x1 |…`, `WEIGHT: |0x40|0x40|…`.
fn served(text: &str) -> BTreeSet<usize> {
    let numbers = |line: &str| {
        let cells = line.split('|').skip(1).map(str::trim);
        let cells = cells.filter_map(|cell| usize::from_str_radix(cell.strip_prefix("0x")?, 16).ok());
        cells.collect::<Vec<usize>>()
    };
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines
        .windows(2)
        .filter(|pair| pair[0].starts_with("VL") && pair[1].starts_with("WEIGHT"));
    let turns = pairs.flat_map(|pair| numbers(pair[0]).into_iter().zip(numbers(pair[1])));
    turns.filter(|(_, weight)| *weight > 0).map(|(lane, _)| lane).collect()
}

/// Checks that every agent maps service level n to lane n modulo the number of lanes, and gives each of these lanes a
/// weight.
fn check_agents(lab: &PeerLab, fabric: &Fabric, lanes: usize) {
    let want: Vec<usize> = (0..16).map(|sl| sl % lanes).collect();
    for name in fabric.net.nodes.values().map(|node| &node.id) {
        let lid = lid_of(lab, name).to_string();
        let is_switch = name.starts_with('S');
        let out = if is_switch { "1" } else { "0" };
        let found = rows(&smpquery(lab, &["sl2vl", &lid, out]));
        // From port 0 to the others; nothing comes back by the port it came in by.
        let rows = if is_switch { usize::from(PORTS) + 1 } else { 1 };
        assert_eq!(found.len(), rows, "{name}");
        let other = found.iter().filter(|row| **row != want).count();
        assert!(other <= usize::from(is_switch), "{name}: {found:?}");
        let ports: Vec<u8> = if is_switch { (1..=PORTS).collect() } else { vec![1] };
        for num in ports {
            let found = served(&smpquery(lab, &["vlarb", &lid, &num.to_string()]));
            assert_eq!(found, (0..lanes).collect(), "{name}[{num}]");
        }
    }
}

/// Checks the administrator's records about lanes.
fn check_administrator(lab: &PeerLab) {
    let (from, to) = (lid_of(lab, CLIENT).to_string(), lid_of(lab, "H-2").to_string());
    let told = lab
        .output(CLIENT, "saquery", &["PR", "--slid", &from, "--dlid", &to])
        .unwrap();
    // The upper bit is Reversible; saquery prints the octet as it comes.
    assert!(told.contains("num_path_revers.........0x80"), "{told}");
    let records = lab.output(CLIENT, "saquery", &["VLAR", &to]).unwrap();
    assert!(records.contains("Weight:64|64|64|64| 0|"), "{records}");
    let records = lab.output(CLIENT, "saquery", &["SL2VL", &to]).unwrap();
    assert!(
        records.contains("0 | 1 | 2 | 3 | 0 | 1") || records.contains("0| 1| 2| 3| 0| 1"),
        "{records}"
    );
}

fn run(lab: &PeerLab, fabric: &Fabric) {
    let at = port(lab.base(), MASTER);
    let once = ["run", "--port", &at, "--once", "--json", "--lanes", "4"];
    lab.selvedge(&once).unwrap().success().unwrap();
    check_agents(lab, fabric, LANES);
    let manager = lab.start_daemon(&["run", "--port", &at, "--lanes", "4"]).unwrap();
    let answers = || {
        let asked = lab.run(CLIENT, "saquery", &["SMIR"])?;
        Ok((asked.status.success() && asked.stdout.contains("SMInfoRecord")).then_some(()))
    };
    until("the administrator to answer", LIMIT, String::new, answers).unwrap();
    check_administrator(lab);
    drop(manager);
    // OpenSM puts everything on lane 0; a manager that takes over from it reads that, and writes the difference.
    let lines = ["qos TRUE", "qos_sl2vl 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0"];
    let options = OpenSmOptions {
        lines: lines.map(str::to_owned).to_vec(),
        once: true,
        ..OpenSmOptions::default()
    };
    lab.opensm(CLIENT, &options).unwrap().finish(LIMIT).unwrap();
    let lid = lid_of(lab, CLIENT).to_string();
    assert_eq!(rows(&smpquery(lab, &["sl2vl", &lid, "0"])), [[0; 16]]);
    lab.selvedge(&once).unwrap().success().unwrap();
    check_agents(lab, fabric, LANES);
}

#[test]
fn lanes_on_ibsim() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let fabric = Fabric::new(&lab, SPEC);
    let _ibsim = lab.ibsim(&fabric.text).unwrap();
    run(&lab, &fabric);
}

#[test]
fn lanes_on_our_emulator() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let fabric = Fabric::new(&lab, SPEC);
    let _emulator = emulate(&lab, SPEC);
    run(&lab, &fabric);
}
