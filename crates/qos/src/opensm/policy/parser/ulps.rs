//! Section qos-ulps.

use super::link::{Unlinked, UnlinkedRule};
use super::{Kind, Parser, PolicyError};
use crate::opensm::policy::{LevelRef, MatchRule};

const ULPS: &[&str] = &[
    "default:",
    "sdp:",
    "sdp, port-num",
    "rds:",
    "rds, port-num",
    "iser:",
    "iser, port-num",
    "srp, target-port-guid",
    "ipoib:",
    "ipoib, pkey",
    "any, service-id",
    "any, pkey",
    "any, target-port-guid",
    "any, source-port-guid",
    "any, source-target-port-guid",
    "end-qos-ulps",
];

/// Service IDs of SDP: this and the TCP port. Source: `QoS_management_in_OpenSM.txt` §6.2.
const SDP: u64 = 0x1_0000;
/// Service IDs of RDS and iSER (RDMA CM, TCP): this and the port. Source: the same, §6.3 and §6.4.
const RDMA_TCP: u64 = 0x106_0000;
/// Port of RDS. Source: the same, §6.3.
const RDS_PORT: u64 = 0x48CA;
/// Port of iSER. Source: the same, §6.4.
const ISER_PORT: u64 = 0x0CBC;
const PORT: &str = "a TCP port from 0 to 65535";

/// Returns the service IDs that a ULP has by default, the first and the last one; `None` for ULPs that are not
/// recognised by service ID.
pub fn ulp_service_ids(ulp: &str) -> Option<(u64, u64)> {
    match ulp {
        "sdp" => Some((SDP, SDP + 0xFFFF)),
        "rds" => Some((RDMA_TCP + RDS_PORT, RDMA_TCP + RDS_PORT)),
        "iser" => Some((RDMA_TCP + ISER_PORT, RDMA_TCP + ISER_PORT)),
        _ => None,
    }
}

impl Parser<'_> {
    /// Reads section qos-ulps, which OpenSM accepts with one line at least.
    pub(super) fn ulps(&mut self, found: &mut Unlinked) -> Result<(), PolicyError> {
        if self.kind() == Kind::Section("end-qos-ulps") {
            return Err(self.unexpected(&ULPS[..ULPS.len() - 1]));
        }
        loop {
            let (ulp, criterion) = match self.take() {
                Kind::Ulp(ulp, criterion) => (ulp, criterion),
                Kind::Section("end-qos-ulps") => return Ok(()),
                // 'pkey:' and its like have a meaning elsewhere.
                _ => return Err(self.wrong(ULPS)),
            };
            if ulp == "default" {
                found.default = Some(self.sl()?);
                continue;
            }
            let mut rule = MatchRule {
                line: self.line(),
                description: match criterion {
                    "" => ulp.to_owned(),
                    criterion => format!("{ulp}, {criterion}"),
                },
                ..MatchRule::default()
            };
            self.criterion(ulp, criterion, &mut rule)?;
            if !criterion.is_empty() && !self.takes(Kind::Colon) {
                return Err(self.unexpected(&["':' and an SL"]));
            }
            rule.level = LevelRef::Sl(self.sl()?);
            let rule = UnlinkedRule {
                rule,
                ..UnlinkedRule::default()
            };
            found.ulps.push(rule);
        }
    }

    fn criterion(&mut self, ulp: &str, criterion: &str, rule: &mut MatchRule) -> Result<(), PolicyError> {
        match (ulp, criterion) {
            ("sdp" | "rds" | "iser", "") => {
                if let Some((first, last)) = ulp_service_ids(ulp) {
                    rule.service_ids.add(first, last);
                }
            }
            ("ipoib", "") => {
                rule.pkeys.add(0x7FFF, 0x7FFF);
                rule.is_ipoib = true;
            }
            (_, "port-num") => {
                let base = if ulp == "sdp" { SDP } else { RDMA_TCP };
                let ports = self.pairs(0xFFFF, PORT)?;
                ports
                    .into_iter()
                    .for_each(|(a, b)| rule.service_ids.add(base + a, base + b));
            }
            (_, "service-id") => self.ranges(&mut rule.service_ids)?,
            (_, "pkey") => {
                self.pkeys(&mut rule.pkeys)?;
                rule.is_ipoib = ulp == "ipoib";
            }
            (_, "target-port-guid") => self.ranges(&mut rule.destination_guids)?,
            (_, "source-port-guid") => self.ranges(&mut rule.source_guids)?,
            // OpenSM's page says "source or target". OpenSM matches if both are in the list.
            (_, _) => {
                self.ranges(&mut rule.source_guids)?;
                rule.destination_guids = rule.source_guids.clone();
            }
        }
        Ok(())
    }
}
