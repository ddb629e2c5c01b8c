//! Tables of a simulation, for files: the use of its links, and its load over time.

use selvedge_dataplane::{LinkUse, Series};

use crate::out::{Cell, Grid};

/// Returns a table of the traffic on each link.
pub fn links_grid(links: &[LinkUse]) -> Grid {
    let mut grid = Grid::new(&[
        "port",
        "utilisation",
        "wait",
        "lanes",
        "xmit_data",
        "xmit_packets",
        "rcv_data",
        "rcv_packets",
        "xmit_wait_ns",
        "xmit_discards",
        "rcv_switch_relay_errors",
        "link_downed",
    ]);
    let share = |value: f64| Cell::Real((value * 1e6).round() / 1e6, 6);
    for link in links {
        let lanes: Vec<String> = link.lanes.iter().map(|share| format!("{share:.6}")).collect();
        let of = &link.counters;
        grid.row([
            (&link.port).into(),
            share(link.utilisation),
            share(link.wait),
            lanes.join(" ").into(),
            of.xmit_data.into(),
            of.xmit_packets.into(),
            of.rcv_data.into(),
            of.rcv_packets.into(),
            of.xmit_wait_ns.into(),
            of.xmit_discards.into(),
            of.rcv_switch_relay_errors.into(),
            of.link_downed.into(),
        ]);
    }
    grid
}

/// Returns a table of load over time.
pub fn series_grid(series: &Series) -> Grid {
    let mut grid = Grid::new(&["from_ns", "offered_load", "accepted_load", "dropped"]);
    let values = series
        .offered_load
        .iter()
        .zip(&series.accepted_load)
        .zip(&series.dropped);
    for (step, ((offered, accepted), dropped)) in (0..).zip(values) {
        grid.row([
            (step * series.step_ns).into(),
            Cell::Real(*offered, 6),
            Cell::Real(*accepted, 6),
            (*dropped).into(),
        ]);
    }
    grid
}
