//! A series as bars of block characters.

use selvedge_api::TelemetrySeries;
use selvedge_daemon::utc_text;

use super::{Scale, is_down, rates};

/// Rows of a picture.
const ROWS: usize = 12;
/// Columns left of the bars: a rate, and the axis.
const LABEL: usize = 12;
/// Columns of bars if the width of the output is unknown.
const COLUMNS: usize = 100;
/// Smallest number of columns of bars.
const COLUMNS_MIN: usize = 20;
/// A bar ends in one of these: eighths of a row.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Share of the link's capacity from which a bar is red.
const BUSY: f64 = 0.9;

/// A line of a picture: its label, and bars that may have a colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    label: String,
    cells: Vec<(char, Tone)>,
}

/// The meaning of a bar's colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    Plain,
    Good,
    Bad,
}

impl Line {
    /// Returns the line. Neighbours of one colour are coloured together.
    pub(super) fn coloured(&self, good: impl Fn(&str) -> String, bad: impl Fn(&str) -> String) -> String {
        let mut text = self.label.clone();
        for run in self.cells.chunk_by(|a, b| a.1 == b.1) {
            let bars: String = run.iter().map(|(bar, _)| *bar).collect();
            match run.first().map(|(_, tone)| *tone) {
                Some(Tone::Good) => text += &good(&bars),
                Some(Tone::Bad) => text += &bad(&bars),
                Some(Tone::Plain) | None => text += &bars,
            }
        }
        text.trim_end().to_owned()
    }

    fn plain(label: String, text: &str) -> Self {
        Self {
            label,
            cells: text.chars().map(|letter| (letter, Tone::Plain)).collect(),
        }
    }
}

/// Returns how many columns of bars fit.
pub(super) fn columns(width: Option<usize>) -> usize {
    width.map_or(COLUMNS, |width| width.saturating_sub(LABEL).max(COLUMNS_MIN))
}

/// Returns the picture, from its top to its time axis.
pub(super) fn lines(series: &TelemetrySeries, columns: usize) -> Vec<Line> {
    let scale = Scale::of(series);
    let values = values(series, columns);
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    // Of a counter that stood still, the axis is shown all the same.
    let top = if most > 0.0 { most } else { 1.0 };
    let row = |number: usize| {
        let below = ROWS - 1 - number;
        let label = match number {
            0 => scale.text(most),
            _ if number == ROWS / 2 && most > 0.0 => scale.text(top * (below + 1) as f64 / ROWS as f64),
            _ => String::new(),
        };
        let cells = values.iter().map(|value| {
            let value = value.unwrap_or(0.0);
            // A value that is not 0 is seen.
            let least = if value > 0.0 { 1.0 } else { 0.0 };
            let eighths = (value / top * (8 * ROWS) as f64).round().max(least) as usize;
            let bar = EIGHTHS[eighths.saturating_sub(8 * below).min(8)];
            (bar, tone(scale, series, value))
        });
        Line {
            label: format!("{label:>10} │"),
            cells: cells.collect(),
        }
    };
    let mut lines: Vec<Line> = (0..ROWS).map(row).collect();
    let axis = values
        .iter()
        .zip(down(series, columns))
        .map(|(value, is_down)| match (value, is_down) {
            (_, true) => '×',
            (Some(_), false) => '─',
            (None, false) => '╌',
        });
    let axis: String = axis.collect();
    lines.push(Line::plain(format!("{:>10} ┼", 0), &axis));
    lines.push(Line::plain(" ".repeat(LABEL), &times(series, columns)));
    lines
}

fn tone(scale: Scale, series: &TelemetrySeries, value: f64) -> Tone {
    match scale.share(value) {
        Some(share) if share >= BUSY => Tone::Bad,
        Some(_) => Tone::Good,
        None if series.unit == "events" => Tone::Bad,
        None => Tone::Plain,
    }
}

/// Returns the column of a time.
fn column(series: &TelemetrySeries, columns: usize, at_ms: u64) -> usize {
    let span = series.to_ms.saturating_sub(series.from_ms).max(1);
    let passed = u128::from(at_ms.saturating_sub(series.from_ms));
    usize::try_from(passed * columns as u128 / u128::from(span)).map_or(columns - 1, |at| at.min(columns - 1))
}

/// Returns for each column whether the link was down in a slot of it.
fn down(series: &TelemetrySeries, columns: usize) -> Vec<bool> {
    let mut down = vec![false; columns];
    for point in series.points.iter().filter(|point| is_down(point)) {
        down[column(series, columns, point.at_ms.saturating_sub(1))] = true;
    }
    down
}

/// Returns the highest rate in each column; `None` where no slot is known.
fn values(series: &TelemetrySeries, columns: usize) -> Vec<Option<f64>> {
    let column = |at_ms: u64| column(series, columns, at_ms);
    let mut values: Vec<Option<f64>> = vec![None; columns];
    for (begin, end, rate) in rates(series) {
        let Some(rate) = rate else { continue };
        let (from, to) = (column(begin), column(end.saturating_sub(1)));
        for value in &mut values[from.min(to)..=to] {
            *value = Some(value.map_or(rate, |other| other.max(rate)));
        }
    }
    values
}

/// Returns the line below the axis: begin and end, without the date if both are of one day.
fn times(series: &TelemetrySeries, columns: usize) -> String {
    let (from, to) = (utc_text(series.from_ms), utc_text(series.to_ms));
    let second = |text: &str| text.get(..19).unwrap_or(text).to_owned() + "Z";
    let (from, to) = (second(&from), second(&to));
    let to = match from.get(..11) == to.get(..11) {
        true => to.get(11..).unwrap_or(&to).to_owned(),
        false => to,
    };
    let room = columns.saturating_sub(from.len() + to.len());
    format!("{from}{}{to}", " ".repeat(room.max(1)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::series;
    use super::*;

    fn drawn(rates: &[Option<f64>], columns: usize) -> Vec<String> {
        let lines = lines(&series(rates), columns);
        let text = lines
            .iter()
            .map(|line| line.coloured(|good| format!("<{good}>"), |bad| format!("!{bad}!")));
        text.collect()
    }

    #[test]
    fn bars_have_the_height_of_their_rate() {
        // 4, 2 and 0 GB/s of 25, a column each.
        let text = drawn(&[Some(0.0), Some(1e9), Some(5e8), Some(0.0)], 3);
        assert_eq!(text.len(), ROWS + 2);
        assert_eq!(text[0], "  4.0 GB/s │<█  >");
        assert_eq!(text[5], "           │<█  >");
        assert_eq!(text[6], "  2.0 GB/s │<██ >");
        assert_eq!(text[11], "           │<██ >");
        assert_eq!(text[12], "         0 ┼───");
        assert!(text[13].contains("2020-09-13T12:26:40Z 12:29:40Z"), "{}", text[13]);
    }

    #[test]
    fn a_busy_link_is_red_and_a_gap_is_seen() {
        let text = drawn(&[Some(0.0), Some(6e9), None, Some(1e9), Some(1e9)], 4);
        assert_eq!(text[0], " 24.0 GB/s │!█!<   >");
        // The time of the gap has no rate.
        assert_eq!(text[12], "         0 ┼─╌╌─");
        // A small value is seen, and a counter that stood still has an axis.
        let small = drawn(&[Some(0.0), Some(1e9), Some(1.0)], 2);
        assert_eq!(small[11], "           │<█▁>");
        let still = drawn(&[Some(0.0), Some(0.0)], 2);
        assert_eq!(
            (still[0].as_str(), still[12].as_str()),
            ("     0 B/s │<  >", "         0 ┼──")
        );
    }

    #[test]
    fn the_axis_shows_where_the_link_was_down() {
        let mut series = series(&[Some(0.0), Some(1e9), Some(0.0), Some(1e9)]);
        series.points[2].how = "down".to_owned();
        let axis = lines(&series, 3)[ROWS].coloured(str::to_owned, str::to_owned);
        assert_eq!(axis, "         0 ┼─×─");
    }

    #[test]
    fn columns_follow_the_terminal() {
        assert_eq!([None, Some(80), Some(10)].map(columns), [100, 68, 20]);
    }
}
