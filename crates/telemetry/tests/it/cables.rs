//! Cables: read once after their link came up, then at a long interval, and only where the agent has them.

use std::time::Duration;

use selvedge_telemetry::{Config, End, Event, Group};
use selvedge_types::PortState;
use selvedge_wire::{AttributeId, CableInfo, CableKind};

use crate::agents::{Cabled, host, switch};
use crate::slots::every_second;
use crate::world::{UP, World};

const EVERY: Duration = Duration::from_secs(600);

fn cable() -> CableInfo {
    CableInfo {
        kind: CableKind::ActiveOptical,
        lanes: 4,
        temperature: 40 * 256,
        vendor: CableInfo::field("V"),
        ..CableInfo::default()
    }
}

/// A switch and a host have CableInfo, another host ignores it, the others refuse it.
fn world() -> World {
    let mut world = World::new(every_second(&[Group::Extended]));
    for node in [switch(0), host(0)] {
        world.agent(node).cabled = Cabled::Read(cable());
    }
    world.agent(host(1)).cabled = Cabled::Ignored;
    world.restart(Config {
        cable_info: Some(EVERY),
        ..every_second(&[Group::Extended])
    });
    world
}

/// The requests for cables: of nodes that have them, of the one that ignores them, of those that refuse.
fn asked(world: &World) -> [u64; 3] {
    let mut asked = [0; 3];
    for agent in world.agents.values() {
        let of = match agent.cabled {
            Cabled::Read(_) => 0,
            Cabled::Ignored => 1,
            Cabled::Refused => 2,
        };
        asked[of] += agent.asked.get(&AttributeId::CABLE_INFO.code()).copied().unwrap_or(0);
    }
    asked
}

#[test]
fn a_cable_is_read_once_and_then_at_the_interval_where_the_agent_has_it() {
    let mut world = world();
    world.pass(Duration::from_secs(2));
    let mut ends: Vec<End> = world.cables.iter().map(|(_, reading)| reading.end).collect();
    ends.sort_unstable();
    let of = |node, port| End { node, port };
    let mut want: Vec<End> = (1..=6).map(|port| of(switch(0), port)).collect();
    want.push(of(host(0), 1));
    assert_eq!(ends, want);
    for (_, reading) in &world.cables {
        let port_select = reading.end.port;
        assert_eq!(reading.info, CableInfo { port_select, ..cable() });
    }
    let first = asked(&world);
    // A request is repeated once. The ports of a switch are not asked any more once one was refused.
    assert_eq!((first[0], first[1]), (7, 2));
    assert!((7..13).contains(&first[2]), "{first:?}");
    world.pass(EVERY - Duration::from_secs(10));
    // A silent node is asked again after five minutes.
    assert_eq!((asked(&world), world.cables.len()), ([7, 4, first[2]], 7));
    world.pass(Duration::from_secs(20));
    assert_eq!(asked(&world), [14, 6, first[2]]);
    assert_eq!(world.cables.len(), 14);
    world.invariants();
}

#[test]
fn an_agent_that_ignores_the_class_is_not_silent() {
    let mut world = world();
    world.pass(Duration::from_secs(10));
    assert!(
        world.events.iter().all(|event| !matches!(event, Event::Silent { .. })),
        "{:?}",
        world.events
    );
    assert!(
        world
            .reports
            .iter()
            .all(|report| report.missing.is_empty() && report.read == UP)
    );
}

#[test]
fn a_link_that_comes_up_again_may_have_another_cable() {
    let mut world = world();
    world.pass(Duration::from_secs(2));
    let up = world.inventory.clone();
    for (node, port) in [(switch(0), 1), (host(0), 1)] {
        let ports = &mut world.inventory.nodes.get_mut(&node).unwrap().ports;
        let entry = ports.iter_mut().find(|entry| entry.num == port).unwrap();
        (entry.state, entry.peer) = (PortState::Down, None);
    }
    world.show_inventory();
    world.pass(2 * EVERY);
    let of_link = |world: &World| {
        let is_of = |end: End| {
            end == End {
                node: switch(0),
                port: 1,
            } || end == End { node: host(0), port: 1 }
        };
        world.cables.iter().filter(|(_, reading)| is_of(reading.end)).count()
    };
    assert_eq!(of_link(&world), 2, "nothing is read while it is down");
    world.inventory = up;
    world.show_inventory();
    world.pass(Duration::from_secs(2));
    assert_eq!(of_link(&world), 4);
}

#[test]
fn without_an_interval_no_cable_is_read() {
    let mut world = world();
    world.restart(every_second(&[Group::Extended]));
    world.cables.clear();
    let before = asked(&world);
    world.pass(Duration::from_secs(30));
    assert_eq!((asked(&world), world.cables.len()), (before, 0));
}
