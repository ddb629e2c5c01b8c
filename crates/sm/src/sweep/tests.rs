//! Tests the light sweep and the check after a plan together, through the inputs of the sweep machine.

use std::time::Duration;

use selvedge_wire::{AttributeId, Method, SwitchInfo};

use super::*;
use crate::made::{SECOND, config, inventory, place, row};

struct Bench {
    sweep: Sweep,
    now: Time,
    config: Config,
    known: Inventory,
}

impl Bench {
    fn new() -> Self {
        Self {
            sweep: Sweep::default(),
            now: Time::ZERO,
            config: config(),
            known: inventory(row()),
        }
    }

    fn hand(&mut self, input: In<'_>) -> Vec<Effect> {
        let ctx = Ctx {
            now: self.now,
            config: &self.config,
            inventory: Some(&self.known),
            planned: Some(&self.known.fabric),
        };
        let mut effects = Vec::new();
        self.sweep.handle(&ctx, input, &mut effects);
        effects
    }

    /// Begins a heavy sweep, which finds the second switch with PortStateChange, and puts its plan in force one second
    /// later.
    fn plan(&mut self) {
        let mut found = row();
        found[SECOND].switch.as_mut().unwrap().port_state_change = true;
        let (seen, is) = (inventory(found).fabric, inventory(row()).fabric);
        self.hand(In::Wanted(SweepReason::Start));
        self.hand(In::Begins);
        self.now += Duration::from_secs(1);
        self.hand(In::Applied(&seen, &is, Change::Whole));
    }
}

const DUE: In<'static> = In::LightSweepDue {
    has_failed: false,
    are_lids_free: false,
};

/// Returns the requests among these effects, in order; `None` for any other effect.
fn asked(effects: &[Effect]) -> Vec<Option<Ask>> {
    let ask = |effect: &Effect| match effect {
        Effect::Ask(_, ask, _) => Some(*ask),
        _ => None,
    };
    effects.iter().map(ask).collect()
}

fn says(port_state_change: bool, top: u16) -> Mad {
    let mut mad = Mad::directed(Method::GetResp, AttributeId::SWITCH_INFO, 0, &DirectedRoute::LOCAL);
    mad.write(&SwitchInfo {
        port_state_change,
        linear_top: selvedge_types::Lid(top),
        ..row()[SECOND].switch.unwrap()
    });
    mad
}

#[test]
fn a_light_sweep_asks_our_own_port_and_every_switch() {
    let mut bench = Bench::new();
    let effects = bench.hand(DUE);
    let switches = bench.known.fabric.switches().iter();
    let mut want = vec![Some(Ask::Held(bench.known.local))];
    want.extend(switches.map(|&node| Some(Ask::Switch(node))));
    want.extend([None, None]);
    assert_eq!(asked(&effects), want);
    assert!(matches!(
        effects[want.len() - 2..],
        [Effect::AskManagers, Effect::LightSweepBegins]
    ));
    assert_eq!(bench.sweep.schedule().due(), None);
}

#[test]
fn a_heavy_sweep_takes_the_place_of_a_light_one_that_would_say_too_little() {
    let check = |has_failed: bool, are_lids_free: bool, mode: Mode, want: SweepReason| {
        let mut bench = Bench::new();
        bench.config.mode = mode;
        let input = In::LightSweepDue {
            has_failed,
            are_lids_free,
        };
        let gives_lids = matches!(bench.hand(input)[..], [Effect::GiveLids]);
        assert_eq!(gives_lids, want == SweepReason::LidsFree);
        assert_eq!(bench.sweep.schedule().due(), Some(want));
    };
    check(true, true, Mode::Manage, SweepReason::Again);
    check(false, true, Mode::Manage, SweepReason::LidsFree);
    check(false, false, Mode::Watch, SweepReason::Interval);
}

#[test]
fn a_difference_is_reason_for_a_heavy_sweep() {
    // The answer of the second switch, whether it is probed, and whether a heavy sweep follows.
    let check = |answer: Option<Mad>, is_suspect: bool, want: Option<SweepReason>| {
        let mut bench = Bench::new();
        bench.hand(DUE);
        let node = place(&bench.known, SECOND, 0).node;
        let effects = bench.hand(In::Answered(Ask::Switch(node), answer.as_ref()));
        assert_eq!(matches!(effects[..], [Effect::Suspect(at)] if at == node), is_suspect);
        bench.hand(In::AllAnswered);
        assert_eq!(bench.sweep.schedule().due(), want);
    };
    check(Some(says(false, 9)), false, None);
    check(Some(says(true, 9)), true, None);
    check(None, false, Some(SweepReason::LightSweep));
    // It has been off.
    check(Some(says(false, 0)), false, Some(SweepReason::LightSweep));
}

#[test]
fn after_a_plan_cables_are_looked_at_again() {
    let mut bench = Bench::new();
    bench.plan();
    assert!(bench.sweep.check().is_owed(false));
    assert_eq!(bench.sweep.check().due(), Some(bench.now + Duration::from_secs(1)));
    // Nothing is due at once.
    assert!(bench.hand(In::Woken).is_empty());
    let effects = bench.hand(In::CheckDue);
    assert!(matches!(effects[0], Effect::CheckBegins));
    let second = place(&bench.known, SECOND, 0);
    assert_eq!(
        effects.len(),
        1 + 1 + 2 + 2 + 1,
        "own port, switches, ports of the second, its LID"
    );
    assert!(asked(&effects).contains(&Some(Ask::Held(second))));
    let links = std::iter::from_fn(|| bench.hand(In::Room).pop());
    assert_eq!(links.count(), 2);
    assert!(bench.sweep.check().is_alone() && !bench.sweep.check().is_owed(false));
    assert!(bench.sweep.check().is_owed(true), "answers are still to come");
    bench.hand(In::AllAnswered);
    assert_eq!((bench.sweep.check().due(), bench.sweep.schedule().due()), (None, None));
}
