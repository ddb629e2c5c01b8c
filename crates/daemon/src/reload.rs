//! Reads the configuration again, beside the threads that answer: a file system may hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use selvedge_api::{Error, ErrorKind};
use selvedge_config::{Key, Settings};

use crate::start::Reload;

/// Longest wait for the configuration. Files on this machine are read in milliseconds.
const WAIT: Duration = Duration::from_secs(10);

/// Reads the configuration on a thread of its own, with a time-out.
#[derive(Clone)]
pub(crate) struct ConfigReader {
    read: Reload,
    /// A thread is reading, perhaps since a request that was given up.
    is_reading: Arc<AtomicBool>,
    wait: Duration,
}

impl ConfigReader {
    pub(crate) fn new(read: Reload) -> Self {
        Self {
            read,
            is_reading: Arc::default(),
            wait: WAIT,
        }
    }

    /// The settings as they are now. Waits [`WAIT`] at most.
    pub(crate) fn read(&self) -> Result<Settings, Error> {
        if self.is_reading.swap(true, Ordering::SeqCst) {
            return Err(ErrorKind::Busy.error("the configuration is being read already"));
        }
        let (read, is_reading) = (Arc::clone(&self.read), Arc::clone(&self.is_reading));
        let (sender, result) = channel();
        let thread = thread::Builder::new().name("config".to_owned()).spawn(move || {
            let settings = read();
            is_reading.store(false, Ordering::SeqCst);
            // A result that comes too late has no receiver.
            let _ = sender.send(settings);
        });
        if let Err(cause) = thread {
            self.is_reading.store(false, Ordering::SeqCst);
            return Err(Error::of_text(&crate::DaemonError::Thread { cause }.to_string()));
        }
        match result.recv_timeout(self.wait) {
            Ok(settings) => settings.map_err(|error| Error::of_text(&error.to_string())),
            Err(RecvTimeoutError::Timeout) => Err(ErrorKind::Busy.error(format!(
                "the configuration could not be read within {} s: look at the file system that it is on",
                self.wait.as_secs()
            ))),
            Err(RecvTimeoutError::Disconnected) => {
                self.is_reading.store(false, Ordering::SeqCst);
                Err(ErrorKind::Stopping.error("the thread that reads the configuration has ended"))
            }
        }
    }
}

/// Returns the keys of `read` that take effect at the next start only. `in_force` is what the manager works with.
pub(crate) fn not_taken(in_force: &Settings, read: &Settings) -> Vec<String> {
    let differs = |key: &&Key| key.value(in_force) != key.value(read);
    Key::ALL.iter().filter(differs).map(Key::path).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Mutex;
    use std::sync::mpsc::Receiver;
    use std::time::Instant;

    use selvedge_config::ConfigError;

    use super::*;

    /// Returns a reader of a file system that answers only when the test says so.
    fn hanging() -> (ConfigReader, std::sync::mpsc::Sender<()>) {
        let (answer, file) = channel();
        let file: Mutex<Receiver<()>> = Mutex::new(file);
        let read = move || -> Result<Settings, ConfigError> {
            file.lock().unwrap().recv().unwrap();
            Ok(Settings::default())
        };
        let mut reader = ConfigReader::new(Arc::new(read));
        reader.wait = Duration::from_millis(50);
        (reader, answer)
    }

    #[test]
    fn a_file_system_that_hangs_is_given_up() {
        let (reader, answer) = hanging();
        let begin = Instant::now();
        let error = reader.read().unwrap_err();
        assert_eq!(error.code, "SLV-API-0027");
        assert!(error.message.contains("could not be read within"), "{error}");
        // No second thread hangs beside the first.
        assert!(reader.read().unwrap_err().message.contains("already"));
        assert!(begin.elapsed() < Duration::from_secs(30));
        answer.send(()).unwrap();
        while reader.is_reading.load(Ordering::SeqCst) {
            assert!(
                begin.elapsed() < Duration::from_secs(30),
                "the first thread does not end"
            );
            thread::yield_now();
        }
        answer.send(()).unwrap();
        assert_eq!(reader.read().unwrap(), Settings::default());
    }

    #[test]
    fn what_takes_effect_at_the_next_start_is_named() {
        let in_force = Settings::default();
        let check = |change: &dyn Fn(&mut Settings), want: &[&str]| {
            let mut read = Settings::default();
            change(&mut read);
            assert_eq!(not_taken(&in_force, &read), want);
        };
        check(&|_| {}, &[]);
        check(
            &|s| s.daemon.state_dir = Some(PathBuf::from("/elsewhere")),
            &["daemon.state_dir"],
        );
        check(
            &|s| (s.manager.sm_key, s.manager.window) = (selvedge_types::SecretKey::new(7), 1),
            &["keys.sm_key", "manager.window"],
        );
    }
}
