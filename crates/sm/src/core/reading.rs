//! Connects the reading of tables with the rest of the manager.

use std::sync::Arc;

use selvedge_mad::AgentId;
use selvedge_plan::Installed;
use selvedge_planner::Inventory;
use selvedge_planner::held::carried;
use selvedge_sim::Time;
use selvedge_wire::Mad;

use super::{Sm, ok};
use crate::config::Mode;
use crate::event::SweepReason;
use crate::io::Output;
use crate::reading::{Ctx, Effect, In, Table, forget_fresh};
use crate::stage::{Stage, Token};

impl Sm {
    fn tell_reading(&mut self, input: In<'_>) -> Option<Effect> {
        let ctx = Ctx {
            mode: self.config.mode,
            policy: self.changes.wanted().unwrap_or(&self.config.policy),
        };
        let mut effects = Vec::new();
        self.reading.handle(&ctx, input, &mut effects);
        effects.pop()
    }

    /// Reads back the tables of switches that hold some and are not known already.
    pub(super) fn begin_reading(&mut self, inventory: Arc<Inventory>) {
        if self.must_see_lids_again(&inventory.fabric) {
            self.want_sweep(self.sweep_reason().again());
            return;
        }
        let mut installed = self.carried_tables(&inventory);
        forget_fresh(&inventory.fabric, &mut installed);
        self.forget_copies(&inventory.fabric, &installed);
        self.doubt_tables(&inventory.fabric, &mut installed);
        self.tell_reading(In::Begin(inventory, installed));
        self.ask_for_more_tables();
    }

    fn ask_for_more_tables(&mut self) {
        self.forget_silence();
        self.stage = Stage::Reading;
    }

    /// Returns the tables that this manager wrote and that are still known. In a mode other than Manage, or if another
    /// master was found, none are known: another manager may have written tables since.
    fn carried_tables(&self, inventory: &Inventory) -> Installed {
        let last = self.in_force.last_known();
        let may_be = self.config.mode == Mode::Manage && !self.election().has_met_another();
        last.filter(|_| may_be).map_or_else(
            || Installed::unknown(inventory.fabric.switches().len()),
            |last| carried(&last, inventory),
        )
    }

    /// Keeps the window full of Gets while tables are read: a switch may report 768 blocks.
    pub(super) fn ask_for_tables(&mut self) {
        while self.exchange.open() < self.config.ready() {
            let Some(Effect::Ask(table, node, get)) = self.tell_reading(In::Room) else {
                return;
            };
            let token = match table {
                Table::Lft(switch, block) => Token::Table { switch, block },
                Table::Lanes(table) => Token::Lanes(table),
            };
            if !self.sweep.silent().is_silent(&get.route) {
                self.exchange.submit(AgentId(node.0), (token, get));
            }
        }
    }

    /// Handles the end of a Get of a table.
    pub(super) fn table_read(&mut self, table: Table, answer: Option<&Mad>) {
        if let Some(mad) = ok(answer) {
            self.tell_reading(In::Answered(table, mad.smp_data()));
        }
    }

    /// Called when all tables have been requested.
    pub(super) fn tables_asked(&mut self, now: Time, out: &mut Vec<Output>) {
        let believed = self.believed_blocks();
        match self.tell_reading(In::AllAsked(believed)) {
            Some(Effect::Asking) => self.ask_for_more_tables(),
            Some(Effect::SweepAgain) => self.want_sweep(SweepReason::Again),
            Some(Effect::Read(inventory, installed)) => self.tables_read(inventory, installed, now, out),
            Some(Effect::Ask(..)) | None => {}
        }
    }
}

#[cfg(test)]
mod tests;
