//! Tests of the checks themselves: they pass on the reference, which is OpenSM on ibsim, and each of them can fail.

use std::time::Duration;

use selvedge_conformance::parse::{Net, Plan};
use selvedge_conformance::{EndPort, Ibsim, OpenSm, OpenSmOptions, PeerLab, Probe, Survey};
use selvedge_types::Guid;

const NET: &str = include_str!("../../fabrics/mport-4-2.net");
const LIMIT: Duration = Duration::from_secs(60);
const SEAT: &str = "H-0";
const FIRST_LEAF: Guid = Guid(0x025e_1e01_0000_0000);

/// A fabric that OpenSM brought up, and the plan that it reports.
struct Reference {
    lab: PeerLab,
    net: Net,
    plan: Plan,
    _opensm: OpenSm,
    ibsim: Ibsim,
}

impl Reference {
    fn new() -> Self {
        let lab = PeerLab::new().unwrap();
        let ibsim = lab.ibsim(NET).unwrap();
        let dump = true;
        let options = OpenSmOptions {
            dump,
            ..OpenSmOptions::default()
        };
        let mut opensm = lab.opensm(SEAT, &options).unwrap();
        opensm.wait_up(1, LIMIT).unwrap();
        Self {
            lab,
            net: Net::parse(NET).unwrap(),
            plan: opensm.plan().unwrap(),
            _opensm: opensm,
            ibsim,
        }
    }

    fn survey(&self) -> Survey {
        Survey::take(&self.lab, SEAT).unwrap()
    }

    fn wrong_paths(&self, survey: &Survey) -> Vec<String> {
        survey
            .wrong_paths(&self.lab, SEAT, (&self.net, &self.plan), (40, 1))
            .unwrap()
    }

    fn wrong_routes(&self, survey: &Survey) -> Vec<String> {
        let switches: Vec<_> = survey.tables.keys().copied().collect();
        survey.wrong_routes(&self.lab, SEAT, &self.plan, &switches).unwrap()
    }

    fn wrong_ports(&self, survey: &Survey) -> Vec<String> {
        let ends: Vec<EndPort> = survey.end_ports().into_keys().collect();
        let own = self.plan.lids[&Guid(0x025e_1e02_0000_0001)].0;
        survey.wrong_ports(&self.lab, SEAT, &self.plan, (&ends, own)).unwrap()
    }

    /// Writes one entry into a switch without the knowledge of OpenSM.
    fn corrupt(&self, switch: u16, lid: u16, exit: u8) {
        let mut probe = Probe::open(self.lab.base(), SEAT).unwrap();
        probe.corrupt(switch, lid, exit).unwrap();
    }
}

#[test]
fn the_reference_passes_and_every_check_can_fail() {
    let mut reference = Reference::new();
    let good = reference.survey();
    assert_eq!(good.differences(&reference.net, &reference.plan), [""; 0]);
    assert_eq!(reference.wrong_paths(&good), [""; 0]);
    assert_eq!(reference.wrong_routes(&good), [""; 0]);
    assert_eq!(reference.wrong_ports(&good), [""; 0]);

    wrong_texts(&reference, &good);

    // One entry of one switch: the leaf sends packets for its second host to its first.
    let host = reference.plan.lids[&Guid(0x025e_1e02_0000_0009)].0;
    let leaf = reference.plan.lids[&FIRST_LEAF].0;
    reference.corrupt(leaf, host, 1);
    let bad = reference.survey();
    let found = bad.differences(&reference.net, &reference.plan);
    let want = format!("exit of switch {FIRST_LEAF} for LID {host}: seen Some(1), want Some(2)");
    assert_eq!(found, [want]);
    assert_eq!(reference.wrong_routes(&bad).len(), 1);
    let paths = reference.lab.run(SEAT, "ibtracert", &["5", &host.to_string()]).unwrap();
    assert!(
        !paths.status.success() || !paths.stdout.contains("\"H-1\""),
        "{}",
        paths.stdout
    );
    reference.corrupt(leaf, host, 2);
    assert_eq!(reference.survey().differences(&reference.net, &reference.plan), [""; 0]);

    // A cable that the file has and the fabric has not.
    reference.ibsim.unlink("S-L1-3", 3).unwrap();
    let cut = reference.survey().differences(&reference.net, &reference.plan);
    assert!(cut.iter().any(|line| line.contains("cables of S-L1-3")), "{cut:?}");
}

/// Checks that files and plans that differ from the fabric are found.
fn wrong_texts(reference: &Reference, good: &Survey) {
    let mut plan = reference.plan.clone();
    plan.lids.insert(FIRST_LEAF, (77, 77));
    let found = good.differences(&reference.net, &plan);
    assert!(found.len() == 1 && found[0].contains("LID of port"), "{found:?}");

    let mut plan = reference.plan.clone();
    plan.tables.remove(&FIRST_LEAF);
    let found = good.differences(&reference.net, &plan);
    assert!(found.len() == 1 && found[0].contains("only one"), "{found:?}");

    // Paths through another spine than the one that is programmed.
    let mut plan = reference.plan.clone();
    let table = plan.tables.get_mut(&FIRST_LEAF).unwrap();
    table
        .exits
        .values_mut()
        .filter(|exit| **exit > 2)
        .for_each(|exit| *exit = 7 - *exit);
    let found = good
        .wrong_paths(&reference.lab, SEAT, (&reference.net, &plan), (40, 1))
        .unwrap();
    assert!(!found.is_empty());

    let links = good.links.iter().cloned().map(|mut line| {
        line.state = "Initialize".to_owned();
        line
    });
    let inactive = Survey {
        links: links.collect(),
        ..good.clone()
    };
    let found = inactive.differences(&reference.net, &reference.plan);
    assert_eq!(found.len(), 2 * reference.net.cables());

    let short = NET
        .replace("[4]\t\"S-L2-1\"", "# [4]\t\"S-L2-1\"")
        .replace("Ca\t1", "Ca\t2");
    let found = good.differences(&Net::parse(&short).unwrap(), &reference.plan);
    assert!(found.iter().any(|line| line.contains("kind and ports")), "{found:?}");
}
