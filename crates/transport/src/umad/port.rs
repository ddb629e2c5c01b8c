//! A port of an HCA.

use std::ffi::c_int;
use std::io;
use std::time::Duration;

use selvedge_types::{Guid, Lid, PortNum, Sl, TransactionId};
use selvedge_wire::{Address, Arrival, Class, Datagram, LocalPort, Mad, MadPort, PortError};

use super::library::{CaInfo, CaPort, Envelope, Umad};
use crate::{OWN_TRANSACTION_BITS, Role, is_answer, wants_answer};

const ADVICE_LIST: &str = "see 'ibstat' for the ports of this machine, or use a simulated fabric (ibsim:NAME)";
const ADVICE_BUSY: &str = "another subnet manager may run on this port; stop it, use another port, or only watch";
const ADVICE_ACCESS: &str = "run as root or as a user who may open /dev/infiniband/umad*";

/// Methods of unsolicited datagrams for a manager. Source: IBA vol 1 §13.4.5 and §15.2.2.
const SMP_METHODS: [u8; 3] = [0x01, 0x02, 0x05]; // Get, Set, Trap
const SA_METHODS: [u8; 6] = [0x01, 0x02, 0x12, 0x13, 0x14, 0x15]; // Get, Set, GetTable, GetTraceTable, GetMulti, Delete

/// Each class, with its version and the methods that a manager receives.
const CLASSES: [(Class, u8, &[u8]); 4] = [
    (Class::SubnDirected, 1, &SMP_METHODS),
    (Class::SubnLid, 1, &SMP_METHODS),
    (Class::SubnAdm, 2, &SA_METHODS),
    (Class::PerfMgt, 1, &[]),
];

/// A port of an HCA: real, or simulated under libumad2sim.
///
/// In a returned request only the common header (24 bytes) and the address are reliable, because kernels return no
/// more.
pub struct UmadPort {
    library: &'static Umad,
    fd: c_int,
    ca: String,
    local: LocalPort,
    agents: Vec<(Class, c_int)>,
    issm: Option<c_int>,
}

impl UmadPort {
    /// Opens `port` of `ca`. An empty `ca` means the first one. Without a port, opens its first active InfiniBand port,
    /// or its first port if none is active.
    pub fn open(ca: &str, port: Option<PortNum>, role: Role) -> Result<Self, PortError> {
        let library = Umad::load()?;
        let (ca, port) = choose(&library.list(), ca, port)?;
        Self::open_at(library, ca, &port, role)
    }

    /// Opens the port with this GUID, as OpenSM's `-g` does.
    pub fn open_guid(guid: Guid, role: Role) -> Result<Self, PortError> {
        let library = Umad::load()?;
        let (ca, port) = choose_guid(&library.list(), guid)?;
        Self::open_at(library, ca, &port, role)
    }

    fn open_at(library: &'static Umad, ca: CaInfo, port: &CaPort, role: Role) -> Result<Self, PortError> {
        let fd = library.open(&ca.name, port.number)?;
        debug_assert!(library.header_len() <= 64);
        // From here on, dropping it cleans up.
        let mut opened = Self {
            library,
            fd,
            ca: ca.name,
            local: LocalPort {
                node_guid: ca.node_guid,
                port_guid: port.guid,
                port: port.number,
            },
            agents: Vec::new(),
            issm: None,
        };
        for (class, version, methods) in CLASSES {
            let methods = if role == Role::Manager { methods } else { &[] };
            let agent = library.register(fd, class.code(), version, methods);
            let agent = agent.map_err(|error| opened.failed(&error))?;
            opened.agents.push((class, agent));
        }
        Ok(opened)
    }

    fn failed(&self, error: &io::Error) -> PortError {
        let denied = matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM));
        PortError::Open {
            port: format!("{}/{}", self.ca, self.local.port),
            cause: error.to_string(),
            advice: if denied { ADVICE_ACCESS } else { ADVICE_BUSY },
        }
    }

    fn agent(&self, class: Class) -> Option<c_int> {
        self.agents
            .iter()
            .find(|&&(known, _)| known == class)
            .map(|&(_, agent)| agent)
    }
}

impl MadPort for UmadPort {
    fn local(&self) -> LocalPort {
        self.local
    }

    fn send(&mut self, datagram: &Datagram, timeout: Duration) -> Result<(), PortError> {
        let mut mad = datagram.mad;
        let gone = |cause: String| PortError::Gone {
            operation: "sending",
            cause,
        };
        let Some(agent) = self.agent(mad.class()) else {
            return Err(gone(format!("no agent for class {:#04x}", mad.class().code())));
        };
        if !is_answer(&mad) {
            let own = mad.transaction().0 & OWN_TRANSACTION_BITS;
            mad.set_transaction(TransactionId(own));
        }
        let timeout_ms = if wants_answer(&mad) { millis(timeout) } else { 0 };
        let envelope = Envelope {
            status: 0,
            lid: datagram.address.lid.0,
            qp: datagram.address.qp,
            sl: datagram.address.sl.get(),
            mad: *mad.as_bytes(),
        };
        match self.library.send(self.fd, agent, &envelope, timeout_ms) {
            Ok(()) => Ok(()),
            Err(error) => Err(match error.raw_os_error() {
                Some(libc::EAGAIN | libc::ENOMEM | libc::ENOBUFS) => PortError::Full,
                _ => gone(error.to_string()),
            }),
        }
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<Arrival>, PortError> {
        let gone = |error: io::Error| PortError::Gone {
            operation: "receiving",
            cause: error.to_string(),
        };
        // Reading first saves the wait while datagrams are queued, which is the usual case during bring-up.
        if let Some(envelope) = self.library.receive(self.fd).map_err(gone)? {
            return Ok(Some(arrival(&envelope)));
        }
        if wait.is_zero() || !self.library.poll(self.fd, millis(wait)).map_err(gone)? {
            return Ok(None);
        }
        let envelope = self.library.receive(self.fd).map_err(gone)?;
        Ok(envelope.as_ref().map(arrival))
    }

    fn set_is_sm(&mut self, is_sm: bool) -> Result<(), PortError> {
        // If IsSM is set again, a reset of the driver has cleared it, and the open device is of no use.
        if let Some(fd) = self.issm.take() {
            close(fd);
        }
        if !is_sm {
            return Ok(());
        }
        let path = self.library.issm_path(&self.ca, self.local.port);
        let path = path.map_err(|error| self.failed(&error))?;
        // Not File::open: ibsim's shim sees `open` but not the `open64` of std. Without O_NONBLOCK the kernel waits
        // until the SM that holds the device has ended.
        // SAFETY: `path` is a terminated string that outlives the call.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_NONBLOCK) };
        if fd < 0 {
            return Err(self.failed(&io::Error::last_os_error()));
        }
        self.issm = Some(fd);
        Ok(())
    }
}

impl Drop for UmadPort {
    fn drop(&mut self) {
        if let Some(fd) = self.issm.take() {
            close(fd);
        }
        for &(_, agent) in &self.agents {
            self.library.unregister(self.fd, agent);
        }
        self.library.close(self.fd);
    }
}

/// Returns the port that the arguments name.
fn choose(cas: &[CaInfo], ca: &str, port: Option<PortNum>) -> Result<(CaInfo, CaPort), PortError> {
    let failed = |cause: String| PortError::Open {
        port: match port {
            None if ca.is_empty() => "an HCA".to_owned(),
            None => ca.to_owned(),
            Some(port) => format!("{ca}/{port}"),
        },
        cause,
        advice: ADVICE_LIST,
    };
    let names = || cas.iter().map(|ca| ca.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = cas.iter().find(|known| ca.is_empty() || known.name == ca);
    let found = found.ok_or_else(|| {
        failed(if cas.is_empty() {
            "this machine has no HCA".to_owned()
        } else {
            format!("no such HCA; there are {}", names())
        })
    })?;
    let usable = || found.ports.iter().filter(|port| port.is_infiniband);
    let port = match port {
        Some(number) => found.ports.iter().find(|known| known.number == number),
        None => usable().find(|port| port.state == 4).or_else(|| usable().next()),
    };
    let port = port.ok_or_else(|| failed("no such InfiniBand port".to_owned()))?;
    Ok((found.clone(), port.clone()))
}

fn choose_guid(cas: &[CaInfo], guid: Guid) -> Result<(CaInfo, CaPort), PortError> {
    let ports = || cas.iter().flat_map(|ca| ca.ports.iter().map(move |port| (ca, port)));
    let found = ports().find(|(_, port)| port.guid == guid);
    let (ca, port) = found.ok_or_else(|| {
        let known: Vec<String> = ports()
            .map(|(ca, port)| format!("{} ({}/{})", port.guid, ca.name, port.number))
            .collect();
        PortError::Open {
            port: guid.to_string(),
            cause: match known.is_empty() {
                true => "this machine has no HCA".to_owned(),
                false => format!("no such port; there are {}", known.join(", ")),
            },
            advice: ADVICE_LIST,
        }
    })?;
    Ok((ca.clone(), port.clone()))
}

fn arrival(envelope: &Envelope) -> Arrival {
    let mut mad = Mad::from_bytes(envelope.mad);
    let returned = envelope.status != 0;
    if returned || mad.method().is_response() {
        let own = mad.transaction().0 & OWN_TRANSACTION_BITS;
        mad.set_transaction(TransactionId(own));
    }
    let datagram = Datagram {
        address: Address {
            lid: Lid(envelope.lid),
            qp: envelope.qp,
            sl: Sl::new(envelope.sl).unwrap_or_default(),
        },
        mad,
    };
    if returned {
        Arrival::Returned(datagram)
    } else {
        Arrival::Received(datagram)
    }
}

/// Converts to whole milliseconds, rounded up so that a short wait does not become zero.
fn millis(duration: Duration) -> c_int {
    c_int::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
}

fn close(fd: c_int) {
    // SAFETY: closes a descriptor that its owner gave up. Through libc, so that ibsim's shim sees it.
    unsafe { libc::close(fd) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_types::Guid;

    fn machine() -> Vec<CaInfo> {
        let port = |number, state, is_infiniband| CaPort {
            number: PortNum::new(number).unwrap(),
            guid: Guid(u64::from(number)),
            state,
            is_infiniband,
        };
        let ca = |name: &str, ports: Vec<CaPort>| CaInfo {
            name: name.to_owned(),
            node_guid: Guid(1),
            ports,
        };
        vec![
            ca("mlx5_0", vec![port(1, 4, false), port(2, 1, true), port(3, 4, true)]),
            ca("mlx5_1", vec![port(1, 1, true)]),
        ]
    }

    #[test]
    fn the_port_a_user_means() {
        let check = |ca: &str, port: Option<u8>, want: Option<(&str, u8)>| {
            let chosen = choose(&machine(), ca, port.and_then(PortNum::new)).ok();
            let got = chosen.map(|(ca, port)| (ca.name, port.number.get()));
            assert_eq!(got, want.map(|(ca, port)| (ca.to_owned(), port)), "{ca} {port:?}");
        };
        check("", None, Some(("mlx5_0", 3)));
        check("mlx5_0", Some(2), Some(("mlx5_0", 2)));
        check("mlx5_1", None, Some(("mlx5_1", 1)));
        check("mlx5_1", Some(2), None);
        check("mlx4_0", None, None);
    }

    #[test]
    fn a_machine_without_hca_is_told_so() {
        let error = choose(&[], "", None).unwrap_err().to_string();
        assert!(error.contains("no HCA"), "{error}");
    }

    #[test]
    fn short_waits_are_not_zero() {
        assert_eq!(millis(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::ZERO), 0);
        assert_eq!(millis(Duration::MAX), c_int::MAX);
    }

    #[test]
    fn only_our_own_transactions_lose_the_upper_half() {
        let check = |method: u8, status: i32, want: u64| {
            let mut bytes = [0; 256];
            bytes[1] = 1;
            bytes[3] = method;
            bytes[8..16].copy_from_slice(&0x0001_0002_0000_0007_u64.to_be_bytes());
            let envelope = Envelope {
                status,
                lid: 1,
                qp: 0,
                sl: 0,
                mad: bytes,
            };
            let (Arrival::Received(got) | Arrival::Returned(got)) = arrival(&envelope);
            assert_eq!(got.mad.transaction().0, want, "{method:#x}");
        };
        check(0x81, 0, 7);
        check(0x01, 110, 7);
        check(0x01, 0, 0x0001_0002_0000_0007);
        check(0x05, 0, 0x0001_0002_0000_0007);
    }
}
