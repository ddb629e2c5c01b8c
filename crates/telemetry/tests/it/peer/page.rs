//! Pages of a small fabric in which everything happens that dashboards and rules look for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use selvedge_sim::Time;
use selvedge_telemetry::alarm::{Alarm, AlarmBook, AlarmIn, AlarmRules};
use selvedge_telemetry::cable::BerEstimate;
use selvedge_telemetry::congestion::{Branch, Cause, Congestion, Load, Tree};
use selvedge_telemetry::exposition::brand::{self, Brand};
use selvedge_telemetry::exposition::guilbaults;
use selvedge_telemetry::exposition::meaning::{self, Meaning};
use selvedge_telemetry::exposition::{cables, details, samples};
use selvedge_telemetry::prometheus::{TextFormat, Wanted, write};
use selvedge_telemetry::rates::{Capacity, Growth, PortRates, WaitTick};
use selvedge_telemetry::{End, Group, Inventory, Latest, Metric, Sample, SampleKey, Slot};
use selvedge_types::NodeKind;
use selvedge_wire::{CableInfo, CableKind};

use crate::agents::{host, switch};
use crate::congestion::samples;
use crate::slots::every_second;
use crate::world::World;

/// A cable with light in each lane.
fn optical() -> CableInfo {
    CableInfo {
        kind: CableKind::ActiveOptical,
        lanes: 4,
        temperature: 40 * 256,
        vendor: CableInfo::field("Vendor"),
        rx_power: [9_000; 8],
        tx_power: [9_000; 8],
        ..CableInfo::default()
    }
}

/// What there is after some slots of one second.
pub struct Page {
    inventory: Inventory,
    latest: Latest,
    rates: Vec<PortRates>,
    congestion: Congestion,
    alarms: AlarmBook,
    ber: BTreeMap<End, BerEstimate>,
    corrected: BTreeMap<End, [BerEstimate; 2]>,
    cables: BTreeMap<End, CableInfo>,
}

impl Page {
    /// The state in a slot: every counter of every port has grown with each slot.
    pub fn at(slot: u64) -> Self {
        let inventory = World::new(every_second(&[Group::Extended])).inventory;
        let mut page = Self {
            latest: Latest::default(),
            rates: Vec::new(),
            congestion: congestion(),
            alarms: AlarmBook::new(AlarmRules::default()),
            ber: BTreeMap::new(),
            corrected: BTreeMap::new(),
            cables: BTreeMap::new(),
            inventory,
        };
        let now = Time::from_secs(slot);
        let mut news = Vec::new();
        page.alarms
            .handle(now, AlarmIn::Inventory(Arc::new(page.inventory.clone())), &mut news);
        for (guid, node) in &page.inventory.nodes {
            for port in node.ports.iter().filter(|port| port.is_up() && port.num > 0) {
                let end = End {
                    node: *guid,
                    port: port.num,
                };
                let (before, after) = port_samples(end, slot);
                page.latest.take(&after);
                for group in Group::ALL
                    .into_iter()
                    .filter(|group| !matches!(group, Group::Base | Group::Extended))
                {
                    let mut details = after;
                    details.key.group = group;
                    details.known = group.mask();
                    page.latest.take(&details);
                }
                let growth = Growth::between(&before, &after, Duration::from_secs(1)).unwrap();
                page.alarms.handle(now, AlarmIn::Grown(&[growth]), &mut news);
                let rate = port.rate.unwrap();
                page.rates
                    .push(PortRates::new(&growth, Capacity::of(rate), WaitTick::Symbols(32)));
                let errors = growth.metric(Metric::SymbolErrors).unwrap();
                let ber = BerEstimate::new(errors, growth.over, rate).unwrap();
                page.ber.insert(end, ber);
                page.corrected.insert(end, [ber; 2]);
                page.cables.insert(end, optical());
            }
        }
        page
    }

    /// The whole page in Prometheus' text format.
    pub fn text(&self) -> String {
        self.write(TextFormat::Prometheus)
    }

    pub fn openmetrics(&self) -> String {
        self.write(TextFormat::OpenMetrics)
    }

    fn write(&self, format: TextFormat) -> String {
        let (mut rest, mut text) = (String::new(), String::new());
        let alarms: Vec<Alarm> = self.alarms.alarms().cloned().collect();
        let wanted = Wanted::default();
        let meaning = Meaning {
            inventory: &self.inventory,
            rates: &self.rates,
            congestion: &self.congestion,
            alarms: &alarms,
            ber: &self.ber,
            corrected: &self.corrected,
        };
        meaning::write(&mut rest, format, &wanted, &meaning).unwrap();
        guilbaults::write(&mut rest, format, &wanted, (&self.inventory, &self.latest), true).unwrap();
        details::write(&mut rest, format, &wanted, &self.inventory, &self.latest).unwrap();
        let now = selvedge_telemetry::Wall(1_000_000_900_000_000);
        samples::write(&mut rest, format, &wanted, (&self.inventory, &self.latest), now).unwrap();
        cables::write(&mut rest, format, &wanted, &self.cables).unwrap();
        let nodes = self.inventory.nodes.keys();
        let quantum = Brand {
            vendor: 0x2C9,
            device: 0xD2F0,
        };
        let brands = nodes.map(|guid| (*guid, quantum)).collect();
        brand::write(&mut rest, format, &self.inventory, &brands).unwrap();
        write(&mut text, format, &self.inventory, &self.latest).unwrap();
        // The counters' page ends the exposition, so the rest comes before.
        rest + &text
    }
}

/// The samples of a port in a slot and in the one before. Each counter has a pace of its own.
fn port_samples(end: End, slot: u64) -> (Sample, Sample) {
    let (mut before, mut after) = samples(end, 0, 0, 0, Duration::from_secs(1));
    let total = |metric: Metric, slot: u64| match metric {
        // 3 GB/s at 4x EDR, which is 12.5 GB/s; the link between the switches is full.
        Metric::XmitData | Metric::RcvData if end.port == 5 => slot * 2_950_000_000,
        Metric::XmitData | Metric::RcvData => slot * 750_000_000,
        Metric::XmitWait => slot * 20_000_000,
        metric => slot * (500 + metric as u64),
    };
    for metric in Metric::ALL {
        before.totals[metric as usize] = total(metric, slot.saturating_sub(1));
        after.totals[metric as usize] = total(metric, slot);
    }
    before.slot = Slot {
        epoch: 0,
        number: slot.saturating_sub(1),
    };
    after.slot = Slot { epoch: 0, number: slot };
    assert_eq!(
        after.key,
        SampleKey {
            node: end.node,
            port: end.port,
            group: Group::Extended
        }
    );
    (before, after)
}

fn congestion() -> Congestion {
    let load = Load {
        utilisation: 0.95,
        wait: 0.0,
    };
    let waits = End { node: host(0), port: 1 };
    let tree = Tree {
        root: End {
            node: switch(0),
            port: 5,
        },
        to: End {
            node: switch(1),
            port: 5,
        },
        cause: Cause::Saturated,
        load,
        branches: vec![Branch {
            port: waits,
            load: Load {
                utilisation: 0.2,
                wait: 0.7,
            },
            hops: 1,
        }],
        hosts: vec![waits],
    };
    Congestion {
        trees: vec![tree],
        without_root: vec![End { node: host(1), port: 1 }],
        horizon: None,
    }
}

/// The fabric of the page has both kinds of nodes.
#[test]
fn the_page_has_hosts_and_switches() {
    let page = Page::at(3);
    let kinds: Vec<NodeKind> = page.inventory.nodes.values().map(|node| node.kind).collect();
    assert!(kinds.contains(&NodeKind::Ca) && kinds.contains(&NodeKind::Switch));
    assert!(page.openmetrics().ends_with("# EOF\n"));
    assert!(!page.text().contains("# EOF"));
    for series in [
        "vl_transmit_wait_total{",
        "flow_control_packets_total{",
        "extended_speeds_errors_total{",
    ] {
        assert!(page.text().contains(&format!("\ninfiniband_port_{series}")), "{series}");
    }
}
