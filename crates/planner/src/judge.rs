//! The interface through which planning asks the judge.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::aliases::{AliasChange, HeldGuids, PortAliases};
use selvedge_plan::multicast::{MulticastChange, MulticastTables};
use selvedge_plan::{ChangeSet, Generation, Installed, Phase, Plan};
use selvedge_sim::Par;
use selvedge_types::Guid;
use selvedge_verify::phases::Measured;
use selvedge_verify::standing::{Backup, LinkChange, Replaced, Standing};
use selvedge_verify::{JudgeOptions, Judged, MulticastSubject, Refusal, Verdict};

use crate::inventory::Inventory;

/// Decides whether a change set may be sent.
///
/// Only `selvedge-verify` can make a [`Judged`] value, so another implementation of this trait can refuse more changes
/// than the judge, but cannot accept more.
pub trait Judge: Send + Sync + fmt::Debug {
    /// Judges a plan and the change set that leads to it. `changes` computes the change set while the plan is judged.
    fn judge(
        &self,
        inventory: &Inventory,
        installed: &Installed,
        plan: &Plan,
        changes: &(dyn Fn() -> ChangeSet + Sync),
        par: Par,
    ) -> Result<Accepted, Box<Refusal>>;

    /// Judges a plan that differs little from the plan that `standing` proves, if there is such a proof. If the plan is
    /// accepted, and is of a kind that `standing` can cover, the proof is updated to it. Default: judges everything.
    fn judge_repair(
        &self,
        standing: &mut Option<Standing>,
        inventory: &Inventory,
        installed: &Installed,
        plan: &Plan,
        changes: &(dyn Fn() -> ChangeSet + Sync),
        par: Par,
    ) -> Result<Accepted, Box<Refusal>> {
        let accepted = self.judge(inventory, installed, plan, changes, par)?;
        *standing = None;
        Ok(accepted)
    }

    /// Judges only the entries written after links were lost. `under_way` lists recently replaced entries. `before` is
    /// the verdict on the plan that `standing` proves. `None` (also the default): this short judgement is not possible,
    /// and the plan must be judged in another way.
    fn judge_entries(
        &self,
        _standing: &mut Standing,
        _inventory: &Inventory,
        _links: &[LinkChange],
        _changes: ChangeSet,
        _under_way: &[Replaced],
        _before: &Verdict,
    ) -> Option<Accepted> {
        None
    }

    /// Judges a backup: the entries to be written if certain links are lost, as [`Self::judge_entries`] judges them
    /// with no packets in flight. `standing` stays unchanged. Default: `None`.
    fn back_up(
        &self,
        _standing: &mut Standing,
        _inventory: &Inventory,
        _links: &[LinkChange],
        _changes: &ChangeSet,
    ) -> Option<Backup> {
        None
    }

    /// Judges a backup after its links were lost: the same entries, plus the Sets that clear PortStateChange. `None`
    /// (also the default): this short judgement is not possible, and the plan must be judged in another way.
    fn judge_backup(
        &self,
        _standing: &Standing,
        _inventory: &Inventory,
        _backup: &Backup,
        _what: (Generation, Phase),
        _before: &Verdict,
    ) -> Option<Accepted> {
        None
    }

    /// Returns the options for multicast tables and alias GUIDs. Default: those of [`DefaultJudge`].
    fn options(&self) -> JudgeOptions {
        JudgeOptions::default()
    }

    /// Judges multicast tables and the transition to them.
    fn judge_multicast(
        &self,
        _inventory: &Inventory,
        subject: &MulticastSubject<'_>,
        change: MulticastChange,
    ) -> Result<Judged<MulticastChange>, Box<Refusal>> {
        selvedge_verify::judge_multicast(subject, change, &self.options())
    }

    /// Judges a change of multicast tables that only removes entries.
    fn judge_taking_away(
        &self,
        _inventory: &Inventory,
        fabric: &Fabric,
        held: &MulticastTables,
        change: MulticastChange,
    ) -> Result<Judged<MulticastChange>, Box<Refusal>> {
        selvedge_verify::judge_taking_away(fabric, held, change, &self.options())
    }

    /// Judges a change of alias GUIDs.
    fn judge_aliases(
        &self,
        inventory: &Inventory,
        held: &HeldGuids,
        wanted: &BTreeMap<Guid, PortAliases>,
        change: AliasChange,
    ) -> Result<Judged<AliasChange>, Box<Refusal>> {
        selvedge_verify::judge_aliases(&inventory.fabric, held, wanted, change, &self.options())
    }
}

/// A change set that may be sent, with the judge's verdict.
#[derive(Debug)]
pub struct Accepted {
    /// The change set.
    pub changes: Judged<ChangeSet>,
    /// Findings and figures.
    pub verdict: Verdict,
}

impl From<Judged<ChangeSet>> for Accepted {
    fn from(changes: Judged<ChangeSet>) -> Self {
        let verdict = changes.verdict().clone();
        Self { changes, verdict }
    }
}

/// The judge of `selvedge-verify`.
#[derive(Clone, Debug, Default)]
pub struct DefaultJudge {
    /// Options of the judge.
    pub options: JudgeOptions,
}

impl DefaultJudge {
    /// Returns the options for judging a change of routes. Of the figures that describe its transition, only the costs
    /// are measured.
    fn of_changes(&self, inventory: &Inventory, par: Par) -> JudgeOptions {
        JudgeOptions {
            par,
            kept_off: Arc::new(inventory.withdrawn.kept_off()),
            measured: Measured::Costs,
            ..self.options.clone()
        }
    }
}

impl Judge for DefaultJudge {
    fn options(&self) -> JudgeOptions {
        self.options.clone()
    }

    fn judge(
        &self,
        inventory: &Inventory,
        installed: &Installed,
        plan: &Plan,
        changes: &(dyn Fn() -> ChangeSet + Sync),
        par: Par,
    ) -> Result<Accepted, Box<Refusal>> {
        let options = self.of_changes(inventory, par);
        let changes = selvedge_verify::judge_made(&inventory.fabric, installed, plan, changes, &options)?;
        Ok(changes.into())
    }

    fn judge_repair(
        &self,
        standing: &mut Option<Standing>,
        inventory: &Inventory,
        installed: &Installed,
        plan: &Plan,
        changes: &(dyn Fn() -> ChangeSet + Sync),
        par: Par,
    ) -> Result<Accepted, Box<Refusal>> {
        let options = self.of_changes(inventory, par);
        let judge = selvedge_verify::standing::judge;
        let changes = judge(standing, &inventory.fabric, installed, plan, changes(), &options)?;
        Ok(changes.into())
    }

    fn judge_entries(
        &self,
        standing: &mut Standing,
        inventory: &Inventory,
        links: &[LinkChange],
        changes: ChangeSet,
        under_way: &[Replaced],
        before: &Verdict,
    ) -> Option<Accepted> {
        let judge = selvedge_verify::standing::judge_repair;
        let changes = judge(standing, &inventory.fabric, links, changes, under_way, before)?;
        Some(changes.into())
    }

    fn back_up(
        &self,
        standing: &mut Standing,
        inventory: &Inventory,
        links: &[LinkChange],
        changes: &ChangeSet,
    ) -> Option<Backup> {
        standing.back_up(&inventory.fabric, links, changes)
    }

    fn judge_backup(
        &self,
        standing: &Standing,
        inventory: &Inventory,
        backup: &Backup,
        what: (Generation, Phase),
        before: &Verdict,
    ) -> Option<Accepted> {
        let changes = standing.recall(&inventory.fabric, backup, what, before)?;
        Some(changes.into())
    }
}
