//! Tests a manager with a state folder that cannot be written for a time.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use selvedge_api::{FaultRequest, Port};
use selvedge_daemon::{Options, Running, Service, start};
use selvedge_sm::Mode;
use selvedge_store::{Disk, MemoryDisk};
use selvedge_types::{Guid, PortState};

use crate::emulated::{options, stop, wait_for};

/// A disk that can be full: files can be removed and renamed, but not written.
#[derive(Debug, Default)]
struct SmallDisk {
    disk: MemoryDisk,
    is_full: AtomicBool,
}

impl SmallDisk {
    fn room(&self) -> io::Result<()> {
        match self.is_full.load(Ordering::Relaxed) {
            // ENOSPC
            true => Err(io::Error::from_raw_os_error(28)),
            false => Ok(()),
        }
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8(self.disk.read(name).unwrap_or_default()).unwrap()
    }

    fn fill(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }
}

impl Disk for SmallDisk {
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.disk.read(name)
    }

    fn has(&self, name: &str) -> io::Result<bool> {
        self.disk.has(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.room().and_then(|()| self.disk.write(name, bytes))
    }

    fn note(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.room().and_then(|()| self.disk.note(name, bytes))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }

    fn boot(&self) -> String {
        self.disk.boot()
    }
}

const SPEC: &str = "karytree:k=3,n=2";

fn begin(disk: &Arc<SmallDisk>) -> Running {
    let mut options = Options {
        disk: Some(Arc::<SmallDisk>::clone(disk)),
        ..options(Mode::Manage, SPEC)
    };
    options.settings.daemon.state_dir = Some(PathBuf::from("state"));
    start(options).unwrap()
}

fn codes(running: &Running) -> BTreeSet<String> {
    let events = running.manager.events(0).events;
    events.into_iter().map(|event| event.code).collect()
}

/// Returns a port by its GUID.
fn port(running: &Running, guid: Guid) -> Option<Port> {
    let ports = running.manager.ports().ok()?.ports;
    ports.into_iter().find(|port| port.guid == Some(guid))
}

fn is_active(running: &Running, guid: Guid) -> bool {
    port(running, guid)
        .is_some_and(|port| port.state == Some(PortState::Active) && port.lid.is_some_and(|lid| lid != 0))
}

/// Brings the fabric up once and deletes the LID of one host. Returns its GUID and those of the other hosts.
fn without_one(disk: &Arc<SmallDisk>) -> (Guid, Vec<Guid>) {
    let running = begin(disk);
    wait_for("first plan", || running.manager.status().unwrap().up.then_some(()));
    let ports = running
        .manager
        .ports()
        .unwrap()
        .ports
        .into_iter()
        .filter(|port| port.lid.is_some_and(|lid| lid != 0));
    let mut hosts: Vec<Port> = ports.filter(|port| port.port != 0).collect();
    stop(running);
    hosts.sort_by_key(|port| port.guid);
    // The manager runs on the first host.
    let last = hosts.pop().unwrap().guid.unwrap();
    let lids: String = disk
        .text("guid2lid")
        .lines()
        .skip(1)
        .filter(|line| !line.starts_with(&last.to_string()))
        .map(|line| format!("{line}\n"))
        .collect();
    disk.disk.write("guid2lid", lids.as_bytes()).unwrap();
    (last, hosts.iter().filter_map(|port| port.guid).collect())
}

#[test]
fn a_host_that_comes_while_the_disk_is_full_waits_and_all_others_are_served() {
    let disk = Arc::new(SmallDisk::default());
    let (late, others) = without_one(&disk);
    disk.fill(true);
    let running = begin(&disk);
    let manager = &running.manager;
    wait_for("the others", || {
        others.iter().all(|guid| is_active(&running, *guid)).then_some(())
    });
    let waits = wait_for("the reason", || {
        port(&running, late).filter(|port| port.reason_code.is_some())
    });
    assert_eq!(
        (waits.lid, waits.reason_code.as_deref()),
        (Some(0), Some("SLV-PORTSTATE-0013"))
    );
    let status = manager.status().unwrap();
    // The list of what was found may wait, too; nothing depends on it.
    let failing = status.not_stored.iter().find(|failing| failing.what == "state");
    let failing = failing.unwrap_or_else(|| panic!("{:?}", status.not_stored));
    assert!(
        failing.failures > 0 && failing.error.contains("state/guid2lid.new"),
        "{failing:?}"
    );
    assert!(!disk.text("guid2lid").contains(&late.to_string()));
    // A lost link is still routed around.
    let link = manager.links().unwrap().links.into_iter().find(|link| {
        let is_switch = |guid| !others.contains(&guid) && guid != late;
        is_switch(link.a.node_guid) && link.a.node_name.starts_with('S') && link.b.node_name.starts_with('S')
    });
    let link = link.unwrap();
    let fault = format!("cut \"{}\"[{}]", link.a.node_name, link.a.port);
    let since = manager.fault(&FaultRequest { fault }).unwrap().events_since;
    wait_for("the way around", || {
        let events = manager.events(since).events;
        events.iter().any(|event| event.code == "SLV-SM-0007").then_some(())
    });
    disk.fill(false);
    wait_for("its LID", || is_active(&running, late).then_some(()));
    assert!(disk.text("guid2lid").contains(&late.to_string()));
    wait_for("the end of it", || {
        manager.status().unwrap().not_stored.is_empty().then_some(())
    });
    let codes = codes(&running);
    for code in ["SLV-DAEMON-0101", "SLV-DAEMON-0131"] {
        assert!(codes.contains(code), "{codes:?}");
    }
    let lid = port(&running, late).unwrap().lid;
    stop(running);
    // A fabric without LIDs gets the same ones.
    let running = begin(&disk);
    wait_for("the next life", || is_active(&running, late).then_some(()));
    assert_eq!(port(&running, late).unwrap().lid, lid);
    stop(running);
}

#[test]
fn on_an_empty_folder_nothing_is_set_up_before_it_can_be_stored() {
    let disk = Arc::new(SmallDisk::default());
    disk.fill(true);
    let running = begin(&disk);
    wait_for("two failures", || {
        let failing = running.manager.status().unwrap().not_stored;
        failing.iter().any(|failing| failing.failures > 1).then_some(())
    });
    assert_eq!(running.manager.status().unwrap().mads.sets, 0);
    disk.fill(false);
    wait_for("the subnet", || running.manager.status().unwrap().up.then_some(()));
    assert!(running.manager.status().unwrap().mads.sets > 0);
    stop(running);
}

#[test]
fn two_ports_with_one_stored_lid_are_named() {
    let disk = Arc::new(SmallDisk::default());
    stop(begin(&disk));
    disk.disk.write("guid2lid", b"0x11 0x5 0x5\n\n0x22 0x5 0x5\n").unwrap();
    let running = begin(&disk);
    let events = running.manager.events(0).events;
    let named = events.iter().find(|event| event.code == "SLV-DAEMON-0132").unwrap();
    for guid in ["0x0000000000000011", "0x0000000000000022"] {
        assert!(named.text.contains(guid), "{}", named.text);
    }
    stop(running);
}
