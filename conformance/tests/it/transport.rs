//! Our transport with its peers: our client on a real ibsim, our umad client under the real shim, and the real shim on
//! our server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use selvedge_conformance::parse::Fields;
use selvedge_conformance::{OpenSmOptions, PeerLab, until};
use selvedge_transport::ibsim::{
    AttachPoint, Backend, Delivery, IbsimPort, IbsimServer, SLOTS, ServerEvent, ServerOptions,
};
use selvedge_transport::umad::{Umad, UmadPort};
use selvedge_transport::{PortSpec, Role, open};
use selvedge_types::{Guid, Lid, NodeKind, PKey, PortNum, TransactionId};
use selvedge_wire::attribute::NodeInfo;
use selvedge_wire::{
    Address, Arrival, Attribute, AttributeId, Class, Datagram, DirectedRoute, Mad, MadPort, Method, SmpData,
};

const NET: &str = include_str!("../../fabrics/two-switches.net");
const LIMIT: Duration = Duration::from_secs(30);
/// Number of clients that a real ibsim accepts.
const IBSIM_CLIENTS: usize = 10;

fn node_info(route: &[u8], transaction: u64) -> Datagram {
    let ports: Vec<_> = route.iter().map(|&port| PortNum::new(port).unwrap()).collect();
    let route = DirectedRoute::new(&ports).unwrap();
    let mut mad = Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route);
    mad.set_transaction(TransactionId(transaction));
    Datagram {
        address: Address::DIRECTED,
        mad,
    }
}

/// Checks what every kind of port must do: a request for the node one hop away is answered, and a request for a node
/// that is not there is returned.
fn look_around(port: &mut dyn MadPort) {
    port.send(&node_info(&[1], 0xFFFF_FFFF_0000_0001), LIMIT).unwrap();
    let Some(Arrival::Received(answer)) = port.receive(LIMIT).unwrap() else {
        panic!("no answer")
    };
    assert_eq!(answer.mad.transaction(), TransactionId(1));
    let info = NodeInfo::parse(answer.mad.smp_data()).unwrap();
    assert_eq!((info.kind, info.port_count), (NodeKind::Switch, 8));
    // Port 8 of the switch has no cable.
    port.send(&node_info(&[1, 8], 2), LIMIT).unwrap();
    let Some(Arrival::Returned(lost)) = port.receive(LIMIT).unwrap() else {
        panic!("not returned")
    };
    assert_eq!(lost.mad.transaction(), TransactionId(2));
    assert_eq!(port.receive(Duration::ZERO).unwrap(), None);
}

/// Asks the agent of the own port for PortInfo.CapabilityMask.IsSM.
fn is_sm(port: &mut dyn MadPort) -> bool {
    let mut mad = Mad::directed(Method::Get, AttributeId::PORT_INFO, 0, &DirectedRoute::LOCAL);
    mad.set_transaction(TransactionId(9));
    let address = Address::DIRECTED;
    port.send(&Datagram { address, mad }, LIMIT).unwrap();
    let Some(Arrival::Received(answer)) = port.receive(LIMIT).unwrap() else {
        panic!("no answer")
    };
    answer.mad.smp_data()[23] & 0x02 != 0
}

#[test]
fn our_client_at_a_real_ibsim() {
    let lab = PeerLab::new().unwrap();
    let mut ibsim = lab.ibsim(NET).unwrap();
    let spec: PortSpec = format!("ibsim:{}/H3", lab.base()).parse().unwrap();
    let mut port = open(&spec, Role::Manager).unwrap();
    let local = port.local();
    assert_eq!(
        (local.node_guid, local.port_guid, local.port.get()),
        (Guid(0x10_0004), Guid(0x10_0005), 1)
    );
    look_around(&mut *port);
    assert!(!is_sm(&mut *port));
    port.set_is_sm(true).unwrap();
    assert!(is_sm(&mut *port));
    drop(port);
    until("ibsim to forget us", LIMIT, String::new, || {
        Ok(ibsim.attached()?.is_empty().then_some(()))
    })
    .unwrap();
    assert!(!is_sm(&mut IbsimPort::open(lab.base(), "H3").unwrap()));
}

#[test]
fn a_real_ibsim_takes_ten_clients() {
    let lab = PeerLab::new().unwrap();
    let _ibsim = lab.ibsim(NET).unwrap();
    let mut ports: Vec<_> = (0..IBSIM_CLIENTS)
        .map(|_| IbsimPort::open(lab.base(), "H1").unwrap())
        .collect();
    assert!(IbsimPort::open(lab.base(), "H1").is_err());
    ports.iter_mut().for_each(|port| look_around(port));
}

#[test]
fn a_standby_asks_a_real_opensm() {
    let lab = PeerLab::new().unwrap();
    let _ibsim = lab.ibsim(NET).unwrap();
    let mut opensm = lab.opensm("H1", &OpenSmOptions::default()).unwrap();
    opensm.wait_up(1, LIMIT).unwrap();
    let mut port = IbsimPort::open(lab.base(), "H2").unwrap();
    // OpenSM gives LIDs from 1 and starts with itself.
    let mut mad = Mad::request(Class::SubnLid, Method::Get, AttributeId::SM_INFO, 0);
    mad.set_transaction(TransactionId(7));
    let address = Address::smi(Lid(1));
    port.send(&Datagram { address, mad }, LIMIT).unwrap();
    let Some(Arrival::Received(answer)) = port.receive(LIMIT).unwrap() else {
        panic!("no answer")
    };
    assert_eq!(
        (answer.mad.method(), answer.mad.transaction()),
        (Method::GetResp, TransactionId(7))
    );
    assert_eq!((answer.address.lid, answer.address.qp), (Lid(1), 0));
    // SMInfo.SMState, low half of byte 20: 3 is master.
    assert_eq!(answer.mad.smp_data()[20] & 0x0F, 3);
    opensm.stop(LIMIT).unwrap();
}

/// The part of [`umad_under_the_shim`] that runs in a child process. If it is run alone, it does nothing.
#[test]
fn umad_child() {
    if std::env::var_os("SIM_HOST").is_none() {
        return;
    }
    let all = Umad::load().unwrap().list();
    assert_eq!(all.len(), 1, "{all:?}");
    let port = all[0].ports[0].number;
    assert!(UmadPort::open("mlx5_7", None, Role::Manager).is_err());
    let mut port = UmadPort::open("ibsim0", Some(port), Role::Manager).unwrap();
    assert_eq!(
        (port.local().node_guid, port.local().port_guid),
        (Guid(0x10_0002), Guid(0x10_0003))
    );
    look_around(&mut port);
    port.set_is_sm(true).unwrap();
    assert!(is_sm(&mut port));
    port.set_is_sm(false).unwrap();
    assert!(!is_sm(&mut port));
    println!("child is content");
}

#[test]
fn umad_under_the_shim() {
    let lab = PeerLab::new().unwrap();
    let _ibsim = lab.ibsim(NET).unwrap();
    let own = std::env::current_exe().unwrap();
    let output = lab
        .output(
            "H2",
            &own.to_string_lossy(),
            &["--exact", "transport::umad_child", "--nocapture"],
        )
        .unwrap();
    assert!(output.contains("child is content"), "{output}");
}

/// A fabric of one host with a port GUID that does not follow from its node GUID.
struct OneHost;

const AT: AttachPoint = AttachPoint {
    node: 0,
    port: PortNum::new(1).unwrap(),
};

impl Backend for OneHost {
    fn find(&self, name: &str) -> Option<AttachPoint> {
        ["", "host"].contains(&name).then_some(AT)
    }

    fn name(&self, _: AttachPoint) -> String {
        "host".to_owned()
    }

    fn node_info(&self, _: AttachPoint) -> SmpData {
        NodeInfo {
            base_version: 1,
            class_version: 1,
            kind: NodeKind::Ca,
            port_count: 1,
            system_guid: Guid(0xA0),
            node_guid: Guid(0xA1),
            port_guid: Guid(0xB0_0000),
            partition_cap: 1,
            device_id: 0,
            revision: 0,
            local_port: 1,
            vendor_id: 0,
        }
        .emit()
    }

    fn port_info(&self, _: AttachPoint, _: PortNum) -> SmpData {
        let mut data = [0; 64];
        data[28] = 1;
        data[32] = 0x02;
        data
    }

    fn p_keys(&self, _: AttachPoint) -> Vec<PKey> {
        vec![PKey::DEFAULT_FULL]
    }
}

/// Serves [`OneHost`] in a thread of its own until dropped.
struct Emulation {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Emulation {
    fn start(base: &str) -> Self {
        let mut server = IbsimServer::bind(base, ServerOptions::default()).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut events = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                server.poll(&OneHost, Duration::from_millis(5), &mut events).unwrap();
                events.drain(..).for_each(|event| answer(&mut server, &event));
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(server: &mut IbsimServer, event: &ServerEvent) {
    let ServerEvent::Datagram { at, datagram, .. } = event else {
        return;
    };
    let mut mad = datagram.mad;
    if mad.attribute() != AttributeId::NODE_INFO {
        return server.give_back(mad.transaction());
    }
    mad.as_bytes_mut()[3] = Method::GetResp.code();
    mad.set_returning(true);
    mad.set_smp_data(&OneHost.node_info(*at));
    server.deliver(&Delivery {
        at: *at,
        from: Address::DIRECTED,
        to: Address::DIRECTED,
        mad,
    });
}

#[test]
fn the_real_shim_in_a_slot_that_ibsim_does_not_have() {
    let lab = PeerLab::new().unwrap();
    let _emulation = Emulation::start(lab.base());
    let _others: Vec<_> = (0..SLOTS - 1)
        .map(|_| IbsimPort::open(lab.base(), "").unwrap())
        .collect();
    let fields = Fields::parse(&lab.output("host", "smpquery", &["-D", "nodeinfo", "0"]).unwrap());
    assert_eq!(fields.number("PortGuid").unwrap(), 0xB0_0000);
    // A request that the fabric returns ends without smpquery's own time-out of ten minutes.
    let lost = lab
        .run("host", "smpquery", &["-D", "-t", "600000", "portinfo", "0"])
        .unwrap();
    assert!(!lost.status.success());
}

#[test]
fn opensm_finds_its_port_guid_although_the_shim_computes_it() {
    let lab = PeerLab::new().unwrap();
    let _emulation = Emulation::start(lab.base());
    let output = lab.output("host", "ibstat", &["-p"]).unwrap();
    assert_eq!(output.trim(), "0x0000000000b00000");
}
