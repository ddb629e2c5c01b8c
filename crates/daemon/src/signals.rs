//! Signals: SIGHUP reads the configuration again and sweeps, SIGUSR1 reopens the log, SIGINT and SIGTERM end.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

use crate::Service;

/// Handles signals until one of them requests the end, and returns its number. The caller then ends the work.
///
/// Each kind of work has its own thread: a file system that hangs delays no other signal.
pub async fn obey(service: Arc<dyn Service>) -> io::Result<i32> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut user1 = signal(SignalKind::user_defined1())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let hang_up = Doer::start("hang-up", {
        let service = Arc::clone(&service);
        move || service.hang_up()
    })?;
    let reopen_log = Doer::start("reopen-log", move || service.reopen_log())?;
    loop {
        let end = tokio::select! {
            _ = hangup.recv() => {
                hang_up.ask();
                None
            }
            _ = user1.recv() => {
                reopen_log.ask();
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

/// A thread that does one kind of work on request. After a drop, it ends when the work is done.
struct Doer(SyncSender<()>);

impl Doer {
    fn start(name: &str, work: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (sender, asked) = sync_channel(1);
        let run = move || asked.iter().for_each(|()| work());
        thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self(sender))
    }

    /// Requests the work. Requests that come while it is done are merged into one.
    fn ask(&self) {
        let _ = self.0.try_send(());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn requests_during_the_work_become_one() {
        let (begun, begins) = channel();
        let (go, may_go) = channel::<()>();
        let may_go = Mutex::new(may_go);
        let doer = Doer::start("test", move || {
            begun.send(()).unwrap();
            let _ = may_go.lock().unwrap().recv();
        })
        .unwrap();
        doer.ask();
        begins.recv().unwrap();
        // Ten requests during the first job: none of them waits.
        (0..10).for_each(|_| doer.ask());
        go.send(()).unwrap();
        begins.recv().unwrap();
        drop((doer, go));
        assert_eq!(begins.iter().count(), 0, "the ten became one");
    }
}
