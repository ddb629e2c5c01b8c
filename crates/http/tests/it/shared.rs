//! Clients with the same question share one answer, and a slow answer delays no other question.
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use selvedge_api::{
    Check, CheckRequest, Error, ErrorKind, Events, FaultReport, FaultRequest, Findings, ForgetRequest, Forgotten,
    Health, Partitions, Plan, PolicyChange, PolicyChanges, Ports, Rebalance, RebalanceRequest, Status, WouldSend,
};
use selvedge_daemon::Service;
use selvedge_fabric::Fabric;
use selvedge_http::{Client, Front, Socket};

/// A service that returns its list of ports when the test lets it.
struct Slow {
    asked: AtomicUsize,
    at_once: AtomicUsize,
    at_once_max: AtomicUsize,
    go: Mutex<Receiver<()>>,
    begun: Mutex<Sender<()>>,
}

fn nothing<T>() -> Result<T, Error> {
    Err(ErrorKind::NotYet.error("nothing is here"))
}

impl selvedge_daemon::TelemetryService for Slow {}

impl selvedge_daemon::JobService for Slow {}

impl Service for Slow {
    fn status(&self) -> Result<Status, Error> {
        nothing()
    }
    fn health(&self) -> Result<Health, Error> {
        Ok(Health::default())
    }

    fn forget(&self, _: &ForgetRequest) -> Result<Forgotten, Error> {
        Ok(Forgotten { forgotten: Vec::new() })
    }

    fn out_of_service(&self) -> Result<selvedge_api::OutOfService, Error> {
        nothing()
    }

    fn change_service(&self, _: &selvedge_api::OutOfServiceRequest) -> Result<selvedge_api::OutOfServiceChange, Error> {
        nothing()
    }

    fn fabric(&self) -> Result<Arc<Fabric>, Error> {
        Ok(Arc::default())
    }
    fn ports(&self) -> Result<Ports, Error> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.at_once_max.fetch_max(now, Ordering::SeqCst);
        self.begun.lock().unwrap().send(()).unwrap();
        let _ = self.go.lock().unwrap().recv_timeout(Duration::from_secs(60));
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        Ok(Ports { ports: Vec::new() })
    }
    fn plan(&self) -> Result<Plan, Error> {
        nothing()
    }
    fn findings(&self) -> Result<Findings, Error> {
        nothing()
    }
    fn partitions(&self) -> Result<Partitions, Error> {
        nothing()
    }
    fn events(&self, _: u64) -> Events {
        Events {
            last: 0,
            dropped: 0,
            events: Vec::new(),
        }
    }
    fn sweep(&self) -> Result<(), Error> {
        nothing()
    }
    fn rebalance(&self, _: RebalanceRequest) -> Result<Rebalance, Error> {
        nothing()
    }
    fn check(&self, _: &CheckRequest) -> Result<Check, Error> {
        nothing()
    }
    fn reload(&self) -> Result<PolicyChange, Error> {
        nothing()
    }
    fn would_send(&self) -> Result<WouldSend, Error> {
        nothing()
    }
    fn policy_changes(&self) -> Result<PolicyChanges, Error> {
        nothing()
    }
    fn hang_up(&self) {}
    fn fault(&self, _: &FaultRequest) -> Result<FaultReport, Error> {
        nothing()
    }
    fn state_number(&self) -> Option<u64> {
        Some(1)
    }
    fn reopen_log(&self) {}
    fn stop(&self) {}
}

fn socket(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("selvedge-shared-{}-{name}.sock", std::process::id()))
}

#[test]
fn waiting_clients_share_one_answer() {
    let ((go, may_go), (begun, begins)) = (channel(), channel());
    let service = Arc::new(Slow {
        asked: AtomicUsize::new(0),
        at_once: AtomicUsize::new(0),
        at_once_max: AtomicUsize::new(0),
        go: Mutex::new(may_go),
        begun: Mutex::new(begun),
    });
    let path = socket("one");
    let front = Front::open(
        Some(Socket::bind(&path).unwrap()),
        Arc::clone(&service) as Arc<dyn Service>,
    )
    .unwrap();
    let client = Client::new(&path);
    let ask = || {
        let client = client.clone();
        thread::spawn(move || client.get::<Ports>("ports").map(|answer| answer.ports.len()))
    };
    let first = ask();
    begins.recv().unwrap();
    let others: Vec<_> = (0..40).map(|_| ask()).collect();
    // While the list is being built, other questions are answered.
    let begin = Instant::now();
    assert_eq!(client.get::<selvedge_api::Fabric>("fabric").unwrap().switches, 0);
    assert!(begin.elapsed() < Duration::from_secs(20));
    go.send(()).unwrap();
    assert_eq!(first.join().unwrap().unwrap(), 0);
    // The state is unchanged: requests that arrived meanwhile get the same answer.
    drop(go);
    for other in others {
        assert_eq!(other.join().unwrap().unwrap(), 0);
    }
    assert_eq!(service.at_once_max.load(Ordering::SeqCst), 1);
    let asked = service.asked.load(Ordering::SeqCst);
    assert!(asked <= 3, "made {asked} times for 41 clients");
    drop(front);
}
