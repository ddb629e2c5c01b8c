//! Prometheus as a process, and the little HTTP that it needs: a server for its scrapes, a client for its API.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::dashboards;
use super::page::Page;

/// Pause between two looks at something that Prometheus does within a few scrapes, and how often it is looked at: 90 s,
/// because other tests share the processor.
const PAUSE: Duration = Duration::from_millis(200);
const LOOKS: usize = 450;

#[track_caller]
pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if is_so() {
            return;
        }
        std::thread::park_timeout(PAUSE);
    }
    panic!("looked {LOOKS} times in vain for {what}");
}

/// A Prometheus with a data folder of its own, which scrapes a server of pages every second. Of the page in
/// OpenMetrics' format it keeps only whether it could read it: every series would be there twice.
pub struct Peer {
    pub port: u16,
    process: Child,
    folder: PathBuf,
    ends: Arc<AtomicBool>,
}

impl Peer {
    pub fn start() -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let pages = serve(Arc::clone(&ends));
        let port = free_port();
        let folder = std::env::temp_dir().join(format!("selvedge-prometheus-{}-{port}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let rules = dashboards::folder().join("rules.yml").canonicalize().unwrap();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{rules:?}]\nscrape_configs:\n\
             - {{job_name: text, metrics_path: /text, static_configs: [{{targets: ['127.0.0.1:{pages}']}}]}}\n\
             - job_name: openmetrics\n  metrics_path: /openmetrics\n  \
             static_configs: [{{targets: ['127.0.0.1:{pages}']}}]\n  \
             metric_relabel_configs: [{{source_labels: [__name__], regex: '.*', action: drop}}]\n"
        );
        let file = folder.join("prometheus.yml");
        fs::write(&file, config).unwrap();
        let said = fs::File::create(folder.join("prometheus.log")).unwrap();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--web.enable-remote-write-receiver")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn();
        let process = process.unwrap_or_else(|error| panic!("prometheus: {error}; run: scripts/setup peers"));
        let peer = Self {
            port,
            process,
            folder,
            ends,
        };
        wait_for("Prometheus to be ready", || {
            get(port, "/-/ready").starts_with("HTTP/1.1 200")
        });
        peer
    }

    /// The wall time of Prometheus, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        now_ns(self.port)
    }

    /// The result of a query at this moment.
    pub fn query(&self, expression: &str) -> Vec<Value> {
        query(self.port, expression)
    }

    pub fn targets(&self) -> String {
        self.get("/api/v1/targets")
    }

    pub fn get(&self, path: &str) -> String {
        body(self.port, path)
    }
}

/// The wall time of a server with Prometheus' API, in nanoseconds.
pub fn now_ns(port: u16) -> u64 {
    let answer: Value = serde_json::from_str(&body(port, "/api/v1/query?query=time()")).unwrap();
    // A scalar for Prometheus, a vector of one element for VictoriaMetrics.
    let result = &answer["data"]["result"];
    let value = result[0].get("value").map_or(&result[1], |value| &value[1]);
    let seconds: f64 = value.as_str().unwrap().parse().unwrap();
    (seconds * 1e9) as u64
}

/// The result of a query at this moment.
pub fn query(port: u16, expression: &str) -> Vec<Value> {
    let answer = body(port, &format!("/api/v1/query?query={}", encoded(expression)));
    let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{expression}: {error}: {answer}"));
    assert_eq!(answer["status"], "success", "{expression}: {answer}");
    answer["data"]["result"].as_array().unwrap().clone()
}

/// The body of an answer; empty if nothing listens.
fn body(port: u16, path: &str) -> String {
    let answer = get(port, path);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        true => chunks(body),
        false => body.to_owned(),
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!(
                "{}",
                fs::read_to_string(self.folder.join("prometheus.log")).unwrap_or_default()
            );
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Serves pages on a thread until `ends`; each is one slot later than the one before. Returns the port.
fn serve(ends: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut slot = 2;
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if ends.load(Ordering::Relaxed) {
                return;
            }
            let Ok(mut stream) = stream else { continue };
            let mut request = [0; 4_096];
            let Ok(length) = stream.read(&mut request) else {
                continue;
            };
            slot += 1;
            let page = Page::at(slot);
            let (kind, text) = match request[..length].starts_with(b"GET /openmetrics") {
                true => (
                    "application/openmetrics-text; version=1.0.0; charset=utf-8",
                    page.openmetrics(),
                ),
                false => ("text/plain; version=0.0.4; charset=utf-8", page.text()),
            };
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                text.len()
            );
            let _ = stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(text.as_bytes()));
        }
    });
    port
}

/// An answer as it came; empty if nothing listens.
pub fn get(port: u16, path: &str) -> String {
    exchange(
        port,
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes(),
    )
}

pub fn post(port: u16, path: &str, headers: &[(&str, &str)], body: &[u8]) -> String {
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n"
    );
    exchange(port, &[head.as_bytes(), body].concat())
}

fn exchange(port: u16, request: &[u8]) -> String {
    let mut answer = Vec::new();
    if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
        let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
        let _ = stream
            .write_all(request)
            .and_then(|()| stream.read_to_end(&mut answer).map(|_| ()));
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Joins the chunks of a body. Source: RFC 9112 §7.1.
fn chunks(mut body: &str) -> String {
    let mut joined = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || rest.len() < size {
            break;
        }
        joined.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    joined
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

/// Runs promtool. Returns its exit code, and what it said.
pub fn promtool(arguments: &[&str], input: &str) -> (Option<i32>, String) {
    let started = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut process = started.unwrap_or_else(|error| panic!("promtool: {error}; run: scripts/setup peers"));
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = process.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}
