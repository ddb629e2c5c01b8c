//! A port that is opened again when its driver, or the simulator behind it, has ended and come back.
//!
//! Until the port is open again it is like a port without a link: MADs that are sent are lost, and none arrive. A
//! thread tries to open it each second. The manager's driver is informed when the port is gone, and when it is open
//! again with IsSM set as before.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use selvedge_wire::{Arrival, Datagram, LocalPort, MadPort, PortError};

use crate::worker::Note;

/// Time between two attempts to open the port.
const RETRY: Duration = Duration::from_secs(1);

/// Opens the port.
pub(crate) type Open = Arc<dyn Fn() -> Result<Box<dyn MadPort>, PortError> + Send + Sync>;

/// A change of the port.
#[derive(Debug)]
pub(crate) enum PortNews {
    /// The port is gone, with this error. A thread tries to open it again.
    Gone(PortError),
    /// The port is open again. IsSM is set as it was, or could not be.
    Back(Result<(), PortError>),
}

/// A port that is opened again after it was lost.
pub(crate) struct AttachedPort {
    state: State,
    open: Open,
    /// The identity of the port. A port with another identity cannot replace it.
    local: LocalPort,
    is_sm: bool,
    notes: Sender<Note>,
    retry: Duration,
}

enum State {
    Open(Box<dyn MadPort>),
    Gone(Opening),
}

/// A thread that opens the port. It ends when this value is dropped.
struct Opening {
    opened: Receiver<Box<dyn MadPort>>,
    _wanted: Arc<()>,
}

impl AttachedPort {
    /// Returns a port that is open now. `open` opens the same port again.
    pub(crate) fn new(port: Box<dyn MadPort>, open: Open, notes: Sender<Note>) -> Self {
        Self {
            local: port.local(),
            state: State::Open(port),
            open,
            is_sm: false,
            notes,
            retry: RETRY,
        }
    }

    /// Returns a result unchanged if the port works. If the port is gone, begins to open it again, and returns the
    /// result of a port without a link.
    fn checked<T: Default>(&mut self, result: Result<T, PortError>) -> Result<T, PortError> {
        let error = match result {
            Err(error @ PortError::Gone { .. }) => error,
            result => return result,
        };
        let (open, local, retry) = (Arc::clone(&self.open), self.local, self.retry);
        let wanted = Arc::new(());
        let is_wanted = Arc::downgrade(&wanted);
        let (give, opened) = channel();
        let opening = Opening {
            opened,
            _wanted: wanted,
        };
        // Closed first: a port may be open only once.
        self.state = State::Gone(opening);
        let spawned = thread::Builder::new()
            .name("attach".to_owned())
            .spawn(move || open_again(&open, local, retry, &is_wanted, &give));
        if spawned.is_err() {
            return Err(error);
        }
        self.tell(PortNews::Gone(error));
        Ok(T::default())
    }

    fn back(&mut self, mut port: Box<dyn MadPort>) {
        let set = if self.is_sm { port.set_is_sm(true) } else { Ok(()) };
        self.state = State::Open(port);
        self.tell(PortNews::Back(set));
    }

    fn tell(&self, news: PortNews) {
        // If the driver has ended, no news of the port is needed.
        let _ = self.notes.send(Note::Port(news));
    }
}

impl MadPort for AttachedPort {
    fn local(&self) -> LocalPort {
        self.local
    }

    fn send(&mut self, datagram: &Datagram, timeout: Duration) -> Result<(), PortError> {
        match &mut self.state {
            State::Open(port) => {
                let result = port.send(datagram, timeout);
                self.checked(result)
            }
            State::Gone(_) => Ok(()),
        }
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<Arrival>, PortError> {
        match &mut self.state {
            State::Open(port) => {
                let result = port.receive(wait);
                self.checked(result)
            }
            State::Gone(opening) => {
                let opened = match wait {
                    Duration::ZERO => opening.opened.try_recv().map_err(|error| match error {
                        TryRecvError::Empty => RecvTimeoutError::Timeout,
                        TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                    }),
                    wait => opening.opened.recv_timeout(wait),
                };
                match opened {
                    Ok(port) => self.back(port),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(PortError::Gone {
                            operation: "opening the port again",
                            cause: "the thread that opens it has ended".to_owned(),
                        });
                    }
                }
                Ok(None)
            }
        }
    }

    fn flush(&mut self) -> Result<(), PortError> {
        match &mut self.state {
            State::Open(port) => {
                let result = port.flush();
                self.checked(result)
            }
            State::Gone(_) => Ok(()),
        }
    }

    fn set_is_sm(&mut self, is_sm: bool) -> Result<(), PortError> {
        self.is_sm = is_sm;
        match &mut self.state {
            State::Open(port) => {
                let result = port.set_is_sm(is_sm);
                self.checked(result)
            }
            State::Gone(_) => Ok(()),
        }
    }
}

/// Opens a port with this identity, as often as it takes while it is wanted.
fn open_again(open: &Open, local: LocalPort, retry: Duration, is_wanted: &Weak<()>, give: &Sender<Box<dyn MadPort>>) {
    while is_wanted.strong_count() > 0 {
        if let Some(port) = open().ok().filter(|port| port.local() == local) {
            // If the port is not wanted any more, this closes it again.
            let _ = give.send(port);
            return;
        }
        thread::park_timeout(retry);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use selvedge_types::{Guid, PortNum};

    use super::*;

    /// The operations of the fake ports, in order.
    type Log = Arc<Mutex<Vec<String>>>;

    struct FakePort {
        guid: u64,
        /// Operations that succeed before the port is gone.
        lives: usize,
        log: Log,
    }

    impl FakePort {
        fn does(&mut self, what: &str) -> Result<(), PortError> {
            if self.lives == 0 {
                return Err(PortError::Gone {
                    operation: "testing",
                    cause: "unplugged".to_owned(),
                });
            }
            self.lives -= 1;
            self.log.lock().unwrap().push(what.to_owned());
            Ok(())
        }
    }

    impl MadPort for FakePort {
        fn local(&self) -> LocalPort {
            LocalPort {
                node_guid: Guid(self.guid),
                port_guid: Guid(self.guid),
                port: PortNum::MANAGEMENT,
            }
        }

        fn send(&mut self, _: &Datagram, _: Duration) -> Result<(), PortError> {
            self.does("send")
        }

        fn receive(&mut self, _: Duration) -> Result<Option<Arrival>, PortError> {
            self.does("receive").map(|()| None)
        }

        fn set_is_sm(&mut self, is_sm: bool) -> Result<(), PortError> {
            self.does(&format!("is_sm {is_sm}"))
        }
    }

    impl Drop for FakePort {
        fn drop(&mut self) {
            self.log.lock().unwrap().push(format!("close {}", self.guid));
        }
    }

    #[test]
    fn a_port_that_goes_is_opened_again_with_is_sm() {
        let log = Log::default();
        let fake = |guid, lives| -> Box<dyn MadPort> {
            let log = Arc::clone(&log);
            Box::new(FakePort { guid, lives, log })
        };
        // The port is not there at first; then another port is, then the same port.
        let answers = Mutex::new(vec![Some(fake(1, 9)), Some(fake(2, 9)), None]);
        let opener = Arc::clone(&log);
        let open: Open = Arc::new(move || {
            opener.lock().unwrap().push("open".to_owned());
            let next = answers.lock().unwrap().pop().flatten();
            next.ok_or(PortError::Full)
        });
        let (notes, told) = channel();
        let mut port = AttachedPort::new(fake(1, 2), open, notes);
        port.retry = Duration::from_millis(1);
        port.set_is_sm(true).unwrap();
        port.receive(Duration::ZERO).unwrap();
        // The port goes: that is reported once, and nothing fails.
        assert!(port.receive(Duration::ZERO).unwrap().is_none());
        port.flush().unwrap();
        let gone = told.recv().unwrap();
        assert!(
            matches!(&gone, Note::Port(PortNews::Gone(PortError::Gone { .. }))),
            "{gone:?}"
        );
        let back = loop {
            match told.try_recv() {
                Ok(note) => break note,
                Err(_) => drop(port.receive(Duration::from_millis(1)).unwrap()),
            }
        };
        assert!(matches!(&back, Note::Port(PortNews::Back(Ok(())))), "{back:?}");
        let want = [
            "is_sm true",
            "receive",
            "close 1",
            "open",
            "open",
            "close 2",
            "open",
            "is_sm true",
        ];
        assert_eq!(log.lock().unwrap()[..], want);
        assert_eq!(port.local().port_guid, Guid(1));
    }

    #[test]
    fn what_does_not_mean_that_it_is_gone_is_passed_on() {
        struct Full;
        impl MadPort for Full {
            fn local(&self) -> LocalPort {
                LocalPort {
                    node_guid: Guid(1),
                    port_guid: Guid(1),
                    port: PortNum::MANAGEMENT,
                }
            }
            fn send(&mut self, _: &Datagram, _: Duration) -> Result<(), PortError> {
                Err(PortError::Full)
            }
            fn receive(&mut self, _: Duration) -> Result<Option<Arrival>, PortError> {
                Ok(None)
            }
            fn flush(&mut self) -> Result<(), PortError> {
                Err(PortError::Full)
            }
            fn set_is_sm(&mut self, _: bool) -> Result<(), PortError> {
                Err(PortError::Full)
            }
        }
        let (notes, told) = channel();
        let open: Open = Arc::new(|| panic!("opened again"));
        let mut port = AttachedPort::new(Box::new(Full), open, notes);
        assert!(matches!(port.flush(), Err(PortError::Full)));
        assert!(matches!(port.set_is_sm(true), Err(PortError::Full)));
        assert!(told.try_recv().is_err());
    }
}
