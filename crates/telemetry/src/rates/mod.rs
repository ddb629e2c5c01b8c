//! Rates of a port between two samples: bytes and packets per second, utilisation of the link, share of time in which
//! the port waited to send.

mod book;
mod growth;
mod port;
mod tick;

pub use book::{ClassUse, Moved, RateBook};
pub use growth::Growth;
pub use port::{Capacity, PortRates, vl_wait_shares};
pub use selvedge_fabric::WaitTick;
