//! The window from outside: requests in, datagrams out.

use selvedge_types::PortNum;
use selvedge_wire::{AttributeId, DirectedRoute, Method};

use super::*;

const CONFIG: ExchangeConfig = ExchangeConfig {
    window: 4,
    agent_window: 2,
    timeout: Duration::from_millis(200),
    retries: 2,
    stale_after: Duration::from_millis(10),
};

fn get(modifier: u32) -> Datagram {
    let mad = Mad::request(Class::SubnDirected, Method::Get, AttributeId::PORT_INFO, modifier);
    Datagram {
        address: Address::DIRECTED,
        mad,
    }
}

fn answer(sent: &Datagram) -> Datagram {
    let mut reply = *sent;
    reply.mad.set_method(Method::GetResp);
    reply
}

fn drain(exchange: &mut Exchange<u32>, now: Time) -> Vec<Datagram> {
    std::iter::from_fn(|| {
        exchange
            .next_to_send(now, |&mut token, place| *place = get(token))
            .map(|s| *s.datagram)
    })
    .collect()
}

fn modifiers(sent: &[Datagram]) -> Vec<u32> {
    sent.iter().map(|d| d.mad.modifier()).collect()
}

#[test]
fn two_limits_and_fair_agents() {
    let mut ex = Exchange::new(CONFIG);
    for i in 0..4 {
        ex.submit(AgentId(0), i);
    }
    for i in 10..13 {
        ex.submit(AgentId(1), i);
    }
    let sent = drain(&mut ex, Time::ZERO);
    assert_eq!(modifiers(&sent), [0, 10, 1, 11], "two a agent, in turn");
    assert_eq!(ex.received(&answer(&sent[0]).mad).unwrap(), 0);
    assert_eq!(modifiers(&drain(&mut ex, Time::ZERO)), [2]);
    assert_eq!(ex.open(), 6);
}

#[test]
fn who_comes_first_never_waits_for_others() {
    let mut ex = Exchange::new(CONFIG);
    for i in 10..16 {
        ex.submit(AgentId(i), i);
    }
    for i in 0..4 {
        ex.submit(AgentId(0), i);
    }
    ex.put_first(AgentId(0));
    let mut sent = drain(&mut ex, Time::ZERO);
    assert_eq!(modifiers(&sent), [10, 11, 12, 13]);
    let mut order = Vec::new();
    while let Some(oldest) = (!sent.is_empty()).then(|| sent.remove(0)) {
        ex.received(&answer(&oldest).mad).unwrap();
        let more = drain(&mut ex, Time::ZERO);
        order.extend(modifiers(&more));
        sent.extend(more);
    }
    // Its first turn comes when it comes; then it has as much in flight as it may, until nothing is left of it.
    assert_eq!(order, [14, 15, 0, 1, 2, 3]);
}

#[test]
fn strangers_share_no_limit() {
    let mut ex = Exchange::new(CONFIG);
    for i in 0..3 {
        ex.submit(AgentId::UNKNOWN, i);
    }
    ex.submit(AgentId(0), 10);
    assert_eq!(modifiers(&drain(&mut ex, Time::ZERO)), [0, 1, 2, 10]);
}

#[test]
fn a_place_is_used_again() {
    let mut ex = Exchange::new(CONFIG);
    for i in 0..100 {
        ex.submit(AgentId(0), i);
        let sent = drain(&mut ex, Time::ZERO);
        assert_eq!(ex.received(&answer(&sent[0]).mad), Some(i));
    }
    assert_eq!((ex.flights.len(), ex.free.len()), (1, 1));
}

#[test]
fn answers_count_once() {
    let mut ex = Exchange::new(CONFIG);
    ex.submit(AgentId(0), 1);
    let sent = drain(&mut ex, Time::ZERO);
    assert_eq!(ex.received(&answer(&sent[0]).mad), Some(1));
    assert!(ex.received(&answer(&sent[0]).mad).is_none(), "a duplicate");
    let mut other = answer(&sent[0]);
    other.mad.set_transaction(TransactionId(99));
    assert!(ex.received(&other.mad).is_none());
    assert_eq!(ex.counters().stray, 2);
}

#[test]
fn an_answer_comes_by_the_same_route() {
    let mut ex = Exchange::new(CONFIG);
    let along = |ports: &[u8]| {
        let ports: Vec<PortNum> = ports.iter().map(|&p| PortNum::new(p).unwrap()).collect();
        let route = DirectedRoute::new(&ports).unwrap();
        let mad = Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route);
        Datagram {
            address: Address::DIRECTED,
            mad,
        }
    };
    ex.submit(AgentId(0), 7);
    let sent = [*ex
        .next_to_send(Time::ZERO, |_, place| *place = along(&[1, 4]))
        .unwrap()
        .datagram];
    let mut stale = answer(&along(&[1, 3]));
    stale.mad.set_transaction(sent[0].mad.transaction());
    assert!(ex.received(&stale.mad).is_none(), "an answer to an earlier process");
    assert!(ex.received(&answer(&sent[0]).mad).is_some());
}

#[test]
fn an_answer_with_another_attribute_is_no_answer() {
    let mut ex = Exchange::new(CONFIG);
    ex.submit(AgentId(0), 1);
    let sent = drain(&mut ex, Time::ZERO);
    let mut wrong = Mad::request(Class::SubnDirected, Method::GetResp, AttributeId::NODE_INFO, 1);
    wrong.set_transaction(sent[0].mad.transaction());
    assert!(ex.received(&wrong).is_none());
    assert_eq!(ex.open(), 1);
}

#[test]
fn silence_is_repeated_then_fails() {
    let mut ex = Exchange::new(CONFIG);
    ex.submit(AgentId(0), 1);
    let mut now = Time::ZERO;
    for _ in 0..=CONFIG.retries {
        assert_eq!(drain(&mut ex, now).len(), 1);
        now = ex.next_wake().unwrap();
        if let Some(ended) = ex.expired(now) {
            assert_eq!(ended, 1);
            assert_eq!(now, Time::from_millis(600));
            assert_eq!(ex.open(), 0);
            assert_eq!(ex.next_wake(), None);
            return;
        }
    }
    panic!("never failed");
}

#[test]
fn a_handed_back_request_is_repeated_at_once() {
    let mut ex = Exchange::new(CONFIG);
    ex.submit(AgentId(0), 1);
    for _ in 0..CONFIG.retries {
        let sent = drain(&mut ex, Time::ZERO);
        assert!(ex.returned(&sent[0].mad).is_none());
    }
    let sent = drain(&mut ex, Time::ZERO);
    assert!(ex.returned(&sent[0].mad) == Some(1));
}

#[test]
fn a_dead_agent_does_not_delay_others() {
    let mut ex = Exchange::new(CONFIG);
    for dead in 0..2 {
        for i in 0..2 {
            ex.submit(AgentId(dead), i);
        }
    }
    assert_eq!(
        drain(&mut ex, Time::ZERO).len(),
        4,
        "the window is full of requests nobody answers"
    );
    ex.submit(AgentId(9), 90);
    assert!(drain(&mut ex, Time::from_millis(9)).is_empty());
    assert_eq!(ex.next_wake(), Some(Time::from_millis(10)));
    assert_eq!(modifiers(&drain(&mut ex, Time::from_millis(10))), [90]);
}

#[test]
fn a_late_answer_after_a_repeat_still_counts() {
    let mut ex = Exchange::new(CONFIG);
    ex.submit(AgentId(0), 1);
    let sent = drain(&mut ex, Time::ZERO);
    let answer = answer(&sent[0]).mad;
    assert!(!ex.was_repeated(&answer));
    assert!(ex.expired(Time::from_millis(200)).is_none());
    drain(&mut ex, Time::from_millis(200));
    assert!(ex.was_repeated(&answer));
    assert_eq!(ex.received(&answer), Some(1));
    assert_eq!(ex.open(), 0);
    assert!(!ex.was_repeated(&answer));
}

#[test]
fn what_was_dropped_is_on_the_wire_all_the_same() {
    let mut ex = Exchange::new(CONFIG);
    let submit = |ex: &mut Exchange<u32>, ids: std::ops::Range<u32>| ids.for_each(|i| ex.submit(AgentId::UNKNOWN, i));
    submit(&mut ex, 0..6);
    let sent = drain(&mut ex, Time::ZERO);
    assert_eq!(modifiers(&sent), [0, 1, 2, 3]);
    ex.clear();
    assert_eq!(ex.open(), 0);
    submit(&mut ex, 10..16);
    assert_eq!(modifiers(&drain(&mut ex, Time::ZERO)), []);
    // An answer makes room, once; so does a request that comes back.
    assert_eq!(ex.received(&answer(&sent[1]).mad), None);
    assert_eq!(ex.received(&answer(&sent[1]).mad), None);
    assert_eq!(modifiers(&drain(&mut ex, Time::ZERO)), [10]);
    assert_eq!(ex.returned(&sent[3].mad), None);
    assert_eq!(modifiers(&drain(&mut ex, Time::ZERO)), [11]);
    // The others when they are stale.
    let stale = Time::ZERO + CONFIG.stale_after;
    assert_eq!(ex.next_wake(), Some(stale));
    assert_eq!(modifiers(&drain(&mut ex, stale)), [12, 13, 14, 15]);
}

#[test]
fn an_agent_may_get_more_for_a_while() {
    let mut ex = Exchange::new(CONFIG);
    (0..9).for_each(|i| ex.submit(AgentId(0), i));
    let first = drain(&mut ex, Time::ZERO);
    assert_eq!(modifiers(&first), [0, 1]);
    ex.set_agent_window(4);
    ex.set_agent_window(4);
    let more = drain(&mut ex, Time::ZERO);
    assert_eq!(modifiers(&more), [2, 3], "no more than the window in all");
    ex.set_agent_window(2);
    for sent in &first {
        ex.received(&answer(sent).mad);
        assert!(drain(&mut ex, Time::ZERO).is_empty(), "two are there still");
    }
    ex.received(&answer(&more[0]).mad);
    assert_eq!(modifiers(&drain(&mut ex, Time::ZERO)), [4]);
}
