//! Events, alarms, topology versions and baselines, in SQLite.

use core::time::Duration;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row as SqlRow, params};
use selvedge_telemetry::{Row, SampleKey, WIDEST, Wall};
use selvedge_types::Guid;

use crate::names::group_of;
use crate::{HistoryError, alarms};

/// Format of the tables.
const FORMAT: i64 = 2;
/// "SLVH": distinguishes a database of ours from that of another program.
const APPLICATION: i64 = 0x534c_5648;
/// Shortest database. Source: SQLite, "Database File Format", §1.3.2.
const PAGE_BYTES_MIN: u64 = 512;
/// How long a write waits for a reader of another process.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most rows that a question returns, whatever it asks for.
pub(super) const ROWS_MAX: u32 = 100_000;

const TABLES: &str = "
CREATE TABLE about (fabric TEXT NOT NULL);
CREATE TABLE event (
    id INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, code TEXT NOT NULL, severity INTEGER NOT NULL,
    node TEXT, port INTEGER, text TEXT NOT NULL);
CREATE INDEX event_at ON event (at_us);
CREATE TABLE topology (id INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, digest TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE baseline (
    node TEXT NOT NULL, port INTEGER NOT NULL, counters TEXT NOT NULL, at_us INTEGER NOT NULL, totals BLOB NOT NULL,
    PRIMARY KEY (node, port, counters)) WITHOUT ROWID;
";

const CLEAR_BASELINE: &str = "DELETE FROM baseline WHERE node = ?1 AND port = ?2 AND counters = ?3";

/// How bad something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    #[default]
    Info,
    /// Something should be done.
    Warning,
    /// Something should be done now.
    Critical,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    /// A node.
    pub node: Option<Guid>,
    /// A port of the node.
    pub port: Option<u8>,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When the event happened.
    pub at: Wall,
    /// Code of the event, as `SLV-SM-0101`.
    pub code: String,
    /// Severity of the event.
    pub severity: Severity,
    /// The node or port that the event is about.
    pub subject: Subject,
    /// Text of the event.
    pub text: String,
}

/// A version of the topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Begin of the version.
    pub at: Wall,
    /// A digest of the body: two versions in a row differ in it.
    pub digest: String,
    /// The topology, in the form in which the caller stored it.
    pub body: Vec<u8>,
}

/// Events, alarms, topology versions and baselines of a fabric.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
    sql: Connection,
}

impl Database {
    /// The name of the database in a history folder.
    pub const NAME: &'static str = "events.sqlite";

    /// Opens a database, or makes one.
    ///
    /// # Errors
    ///
    /// The file is another program's, another fabric's, a newer version's or damaged; it is left as it is.
    pub fn open(path: &Path, fabric: &str) -> Result<Self, HistoryError> {
        let failed = |error: rusqlite::Error| failure(path, "open", &error);
        // SQLite takes shorter files for empty ones and writes over them.
        let len = std::fs::metadata(path).map_or(0, |about| about.len());
        if (1..PAGE_BYTES_MIN).contains(&len) {
            let what = format!("{len} bytes are no database");
            let path = path.to_owned();
            return Err(HistoryError::ForeignDatabase { path, what });
        }
        let sql = Connection::open(path).map_err(failed)?;
        let database = Self {
            path: path.to_owned(),
            sql,
        };
        database.sql.busy_timeout(PATIENCE).map_err(failed)?;
        match database.tables().map_err(failed)? {
            0 if database.pragma("application_id").map_err(failed)? == 0 => database.create(fabric)?,
            _ => {
                database.check(fabric)?;
                database.upgrade().map_err(failed)?;
            }
        }
        // A killed process loses nothing; after a crash of the machine the last seconds may be missing.
        database
            .sql
            .pragma_update(None, "journal_mode", "wal")
            .map_err(failed)?;
        database
            .sql
            .pragma_update(None, "synchronous", "normal")
            .map_err(failed)?;
        Ok(database)
    }

    /// Limits the file to about this many bytes. Writes beyond fail as on a full file system.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn set_bytes_max(&self, bytes: u64) -> Result<(), HistoryError> {
        self.run("limit", |sql| {
            let page_bytes: i64 = sql.pragma_query_value(None, "page_size", |row| row.get(0))?;
            let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page_bytes.max(1);
            // SQLite answers with the limit in force.
            sql.pragma_update_and_check(None, "max_page_count", pages.clamp(1, 0xffff_fffe), |_| Ok(()))
        })
    }

    fn tables(&self) -> rusqlite::Result<i64> {
        self.sql
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
    }

    fn pragma(&self, name: &str) -> rusqlite::Result<i64> {
        self.sql.pragma_query_value(None, name, |row| row.get(0))
    }

    fn create(&self, fabric: &str) -> Result<(), HistoryError> {
        let create = || {
            let all = self.sql.unchecked_transaction()?;
            all.execute_batch(TABLES)?;
            all.execute_batch(alarms::TABLE)?;
            all.execute("INSERT INTO about VALUES (?1)", [fabric])?;
            all.pragma_update(None, "application_id", APPLICATION)?;
            all.pragma_update(None, "user_version", FORMAT)?;
            all.commit()
        };
        create().map_err(|error| failure(&self.path, "create", &error))
    }

    fn check(&self, fabric: &str) -> Result<(), HistoryError> {
        let failed = |error: rusqlite::Error| failure(&self.path, "read", &error);
        let path = || self.path.clone();
        if self.pragma("application_id").map_err(failed)? != APPLICATION {
            let what = "it was made by another program".to_owned();
            return Err(HistoryError::ForeignDatabase { path: path(), what });
        }
        let found = self.pragma("user_version").map_err(failed)?;
        if found > FORMAT {
            return Err(HistoryError::NewerDatabase {
                path: path(),
                found,
                known: FORMAT,
            });
        }
        let len = std::fs::metadata(&self.path).map_or(0, |about| about.len());
        let page_bytes = u64::try_from(self.pragma("page_size").map_err(failed)?)
            .unwrap_or(1)
            .max(1);
        if !len.is_multiple_of(page_bytes) {
            let what = format!("its {len} bytes are no whole number of pages, its end was cut off");
            return Err(HistoryError::DamagedDatabase { path: path(), what });
        }
        let checked: String = self
            .sql
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(failed)?;
        if checked != "ok" {
            return Err(HistoryError::DamagedDatabase {
                path: path(),
                what: checked,
            });
        }
        let of: Option<String> = self
            .sql
            .query_row("SELECT fabric FROM about", [], |row| row.get(0))
            .optional()
            .map_err(failed)?;
        match of {
            Some(found) if found == fabric => Ok(()),
            found => Err(HistoryError::OtherFabric {
                path: path(),
                found: found.unwrap_or_default(),
                want: fabric.to_owned(),
            }),
        }
    }

    /// Takes a database of format 1 to the present one: no manager has ever written its table of alarms.
    fn upgrade(&self) -> rusqlite::Result<()> {
        if self.pragma("user_version")? >= FORMAT {
            return Ok(());
        }
        let all = self.sql.unchecked_transaction()?;
        all.execute_batch("DROP TABLE IF EXISTS alarm")?;
        all.execute_batch(alarms::TABLE)?;
        all.pragma_update(None, "user_version", FORMAT)?;
        all.commit()
    }

    pub(super) fn run<T>(
        &self,
        operation: &'static str,
        act: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, HistoryError> {
        act(&self.sql).map_err(|error| failure(&self.path, operation, &error))
    }

    /// Stores events, all or none.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn add_events(&self, events: &[Entry]) -> Result<(), HistoryError> {
        self.run("add events to", |sql| {
            let all = sql.unchecked_transaction()?;
            {
                let mut add = all.prepare(
                    "INSERT INTO event (at_us, code, severity, node, port, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?;
                for event in events {
                    let (node, port) = columns(event.subject);
                    let severity = event.severity as u8;
                    add.execute(params![us(event.at), event.code, severity, node, port, event.text])?;
                }
            }
            all.commit()
        })
    }

    /// Returns the latest events up to a time, of at least this severity, the latest first.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn events(&self, (from, to): (Wall, Wall), least: Severity, most: u32) -> Result<Vec<Entry>, HistoryError> {
        self.run("read events of", |sql| {
            let mut ask = sql.prepare(
                "SELECT at_us, code, severity, node, port, text FROM event \
                 WHERE at_us BETWEEN ?1 AND ?2 AND severity >= ?3 ORDER BY at_us DESC, id DESC LIMIT ?4",
            )?;
            let range = params![us(from), us(to), least as u8, most.min(ROWS_MAX)];
            ask.query_map(range, |row| entry(row, 0))?.collect()
        })
    }

    /// Stores a version of the topology, unless it is the last one.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn add_topology(&self, topology: &Topology) -> Result<bool, HistoryError> {
        self.run("add a topology to", |sql| {
            let last: Option<String> = sql
                .query_row("SELECT digest FROM topology ORDER BY id DESC LIMIT 1", [], |row| {
                    row.get(0)
                })
                .optional()?;
            if last.as_ref() == Some(&topology.digest) {
                return Ok(false);
            }
            sql.execute(
                "INSERT INTO topology (at_us, digest, body) VALUES (?1, ?2, ?3)",
                params![us(topology.at), topology.digest, topology.body],
            )?;
            Ok(true)
        })
    }

    /// Returns the version of the topology that was in force at a time.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn topology_at(&self, at: Wall) -> Result<Option<Topology>, HistoryError> {
        self.run("read a topology of", |sql| {
            let ask = "SELECT at_us, digest, body FROM topology WHERE at_us <= ?1 ORDER BY at_us DESC, id DESC LIMIT 1";
            let topology = |row: &SqlRow<'_>| {
                Ok(Topology {
                    at: wall(row.get(0)?),
                    digest: row.get(1)?,
                    body: row.get(2)?,
                })
            };
            sql.query_row(ask, [us(at)], topology).optional()
        })
    }

    /// Returns time and digest of all versions, the oldest first.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn topologies(&self) -> Result<Vec<(Wall, String)>, HistoryError> {
        self.run("read topologies of", |sql| {
            let mut ask = sql.prepare("SELECT at_us, digest FROM topology ORDER BY id LIMIT ?1")?;
            ask.query_map([ROWS_MAX], |row| Ok((wall(row.get(0)?), row.get(1)?)))?
                .collect()
        })
    }

    /// Counts a port from these totals on.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn set_baseline(&self, key: SampleKey, at: Wall, totals: &Row) -> Result<(), HistoryError> {
        self.set_baselines(at, &[(key, *totals)])
    }

    /// Counts ports from these totals on, all or none.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn set_baselines(&self, at: Wall, baselines: &[(SampleKey, Row)]) -> Result<(), HistoryError> {
        self.run("set a baseline in", |sql| {
            let all = sql.unchecked_transaction()?;
            {
                let mut set = all.prepare("INSERT OR REPLACE INTO baseline VALUES (?1, ?2, ?3, ?4, ?5)")?;
                for (key, totals) in baselines {
                    let totals: Vec<u8> = totals.iter().flat_map(|total| total.to_le_bytes()).collect();
                    set.execute(params![
                        key.node.to_string(),
                        key.port,
                        key.group.name(),
                        us(at),
                        totals
                    ])?;
                }
            }
            all.commit()
        })
    }

    /// Counts a port from its first reading on again; false if it had no baseline.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn clear_baseline(&self, key: SampleKey) -> Result<bool, HistoryError> {
        self.run("clear a baseline in", |sql| {
            Ok(sql.execute(CLEAR_BASELINE, baseline_of(key))? > 0)
        })
    }

    /// Counts ports from their first reading on again, all or none.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn clear_baselines<'a>(&self, keys: impl IntoIterator<Item = &'a SampleKey>) -> Result<(), HistoryError> {
        self.run("clear a baseline in", |sql| {
            let all = sql.unchecked_transaction()?;
            {
                let mut clear = all.prepare(CLEAR_BASELINE)?;
                for key in keys {
                    clear.execute(baseline_of(*key))?;
                }
            }
            all.commit()
        })
    }

    /// Returns all baselines, in order of the ports. One that cannot be understood is left out.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn baselines(&self) -> Result<Vec<(SampleKey, Wall, Row)>, HistoryError> {
        self.run("read baselines of", |sql| {
            let mut ask = sql.prepare("SELECT node, port, counters, at_us, totals FROM baseline ORDER BY 1, 2, 3")?;
            let rows = ask.query_map([], baseline)?.collect::<rusqlite::Result<Vec<_>>>()?;
            Ok(rows.into_iter().flatten().collect())
        })
    }

    /// Removes events, cleared alarms and topology versions that ended before a time; returns how many rows. The
    /// topology in force, active alarms and baselines stay.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn prune(&self, before: Wall) -> Result<usize, HistoryError> {
        self.run("remove old rows of", |sql| {
            let all = sql.unchecked_transaction()?;
            let before = us(before);
            let mut removed = all.execute("DELETE FROM event WHERE at_us < ?1", [before])?;
            removed += all.execute("DELETE FROM alarm WHERE cleared_us < ?1", [before])?;
            removed += all.execute(
                "DELETE FROM topology WHERE id < (SELECT max(id) FROM topology WHERE at_us < ?1)",
                [before],
            )?;
            all.commit()?;
            Ok(removed)
        })
    }
}

fn failure(path: &Path, operation: &'static str, error: &rusqlite::Error) -> HistoryError {
    let (path, what) = (path.to_owned(), error.to_string());
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => HistoryError::ForeignDatabase { path, what },
        Some(ErrorCode::DatabaseCorrupt) => HistoryError::DamagedDatabase { path, what },
        code => HistoryError::Database {
            operation,
            path,
            what,
            is_full: code == Some(ErrorCode::DiskFull),
        },
    }
}

/// Microseconds since the Unix epoch, as SQLite's integers have them.
pub(super) fn us(at: Wall) -> i64 {
    i64::try_from(at.0 / 1_000).unwrap_or(i64::MAX)
}

pub(super) fn wall(us: i64) -> Wall {
    Wall(u64::try_from(us).unwrap_or(0).saturating_mul(1_000))
}

fn baseline_of(key: SampleKey) -> (String, u8, &'static str) {
    (key.node.to_string(), key.port, key.group.name())
}

fn columns(subject: Subject) -> (Option<String>, Option<u8>) {
    (subject.node.map(|node| node.to_string()), subject.port)
}

/// Reads time, code, severity, node, port and text from a column on.
fn entry(row: &SqlRow<'_>, from: usize) -> rusqlite::Result<Entry> {
    let node: Option<String> = row.get(from + 3)?;
    Ok(Entry {
        at: wall(row.get(from)?),
        code: row.get(from + 1)?,
        severity: match row.get(from + 2)? {
            0 => Severity::Info,
            1 => Severity::Warning,
            _ => Severity::Critical,
        },
        subject: Subject {
            node: node.and_then(|node| node.parse().ok()),
            port: row.get(from + 4)?,
        },
        text: row.get(from + 5)?,
    })
}

fn baseline(row: &SqlRow<'_>) -> rusqlite::Result<Option<(SampleKey, Wall, Row)>> {
    let (node, port): (String, u8) = (row.get(0)?, row.get(1)?);
    let (group, at, bytes): (String, i64, Vec<u8>) = (row.get(2)?, row.get(3)?, row.get(4)?);
    let mut totals = [0; WIDEST];
    for (total, bytes) in totals.iter_mut().zip(bytes.chunks_exact(8)) {
        *total = bytes.first_chunk().copied().map_or(0, u64::from_le_bytes);
    }
    let key = node
        .parse::<Guid>()
        .ok()
        .zip(group_of(&group))
        .map(|(node, group)| SampleKey { node, port, group });
    Ok(key.map(|key| (key, wall(at), totals)))
}
