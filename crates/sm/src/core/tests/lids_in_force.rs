//! Tests which LIDs are stored after ports have taken the LIDs of a plan.

use selvedge_plan::Policy;
use selvedge_types::Lmc;

use super::*;

#[test]
fn who_has_taken_its_lids_is_to_get_no_others_back() {
    // Two LIDs cannot begin at 1. `takes`: whether the far host takes its LIDs.
    for takes in [true, false] {
        let mut bench = Bench::at_rest();
        bench.hosts[1].refuses = !takes;
        let policy = Policy {
            lmc: Lmc::new(1).unwrap(),
            ..Policy::default()
        };
        bench.stored.clear();
        bench.sets = 0;
        bench.hand(Input::Command(Command::SetPolicy(Arc::new(policy))));
        bench.compute();
        let near = LidRange::single(Lid(1));
        let [(first, 0), .., (last, sets)] = &bench.stored[..] else {
            panic!("{:?}", bench.stored)
        };
        assert!(*sets > 0);
        assert_eq!(first.lids_before.get(&Guid(0x11)), Some(&near));
        assert_eq!(last.lids_before.get(&Guid(0x11)), None);
        assert_eq!(last.lids_before.contains_key(&Guid(0x21)), !takes);
        assert_eq!(last.lids, first.lids);
    }
}
