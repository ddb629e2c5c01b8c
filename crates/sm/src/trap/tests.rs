//! Checks the effect of a trap, and when it is repressed.

use selvedge_wire::{
    Address, AttributeId, CapabilityMask, Class, LocalChange, Mad, Method, PRODUCER_CA, PRODUCER_SWITCH,
};

use super::*;
use crate::made::{FAR, NEAR, config, guid, inventory, row};

/// The LID of the far host.
const LID: Lid = Lid(7);

/// The LID of the manager's own port.
const OWN: Lid = Lid(2);

/// Returns the fabric of [`row`] (host, two switches, host) with LIDs at its ports, and with the capabilities of the
/// manager's own port.
fn known() -> Inventory {
    let mut found = row();
    found[FAR].ports[1].info.as_mut().unwrap().lid = LID;
    let own = found[NEAR].ports[1].info.as_mut().unwrap();
    (own.lid, own.capabilities) = (OWN, CapabilityMask::TRAP.with(CapabilityMask::IS_SM));
    inventory(found)
}

fn datagram(notice: &Notice) -> Box<Datagram> {
    let mut mad = Mad::request(Class::SubnLid, Method::Trap, AttributeId::NOTICE, 0);
    mad.write(notice);
    let address = Address::smi(notice.issuer_lid);
    Box::new(Datagram { address, mad })
}

/// Returns trap 144 from the far host, with `changes` as its change bits.
fn local_change(changes: u16) -> Notice {
    let change = LocalChange {
        lid: LID,
        other_local_changes: true,
        changes,
        ..LocalChange::default()
    };
    Notice::new(PRODUCER_CA, LID, &Trap::LocalChange(change))
}

/// Hands in an input at this millisecond, to a manager that is master or not. Returns the effects.
fn hand(traps: &mut Traps, ms: u64, is_master: bool, waiting: Option<Guid>, input: In) -> Vec<Effect> {
    let (config, known) = (config(), known());
    let ctx = Ctx {
        now: at(ms),
        config: &config,
        is_master,
        waiting,
        plan: None,
        inventory: Some(&known),
        m_key: SecretKey::default(),
    };
    let mut effects = Vec::new();
    traps.handle(&ctx, input, &mut effects);
    effects
}

const fn at(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

#[test]
fn what_a_trap_is_reason_for() {
    let check = |notice: &Notice, is_master: bool, waiting: Option<Guid>, want: &str| {
        let mut traps = Traps::default();
        let effects = hand(&mut traps, 0, is_master, waiting, In::Received(datagram(notice)));
        let words: Vec<String> = effects
            .iter()
            .map(|effect| match effect {
                Effect::Drop => "drop".to_owned(),
                Effect::Taken(_) => "taken".to_owned(),
                Effect::Probe { lid, reason } => format!("probe {lid}, {reason}"),
                Effect::Sweep(reason) => format!("sweep, {reason}"),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(words.join("; "), want, "{notice} {waiting:?}");
        assert_eq!(
            traps.due(false).is_some(),
            is_master,
            "the master represses each of them"
        );
    };
    let far = Some(Guid(guid(FAR).0 + 1));
    let link_state = Notice::new(PRODUCER_SWITCH, Lid(3), &Trap::LinkState { lid: Lid(3) });
    check(&link_state, true, None, "taken; probe 3, trap 128");
    check(&link_state, true, far, "taken; probe 3, trap 128");
    check(&link_state, false, None, "drop");
    check(&local_change(1), true, far, "taken; sweep, trap 144");
    let overrun = Trap::BufferOverrun { lid: LID, port: 1 };
    check(&Notice::new(PRODUCER_CA, LID, &overrun), true, None, "taken");
    // A better manager: only the one that waits for the subnet is known to be better.
    let priority = local_change(smp::SM_PRIORITY);
    check(&priority, true, far, "taken");
    check(&priority, true, None, "taken; sweep, trap 144");
    check(&priority, true, Some(Guid(1)), "taken; sweep, trap 144");
    check(&local_change(smp::SM_PRIORITY | 1), true, far, "taken; sweep, trap 144");
    // The manager's own port began or ceased to show IsSM: nothing else changed.
    let of_own = |from: Lid, capabilities: CapabilityMask, other_local_changes: bool, changes: u16| {
        let change = LocalChange {
            lid: from,
            capabilities,
            other_local_changes,
            changes,
            ..LocalChange::default()
        };
        Notice::new(PRODUCER_CA, from, &Trap::LocalChange(change))
    };
    let with = CapabilityMask::TRAP.with(CapabilityMask::IS_SM);
    for mask in [CapabilityMask::TRAP, with] {
        check(&of_own(OWN, mask, false, 0), true, None, "taken");
        check(&of_own(OWN, mask, true, 0), true, None, "taken");
        check(&of_own(OWN, mask, true, 1), true, None, "taken; sweep, trap 144");
        check(&of_own(LID, mask, false, 0), true, None, "taken; sweep, trap 144");
    }
    let other = with.with(CapabilityMask::CLIENT_REREGISTRATION);
    check(&of_own(OWN, other, false, 0), true, None, "taken; sweep, trap 144");
    let from_another = Notice {
        issuer_lid: Lid(8),
        ..priority
    };
    check(&from_another, true, far, "taken; sweep, trap 144");
}

#[test]
fn traps_are_repressed_at_once_but_after_the_requests_of_a_repair() {
    let mut traps = Traps::default();
    assert_eq!(traps.due(false), None);
    for ms in [10, 12] {
        hand(&mut traps, ms, true, None, In::Received(datagram(&local_change(1))));
    }
    assert_eq!((traps.due(false), traps.due(true)), (Some(at(10)), Some(at(15))));
    let effects = hand(&mut traps, 15, true, None, In::RepressDue);
    let [Effect::Repress(answers)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(answers.len(), 2);
    assert!(
        answers
            .iter()
            .all(|sent| sent.mad.method() == Method::TrapRepress && sent.address.lid == LID)
    );
    assert_eq!(traps.due(true), None);
}
