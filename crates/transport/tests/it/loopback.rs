//! Server and client of the ibsim protocol against each other.
//!
//! Behind the server stands a "fabric" of two hosts that answers NodeInfo and nothing else.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use selvedge_transport::ibsim::protocol::{Connect, Control, Kind};
use selvedge_transport::ibsim::{
    AttachPoint, Backend, Counters, Delivery, IbsimPort, IbsimServer, SLOTS, ServerEvent, ServerOptions,
};
use selvedge_types::{Guid, Lid, NodeKind, PKey, PortNum, TransactionId};
use selvedge_wire::attribute::NodeInfo;
use selvedge_wire::{
    Address, Arrival, Attribute, AttributeId, Class, Datagram, DirectedRoute, Mad, MadPort, Method, PortError, SmpData,
};

/// Every wait ends here; nothing in these tests takes as long unless it is broken.
const DEADLINE: Duration = Duration::from_secs(20);

struct TwoHosts;

const H1: AttachPoint = AttachPoint {
    node: 1,
    port: PortNum::new(1).unwrap(),
};

impl Backend for TwoHosts {
    fn find(&self, name: &str) -> Option<AttachPoint> {
        let node = match name {
            "" | "H1" => 1,
            "H2" => 2,
            _ => return None,
        };
        Some(AttachPoint { node, ..H1 })
    }

    fn name(&self, at: AttachPoint) -> String {
        format!("H{}", at.node)
    }

    fn node_info(&self, at: AttachPoint) -> SmpData {
        NodeInfo {
            base_version: 1,
            class_version: 1,
            kind: NodeKind::Ca,
            port_count: 1,
            system_guid: Guid::NONE,
            node_guid: Guid(u64::from(at.node) << 8),
            port_guid: Guid(0xFACE + u64::from(at.node)),
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
        data
    }

    fn p_keys(&self, _: AttachPoint) -> Vec<PKey> {
        vec![PKey::DEFAULT_FULL]
    }
}

/// A function that a test runs in the server's thread.
type Job = Box<dyn FnOnce(&mut IbsimServer) + Send>;

struct Lab {
    base: String,
    events: Receiver<ServerEvent>,
    jobs: Sender<Job>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Lab {
    fn new(options: ServerOptions) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let base = format!(
            "slv-loop-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let mut server = IbsimServer::bind(&base, options).unwrap();
        let (tell, events) = channel();
        let (jobs, asked) = channel::<Job>();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut batch = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                server.poll(&TwoHosts, Duration::from_millis(5), &mut batch).unwrap();
                for event in batch.drain(..) {
                    answer_node_info(&mut server, &event);
                    let _ = tell.send(event);
                }
                asked.try_iter().for_each(|job| job(&mut server));
            }
        });
        Self {
            base,
            events,
            jobs,
            stop,
            thread: Some(thread),
        }
    }

    fn open(&self, node: &str) -> Result<IbsimPort, PortError> {
        IbsimPort::open(&self.base, node)
    }

    /// Runs `job` in the server's thread.
    fn run<T: Send + 'static>(&self, job: impl FnOnce(&mut IbsimServer) -> T + Send + 'static) -> T {
        let (tell, result) = channel();
        self.jobs
            .send(Box::new(move |server| drop(tell.send(job(server)))))
            .unwrap();
        result.recv_timeout(DEADLINE).unwrap()
    }

    fn counters(&self) -> Counters {
        self.run(|server| server.counters())
    }

    /// The next event that `pick` takes; others are skipped.
    fn wait_for<T>(&self, pick: impl Fn(&ServerEvent) -> Option<T>) -> T {
        let end = Instant::now() + DEADLINE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left).expect("the awaited event did not come");
            if let Some(found) = pick(&event) {
                return found;
            }
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer_node_info(server: &mut IbsimServer, event: &ServerEvent) {
    if let ServerEvent::Datagram { at, datagram, .. } = event
        && datagram.mad.attribute() == AttributeId::NODE_INFO
    {
        let mut mad = response_to(&datagram.mad);
        mad.set_smp_data(&TwoHosts.node_info(*at));
        server.deliver(&delivery(*at, mad));
    }
}

fn delivery(at: AttachPoint, mad: Mad) -> Delivery {
    Delivery {
        at,
        from: Address::DIRECTED,
        to: Address::DIRECTED,
        mad,
    }
}

fn response_to(request: &Mad) -> Mad {
    let mut bytes = *request.as_bytes();
    bytes[3] |= 0x80;
    Mad::from_bytes(bytes)
}

fn get(attribute: AttributeId, transaction: u64) -> Datagram {
    let mut mad = Mad::directed(Method::Get, attribute, 0, &DirectedRoute::LOCAL);
    mad.set_transaction(TransactionId(transaction));
    Datagram {
        address: Address::DIRECTED,
        mad,
    }
}

fn trap() -> Mad {
    let mut mad = Mad::request(Class::SubnLid, Method::Trap, AttributeId::NOTICE, 0);
    mad.set_transaction(TransactionId(0x77));
    mad
}

fn receive(port: &mut IbsimPort) -> Arrival {
    port.receive(DEADLINE).unwrap().expect("nothing arrived")
}

fn abstract_name(name: &str) -> SocketAddr {
    SocketAddr::from_abstract_name(format!("{name}\0")).unwrap()
}

fn quick() -> ServerOptions {
    ServerOptions {
        response_timeout: Duration::from_millis(10),
        retries: 2,
    }
}

#[test]
fn a_client_learns_who_it_is() {
    let lab = Lab::new(ServerOptions::default());
    let port = lab.open("H2").unwrap();
    assert_eq!(port.node(), "H2");
    let local = port.local();
    assert_eq!(
        (local.node_guid, local.port_guid, local.port.get()),
        (Guid(0x200), Guid(0xFAD0), 1)
    );
    assert_eq!(lab.open("").unwrap().node(), "H1");
}

#[test]
fn unknown_nodes_and_missing_servers_are_refused_with_advice() {
    let lab = Lab::new(ServerOptions::default());
    let check = |base: &str, node: &str, want: &str| {
        let error = IbsimPort::open(base, node).err().unwrap().to_string();
        assert!(error.contains("SLV-PORT-0001") && error.contains(want), "{error}");
    };
    check(&lab.base, "H3", "name a node");
    check("slv-loop-nobody", "", "start ibsim");
    assert_eq!(lab.counters().refused, 1);
}

#[test]
fn every_slot_works_and_is_used_again() {
    let lab = Lab::new(ServerOptions::default());
    let mut ports: Vec<_> = (0..SLOTS).map(|_| lab.open("H1").unwrap()).collect();
    assert!(lab.open("H1").is_err());
    for (transaction, port) in ports.iter_mut().enumerate() {
        port.send(&get(AttributeId::NODE_INFO, transaction as u64), DEADLINE)
            .unwrap();
        let Arrival::Received(answer) = receive(port) else {
            panic!("returned")
        };
        assert_eq!(answer.mad.transaction(), TransactionId(transaction as u64));
    }
    drop(ports.remove(17));
    lab.wait_for(|event| match event {
        ServerEvent::Detached { slot, .. } => (slot.index() == 17).then_some(()),
        _ => None,
    });
    lab.open("H1").unwrap();
}

#[test]
fn only_an_sm_gets_traps() {
    let lab = Lab::new(ServerOptions::default());
    let mut bystander = lab.open("H1").unwrap();
    let mut elsewhere = lab.open("H2").unwrap();
    let mut manager = lab.open("H1").unwrap();
    assert!(!lab.run(|server| server.deliver(&delivery(H1, trap()))));
    manager.set_is_sm(true).unwrap();
    elsewhere.set_is_sm(true).unwrap();
    let first = lab.wait_for(|event| match *event {
        ServerEvent::IsSm { at, is_sm, .. } => Some((at, is_sm)),
        _ => None,
    });
    assert_eq!(first, (H1, true));
    assert!(lab.run(|server| server.deliver(&delivery(H1, trap()))));
    let Arrival::Received(got) = receive(&mut manager) else {
        panic!("returned")
    };
    assert_eq!(got.mad, trap());
    for other in [&mut bystander, &mut elsewhere] {
        assert_eq!(other.receive(Duration::ZERO).unwrap(), None);
    }
    drop(manager);
    let left = lab.wait_for(|event| match *event {
        ServerEvent::IsSm { at, is_sm: false, .. } => Some(at),
        _ => None,
    });
    assert_eq!(left, H1);
}

#[test]
fn a_class_without_agent_reaches_no_sm() {
    let lab = Lab::new(ServerOptions::default());
    let mut manager = lab.open("H1").unwrap();
    manager.set_is_sm(true).unwrap();
    let check = |class: Class, want: bool| {
        let mad = Mad::request(class, Method::Get, AttributeId::CLASS_PORT_INFO, 0);
        assert_eq!(
            lab.run(move |server| server.deliver(&delivery(H1, mad))),
            want,
            "{class:?}"
        );
    };
    check(Class::SubnAdm, true);
    check(Class::SubnLid, true);
    check(Class::PerfMgt, false);
    check(Class::Other(0x07), false);
}

#[test]
fn unanswered_requests_are_sent_again_and_come_back() {
    let lab = Lab::new(quick());
    let mut port = lab.open("H1").unwrap();
    let before = lab.counters();
    let request = get(AttributeId::PORT_INFO, 5);
    port.send(&request, DEADLINE).unwrap();
    assert_eq!(receive(&mut port), Arrival::Returned(request));
    let counters = lab.counters();
    assert_eq!(
        (counters.retried - before.retried, counters.returned - before.returned),
        (2, 1)
    );
    // The response is too late now, and must not be delivered to any client.
    let mad = lab.wait_for(|event| match event {
        ServerEvent::Datagram { datagram, .. } if datagram.mad.attribute() == AttributeId::PORT_INFO => {
            Some(datagram.mad)
        }
        _ => None,
    });
    assert!(!lab.run(move |server| server.deliver(&delivery(H1, response_to(&mad)))));
    assert_eq!(lab.counters().late - counters.late, 1);
}

#[test]
fn give_back_is_at_once() {
    let lab = Lab::new(ServerOptions {
        response_timeout: DEADLINE,
        retries: 9,
    });
    let mut port = lab.open("H1").unwrap();
    port.send(&get(AttributeId::PORT_INFO, 5), DEADLINE).unwrap();
    port.flush().unwrap();
    let transaction = lab.wait_for(|event| match event {
        ServerEvent::Datagram { datagram, .. } if datagram.mad.attribute() == AttributeId::PORT_INFO => {
            Some(datagram.mad.transaction())
        }
        _ => None,
    });
    lab.run(move |server| server.give_back(transaction));
    assert!(matches!(receive(&mut port), Arrival::Returned(_)));
}

#[test]
fn others_transactions_keep_all_bits() {
    let lab = Lab::new(ServerOptions::default());
    let mut port = lab.open("H1").unwrap();
    port.set_is_sm(true).unwrap();
    let mut mad = Mad::request(Class::SubnLid, Method::Get, AttributeId::SM_INFO, 0);
    let foreign = TransactionId(0x1234_5678_9ABC_DEF0);
    mad.set_transaction(foreign);
    assert!(lab.run(move |server| server.deliver(&delivery(H1, mad))));
    let Arrival::Received(asked) = receive(&mut port) else {
        panic!("returned")
    };
    assert_eq!(asked.mad.transaction(), foreign);
    let answer = Datagram {
        address: asked.address,
        mad: response_to(&asked.mad),
    };
    port.send(&answer, Duration::ZERO).unwrap();
    port.flush().unwrap();
    let echoed = lab.wait_for(|event| match event {
        ServerEvent::Datagram { datagram, .. } if datagram.mad.method() == Method::GetResp => {
            Some(datagram.mad.transaction())
        }
        _ => None,
    });
    assert_eq!(echoed, foreign);
}

#[test]
fn a_client_that_stops_reading_holds_nobody_up() {
    let lab = Lab::new(ServerOptions::default());
    let mut stuck = lab.open("H1").unwrap();
    stuck.set_is_sm(true).unwrap();
    let mut other = lab.open("H2").unwrap();
    const FLOOD: u64 = 5000;
    lab.run(|server| {
        (0..FLOOD).for_each(|_| {
            server.deliver(&delivery(H1, trap()));
        })
    });
    other.send(&get(AttributeId::NODE_INFO, 1), DEADLINE).unwrap();
    assert!(matches!(receive(&mut other), Arrival::Received(_)));
    let dropped = lab.counters().dropped_full;
    assert!(dropped > 0 && dropped < FLOOD, "{dropped}");
    // What was not dropped arrives once it reads again.
    for _ in 0..FLOOD - dropped {
        receive(&mut stuck);
    }
}

/// The two sockets of a client, for tests that send arbitrary messages. Dropping it closes them without a message, as
/// SIGKILL does.
struct Bare {
    control: UnixDatagram,
    data: UnixDatagram,
    server: SocketAddr,
}

impl Bare {
    fn bind(base: &str, id: u32) -> Self {
        let bind = |end: &str| UnixDatagram::bind_addr(&abstract_name(&format!("{base}:{end}{id}"))).unwrap();
        let (control, data) = (bind("ctl"), bind("in"));
        control.set_read_timeout(Some(DEADLINE)).unwrap();
        Self {
            control,
            data,
            server: abstract_name(&format!("{base}:ctl")),
        }
    }

    /// Returns a client attached to H1, and its slot.
    fn attach(base: &str, id: u32, is_sm: bool) -> (Self, u32) {
        let bare = Self::bind(base, id);
        let answer = bare.ask(&connect(id, is_sm));
        assert_eq!(answer.kind, Kind::Connect);
        let slot = Connect::parse(&answer.data).id;
        let out = abstract_name(&format!("{base}:out{slot}"));
        bare.data.connect_addr(&out).unwrap();
        (bare, slot)
    }

    fn ask(&self, message: &Control) -> Control {
        self.control.send_to_addr(&message.emit(), &self.server).unwrap();
        let mut answer = [0; 80];
        self.control.recv(&mut answer).unwrap();
        Control::parse(&answer).unwrap()
    }
}

fn connect(id: u32, is_sm: bool) -> Control {
    let wish = Connect {
        id,
        qp: 0,
        is_sm,
        node: "H1".to_owned(),
    };
    Control::new(Kind::Connect, 0, &wish.emit())
}

fn set_is_sm(slot: u32, is_sm: bool) -> Control {
    Control::new(Kind::SetIsSm, slot, &u32::from(is_sm).to_ne_bytes())
}

/// True if a client gets an answer.
fn is_answered(port: &mut IbsimPort) -> bool {
    port.send(&get(AttributeId::NODE_INFO, 9), DEADLINE).unwrap();
    matches!(receive(port), Arrival::Received(_))
}

/// Messages in the name of a client have no effect if another process sends them, whether attached or not.
#[test]
fn a_client_speaks_for_itself_only() {
    let lab = Lab::new(ServerOptions::default());
    let mut victim = lab.open("H1").unwrap();
    victim.set_is_sm(true).unwrap();
    let (slot, _, _) = lab.run(|server| server.clients().next().unwrap());
    let slot = slot.index() as u32;
    let (attached, own) = Bare::attach(&lab.base, 78, false);
    let unattached = Bare::bind(&lab.base, 79);
    assert_ne!(own, slot);
    for stranger in [&attached, &unattached] {
        for message in [
            Control::new(Kind::Disconnect, slot, &[]),
            set_is_sm(slot, false),
            // The victim's id: the server would take the former client for dead.
            connect(std::process::id(), false),
            Control::new(Kind::Gid, slot, &[]),
        ] {
            assert_eq!(stranger.ask(&message).kind, Kind::Error, "{:?}", message.kind);
        }
    }
    assert_eq!(lab.counters().foreign, 8);
    assert!(is_answered(&mut victim));
    let clients: Vec<bool> = lab.run(|server| server.clients().map(|(.., is_sm)| is_sm).collect());
    assert_eq!(clients, [true, false], "the victim and the attached stranger");
    assert_eq!(
        attached.ask(&Control::new(Kind::Disconnect, own, &[])).kind,
        Kind::Disconnect
    );
    assert_eq!(lab.run(|server| server.clients().count()), 1, "each may leave");
}

/// Returns the changes of IsSM at H1 so far.
fn is_sm_changes(lab: &Lab) -> Vec<bool> {
    // The server's thread reports all events of its past work before it takes a job.
    lab.counters();
    let changes = lab.events.try_iter().filter_map(|event| match event {
        ServerEvent::IsSm { at, is_sm, .. } => Some((at, is_sm)),
        _ => None,
    });
    changes
        .inspect(|(at, _)| assert_eq!(*at, H1))
        .map(|(_, is_sm)| is_sm)
        .collect()
}

/// A manager that starts right after a kill of the previous one at its port keeps the port's IsSM bit and its packets.
/// That holds before and after the server notices the dead client.
#[test]
fn the_next_manager_at_a_port_keeps_its_bit() {
    for says_at_once in [false, true] {
        let lab = Lab::new(ServerOptions::default());
        let (killed, slot) = Bare::attach(&lab.base, 77, says_at_once);
        if !says_at_once {
            assert_eq!(killed.ask(&set_is_sm(slot, true)).kind, Kind::SetIsSm);
        }
        drop(killed);
        let mut next = lab.open("H1").unwrap();
        next.set_is_sm(true).unwrap();
        assert!(lab.run(|server| server.deliver(&delivery(H1, trap()))));
        let Arrival::Received(got) = receive(&mut next) else {
            panic!("returned")
        };
        assert_eq!(got.mad, trap());
        let end = Instant::now() + DEADLINE;
        while lab.counters().died < 1 {
            assert!(Instant::now() < end, "the dead one keeps its place");
        }
        assert_eq!(is_sm_changes(&lab).last(), Some(&true));
        assert!(is_answered(&mut next));
    }
}

/// A killed manager counts as alive while another process, as its child, holds its sockets open. Its end does not clear
/// the bit of the second manager.
#[test]
fn one_of_two_managers_at_a_port_takes_only_its_own() {
    let lab = Lab::new(ServerOptions::default());
    let (first, slot) = Bare::attach(&lab.base, 77, false);
    assert_eq!(first.ask(&set_is_sm(slot, true)).kind, Kind::SetIsSm);
    let mut second = lab.open("H1").unwrap();
    second.set_is_sm(true).unwrap();
    assert_eq!(is_sm_changes(&lab), [true]);
    drop(first);
    let end = Instant::now() + DEADLINE;
    while lab.counters().died < 1 {
        assert!(Instant::now() < end);
    }
    assert_eq!(is_sm_changes(&lab), [], "the bit belongs to the second manager");
    second.set_is_sm(false).unwrap();
    assert_eq!(is_sm_changes(&lab), [false]);
}

/// A detached client cannot send any more: otherwise it would wait for answers for ever.
#[test]
fn a_detached_client_learns_of_it() {
    let lab = Lab::new(ServerOptions::default());
    let (bare, slot) = Bare::attach(&lab.base, 77, false);
    assert_eq!(
        bare.ask(&Control::new(Kind::Disconnect, slot, &[])).kind,
        Kind::Disconnect
    );
    let error = bare.data.send(&[0; 288]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{error}");
    // A foreign process cannot fill the unread queue either.
    let stranger = UnixDatagram::unbound().unwrap();
    let free = abstract_name(&format!("{}:out{slot}", lab.base));
    assert!(stranger.send_to_addr(&[0; 288], &free).is_err());
}

/// A waiting manager notices that its server has ended, and that another server has replaced it.
#[test]
fn a_client_that_only_waits_notices_the_end() {
    for is_replaced in [false, true] {
        let lab = Lab::new(ServerOptions::default());
        let base = lab.base.clone();
        let mut port = lab.open("H1").unwrap();
        drop(lab);
        let _next = is_replaced.then(|| IbsimServer::bind(&base, ServerOptions::default()).unwrap());
        let error = port.receive(DEADLINE).unwrap_err();
        assert!(matches!(error, PortError::Gone { .. }), "{error}");
        assert!(error.to_string().starts_with("SLV-PORT-0002"), "{error}");
    }
}

#[test]
fn the_dead_lose_their_slot() {
    let lab = Lab::new(ServerOptions::default());
    drop(Bare::attach(&lab.base, 77, true));
    let at = lab.wait_for(|event| match *event {
        ServerEvent::Detached { at, .. } => Some(at),
        _ => None,
    });
    assert_eq!(at, H1);
    assert_eq!(lab.counters().died, 1);
    assert_eq!(lab.run(|server| server.clients().count()), 0);
}

#[test]
fn hostile_bytes_are_counted_and_dropped() {
    let lab = Lab::new(ServerOptions::default());
    let socket = UnixDatagram::unbound().unwrap();
    let server = abstract_name(&format!("{}:ctl", lab.base));
    for length in [0, 1, 79, 80, 81, 300] {
        socket.send_to_addr(&vec![0xEE; length], &server).unwrap();
    }
    let end = Instant::now() + DEADLINE;
    while lab.counters().malformed < 6 {
        assert!(Instant::now() < end, "{:?}", lab.counters());
    }
    lab.open("H1").unwrap();
}

#[test]
fn a_name_is_served_once() {
    let lab = Lab::new(ServerOptions::default());
    let check = |base: &str, want: &str| {
        let error = IbsimServer::bind(base, ServerOptions::default())
            .err()
            .unwrap()
            .to_string();
        assert!(error.starts_with(want), "{error}");
    };
    check(&lab.base, "SLV-PORT-0105");
    check("", "SLV-PORT-0104");
    check("a:b", "SLV-PORT-0104");
    check(&"x".repeat(81), "SLV-PORT-0104");
}

#[test]
fn a_server_that_ends_is_noticed() {
    let lab = Lab::new(ServerOptions::default());
    let mut port = lab.open("H1").unwrap();
    drop(lab);
    port.send(&get(AttributeId::NODE_INFO, 1), DEADLINE).unwrap();
    let error = port.flush().unwrap_err();
    assert!(matches!(error, PortError::Gone { .. }), "{error}");
}

#[test]
fn requests_are_addressed_as_asked() {
    let lab = Lab::new(ServerOptions::default());
    let mut port = lab.open("H1").unwrap();
    let mad = Mad::request(Class::PerfMgt, Method::Get, AttributeId::PORT_COUNTERS, 0);
    let address = Address::gsi(Lid(0x102), selvedge_types::Sl::default());
    port.send(&Datagram { address, mad }, DEADLINE).unwrap();
    port.flush().unwrap();
    let (to, from_qp) = lab.wait_for(|event| match event {
        ServerEvent::Datagram { datagram, from_qp, .. } if datagram.mad.class() == Class::PerfMgt => {
            Some((datagram.address, *from_qp))
        }
        _ => None,
    });
    assert_eq!((to, from_qp), (address, 1));
}

/// A standby sends a trap to its master: the master's TrapRepress is its answer, and without one the trap is returned.
#[test]
fn traps_of_clients_are_answered_or_handed_back() {
    let told = |lab: &Lab, standby: &mut IbsimPort| {
        let address = Address::smi(Lid(1));
        standby.send(&Datagram { address, mad: trap() }, DEADLINE).unwrap();
        standby.flush().unwrap();
        lab.wait_for(|event| match event {
            ServerEvent::Datagram { datagram, .. } if datagram.mad.method() == Method::Trap => Some(datagram.mad),
            _ => None,
        })
    };
    let lab = Lab::new(ServerOptions {
        response_timeout: DEADLINE,
        ..quick()
    });
    let (mut master, mut standby) = (lab.open("H1").unwrap(), lab.open("H2").unwrap());
    let mut mad = told(&lab, &mut standby);
    mad.set_method(Method::TrapRepress);
    let address = Address::smi(Lid(2));
    master.send(&Datagram { address, mad }, DEADLINE).unwrap();
    master.flush().unwrap();
    let Arrival::Received(answer) = receive(&mut standby) else {
        panic!("handed back, though it was answered")
    };
    assert_eq!((answer.mad.method(), answer.address.lid), (Method::TrapRepress, Lid(1)));
    let lab = Lab::new(quick());
    let mut standby = lab.open("H2").unwrap();
    told(&lab, &mut standby);
    assert!(matches!(receive(&mut standby), Arrival::Returned(_)), "nobody answered");
}
