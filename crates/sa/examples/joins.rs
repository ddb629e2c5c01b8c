//! Every host of a fabric joins a number of groups. Trees are planned and judged again after a number of joins.
//!
//! `cargo run -p selvedge-sa --example joins -- karytree:k=18,n=3 100 10000`: fabric, groups, joins before trees are
//! planned again.

#[path = "../tests/it/support/mod.rs"]
mod support;

mod load;

use load::Joins;

#[allow(clippy::unwrap_used, reason = "an example: wrong arguments may stop it")]
fn main() {
    let mut arguments = std::env::args().skip(1);
    let spec = arguments.next().unwrap_or_else(|| "pgft:m=2x4,w=1x2,p=1x1".to_owned());
    let groups: u32 = arguments.next().map_or(3, |text| text.parse().unwrap());
    let batch: usize = arguments.next().map_or(5, |text| text.parse().unwrap());
    println!("{}", Joins::of(&spec, groups, batch));
}
