//! Counters of the local host's adapters that no MAD shows: `hw_counters` of Linux, such as retries that timed out.

use core::fmt::{self, Write};

use selvedge_types::Guid;

use crate::prometheus::{Kind, Quoted, TextFormat, declare};

/// A counter of a port of the local host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostCounter {
    /// Name of the device in the system, such as `mlx5_0`. A virtual function has a device of its own.
    pub device: String,
    /// The device's node GUID; `None`: the system does not show it.
    pub node: Option<Guid>,
    /// The port.
    pub port: u8,
    /// Name of the counter, such as `local_ack_timeout_err`.
    pub name: String,
    /// Its value.
    pub value: u64,
}

/// Files below `hw_counters` that count nothing. Source: Linux `ib_core`: for how long values are kept.
const NO_COUNTERS: [&str; 1] = ["lifespan"];

/// Returns the counter in a file; `None`: the file has no counter. A name that Prometheus does not know how to show, or
/// a text that is no number, is left out: new counters must not take the others away.
#[must_use]
pub fn read(name: &str, text: &str) -> Option<u64> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_counter = !NO_COUNTERS.contains(&name) && !name.is_empty() && name.chars().all(is_plain);
    text.trim().parse().ok().filter(|_| is_counter)
}

/// Returns a node GUID as Linux shows it: `0c42:a103:0065:5a1e`.
#[must_use]
pub fn guid(text: &str) -> Option<Guid> {
    let digits: String = text.trim().split(':').collect();
    let number = u64::from_str_radix(&digits, 16).ok()?;
    (digits.len() == 16 && number != 0).then_some(Guid(number))
}

/// Writes the counters as a metric.
pub fn write(out: &mut impl Write, format: TextFormat, counters: &[HostCounter]) -> fmt::Result {
    let name = "infiniband_host_hw_counter_total";
    if counters.is_empty() {
        return Ok(());
    }
    declare(
        out,
        format,
        Kind::Counter,
        name,
        "hw_counters of the adapters of the manager's host",
    )?;
    for counter in counters {
        let HostCounter {
            device, port, value, ..
        } = counter;
        let guid = counter.node.map_or_else(String::new, |guid| guid.to_string());
        let (device, of) = (Quoted(device), Quoted(&counter.name));
        writeln!(
            out,
            "{name}{{guid=\"{guid}\",port=\"{port}\",device=\"{device}\",counter=\"{of}\"}} {value}"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_system() {
        assert_eq!(read("rnr_nak_retry_err", "12\n"), Some(12));
        assert_eq!(read("out_of_sequence", "18446744073709551615"), Some(u64::MAX));
        for (name, text) in [
            ("lifespan", "10"),
            ("a", "N/A"),
            ("a", "-1"),
            ("a", ""),
            ("a b", "1"),
            ("", "1"),
        ] {
            assert_eq!(read(name, text), None, "{name:?} {text:?}");
        }
        assert_eq!(guid("0c42:a103:0065:5a1e\n"), Some(Guid(0x0C42_A103_0065_5A1E)));
        for text in [
            "",
            "0c42:a103:0065",
            "0000:0000:0000:0000",
            "0c42:a103:0065:5a1e:0000",
            "zz42:a103:0065:5a1e",
        ] {
            assert_eq!(guid(text), None, "{text}");
        }
    }

    #[test]
    fn the_text_of_prometheus() {
        let counter = HostCounter {
            device: "mlx5_0".to_owned(),
            node: Some(Guid(0x10)),
            port: 1,
            name: "duplicate_request".to_owned(),
            value: 3,
        };
        let mut text = String::new();
        write(&mut text, TextFormat::Prometheus, &[counter]).unwrap();
        let last = text.lines().last().unwrap();
        let want = "infiniband_host_hw_counter_total{guid=\"0x0000000000000010\",port=\"1\",device=\"mlx5_0\",\
                    counter=\"duplicate_request\"} 3";
        assert_eq!(last, want);
        let mut nothing = String::new();
        write(&mut nothing, TextFormat::OpenMetrics, &[]).unwrap();
        assert_eq!(nothing, "");
    }
}
