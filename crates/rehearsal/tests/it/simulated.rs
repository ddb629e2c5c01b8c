//! A packet simulation's counters in the ports of an emulated fabric.

use selvedge_dataplane::{Network, Settings, Simulation};
use selvedge_emulator::{Emulator, EmulatorConfig};
use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_plan::{Lids, ServiceLevels, SlToVl};
use selvedge_rehearsal::count_simulated;
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange, PortNum};
use selvedge_workload::{Arrivals, Pattern, PatternTraffic};

#[test]
fn what_a_simulation_counts_is_shown() {
    let Spec::Generated(recipe) = "karytree:k=4,n=2".parse().unwrap() else {
        panic!("no generator")
    };
    let fabric = recipe.fabric().unwrap();
    let mut lids = Lids::new();
    for (lid, (at, _)) in (1..).zip(fabric.end_ports()) {
        lids.insert(at, LidRange::single(Lid(lid))).unwrap();
    }
    let engine: Engine = "fat-tree".parse().unwrap();
    let routed = engine
        .route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential)
        .unwrap();
    let settings = Settings::default();
    let sl_to_vl = SlToVl::modulo(settings.vls);
    let network = Network {
        fabric: &fabric,
        lids: &lids,
        tables: &routed.tables,
        service_levels: &ServiceLevels::default(),
        sl_to_vl: &sl_to_vl,
    };
    let (pattern, arrivals): (Pattern, Arrivals) = ("incast:to=3".parse().unwrap(), "even".parse().unwrap());
    let how = (0.9, u32::from(settings.mtu.bytes()), 40.0);
    let traffic = PatternTraffic::new((&pattern, arrivals), network.host_count(), how, Seed(1)).unwrap();
    let mut simulation = Simulation::new(&network, &settings, traffic, Vec::new(), Seed(1)).unwrap();
    simulation.run_until(settings.end());
    let counts = simulation.port_counters();
    let mut emulator = Emulator::new(&fabric, EmulatorConfig::default(), Seed(1));
    count_simulated(&mut emulator, &counts).unwrap();
    let (mut packets, mut waits) = (0, 0);
    for (at, want) in &counts {
        let found = emulator.chassis().counters(emulator.chassis().port_idx(*at).unwrap());
        assert_eq!((found.xmit_data, found.rcv_packets), (want.xmit_data, want.rcv_packets));
        assert_eq!(found.unicast_xmit_packets, want.xmit_packets);
        // 4x HDR: 6.25 words in a nanosecond.
        assert_eq!(found.xmit_wait, want.xmit_wait_ns * 25 / 4);
        (packets, waits) = (packets + want.xmit_packets, waits + want.xmit_wait_ns);
    }
    assert!(
        packets > 1_000 && waits > 1_000,
        "{packets} packets, {waits} ns of waits"
    );
    // A second time: the sum.
    count_simulated(&mut emulator, &counts).unwrap();
    let (at, want) = &counts[0];
    let port = emulator.chassis().port_idx(*at).unwrap();
    assert_eq!(emulator.chassis().counters(port).xmit_data, 2 * want.xmit_data);
    // A port of another fabric.
    let foreign = PortRef {
        node: NodeIdx(9_999),
        port: PortNum::new(1).unwrap(),
    };
    let error = count_simulated(&mut emulator, &[(foreign, counts[0].1)]).unwrap_err();
    assert!(
        error.to_string().contains("SLV-EMU-0006: node 9999 has no port 1"),
        "{error}"
    );
}
