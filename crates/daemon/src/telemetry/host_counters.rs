//! Reads the `hw_counters` of the local host's adapters, each time that they are shown.

use std::fs;
use std::path::Path;

use selvedge_api::TelemetryCounter;
use selvedge_store::read_text_file;
use selvedge_telemetry::host_counters::{self, HostCounter};
use selvedge_types::Guid;

/// Longest file: a number in decimal.
const FILE_MAX: u64 = 4_096;
/// Most counters that are read: 16 adapters with 127 virtual functions, each with 40 counters.
const COUNTERS_MAX: usize = 100_000;

/// Returns the counters below a folder such as `/sys/class/infiniband`, sorted by device, port and name. What cannot be
/// read is left out: a host without an adapter has none, and a device may be removed at any time.
pub(super) fn read(folder: &Path) -> Vec<HostCounter> {
    let mut found = Vec::new();
    for device in names(folder) {
        let at = folder.join(&device);
        let node = text(&at.join("node_guid")).and_then(|text| host_counters::guid(&text));
        for port in names(&at.join("ports")) {
            let counters = at.join("ports").join(&port).join("hw_counters");
            let Ok(port) = port.parse() else { continue };
            for name in names(&counters) {
                let value = text(&counters.join(&name)).and_then(|text| host_counters::read(&name, &text));
                let Some(value) = value.filter(|_| found.len() < COUNTERS_MAX) else {
                    continue;
                };
                let device = device.clone();
                found.push(HostCounter {
                    device,
                    node,
                    port,
                    name,
                    value,
                });
            }
        }
    }
    found.sort();
    found
}

/// Returns the counters of a port as the API shows them.
pub(super) fn of_port(folder: &Path, node: Guid, port: u8) -> Vec<TelemetryCounter> {
    let all = read(folder).into_iter();
    let own = all.filter(|counter| counter.node == Some(node) && counter.port == port);
    let shown = own.map(|counter| TelemetryCounter {
        name: format!("{}/{}", counter.device, counter.name),
        unit: "events".to_owned(),
        total: counter.value,
        per_s: None,
        since_baseline: None,
    });
    shown.collect()
}

fn text(path: &Path) -> Option<String> {
    read_text_file(path, FILE_MAX).ok()
}

/// Returns the names in a folder; none if it cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_devices_and_virtual_functions() {
        let folder = std::env::temp_dir().join(format!("selvedge-host-counters-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("mlx5_0/node_guid", "0000:0000:0000:0010\n");
        write("mlx5_0/ports/1/hw_counters/out_of_sequence", "5\n");
        write("mlx5_0/ports/1/hw_counters/lifespan", "10\n");
        write("mlx5_0/ports/1/hw_counters/broken", "?\n");
        write("mlx5_0/ports/1/counters/port_xmit_data", "9\n");
        write("mlx5_1/node_guid", "0000:0000:0000:0011\n");
        write("mlx5_1/ports/1/hw_counters/out_of_sequence", "7\n");
        // A device in Ethernet mode, and one without any counter.
        write("mlx5_2/ports/1/hw_counters/rx_write_requests", "1\n");
        write("mlx5_3/node_guid", "0000:0000:0000:0012\n");
        let found = read(&folder);
        let shown: Vec<String> = found
            .iter()
            .map(|of| format!("{} {} {}={}", of.device, of.port, of.name, of.value))
            .collect();
        assert_eq!(
            shown,
            [
                "mlx5_0 1 out_of_sequence=5",
                "mlx5_1 1 out_of_sequence=7",
                "mlx5_2 1 rx_write_requests=1"
            ]
        );
        let own = of_port(&folder, Guid(0x10), 1);
        assert_eq!(
            (own.len(), own[0].name.as_str(), own[0].total),
            (1, "mlx5_0/out_of_sequence", 5)
        );
        assert!(of_port(&folder, Guid(0x10), 2).is_empty());
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read(&folder), []);
    }
}
