//! Routes of every switch with their hops.

use std::fmt::Write as _;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Lids, NO_PATH, Tables};
use selvedge_types::{Lid, PortNum};

use super::hops::NO_WAY;
use super::{HopCounts, Sink, switches};

/// Writes `opensm.fdbs`: each switch's entry for each LID, its number of hops, and whether fewer hops are possible.
///
/// If fewer are possible, OpenSM names the port that it would use itself; here it is the lowest such port.
pub fn write_routes(fabric: &Fabric, lids: &Lids, tables: &Tables, hops: &HopCounts, sink: Sink<'_>) {
    let mut text = String::new();
    for switch in switches(fabric) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "dump_ucast_routes: Switch {}\nLID    : Port : Hops : Optimal",
            fabric.switch(switch).guid
        );
        for lid in 1..=tables.top().0 {
            let entry = tables.get(switch, Lid(lid));
            let _ = write!(text, "0x{lid:04X} : ");
            let _ = match lids.owner(Lid(lid)).filter(|_| entry != NO_PATH) {
                None => writeln!(text, "UNREACHABLE"),
                Some(owner) => route(&mut text, fabric, hops, (switch, entry), owner),
            };
        }
        sink(&text);
        text.clear();
    }
}

fn route(
    text: &mut String,
    fabric: &Fabric,
    hops: &HopCounts,
    (switch, entry): (SwitchIdx, u8),
    owner: PortRef,
) -> std::fmt::Result {
    let last = fabric.switch_index(owner.node);
    let beyond = u8::from(last.is_none());
    let last = last.or_else(|| fabric.switch_index(fabric.peer(owner)?.node));
    let taken = last.zip(PortNum::new(entry)).map(|(last, port)| match last == switch {
        true if beyond == 1 => 0,
        _ => hops.by(switch, port, last),
    });
    let Some((last, taken)) = last.zip(taken).filter(|&(_, taken)| taken != NO_WAY) else {
        return writeln!(text, "{entry:03}  : HOPS UNKNOWN");
    };
    let best = hops.least(switch, last);
    write!(text, "{entry:03}  : {:02}   : ", taken + beyond)?;
    if taken == best {
        return writeln!(text, "yes");
    }
    let ports = fabric.switch(switch).external_ports().map(|(port, _)| port);
    let better = ports.into_iter().find(|&port| hops.by(switch, port, last) == best);
    writeln!(
        text,
        "No {} hop path possible via port {}!",
        best + beyond,
        better.map_or(NO_PATH, PortNum::get)
    )
}
