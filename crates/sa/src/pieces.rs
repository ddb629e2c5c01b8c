//! Answers in pieces: rows within a budget, segments within a window.

use std::time::Duration;

use selvedge_mad::rmpp::{Sender, SenderConfig};
use selvedge_sim::Time;
use selvedge_wire::sa::{Rmpp, RmppFlags, SA_DATA_LEN};
use selvedge_wire::{Datagram, Status};

use crate::client::{Exchange, Request};
use crate::core::{Answer, Open, Sa};
use crate::io::{Counters, Output};
use crate::query::{Found, ROWS_PER_PIECE, Source};
use crate::refusal::Refusal;

impl Sa {
    /// Begins an answer. Most answers are complete at once.
    pub(crate) fn begin(&mut self, exchange: Exchange, mut open: Open, out: &mut Vec<Output>) {
        let mut budget = ROWS_PER_PIECE;
        let is_complete = self.piece(&mut open, &mut budget, out);
        self.limits.charge(&self.config, exchange.lid, ROWS_PER_PIECE - budget);
        if is_complete {
            return;
        }
        if !self.make_room(exchange) {
            return self.refuse(&open.request, Refusal::Busy, out);
        }
        self.begun += 1;
        open.number = self.begun;
        // The first segment is sent only now, because a later refusal would leave half an answer.
        if let Answer::Long(sender) = &mut open.answer {
            segments(sender, self.now, (&open.request, &mut self.counters), out);
        }
        if open.hungry {
            self.turns.push_back(exchange);
        }
        self.open.insert(exchange, open);
    }

    /// True if a client may have one more long answer. If it has too many, the oldest answer that was never
    /// acknowledged is dropped: its requester has gone, or does not support RMPP (programs on libumad2sim).
    fn make_room(&mut self, exchange: Exchange) -> bool {
        let own = || self.open.iter().filter(|(other, _)| other.lid == exchange.lid);
        if own().count() >= self.config.transfers_per_client {
            let is_heard = |open: &Open| match &open.answer {
                Answer::Long(sender) => sender.is_heard(),
                // Rows are still being searched.
                Answer::One(_) | Answer::Short(_) => true,
            };
            let unheard = own().filter(|(_, open)| !is_heard(open));
            let Some(oldest) = unheard
                .min_by_key(|(_, open)| open.number)
                .map(|(exchange, _)| *exchange)
            else {
                return false;
            };
            self.open.remove(&oldest);
            self.counters.failed += 1;
        }
        self.open.len() < self.config.transfers
    }

    /// Continues the exchange that has been waiting longest.
    pub(crate) fn work(&mut self, out: &mut Vec<Output>) {
        let mut budget = ROWS_PER_PIECE;
        while let Some(exchange) = self.turns.pop_front() {
            let Some(mut open) = self.open.remove(&exchange) else {
                continue;
            };
            if self.piece(&mut open, &mut budget, out) {
                continue;
            }
            if let Answer::Long(sender) = &mut open.answer {
                segments(sender, self.now, (&open.request, &mut self.counters), out);
            }
            if open.hungry {
                self.turns.push_back(exchange);
            }
            self.open.insert(exchange, open);
            if budget == 0 {
                return;
            }
        }
    }

    /// Searches rows within the budget. True if the answer is complete and was sent.
    fn piece(&mut self, open: &mut Open, budget: &mut u32, out: &mut Vec<Output>) -> bool {
        open.hungry = false;
        let stride = open.query.layout.stride();
        let mut row = [0; SA_DATA_LEN];
        loop {
            if let Answer::Long(sender) = &open.answer
                && !sender.wants_more()
            {
                return false;
            }
            match open.query.next(&self.registered, &mut row, budget) {
                Found::Later => {
                    open.hungry = true;
                    return false;
                }
                Found::End => return self.complete(open, out),
                Found::Row => {}
            }
            match &mut open.answer {
                Answer::One(one @ None) => {
                    *one = Some(row);
                    // For paths the first row is the best; for other records there must be only one.
                    if matches!(open.query.source, Source::Paths(_)) {
                        return self.complete(open, out);
                    }
                }
                Answer::One(Some(_)) => {
                    self.refuse(&open.request, Refusal::TooMany, out);
                    return true;
                }
                Answer::Short(rows) => {
                    self.counters.records += 1;
                    rows.extend_from_slice(&row[..stride]);
                    if rows.len() > SA_DATA_LEN {
                        let config = SenderConfig {
                            timeout: self.config.timeout,
                            retries: self.config.retries,
                            window: self.config.window,
                            repeat_first: false,
                        };
                        let template = open.request.answer(Status::OK, open.query.layout.offset());
                        let mut sender = Sender::new(config, &template);
                        sender.push(rows);
                        open.answer = Answer::Long(Box::new(sender));
                    }
                }
                Answer::Long(sender) => {
                    self.counters.records += 1;
                    sender.push(&row[..stride]);
                }
            }
        }
    }

    /// Handles the end of the rows. True if everything was sent.
    fn complete(&mut self, open: &mut Open, out: &mut Vec<Output>) -> bool {
        let (request, layout) = (&open.request, open.query.layout);
        match &mut open.answer {
            Answer::One(None) => self.refuse(request, Refusal::None, out),
            Answer::One(Some(row)) => {
                let mut mad = request.answer(Status::OK, layout.offset());
                mad.sa_data_mut()[..layout.len].copy_from_slice(&row[..layout.len]);
                self.counters.answered += 1;
                self.counters.records += 1;
                out.push(send(request.reply(mad)));
            }
            // A single-segment answer is not repeated; a client that missed it repeats its request.
            Answer::Short(rows) => {
                let offset = if rows.is_empty() { 0 } else { layout.offset() };
                let mut mad = request.answer(Status::OK, offset);
                mad.sa_data_mut()[..rows.len()].copy_from_slice(rows);
                let length = Rmpp::HEADER_IN_PAYLOAD + u32::try_from(rows.len()).unwrap_or(0);
                let flags = RmppFlags::FIRST.with(RmppFlags::LAST);
                mad.set_rmpp(Some(Rmpp::data(1, flags, length)));
                self.counters.answered += 1;
                self.counters.segments += 1;
                out.push(send(request.reply(mad)));
            }
            Answer::Long(sender) => {
                sender.finish();
                return false;
            }
        }
        true
    }
}

/// Returns the segments that may be sent now.
fn segments(sender: &mut Sender, now: Time, (request, counters): (&Request, &mut Counters), out: &mut Vec<Output>) {
    while let Some(mad) = sender.next(now) {
        counters.segments += 1;
        out.push(send(request.reply(mad)));
    }
}

/// Returns an answer for which no response is expected.
pub(crate) const fn send(datagram: Datagram) -> Output {
    Output {
        datagram,
        timeout: Duration::ZERO,
    }
}
