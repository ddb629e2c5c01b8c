//! Configuration keys about stored counters.

use std::path::PathBuf;
use std::time::Duration;

use crate::keys::millis;
use crate::{Key, Value};

const DAY_MS: u64 = 86_400_000;
const DAY_S: u64 = 86_400;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Whether counters are stored.
pub const HISTORY: Key = Key {
    section: "telemetry",
    name: "history",
    want: "true or false",
    doc: "Store sampled counters, and events and topology versions, if there is a folder for them.",
    set: |s, v| {
        s.history.enabled = v.bool()?;
        Some(())
    },
    show: |s| Some(Value::Bool(s.history.enabled)),
};

/// The folder.
pub const FOLDER: Key = Key {
    section: "telemetry",
    name: "history_dir",
    want: "a path; relative ones start at the configuration file's folder",
    doc: "Folder of stored counters. Default: history in the state folder; without one nothing is stored.",
    set: |s, v| {
        s.history.folder = Some(PathBuf::from(v.text().filter(|path| !path.is_empty())?));
        Some(())
    },
    show: |s| Some(Value::Text(s.history.folder.as_ref()?.display().to_string())),
};

/// Distance of stored samples.
pub const INTERVAL: Key = Key {
    section: "telemetry",
    name: "history_interval_ms",
    want: "100 to 86400000 milliseconds",
    doc: "The first sample of each interval of this length is stored. Totals are exact at any length; a longer one hides \
        short bursts.",
    set: |s, v| {
        s.history.interval = Duration::from_millis(v.int_up_to(DAY_MS).filter(|&ms| ms >= 100)?);
        Some(())
    },
    show: |s| Some(millis(s.history.interval)),
};

/// How long files are kept.
pub const DAYS: Key = Key {
    section: "telemetry",
    name: "history_days",
    want: "1 to 36500 days",
    doc: "Stored counters and events are kept for so long.",
    set: |s, v| {
        let days = v.int_up_to(36_500).filter(|&days| days > 0)?;
        s.history.keep = Duration::from_secs(days * DAY_S);
        Some(())
    },
    show: |s| Some(Value::Int(s.history.keep.as_secs() / DAY_S)),
};

/// Room for files.
pub const LIMIT: Key = Key {
    section: "telemetry",
    name: "history_max_gib",
    want: "1 to 1048576 GiB",
    doc: "Room for files of stored counters; when it is used up, the oldest are removed. Events and topology versions \
        may take a sixteenth of it more.",
    set: |s, v| {
        s.history.bytes_max = v.int_up_to(1 << 20).filter(|&gib| gib > 0)? * GIB;
        Some(())
    },
    show: |s| Some(Value::Int(s.history.bytes_max / GIB)),
};

/// Memory for the window.
pub const WINDOW: Key = Key {
    section: "telemetry",
    name: "history_window_mib",
    want: "0 to 1048576 MiB",
    doc: "Memory for every sample of the last hour. When it is used up, less than an hour is kept; 0: none is.",
    set: |s, v| {
        s.history.window_bytes_max = v.int_up_to(1 << 20)? * MIB;
        Some(())
    },
    show: |s| Some(Value::Int(s.history.window_bytes_max / MIB)),
};

/// Name of the fabric.
pub const FABRIC: Key = Key {
    section: "telemetry",
    name: "history_fabric",
    want: "a name of 1 to 100 characters",
    doc: "Name of the fabric in stored files; a folder with another name in it is not touched. Default: the GUID of the \
        manager's own port.",
    set: |s, v| {
        let is_name = |name: &&str| (1..=100).contains(&name.chars().count()) && !name.chars().any(char::is_control);
        s.history.fabric = Some(v.text().filter(|name| is_name(name))?.to_owned());
        Some(())
    },
    show: |s| Some(Value::Text(s.history.fabric.clone()?)),
};
