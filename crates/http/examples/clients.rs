//! Measures the memory that a running manager needs for many concurrent clients.
//!
//! ```text
//! selvedge run --fabric karytree:k=18,n=3 --socket /tmp/fm.sock &
//! cargo run -p selvedge-http --example clients -- /tmp/fm.sock 300 /api/v1/ports
//! ```
//! Start it after the manager has reported SLV-SM-0027: until then, prepared repairs take memory.
//!
//! Prints the manager's resident memory before the requests, at its highest (sampled every 2 ms), and 1, 10 and 60 s
//! after the last answer.

use std::error::Error;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Times after the last answer at which memory is sampled.
const AFTER_S: [u64; 3] = [1, 10, 60];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [socket, clients, path] = &words[..] else {
        return Err("want SOCKET CLIENTS PATH, as /tmp/fm.sock 300 /api/v1/ports".into());
    };
    let (socket, clients): (PathBuf, usize) = (socket.into(), clients.parse()?);
    let peer = UnixStream::connect(&socket).await?.peer_cred()?;
    let process = peer
        .pid()
        .ok_or("the system does not name the process that listens there")?;
    let before = resident_kib(process)?;
    let (highest, is_over) = (Arc::new(AtomicU64::new(before)), Arc::new(AtomicBool::new(false)));
    let watch = std::thread::spawn({
        let (highest, is_over) = (Arc::clone(&highest), Arc::clone(&is_over));
        move || {
            while !is_over.load(Ordering::Relaxed) {
                highest.fetch_max(resident_kib(process).unwrap_or(0), Ordering::Relaxed);
                std::thread::park_timeout(Duration::from_millis(2));
            }
        }
    });
    let start = Instant::now();
    let asked: Vec<_> = (0..clients)
        .map(|_| tokio::spawn(ask(socket.clone(), path.clone())))
        .collect();
    let (mut answered, mut bytes) = (0, 0);
    for one in asked {
        if let Ok(length) = one.await? {
            (answered, bytes) = (answered + 1, bytes + length);
        }
    }
    let took = start.elapsed();
    println!(
        "clients      {clients}, {answered} of them answered with 200 in {:.1} s",
        took.as_secs_f64()
    );
    println!("bytes        {bytes}");
    println!("before       {before} KiB");
    let over = Instant::now();
    for after_s in AFTER_S {
        let wait = Duration::from_secs(after_s).saturating_sub(over.elapsed());
        // No event can end this wait early.
        let _ = timeout(wait, pending::<()>()).await;
        println!("after {after_s:>2} s   {} KiB", resident_kib(process)?);
    }
    is_over.store(true, Ordering::Relaxed);
    let _ = watch.join();
    println!("highest      {} KiB", highest.load(Ordering::Relaxed));
    Ok(())
}

/// Sends one request. Returns the length of the answer.
async fn ask(socket: PathBuf, path: String) -> Result<usize, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut stream = UnixStream::connect(&socket).await.map_err(text)?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(text)?;
    let mut piece = vec![0; 64 << 10];
    let (mut length, mut is_ok) = (0, false);
    loop {
        match stream.read(&mut piece).await.map_err(text)? {
            0 if is_ok => return Ok(length),
            0 => return Err("refused".to_owned()),
            read => {
                is_ok |= length == 0 && piece.starts_with(b"HTTP/1.1 200");
                length += read;
            }
        }
    }
}

/// Returns the resident memory of a process, in KiB.
fn resident_kib(process: i32) -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no VmRSS")?.parse()?)
}
