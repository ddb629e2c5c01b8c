//! `selvedge telemetry cables`: the cables with the most trouble.

use clap::{Args, ValueEnum};
use selvedge_api::{BitErrorRate, Cable, CableInfo, CableQuery, CableReadings, Cables};

use crate::ask::SocketArgs;
use crate::exit::{CliError, Exit};
use crate::out::{Cell, Format, Grid, Out, count};

/// The order of cables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Order {
    /// Losses of the link, then recoveries, then bit errors
    #[default]
    Worst,
    /// Losses of the link
    Downs,
    /// Recoveries of the link
    Recoveries,
    /// Symbol errors
    SymbolErrors,
    /// Bit error rate, by the bound that it is not below with 95 % confidence
    Ber,
}

impl Order {
    const fn name(self) -> &'static str {
        match self {
            Self::Worst => "worst",
            Self::Downs => "downs",
            Self::Recoveries => "recoveries",
            Self::SymbolErrors => "symbol-errors",
            Self::Ber => "ber",
        }
    }
}

/// Show the cables that lost their link or had errors within the last hour, the worst first
#[derive(Args, Debug)]
pub struct CablesArgs {
    /// What cables are ordered by
    #[arg(value_name = "WHAT", value_enum, default_value_t = Order::Worst)]
    by: Order,
    /// How many cables are shown
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: u64,
    /// Show cables without errors, too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    pub(super) format: Format,
}

/// Runs the command.
pub fn run(args: &CablesArgs) -> Result<Exit, CliError> {
    let query = CableQuery {
        by: Some(args.by.name().to_owned()),
        limit: Some(args.top),
        all: args.all,
    };
    let cables: Cables = args.socket.client().select("telemetry/cables", &query.parameters())?;
    let mut out = Out::new(args.format);
    match args.format {
        Format { json: true, .. } => out.document(cables)?,
        Format { csv: true, .. } => out.grid(&table(&cables.cables, true))?,
        _ => {
            out.line(format!(
                "{} of {} had errors or lost their link within the last hour",
                cables.found,
                count(cables.cables_total, "cable")
            ))?;
            if !cables.cables.is_empty() {
                out.grid(&table(&cables.cables, false))?;
            }
        }
    }
    out.flush()?;
    Ok(Exit::Good)
}

/// Returns cables as a table. For programs, it has the time over which their ends were read.
fn table(cables: &[Cable], is_plain: bool) -> Grid {
    let mut keys = KNOWN.to_vec();
    // Hardware of today does not count them.
    let is_corrected = is_plain || cables.iter().any(|cable| cable.raw_ber.is_some());
    if is_corrected {
        keys.extend(["raw_ber", "effective_ber"]);
    }
    let is_read = is_plain || cables.iter().any(|cable| cable.info.is_some());
    if is_read {
        keys.extend(READ);
    }
    if is_plain {
        keys.push("over_s");
    }
    let mut grid = Grid::new(&keys);
    for cable in cables {
        let shown = |ber: Option<f64>| ber.map_or(Cell::None, |ber| format!("{ber:.1e}").into());
        let ber = |of: fn(&BitErrorRate) -> f64| shown(cable.ber.as_ref().map(of));
        let mut row = vec![
            (&cable.a.node_name).into(),
            Cell::id(cable.a.port),
            (&cable.b.node_name).into(),
            Cell::id(cable.b.port),
            cable.rate.clone().into(),
            if cable.is_down { "down" } else { "up" }.into(),
            cable.downs.into(),
            cable.recoveries.into(),
            cable.symbol_errors.into(),
            cable.rcv_errors.into(),
            ber(|ber| ber.estimate),
            ber(|ber| ber.low),
            ber(|ber| ber.high),
        ];
        if is_corrected {
            row.push(shown(cable.raw_ber.map(|ber| ber.estimate)));
            row.push(shown(cable.effective_ber.map(|ber| ber.estimate)));
        }
        if is_read {
            row.extend(read(cable));
        }
        if is_plain {
            row.push(cable.over_s.into());
        }
        grid.row_of(row);
    }
    grid.lose_first(&[
        "rate",
        "ber_low",
        "ber_high",
        "rcv_errors",
        "raw_ber",
        "vendor",
        "tx_power_dbm",
        "length_m",
        "part_number",
    ])
}

/// What is known of each cable.
const KNOWN: [&str; 13] = [
    "node",
    "port",
    "peer",
    "peer_port",
    "rate",
    "link",
    "downs",
    "recoveries",
    "symbol_errors",
    "rcv_errors",
    "ber",
    "ber_low",
    "ber_high",
];

/// What is read from a cable.
const READ: [&str; 7] = [
    "vendor",
    "part_number",
    "serial_number",
    "length_m",
    "temperature_c",
    "rx_power_dbm",
    "tx_power_dbm",
];

/// Returns the cells of what is read from a cable: the temperature of the warmer end, and the power of the darkest
/// lane.
fn read(cable: &Cable) -> [Cell; READ.len()] {
    let text = |of: fn(&CableInfo) -> &String| cable.info.as_ref().map_or(Cell::None, |info| of(info).into());
    let number = |value: Option<f64>| value.map_or(Cell::None, |value| value.to_string().into());
    let ends = || [&cable.at_a, &cable.at_b].into_iter().flatten();
    let darkest = |of: fn(&CableReadings) -> &Vec<f64>| number(ends().flat_map(of).copied().reduce(f64::min));
    [
        text(|info| &info.vendor),
        text(|info| &info.part_number),
        text(|info| &info.serial_number),
        number(cable.info.as_ref().map(|info| info.length_m)),
        number(ends().filter_map(|end| end.temperature_c).reduce(f64::max)),
        darkest(|end| &end.rx_power_dbm),
        darkest(|end| &end.tx_power_dbm),
    ]
}

#[cfg(test)]
mod tests {
    use selvedge_api::End;
    use selvedge_types::Guid;

    use super::*;

    /// A cable that was read at both ends.
    fn cable() -> Cable {
        let end = |guid: u64, name: &str, port| End {
            node_guid: Guid(guid),
            node_name: name.to_owned(),
            port,
        };
        Cable {
            a: end(1, "leaf 1", 7),
            b: end(2, "spine 2", 9),
            rate: Some("4xHDR".to_owned()),
            is_down: true,
            over_s: 1_800,
            downs: 2,
            recoveries: 3,
            symbol_errors: 40,
            rcv_errors: 5,
            ber: Some(BitErrorRate {
                estimate: 2.04e-11,
                low: 9.6e-12,
                high: 3.7e-11,
            }),
            raw_ber: Some(BitErrorRate {
                estimate: 1e-7,
                low: 1e-7,
                high: 1e-7,
            }),
            effective_ber: Some(BitErrorRate {
                estimate: 0.0,
                low: 0.0,
                high: 1e-14,
            }),
            info: Some(CableInfo {
                kind: "active-optical".to_owned(),
                length_m: 12.5,
                vendor: "V".to_owned(),
                part_number: "P-1".to_owned(),
                serial_number: "S1".to_owned(),
                revision: "A".to_owned(),
            }),
            at_a: Some(CableReadings {
                temperature_c: Some(41.0),
                supply_voltage_v: None,
                rx_power_dbm: vec![0.5, -9.25],
                tx_power_dbm: vec![1.0; 2],
            }),
            at_b: Some(CableReadings {
                temperature_c: Some(43.5),
                ..CableReadings::default()
            }),
        }
    }

    #[test]
    fn cables_are_a_table() {
        let cable = cable();
        let bare = Cable {
            ber: None,
            rate: None,
            is_down: false,
            raw_ber: None,
            effective_ber: None,
            info: None,
            at_a: None,
            at_b: None,
            ..cable.clone()
        };
        let without = table(std::slice::from_ref(&bare), false).csv();
        assert!(!without.contains("raw_ber") && !without.contains("serial"), "{without}");
        let csv = table(&[cable, bare], true).csv();
        let rows: Vec<&str> = csv.lines().collect();
        let want = [
            "leaf 1,7,spine 2,9,4xHDR,down,2,3,40,5,2.0e-11,9.6e-12,3.7e-11,1.0e-7,0.0e0,V,P-1,S1,12.5,43.5,-9.25,1,\
             1800",
            "leaf 1,7,spine 2,9,,up,2,3,40,5,,,,,,,,,,,,,1800",
        ];
        assert_eq!(rows[1..], want);
        assert_eq!(rows[0].split(',').count(), want[0].split(',').count());
    }
}
