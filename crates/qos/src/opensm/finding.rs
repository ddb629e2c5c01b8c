//! What is wrong with the tables of a port, with a witness.

use std::collections::BTreeMap;

use selvedge_plan::ArbBlock;
use selvedge_types::{Sl, Vl};

use super::PortTables;

/// Something in a port's tables that stops or delays packets for ever.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableFinding {
    /// SLV-QOS-0050: no entry serves a lane that a service level is mapped to.
    #[error(
        "SLV-QOS-0050: SL {} goes to VL {}, which has no weight in either arbitration table: its packets are never \
         sent; give the VL a weight, or map the SL to 15 to drop it",
        sl.get(), vl.get()
    )]
    Unserved {
        /// The lowest service level of the lane.
        sl: Sl,
        /// The lane.
        vl: Vl,
    },
    /// SLV-QOS-0051: high priority is unbounded, so a lane may starve.
    #[error(
        "SLV-QOS-0051: with high_limit 255, SL {} on VL {} is sent only while VL {} of high priority has no packet; \
         lower high_limit",
        sl.get(), vl.get(), high.get()
    )]
    Starved {
        /// The lowest service level of the lane.
        sl: Sl,
        /// The lane, which is in the low-priority table only.
        vl: Vl,
        /// A lane of the high-priority table that a service level is mapped to.
        high: Vl,
    },
    /// SLV-QOS-0052: entries find no room.
    #[error(
        "SLV-QOS-0052: {entries} arbitration entries with a weight find no room in the port's tables; give fewer \
         entries"
    )]
    LeftOut {
        /// Number of entries.
        entries: usize,
    },
}

impl PortTables {
    /// Returns what is wrong with the tables. A port without a row, or with one data lane, has nothing wrong.
    #[must_use]
    pub fn findings(&self) -> Vec<TableFinding> {
        const UNBOUNDED: u8 = 255;
        let mut found = Vec::new();
        if self.left_out > 0 {
            found.push(TableFinding::LeftOut { entries: self.left_out });
        }
        let (Some(row), true) = (&self.row, self.blocks.iter().any(Option::is_some)) else {
            return found;
        };
        // The lowest service level of each lane in use.
        let mut used = BTreeMap::new();
        for (sl, vl) in row.iter().enumerate().rev().filter(|(_, vl)| **vl != Vl::MANAGEMENT) {
            used.insert(*vl, Sl::new(sl as u8).unwrap_or_default());
        }
        let has = |blocks: &[Option<ArbBlock>], lane: Vl| {
            let turns = blocks.iter().flatten().flat_map(|block| &block.turns);
            turns.into_iter().any(|(vl, weight)| *vl == lane && *weight > 0)
        };
        let (low, high) = self.blocks.split_at(2);
        let first_high = used.keys().copied().find(|vl| has(high, *vl));
        for (&vl, &sl) in &used {
            match (has(low, vl), has(high, vl), first_high) {
                (false, false, _) => found.push(TableFinding::Unserved { sl, vl }),
                (true, false, Some(high)) if self.high_limit == UNBOUNDED => {
                    found.push(TableFinding::Starved { sl, vl, high });
                }
                (_, _, _) => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use selvedge_plan::qos::{Settings, Target};

    use super::super::{PortFacts, PortTables, Template, set};

    #[test]
    fn findings_name_the_lane_that_waits_for_ever() {
        let check = |lines: &[(&str, &str)], oper_vls: u8, want: &[&str]| {
            let mut settings = Settings::default();
            (lines.iter()).for_each(|(key, value)| set(&mut settings, key, value).unwrap());
            let port = PortFacts {
                vl_cap: oper_vls,
                oper_vls,
                vl_arb_high: 8,
                vl_arb_low: 8,
                has_sl_mapping: true,
            };
            let tables = PortTables::new(&Template::new(&settings, Target::Ca), &port);
            let found: Vec<String> = tables.findings().iter().map(ToString::to_string).collect();
            assert_eq!(found.len(), want.len(), "{found:?}");
            assert!(
                found.iter().zip(want).all(|(found, want)| found.starts_with(want)),
                "{found:?}"
            );
        };
        // Defaults: eight lanes, and room for the entries of eight.
        check(&[], 4, &["SLV-QOS-0052: 7 arbitration entries"]);
        check(&[("qos_vlarb_low", "0:0,1:4,2:4,3:4")], 3, &[]);
        check(
            &[("qos_vlarb_low", "1:4,3:4")],
            3,
            &["SLV-QOS-0050: SL 2 goes to VL 2, which has no weight"],
        );
        let all_but_two = ("qos_sl2vl", "0,1,15,3,0,1,0,3,0,1,15,3,0,1,0,3");
        check(&[("qos_vlarb_low", "1:4,3:4"), all_but_two], 3, &[]);
        check(
            &[("qos_vlarb_low", "1:4,2:4,3:4"), ("qos_high_limit", "255"), all_but_two],
            3,
            &[
                "SLV-QOS-0051: with high_limit 255, SL 1 on VL 1 is sent only while VL 0",
                "SLV-QOS-0051: with high_limit 255, SL 3 on VL 3",
            ],
        );
        check(&[("qos_vlarb_low", "0:4"), ("qos_high_limit", "255")], 1, &[]);
    }
}
