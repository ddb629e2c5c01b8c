//! Tests what happens if a request for a table is not answered.

use selvedge_types::PortState;

use super::*;
use crate::made::{FIRST, info, inventory, row};

#[test]
fn a_table_that_nobody_answers_for_is_asked_for_again() {
    let check = |state: PortState, known: &[u32], want: &[&str]| {
        let mut found = row();
        found[FIRST].ports[2].info = Some(info(state));
        let (mut reading, inventory) = (Reading::default(), Arc::new(inventory(found)));
        let mut installed = Installed::unknown(2);
        for &switch in known {
            installed.learn(SwitchIdx(switch), 0, [1; BLOCK_LIDS]);
        }
        let ctx = Ctx {
            mode: Mode::Manage,
            policy: &Policy::default(),
        };
        let mut seen = Vec::new();
        let mut next = In::Begin(Arc::clone(&inventory), installed.clone());
        while seen.len() < 12 && seen.last() != Some(&"read") {
            let mut effects = Vec::new();
            reading.handle(&ctx, next, &mut effects);
            next = In::AllAsked(Vec::new());
            seen.push(match effects.pop().unwrap() {
                Effect::Asking => {
                    assert_eq!(reading.progress(), (2 - known.len() as u64, 2 - known.len()));
                    "asked"
                }
                Effect::SweepAgain => {
                    next = In::Begin(Arc::clone(&inventory), installed.clone());
                    "swept"
                }
                Effect::Read(..) => "read",
                other => panic!("{other:?}"),
            });
        }
        assert_eq!((seen, reading.unread_looks), (want.to_vec(), 0), "{state:?} {known:?}");
    };
    let once = ["asked", "asked", "asked", "swept"];
    let all = [&once[..], &once, &["asked", "asked", "asked", "read"]].concat();
    check(PortState::Active, &[], &all);
    check(PortState::Active, &[0], &all);
    check(PortState::Active, &[0, 1], &["asked", "read"]);
    // No packet flows by it.
    check(PortState::Init, &[], &all[8..]);
}
