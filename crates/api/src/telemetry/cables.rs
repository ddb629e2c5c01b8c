//! Cables, the worst first.

use serde::{Deserialize, Serialize};

use crate::query::{parse, read, written};
use crate::{Body, End, Error};

/// The cables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cables {
    /// Cables of the fabric.
    pub cables_total: u64,
    /// Cables with anything counted at either end, and those with a link that is down.
    pub found: u64,
    /// The cables that were asked for.
    pub cables: Vec<Cable>,
}

impl Body for Cables {
    const SCHEMA: &'static str = "selvedge.telemetry_cables";
}

/// A cable, with what its ends counted within the last half to full hour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cable {
    /// One end.
    pub a: End,
    /// The other end.
    pub b: End,
    /// Width and speed, as `4xHDR`; of a link that is down, those that it had.
    pub rate: Option<String>,
    /// True if the link was lost within the last hour and is down.
    #[serde(default)]
    pub is_down: bool,
    /// The time over which both ends were read; the shorter of the two.
    pub over_s: u64,
    /// LinkDownedCounter: how often the link was lost. Both ends count the same loss.
    pub downs: u64,
    /// LinkErrorRecoveryCounter. Both ends count the same recovery.
    pub recoveries: u64,
    /// SymbolErrorCounter of both ends.
    pub symbol_errors: u64,
    /// PortRcvErrors of both ends.
    pub rcv_errors: u64,
    /// The bit error rate of the worse direction by its symbol errors; none: not known yet.
    pub ber: Option<BitErrorRate>,
    /// The rate of the worse direction before error correction; none: its agent does not count it.
    #[serde(default)]
    pub raw_ber: Option<BitErrorRate>,
    /// The rate of the worse direction after error correction; none: its agent does not count it.
    #[serde(default)]
    pub effective_ber: Option<BitErrorRate>,
    /// The cable itself; none: no agent at its ends reads it.
    #[serde(default)]
    pub info: Option<CableInfo>,
    /// What the one end reads from the cable.
    #[serde(default)]
    pub at_a: Option<CableReadings>,
    /// What the other end reads from the cable.
    #[serde(default)]
    pub at_b: Option<CableReadings>,
}

/// A cable by CableInfo; the same at both ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CableInfo {
    /// Technology: `passive-copper`, `active-copper`, `active-optical` or `transceiver`; others are a number.
    pub kind: String,
    /// Length in metres.
    pub length_m: f64,
    /// Vendor's name.
    pub vendor: String,
    /// Part number.
    pub part_number: String,
    /// Serial number.
    pub serial_number: String,
    /// Revision.
    pub revision: String,
}

/// What a port reads from its end of a cable, by CableInfo.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CableReadings {
    /// Temperature in °C; none: the cable has no sensor.
    pub temperature_c: Option<f64>,
    /// Supply voltage in V; none: the cable needs none.
    pub supply_voltage_v: Option<f64>,
    /// Received power of each lane in dBm, -40 without light; empty of copper.
    pub rx_power_dbm: Vec<f64>,
    /// Sent power of each lane in dBm; empty of copper.
    pub tx_power_dbm: Vec<f64>,
}

/// A bit error rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BitErrorRate {
    /// The estimate; 0 without errors.
    pub estimate: f64,
    /// The true rate is at least this, with 95 % confidence.
    pub low: f64,
    /// The true rate is at most this, with 95 % confidence.
    pub high: f64,
}

/// Orders of cables.
const ORDERS: [&str; 5] = ["worst", "downs", "recoveries", "symbol-errors", "ber"];

/// Which cables are wanted: the query of `GET /api/v1/telemetry/cables`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CableQuery {
    /// The order: `worst` (losses of the link, then recoveries, then bit errors), `downs`, `recoveries`,
    /// `symbol-errors` or `ber`; none: `worst`.
    pub by: Option<String>,
    /// How many are listed at most.
    pub limit: Option<u64>,
    /// True: those without errors too.
    pub all: bool,
}

impl CableQuery {
    /// Reads the parameters of a query. An unknown name is refused.
    pub fn of(parameters: &[(String, String)]) -> Result<Self, Error> {
        read(parameters, Self::take)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "by" if ORDERS.contains(&value) => self.by = Some(value.to_owned()),
            "by" => return Err(format!("by={value}: want {}", ORDERS.join(", "))),
            "limit" => self.limit = Some(parse(name, value, "a number of cables")?),
            "all" => self.all = parse(name, value, "true or false")?,
            other => {
                return Err(format!(
                    "cables have no parameter '{other}': there are by, limit and all"
                ));
            }
        }
        Ok(())
    }

    /// Returns the query as parameters.
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, String)> {
        written([
            ("by", self.by.clone()),
            ("limit", self.limit.map(|limit| limit.to_string())),
            ("all", self.all.then(|| "true".to_owned())),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cables_are_selected() {
        let query = CableQuery {
            by: Some("ber".to_owned()),
            limit: Some(9),
            all: true,
        };
        assert_eq!(CableQuery::of(&query.parameters()), Ok(query));
        let error = CableQuery::of(&[("by".to_owned(), "bits".to_owned())]).unwrap_err();
        assert!(error.message.contains("want worst, downs"), "{error}");
    }
}
