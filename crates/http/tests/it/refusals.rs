//! Every refusal of the server has the error object, whichever layer refuses.
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use selvedge_api::{Document, Error};
use selvedge_daemon::{EmulationOptions, NoLog, Service, emulate};
use selvedge_http::{Front, Socket};
use selvedge_topology::Spec;

/// An emulated fabric with its API; dropping it stops both.
struct Lab {
    path: PathBuf,
    service: Arc<dyn Service>,
    _front: Front,
}

impl Lab {
    fn new(name: &str) -> Self {
        let Spec::Generated(recipe) = "single:ports=4,hosts=2".parse().unwrap() else {
            unreachable!()
        };
        let fabric = recipe.fabric().unwrap();
        let running = emulate(&fabric, &EmulationOptions::default(), 10, Box::new(NoLog)).unwrap();
        let path = std::env::temp_dir().join(format!("selvedge-refusals-{}-{name}.sock", std::process::id()));
        let service: Arc<dyn Service> = Arc::new(running.emulation.clone());
        let front = Front::open(Some(Socket::bind(&path).unwrap()), Arc::clone(&service)).unwrap();
        Self {
            path,
            service,
            _front: front,
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.service.stop();
    }
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Returns everything that the server sends until it closes.
fn answer(mut stream: UnixStream, request: &[u8]) -> String {
    // A server that refuses early stops reading.
    let _ = stream.write_all(request);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

#[track_caller]
fn check_refusal(answer: &str, status: u16, code: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.to_ascii_lowercase().contains("content-type: application/json"),
        "{head}"
    );
    let error: Document<Error> = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
    assert_eq!(
        (error.schema.as_str(), error.body.code.as_str()),
        ("selvedge.error", code)
    );
    assert!(
        !error.body.message.is_empty() && !error.body.advice.is_empty(),
        "{answer}"
    );
}

#[test]
fn a_wrong_parameter_is_named_with_what_is_right() {
    let lab = Lab::new("parameters");
    for value in ["abc", "-1", "", "18446744073709551616"] {
        let request = format!("GET /api/v1/events?since={value} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let found = answer(connect(&lab.path), request.as_bytes());
        check_refusal(&found, 400, "SLV-API-0002");
        assert!(
            found.contains(&format!("since={value}: want the number of an event")),
            "{found}"
        );
    }
}

#[test]
fn every_refusal_has_the_error_object() {
    let lab = Lab::new("objects");
    let check = |request: &str, status, code| {
        check_refusal(&answer(connect(&lab.path), request.as_bytes()), status, code);
    };
    let get =
        |path: &str, headers: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    let post = |path: &str, headers: &str, body: &str| {
        format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n{body}")
    };
    check("no request at all\r\n\r\n", 400, "SLV-API-0002");
    check("GET /api/v1/status HTTP/7.0\r\n\r\n", 400, "SLV-API-0002");
    check("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "SLV-API-0002");
    check("GET /api/v1/status HTTP/1.1\r\nno header\r\n\r\n", 400, "SLV-API-0002");
    check(&get("/api/v1/events?since=x", ""), 400, "SLV-API-0002");
    check(&get("/api/v2/status", ""), 404, "SLV-API-0001");
    check(&post("/api/v1/fault", "", ""), 411, "SLV-API-0022");
    check(
        &post("/api/v1/fault", "content-length: 1\r\n", "x"),
        400,
        "SLV-API-0002",
    );
    check(
        &post("/api/v1/fault", "content-length: 99999999\r\n", ""),
        413,
        "SLV-API-0023",
    );
    let chunk = format!("10001\r\n{}\r\n0\r\n\r\n", "x".repeat(0x10001));
    check(
        &post("/api/v1/fault", "transfer-encoding: chunked\r\n", &chunk),
        413,
        "SLV-API-0023",
    );
    check(&get(&format!("/{}", "x".repeat(9_000)), ""), 414, "SLV-API-0024");
    check(&get(&format!("/{}", "x".repeat(90_000)), ""), 414, "SLV-API-0024");
    check(
        &post(
            "/api/v1/fault",
            "content-length: 2\r\ncontent-type: image/png\r\n",
            "{}",
        ),
        415,
        "SLV-API-0025",
    );
    check(
        &post(
            "/api/v1/rebalance",
            "content-length: 2\r\ncontent-encoding: gzip\r\n",
            "{}",
        ),
        415,
        "SLV-API-0025",
    );
    check(
        &get("/api/v1/status", &format!("x: {}\r\n", "x".repeat(90_000))),
        431,
        "SLV-API-0026",
    );
    check(&get("/api/v1/status", &"x: y\r\n".repeat(200)), 431, "SLV-API-0026");
    check(&get("/api/v1/plan", ""), 409, "SLV-API-0004");
}

#[test]
fn a_wrong_method_is_told_the_right_one() {
    let lab = Lab::new("methods");
    let check = |method: &str, path: &str, allowed: &[&str]| {
        let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        let answer = answer(connect(&lab.path), request.as_bytes());
        check_refusal(&answer, 405, "SLV-API-0020");
        let allow = answer
            .lines()
            .find_map(|line| line.strip_prefix("allow: "))
            .unwrap_or_default();
        let mut methods: Vec<&str> = allow.split(',').map(str::trim).collect();
        methods.sort_unstable();
        assert_eq!(methods, allowed, "{method} {path}");
    };
    check("DELETE", "/api/v1/status", &["GET", "HEAD"]);
    check("POST", "/api/v1/ports", &["GET", "HEAD"]);
    check("GET", "/api/v1/fault", &["POST"]);
    check("PUT", "/api/v1/policy/reload", &["POST"]);
}

#[test]
fn a_request_that_does_not_come_is_given_up() {
    let lab = Lab::new("late");
    // In parallel, as each takes the whole time-out.
    let late = [
        "GET /api/v1/status HTTP/1.1\r\nhost",
        "POST /api/v1/fault HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{",
        "POST /api/v1/fault HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n64\r\n{",
    ];
    let mut waiting: Vec<UnixStream> = Vec::new();
    for request in late {
        let mut stream = connect(&lab.path);
        stream.write_all(request.as_bytes()).unwrap();
        waiting.push(stream);
    }
    for stream in waiting {
        check_refusal(&answer(stream, b""), 408, "SLV-API-0021");
    }
}

#[test]
fn several_requests_of_one_connection_are_answered() {
    let lab = Lab::new("kept");
    let one = "GET /api/v1/fabric HTTP/1.1\r\nhost: x\r\n\r\n";
    let last = "GET /api/v1/nodes HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answer = answer(connect(&lab.path), format!("{one}{one}{last}").as_bytes());
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 3, "{answer}");
    assert_eq!(answer.matches("\"schema\":\"selvedge.fabric\"").count(), 2);
    // A bad request after good ones gets the object, too.
    let answer = self::answer(connect(&lab.path), format!("{one}\0\0\0 bad\r\n\r\n").as_bytes());
    let (_, refusal) = answer.split_once("}HTTP/1.1").unwrap();
    check_refusal(&format!("HTTP/1.1{refusal}"), 400, "SLV-API-0002");
}
