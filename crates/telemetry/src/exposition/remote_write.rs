//! Requests of Prometheus' remote write 1.0, which VictoriaMetrics, Mimir and Thanos take too.
//!
//! Source: "Prometheus Remote-Write 1.0 specification". A body is a `WriteRequest` in protocol buffers, compressed by
//! snappy's block format. The request has four messages with eight fields, so it is written by hand: a code generator
//! would be larger. The series are those of a page of [`crate::prometheus`], with the same names.

use crate::Wall;

/// Headers of a request. `Content-Type`, `Content-Encoding` and the version have to be as they are.
pub const HEADERS: [(&str, &str); 3] = [
    ("Content-Type", "application/x-protobuf"),
    ("Content-Encoding", "snappy"),
    ("X-Prometheus-Remote-Write-Version", "0.1.0"),
];

/// Most series of one request, unless another number is asked for. Source: Prometheus' own default
/// (`max_samples_per_send`).
pub const SERIES_MAX: usize = 2_000;

/// A line of a page that is no sample.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// SLV-TELEMETRY-0211: a line of an exposition is no sample.
    #[error(
        "SLV-TELEMETRY-0211: line {line} of the exposition is no sample: {found:?}; want name{{label=\"…\"}} value"
    )]
    NoSample {
        /// Number of the line, from 1.
        line: usize,
        /// The line.
        found: String,
    },
}

/// What becomes of writing pages to a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// SLV-TELEMETRY-0221: metrics could not be written to a server. This slot is left out there; the next one is
    /// written as if nothing had happened. Reported once until a slot is written again.
    #[error(
        "SLV-TELEMETRY-0221: the metrics could not be written to {url}: {cause}; its slots are left out there; check \
         telemetry.remote_write and the server"
    )]
    NotWritten {
        /// The server.
        url: String,
        /// Why.
        cause: String,
    },
    /// SLV-TELEMETRY-0222: metrics are written to the server again.
    #[error("SLV-TELEMETRY-0222: the metrics are written to {url} again; {slots} slots are missing there")]
    Again {
        /// The server.
        url: String,
        /// Slots that were not written.
        slots: u64,
    },
}

impl WriteError {
    /// Returns its code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotWritten { .. } => "SLV-TELEMETRY-0221",
            Self::Again { .. } => "SLV-TELEMETRY-0222",
        }
    }

    /// Returns the text without its code.
    #[must_use]
    pub fn text(&self) -> String {
        let whole = self.to_string();
        let text = whole.strip_prefix(self.code()).unwrap_or(&whole);
        text.trim_start_matches([':', ' ']).to_owned()
    }
}

/// A sample of a page.
struct Series {
    /// Labels with the name of the metric among them, in order.
    labels: Vec<(String, String)>,
    value: f64,
}

/// Returns the bodies of the requests that carry a page in Prometheus' text format, each with at most `series_max`
/// series. All samples have the time `at`. `labels` are added to each series, unless it has one of that name: what a
/// scrape would add, such as `job` and `instance`.
pub fn bodies(page: &str, at: Wall, labels: &[(&str, &str)], series_max: usize) -> Result<Vec<Vec<u8>>, PageError> {
    let mut all = Vec::new();
    for (number, line) in page.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let series = parse(line, labels).ok_or_else(|| PageError::NoSample {
            line: number + 1,
            found: line.to_owned(),
        })?;
        all.push(series);
    }
    let at_ms = i64::try_from(at.0 / 1_000_000).unwrap_or(i64::MAX);
    Ok(all.chunks(series_max.max(1)).map(|chunk| body(chunk, at_ms)).collect())
}

fn body(series: &[Series], at_ms: i64) -> Vec<u8> {
    let mut request = Vec::new();
    for series in series {
        let mut message = Vec::new();
        for (name, value) in &series.labels {
            let mut label = Vec::new();
            bytes(&mut label, 1, name.as_bytes());
            bytes(&mut label, 2, value.as_bytes());
            bytes(&mut message, 1, &label);
        }
        let mut sample = Vec::new();
        // Field 1, 64 bits: the value; field 2, varint: the time.
        sample.push(1 << 3 | 1);
        sample.extend(series.value.to_le_bytes());
        sample.push(2 << 3);
        varint(&mut sample, at_ms.cast_unsigned());
        bytes(&mut message, 2, &sample);
        bytes(&mut request, 1, &message);
    }
    snap::raw::Encoder::new()
        .compress_vec(&request)
        .unwrap_or_else(|_| stored(&request))
}

/// Returns a block of snappy that is not compressed. The encoder fails only for more than 4 GiB, which
/// [`bodies`] never has in one request of a sane size.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    varint(&mut block, bytes.len() as u64);
    for literal in bytes.chunks(60) {
        block.push(((literal.len() - 1) << 2) as u8);
        block.extend(literal);
    }
    block
}

/// Writes a field of bytes.
fn bytes(out: &mut Vec<u8>, field: u8, value: &[u8]) {
    out.push(field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend(value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a line of a page.
fn parse(line: &str, extra: &[(&str, &str)]) -> Option<Series> {
    let name_end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(name_end);
    let mut labels = vec![("__name__".to_owned(), name.to_owned())];
    let rest = match rest.strip_prefix('{') {
        Some(rest) => read_labels(rest, &mut labels)?,
        None => rest,
    };
    let value = rest.trim().parse().ok()?;
    for (name, value) in extra {
        if labels.iter().all(|(known, _)| known != name) {
            labels.push(((*name).to_owned(), (*value).to_owned()));
        }
    }
    labels.sort_unstable();
    (!name.is_empty()).then_some(Series { labels, value })
}

/// Reads labels up to the closing brace, and returns what follows.
fn read_labels<'a>(mut rest: &'a str, labels: &mut Vec<(String, String)>) -> Option<&'a str> {
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some(after);
        }
        let (name, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            let (at, c) = chars.next()?;
            match c {
                '"' => break at,
                '\\' => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    c => c,
                }),
                c => value.push(c),
            }
        };
        labels.push((name.to_owned(), value));
        rest = &after[end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body of one series, byte by byte.
    #[test]
    fn a_request_is_what_the_specification_says() {
        let page = "# HELP up x\n# TYPE up gauge\nup{b=\"1\\\"\\n\\\\\",a=\"2\"} 1.5\n";
        let bodies = bodies(page, Wall(5_000_000), &[("a", "9"), ("job", "ib")], 10).expect("a page");
        let found = snap::raw::Decoder::new().decompress_vec(&bodies[0]).expect("snappy");
        let mut want = vec![0x0A, 61, 0x0A, 14, 0x0A, 8];
        want.extend(b"__name__");
        want.extend([0x12, 2]);
        want.extend(b"up");
        want.extend([0x0A, 6, 0x0A, 1, b'a', 0x12, 1, b'2']);
        want.extend([0x0A, 9, 0x0A, 1, b'b', 0x12, 4]);
        want.extend(b"1\"\n\\");
        want.extend([0x0A, 9, 0x0A, 3, b'j', b'o', b'b', 0x12, 2, b'i', b'b']);
        want.extend([0x12, 11, 0x09]);
        want.extend(1.5_f64.to_le_bytes());
        want.extend([0x10, 5]);
        want[1] = (want.len() - 2) as u8;
        assert_eq!(found, want);
        assert_eq!(bodies.len(), 1);
    }

    #[test]
    fn a_stored_block_is_snappy_too() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(snap::raw::Decoder::new().decompress_vec(&stored(&bytes)), Ok(bytes));
    }

    #[test]
    fn series_are_split_into_requests() {
        let page: String = (0..25).map(|i| format!("m{{i=\"{i}\"}} {i}\n")).collect();
        assert_eq!(bodies(&page, Wall(0), &[], 10).map(|bodies| bodies.len()), Ok(3));
        assert_eq!(bodies("", Wall(0), &[], 10).map(|bodies| bodies.len()), Ok(0));
    }

    #[test]
    fn what_is_no_sample_is_refused() {
        for line in [
            "up",
            "{a=\"1\"} 2",
            "up{a=\"1} 2",
            "up{a=1} 2",
            "up{a=\"1\"}",
            "up x",
            "up{a=\"\\",
        ] {
            let error = bodies(line, Wall(0), &[], 10).expect_err(line).to_string();
            assert!(error.starts_with("SLV-TELEMETRY-0211: line 1 "), "{error}");
        }
    }
}
