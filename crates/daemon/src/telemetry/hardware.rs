//! Checks with each plan in force that nodes and ports are of the brand and type that the operator expects.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use selvedge_api::Severity;
use selvedge_fabric::Fabric;
use selvedge_telemetry::Inventory;
use selvedge_telemetry::exposition::brand::{Brand, BrandError};
use selvedge_types::Guid;

use super::others;
use crate::shared::Shared;

/// Differences that are named in events of one plan; the others are counted.
const NAMED: usize = 4;

/// What nodes are.
#[derive(Debug, Default)]
pub(super) struct Hardware(Mutex<Found>);

#[derive(Clone, Debug, Default)]
struct Found {
    brands: BTreeMap<Guid, Brand>,
    /// What is not as expected.
    differences: Vec<BrandError>,
}

impl Hardware {
    /// Returns brand and type of each node.
    pub(super) fn brands(&self) -> BTreeMap<Guid, Brand> {
        self.lock().brands.clone()
    }

    /// Returns what is not as expected, in words.
    pub(super) fn differences(&self) -> Vec<String> {
        self.lock().differences.iter().map(ToString::to_string).collect()
    }

    /// Stores what nodes are now. Returns the differences that are new.
    fn take(&self, brands: BTreeMap<Guid, Brand>, differences: Vec<BrandError>) -> Vec<BrandError> {
        let mut found = self.lock();
        let before = std::mem::replace(&mut found.differences, differences);
        found.brands = brands;
        let new = found
            .differences
            .iter()
            .filter(|difference| !before.contains(difference));
        new.cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Found> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compares the fabric of a plan with the expected types, and reports what is new.
pub(super) fn compare(shared: &Shared, fabric: &Fabric, inventory: &Inventory) {
    let brand = |node: &selvedge_fabric::Node| Brand {
        vendor: node.vendor_id,
        device: node.device_id,
    };
    // A fabric from a file has no vendors.
    let known = fabric
        .nodes()
        .iter()
        .filter(|node| node.vendor_id != 0 || node.device_id != 0);
    let brands: BTreeMap<Guid, Brand> = known.map(|node| (node.guid, brand(node))).collect();
    let telemetry = &shared.telemetry;
    let differences = telemetry.chosen().expected.differences(inventory, &brands);
    let new = telemetry.hardware.take(brands, differences);
    let now = shared.clock.now();
    for difference in new.iter().take(NAMED) {
        shared.event(now, Severity::Warning, difference.code(), &words(difference));
    }
    let more = new.get(NAMED).zip(others(new.len(), NAMED, "status' lists them"));
    if let Some((first, text)) = more {
        shared.event(now, Severity::Warning, first.code(), &text);
    }
}

/// Returns the text without its code, which stands in front of each event.
fn words(difference: &BrandError) -> String {
    let text = difference.to_string();
    let words = text.strip_prefix(difference.code()).unwrap_or(&text);
    words.trim_start_matches([':', ' ']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_new_once() {
        let difference = |node| BrandError::NoPort {
            node: Guid(node),
            port: 1,
            expected: Brand {
                vendor: 0x2C9,
                device: 0x101B,
            },
        };
        let hardware = Hardware::default();
        let take = |of: &[BrandError]| hardware.take(BTreeMap::new(), of.to_vec());
        assert_eq!(take(&[difference(1)]), [difference(1)]);
        assert_eq!(take(&[difference(1), difference(2)]), [difference(2)]);
        assert_eq!(hardware.differences().len(), 2);
        assert_eq!(take(&[]), []);
        assert_eq!(take(&[difference(1)]), [difference(1)], "it has come back");
        assert!(words(&difference(1)).starts_with("port 1 of node 0x"));
    }
}
