//! A standby, and how it treats missing answers.

use super::*;

/// Returns a bench in which the manager on the far host is master, and this manager stands by.
pub(super) fn standing_by() -> Bench {
    standing_by_of([0, 0], PersistentState::default())
}

/// Returns the bench of `standing_by`, with hosts that hold these LIDs and with the state that an earlier process has
/// stored.
fn standing_by_of(lids: [u16; 2], state: PersistentState) -> Bench {
    let mut bench = Bench::with_state(Mode::Manage, state);
    for (host, lid) in bench.hosts.iter_mut().zip(lids) {
        host.info.lid = Lid(lid);
    }
    let master = SmInfo {
        guid: Guid(0x21),
        sm_key: 1,
        act_count: 1,
        priority: selvedge_wire::Bits::saturating(3),
        state: SmState::Master,
    };
    bench.hosts[1].manager = Some((master, true));
    bench.hosts[1].info.capabilities = CapabilityMask::IS_SM;
    bench.hand(Input::Start);
    assert_eq!(bench.sm.role(), Role::Standby);
    bench
}

/// A host that crashed shows IsSM for ever, and its manager does not answer: the standby does not wait for it again.
/// Each missed poll is reported, so that the log shows since when the master was silent.
#[test]
fn a_master_that_missed_its_polls_is_not_asked_again() {
    let mut bench = standing_by();
    bench.hosts[1].is_mute = true;
    let mut last: Option<Time> = None;
    for polls in 1..=bench.sm.config.poll_misses {
        assert_eq!(bench.sm.role(), Role::Standby, "{polls}");
        let due = bench.sm.next_wake().unwrap();
        let interval = bench.sm.config.poll_interval;
        let is_polled = |last: Time| (interval..interval * 11 / 10).contains(&due.since(last));
        assert!(last.is_none_or(is_polled), "{last:?} {due:?}");
        last = Some(due);
        bench.now = due;
        bench.hand(Input::Wake);
        assert_eq!(bench.unheard, polls * (u32::from(bench.sm.config.retries) + 1));
        let told: Vec<String> = bench.events.iter().map(ToString::to_string).collect();
        let missed = told.iter().rfind(|text| text.contains("SLV-SM-0064"));
        let want = format!(
            "did not answer: {polls} of {} polls missed",
            bench.sm.config.poll_misses
        );
        assert!(missed.is_some_and(|text| text.ends_with(&want)), "{told:?}");
    }
    assert_eq!(bench.sm.role(), Role::Master);
}

/// The administrator beside the master is silent. Whether hosts may have registered anything depends on whether the
/// master still runs, so the standby polls the master at once.
#[test]
fn a_silent_administrator_is_believed_dead_if_its_manager_is() {
    let check = |is_mute: bool, want: bool| {
        let mut bench = standing_by();
        bench.hand(Input::Command(Command::Registered));
        bench.hand(Input::Command(Command::Unproven));
        assert!(!bench.sm.registration.asks_all(), "nothing is known yet");
        assert!(bench.sm.next_wake().unwrap() <= bench.now);
        bench.hosts[1].is_mute = is_mute;
        bench.hand(Input::Wake);
        assert_eq!(bench.sm.registration.asks_all(), want);
        // It reports again that nothing is new: later polls are ordinary ones.
        bench.hosts[1].is_mute = false;
        bench.hand(Input::Command(Command::Registered));
        bench.until_due();
        assert!(!bench.sm.registration.asks_all());
    };
    check(false, true);
    check(true, false);
}

/// The master falls silent because the standby's own link is down. The master may still run, and hosts may register
/// with it, so hosts are asked to register again.
#[test]
fn a_standby_whose_link_was_down_asks_hosts() {
    let take_over = |was_down: bool| {
        let mut bench = standing_by();
        bench.hand(Input::Command(Command::Registered));
        let (state, phys_state) = (bench.hosts[0].info.state, bench.hosts[0].info.phys_state);
        if was_down {
            (bench.hosts[0].info.state, bench.hosts[0].info.phys_state) =
                (Some(PortState::Down), Some(PhysState::Polling));
        }
        bench.hosts[1].is_mute = true;
        for _ in 0..bench.sm.config.poll_misses {
            bench.until_due();
        }
        assert_eq!(bench.has("SLV-SM-0018"), was_down);
        let asks_all = bench.sm.registration.asks_all();
        (bench.hosts[0].info.state, bench.hosts[0].info.phys_state) = (state, phys_state);
        bench.hosts[1].manager = None;
        bench.hosts[1].info.capabilities = CapabilityMask::default();
        bench.hand(Input::Command(Command::Sweep));
        assert_eq!(bench.sm.role(), Role::Master);
        asks_all
    };
    assert!(take_over(true));
    assert!(!take_over(false));
}

/// Both hosts may be killed, and ports may be off when this manager sweeps again. It still knows the LIDs that ports
/// had under the master.
#[test]
fn the_lids_of_the_master_are_stored() {
    let single = |lid: u16| LidRange::single(Lid(lid));
    let lids = [(Guid(0x21), single(9)), (Guid(0x31), single(4))].into();
    let lids_before = [(Guid(0x21), single(8))].into();
    let state = PersistentState {
        lids,
        lids_before,
        ..PersistentState::default()
    };
    let bench = standing_by_of([3, 7], state);
    let [(stored, sets)] = &bench.stored[..] else {
        panic!("{:?}", bench.stored)
    };
    let want = [(0x11, 3), (0x21, 7), (0x31, 4)].map(|(guid, lid)| (Guid(guid), single(lid)));
    assert_eq!((&stored.lids, stored.lids_before.len(), *sets), (&want.into(), 0, 0));
    // A later process has nothing new to store.
    assert!(standing_by_of([3, 7], stored.clone()).stored.is_empty());
    assert!(standing_by().stored.is_empty());
}

/// The master gives ports another M_Key that was proposed to both managers: the standby opens them, although it makes
/// no plan with it.
#[test]
fn a_standby_knows_a_proposed_m_key_at_once() {
    let mut bench = standing_by();
    for m_key in [7, 8, 0] {
        let policy = selvedge_plan::Policy {
            m_key,
            m_key_protect: u8::from(m_key != 0),
            ..selvedge_plan::Policy::default()
        };
        bench.hand(Input::Command(Command::SetPolicy(Arc::new(policy))));
        assert_eq!(bench.sm.role(), Role::Standby);
        let key = selvedge_types::SecretKey::new(m_key);
        assert!(bench.sm.keys.wanted() == key && bench.sm.keys.opens(key), "{m_key}");
    }
}
