//! `selvedge status events`: earlier events, and further ones as they happen.

use std::time::{Duration, SystemTime};

use clap::Args;
use selvedge_api::{Document, Event, EventQuery, Events, Severity};
use selvedge_daemon::utc_text;
use selvedge_http::Client;

use crate::exit::{CliError, Exit};
use crate::out::{Out, note};
use crate::tables;
use crate::times::When;

/// How often a running manager is asked for new events. An answer without events takes less than a millisecond.
const POLL: Duration = Duration::from_millis(500);

/// Which events are shown.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct EventArgs {
    /// Events after number N, or from a time on: 90s, 10m, 2h or 3d ago, or a UTC date, as 2026-03-30T12:34
    #[arg(long, value_name = "N|TIME", value_parser = since)]
    since: Option<Since>,
    /// Events of this severity or above it: info, warning or error
    #[arg(long, value_name = "LEVEL")]
    severity: Option<Severity>,
    /// Go on and print each new event as it happens; --json prints an object a line
    #[arg(long)]
    follow: bool,
}

/// The first event to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    /// The first event after this number.
    Number(u64),
    /// The first event at or after this time.
    Time(When),
}

fn since(text: &str) -> Result<Since, String> {
    if let Ok(number) = text.parse() {
        return Ok(Since::Number(number));
    }
    When::read(text).map(Since::Time).ok_or_else(|| {
        "want the number of an event, a time ago as 90s, 10m, 2h or 3d, or a UTC date as 2026-03-30T12:34:56Z"
            .to_owned()
    })
}

impl EventArgs {
    fn query(self) -> EventQuery {
        let (number, since_ms) = match self.since {
            Some(Since::Number(number)) => (number, None),
            Some(Since::Time(when)) => (0, Some(when.unix_ms(SystemTime::now()))),
            None => (0, None),
        };
        EventQuery {
            since: number,
            since_ms,
            severity: self.severity,
        }
    }

    /// Refuses the flags of events if something other than events is shown.
    pub fn none(self) -> Result<(), CliError> {
        if self.since.is_none() && self.severity.is_none() && !self.follow {
            return Ok(());
        }
        let what = "--since, --severity and --follow belong to 'selvedge status events'".to_owned();
        Err(CliError::Usage { what })
    }

    /// Prints events.
    pub fn show(self, client: &Client, out: &mut Out) -> Result<Exit, CliError> {
        let query = self.query();
        if self.follow {
            return follow(client, out, query);
        }
        let events: Events = client.select("events", &query.parameters())?;
        note_dropped(&events);
        match out.format().json {
            true => out.document(events)?,
            false => out.grid(&tables::events(&events))?,
        }
        Ok(Exit::Good)
    }
}

/// Reports on standard error that the list has a gap.
fn note_dropped(events: &Events) {
    if events.dropped > 0 {
        let dropped = events.dropped;
        note(format!(
            "{dropped} older events are no longer stored; daemon.event_ring sets how many are"
        ));
    }
}

/// Prints events until the manager ends, or until the reader of the output closes it.
fn follow(client: &Client, out: &mut Out, mut query: EventQuery) -> Result<Exit, CliError> {
    if out.format().csv {
        let none = Events {
            last: 0,
            dropped: 0,
            events: Vec::new(),
        };
        out.write(&tables::events(&none).csv())?;
    }
    loop {
        let events: Events = client.select("events", &query.parameters())?;
        // A manager that has started again counts from 1 again.
        if events.last < query.since {
            query.since = 0;
            continue;
        }
        query.since = events.last;
        note_dropped(&events);
        print(out, events)?;
        std::thread::park_timeout(POLL);
    }
}

fn print(out: &mut Out, events: Events) -> Result<(), CliError> {
    if out.format().csv {
        out.write(&tables::events(&events).csv_rows())?;
        return out.flush();
    }
    for event in events.events {
        match out.format().json {
            true => {
                let line = Document::new(event).to_json();
                out.write(&(line + "\n"))?;
            }
            false => out.line(line(&event))?,
        }
    }
    out.flush()
}

/// Returns the line of an event, as in the log.
fn line(event: &Event) -> String {
    let (time, severity) = (utc_text(event.time_ms), event.severity);
    format!("{time} {severity:<7} {} {}", event.code, event.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_selected_by_number_or_time() {
        let check = |text: &str, want: Since| assert_eq!(since(text), Ok(want), "{text}");
        check("17", Since::Number(17));
        check("90s", Since::Time(When::Ago(Duration::from_secs(90))));
        check("1970-01-01T00:01Z", Since::Time(When::At(60_000)));
        assert!(since("yesterday").is_err());
    }
}
