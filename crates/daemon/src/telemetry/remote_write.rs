//! Writes the page of `/metrics` to a Prometheus after each slot of data, by remote write 1.0.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use selvedge_api::{MetricsQuery, Severity};
use selvedge_config::HttpUrl;
use selvedge_telemetry::exposition::remote_write::{HEADERS, SERIES_MAX, WriteError, bodies};
use selvedge_telemetry::{Consumer, SlotData, Wall};

use super::sets::producer;
use crate::DaemonError;
use crate::shared::Shared;

/// Longest wait for the connection, and for each part of an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of an answer that are read: its status line is at the beginning.
const ANSWER_BYTES_MAX: u64 = 4_096;

/// Hands each slot of data to a thread. If the thread is still busy with the slot before, the new one is left out:
/// Prometheus then gets fewer samples, but no late ones.
pub(crate) struct RemoteWriter {
    slots: Option<SyncSender<Wall>>,
    /// Set when the thread is to end, in the middle of a page if need be.
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RemoteWriter {
    /// Starts the thread.
    pub(crate) fn start(shared: Arc<Shared>, url: HttpUrl) -> Result<Self, DaemonError> {
        let (slots, begun) = sync_channel(1);
        let ends = Arc::new(AtomicBool::new(false));
        let target = Target {
            shared,
            url,
            ends: Arc::clone(&ends),
        };
        let thread = thread::Builder::new()
            .name("remote-write".to_owned())
            .spawn(move || target.write_all(&begun));
        Ok(Self {
            ends,
            slots: Some(slots),
            thread: Some(thread.map_err(|cause| DaemonError::Thread { cause })?),
        })
    }
}

impl Consumer for RemoteWriter {
    fn take(&mut self, slot: &SlotData) {
        if slot.report.class == 0 {
            let _ = self.slots.as_ref().map(|slots| slots.try_send(slot.begin()));
        }
    }
}

impl Drop for RemoteWriter {
    fn drop(&mut self) {
        self.slots = None;
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Where pages come from, and where they are written to.
struct Target {
    shared: Arc<Shared>,
    url: HttpUrl,
    ends: Arc<AtomicBool>,
}

impl Target {
    fn write_all(&self, slots: &Receiver<Wall>) {
        let Self { shared, url, .. } = self;
        let mut failed = 0_u64;
        for at in slots {
            // No counters: this manager has just lost its role.
            let Some(result) = self.write_page(at) else {
                continue;
            };
            let now = shared.clock.now();
            match result {
                Ok(()) if failed > 0 => {
                    let event = WriteError::Again {
                        url: url.to_string(),
                        slots: failed,
                    };
                    shared.event(now, Severity::Info, event.code(), &event.text());
                    failed = 0;
                }
                Ok(()) => {}
                Err(error) => {
                    failed += 1;
                    if failed == 1 {
                        shared.event(now, Severity::Warning, error.code(), &error.text());
                    }
                }
            }
        }
    }

    /// Writes a page. `None`: there is none.
    fn write_page(&self, at: Wall) -> Option<Result<(), WriteError>> {
        let Self { shared, url, ends } = self;
        let mut page = String::new();
        let metrics = shared.telemetry.metrics(&MetricsQuery::default(), false, at.0).ok()?;
        metrics.write(&mut page).ok()?;
        let instance = producer();
        let labels = [("job", "selvedge"), ("instance", instance.as_str())];
        let failed = |cause: String| WriteError::NotWritten {
            url: url.to_string(),
            cause,
        };
        let bodies = match bodies(&page, at, &labels, SERIES_MAX) {
            Ok(bodies) => bodies,
            Err(error) => return Some(Err(failed(error.to_string()))),
        };
        drop(page);
        for body in &bodies {
            if ends.load(Ordering::Relaxed) {
                return None;
            }
            match post(url, body) {
                Ok(status) if (200..300).contains(&status) => {}
                Ok(404) => {
                    let hint = "it answers with status 404; Prometheus needs --web.enable-remote-write-receiver";
                    return Some(Err(failed(hint.to_owned())));
                }
                Ok(status) => return Some(Err(failed(format!("it answers with status {status}")))),
                Err(error) => return Some(Err(failed(error.to_string()))),
            }
        }
        Some(Ok(()))
    }
}

/// Sends a body, and returns the status of the answer.
fn post(url: &HttpUrl, body: &[u8]) -> io::Result<u16> {
    let addresses = (url.host.as_str(), url.port).to_socket_addrs()?;
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let mut connected = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                connected = Some(stream);
                break;
            }
            Err(error) => last = error,
        }
    }
    let Some(mut stream) = connected else {
        return Err(last);
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = format!("POST {} HTTP/1.1\r\nHost: {}\r\n", url.path, url.authority);
    for (name, value) in HEADERS {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!(
        "User-Agent: selvedge\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    status(&answer).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is no HTTP"))
}

/// Returns the status of an answer. Source: RFC 9112 §4.
fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?.strip_prefix("HTTP/1.")?;
    line.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_in_the_first_line() {
        let check = |answer: &str, want| assert_eq!(status(answer.as_bytes()), want, "{answer}");
        check("HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n", Some(204));
        check("HTTP/1.0 400 Bad Request\r\n\r\nno snappy", Some(400));
        check("HTTP/1.1 200", Some(200));
        check("SSH-2.0-OpenSSH_9.6\r\n", None);
        check("HTTP/1.1 \r\n", None);
        check("", None);
    }
}
