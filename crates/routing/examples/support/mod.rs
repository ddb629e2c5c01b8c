//! What examples about `weave` share: their fabrics, and the time that counts.
#![allow(dead_code, reason = "none uses all of it")]

use selvedge_fabric::Fabric;
use selvedge_topology::Spec;

/// A generated fabric, or one for each seed; ends with a message if `spec` names none.
pub fn fabrics(spec: &str, seeds: &[u64]) -> Vec<(String, Fabric)> {
    let of_seed = seeds.iter().map(|seed| format!("{spec},seed={seed}"));
    let all: Vec<String> = if seeds.is_empty() {
        vec![spec.to_owned()]
    } else {
        of_seed.collect()
    };
    let fabric = |spec: String| {
        let made = match spec.parse::<Spec>() {
            Ok(Spec::Generated(recipe)) => recipe.fabric().map_err(|error| error.to_string()),
            Ok(Spec::File(_)) => Err("only generated fabrics here".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let made = made.map_err(|why| eprintln!("{spec}: {why}")).ok()?;
        Some((spec, made))
    };
    all.into_iter().filter_map(fabric).collect()
}

/// `21-30`, or one number.
pub fn range(text: &str) -> Vec<u64> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    match (from.parse::<u64>(), to.parse::<u64>()) {
        (Ok(from), Ok(to)) => (from..=to).collect(),
        _ => Vec::new(),
    }
}

/// Returns the processor time of this thread in ms, which other processes on a busy machine do not change.
pub fn cpu_ms() -> f64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = schedstat
        .split_whitespace()
        .next()
        .and_then(|ns| ns.parse::<f64>().ok());
    ns.unwrap_or(0.0) / 1e6
}
