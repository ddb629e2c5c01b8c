//! Queries paths between random ports of a fabric a number of times, and prints the results.
//!
//! `cargo run -p selvedge-sa --example questions -- karytree:k=18,n=3 1000000`

#[path = "../tests/it/support/mod.rs"]
mod support;

mod load;

use load::Questions;

#[allow(clippy::unwrap_used, reason = "an example: wrong arguments may stop it")]
fn main() {
    let mut arguments = std::env::args().skip(1);
    let spec = arguments.next().unwrap_or_else(|| "pgft:m=2x4,w=1x2,p=1x1".to_owned());
    let questions: u64 = arguments.next().map_or(10, |text| text.parse().unwrap());
    println!("{}", Questions::ask(&mut Questions::bench(&spec), questions));
}
