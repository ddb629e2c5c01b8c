//! Benchmarks beside real peers, as ratios with spread.
fn main() {}
