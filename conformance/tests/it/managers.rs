//! Two managers on one fabric, Selvedge and OpenSM in both orders: one is master, and the other changes nothing. When
//! the master is killed, the other takes over without changing a LID.

use crate::support::{Fabric, LIMIT, emulate, lid_of, port, wait_sm_state};
use selvedge_conformance::parse::{Fields, Plane};
use selvedge_conformance::{
    HeavyLock, Ibsim, MadCounts, OpenSm, OpenSmOptions, PeerLab, Relay, Running, Survey, until,
};
use selvedge_wire::{AttributeId, Method};

const SPEC: &str = "mport:m=4,n=2";
/// The host of the first manager.
const FIRST: &str = "H-0";
/// The host of the second manager.
const SECOND: &str = "H-7";
/// The host at which the diagnostics run.
const OBSERVER: &str = "H-3";

/// A lab with a fabric and a relay for the second manager.
struct Stage {
    lab: PeerLab,
    plane: Plane,
    relay: Relay,
    _simulator: Simulator,
}

/// The simulator; ends with the stage.
#[allow(dead_code)]
enum Simulator {
    Ours(Running),
    Ibsim(Ibsim),
}

impl Stage {
    fn emulated() -> Self {
        Self::new(|lab, _| Simulator::Ours(emulate(lab, SPEC)))
    }

    fn on_ibsim() -> Self {
        Self::new(|lab, net| Simulator::Ibsim(lab.ibsim(net).unwrap()))
    }

    fn new(start: impl Fn(&PeerLab, &str) -> Simulator) -> Self {
        let lab = PeerLab::new().unwrap();
        let mut fabric = Fabric::new(&lab, SPEC);
        let simulator = start(&lab, &fabric.text);
        let relay = lab.relay().unwrap();
        Self {
            lab,
            plane: fabric.planes.remove(0),
            relay,
            _simulator: simulator,
        }
    }

    fn ours(&self, base: &str, node: &str, priority: u8) -> Running {
        let (port, priority) = (port(base, node), priority.to_string());
        self.lab
            .start_daemon(&["run", "--port", &port, "--priority", &priority])
            .unwrap()
    }

    fn opensm(&self, base: &str, node: &str, priority: u8) -> OpenSm {
        let lines = vec![
            format!("sm_priority {priority}"),
            "sminfo_polling_timeout 500".to_owned(),
        ];
        let options = OpenSmOptions {
            lines,
            ..OpenSmOptions::default()
        };
        self.lab.opensm_through(base, node, &options).unwrap()
    }

    /// Waits until the manager at `node` is master and every host names it.
    fn wait_master(&self, node: &str) {
        let what = format!("every host to know the SM at {node}");
        until(&what, LIMIT, String::new, || {
            let want = u64::from(lid_of(&self.lab, node));
            let hosts = self.plane.net.nodes.values().filter(|host| host.id.starts_with("H-"));
            for host in hosts {
                let info = self.lab.output(&host.id, "smpquery", &["-D", "portinfo", "0"])?;
                let info = Fields::parse(&info);
                if want == 0 || info.number("SMLid")? != want || info.text("LinkState")? != "Active" {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .unwrap();
        wait_sm_state(&self.lab, OBSERVER, lid_of(&self.lab, node), "SMINFO_MASTER");
    }

    fn wait_standby(&self, node: &str) {
        wait_sm_state(&self.lab, OBSERVER, lid_of(&self.lab, node), "SMINFO_STANDBY");
    }

    fn survey(&self) -> Survey {
        Survey::take(&self.lab, OBSERVER).unwrap()
    }

    /// Checks the fabric after a take-over: all links are up, and neither LIDs nor entries changed.
    fn assert_nothing_moved(&self, before: &Survey) {
        let after = self.survey();
        assert_eq!(after.lids(), before.lids());
        assert_eq!(after.tables, before.tables);
        assert!(
            after
                .links
                .iter()
                .filter(|line| line.peer.is_some())
                .all(|line| line.is_active())
        );
    }
}

/// Returns the number of Sets of every class: a standby sends none.
fn sets(counts: &MadCounts) -> u64 {
    counts.count(|kind| kind.method == Method::Set)
}

#[test]
fn two_of_ours_on_our_emulator() {
    let _heavy = HeavyLock::acquire().unwrap();
    two_of_ours(&Stage::emulated());
}

#[test]
fn two_of_ours_on_ibsim() {
    let _heavy = HeavyLock::acquire().unwrap();
    two_of_ours(&Stage::on_ibsim());
}

fn two_of_ours(stage: &Stage) {
    let first = stage.ours(stage.lab.base(), FIRST, 0);
    stage.wait_master(FIRST);
    // Of equals the lower GUID is better.
    let mut second = stage.ours(stage.relay.base(), SECOND, 0);
    stage.wait_standby(SECOND);
    let before = stage.survey();
    let sent = stage.relay.sent();
    assert_eq!(sets(&sent), 0, "a standby sent:\n{sent}");
    second.must_run().unwrap();
    drop(first); // SIGKILL
    stage.wait_master(SECOND);
    stage.assert_nothing_moved(&before);
    // Back again: the former master is better, and gets the subnet.
    let _third = stage.ours(stage.lab.base(), FIRST, 0);
    stage.wait_master(FIRST);
    stage.wait_standby(SECOND);
    stage.assert_nothing_moved(&before);
}

#[test]
fn the_better_of_two_that_start_together() {
    let _heavy = HeavyLock::acquire().unwrap();
    let stage = Stage::emulated();
    let _first = stage.ours(stage.lab.base(), FIRST, 0);
    let _second = stage.ours(stage.relay.base(), SECOND, 0);
    // Whichever came first, one is master and the other is not, and that stays so.
    let states = until("one master and one standby", LIMIT, String::new, || {
        let state = |node: &str| -> Option<String> {
            let lid = lid_of(&stage.lab, node).to_string();
            let asked = stage.lab.run(OBSERVER, "sminfo", &[&lid]).ok()?;
            selvedge_conformance::parse::SmInfo::parse(&asked.stdout)
                .ok()
                .map(|info| info.state)
        };
        let mut states = [state(FIRST), state(SECOND)];
        states.sort();
        let done = states == [Some("SMINFO_MASTER".to_owned()), Some("SMINFO_STANDBY".to_owned())];
        Ok(done.then_some(()))
    });
    states.unwrap();
}

#[test]
fn opensm_is_master_and_ours_stands_by() {
    let _heavy = HeavyLock::acquire().unwrap();
    let stage = Stage::emulated();
    let mut opensm = stage.opensm(stage.lab.base(), FIRST, 14);
    opensm.wait_up(1, LIMIT).unwrap();
    let _ours = stage.ours(stage.relay.base(), SECOND, 0);
    stage.wait_standby(SECOND);
    // A whole sweep of OpenSM's with us beside it.
    opensm.heavy_sweep().unwrap();
    opensm.wait_up(2, LIMIT).unwrap();
    let before = stage.survey();
    let sent = stage.relay.sent();
    assert_eq!(sets(&sent), 0, "a standby sent:\n{sent}");
    opensm.kill();
    stage.wait_master(SECOND);
    stage.assert_nothing_moved(&before);
}

#[test]
fn ours_is_master_and_opensm_stands_by() {
    let _heavy = HeavyLock::acquire().unwrap();
    let stage = Stage::emulated();
    let ours = stage.ours(stage.lab.base(), FIRST, 14);
    stage.wait_master(FIRST);
    let mut opensm = stage.opensm(stage.relay.base(), SECOND, 0);
    opensm.wait_log("Entering STANDBY state", 1, LIMIT).unwrap();
    stage.wait_standby(SECOND);
    let before = stage.survey();
    drop(ours); // SIGKILL
    opensm.wait_log("Entering MASTER state", 1, LIMIT).unwrap();
    opensm.wait_up(1, LIMIT).unwrap();
    stage.wait_master(SECOND);
    assert_eq!(stage.survey().lids(), before.lids());
}

/// With the same topology file, Selvedge after OpenSM finds everything as planned and sends no Set.
#[test]
fn with_the_same_file_ours_has_nothing_to_set_behind_opensm() {
    let _heavy = HeavyLock::acquire().unwrap();
    let stage = Stage::emulated();
    let mut opensm = stage.opensm(stage.lab.base(), FIRST, 0);
    opensm.wait_up(1, LIMIT).unwrap();
    let file = stage.lab.folder().join("opensm.conf");
    std::fs::write(&file, opensm.file("opensm.conf").unwrap()).unwrap();
    opensm.stop(LIMIT).unwrap();
    let (file, at) = (file.display().to_string(), port(stage.relay.base(), FIRST));
    let said = stage
        .lab
        .selvedge(&["run", "-F", &file, "--port", &at, "--once"])
        .unwrap();
    let said = said.success().unwrap();
    let sent = stage.relay.sent();
    assert_eq!(sets(&sent), 0, "{said}\nsent:\n{sent}");
    assert!(sent.total() > 0, "{said}");
}

/// With the same file on ibsim, where ports keep fewer settings than OpenSM and Selvedge set: each port gets one
/// PortInfo Set, as at every start of Selvedge there, and nothing else is set.
#[test]
fn with_the_same_file_ours_sets_no_more_than_ibsim_forgets() {
    let _heavy = HeavyLock::acquire().unwrap();
    let stage = Stage::on_ibsim();
    let mut opensm = stage.opensm(stage.lab.base(), FIRST, 0);
    opensm.wait_up(1, LIMIT).unwrap();
    let before = stage.survey();
    let file = stage.lab.folder().join("opensm.conf");
    std::fs::write(&file, opensm.file("opensm.conf").unwrap()).unwrap();
    opensm.stop(LIMIT).unwrap();
    let (file, at) = (file.display().to_string(), port(stage.relay.base(), FIRST));
    let said = stage
        .lab
        .selvedge(&["run", "-F", &file, "--port", &at, "--once"])
        .unwrap();
    let said = said.success().unwrap();
    let sent = stage.relay.sent();
    let port_infos = sent.count(|kind| kind.method == Method::Set && kind.attribute == AttributeId::PORT_INFO.code());
    assert_eq!(sets(&sent), port_infos, "{said}\nsent:\n{sent}");
    let ends = stage.plane.net.nodes.values().map(|node| node.cables.len() as u64);
    let switches = stage
        .plane
        .net
        .nodes
        .keys()
        .filter(|guid| stage.plane.net.is_switch(**guid));
    let ports = ends.sum::<u64>() + switches.count() as u64;
    assert!(port_infos <= ports, "{port_infos} for {ports} ports: {sent}");
    stage.assert_nothing_moved(&before);
}

/// OpenSM hands the subnet over to Selvedge, a standby of higher priority.
#[test]
fn opensm_gives_way_to_ours() {
    let _heavy = HeavyLock::acquire().unwrap();
    let stage = Stage::emulated();
    let mut opensm = stage.opensm(stage.lab.base(), FIRST, 0);
    opensm.wait_up(1, LIMIT).unwrap();
    let before = stage.survey();
    // Trap 144 reports the new SM to OpenSM.
    let _ours = stage.ours(stage.relay.base(), SECOND, 15);
    opensm.wait_log("Entering STANDBY state", 1, LIMIT).unwrap();
    stage.wait_master(SECOND);
    stage.assert_nothing_moved(&before);
}
