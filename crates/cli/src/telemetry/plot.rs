//! `selvedge telemetry plot`: a counter of a port over time.

mod bars;
mod chart;

use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use selvedge_api::{SeriesQuery, TelemetryPoint, TelemetrySeries, TimeRange};
use selvedge_daemon::utc_text;

use super::bytes_per_s;
use crate::ask::SocketArgs;
use crate::exit::{CliError, Exit};
use crate::load;
use crate::out::{Cell, Format, Grid, Out};
use crate::times::{When, when};

/// Points of a picture: more would be narrower than a pixel.
const PICTURE_POINTS: u64 = 1_000;

/// Draw a counter of a port over time, from the store of counters
#[derive(Args, Debug)]
pub struct PlotArgs {
    /// Name or GUID of the node
    #[arg(value_name = "NODE")]
    node: String,
    /// Number of the port
    #[arg(value_name = "PORT", value_parser = clap::value_parser!(u8).range(1..=254))]
    port: u8,
    /// The counter: xmit, rcv, wait, or a name, as PortXmitDiscards
    #[arg(value_name = "COUNTER", default_value = "xmit")]
    counter: String,
    /// Begin of the chart: 90s, 10m, 2h or 3d ago, or a UTC date, as 2026-03-30T12:34
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = when)]
    since: When,
    /// End of the chart (default: now)
    #[arg(long, value_name = "TIME", value_parser = when)]
    until: Option<When>,
    /// Write a picture to FILE
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    pub(super) format: Format,
}

/// Runs the command.
pub fn run(args: &PlotArgs) -> Result<Exit, CliError> {
    if let Some(path) = &args.svg {
        load::writable(path)?;
    }
    let mut out = Out::new(args.format);
    let columns = bars::columns(out.width());
    let now = SystemTime::now();
    let points = match (args.format.is_text(), &args.svg) {
        (true, None) => Some(columns as u64),
        (true, Some(_)) => Some(PICTURE_POINTS),
        // Programs get every slot that is stored.
        (false, _) => None,
    };
    let query = SeriesQuery {
        node: args.node.clone(),
        port: args.port,
        counter: Some(args.counter.clone()),
        range: TimeRange {
            from_ms: Some(args.since.unix_ms(now)),
            to_ms: args.until.map(|until| until.unix_ms(now)),
        },
        step_ms: None,
        points,
    };
    let client = args.socket.client();
    let series: TelemetrySeries = client.select("telemetry/history/series", &query.parameters())?;
    if let Some(path) = &args.svg {
        load::write(path, &chart::svg(&series)?)?;
    }
    let exit = match series.points.len() {
        // One point has no rate.
        0 | 1 => Exit::NotGood,
        _ => Exit::Good,
    };
    match args.format {
        Format { json: true, .. } => out.document(series)?,
        Format { csv: true, .. } => out.grid(&table(&series))?,
        _ => text(&mut out, &series, columns)?,
    }
    out.flush()?;
    Ok(exit)
}

fn text(out: &mut Out, series: &TelemetrySeries, columns: usize) -> Result<(), CliError> {
    let title = out.bold(&title(series));
    out.line(format!("{title} {}", Scale::of(series).what()))?;
    match Summary::of(series) {
        None => out.line("fewer than two slots are stored of this time")?,
        Some(summary) => {
            for line in bars::lines(series, columns) {
                let line = line.coloured(|text| out.good(text), |text| out.bad(text));
                out.line(line)?;
            }
            out.line(summary.text(series))?;
        }
    }
    for file in &series.unread {
        out.line(out.bad(&format!("not read: {file}")))?;
    }
    Ok(())
}

fn title(series: &TelemetrySeries) -> String {
    let name = match series.node_name.as_str() {
        "" => series.node_guid.to_string(),
        name => name.to_owned(),
    };
    format!("\"{name}\"[{}] {}", series.port, series.counter)
}

/// Returns a row for each point.
fn table(series: &TelemetrySeries) -> Grid {
    let mut grid = Grid::new(&["time", "total", "increase", "per_s", "how"]);
    for point in &series.points {
        grid.row([
            utc_text(point.at_ms).into(),
            point.total.into(),
            point.increase.into(),
            point.per_s.map_or(Cell::None, |rate| Cell::Real(rate, 1)),
            (&point.how).into(),
        ]);
    }
    grid
}

/// Returns, for every two neighbouring points, when the first was taken, when the second, and the rate between them in
/// the shown unit; without a rate if there is a gap between them or the rate is not known.
fn rates(series: &TelemetrySeries) -> impl Iterator<Item = (u64, u64, Option<f64>)> {
    let scale = Scale::of(series);
    series.points.windows(2).map(move |two| {
        let (before, point) = (&two[0], &two[1]);
        let mut gaps = series.gaps.iter();
        let is_gap = gaps.any(|gap| before.at_ms <= gap.from_ms && gap.to_ms <= point.at_ms);
        let rate = point.per_s.filter(|_| !is_gap).map(|rate| scale.shown(rate));
        (before.at_ms, point.at_ms, rate)
    })
}

/// True if the link was down in a slot.
fn is_down(point: &TelemetryPoint) -> bool {
    point.how == "down"
}

/// In what a rate is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    /// Words of four bytes are shown as bytes; the capacity of the link, if it is known.
    Bytes(Option<u64>),
    /// A count a second.
    Count,
}

impl Scale {
    fn of(series: &TelemetrySeries) -> Self {
        match series.unit.as_str() {
            "4-byte words" => Self::Bytes(series.capacity_bytes_per_s),
            _ => Self::Count,
        }
    }

    fn what(self) -> String {
        match self {
            Self::Bytes(Some(capacity)) => format!("in bytes a second; the link carries {}", bytes_per_s(capacity)),
            Self::Bytes(None) => "in bytes a second".to_owned(),
            Self::Count => "in a second".to_owned(),
        }
    }

    /// Returns a rate of the counter in the shown unit.
    fn shown(self, per_s: f64) -> f64 {
        match self {
            Self::Bytes(_) => per_s * 4.0,
            Self::Count => per_s,
        }
    }

    /// Returns the text of a shown rate.
    fn text(self, shown: f64) -> String {
        match self {
            Self::Bytes(_) => bytes_per_s(shown.round() as u64),
            Self::Count if shown >= 100.0 => selvedge_experiment::axis::thousands(shown.round() as u64),
            Self::Count if shown == 0.0 => "0".to_owned(),
            Self::Count => format!("{shown:.3}"),
        }
    }

    /// Returns the share of the link's capacity.
    fn share(self, shown: f64) -> Option<f64> {
        match self {
            Self::Bytes(Some(capacity)) if capacity > 0 => Some(shown / capacity as f64),
            Self::Bytes(_) | Self::Count => None,
        }
    }
}

/// The text below the picture.
#[derive(Clone, Debug, PartialEq)]
struct Summary {
    mean: f64,
    peak: f64,
    peak_ms: u64,
}

impl Summary {
    /// `None`: there are fewer than two points.
    fn of(series: &TelemetrySeries) -> Option<Self> {
        let (first, last) = (series.points.first()?, series.points.last()?);
        let scale = Scale::of(series);
        let seconds = last.at_ms.checked_sub(first.at_ms).filter(|ms| *ms > 0)? as f64 / 1e3;
        let rates = series
            .points
            .iter()
            .filter_map(|point| Some((point.at_ms, point.per_s?)));
        let (peak_ms, peak) = rates.max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Self {
            mean: scale.shown(last.total.saturating_sub(first.total) as f64 / seconds),
            peak: scale.shown(peak),
            peak_ms,
        })
    }

    fn text(&self, series: &TelemetrySeries) -> String {
        let scale = Scale::of(series);
        let rate = |shown: f64| match scale.share(shown) {
            Some(share) => format!("{} ({:.1} %)", scale.text(shown), share * 100.0),
            None => scale.text(shown),
        };
        let points = series.points.len();
        let gaps = match series.gaps.len() {
            0 => "no gap".to_owned(),
            1 => "1 gap".to_owned(),
            gaps => format!("{gaps} gaps"),
        };
        let down = match series.points.iter().filter(|point| is_down(point)).count() {
            0 => String::new(),
            down => format!(", the link is down in {down}"),
        };
        format!(
            "mean {}, peak {} at {}; {points} slots, {gaps}{down}",
            rate(self.mean),
            rate(self.peak),
            utc_text(self.peak_ms)
        )
    }
}

#[cfg(test)]
mod tests {
    use selvedge_api::TelemetryGap;
    use selvedge_types::Guid;

    use super::*;

    /// A point a minute with these rates, in words a second; `None`: a gap of a minute.
    pub fn series(rates: &[Option<f64>]) -> TelemetrySeries {
        const BEGIN: u64 = 1_600_000_000_000;
        let at = |number: usize| BEGIN + 60_000 * number as u64;
        let mut total = 0;
        let mut points = Vec::new();
        let mut gaps = Vec::new();
        for (number, rate) in rates.iter().enumerate() {
            let Some(rate) = rate else {
                let (from_ms, to_ms) = (at(number - 1), at(number + 1));
                gaps.push(TelemetryGap { from_ms, to_ms });
                continue;
            };
            let increase = (rate * 60.0) as u64;
            total += increase;
            points.push(TelemetryPoint {
                at_ms: at(number),
                epoch: 0,
                total,
                increase: (number > 0).then_some(increase),
                per_s: (number > 0).then_some(*rate),
                how: "read".to_owned(),
            });
        }
        TelemetrySeries {
            node_guid: Guid(0x10),
            node_name: "leaf 1".to_owned(),
            port: 7,
            counter: "PortXmitData".to_owned(),
            unit: "4-byte words".to_owned(),
            capacity_bytes_per_s: Some(25_000_000_000),
            from_ms: BEGIN,
            to_ms: at(rates.len() - 1),
            step_ms: None,
            points,
            gaps,
            unread: Vec::new(),
        }
    }

    #[test]
    fn rates_are_bytes_and_shares_of_the_link() {
        let series = series(&[Some(0.0), Some(1e9), None, Some(3e9)]);
        let want = "mean 5.3 GB/s (21.3 %), peak 12.0 GB/s (48.0 %) at 2020-09-13T12:29:40.000Z; 3 slots, 1 gap";
        assert_eq!(Summary::of(&series).unwrap().text(&series), want);
        assert_eq!(title(&series), "\"leaf 1\"[7] PortXmitData");
        let csv = table(&series).csv();
        assert_eq!(
            csv.lines().nth(2),
            Some("2020-09-13T12:27:40.000Z,60000000000,60000000000,1000000000,read")
        );
        assert_eq!(Summary::of(&self::series(&[Some(0.0)])), None);
        let mut events = self::series(&[Some(0.0), Some(0.25)]);
        events.unit = "events".to_owned();
        let text = Summary::of(&events).unwrap().text(&events);
        assert!(text.starts_with("mean 0.250, peak 0.250 at"), "{text}");
        events.points[1].how = "down".to_owned();
        let text = Summary::of(&events).unwrap().text(&events);
        assert!(text.ends_with("2 slots, no gap, the link is down in 1"), "{text}");
    }
}
