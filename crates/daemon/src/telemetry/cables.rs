//! Cables as the API shows them.

use std::collections::BTreeMap;

use selvedge_api as api;
use selvedge_api::{CableQuery, Error};
use selvedge_telemetry::cable::{
    BerEstimate, CableRank, RankBy, rank, rx_power_dbm, supply_voltage_v, temperature_c, tx_power_dbm,
};
use selvedge_telemetry::{End, Inventory};
use selvedge_wire::{CableInfo, CableKind};

use super::alarms::end;
use crate::shared::Shared;

/// Cables that are listed unless another number is asked for.
const CABLES: usize = 1_000;

/// Returns the cables that a query asks for, the worst first.
pub(crate) fn shown(shared: &Shared, query: &CableQuery) -> Result<api::Cables, Error> {
    let inventory = shared.telemetry.sampled()?.inventory;
    let (lost, counted, info) = {
        let meaning = shared.telemetry.meaning.lock();
        (
            meaning.cables.lost(shared.clock.now()),
            meaning.cables.counted(&inventory),
            meaning.cables.info().clone(),
        )
    };
    let by = match query.by.as_deref() {
        Some("downs") => RankBy::Downs,
        Some("recoveries") => RankBy::Recoveries,
        Some("symbol-errors") => RankBy::SymbolErrors,
        Some("ber") => RankBy::Ber,
        _ => RankBy::Worst,
    };
    let ranked = rank(&inventory, &lost, &counted, by);
    let total = ranked.len() as u64;
    let found = ranked.iter().filter(|cable| !cable.is_clean()).count() as u64;
    let limit = query
        .limit
        .map_or(CABLES, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let listed = ranked.iter().filter(|cable| query.all || !cable.is_clean()).take(limit);
    Ok(api::Cables {
        cables_total: total,
        found,
        cables: listed.map(|cable| shown_cable(cable, &inventory, &info)).collect(),
    })
}

fn shown_cable(cable: &CableRank, inventory: &Inventory, info: &BTreeMap<End, CableInfo>) -> api::Cable {
    let known = |end: End| info.get(&end).filter(|info| info.kind != CableKind::None);
    let (at_a, at_b) = (known(cable.a), known(cable.b));
    let ber = |ber: BerEstimate| api::BitErrorRate {
        estimate: ber.rate,
        low: ber.low,
        high: ber.high,
    };
    api::Cable {
        a: end(cable.a, inventory),
        b: end(cable.b, inventory),
        rate: cable.rate.map(|rate| rate.to_string()),
        is_down: cable.is_down,
        over_s: cable.at_a.over.min(cable.at_b.over).as_secs(),
        downs: cable.downs(),
        recoveries: cable.recoveries(),
        symbol_errors: cable.symbol_errors(),
        rcv_errors: cable.rcv_errors(),
        ber: cable.ber().map(ber),
        raw_ber: cable.raw_ber().map(ber),
        effective_ber: cable.effective_ber().map(ber),
        info: at_a.or(at_b).map(shown_info),
        at_a: at_a.map(shown_readings),
        at_b: at_b.map(shown_readings),
    }
}

fn shown_info(info: &CableInfo) -> api::CableInfo {
    api::CableInfo {
        kind: info.kind.to_string(),
        length_m: f64::from(info.length_dm) / 10.0,
        vendor: CableInfo::text(&info.vendor),
        part_number: CableInfo::text(&info.part_number),
        serial_number: CableInfo::text(&info.serial_number),
        revision: CableInfo::text(&info.revision),
    }
}

fn shown_readings(info: &CableInfo) -> api::CableReadings {
    api::CableReadings {
        temperature_c: temperature_c(info),
        supply_voltage_v: supply_voltage_v(info),
        rx_power_dbm: rx_power_dbm(info),
        tx_power_dbm: tx_power_dbm(info),
    }
}
