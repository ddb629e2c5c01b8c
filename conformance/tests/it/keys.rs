//! `selvedge reload` with another M_Key: each agent of the emulator is asked which key it has, by a client of another
//! process.

use std::fs;
use std::path::PathBuf;

use selvedge_conformance::{PeerLab, Probe, Running, until};

use crate::support::{LIMIT, emulate};

const SPEC: &str = "karytree:k=2,n=2";
/// Number of ports with an M_Key: port 0 of four switches, and the ports of four hosts.
const PORTS: u16 = 8;

struct Keyed {
    lab: PeerLab,
    config: PathBuf,
    state: PathBuf,
    _emulator: Running,
}

impl Keyed {
    fn new() -> Self {
        let lab = PeerLab::new().unwrap();
        let emulator = emulate(&lab, SPEC);
        Self {
            config: lab.folder().join("fm.toml"),
            state: lab.folder().join("state"),
            lab,
            _emulator: emulator,
        }
    }

    /// Writes the configuration. Its protection level lets anybody read the key of a port.
    fn write(&self, m_key: &str) {
        let text = format!("[keys]\nm_key = {m_key}\nm_key_protect = 0\nm_key_lease_s = 0\n");
        fs::write(&self.config, text).unwrap();
    }

    fn start(&self) -> Running {
        let port = format!("ibsim:{}/H-0", self.lab.base());
        let (config, state) = (self.config.to_str().unwrap(), self.state.to_str().unwrap());
        let words = ["run", "--port", &port, "--config", config, "--state", state];
        self.lab.start_daemon(&words).unwrap()
    }

    /// Runs a command with the socket of the manager that was started last.
    fn ask(&self, command: &str) -> selvedge_conformance::Finished {
        let folders = fs::read_dir(self.lab.folder()).unwrap();
        let sockets = folders.map(|entry| entry.unwrap().path().join("api.sock"));
        let mut sockets: Vec<PathBuf> = sockets.filter(|path| path.exists()).collect();
        sockets.sort_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
        let socket = sockets.last().unwrap().to_str().unwrap().to_owned();
        self.lab.selvedge(&[command, "--socket", &socket]).unwrap()
    }

    /// Waits until every port has this M_Key.
    fn wait_for_key(&self, m_key: u64, manager: &mut Running) {
        let last = std::cell::RefCell::new(String::new());
        let said = || format!("{}\n{}", last.borrow(), manager.output_tail());
        until(&format!("M_Key {m_key:#x} at every port"), LIMIT, said, || {
            let mut probe = Probe::open(self.lab.base(), "H-3")?;
            let mut found = Vec::new();
            for lid in 1..=PORTS {
                found.push(probe.port_info(lid)?.map(|info| info.m_key));
            }
            last.replace(format!("{found:x?}"));
            Ok(found.iter().all(|found| *found == Some(m_key)).then_some(()))
        })
        .unwrap();
    }
}

#[test]
fn a_reload_gives_every_port_another_m_key() {
    let keyed = Keyed::new();
    keyed.write("\"0x1d\"");
    let mut manager = keyed.start();
    keyed.wait_for_key(0x1d, &mut manager);
    keyed.write("\"0x4e3\"");
    keyed.ask("reload").success().unwrap();
    keyed.wait_for_key(0x4e3, &mut manager);
    // A file that was cut short takes no key back.
    fs::write(&keyed.config, "").unwrap();
    let refused = keyed.ask("reload");
    assert!(refused.stderr.contains("SLV-CONFIG-0010"), "{}", refused.stderr);
    // kill -9 right after a reload, and a start with the next key.
    keyed.write("\"0x333\"");
    keyed.ask("reload").success().unwrap();
    drop(manager);
    keyed.write("\"0x5\"");
    let mut manager = keyed.start();
    keyed.wait_for_key(0x5, &mut manager);
    keyed.write("0");
    keyed.ask("reload").success().unwrap();
    keyed.wait_for_key(0, &mut manager);
    let said = manager.output_tail();
    assert!(!said.contains("0x333") && !said.contains("0x4e3"), "{said}");
}
