//! Writes the page of `/metrics` to a Prometheus after each slot of data, by remote write 1.0.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use selvedge_api::{MetricsQuery, Severity};
use selvedge_config::HttpUrl;
use selvedge_telemetry::exposition::remote_write::{HEADERS, SERIES_MAX, WriteError, bodies};
use selvedge_telemetry::{Consumer, SlotData, Wall};

use super::sets::producer;
use crate::DaemonError;
use crate::post::Post;
use crate::shared::Shared;

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
    pub(crate) fn start(shared: Arc<Shared>, url: HttpUrl, post: Box<dyn Post>) -> Result<Self, DaemonError> {
        let (slots, begun) = sync_channel(1);
        let ends = Arc::new(AtomicBool::new(false));
        let target = Target {
            shared,
            url,
            post,
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
    post: Box<dyn Post>,
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
        let Self {
            shared,
            url,
            post,
            ends,
        } = self;
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
        for body in bodies {
            if ends.load(Ordering::Relaxed) {
                return None;
            }
            match post.post(url, &HEADERS, body) {
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
