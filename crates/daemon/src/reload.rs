//! Reads the configuration on a separate thread, because a file system may hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use selvedge_api::{Error, ErrorKind};

use crate::DaemonError;

/// Longest wait for the configuration. Local files are read in milliseconds.
const WAIT: Duration = Duration::from_secs(10);

/// Runs one job at a time on a separate thread, with a time-out.
#[derive(Clone)]
pub(crate) struct Aside {
    /// True while a thread works, possibly for a request that timed out.
    is_busy: Arc<AtomicBool>,
    wait: Duration,
}

impl Default for Aside {
    fn default() -> Self {
        Self {
            is_busy: Arc::default(),
            wait: WAIT,
        }
    }
}

impl Aside {
    /// Runs `work` and returns its result, after at most [`WAIT`].
    pub(crate) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
        if self.is_busy.swap(true, Ordering::SeqCst) {
            return Err(ErrorKind::Busy.error("the configuration is being read already"));
        }
        let busy = Busy(Arc::clone(&self.is_busy));
        let (sender, result) = channel();
        let thread = thread::Builder::new().name("config".to_owned()).spawn(move || {
            let done = work();
            drop(busy);
            // A late result has no receiver.
            let _ = sender.send(done);
        });
        if let Err(cause) = thread {
            return Err(Error::of_text(&DaemonError::Thread { cause }.to_string()));
        }
        result.recv_timeout(self.wait).map_err(|error| match error {
            RecvTimeoutError::Timeout => ErrorKind::Busy.error(format!(
                "the configuration could not be read within {} s: check the file system that it is on",
                self.wait.as_secs()
            )),
            RecvTimeoutError::Disconnected => ErrorKind::Stopping.error("reading the configuration ended in a panic"),
        })
    }
}

/// Sets the flag while a thread works, and clears it in any case when the work ends.
struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_file_system_that_hangs_is_given_up() {
        let aside = Aside {
            wait: Duration::from_millis(50),
            ..Aside::default()
        };
        let (answer, file) = channel::<()>();
        let begin = Instant::now();
        let error = aside.run(move || file.recv()).unwrap_err();
        assert_eq!(error.code, "SLV-API-0027");
        assert!(error.message.contains("could not be read within"), "{error}");
        // A second thread never hangs beside the first.
        assert!(aside.run(|| ()).unwrap_err().message.contains("already"));
        answer.send(()).unwrap();
        while aside.is_busy.load(Ordering::SeqCst) {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "the first thread does not end"
            );
            thread::yield_now();
        }
        assert_eq!(aside.run(|| 7), Ok(7));
    }
}
