//! The key ring alone: which key a request is sent with, what is stored, when former keys are retired.

use selvedge_types::{Guid, PortNum};
use selvedge_wire::{Attribute, AttributeId, Bits, Method, Status};

use super::*;
use crate::smp;

fn key(key: u64) -> SecretKey {
    SecretKey::new(key)
}

fn keys(keys: &[u64]) -> Vec<SecretKey> {
    keys.iter().copied().map(SecretKey::new).collect()
}

/// Returns stored keys of which none is retired.
fn held(held: &[u64]) -> StoredKeys {
    StoredKeys {
        held: keys(held),
        retired: Vec::new(),
    }
}

fn route(hops: u8) -> DirectedRoute {
    let port = PortNum::new(1).unwrap();
    (0..hops).fold(DirectedRoute::LOCAL, |route, _| route.then(port).unwrap())
}

/// Hands an input to a ring. Returns the effects.
fn give(ring: &mut KeyRing, input: In<'_>) -> Vec<Effect> {
    let mut effects = Vec::new();
    ring.handle(Time::from_secs(100), input, &mut effects);
    effects
}

/// Returns a key ring that gives key 2 to ports with key 1.
fn rotating() -> KeyRing {
    let mut ring = KeyRing::new(key(1), &held(&[1]), true);
    let (key, stores) = (key(2), true);
    assert_eq!(
        give(&mut ring, In::Wanted { key, stores }),
        [Effect::Store(held(&[2, 1]))]
    );
    assert_eq!(give(&mut ring, In::OnDisk(&keys(&[2, 1]))), [Effect::Use(key)]);
    ring
}

/// An agent with an M_Key and protection bits.
struct Agent {
    m_key: u64,
    protect: u8,
}

impl Agent {
    /// Returns the agent's answer to a request with this M_Key; `None`: the agent does not answer. Source: IBA vol 1
    /// §14.2.4.1.
    fn answer(&mut self, smp: &Smp, shown: SecretKey) -> Option<Mad> {
        let request = smp.datagram(shown).mad;
        let has_key = self.m_key == 0 || shown.expose() == self.m_key;
        let is_get = request.method() == Method::Get;
        if !(has_key || is_get && self.protect < 2) {
            return None;
        }
        let is_visible = has_key || self.protect == 0;
        let mut answer = request;
        if !is_get && request.attribute() == PortInfo::ID {
            self.m_key = request.read::<PortInfo>().unwrap().m_key;
        }
        answer.set_method(Method::GetResp);
        answer.write(&PortInfo {
            m_key: if is_visible { self.m_key } else { 0 },
            m_key_protect: Bits::saturating(self.protect),
            ..PortInfo::default()
        });
        Some(answer)
    }
}

/// Sends a request until it ends for good. Returns the keys that it was sent with, and the M_Key in the answer.
fn ask(ring: &mut KeyRing, agent: &mut Agent, mut smp: Smp) -> (Vec<u64>, Option<u64>) {
    let mut sent = Vec::new();
    loop {
        let with = ring.key_for(&smp);
        sent.push(with.expose());
        if ring.is_open() {
            smp.note_tried(with);
        }
        let answer = agent.answer(&smp, with);
        if let Some(answer) = &answer {
            give(ring, In::Answered(&smp, answer));
        }
        if ring.tries_again(&smp, answer.as_ref()) {
            continue;
        }
        give(ring, In::Ended(&smp, answer.as_ref()));
        return (
            sent,
            answer
                .and_then(|mad| mad.read::<PortInfo>().ok())
                .map(|info| info.m_key),
        );
    }
}

fn get(attribute: AttributeId, hops: u8) -> Smp {
    smp::get(attribute, 0, &route(hops))
}

#[test]
fn each_key_is_tried_once_and_the_right_one_is_remembered() {
    // Protection bits, the agent's key, and the keys that PortInfo is read with.
    let check = |protect: u8, m_key: u64, want: &[u64], again: &[u64]| {
        let mut ring = rotating();
        let mut agent = Agent { m_key, protect };
        let told = format!("key {m_key}, protection {protect}");
        let (sent, shown) = ask(&mut ring, &mut agent, get(PortInfo::ID, 1));
        let visible = [1, 2].contains(&m_key) || protect == 0;
        assert_eq!(
            (&sent[..], shown),
            (want, visible.then_some(m_key).or((protect < 2).then_some(0))),
            "{told}"
        );
        let (sent, _) = ask(&mut ring, &mut agent, get(AttributeId::SWITCH_INFO, 1));
        assert_eq!(sent, again, "{told}: again");
    };
    for protect in 0..=3 {
        check(protect, 1, &[1], &[1]);
    }
    // The key is shown to any reader.
    check(0, 2, &[1], &[2]);
    check(0, 9, &[1], &[1]);
    // It is hidden, or there is no answer.
    for protect in 1..=3 {
        check(protect, 2, &[1, 2], &[2]);
    }
    check(1, 9, &[1, 2], &[1]);
    check(2, 9, &[1, 2], &[1, 2]);
}

#[test]
fn without_former_keys_nothing_is_tried_twice() {
    let mut ring = KeyRing::new(key(1), &held(&[1]), true);
    let mut agent = Agent { m_key: 2, protect: 2 };
    assert_eq!(ask(&mut ring, &mut agent, get(PortInfo::ID, 1)), (vec![1], None));
    // A port has shown a key that a flipped bit left.
    let mut agent = Agent { m_key: 3, protect: 0 };
    let smp = get(PortInfo::ID, 1).shown(3);
    assert_eq!(ask(&mut ring, &mut agent, smp), (vec![3], Some(3)));
}

#[test]
fn a_set_whose_answer_was_lost_is_sent_with_the_new_key() {
    for protect in 0..=3 {
        let mut ring = rotating();
        let mut agent = Agent { m_key: 1, protect };
        assert_eq!(ask(&mut ring, &mut agent, get(PortInfo::ID, 1)).0, [1]);
        let info = PortInfo {
            m_key: 2,
            ..PortInfo::default()
        };
        let mut set = smp::set(&info, 0, &route(1)).giving(2).shown(1);
        // The agent has taken it, and its answer is lost; repeats with the former key are not answered.
        agent.m_key = 2;
        set.note_tried(ring.key_for(&set));
        assert!(ring.tries_again(&set, None), "protection {protect}");
        assert_eq!(ask(&mut ring, &mut agent, set), (vec![2], Some(2)));
        // What follows is sent with the new key, silent or not.
        let (sent, _) = ask(&mut ring, &mut agent, get(AttributeId::SWITCH_INFO, 1));
        assert_eq!(sent, [2]);
        assert!(!ring.tries_again(&tried(&ring, get(AttributeId::SWITCH_INFO, 1)), None));
    }
}

fn tried(ring: &KeyRing, mut smp: Smp) -> Smp {
    smp.note_tried(ring.key_for(&smp));
    smp
}

#[test]
fn a_get_from_an_agent_with_a_known_key_is_silent_for_another_reason() {
    let mut ring = rotating();
    let unknown = tried(&ring, get(AttributeId::SWITCH_INFO, 1));
    assert!(ring.tries_again(&unknown, None));
    ask(&mut ring, &mut Agent { m_key: 1, protect: 1 }, get(PortInfo::ID, 1));
    let known = tried(&ring, get(AttributeId::SWITCH_INFO, 1));
    assert!(!ring.tries_again(&known, None));
    // A cable may have been moved when the next sweep begins.
    give(&mut ring, In::SweepBegins);
    assert!(ring.tries_again(&known, None));
    // A refusal has nothing to do with the key.
    let mut refused = known.datagram(key(1)).mad;
    refused.set_status(Status::BAD_FIELD);
    assert!(!ring.tries_again(&known, Some(&refused)));
}

#[test]
fn a_key_is_stored_before_a_port_gets_it() {
    let mut ring = KeyRing::new(key(1), &held(&[1]), true);
    let (new, stores) = (key(2), true);
    give(&mut ring, In::Wanted { key: new, stores });
    assert_eq!((ring.present(), ring.former()), (key(1), &[][..]));
    // Another state was stored meanwhile.
    assert_eq!(give(&mut ring, In::OnDisk(&keys(&[1]))), []);
    assert_eq!(ring.present(), key(1));
    give(&mut ring, In::OnDisk(&keys(&[2, 1])));
    assert_eq!((ring.present(), ring.former()), (new, &keys(&[1])[..]));
    // The key in use.
    assert_eq!(give(&mut ring, In::OnDisk(&keys(&[2, 1]))), []);
    // A manager that sends no Sets stores nothing.
    let mut ring = KeyRing::new(key(1), &held(&[]), false);
    let stores = false;
    assert_eq!(give(&mut ring, In::Wanted { key: new, stores }), [Effect::Use(new)]);
}

/// Each case has the key of the policy and the stored keys, then what is expected: the key that ports get at first, and
/// the former keys.
#[test]
fn a_restart_opens_every_port_with_either_configuration() {
    let check = |wanted: u64, stored: &[u64], present: u64, former: &[u64], store: Option<&[u64]>| {
        let mut ring = KeyRing::new(key(wanted), &held(stored), true);
        assert_eq!(
            (ring.present().expose(), ring.former()),
            (present, &keys(former)[..]),
            "{wanted} {stored:?}"
        );
        assert!(stored.iter().all(|&stored| ring.opens(key(stored))));
        let wanted = key(wanted);
        let effects = give(
            &mut ring,
            In::Wanted {
                key: wanted,
                stores: true,
            },
        );
        let want = store.map_or_else(|| Effect::Note(held(stored)), |store| Effect::Store(held(store)));
        assert_eq!(effects, [want], "{wanted:?} {stored:?}");
    };
    check(1, &[1], 1, &[], None);
    check(0, &[], 0, &[], None);
    // Half-way, with the new configuration and with the old one.
    check(2, &[2, 1], 2, &[1], Some(&[2, 1]));
    check(1, &[2, 1], 1, &[2], Some(&[1, 2]));
    // To no key, half-way.
    check(0, &[1], 0, &[1], Some(&[1]));
    // The configuration was changed while the manager was stopped.
    check(3, &[2, 1], 2, &[1], Some(&[3, 2, 1]));
    // Nothing is known of an earlier key.
    let ring = KeyRing::new(key(1), &held(&[]), true);
    assert_eq!((ring.present(), ring.former()), (key(1), &[][..]));
}

/// The operator changes the key again before it is stored. Another manager, in another part of the fabric, may have
/// given the first one to ports.
#[test]
fn a_key_that_was_wanted_for_a_moment_counts_as_a_former_one() {
    let mut ring = KeyRing::new(key(2), &held(&[1]), true);
    let stores = true;
    give(&mut ring, In::Wanted { key: key(2), stores });
    assert_eq!((ring.present(), ring.former()), (key(1), &[][..]));
    let effects = give(&mut ring, In::Wanted { key: key(3), stores });
    assert_eq!(effects, [Effect::Store(held(&[3, 1, 2]))]);
    give(&mut ring, In::OnDisk(&keys(&[3, 1, 2])));
    assert_eq!((ring.present(), ring.former()), (key(3), &keys(&[1, 2])[..]));
}

#[test]
fn rotations_follow_each_other() {
    let mut ring = rotating();
    let stores = true;
    let three = key(3);
    assert_eq!(
        give(&mut ring, In::Wanted { key: three, stores }),
        [Effect::Store(held(&[3, 2, 1]))]
    );
    give(&mut ring, In::OnDisk(&keys(&[3, 2, 1])));
    assert_eq!((ring.present(), ring.former()), (three, &keys(&[2, 1])[..]));
    // Back to the first one.
    give(&mut ring, In::Wanted { key: key(1), stores });
    give(&mut ring, In::OnDisk(&keys(&[1, 3, 2])));
    assert_eq!((ring.present(), ring.former()), (key(1), &keys(&[3, 2])[..]));
    for next in 10..30 {
        give(&mut ring, In::Wanted { key: key(next), stores });
        let stored = ring
            .others(None)
            .into_iter()
            .chain([ring.present()])
            .collect::<Vec<_>>();
        give(&mut ring, In::OnDisk(&stored));
    }
    assert_eq!((ring.present(), ring.former().len()), (key(29), FORMER_MAX));
    assert_eq!(ring.former()[0], key(28));
}

/// Returns port 1 of hosts with these numbers.
fn ports(hosts: impl IntoIterator<Item = u64>) -> BTreeMap<PortId, String> {
    let port = PortNum::new(1).unwrap();
    let id = |host| PortId {
        at: (Guid(host), port),
        peer: None,
    };
    let hosts = hosts.into_iter();
    hosts.map(|host| (id(host), format!("\"H-{host}\"[1]"))).collect()
}

#[test]
fn a_port_that_comes_into_sight_has_not_kept_its_key() {
    let mut ring = rotating();
    let mut find = |hosts: &[u64]| {
        let found = Found {
            former: ports(hosts.iter().copied()),
            ..Found::default()
        };
        give(&mut ring, In::Found(found))
    };
    let begins = |ports| vec![Effect::Event(KeyEvent::Begins { ports })];
    assert_eq!(find(&[1, 2]), begins(2));
    // The plan that gives them the key was interrupted.
    assert_eq!(find(&[1, 2]), []);
    assert_eq!(give(&mut ring, In::Applied), [Effect::Confirm]);
    let mut find = |hosts: &[u64]| {
        let found = Found {
            former: ports(hosts.iter().copied()),
            ..Found::default()
        };
        (give(&mut ring, In::Found(found)), ring.left().is_some())
    };
    // Host 3 was absent, or behind a doubled GUID.
    assert_eq!(find(&[3]), (begins(1), false));
    assert_eq!(find(&[3]), (vec![], false));
    assert_eq!(give(&mut ring, In::Applied), [Effect::Confirm]);
    let what = "\"H-3\"[1]".to_owned();
    let left = Effect::Event(KeyEvent::Left { ports: 1, what });
    let found = Found {
        former: ports([3, 4]),
        ..Found::default()
    };
    assert_eq!(give(&mut ring, In::Found(found)), [left]);
}

#[test]
fn former_keys_are_retired_when_every_port_has_the_present_one() {
    let found = |former: u64, is_complete: bool, missing: usize| Found {
        former: ports(1..=former),
        is_complete,
        missing,
    };
    let begins = |ports| Effect::Event(KeyEvent::Begins { ports });
    let mut ring = rotating();
    assert_eq!(give(&mut ring, In::Applied), [], "no sweep has found anything yet");
    assert_eq!(give(&mut ring, In::Found(found(3, false, 0))), [begins(3)]);
    // Another sweep began before ports got their Sets.
    assert_eq!(give(&mut ring, In::SweepBegins), []);
    assert_eq!(give(&mut ring, In::Found(found(3, false, 0))), []);
    assert_eq!(ring.left(), None);
    assert_eq!(give(&mut ring, In::Applied), [Effect::Confirm]);
    assert_eq!(give(&mut ring, In::Applied), [], "a repair");
    let what = "\"H-1\"[1]".to_owned();
    let left = Effect::Event(KeyEvent::Left { ports: 1, what });
    assert_eq!(give(&mut ring, In::Found(found(1, false, 0))), [left]);
    assert!(ring.left().is_some());
    assert_eq!(
        give(&mut ring, In::Found(found(1, false, 0))),
        [],
        "it has not been set again"
    );
    assert!(ring.left().is_some());
    assert_eq!(give(&mut ring, In::Applied), [Effect::Confirm]);
    // A host is missing.
    let kept = |missing| Effect::Event(KeyEvent::Kept { missing });
    assert_eq!(give(&mut ring, In::Found(found(0, true, 1))), [kept(1)]);
    assert_eq!(give(&mut ring, In::Found(found(0, true, 1))), []);
    assert!(ring.is_open() && ring.left().is_none());
    // It returns.
    assert_eq!(give(&mut ring, In::Found(found(1, false, 0))), [begins(1)]);
    assert_eq!(give(&mut ring, In::Applied), [Effect::Confirm]);
    let done = [
        Effect::Store(StoredKeys {
            held: keys(&[2]),
            retired: keys(&[1]),
        }),
        Effect::Event(KeyEvent::Done),
        Effect::Usual(key(2)),
    ];
    assert_eq!(give(&mut ring, In::Found(found(0, true, 0))), done);
    assert!(ring.former().is_empty() && ring.others(None).is_empty());
    assert_eq!(give(&mut ring, In::Found(found(0, true, 0))), []);
}

/// Another manager gave the port that key while this manager could not see it.
#[test]
fn a_retired_key_counts_again_if_a_port_shows_it_or_hides_its_key() {
    // Protection bits and the key of an agent, the keys that its PortInfo is read with, and the former keys then.
    let check = |protect: u8, m_key: u64, want: &[u64], former: &[u64]| {
        let stored = StoredKeys {
            held: keys(&[3]),
            retired: keys(&[2, 1]),
        };
        let mut ring = KeyRing::new(key(3), &stored, true);
        assert!(!ring.opens(key(1)) && ring.others(None).is_empty());
        let (sent, _) = ask(&mut ring, &mut Agent { m_key, protect }, get(PortInfo::ID, 1));
        let told = format!("key {m_key}, protection {protect}");
        assert_eq!((&sent[..], ring.former()), (want, &keys(former)[..]), "{told}");
        assert_eq!(ring.opens(key(m_key)), m_key == 3 || former.contains(&m_key), "{told}");
    };
    check(0, 3, &[3], &[]);
    check(0, 1, &[3], &[1]);
    check(0, 9, &[3], &[]);
    check(1, 2, &[3, 2], &[2, 1]);
    check(1, 9, &[3, 2, 1], &[2, 1]);
    // Without an answer the agent may be down as well.
    check(2, 1, &[3], &[]);
}

#[test]
fn other_managers_may_have_the_coming_key_or_a_former_one() {
    let ring = rotating();
    let others = |proposed: Option<u64>| ring.others(proposed.map(key));
    assert_eq!(others(None), keys(&[1]));
    assert_eq!(others(Some(3)), keys(&[3, 1]));
    // The operator takes the key from all ports.
    assert_eq!(others(Some(0)), keys(&[0, 1]));
    assert_eq!(others(Some(2)), keys(&[1]), "the present key");
}

#[test]
fn a_retired_key_is_the_present_one_again_if_it_is_wanted() {
    let stored = StoredKeys {
        held: keys(&[3]),
        retired: keys(&[2, 1]),
    };
    let mut ring = KeyRing::new(key(3), &stored, true);
    let wanted = key(1);
    let keys_then = StoredKeys {
        held: keys(&[1, 3]),
        retired: keys(&[2]),
    };
    let effects = give(
        &mut ring,
        In::Wanted {
            key: wanted,
            stores: true,
        },
    );
    assert_eq!(effects, [Effect::Store(keys_then)]);
    give(&mut ring, In::OnDisk(&keys(&[1, 3])));
    assert_eq!((ring.present(), ring.former()), (wanted, &keys(&[3])[..]));
    give(
        &mut ring,
        In::Found(Found {
            is_complete: true,
            ..Found::default()
        }),
    );
    let (former, retired) = (&ring.former, &ring.retired);
    assert_eq!((&former[..], &retired[..]), (&[][..], &keys(&[3, 2])[..]));
}

/// Missing nodes return without a key, as after a reboot. The former keys are retired only after a sweep has shown
/// that these nodes have the present key.
#[test]
fn ports_that_return_without_a_key_are_confirmed() {
    let mut ring = rotating();
    let mut find = |is_complete: bool, missing: usize| {
        let found = Found {
            is_complete,
            missing,
            ..Found::default()
        };
        let mut effects = give(&mut ring, In::Found(found));
        effects.extend(give(&mut ring, In::Applied));
        effects
    };
    let kept = Effect::Event(KeyEvent::Kept { missing: 5 });
    assert_eq!(find(true, 5), [kept]);
    assert_eq!(find(false, 0), [Effect::Confirm]);
    assert!(find(true, 0).contains(&Effect::Event(KeyEvent::Done)));
}

#[test]
fn a_port_that_does_not_change_is_not_swept_for_ever() {
    let mut ring = rotating();
    let mut confirms = 0;
    for _ in 0..10 {
        let found = Found {
            former: ports(1..=1),
            ..Found::default()
        };
        give(&mut ring, In::Found(found));
        confirms += give(&mut ring, In::Applied).len();
    }
    assert_eq!(confirms, usize::from(CONFIRMS_MAX));
}

#[test]
fn another_manager_with_a_former_key_is_waited_for() {
    let mut ring = rotating();
    let complete = || Found {
        is_complete: true,
        ..Found::default()
    };
    give(&mut ring, In::PeerAsked(key(7)));
    give(&mut ring, In::PeerAsked(key(1)));
    let kept = Effect::Event(KeyEvent::Kept { missing: 0 });
    assert_eq!(give(&mut ring, In::Found(complete())), [kept]);
    assert_eq!(give(&mut ring, In::LightSweep), []);
    let mut effects = Vec::new();
    let later = Time::from_secs(100) + PEER_ASKS_WITHIN;
    ring.handle(later, In::LightSweep, &mut effects);
    assert!(effects.contains(&Effect::Event(KeyEvent::Done)), "{effects:?}");
}

#[test]
fn another_manager_is_asked_with_the_present_key_first() {
    let mut ring = rotating();
    let poll = || get(AttributeId::SM_INFO, 3);
    let mut answer = poll().datagram(key(0)).mad;
    let mut check = |ring: &mut KeyRing, keys: &[(u64, Option<u64>)]| {
        let mut smp = poll();
        for (number, &(want, sm_key)) in (1..).zip(keys) {
            assert_eq!(ring.key_for(&smp), key(want), "{number}: {keys:?}");
            smp.note_tried(key(want));
            answer.write(&SmInfo {
                guid: selvedge_types::Guid(9),
                sm_key: sm_key.unwrap_or(0),
                act_count: 1,
                priority: Bits::default(),
                state: selvedge_wire::SmState::Master,
            });
            let answer = sm_key.map(|_| &answer);
            assert_eq!(
                ring.tries_again(&smp, answer),
                number < keys.len(),
                "{number}: {keys:?}"
            );
            give(ring, In::Ended(&smp, answer));
        }
    };
    // It has the former key: without it there is no answer, or one without the SM_Key.
    check(&mut ring, &[(2, None), (1, Some(1))]);
    check(&mut ring, &[(2, Some(0)), (1, Some(1))]);
    // It takes the present one, and then dies.
    check(&mut ring, &[(2, Some(1))]);
    check(&mut ring, &[(2, None)]);
}

#[test]
fn no_form_of_output_shows_a_key() {
    let mut ring = KeyRing::new(key(0xfeed_beef), &held(&[0xfeed_beef, 0xdead_cafe]), true);
    give(
        &mut ring,
        In::Wanted {
            key: key(0xbad_f00d),
            stores: true,
        },
    );
    let smp = tried(&ring, get(PortInfo::ID, 1))
        .shown(0xfeed_beef)
        .giving(0xdead_cafe);
    let shown = format!("{ring:?} {smp:?}");
    for secret in [0xfeed_beef_u64, 0xdead_cafe, 0xbad_f00d] {
        assert!(!shown.contains(&secret.to_string()), "{shown}");
    }
}
