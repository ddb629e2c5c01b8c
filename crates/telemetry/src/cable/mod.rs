//! Cables: the quality of each link by what both of its ends counted, and the worst first.

mod ber;
mod book;
mod info;
mod rank;

pub use ber::BerEstimate;
pub use book::CableBook;
pub use info::{CableReading, rx_power_dbm, supply_voltage_v, temperature_c, tx_power_dbm};
pub use rank::{CableEnd, CableRank, LostLink, RankBy, rank};
