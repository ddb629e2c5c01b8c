//! An ordered list of engines: the first that routes the fabric is taken, and every refusal is reported.

use selvedge_fabric::Fabric;
use selvedge_plan::Lids;
use selvedge_sim::{Par, Seed};

use crate::engine::{Engine, EngineError, Options, Routed};
use crate::note::Note;

/// Routes with the first of `engines` that does not refuse. Refusals stand as notes before those of the engine taken.
///
/// # Errors
/// The refusal of the last engine if all refuse; of an empty list, that it names none.
pub fn route_in_order(
    engines: &[Engine],
    fabric: &Fabric,
    lids: &Lids,
    options: &Options,
    seed: Seed,
    par: Par,
) -> Result<Routed, EngineError> {
    let mut notes = Vec::new();
    let mut last = EngineError::NoEngine;
    for &engine in engines {
        match engine.route(fabric, lids, options, seed, par) {
            Ok(mut routed) => {
                notes.append(&mut routed.notes);
                routed.notes = notes;
                return Ok(routed);
            }
            Err(error) => {
                notes.push(Note::Refused {
                    engine,
                    why: error.to_string(),
                });
                last = error;
            }
        }
    }
    Err(last)
}
