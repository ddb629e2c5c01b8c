//! The dump files that OpenSM writes after a sweep in addition to its forwarding tables, with the same names and text.
//!
//! Source: OpenSM 3.3.23, `osm_dump.c`; the formats are compared with its own files in `conformance`. Text goes to a
//! sink piece by piece, because the hop counts of a thousand switches are 100 MB.

mod copies;
mod hops;
mod routes;
mod subnet;

use selvedge_fabric::{Fabric, SwitchIdx};

pub use copies::write_copies;
pub use hops::{HopCounts, write_hops};
pub use routes::write_routes;
pub use subnet::write_subnet;

/// Forwarding tables; written by [`super::write_lfts`].
pub const LFTS_FILE: &str = "opensm-lfts.dump";
/// Hop counts; written by [`write_hops`].
pub const HOPS_FILE: &str = "opensm-lid-matrix.dump";
/// Routes with hops; written by [`write_routes`].
pub const ROUTES_FILE: &str = "opensm.fdbs";
/// Multicast tables; written by [`write_copies`].
pub const COPIES_FILE: &str = "opensm.mcfdbs";
/// Lanes; written by [`super::write_sl_to_vl`].
pub const LANES_FILE: &str = "opensm-sl2vl.dump";
/// Links; written by [`write_subnet`].
pub const SUBNET_FILE: &str = "opensm-subnet.lst";

/// A function that takes a piece of text.
pub type Sink<'a> = &'a mut dyn FnMut(&str);

/// Returns the switches in OpenSM's order.
fn switches(fabric: &Fabric) -> Vec<SwitchIdx> {
    let mut order: Vec<SwitchIdx> = fabric.switches().indices().collect();
    order.sort_by_key(|&switch| fabric.switch(switch).guid.opensm_order());
    order
}
