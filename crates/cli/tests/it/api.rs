//! Tests the API of a real process with many, silent and slow clients, and with commands that hang.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::support::{Lab, Process, wait_for};

/// The default socket of a manager in a lab.
const SOCKET: &str = "selvedge/selvedge.sock";

fn up(lab: &Lab, process: Process) -> Process {
    wait_for("subnet that is up", || (lab.run(&["status"]).code == 0).then_some(()));
    process
}

/// Returns resident memory in KiB.
fn resident_kib(process: &Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn connect(lab: &Lab) -> UnixStream {
    let stream = UnixStream::connect(lab.path(SOCKET)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Memory that 300 clients may briefly cost with 324 hosts. Their list of ports has 0.5 MB, and two answers are built
/// at a time.
const BURST_KIB: u64 = 48 << 10;
/// Memory that they may cost permanently: buffers of connections.
const REST_KIB: u64 = 16 << 10;

#[test]
fn three_hundred_clients_share_what_they_ask_for() {
    let lab = Lab::new("clients");
    let process = up(&lab, lab.start(&["run", "--fabric", "sx6536"]));
    wait_for("repairs", || {
        let status = lab.run(&["status", "--json"]).exits(0).json();
        (status["repairs_ready"] == true).then_some(())
    });
    // Prepared repairs take memory a moment later. Wait for them, to measure the cost of clients only.
    let (mut before, mut since) = (0, Instant::now());
    wait_for("memory at rest", || {
        let now = resident_kib(&process);
        if now.abs_diff(before) > REST_KIB / 32 {
            (before, since) = (now, Instant::now());
        }
        (since.elapsed() > Duration::from_secs(3)).then_some(())
    });
    for path in ["ports", "links", "nodes", "events"] {
        let request = format!("GET /api/v1/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let mut clients: Vec<UnixStream> = (0..300).map(|_| connect(&lab)).collect();
        // All clients have sent their request before the first reads its answer.
        for client in &mut clients {
            client.write_all(request.as_bytes()).unwrap();
        }
        for mut client in clients {
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert!(
                answer.starts_with("HTTP/1.1 200 OK"),
                "{path}: {}",
                &answer[..answer.len().min(300)]
            );
            assert!(answer.ends_with('}'), "{path}: cut off after {} bytes", answer.len());
        }
        let now = resident_kib(&process);
        assert!(now < before + BURST_KIB, "{path}: {before} KiB before, {now} KiB now");
    }
    wait_for("memory that is given back", || {
        (resident_kib(&process) < before + REST_KIB).then_some(())
    });
    process.signal("TERM");
    assert_eq!(process.exit_code(), Some(0));
}

#[test]
fn silent_connections_do_not_block_status() {
    let lab = Lab::new("silent");
    let config = lab.write("fm.toml", "[routing]\nlmc = 0\n");
    let words = [
        "run",
        "--fabric",
        "ring:switches=4,hosts=1",
        "--state",
        "state",
        "--config",
        &config,
    ];
    let process = up(&lab, lab.start_with_descriptors(256, &words));
    let stored = || lab.read("state/guid2lid");
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap().count();
    let starts = [
        "",
        "GET /api/v1/status HTTP/1.1\r\nho",
        "POST /api/v1/fault HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n",
    ];
    for (start, lmc) in starts.into_iter().zip(1..) {
        let mut silent: Vec<UnixStream> = Vec::new();
        for _ in 0..500 {
            let mut stream = connect(&lab);
            // The connection may have been closed for another one, or refused.
            let _ = stream.write_all(start.as_bytes());
            silent.push(stream);
        }
        for _ in 0..20 {
            lab.run(&["status"]).exits(0);
        }
        assert!(descriptors() < 200, "{start:?}: {} descriptors", descriptors());
        // Changes the LIDs, which are stored while the connections stay open.
        let before = stored();
        lab.write("fm.toml", &format!("[routing]\nlmc = {lmc}\n"));
        lab.run(&["reload"]).exits(0);
        wait_for("stored LIDs", || (stored() != before).then_some(()));
        drop(silent);
    }
    process.signal("TERM");
    assert_eq!(process.exit_code(), Some(0));
}

#[test]
fn a_pipe_in_place_of_the_configuration_stops_nothing() {
    let lab = Lab::new("pipe");
    let config = lab.write("fm.toml", "[routing]\nengines = [\"minhop\"]\n");
    let process = up(
        &lab,
        lab.start(&["run", "--fabric", "mport:m=4,n=2", "--config", &config]),
    );
    fs::remove_file(&config).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&config).status().unwrap();
    assert!(made.success());
    for _ in 0..5 {
        process.signal("HUP");
    }
    let told = wait_for("complaint", || {
        let events = lab.run(&["status", "events", "--json"]).exits(0).json();
        let events = events["events"].as_array().unwrap().clone();
        events.into_iter().find(|event| event["code"] == "SLV-DAEMON-0108")
    });
    let text = told["text"].as_str().unwrap();
    assert!(
        text.contains("SLV-CONFIG-0001") && text.contains("it is a FIFO"),
        "{text}"
    );
    lab.run(&["reload"]).exits(2).complains("SLV-CONFIG-0001");
    lab.run(&["status"]).exits(0);
    process.signal("TERM");
    assert_eq!(process.exit_code(), Some(0));
    lab.run(&["config", "check", &config])
        .exits(2)
        .complains("SLV-CONFIG-0001");
}

#[test]
fn files_of_the_process_are_closed_to_others() {
    let lab = Lab::new("modes");
    let run = [
        "run",
        "--fabric",
        "ring:switches=3,hosts=1",
        "--log-file",
        "log",
        "--record",
        "record",
    ];
    let process = up(&lab, lab.start(&run));
    for file in ["log", "record", SOCKET] {
        let mode = fs::metadata(lab.path(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o007, 0, "{file}: {mode:o}");
    }
    process.signal("TERM");
    assert_eq!(process.exit_code(), Some(0));
    lab.write("target", "kept");
    std::os::unix::fs::symlink(lab.path("target"), lab.path("link")).unwrap();
    lab.run(&[
        "run",
        "--fabric",
        "ring:switches=3,hosts=1",
        "--once",
        "--record",
        "link",
    ])
    .exits(2)
    .complains("SLV-DAEMON-0001")
    .complains("symbolic link");
    assert_eq!(lab.read("target"), "kept");
}

#[test]
fn a_record_survives_kill_9() {
    let lab = Lab::new("killed");
    let process = up(&lab, lab.start(&["run", "--fabric", "sx6536", "--record", "record"]));
    wait_for("1,000 lines of the record on the disk", || {
        let printed = lab.run(&["replay", "--print", "record"]);
        (printed.out.contains("received") && printed.out.lines().count() > 1_000).then_some(())
    });
    process.signal("KILL");
    drop(process);
    lab.run(&["replay", "record"]).exits(0).says("every output is the same");
    // A fault just before the kill is in the record, too.
    let process = up(&lab, lab.start(&["run", "--fabric", "sx6536", "--record", "record"]));
    wait_for("repairs", || {
        let status = lab.run(&["status", "--json"]).exits(0).json();
        (status["repairs_ready"] == true).then_some(())
    });
    lab.run(&["fault", "cut", "S-L1-1[19]"]).exits(0);
    wait_for("fault in the record", || {
        let printed = lab.run(&["replay", "--print", "record"]);
        printed.out.contains("Trap").then_some(())
    });
    drop(process);
    lab.run(&["replay", "record"]).exits(0).says("every output is the same");
}
