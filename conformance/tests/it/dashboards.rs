//! The dashboards and rules in `packaging/grafana` find what they ask for at a real manager, in a real Prometheus.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use selvedge_conformance::{PeerLab, until};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

/// All expressions: of the panels of each dashboard, and of the rules, each with its place.
fn expressions() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/grafana");
    let mut found = Vec::new();
    for name in ["health", "performance", "congestion"] {
        let text = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        let dashboard: Value = serde_json::from_str(&text).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let place = format!("{name}: {}", panel["title"]);
                found.push((place, target["expr"].as_str().unwrap().to_owned()));
            }
        }
    }
    let rules = fs::read_to_string(folder.join("rules.yml")).unwrap();
    let rules = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    found.extend(rules.map(|expression| ("rules".to_owned(), expression.to_owned())));
    found
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A Prometheus. It ends with this.
struct Prometheus {
    process: Child,
    port: u16,
    log: PathBuf,
}

impl Prometheus {
    fn start(folder: &Path, port: u16, config: &str) -> Self {
        let file = folder.join("prometheus.yml");
        fs::write(&file, config).unwrap();
        let log = folder.join("prometheus.log");
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--web.enable-remote-write-receiver")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn();
        let process = process.unwrap_or_else(|error| panic!("prometheus: {error}; run: scripts/setup peers"));
        Self { process, port, log }
    }

    fn get(&self, path: &str) -> String {
        let mut answer = Vec::new();
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            // HTTP/1.0: the body is not in chunks.
            let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
            let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
            let _ = stream
                .write_all(request.as_bytes())
                .and_then(|()| stream.read_to_end(&mut answer));
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        answer
            .split_once("\r\n\r\n")
            .map_or_else(String::new, |(_, body)| body.to_owned())
    }

    /// The series that an expression returns now; `None`: Prometheus does not answer yet.
    fn query(&self, expression: &str) -> Option<Vec<Value>> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        let encoded: String = expression
            .bytes()
            .map(|byte| match plain(byte) {
                true => char::from(byte).to_string(),
                false => format!("%{byte:02X}"),
            })
            .collect();
        let answer = self.get(&format!("/api/v1/query?query={encoded}"));
        let answer: Value = serde_json::from_str(&answer).ok()?;
        assert_ne!(answer["status"], "error", "{expression}: {answer}");
        Some(answer["data"]["result"].as_array()?.clone())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Load for which links are full, and errors of each kind that a panel shows.
const FAULTS: [&str; 9] = [
    "load incast:H-0 100%",
    "errors S-L1-1[3] symbol 20/s",
    "errors H-1 symbol 20/s",
    "errors S-L1-1[3] link-recovery 1/s",
    "errors S-L1-1[3] link-downed 1/s",
    "errors S-L1-1[3] rcv 20/s",
    "errors S-L1-1[3] xmit-discards 50/s",
    "errors S-L1-1[3] link-integrity 1/s",
    "cut S-L1-2[3]",
];

/// Returns an expression for the series alone that were scraped, as at a site that does not write.
fn scraped(expression: &str) -> String {
    let mut with_job = String::new();
    let mut rest = expression;
    while let Some(at) = rest.find("infiniband_") {
        let name_len = rest[at..]
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(rest.len() - at);
        with_job.push_str(&rest[..at + name_len]);
        rest = &rest[at + name_len..];
        match rest.strip_prefix('{') {
            Some(labels) => {
                with_job.push_str("{job=\"selvedge-scraped\",");
                rest = labels;
            }
            None => with_job.push_str("{job=\"selvedge-scraped\"}"),
        }
    }
    with_job + rest
}

/// Each panel and each rule returns data from the `/metrics` of a running manager, and the same series come by remote
/// write.
#[test]
fn dashboards_find_what_they_ask_for_at_a_manager() {
    let lab = PeerLab::new().unwrap();
    let (ours, theirs) = (free_port(), free_port());
    let settings = lab.folder().join("selvedge.toml");
    let text = format!(
        "[telemetry]\ninterval_ms = 1000\nerrors_interval_ms = 1000\nmetrics_listen = \"127.0.0.1:{ours}\"\n\
         remote_write = \"http://127.0.0.1:{theirs}/api/v1/write\"\n"
    );
    fs::write(&settings, text).unwrap();
    let socket = lab.folder().join("dashboards.sock");
    let (settings, socket) = (settings.to_str().unwrap(), socket.to_str().unwrap());
    let fabric = "mport:m=4,n=2";
    let _manager = lab
        .start_selvedge(&["run", "--fabric", fabric, "--config", settings, "--socket", socket])
        .unwrap();
    until("slots", LIMIT, String::new, || {
        let said = lab.selvedge(&["telemetry", "status", "--json", "--socket", socket])?;
        let status: Option<Value> = serde_json::from_str(&said.stdout).ok();
        let slots = status.and_then(|status| status["classes"][0]["slots"].as_u64());
        Ok(slots.filter(|slots| *slots >= 2))
    })
    .unwrap();
    for fault in FAULTS {
        let said = lab.selvedge(&["fault", fault, "--socket", socket]).unwrap();
        assert!(said.status.success(), "{fault}: {} {}", said.stdout, said.stderr);
    }
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- {{job_name: selvedge-scraped, static_configs: \
         [{{targets: ['127.0.0.1:{ours}']}}]}}\n"
    );
    let prometheus = Prometheus::start(lab.folder(), theirs, &config);
    let log = || fs::read_to_string(&prometheus.log).unwrap_or_default();
    let all = expressions();
    assert!(all.len() >= 30, "{}", all.len());
    // Both ways at once would give each series twice, which no panel expects: the series differ by their job.
    for job in ["selvedge-scraped", "selvedge"] {
        let what = format!("infiniband_port_transmit_wait_ratio{{job=\"{job}\"}}");
        until(&what, LIMIT, log, || {
            Ok(prometheus.query(&what).filter(|found| !found.is_empty()))
        })
        .unwrap();
    }
    for (place, expression) in &all {
        let asked = scraped(expression);
        until(&format!("{place}: {asked}"), LIMIT, log, || {
            Ok(prometheus.query(&asked).filter(|found| !found.is_empty()))
        })
        .unwrap();
    }
    // What was written has the same series as what was scraped.
    let count = |job: &str| {
        let expression =
            format!("count(count by (__name__, guid, port) ({{job=\"{job}\", __name__=~\"infiniband_.*\"}}))");
        let found = prometheus.query(&expression)?;
        found.first()?["value"][1].as_str().map(ToOwned::to_owned)
    };
    until("the same series by remote write", LIMIT, log, || {
        let both = (count("selvedge"), count("selvedge-scraped"));
        Ok((both.0.is_some() && both.0 == both.1).then_some(()))
    })
    .unwrap();
}
