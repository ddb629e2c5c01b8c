//! Judges a plan with a standing proof.

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{ChangeSet, Installed, Plan};
use selvedge_types::{Idx, Lid, PortNum};

use super::shape::{Goal, NOWHERE, Shape};
use super::{Change, Entry, LinkChange, Proof, Standing, StandingError};
use crate::figures::{Figures, Measured, assemble};
use crate::finding::Traffic;
use crate::ground::Ground;
use crate::judged::{JudgeOptions, Judged, Refusal, sentence};
use crate::phases::passage;
use crate::sl_vl::LaneMap;
use crate::subject::Subject;
use crate::tally::Ends;
use crate::verdict::Docket;
use crate::witness::Finder;
use crate::{out_of_service, transition};

/// Judges as [`crate::judge`] does, but follows packets only where entries and links differ from what `standing`
/// proves.
///
/// If the proof cannot be updated to this plan, or the updated proof does not hold, everything is judged in full, so
/// that a refusal has its witnesses. If the plan is refused, the proof stays unchanged. If the plan is accepted, the
/// proof is updated to it. If the plan is accepted but the proof cannot cover it, the proof is removed; make a new one
/// with [`Standing::new`] when there is time.
///
/// The verdict is that of [`crate::judge`], with two differences: [`Figures::hops`] and `hops_max` are not counted, and
/// if there are several cycles among switches, another of these cycles may be shown.
///
/// # Errors
/// A refusal with the whole verdict, if there is any error.
pub fn judge(
    standing: &mut Option<Standing>,
    fabric: &Fabric,
    installed: &Installed,
    plan: &Plan,
    changes: ChangeSet,
    options: &JudgeOptions,
) -> Result<Judged<ChangeSet>, Box<Refusal>> {
    let subject = Subject::plan(fabric, plan);
    let Some((mended, undo, ground)) = standing.as_mut().and_then(|standing| {
        let ground = Ground::new(subject);
        let change = standing.change_to(&ground).ok()?;
        let undo = standing.apply(&change).ok()?;
        Some((standing, undo, ground))
    }) else {
        let judged = crate::judge(fabric, installed, plan, changes, options)?;
        *standing = None;
        return Ok(judged);
    };
    let proof = mended.proof();
    let judged = if proof.holds() {
        let mut docket = Docket::new(options);
        docket.add_plain_facts(&ground);
        mended.add_cycle(&mut docket, &ground, &proof);
        for finding in transition::findings(fabric, installed, plan, &changes) {
            docket.add(finding);
        }
        for finding in out_of_service::findings(fabric, plan, &changes, &options.kept_off) {
            docket.add(finding);
        }
        let passage = passage(fabric, installed, plan, &changes, None, options);
        sentence(docket, mended.figures(&ground, proof), changes, passage)
    } else {
        crate::judge(fabric, installed, plan, changes, options)
    };
    if judged.is_err() {
        // These tables were in force a moment ago, so they have no loop.
        drop(mended.apply(&undo));
    }
    judged
}

impl Standing {
    /// Returns the changes that lead from the proved state to another fabric and other tables. Cables, LIDs and lanes
    /// must be those of the proof. All entries are compared, but no packet is followed.
    fn change_to(&self, ground: &Ground<'_>) -> Result<Change, StandingError> {
        let (subject, mine) = (ground.subject, &self.flows);
        let (tables, need) = (subject.tables, subject.lids.top());
        if tables.switches() != ground.switches || tables.top() < need {
            return Err(StandingError::Tables { need });
        }
        let is_up = mine
            .shape
            .links_of(&Shape::of(ground, need)?)
            .ok_or(StandingError::Changed)?;
        let mut change = Change::default();
        for (arc, &is_up) in mine.shape.arcs.iter().zip(&is_up) {
            if is_up != (mine.next[arc.cell as usize] != NOWHERE) {
                change.links.push(LinkChange {
                    switch: SwitchIdx(arc.src.into()),
                    port: PortNum::new(arc.port).unwrap_or_default(),
                    is_up,
                });
            }
        }
        for (block, rows) in mine.rows.chunks(mine.shape.switches).enumerate() {
            for ((old, new), switch) in rows.iter().zip(tables.tile(block)).zip(0..) {
                if old == new {
                    continue;
                }
                let entries = old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new);
                change.entries.extend(entries.map(|(column, (_, &egress))| Entry {
                    switch: SwitchIdx::from_usize(switch),
                    lid: Lid((block * new.len() + column) as u16),
                    egress,
                }));
            }
        }
        Ok(change)
    }

    /// Adds the finding that traffic between switches may deadlock although the proof holds.
    fn add_cycle(&self, docket: &mut Docket<'_>, ground: &Ground<'_>, proof: &Proof) {
        let shape = &self.flows.shape;
        let cycle = (proof.cyclic == Some(Traffic::Switches))
            .then(|| self.graphs[1].cycle(shape))
            .flatten();
        let Some(cycle) = cycle else { return };
        let parts = cycle.iter().filter_map(|&vertex| {
            let (lane, cell) = (vertex as usize / shape.total(), vertex as usize % shape.total());
            let port = u8::try_from(cell % shape.cells).ok()?;
            Some((lane, ground.exit(cell / shape.cells, port).as_channel()?))
        });
        let lanes = LaneMap::new(ground);
        let finder = Finder { ground, lanes: &lanes };
        docket.add_cycle(finder, Traffic::Switches, &parts.collect::<Vec<_>>());
    }

    /// Returns the figures of a proof that holds: every packet is delivered.
    fn figures(&self, ground: &Ground<'_>, proof: Proof) -> Figures {
        let goals = || self.flows.shape.goals.iter();
        let dead = goals().filter(|goal| **goal == Goal::Dead).count() as u64;
        let is_alive = |goal: &&Goal| matches!(goal, Goal::Host { .. } | Goal::Switch(_));
        let alive = goals().filter(is_alive).count() as u64;
        let senders = (ground.hosts.len() + ground.switches) as u64;
        let ends = Ends {
            // A port does not send to itself.
            delivered: alive * senders.saturating_sub(1),
            apart: dead * senders,
            host_pairs: proof.host_pairs_reached,
            ..Ends::default()
        };
        let measured = Measured {
            ends,
            hops: None,
            hops_mean: proof.hops_mean,
            load: proof.load,
            lanes: proof.lanes,
        };
        assemble(ground, measured)
    }
}
