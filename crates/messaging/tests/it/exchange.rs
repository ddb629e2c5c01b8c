//! Messages of all policies and lengths: each arrives once, on the lanes of its service level.

use selvedge_dataplane::{Network, PS_PER_NS, Ps, Settings, Simulation};
use selvedge_hca::{Adapters, Costs, Transport};
use selvedge_messaging::{Event, Exchange, Library, MessagingError, Policy, Scheme, Sizes, adapter};
use selvedge_plan::{Lids, ServiceLevels, SlToVl};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_tolerance::Cluster;
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange, Sl};

const MS: Ps = 1_000_000 * PS_PER_NS;

/// Two clusters of two hosts: hosts 0 and 1, and hosts 2 and 3.
fn exchange() -> Exchange {
    let Spec::Generated(recipe) = "clusters:hosts=2,links=1".parse().unwrap() else {
        panic!("a generator")
    };
    let fabric = recipe.fabric().unwrap();
    let mut lids = Lids::new();
    for ((at, _), lid) in fabric.end_ports().zip(1..) {
        lids.insert(at, LidRange::single(Lid(lid))).unwrap();
    }
    let routed = Engine::UpDn
        .route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential)
        .unwrap();
    let network = Network {
        fabric: &fabric,
        lids: &lids,
        tables: &routed.tables,
        service_levels: &ServiceLevels::default(),
        sl_to_vl: &SlToVl::modulo(8),
    };
    let settings = Settings {
        vls: 8,
        ..Settings::default()
    };
    let adapters = Adapters::new(adapter(Costs::default())).unwrap();
    let simulation = Simulation::of_endpoint(&network, &settings, adapters).unwrap();
    Exchange::new(Cluster::new(simulation), Library::default()).unwrap()
}

fn sl(level: u8) -> Sl {
    Sl::new(level).unwrap()
}

fn policies() -> Vec<Policy> {
    let sizes = Sizes {
        control: sl(3),
        classes: vec![(1_024, sl(2)), (4_096, sl(1))],
        rest: sl(0),
    };
    let turns = Scheme::Turns {
        queue_pairs: 4,
        levels: vec![sl(4), sl(5)],
    };
    let schemes = [Scheme::Job(sl(6)), Scheme::Sizes(sizes), turns];
    let both = |scheme: Scheme| [Transport::Rc, Transport::Ud].map(|with| Policy::new(scheme.clone(), with).unwrap());
    schemes.into_iter().flat_map(both).collect()
}

/// Returns the time that lanes of all ports were in use.
fn lanes(exchange: &Exchange) -> Vec<f64> {
    let mut sums = vec![0.0; 8];
    for port in exchange.cluster().simulation().link_use() {
        for (sum, lane) in sums.iter_mut().zip(&port.lanes) {
            *sum += lane;
        }
    }
    sums
}

#[test]
fn each_message_arrives_once_and_is_reported_to_its_sender() {
    for policy in policies() {
        let mut exchange = exchange();
        let channel = exchange.join([0, 3], &policy).unwrap();
        let sizes = [1, 64, 1_024, 1_025, 2_048, 8_192, 8_193, 70_000];
        let mut want = Vec::new();
        for (side, bytes) in [0, 1].into_iter().flat_map(|side| sizes.map(|bytes| (side, bytes))) {
            want.push((exchange.send(channel, side, bytes).unwrap(), 1 - side, bytes));
        }
        let (mut arrived, mut sent) = (Vec::new(), Vec::new());
        while let Some(event) = exchange.next_event(10 * MS).unwrap() {
            match event {
                Event::Arrived {
                    at,
                    message,
                    channel: of,
                    side,
                    posted,
                    bytes,
                } => {
                    assert!(at > posted && of == channel);
                    arrived.push((message, side, bytes));
                }
                Event::Sent { message, side, .. } => sent.push((message, side)),
            }
        }
        arrived.sort_unstable();
        sent.sort_unstable();
        assert_eq!(arrived, want, "{policy:?}");
        let senders: Vec<_> = want.iter().map(|&(id, side, _)| (id, 1 - side)).collect();
        assert_eq!(sent, senders, "{policy:?}");
    }
}

#[test]
fn lanes_are_those_of_the_policy() {
    for policy in policies() {
        let mut exchange = exchange();
        let channel = exchange.join([0, 2], &policy).unwrap();
        let mut all = vec![false; 8];
        for bytes in [512, 3_000, 100_000] {
            exchange.send(channel, 0, bytes).unwrap();
            let until = exchange.now() + MS;
            while exchange.next_event(until).unwrap().is_some() {}
        }
        policy.levels().iter().for_each(|sl| all[usize::from(sl.get())] = true);
        let used: Vec<bool> = lanes(&exchange).into_iter().map(|share| share > 0.0).collect();
        let has_control = policy.transport() == Transport::Rc;
        for (vl, (used, wanted)) in used.iter().zip(&all).enumerate() {
            // Datagrams need no request, so nothing is sent on the level of control messages.
            let wanted = *wanted && (vl != 3 || has_control);
            assert_eq!(*used, wanted, "lane {vl}, {policy:?}");
        }
    }
}

#[test]
fn a_long_message_waits_for_an_answer() {
    let time = |bytes| {
        let mut exchange = exchange();
        let policy = Policy::new(Scheme::Job(sl(0)), Transport::Rc).unwrap();
        let channel = exchange.join([0, 2], &policy).unwrap();
        exchange.send(channel, 0, bytes).unwrap();
        loop {
            if let Some(Event::Arrived { at, posted, .. }) = exchange.next_event(MS).unwrap() {
                return at - posted;
            }
        }
    };
    let (short, eager, long) = (time(64), time(8_192), time(8_193));
    // A request and an answer, each as long under way as a short message.
    let more = long - eager;
    assert!(
        (2 * short..2 * short + 200 * PS_PER_NS).contains(&more),
        "{short} {eager} {long}"
    );
}

#[test]
fn hosts_and_messages_that_cannot_be_are_refused() {
    let mut exchange = exchange();
    let policy = &policies()[0];
    for hosts in [[0, 0], [0, 4], [4, 1]] {
        let error = exchange.join(hosts, policy).unwrap_err();
        assert!(matches!(error, MessagingError::Hosts { hosts: 4, .. }), "{error}");
    }
    let channel = exchange.join([0, 1], policy).unwrap();
    for (side, bytes) in [(0, 0), (2, 1)] {
        let error = exchange.send(channel, side, bytes).unwrap_err().to_string();
        assert!(error.starts_with("SLV-MESSAGING-0007"), "{error}");
    }
}
