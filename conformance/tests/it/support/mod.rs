//! Helpers for tests of Selvedge's binary: fabrics, files, and the checks of a fabric that is up.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge_conformance::parse::{Fields, Net, Plan, Plane, SmInfo};
use selvedge_conformance::{EndPort, PeerLab, Probe, Running, Survey, until};
use selvedge_types::Guid;

/// Limit for one operation of a program.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Pairs of end ports between which paths are traced, in both directions, in a full check.
pub const PAIRS: usize = 200;
/// Seed for the choice of these pairs. It is printed when a path is wrong.
const SEED: u64 = 1;
/// Largest number of switches of which `ibroute` reads the tables; `dump_fts` reads all tables.
const ROUTES_MAX: usize = 40;
/// Number of end ports to which `smpquery` is applied.
const QUERIES: usize = 8;

/// A real cluster's listing; see the README beside it.
pub const CLUSTER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../crates/topology/tests/fixtures/dgx-ndr-582.topo"
);

/// A fabric that a test names, as text and as read.
pub struct Fabric {
    /// The fabric as an ibsim net file.
    pub text: String,
    /// Contents of the net file.
    pub net: Net,
    /// The parts of the fabric that one manager each can reach.
    pub planes: Vec<Plane>,
}

impl Fabric {
    /// Makes the fabric with `selvedge topology`: `generate` for a name, `convert` for a file.
    pub fn new(lab: &PeerLab, spec: &str) -> Self {
        let verb = if Path::new(spec).is_file() {
            "convert"
        } else {
            "generate"
        };
        let text = lab.net_file(verb, spec).unwrap();
        let net = Net::parse(&text).unwrap();
        if verb == "convert" {
            let original = Net::parse(&fs::read_to_string(spec).unwrap()).unwrap();
            let same = nameless(&original) == nameless(&net);
            assert!(same, "{spec} is another fabric once converted");
        }
        let planes = net.planes();
        Self { text, net, planes }
    }
}

/// Returns a fabric without the node names that depend on the file format.
fn nameless(net: &Net) -> Net {
    let mut net = net.clone();
    net.nodes.values_mut().for_each(|node| node.id.clear());
    net
}

/// The files into which a run of `selvedge` writes its plan.
pub struct Outputs {
    lfts: PathBuf,
    lids: PathBuf,
}

impl Outputs {
    /// Names the files after `name`, in the lab's folder.
    pub fn new(lab: &PeerLab, name: &str) -> Self {
        let file = |end: &str| lab.folder().join(format!("{name}.{end}"));
        Self {
            lfts: file("lfts"),
            lids: file("lids"),
        }
    }

    /// Returns the options of `selvedge` that make it write these files.
    pub fn options(&self) -> [&str; 4] {
        [
            "--lfts-out",
            self.lfts.to_str().unwrap(),
            "--lids-out",
            self.lids.to_str().unwrap(),
        ]
    }

    /// Reads the plan from the files.
    pub fn plan(&self) -> Plan {
        let read = |path| fs::read_to_string(path).unwrap();
        Plan::parse(&read(&self.lfts), &read(&self.lids)).unwrap()
    }
}

/// Returns the value of `--port` for a node of the simulator, or relay, named `base`.
pub fn port(base: &str, node: &str) -> String {
    format!("ibsim:{base}/{node}")
}

/// Runs a manager at a node until there is nothing left to do. The manager must end with status 0. Returns its plan.
pub fn run_once(lab: &PeerLab, base: &str, node: &str, more: &[&str]) -> Plan {
    let outputs = Outputs::new(lab, "once");
    let port = port(base, node);
    let mut arguments = vec!["run", "--port", &port, "--once", "--json"];
    arguments.extend(outputs.options());
    arguments.extend(more);
    let report = lab.selvedge(&arguments).unwrap().success().unwrap();
    let report = report.split_whitespace().collect::<String>();
    assert!(report.starts_with("{\"schema\":\"selvedge."), "{report}");
    outputs.plan()
}

/// Checks with every diagnostic that the fabric of this plane, with its manager at the plane's `seat`, agrees with its
/// file and this plan. Returns the survey.
pub fn check_up(lab: &PeerLab, plane: &Plane, plan: &Plan, pairs: usize) -> Survey {
    let node = plane.seat.as_str();
    let survey = Survey::take(lab, node).unwrap();
    assert_none("survey", &survey.differences(&plane.net, plan));
    let switches: Vec<Guid> = survey.tables.keys().copied().collect();
    let switches = spread(&switches, ROUTES_MAX);
    assert_none("ibroute", &survey.wrong_routes(lab, node, plan, &switches).unwrap());
    let ends: Vec<EndPort> = survey.end_ports().into_keys().collect();
    let sm = (spread(&ends, QUERIES), lid_of(lab, node));
    assert_none("smpquery", &survey.wrong_ports(lab, node, plan, (&sm.0, sm.1)).unwrap());
    let texts = (&plane.net, plan);
    assert_none(
        "ibtracert",
        &survey.wrong_paths(lab, node, texts, (pairs, SEED)).unwrap(),
    );
    survey
}

/// Fails with the first lines of a list that should be empty.
pub fn assert_none(what: &str, found: &[String]) {
    let first = found.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
    assert!(found.is_empty(), "{what}: {} differences, first:\n{first}", found.len());
}

/// Returns at most `count` of the items, evenly spread, with the first and the last among them.
pub fn spread<T: Copy>(all: &[T], count: usize) -> Vec<T> {
    if all.len() <= count {
        return all.to_vec();
    }
    (0..count).map(|at| all[at * (all.len() - 1) / (count - 1)]).collect()
}

/// Returns the LID of the port to which clients of this node attach. Asks along the empty directed route.
pub fn lid_of(lab: &PeerLab, node: &str) -> u16 {
    own_port_info(lab, node).number("Lid").unwrap().try_into().unwrap()
}

/// True if the port to which clients of this node attach shows IsSM.
pub fn is_sm(lab: &PeerLab, node: &str) -> bool {
    // Source: IBA vol 1 §14.2.5.6: PortInfo.CapabilityMask.IsSM is bit 1.
    own_port_info(lab, node).number("CapMask").unwrap() & 0x2 != 0
}

fn own_port_info(lab: &PeerLab, node: &str) -> Fields {
    Fields::parse(&lab.output(node, "smpquery", &["-D", "portinfo", "0"]).unwrap())
}

/// Waits until the SM at `lid` shows this state, for example `SMINFO_MASTER`. Asks from `node`.
pub fn wait_sm_state(lab: &PeerLab, node: &str, lid: u16, state: &str) -> SmInfo {
    let text = lid.to_string();
    let last = std::cell::RefCell::new(String::new());
    let found = until(
        &format!("{state} at LID {lid}"),
        LIMIT,
        || last.borrow().clone(),
        || {
            let asked = lab.run(node, "sminfo", &[&text])?;
            let said = format!("{}{}", asked.stdout, asked.stderr);
            let info = SmInfo::parse(&asked.stdout).ok().filter(|info| info.state == state);
            last.replace(said);
            Ok(info)
        },
    );
    found.unwrap()
}

/// Starts `selvedge emulate` under the lab's socket name and waits until clients can attach.
pub fn emulate(lab: &PeerLab, spec: &str) -> Running {
    let mut running = lab
        .start_daemon(&["emulate", "--fabric", spec, "--serve", lab.base()])
        .unwrap();
    until("the emulator to take clients", LIMIT, String::new, || {
        running.must_run()?;
        Ok(Probe::open(lab.base(), "").ok())
    })
    .unwrap();
    running
}

/// Injects a fault on the emulator that was started first in this lab, as `selvedge fault` does.
pub fn fault(lab: &PeerLab, fault: &str) {
    let folders = fs::read_dir(lab.folder()).unwrap();
    let mut sockets: Vec<PathBuf> = folders.map(|entry| entry.unwrap().path().join("api.sock")).collect();
    sockets.sort();
    let socket = sockets.iter().find(|path| path.exists()).unwrap();
    let arguments = ["fault", "--socket", socket.to_str().unwrap(), fault];
    lab.selvedge(&arguments).unwrap().success().unwrap();
}

/// Runs `selvedge verify` on the tables in the survey and on the fabric that `ibnetdiscover` sees from `node`. Returns
/// the exit code and the output.
pub fn judge(lab: &PeerLab, node: &str, survey: &Survey) -> (Option<i32>, String) {
    let file = |name: &str, text: &str| {
        let path = lab.folder().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (lfts, lids) = survey.dump();
    let (lfts, lids) = (file("seen.lfts", &lfts), file("seen.lids", &lids));
    let fabric = file("seen.topo", &lab.output(node, "ibnetdiscover", &[]).unwrap());
    let said = lab
        .selvedge(&["verify", "--fabric", &fabric, "--lfts", &lfts, "--lids", &lids])
        .unwrap();
    (said.status.code(), format!("{}{}", said.stdout, said.stderr))
}

/// Checks the exit code and the error of a program that ended: the error must have this code, and nothing may have
/// panicked.
pub fn assert_coded(finished: &selvedge_conformance::Finished, exit: i32, code: &str) {
    let said = &finished.stderr;
    assert_eq!(finished.status.code(), Some(exit), "{said}");
    assert!(said.contains(code) && !said.contains("panicked"), "{said}");
}
