//! Configuration keys about the sampling of counters.

use std::time::Duration;

use crate::keys::millis;
use crate::{Key, Value};

const DAY_MS: u64 = 86_400_000;

/// Whether a master samples.
pub const ENABLED: Key = Key {
    section: "telemetry",
    name: "enabled",
    want: "true or false",
    doc: "Read the counters of all ports while this manager is master, in slots aligned to the wall clock. No counter \
        is ever reset. SMPs and answers to hosts are sent before these requests.",
    set: |s, v| {
        s.telemetry.enabled = v.bool()?;
        Some(())
    },
    show: |s| Some(Value::Bool(s.telemetry.enabled)),
};

/// Interval of data and packets.
pub const INTERVAL: Key = interval!(
    "interval_ms",
    interval,
    "Interval of data, packets and PortXmitWait (PortCountersExtended): one request a port and interval."
);

/// Interval of errors.
pub const ERRORS_INTERVAL: Key = interval!(
    "errors_interval_ms",
    errors_interval,
    "Interval of error counters (PortCounters): one request a switch, and one a port where the sum of all ports grew. \
        Every 20th interval each port is read."
);

/// Interval of details.
pub const DETAIL_INTERVAL: Key = Key {
    section: "telemetry",
    name: "detail_interval_ms",
    want: "100 to 86400000 milliseconds, or 0 for never",
    doc: "Interval of PortRcvErrorDetails, PortXmitDiscardDetails, PortVLXmitWaitCounters and SwPortVLCongestion, \
        where agents have them: up to four requests a port.",
    set: |s, v| {
        let ms = v.int_up_to(DAY_MS).filter(|&ms| ms == 0 || ms >= 100)?;
        s.telemetry.detail_interval = (ms > 0).then(|| Duration::from_millis(ms));
        Some(())
    },
    show: |s| Some(s.telemetry.detail_interval.map_or(Value::Int(0), millis)),
};

/// Interval of cable information.
pub const CABLE_INTERVAL: Key = Key {
    section: "telemetry",
    name: "cable_interval_ms",
    want: "1000 to 86400000 milliseconds, or 0 for never",
    doc: "Interval of CableInfo: vendor, serial number, temperature and optical power of cables. It is also read when \
        a link comes up. Only agents of emulated fabrics have it.",
    set: |s, v| {
        let ms = v.int_up_to(DAY_MS).filter(|&ms| ms == 0 || ms >= 1_000)?;
        s.telemetry.cable_interval = (ms > 0).then(|| Duration::from_millis(ms));
        Some(())
    },
    show: |s| Some(s.telemetry.cable_interval.map_or(Value::Int(0), millis)),
};

/// Which ends of links are read.
pub const ENDS: Key = Key {
    section: "telemetry",
    name: "ends",
    want: "\"both\" or \"one\"",
    doc: "Ends of each link that are read. one: half the requests; data and packets of the other end follow from this \
        one and are marked as derived. For ten minutes after an error both ends are read.",
    set: |s, v| {
        s.telemetry.is_one_end = match v.text()? {
            "both" => false,
            "one" => true,
            _ => return None,
        };
        Some(())
    },
    show: |s| {
        let ends = if s.telemetry.is_one_end { "one" } else { "both" };
        Some(Value::Text(ends.to_owned()))
    },
};

/// Most requests in flight.
pub const WINDOW: Key = count!(
    "telemetry",
    "window",
    telemetry.window,
    1..=1024,
    "1 to 1024 requests",
    "Requests of the sampler outstanding in all. So many may be in the port's queue before an SMP."
);

/// Most requests in flight to one node.
pub const NODE_WINDOW: Key = count!(
    "telemetry",
    "node_window",
    telemetry.node_window,
    1..=16,
    "1 to 16 requests",
    "Requests of the sampler outstanding at one switch or host. Its agent serves one at a time."
);

/// Time after which a request is repeated.
pub const TIMEOUT: Key = Key {
    section: "telemetry",
    name: "timeout_ms",
    want: "1 to 60000 milliseconds",
    doc: "Time after which a request of the sampler is repeated. A node that stays silent is left alone for 5 s, then \
        for twice as long each time, up to 5 min; the other nodes do not wait for it.",
    set: |s, v| {
        s.telemetry.timeout = Duration::from_millis(v.int_up_to(60_000).filter(|&ms| ms > 0)?);
        Some(())
    },
    show: |s| Some(millis(s.telemetry.timeout)),
};

/// Repeats of a request.
pub const RETRIES: Key = small!(
    "telemetry",
    "retries",
    telemetry.retries,
    0..=15,
    "0 to 15 repeats",
    "Repeats before a request of the sampler has failed."
);

/// Where `/metrics` is served by TCP.
pub const METRICS_LISTEN: Key = Key {
    section: "telemetry",
    name: "metrics_listen",
    want: "an address and port, as \"0.0.0.0:9315\" or \"[::]:9315\"",
    doc: "TCP address at which GET /metrics is served, without encryption or password, to Prometheus. Default: none; \
        the Unix socket serves it in any case.",
    set: |s, v| {
        s.telemetry.metrics_listen = Some(v.text()?.parse().ok()?);
        Some(())
    },
    show: |s| Some(Value::Text(s.telemetry.metrics_listen?.to_string())),
};

/// Whether `/metrics` has guilbaults' names.
pub const GUILBAULTS: Key = Key {
    section: "telemetry",
    name: "metrics_guilbaults",
    want: "true or false",
    doc: "Serve the names of guilbaults/infiniband-exporter at /metrics as well, for its dashboards. The page is twice \
        as large. collect=guilbaults in the URL asks for them alone.",
    set: |s, v| {
        s.telemetry.guilbaults = v.bool()?;
        Some(())
    },
    show: |s| Some(Value::Bool(s.telemetry.guilbaults)),
};

/// Where metrics are written to.
pub const REMOTE_WRITE: Key = Key {
    section: "telemetry",
    name: "remote_write",
    want: "a URL, as \"http://prometheus:9090/api/v1/write\"",
    doc: "A Prometheus, VictoriaMetrics or Mimir that gets the page of /metrics after each slot of data, by remote \
        write 1.0, without encryption or password. Prometheus needs --web.enable-remote-write-receiver. Default: none.",
    set: |s, v| {
        s.telemetry.remote_write = Some(v.text()?.parse().ok()?);
        Some(())
    },
    show: |s| Some(Value::Text(s.telemetry.remote_write.as_ref()?.to_string())),
};
