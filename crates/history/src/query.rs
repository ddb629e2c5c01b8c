//! Questions to a history: one port over time, all ports in one slot, the ports that grow fastest.
//!
//! A question is handled in two parts. The first takes what is in memory, and needs the history and its lock. The
//! second reads files and gives the answer, without the lock.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use selvedge_telemetry::{Group, How, Metric, SampleKey, Wall};
use selvedge_types::Guid;

use crate::HistoryError;
use crate::book::Book;
use crate::calendar::Hour;
use crate::config::micros;
use crate::history::{History, is_gap};
use crate::names::HourId;
use crate::reading::{Moment, Reading};
use crate::shelf::Shelf;

/// From when to when, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Begin of the first slot.
    pub from: Wall,
    /// Begin of the last slot.
    pub to: Wall,
}

/// A range in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub from_us: u64,
    pub to_us: u64,
}

impl Span {
    /// Everything.
    pub const ALL: Self = Self {
        from_us: 0,
        to_us: u64::MAX,
    };

    /// True if a slot is in the range.
    pub const fn has(self, at_us: u64) -> bool {
        self.from_us <= at_us && at_us <= self.to_us
    }

    /// True if slots between two moments may be in the range. Between epochs the clock was set back.
    pub const fn may_have(self, first: Moment, last: Moment) -> bool {
        first.epoch != last.epoch || first.at_us <= self.to_us && self.from_us <= last.at_us
    }
}

impl Range {
    const fn span(self) -> Span {
        Span {
            from_us: self.from.0.div_ceil(1_000),
            to_us: self.to.0 / 1_000,
        }
    }
}

/// The total of a counter in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The slot.
    pub moment: Moment,
    /// From the start of the slot to when the total was known, in microseconds.
    pub offset_us: u32,
    /// The total.
    pub total: u64,
}

impl Point {
    fn of(row: &Reading, counter: usize) -> Option<Self> {
        (row.known >> counter & 1 != 0).then(|| Self {
            moment: row.moment,
            offset_us: row.offset_us,
            total: row.totals[counter],
        })
    }

    /// Returns what the counter grew by since an earlier point.
    const fn increase_since(&self, earlier: &Self) -> u64 {
        self.total.saturating_sub(earlier.total)
    }

    /// Returns the growth per second since an earlier point; `None` if the clock was set back in between, so that it is
    /// not known how much time passed.
    fn per_second_since(&self, earlier: &Self) -> Option<f64> {
        let at = |point: &Self| point.moment.at_us.saturating_add(point.offset_us.into());
        let passed_us = at(self).checked_sub(at(earlier)).filter(|passed| *passed > 0)?;
        let is_known = self.moment.epoch == earlier.moment.epoch;
        is_known.then(|| self.increase_since(earlier) as f64 * 1e6 / passed_us as f64)
    }
}

/// A question about one counter of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Node, port, group.
    pub key: SampleKey,
    /// The counter, in the order of the group.
    pub counter: usize,
    /// From when to when.
    pub range: Range,
    /// Shows the first slot of each interval of this length; `None`: every slot that is known.
    pub step: Option<Duration>,
}

/// A point of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesPoint {
    /// The total.
    pub point: Point,
    /// How the total is known.
    pub how: How,
    /// What the counter grew by since the point before; `None` at the first point.
    pub increase: Option<u64>,
    /// The growth per second since the point before; `None` at the first point and where the clock was set back.
    pub per_second: Option<f64>,
}

/// A counter of a port over time.
#[derive(Debug, Default)]
pub struct Series {
    /// Points in order of time.
    pub points: Vec<SeriesPoint>,
    /// Pairs of slots between which slots are missing.
    pub gaps: Vec<(Moment, Moment)>,
    /// Files that could not be read. Their hours are missing.
    pub unread: Vec<HistoryError>,
}

/// A counter of all ports.
#[derive(Debug, Default)]
pub struct Ports<T> {
    /// What was asked for.
    pub ports: Vec<T>,
    /// Files that could not be read. Their hours are missing.
    pub unread: Vec<HistoryError>,
}

/// How fast a counter of a port grew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mover {
    /// Node, port, group.
    pub key: SampleKey,
    /// The first point of the range.
    pub from: Point,
    /// The last one.
    pub to: Point,
    /// The growth in between.
    pub increase: u64,
    /// The growth per second.
    pub per_second: f64,
}

/// What a question needs of the files.
#[derive(Clone, Debug)]
struct Shelved {
    shelf: Arc<Shelf>,
    files: Vec<HourId>,
    counter: usize,
    span: Span,
}

/// A series of which the part in memory is known.
#[derive(Debug)]
pub struct SeriesQuery {
    files: Shelved,
    key: SampleKey,
    step_us: Option<u64>,
    /// Distance of slots in the history.
    spacing_us: u64,
    /// From when on every slot is in memory, and their distance.
    dense: Option<(Moment, u64)>,
    found: BTreeMap<Moment, (Point, How)>,
}

/// First and last points of all ports, of which the part in memory is known.
#[derive(Debug)]
pub struct PortsQuery {
    files: Shelved,
    found: BTreeMap<SampleKey, (Point, Point)>,
}

impl History {
    /// Returns the group and counter in which a metric of a port is found: in 64 bits if the port has that.
    #[must_use]
    pub fn find(&self, node: Guid, port: u8, metric: Metric) -> Option<(SampleKey, usize)> {
        let places = [Group::Extended, Group::Base].into_iter().filter_map(|group| {
            let key = SampleKey { node, port, group };
            Some((key, group.place(metric)?))
        });
        let is_known = |key: &SampleKey, counter: usize| {
            let open = self
                .tables
                .get(&key.group)
                .and_then(|table| table.open.as_ref()?.last(*key));
            let row = self.window.last(*key).or(open);
            row.is_some_and(|row| row.known >> counter & 1 != 0)
        };
        places.into_iter().find(|(key, counter)| is_known(key, *counter))
    }

    /// Begins a question about one port.
    ///
    /// # Errors
    ///
    /// [`HistoryError::NoCounter`].
    pub fn prepare_series(&self, question: &Question) -> Result<SeriesQuery, HistoryError> {
        let Question { key, counter, .. } = *question;
        let files = self.shelved((key.group, counter), question.range.span())?;
        let span = files.span;
        let mut found = BTreeMap::new();
        let read = |found: &mut BTreeMap<Moment, (Point, How)>, book: &Book, begin: Moment| {
            let Some(track) = book.find(key).and_then(|place| book.track(place)) else {
                return;
            };
            track.rows(span, |row| {
                if let Some(point) = Point::of(row, counter).filter(|_| row.moment >= begin) {
                    found.insert(row.moment, (point, row.how));
                }
            });
        };
        read(&mut found, self.window.book(), Moment::default());
        let dense = usual_spacing(found.keys().copied());
        for hour in self
            .tables
            .get(&key.group)
            .into_iter()
            .flat_map(|table| table.hours(span))
        {
            read(&mut found, hour.book(), hour.begin());
        }
        Ok(SeriesQuery {
            files,
            key,
            step_us: question.step.map(|step| micros(step).max(1)),
            spacing_us: self.config().step_us(),
            dense,
            found,
        })
    }

    /// Answers a question about one port.
    ///
    /// # Errors
    ///
    /// [`HistoryError::NoCounter`].
    pub fn series(&self, question: &Question) -> Result<Series, HistoryError> {
        Ok(self.prepare_series(question)?.run())
    }

    /// Begins a question about all ports.
    ///
    /// # Errors
    ///
    /// [`HistoryError::NoCounter`].
    pub fn prepare_ports(&self, group: Group, counter: usize, range: Range) -> Result<PortsQuery, HistoryError> {
        let files = self.shelved((group, counter), range.span())?;
        let span = files.span;
        let mut found = BTreeMap::new();
        let hours = self.tables.get(&group).into_iter().flat_map(|table| table.hours(span));
        let books = hours.map(|hour| (hour.book(), hour.begin()));
        for (book, begin) in books.chain([(self.window.book(), Moment::default())]) {
            for (key, track) in book.iter().filter(|(key, _)| key.group == group) {
                let mut ends = None;
                track.rows(span, |row| {
                    let point = Point::of(row, counter).filter(|_| row.moment >= begin);
                    if let Some(point) = point {
                        ends = Some((ends.map_or(point, |(first, _)| first), point));
                    }
                });
                if let Some(ends) = ends {
                    widen(&mut found, key, ends);
                }
            }
        }
        Ok(PortsQuery { files, found })
    }

    /// Returns the last total of each port in a range; for one slot, the range is that slot.
    ///
    /// # Errors
    ///
    /// [`HistoryError::NoCounter`].
    pub fn slot(&self, group: Group, counter: usize, range: Range) -> Result<Ports<(SampleKey, Point)>, HistoryError> {
        Ok(self.prepare_ports(group, counter, range)?.last())
    }

    /// Returns the `most` ports with the fastest growth of a counter.
    ///
    /// # Errors
    ///
    /// [`HistoryError::NoCounter`].
    pub fn top(&self, group: Group, counter: usize, range: Range, most: usize) -> Result<Ports<Mover>, HistoryError> {
        Ok(self.prepare_ports(group, counter, range)?.top(most))
    }

    fn shelved(&self, (group, counter): (Group, usize), span: Span) -> Result<Shelved, HistoryError> {
        if counter >= group.counters() {
            return Err(HistoryError::NoCounter { group, counter });
        }
        let hours = Hour::of(span.from_us)..=Hour::of(span.to_us);
        let files = self
            .files
            .keys()
            .filter(|id| id.group == group && hours.contains(&id.hour));
        Ok(Shelved {
            shelf: Arc::clone(&self.shelf),
            files: files.copied().collect(),
            counter,
            span,
        })
    }
}

/// Adds first and last points of a port to those that are known.
fn widen(found: &mut BTreeMap<SampleKey, (Point, Point)>, key: SampleKey, (first, last): (Point, Point)) {
    let ends = found.entry(key).or_insert((first, last));
    if first.moment < ends.0.moment {
        ends.0 = first;
    }
    if last.moment > ends.1.moment {
        ends.1 = last;
    }
}

/// True if a file was removed since the question was asked, because it was too old.
fn is_gone(error: &HistoryError) -> bool {
    matches!(error, HistoryError::Io { cause, .. } if cause.kind() == io::ErrorKind::NotFound)
}

impl SeriesQuery {
    /// Reads the files. Takes a few milliseconds a file.
    #[must_use]
    pub fn run(mut self) -> Series {
        let mut series = Series::default();
        for id in &self.files.files {
            let read = self.files.shelf.file(*id).and_then(|file| {
                let about = (self.key, self.files.counter);
                file.port(&self.files.shelf.folder, about, self.files.span, &mut |point, how| {
                    self.found.entry(point.moment).or_insert((point, how));
                })
            });
            series.unread.extend(read.err().filter(|error| !is_gone(error)));
        }
        let mut step = None;
        let mut last: Option<Moment> = None;
        for (moment, (point, how)) in self.found {
            let spacing_us = |last| match self.dense {
                Some((from, spacing_us)) if last >= from => spacing_us,
                _ => self.spacing_us,
            };
            if let Some(last) = last.filter(|last| is_gap(*last, moment, spacing_us(*last))) {
                series.gaps.push((last, moment));
            }
            last = Some(moment);
            // The first slot of each step is shown: growth between shown slots adds up to all growth.
            let this = self.step_us.map(|step_us| (moment.epoch, moment.at_us / step_us));
            if this.is_some() && this == step {
                continue;
            }
            step = this;
            let before = series.points.last().map(|before| before.point);
            series.points.push(SeriesPoint {
                point,
                how,
                increase: before.map(|before| point.increase_since(&before)),
                per_second: before.and_then(|before| point.per_second_since(&before)),
            });
        }
        series
    }
}

/// Returns the first slot, and the most frequent distance of two slots.
fn usual_spacing(moments: impl Iterator<Item = Moment> + Clone) -> Option<(Moment, u64)> {
    let mut counts = BTreeMap::<u64, u32>::new();
    for (a, b) in moments.clone().zip(moments.clone().skip(1)) {
        if a.epoch == b.epoch {
            *counts.entry(b.at_us - a.at_us).or_default() += 1;
        }
    }
    let usual = counts
        .into_iter()
        .max_by_key(|(spacing, count)| (*count, Reverse(*spacing)));
    moments.clone().next().zip(usual.map(|(spacing, _)| spacing))
}

impl PortsQuery {
    fn read(mut self) -> (BTreeMap<SampleKey, (Point, Point)>, Vec<HistoryError>) {
        let mut unread = Vec::new();
        for id in &self.files.files {
            let read = self.files.shelf.file(*id).and_then(|file| {
                let (folder, found) = (&self.files.shelf.folder, &mut self.found);
                file.ends(folder, self.files.counter, self.files.span, &mut |key, ends| {
                    widen(found, key, ends);
                })
            });
            unread.extend(read.err().filter(|error| !is_gone(error)));
        }
        (self.found, unread)
    }

    /// Returns the last total of each port, in order of the ports.
    #[must_use]
    pub fn last(self) -> Ports<(SampleKey, Point)> {
        let (found, unread) = self.read();
        Ports {
            ports: found.into_iter().map(|(key, (_, last))| (key, last)).collect(),
            unread,
        }
    }

    /// Returns the `most` ports with the fastest growth of a counter, the fastest first.
    #[must_use]
    pub fn top(self, most: usize) -> Ports<Mover> {
        let (found, unread) = self.read();
        let mover = |(key, (from, to)): (SampleKey, (Point, Point))| {
            let per_second = to.per_second_since(&from)?;
            Some(Mover {
                key,
                from,
                to,
                increase: to.increase_since(&from),
                per_second,
            })
        };
        let mut ports: Vec<Mover> = found.into_iter().filter_map(mover).collect();
        ports.sort_by(|a, b| b.per_second.total_cmp(&a.per_second).then(a.key.cmp(&b.key)));
        ports.truncate(most);
        Ports { ports, unread }
    }
}
