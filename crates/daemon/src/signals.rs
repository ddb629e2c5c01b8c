//! Signals: SIGHUP reads the configuration again and sweeps, SIGUSR1 reopens the log, SIGINT and SIGTERM end.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

use crate::Service;

/// Obeys signals until one of them says to end; returns that one's number. Whoever called then ends the work.
pub async fn obey(service: Arc<dyn Service>) -> io::Result<i32> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut user1 = signal(SignalKind::user_defined1())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    loop {
        let end = tokio::select! {
            _ = hangup.recv() => {
                service.hang_up();
                None
            }
            _ = user1.recv() => {
                service.reopen_log();
                None
            }
            _ = interrupt.recv() => Some(SignalKind::interrupt()),
            _ = terminate.recv() => Some(SignalKind::terminate()),
        };
        if let Some(kind) = end {
            return Ok(kind.as_raw_value());
        }
    }
}
