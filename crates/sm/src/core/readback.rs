//! Connects the read-back with the rest of the manager: sends its Gets, and records tables that differ.

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_mad::AgentId;
use selvedge_plan::aliases::GuidBlock;
use selvedge_plan::multicast::MftBlock;
use selvedge_plan::{BLOCK_LIDS, Installed};
use selvedge_sim::Time;
use selvedge_types::Guid;
use selvedge_wire::Mad;

use super::{Sm, ok};
use crate::aliases::{self, AliasEvent};
use crate::config::Mode;
use crate::election::Role;
use crate::event::Event;
use crate::io::Output;
use crate::multicast::{self, MulticastEvent};
use crate::readback::{Ctx, Effect, In, Kind, ReadId, Table};
use crate::stage::{MftWork, Stage, Token};
use crate::view::ReadBackFigures;
use crate::{commit, drain};

impl Sm {
    /// Hands an input to the read-back; returns its effects.
    pub(crate) fn tell_read_back(&mut self, input: In<'_>) -> Vec<Effect> {
        let ctx = Ctx {
            now: self.now,
            config: &self.config,
            inventory: self.inventory.as_deref(),
            in_force: self.in_force.with_fabric().map(|(fabric, plan)| (plan, fabric)),
            installed: self.in_force.installed(),
            copies: self.multicast.held(),
            guids: self.aliases.book().held(),
            unread_guids: self.aliases.book().unread(),
        };
        let mut effects = Vec::new();
        self.read_back.handle(&ctx, input, &mut effects);
        effects
    }

    /// Called when a request was sent more than once, and is answered: if it is a Set, an earlier copy of it may still
    /// come.
    pub(super) fn note_repeated(&mut self, token: Token) {
        let table = match (token, &self.stage) {
            (Token::Set(id), Stage::Applying(apply, inventory)) => apply.lft_block(id).map(|(node, block)| {
                let switch = inventory.fabric.node(node).guid;
                Table::Lft { block, switch }
            }),
            (Token::Set(_) | Token::Block(_), _) => None,
            _ => return,
        };
        self.tell_read_back(In::Repeated(table));
    }

    /// Returns true if an earlier copy of a Set may still come.
    pub(super) fn may_copies_come(&self) -> bool {
        self.read_back.may_copies_come(self.now)
    }

    /// Returns the figures of the read-back so far.
    pub(crate) fn read_back_figures(&self) -> ReadBackFigures {
        self.read_back.figures()
    }

    /// Returns true if the read-back of a written table is overdue. Then the table is read now, before the heavy sweep
    /// that is due.
    pub(crate) fn is_read_back_overdue(&self) -> bool {
        self.read_back.is_overdue(self.now, self.config.sweep_interval)
    }

    /// Returns when the next light sweep begins, if it would otherwise be at `due`.
    pub(crate) fn read_back_due(&self, due: Option<Time>) -> Option<Time> {
        // Where no node is known there is nothing to read.
        let interval = self.config.sweep_interval.filter(|_| self.inventory.is_some());
        match (interval, due) {
            (Some(interval), Some(due)) => Some(self.read_back.due(self.now, due, interval)),
            (None, _) | (_, None) => due,
        }
    }

    /// Begins to read tables back after all switches have answered. Returns false if there are none to read, or if the
    /// fabric has `changed` and the read-back can wait.
    pub(crate) fn begin_reading_back(&mut self, changed: bool) -> bool {
        if changed && !self.is_read_back_overdue() {
            return false;
        }
        let begins = self.reads_back() && self.read_back.has_begun(Kind::Lft) && !self.read_back.is_open();
        if begins {
            self.tell_read_back(In::Open);
        }
        begins
    }

    /// Returns true if this manager is responsible for the tables, and so reads them back.
    fn reads_back(&self) -> bool {
        self.config.mode == Mode::Manage && self.role() == Role::Master
    }

    /// Reads MFTs back after a light sweep without a finding.
    pub(crate) fn read_copies_back(&mut self) {
        if self.inventory.is_none() || !self.reads_back() {
            return;
        }
        self.tell_read_back(In::Begins(Kind::Mft, self.multicast.left_out()));
        if !self.read_back.has_begun(Kind::Mft) {
            return self.read_guids_back();
        }
        self.stage = Stage::MftBlocks(MftWork::default());
    }

    /// Reads GUIDInfo back after a light sweep without a finding and with correct MFTs.
    pub(crate) fn read_guids_back(&mut self) {
        if self.inventory.is_none() || !self.reads_back() {
            return;
        }
        self.tell_read_back(In::Begins(Kind::Guids, self.aliases.left_out()));
        if self.read_back.has_begun(Kind::Guids) {
            self.stage = Stage::GuidBlocks(None);
        }
    }

    /// Keeps as many Gets for tables of a kind in flight as the window allows. Since a node has many tables, light
    /// sweeps send no Gets by directed routes on which no agent answers.
    pub(super) fn ask_back(&mut self, kind: Kind) {
        while self.exchange.open() < self.config.ready() {
            let Some(Effect::Ask { id, node, get }) = self.tell_read_back(In::Room(kind)).pop() else {
                return;
            };
            if !kind.is_in_light_sweep() || !self.sweep.silent().is_silent(&get.route) {
                self.exchange.submit(AgentId(node.0), (Token::ReadBack(id), get));
            }
        }
    }

    /// Handles the end of a Get of a table. Returns true if the table differs from what was written.
    pub(crate) fn was_read_back(&mut self, id: ReadId, answer: Option<&Mad>, out: &mut Vec<Output>) -> bool {
        let mut differs = false;
        for effect in self.tell_read_back(In::Answered(id, ok(answer).map(Mad::smp_data))) {
            match effect {
                Effect::Tell(event) => out.push(Output::Event(event)),
                Effect::LftDiffers(switch, block, holds) => {
                    differs = true;
                    self.lft_differs(switch, block, holds);
                }
                Effect::MftDiffers(switch, place, holds) => out.extend(self.mft_differs(switch, place, holds)),
                Effect::GuidsDiffer(place, holds) => out.extend(self.guids_differ(place, holds)),
                Effect::LanesDiffer(at) => {
                    differs = true;
                    self.forget_repairs();
                    self.tell_in_force(commit::In::LanesDiffer(at));
                }
                Effect::LanesHold(table, data) => _ = self.tell_in_force(commit::In::LanesHold(table, &data)),
                Effect::Ask { .. } | Effect::Doubt(_) | Effect::Believe(_) => {}
            }
        }
        differs
    }

    /// Handles an LFT block that differs from what was written.
    fn lft_differs(&mut self, switch: SwitchIdx, block: usize, holds: [u8; BLOCK_LIDS]) {
        let Some(inventory) = self.inventory.clone() else {
            return;
        };
        // Prepared repairs start from other table contents. Another switch may have taken this Set, if a cable was
        // moved.
        self.forget_repairs();
        self.tell_drain(drain::In::Astray(&inventory.fabric));
        self.tell_in_force(commit::In::LftHolds(switch, block, holds));
    }

    /// Called when an MFT block differs from its known contents: trees are planned again. Returns the event.
    fn mft_differs(&mut self, switch: Guid, place: (u16, u8), holds: MftBlock) -> Option<Output> {
        self.tell_multicast(multicast::In::HoldsOtherwise(switch, place, holds));
        let fabric = &self.inventory.as_ref()?.fabric;
        let what = fabric.node(fabric.find(switch)?).description.clone();
        let (block, position) = place;
        Some(Output::Event(Event::Multicast(MulticastEvent::Differs {
            what,
            block,
            position,
        })))
    }

    /// Called when a GUIDInfo block differs from its known contents: it is written again. Returns the event.
    fn guids_differ(&mut self, place: (Guid, u8), holds: GuidBlock) -> Option<Output> {
        self.tell_aliases(aliases::In::HoldsOtherwise(place, holds));
        let fabric = &self.inventory.as_ref()?.fabric;
        let (what, block) = (fabric.port_name(fabric.find_port(place.0)?), place.1);
        Some(Output::Event(Event::Aliases(AliasEvent::Differs { what, block })))
    }

    /// Marks tables as unknown if their contents may differ from what was acknowledged. A heavy sweep reads the unknown
    /// tables afterwards.
    pub(crate) fn doubt_tables(&mut self, fabric: &Fabric, installed: &mut Installed) {
        for effect in self.tell_read_back(In::HeavySweepReads(fabric, installed)) {
            if let Effect::Doubt(blocks) = effect {
                blocks
                    .into_iter()
                    .for_each(|(switch, block)| installed.forget(switch, block));
            }
        }
    }

    /// Returns the LFT blocks that the heavy sweep could not read, with their last known contents.
    pub(super) fn believed_blocks(&mut self) -> Vec<(SwitchIdx, usize, [u8; BLOCK_LIDS])> {
        let reading = std::mem::take(&mut self.reading);
        let read = reading.so_far();
        let input = read.map(|(inventory, installed)| In::HeavySweepHasRead(&inventory.fabric, installed));
        let effects = input.map(|input| self.tell_read_back(input)).unwrap_or_default();
        self.reading = reading;
        let believed = effects.into_iter().filter_map(|effect| match effect {
            Effect::Believe(blocks) => Some(blocks),
            _ => None,
        });
        believed.flatten().collect()
    }
}
