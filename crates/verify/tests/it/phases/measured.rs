//! The choice of measured figures changes no answer, and leaves out only the figures that it names.

use selvedge_sim::Seed;
use selvedge_verify::phases::{Measured, PhaseOptions, TransitionFigures, prove};

use super::{options, random_case};

#[test]
fn costs_are_the_same_without_the_rest() {
    let (mut proved, mut left_out) = (0, 0);
    for number in 0..1_500 {
        let case = random_case(&mut Seed(36).nth(number).rng());
        let costs = PhaseOptions {
            measured: Measured::Costs,
            ..options()
        };
        let all = prove(case.subject(), None, &case.proposal(), &options());
        let fewer = prove(case.subject(), None, &case.proposal(), &costs);
        let without = all.map(|mut proof| {
            proved += 1;
            let figures = &mut proof.figures;
            left_out += u32::from(figures.ghosts_max > 0) + u32::from(!figures.waits_spare.is_empty());
            *figures = TransitionFigures {
                turns_max: 0,
                ghosts_max: 0,
                waits_spare: Vec::new(),
                ..figures.clone()
            };
            for step in &mut figures.steps {
                (step.turns, step.ghosts) = (0, 0);
                step.live_examples.clear();
            }
            proof
        });
        assert_eq!(fewer, without, "case {number}");
    }
    assert!(proved > 100 && left_out > 100, "{proved} {left_out}");
}
