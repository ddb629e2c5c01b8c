//! Alarms, in SQLite: those in force, with their acknowledgements, and those that have ended.

use rusqlite::{Row as SqlRow, params};
use selvedge_telemetry::alarm::{AlarmId, Ended, Level, Subject};
use selvedge_telemetry::{End, Wall};

use crate::database::{Database, ROWS_MAX, us, wall};
use crate::{HistoryError, Severity};

/// The table. One alarm of a port and subject is in force at most.
pub(super) const TABLE: &str = "
CREATE TABLE alarm (
    id INTEGER PRIMARY KEY, node TEXT NOT NULL, port INTEGER NOT NULL, about TEXT NOT NULL, peer_node TEXT,
    peer_port INTEGER, severity INTEGER NOT NULL, evidence TEXT NOT NULL, clears TEXT NOT NULL,
    raised_us INTEGER NOT NULL, last_us INTEGER NOT NULL, acknowledged_us INTEGER, acknowledged_by TEXT, note TEXT,
    cleared_us INTEGER, why TEXT);
CREATE UNIQUE INDEX alarm_active ON alarm (node, port, about) WHERE cleared_us IS NULL;
CREATE INDEX alarm_cleared ON alarm (cleared_us);
";

const COLUMNS: &str = "node, port, about, peer_node, peer_port, severity, evidence, clears, raised_us, last_us, \
                       acknowledged_us, acknowledged_by, note, cleared_us, why";

/// A stored alarm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Port and subject.
    pub id: AlarmId,
    /// The other end of the link, if it is known.
    pub peer: Option<End>,
    /// Level of the alarm.
    pub level: Level,
    /// What was measured, against which threshold.
    pub evidence: String,
    /// What clears the alarm.
    pub clears: String,
    /// When the alarm began.
    pub raised: Wall,
    /// When there was evidence last.
    pub last: Wall,
    /// Set if an operator has acknowledged it.
    pub acknowledged: Option<Acknowledgement>,
    /// When the alarm ended, and why; `None`: it is in force.
    pub cleared: Option<(Wall, Ended)>,
}

/// An operator has seen an alarm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// When the operator acknowledged it.
    pub at: Wall,
    /// The operator.
    pub by: String,
    /// What the operator wrote; may be empty.
    pub note: String,
}

impl Database {
    /// Stores alarms as they are now, all or none. One that is in force already keeps its begin.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn put_alarms(&self, alarms: &[Alarm]) -> Result<(), HistoryError> {
        self.run("store alarms in", |sql| {
            let all = sql.unchecked_transaction()?;
            {
                let mut put = all.prepare(&format!(
                    "INSERT INTO alarm ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, \
                     NULL, NULL) ON CONFLICT (node, port, about) WHERE cleared_us IS NULL DO UPDATE SET \
                     peer_node = excluded.peer_node, peer_port = excluded.peer_port, severity = excluded.severity, \
                     evidence = excluded.evidence, clears = excluded.clears, last_us = excluded.last_us, \
                     acknowledged_us = excluded.acknowledged_us, acknowledged_by = excluded.acknowledged_by, \
                     note = excluded.note"
                ))?;
                let mut end = all.prepare(
                    "UPDATE alarm SET cleared_us = ?4, why = ?5 WHERE node = ?1 AND port = ?2 AND about = ?3 \
                     AND cleared_us IS NULL",
                )?;
                for alarm in alarms {
                    let AlarmId { at, subject } = alarm.id;
                    let (node, about) = (at.node.to_string(), subject.name());
                    let ack = alarm.acknowledged.as_ref();
                    put.execute(params![
                        node,
                        at.port,
                        about,
                        alarm.peer.map(|peer| peer.node.to_string()),
                        alarm.peer.map(|peer| peer.port),
                        severity(alarm.level) as u8,
                        alarm.evidence,
                        alarm.clears,
                        us(alarm.raised),
                        us(alarm.last),
                        ack.map(|ack| us(ack.at)),
                        ack.map(|ack| &ack.by),
                        ack.map(|ack| &ack.note),
                    ])?;
                    if let Some((at_time, why)) = alarm.cleared {
                        end.execute(params![node, at.port, about, us(at_time), why.name()])?;
                    }
                }
            }
            all.commit()
        })
    }

    /// Returns the alarms that are in force, in order of ports. One that this version does not know is left out.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn alarms(&self) -> Result<Vec<Alarm>, HistoryError> {
        self.run("read alarms of", |sql| {
            let ask = format!("SELECT {COLUMNS} FROM alarm WHERE cleared_us IS NULL ORDER BY 1, 2, 3 LIMIT ?1");
            let rows = sql
                .prepare(&ask)?
                .query_map([ROWS_MAX], alarm)?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            Ok(rows.into_iter().flatten().collect())
        })
    }

    /// Returns the alarms that ended in a range of time, the latest first, up to 100,000. One that this version does
    /// not know is left out.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn ended_alarms(&self, (from, to): (Wall, Wall)) -> Result<Vec<Alarm>, HistoryError> {
        self.run("read alarms of", |sql| {
            let ask = format!(
                "SELECT {COLUMNS} FROM alarm WHERE cleared_us BETWEEN ?1 AND ?2 ORDER BY cleared_us DESC, id DESC \
                 LIMIT ?3"
            );
            let range = params![us(from), us(to), ROWS_MAX];
            let rows = sql
                .prepare(&ask)?
                .query_map(range, alarm)?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            Ok(rows.into_iter().flatten().collect())
        })
    }
}

const fn severity(level: Level) -> Severity {
    match level {
        Level::Info => Severity::Info,
        Level::Warning => Severity::Warning,
        Level::Critical => Severity::Critical,
    }
}

/// Reads the columns of [`COLUMNS`].
fn alarm(row: &SqlRow<'_>) -> rusqlite::Result<Option<Alarm>> {
    let end = |node: Option<String>, port: Option<u8>| {
        let node = node?.parse().ok()?;
        Some(End { node, port: port? })
    };
    let about: String = row.get(2)?;
    let at = end(row.get(0)?, row.get(1)?);
    let (Some(at), Some(subject)) = (at, Subject::named(&about)) else {
        return Ok(None);
    };
    let acknowledged: Option<i64> = row.get(10)?;
    let by: Option<String> = row.get(11)?;
    let note: Option<String> = row.get(12)?;
    let cleared: Option<i64> = row.get(13)?;
    let why: Option<String> = row.get(14)?;
    Ok(Some(Alarm {
        id: AlarmId { at, subject },
        peer: end(row.get(3)?, row.get(4)?),
        level: match row.get(5)? {
            0 => Level::Info,
            1 => Level::Warning,
            _ => Level::Critical,
        },
        evidence: row.get(6)?,
        clears: row.get(7)?,
        raised: wall(row.get(8)?),
        last: wall(row.get(9)?),
        acknowledged: acknowledged.map(|at| Acknowledgement {
            at: wall(at),
            by: by.unwrap_or_default(),
            note: note.unwrap_or_default(),
        }),
        cleared: cleared.map(|at| {
            let why = why.as_deref().and_then(Ended::named);
            (wall(at), why.unwrap_or(Ended::Below))
        }),
    }))
}
