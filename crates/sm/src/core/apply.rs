//! Connects the executor of Sets with the rest of the manager: sends its requests, and hands on the results.

use std::sync::Arc;

use super::Sm;
use crate::apply::{Apply, Block, Blocks, Ctx, Effect, In, Request, SetId};
use crate::io::Output;
use crate::readback::{Kind, Table};
use crate::stage::{MftWork, Stage, Token};
use crate::{aliases, commit, multicast, readback};

impl Sm {
    /// Gives an input to the executor. Returns its effects, and the request to send.
    fn tell_apply(&mut self, input: In<'_>) -> (Vec<Effect>, Option<(SetId, Request)>) {
        let ctx = Ctx {
            now: self.now,
            config: &self.config,
        };
        let mut effects = Vec::new();
        let request = match &mut self.stage {
            Stage::Applying(apply, _) => apply.handle(&ctx, input, &mut effects),
            Stage::MftBlocks(MftWork {
                blocks: Some(apply), ..
            })
            | Stage::GuidBlocks(Some(apply)) => apply.handle(&ctx, input, &mut effects),
            _ => None,
        };
        (effects, request)
    }

    /// Hands an input to the executor, and carries out its effects. Returns true if a request was sent.
    pub(super) fn run_apply(&mut self, input: In<'_>, out: &mut Vec<Output>) -> bool {
        let (effects, request) = self.tell_apply(input);
        for effect in effects {
            match effect {
                Effect::AskOwnPort => {
                    if let Stage::Applying(_, inventory) = &self.stage {
                        let inventory = Arc::clone(inventory);
                        self.ask_own_port(&inventory);
                    }
                }
                Effect::Sweep(reason) => self.want_sweep_unless_due(reason),
                Effect::Event(event) => out.push(Output::Event(event)),
                Effect::Holds { block, acknowledged } => self.block_holds(block, acknowledged, out),
                Effect::Refuses { block, what } => self.block_refused(block, what, out),
                Effect::Unknown(Block::Mft { switch, place, .. }) => {
                    self.run_multicast(multicast::In::Unknown(switch, place), out);
                }
                Effect::Unknown(Block::Guids { place, .. }) => self.run_aliases(aliases::In::Unknown(place), out),
                Effect::GaveUp(Block::Guids { place, .. }) => self.run_aliases(aliases::In::GaveUp(place.0), out),
                // Trees are planned again as a whole.
                Effect::GaveUp(Block::Mft { .. }) => {}
            }
        }
        let Some((id, request)) = request else { return false };
        self.send_set(id, request);
        true
    }

    /// Keeps as many requests open as the window allows: a change set has more Sets than should be queued at once.
    pub(super) fn feed_apply(&mut self, out: &mut Vec<Output>) {
        while self.exchange.open() < self.config.ready() && self.run_apply(In::Room, out) {}
        if let Stage::Applying(apply, _) = &self.stage {
            let counts = apply.counts();
            let sent = commit::Sent {
                acknowledged: counts.acknowledged,
                failed: counts.failed,
                // Read only once the plan has ended.
                tables_failed: false,
            };
            self.tell_in_force(commit::In::Sent(sent));
        }
    }

    /// Queues a request. A Set of a plan is left out if no agent answers by its directed route.
    fn send_set(&mut self, id: SetId, request: Request) {
        let Request { agent, smp, is_first } = request;
        let is_of_plan = matches!(self.stage, Stage::Applying(..));
        if is_of_plan && self.sweep.silent().is_silent(&smp.route) {
            return self.leave_set_out(id);
        }
        let token = if is_of_plan { Token::Set(id) } else { Token::Block(id) };
        self.exchange.submit(agent, (token, smp));
        if is_first {
            self.exchange.put_first(agent);
        }
    }

    /// Leaves out a Set, because no agent answers by its directed route.
    pub(crate) fn leave_set_out(&mut self, id: SetId) {
        self.tell_apply(In::LeftOut(id));
    }

    /// Hands on the contents of a block that was read, or written and acknowledged.
    fn block_holds(&mut self, block: Block, acknowledged: bool, out: &mut Vec<Output>) {
        let table = match block {
            Block::Mft { switch, place, holds } => {
                let Some(holds) = holds else { return };
                self.run_multicast(multicast::In::Holds(switch, place, holds), out);
                Table::Mft { switch, place }
            }
            Block::Guids { place, holds } => {
                let Some(holds) = holds else { return };
                let input = match acknowledged {
                    true => aliases::In::Takes(place, holds),
                    false => aliases::In::Holds(place, holds),
                };
                self.run_aliases(input, out);
                let (port, block) = place;
                Table::Guids { port, block }
            }
        };
        if acknowledged {
            self.tell_read_back(readback::In::Acknowledged(table));
        }
    }

    /// Called when a block was not answered, or differs from the Set.
    fn block_refused(&mut self, block: Block, what: String, out: &mut Vec<Output>) {
        match block {
            Block::Mft { switch, place, holds } => {
                let input = multicast::In::Refuses {
                    switch,
                    what,
                    place,
                    holds,
                };
                self.run_multicast(input, out);
            }
            Block::Guids { place, holds } => self.run_aliases(aliases::In::Refuses { what, place, holds }, out),
        }
    }

    /// Called when all requests for MFTs have ended.
    pub(super) fn mft_blocks_done(&mut self, copying: MftWork, out: &mut Vec<Output>) {
        if let Some((apply, inventory)) = copying.then {
            // A switch that does not take its table gets it again when trees are planned; routes do not wait.
            self.note_copies(out);
            self.stage = Stage::Applying(apply, inventory);
            return;
        }
        self.stage = Stage::Idle;
        match copying.blocks {
            Some(blocks) if blocks.writes() && blocks.counts().failed == 0 => {
                self.run_multicast(multicast::In::Written(blocks.counts().acknowledged), out);
                // They have to hold beside these copies.
                self.await_backups();
            }
            Some(blocks) if blocks.writes() => self.run_multicast(multicast::In::WrittenInPart, out),
            Some(_) => self.run_multicast(multicast::In::BlocksRead, out),
            None => {
                self.tell_read_back(readback::In::Ends(Kind::Mft));
                self.read_guids_back();
            }
        }
        self.note_copies(out);
    }

    /// Stores the MFT contents that switches hold now.
    fn note_copies(&mut self, out: &mut Vec<Output>) {
        let held = Arc::clone(self.multicast.held());
        self.update_in_force(commit::In::Copies(&held), out);
    }

    /// Called when all requests for GUIDInfo have ended.
    pub(super) fn guid_blocks_done(&mut self, blocks: Option<Box<Apply<Blocks>>>, out: &mut Vec<Output>) {
        self.stage = Stage::Idle;
        match blocks {
            Some(blocks) if blocks.writes() && blocks.counts().failed == 0 => {
                self.run_aliases(aliases::In::Written(blocks.counts().acknowledged), out);
            }
            Some(blocks) if blocks.writes() => self.run_aliases(aliases::In::WrittenInPart, out),
            Some(_) => self.run_aliases(aliases::In::BlocksRead, out),
            None => drop(self.tell_read_back(readback::In::Ends(Kind::Guids))),
        }
    }

    /// Interrupts the work on blocks of MFTs and GUIDInfo. Returns true if new routes were to be applied after this
    /// work: it is then no longer known whether the plan of these routes is correct.
    pub(crate) fn interrupt_blocks(&mut self) -> bool {
        self.run_apply(In::Interrupted, &mut Vec::new());
        match std::mem::take(&mut self.stage) {
            Stage::MftBlocks(MftWork { blocks: None, .. }) => {
                drop(self.tell_read_back(readback::In::BreaksOff(Kind::Mft)))
            }
            Stage::MftBlocks(copying) => {
                self.tell_multicast(multicast::In::Interrupted);
                return copying.then.is_some();
            }
            Stage::GuidBlocks(None) => drop(self.tell_read_back(readback::In::BreaksOff(Kind::Guids))),
            Stage::GuidBlocks(Some(_)) => drop(self.tell_aliases(aliases::In::Interrupted)),
            other => self.stage = other,
        }
        false
    }
}
