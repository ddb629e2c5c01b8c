//! A real VictoriaMetrics (Debian's), which takes what we write to it.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use selvedge_telemetry::Wall;
use selvedge_telemetry::exposition::remote_write::{HEADERS, bodies};

use super::page::Page;
use super::server::{free_port, get, now_ns, post, query, wait_for};

/// A VictoriaMetrics with a data folder of its own.
struct Victoria {
    port: u16,
    process: Child,
    folder: PathBuf,
}

impl Victoria {
    fn start() -> Self {
        let port = free_port();
        let folder = std::env::temp_dir().join(format!("selvedge-victoria-{}-{port}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let said = fs::File::create(folder.join("victoria.log")).unwrap();
        let process = Command::new("victoria-metrics")
            .arg(format!("-storageDataPath={}", folder.join("data").display()))
            .arg(format!("-httpListenAddr=127.0.0.1:{port}"))
            // It shows no sample of the last 30 s otherwise.
            .arg("-search.latencyOffset=0s")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn();
        let process = process.unwrap_or_else(|error| panic!("victoria-metrics: {error}; run: scripts/setup peers"));
        let victoria = Self { port, process, folder };
        wait_for("VictoriaMetrics to be ready", || {
            get(port, "/health").starts_with("HTTP/1.1 200")
        });
        victoria
    }
}

impl Drop for Victoria {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            let said = fs::read_to_string(self.folder.join("victoria.log"));
            eprintln!("{}", said.unwrap_or_default());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn remote_write_stores_the_same_series_in_victoria_metrics() {
    let victoria = Victoria::start();
    let port = victoria.port;
    let text = Page::at(5).text();
    let bodies = bodies(&text, Wall(now_ns(port)), &[("job", "pushed")], 100).unwrap();
    assert!(bodies.len() > 3);
    for body in &bodies {
        let status = post(port, "/api/v1/write", &HEADERS, body);
        assert!(status.starts_with("HTTP/1.1 204"), "{status}");
    }
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let want = samples.len().to_string();
    wait_for("all series", || {
        let found = query(port, "count({job=\"pushed\"})");
        found.first().is_some_and(|all| all["value"][1] == want.as_str())
    });
    // Each value is the one that was written.
    let mut compared = 0;
    for line in samples
        .iter()
        .filter(|line| line.contains("_transmit_data_bytes_total{"))
    {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let found = query(port, &series.replace('}', ",job=\"pushed\"}"));
        assert_eq!(found.len(), 1, "{series}");
        let stored: f64 = found[0]["value"][1].as_str().unwrap().parse().unwrap();
        // A double holds 53 bits, in both.
        assert_eq!(stored, value.parse::<f64>().unwrap(), "{series}");
        compared += 1;
    }
    assert!(compared > 3, "{compared}");
}
