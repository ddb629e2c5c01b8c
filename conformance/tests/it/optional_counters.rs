//! Optional attributes of performance management on our emulator, as the real `perfquery` reads and resets them.

use selvedge_conformance::PeerLab;
use selvedge_conformance::parse::Fields;

use crate::support::{self, Fabric, emulate, lid_of, run_once};

/// The fields that `perfquery` prints for an attribute of a port.
struct Query<'a> {
    lab: &'a PeerLab,
    seat: &'a str,
    lid: String,
}

impl Query<'_> {
    fn text(&self, flags: &[&str]) -> String {
        let arguments = [flags, &[&self.lid, "1"]].concat();
        self.lab.output(self.seat, "perfquery", &arguments).unwrap()
    }

    fn field(&self, flag: &str, name: &'static str) -> u64 {
        let text = self.text(&[flag]);
        let found = Fields::parse(&text).number(name);
        found.unwrap_or_else(|error| panic!("{error} in {text}"))
    }
}

#[test]
fn counters_of_opcodes_flow_control_and_fast_links() {
    let lab = PeerLab::new().unwrap();
    let spec = "mport:m=4,n=2";
    let plane = Fabric::new(&lab, spec).planes.remove(0);
    let _emulator = emulate(&lab, spec);
    run_once(&lab, lab.base(), &plane.seat, &[]);
    let seat = plane.seat.as_str();
    let query = Query {
        lab: &lab,
        seat,
        lid: lid_of(&lab, seat).to_string(),
    };
    for (flag, name) in [
        ("--oprcvcounters", "PortOpRcvPkts"),
        ("--oprcvcounters", "PortOpRcvData"),
        ("--flowctlcounters", "PortXmitFlowPkts"),
        ("--flowctlcounters", "PortRcvFlowPkts"),
        ("-T", "FECCorrectableBlockCtrLane0"),
        ("-T", "FECUncorrectableBlockCtrLane3"),
    ] {
        assert_eq!(query.field(flag, name), 0, "{name} before there is a load");
    }
    support::fault(&lab, "load uniform 40%");
    // 4x HDR: thousands of errors a second before correction, and hundreds after it.
    support::fault(&lab, &format!("ber \"{seat}\"[1] 1e-7 2e-9"));
    let packets = query.field("--oprcvcounters", "PortOpRcvPkts");
    assert!(packets > 100, "{packets}");
    // Later reads see more.
    assert!(query.field("--oprcvcounters", "PortOpRcvData") > 100 * packets);
    assert!(query.field("--flowctlcounters", "PortXmitFlowPkts") > packets);
    assert!(query.field("--flowctlcounters", "PortRcvFlowPkts") > 100);
    let text = query.text(&["-T"]);
    let speeds = Fields::parse(&text);
    let lane = |name: &'static str| speeds.number(name).unwrap_or_else(|error| panic!("{error} in {text}"));
    let mended = lane("FECCorrectableBlockCtrLane0");
    let left = lane("FECUncorrectableBlockCtrLane3");
    assert!(mended > 10 * left && left > 0, "{text}");
    assert!(lane("FECCorrectableBlockCtrLane3").abs_diff(mended) <= 1, "{text}");
    assert_eq!(
        (lane("FECCorrectableBlockCtrLane4"), lane("SyncHeaderErrorCounter")),
        (0, 0),
        "{text}"
    );
    // What the peer resets begins again at 0.
    support::fault(&lab, "load off");
    query.text(&["-R", "--oprcvcounters"]);
    assert_eq!(query.field("--oprcvcounters", "PortOpRcvPkts"), 0);
    support::fault(&lab, &format!("ber \"{seat}\"[1] 0 0"));
    query.text(&["-R", "-T"]);
    let text = query.text(&["-T"]);
    assert_eq!(
        Fields::parse(&text).number("FECCorrectableBlockCtrLane0").unwrap(),
        0,
        "{text}"
    );
}
