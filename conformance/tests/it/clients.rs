//! What a host registers, as real clients see it: `saquery` shows services and subscriptions, and a subscription brings
//! Reports over the wire. Also, ports that clients name by GUID: `smpquery -G`, `perfquery -G`.

use std::time::{Duration, Instant};

use crate::support::{Fabric, LIMIT, emulate, fault, lid_of, port};
use selvedge_conformance::parse::Fields;
use selvedge_conformance::{HeavyLock, Ibsim, PeerLab, Running, until};
use selvedge_transport::ibsim::IbsimPort;
use selvedge_types::{Lid, Sl, TransactionId};
use selvedge_wire::sa::{Field, Layout, records};
use selvedge_wire::{Address, Arrival, Class, Datagram, Mad, MadPort, Method, Status};

const SPEC: &str = "mport:m=4,n=2";
const MASTER: &str = "H-0";
/// The host that registers something.
const CLIENT: &str = "H-5";
/// The host at which the diagnostics run.
const OBSERVER: &str = "H-3";
/// The host with the cable that is pulled.
const LOST: &str = "H-6";
/// The queue pair of `CLIENT` to which Reports come.
const QUEUE_PAIR: u32 = 0x12;
/// Selects every event, of every LID and kind of node.
const ALL: u64 = 0xFFFF;

/// A fabric that our manager has brought up.
struct Stage {
    lab: PeerLab,
    sm: u16,
    // In the order in which they end.
    _manager: Running,
    simulator: Simulator,
    _heavy: HeavyLock,
}

enum Simulator {
    Ours(#[allow(dead_code, reason = "it ends with the stage")] Running),
    Ibsim(Ibsim),
}

impl Stage {
    fn new(start: impl Fn(&PeerLab, &str) -> Simulator) -> Self {
        let heavy = HeavyLock::acquire().unwrap();
        let lab = PeerLab::new().unwrap();
        let fabric = Fabric::new(&lab, SPEC);
        let simulator = start(&lab, &fabric.text);
        let at = port(lab.base(), MASTER);
        let manager = lab.start_daemon(&["run", "--port", &at]).unwrap();
        let answers = || {
            let asked = lab.run(OBSERVER, "saquery", &["SMIR"])?;
            Ok((asked.status.success() && asked.stdout.contains("SMInfoRecord")).then_some(()))
        };
        until("the administrator to answer", LIMIT, String::new, answers).unwrap();
        Self {
            sm: lid_of(&lab, MASTER),
            lab,
            _manager: manager,
            simulator,
            _heavy: heavy,
        }
    }

    fn query(&self, program: &str, arguments: &str) -> String {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        self.lab.output(OBSERVER, program, &arguments).unwrap()
    }

    fn port_guid(&self, node: &str) -> u64 {
        let said = self.lab.output(node, "smpquery", &["-D", "nodeinfo", "0"]).unwrap();
        Fields::parse(&said).number("PortGuid").unwrap()
    }

    /// Pulls the cable of the host `LOST`, or plugs it in again.
    fn cable(&mut self, is_back: bool) {
        match &mut self.simulator {
            Simulator::Ibsim(ibsim) if is_back => ibsim.relink(LOST, 1).unwrap(),
            Simulator::Ibsim(ibsim) => ibsim.unlink(LOST, 1).unwrap(),
            Simulator::Ours(_) => {
                let verb = if is_back { "restore" } else { "cut" };
                fault(&self.lab, &format!("{verb} \"{LOST}\"[1]"));
            }
        }
    }
}

/// A program at the host `CLIENT`.
struct Client {
    port: IbsimPort,
    sa: Address,
    transaction: u64,
}

impl Client {
    /// Sets or deletes a record, and repeats the request until there is an answer. The status of the answer must be
    /// good.
    fn change(&mut self, method: Method, layout: &Layout, fields: &[(Field, u64)], wide: &[(Field, &[u8])]) -> Mad {
        let mut mad = Mad::request(Class::SubnAdm, method, layout.id, 0);
        self.transaction += 1;
        mad.set_transaction(TransactionId(self.transaction));
        let mut mask = 0;
        for (field, value) in fields {
            mask |= field.mask();
            field.set(mad.sa_data_mut(), *value);
        }
        for (field, bytes) in wide {
            mask |= field.mask();
            field.put(mad.sa_data_mut(), bytes);
        }
        mad.set_component_mask(mask);
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            let address = self.sa;
            self.port.send(&Datagram { address, mad }, Duration::ZERO).unwrap();
            while let Some(arrival) = self.port.receive(Duration::from_secs(1)).unwrap() {
                let Arrival::Received(found) = arrival else { continue };
                let is_answer = matches!(found.mad.method(), Method::GetResp | Method::DeleteResp);
                if is_answer && found.mad.transaction() == mad.transaction() {
                    assert_eq!(found.mad.status(), Status::OK, "{}", found.mad);
                    return found.mad;
                }
            }
        }
        panic!("no answer to {mad}");
    }

    /// Receives the next Report and answers it. Returns its trap number and the GID that it is about.
    fn report(&mut self, wait: Duration) -> Option<(u64, u128)> {
        let end = Instant::now() + wait;
        while Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now());
            let Some(Arrival::Received(found)) = self.port.receive(left).unwrap() else {
                continue;
            };
            if found.mad.method() != Method::Report {
                continue;
            }
            let mut mad = found.mad;
            mad.set_method(Method::ReportResp);
            let address = found.address;
            self.port.send(&Datagram { address, mad }, Duration::ZERO).unwrap();
            let data = found.mad.sa_data();
            let about = u128::from_be_bytes(std::array::from_fn(|i| data[16 + i]));
            return Some((records::notice::TRAP_NUMBER.get(data), about));
        }
        None
    }
}

/// All checks of one stage.
fn check(stage: &mut Stage) {
    // ibsim's agents have no GUIDInfo. The built-in emulator has no queue pairs above 1: unsolicited datagrams go to a
    // client that is an SM, so Reports reach hosts on ibsim only.
    let is_ours = matches!(stage.simulator, Simulator::Ours(_));
    let guid = stage.port_guid(CLIENT);
    let gid = 0xFE80_u128 << 112 | u128::from(guid);
    let mut client = Client {
        port: IbsimPort::open_at(stage.lab.base(), CLIENT, QUEUE_PAIR).unwrap(),
        sa: Address::gsi(Lid(stage.sm), Sl::default()),
        transaction: 0,
    };
    services(stage, &mut client, gid);
    subscriptions(stage, &mut client, gid, !is_ours);
    by_guid(stage, guid, is_ours);
}

/// `saquery SR` shows a service until it is deleted.
fn services(stage: &Stage, client: &mut Client, gid: u128) {
    use records::service as f;
    let mut name = [0; 64];
    name[..14].copy_from_slice(b"a file service");
    let fields = [(f::ID, 0x1234_5678), (f::PKEY, 0xFFFF), (f::LEASE, 3_600)];
    let gid_bytes = gid.to_be_bytes();
    let wide: [(Field, &[u8]); 2] = [(f::GID, &gid_bytes), (f::NAME, &name)];
    client.change(Method::Set, &records::SERVICE, &fields, &wide);
    let told = stage.query("saquery", "SR");
    for line in [
        "ServiceID...............0x0000000012345678",
        "ServiceP_Key............0xFFFF",
        "ServiceName.............a file service",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    assert_eq!(told.matches("ServiceRecord dump").count(), 1, "{told}");
    let left = told
        .lines()
        .find_map(|line| line.trim().strip_prefix("ServiceLease............0x"));
    let left = u64::from_str_radix(left.unwrap(), 16).unwrap();
    assert!((3_500..=3_600).contains(&left), "{left} s of the lease");
    client.change(Method::Delete, &records::SERVICE, &fields[..2], &wide[..1]);
    assert!(!stage.query("saquery", "SR").contains("dump"));
}

/// `saquery IIR` shows a subscription until it has ended. After that, the subscription brings no Reports.
fn subscriptions(stage: &mut Stage, client: &mut Client, gid: u128, brings_reports: bool) {
    use records::inform_info as f;
    let wanted = |subscribe: u64| {
        [
            (f::LID_BEGIN, ALL),
            (f::IS_GENERIC, 1),
            (f::SUBSCRIBE, subscribe),
            (f::TYPE, ALL),
            (f::TRAP_NUMBER, ALL),
            (f::PRODUCER, 0xFF_FFFF),
        ]
    };
    client.change(Method::Set, &records::INFORM_INFO, &wanted(1), &[]);
    let told = stage.query("saquery", "IIR");
    assert_eq!(told.matches("InformInfoRecord dump").count(), 1, "{told}");
    let own = std::net::Ipv6Addr::from(gid).to_string();
    for line in [
        format!("SubscriberGID...........{own}"),
        "trap_num................65535".to_owned(),
        "subscribe...............0x1".to_owned(),
    ] {
        assert!(told.contains(&line), "{line}: {told}");
    }
    if brings_reports {
        reports(stage, client);
    }
    client.change(Method::Set, &records::INFORM_INFO, &wanted(0), &[]);
    assert!(!stage.query("saquery", "IIR").contains("dump"));
    if brings_reports {
        stage.cable(false);
        assert_eq!(client.report(Duration::from_secs(3)), None, "it has ended");
        stage.cable(true);
    }
}

/// There is a Report when a port disappears and another when the port comes back. A Report is not repeated once it has
/// been answered.
fn reports(stage: &mut Stage, client: &mut Client) {
    let lost = 0xFE80_u128 << 112 | u128::from(stage.port_guid(LOST));
    for (is_back, trap) in [(false, 65), (true, 64)] {
        stage.cable(is_back);
        let end = Instant::now() + LIMIT;
        while client.report(Duration::from_secs(1)) != Some((trap, lost)) {
            assert!(Instant::now() < end, "no report {trap}");
        }
    }
    // Traps of links are forwarded as well. An answered Report does not come again.
    let more = (0..20).take_while(|_| client.report(Duration::from_secs(3)).is_some());
    assert!(more.count() < 20, "reports do not end");
}

/// A port that is named by its GUID, which these tools look up at the administrator, is the same port as the one named
/// by its LID.
fn by_guid(stage: &Stage, guid: u64, has_guid_tables: bool) {
    let lid = lid_of(&stage.lab, CLIENT);
    let same = |program: &str, what: &str, more: &str| {
        // The first line shows how the port was named.
        let body = |text: String| {
            text.lines()
                .filter(|line| !line.starts_with('#'))
                .collect::<Vec<_>>()
                .join("\n")
        };
        let by_lid = body(stage.query(program, &format!("{what} {lid} {more}")));
        let by_guid = body(stage.query(program, &format!("-G {what} {guid:#018x} {more}")));
        assert_eq!(by_guid, by_lid, "{program} -G {what}");
        assert!(by_lid.contains("0x"), "{by_lid}");
    };
    same("smpquery", "nodeinfo", "");
    same("smpquery", "portinfo", "1");
    same("smpquery", "pkeys", "");
    let counters = Fields::parse(&stage.query("perfquery", &format!("-G {guid:#018x} 1")));
    assert_eq!(counters.number("PortSelect").unwrap(), 1);
    assert!(counters.number("PortXmitPkts").is_ok());
    if has_guid_tables {
        for address in [lid.to_string(), format!("-G {guid:#018x}")] {
            let words: Vec<&str> = address.split_whitespace().collect();
            let (flag, at) = match words[..] {
                [flag, at] => (flag, at),
                _ => ("", words[0]),
            };
            let told = stage.query("smpquery", &format!("{flag} guidinfo {at}"));
            assert!(told.contains(&format!("{guid:#018x}")), "{told}");
        }
    }
}

#[test]
fn on_ibsim() {
    check(&mut Stage::new(|lab, net| Simulator::Ibsim(lab.ibsim(net).unwrap())));
}

#[test]
fn on_our_emulator() {
    check(&mut Stage::new(|lab, _| Simulator::Ours(emulate(lab, SPEC))));
}
