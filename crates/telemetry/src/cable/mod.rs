//! Cables: the quality of each link by what both of its ends counted, and the worst first.

mod ber;
mod book;
mod rank;

pub use ber::BerEstimate;
pub use book::CableBook;
pub use rank::{CableEnd, CableRank, LostLink, RankBy, rank};
