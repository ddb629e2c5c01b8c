//! Metric sets as LDMS has them: the text of `ldms_ls -l`, and rows of CSV.

use core::fmt::{self, Write};

use crate::clock::Wall;
use crate::inventory::End;
use crate::selection::Selected;
use crate::{Inventory, Latest, calendar};

/// A metric set: the values of a sampler at one time. It has `component_id`, one value a port and metric, `job_id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricSet {
    /// Name of the host that samples.
    pub producer: String,
    /// Name of the set, such as `ibfabric`.
    pub name: String,
    /// Number of the sampler.
    pub component_id: u64,
    /// Number of the job; 0 without one.
    pub job_id: u64,
    /// When the slot began.
    pub begin: Wall,
    /// Time from the beginning until the last value was known, in microseconds.
    pub duration_us: u64,
    /// Number of the set's values, which grows with every sample. LDMS: DATA GN.
    pub generation: u64,
    /// True if every port of the set was sampled in the slot.
    pub is_consistent: bool,
    values: Vec<(String, u64)>,
}

impl MetricSet {
    /// Returns a set without values.
    #[must_use]
    pub const fn new(producer: String, name: String, component_id: u64) -> Self {
        Self {
            producer,
            name,
            component_id,
            job_id: 0,
            begin: Wall(0),
            duration_us: 0,
            generation: 0,
            is_consistent: false,
            values: Vec::new(),
        }
    }

    /// Takes the values of these ports, as far as they have values. Ports that are not in the inventory are left out. A
    /// port that is down keeps its counters and has 0 as remote LID and port, so a set has the same metrics as before.
    pub fn fill(&mut self, ports: &[End], selected: &[Selected], inventory: &Inventory, latest: &Latest) {
        self.values.clear();
        for end in ports {
            let Some(port) = inventory.port(*end) else { continue };
            let place = format!("LID_{}_port_{}_", port.lid, end.port);
            let totals = latest.port(end.node, end.port);
            let peer = port.peer.and_then(|peer| Some((inventory.port(peer)?.lid, peer.port)));
            let (remote_lid, remote_port) = peer.map_or((0, 0), |(lid, port)| (lid.0.into(), port.into()));
            for metric in selected {
                let value = match metric {
                    Selected::RemoteLid => Some(remote_lid),
                    Selected::RemotePort => Some(remote_port),
                    Selected::CounterSelect2 => Some(0),
                    Selected::Counter(metric) => totals.metric(*metric),
                    Selected::State => Some(port.state.code().into()),
                };
                let named = |value| ([place.as_str(), metric.name()].concat(), value);
                self.values.extend(value.map(named));
            }
        }
    }

    /// Returns all metrics in order, with `component_id` and `job_id`.
    fn metrics(&self) -> impl Iterator<Item = (&str, u64)> {
        let first = [("component_id", self.component_id)].into_iter();
        let values = self.values.iter().map(|(name, value)| (name.as_str(), *value));
        first.chain(values).chain([("job_id", self.job_id)])
    }

    /// Returns when the last value was known.
    fn timestamp_us(&self) -> u64 {
        self.begin.0 / 1_000 + self.duration_us
    }

    /// Writes the set in the form of `ldms_ls -l`.
    pub fn write_text(&self, out: &mut impl Write) -> fmt::Result {
        let at_us = self.timestamp_us();
        writeln!(out, "METADATA --------")?;
        writeln!(out, "  Producer Name : {}", self.producer)?;
        writeln!(out, "  Instance Name : {}/{}", self.producer, self.name)?;
        writeln!(out, "    Schema Name : {}_{}", self.name, self.producer)?;
        writeln!(out, "   Metric Count : {}", self.metrics().count())?;
        writeln!(out, "DATA ------------")?;
        writeln!(
            out,
            "      Timestamp : {} [{}us]",
            Date(at_us / 1_000_000),
            at_us % 1_000_000
        )?;
        let (seconds, micros) = (self.duration_us / 1_000_000, self.duration_us % 1_000_000);
        writeln!(out, "       Duration : [{seconds}.{micros:06}s]")?;
        let consistent = if self.is_consistent { "TRUE" } else { "FALSE" };
        writeln!(out, "     Consistent : {consistent}")?;
        writeln!(out, "             GN : {}", self.generation)?;
        writeln!(out, "-----------------")?;
        for (at, (name, value)) in self.metrics().enumerate() {
            // LDMS: `M` is fixed for the life of the set, `D` changes with each sample.
            let kind = if at == 0 { 'M' } else { 'D' };
            writeln!(out, "{kind} u64 {name} {value}")?;
        }
        Ok(())
    }

    /// Writes the first line of a CSV file.
    pub fn write_csv_header(&self, out: &mut impl Write) -> fmt::Result {
        out.write_str("#Time,Time_usec,ProducerName")?;
        self.metrics().try_for_each(|(name, _)| write!(out, ",{name}"))?;
        out.write_char('\n')
    }

    /// Writes a row of a CSV file.
    pub fn write_csv(&self, out: &mut impl Write) -> fmt::Result {
        let at_us = self.timestamp_us();
        let (seconds, micros) = (at_us / 1_000_000, at_us % 1_000_000);
        write!(out, "{seconds}.{micros:06},{micros},{}", self.producer)?;
        self.metrics().try_for_each(|(_, value)| write!(out, ",{value}"))?;
        out.write_char('\n')
    }
}

/// Seconds since the Unix epoch, printed as `Thu Mar 16 14:19:56 2017` in UTC.
struct Date(u64);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
        const MONTHS: [&str; 12] = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ];
        let (days, second) = (self.0 / 86_400, self.0 % 86_400);
        let (year, month, day) = calendar::date(days);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        // Both remainders are below the lengths of the tables.
        let (weekday, month) = (DAYS[(days % 7) as usize], MONTHS[month as usize - 1]);
        write!(f, "{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |seconds, want: &str| assert_eq!(Date(seconds).to_string(), want);
        check(0, "Thu Jan  1 00:00:00 1970");
        check(951_782_399, "Mon Feb 28 23:59:59 2000");
        check(951_782_400, "Tue Feb 29 00:00:00 2000");
        check(1_489_673_996, "Thu Mar 16 14:19:56 2017");
        check(4_107_542_400, "Mon Mar  1 00:00:00 2100");
        check(1_798_761_599, "Thu Dec 31 23:59:59 2026");
    }
}
