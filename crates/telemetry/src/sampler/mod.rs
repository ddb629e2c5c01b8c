//! The sampler: reads the counters of all ports in slots aligned to the wall clock.
//!
//! `handle` is the only entry point; it reads no clock and does no I/O. `traffic` holds requests; `books` hold totals
//! and the ports that still have no sample; `choice` decides which ports are read, `ask` evaluates answers, and
//! `cables` decide when a cable is read.

mod ask;
mod books;
mod cables;
mod choice;
mod node;
mod rounds;
mod silence;
mod traffic;

use selvedge_mad::Counters;
use selvedge_sim::Time;
use selvedge_types::Lid;
use selvedge_wire::Datagram;

use crate::cable::CableReading;
use crate::clock::{Slot, Tick};
use crate::config::{Config, Triage};
use crate::group::{Group, Row};
use crate::io::{How, In, Out, Sample, SampleKey, SlotReport, Why};
use crate::{End, Event, PortSet};
use ask::{Answer, Ask, What};
use books::{Books, Told};
use cables::{CableIn, Cables, Outcome};
use node::{Abilities, Sum, SumSupport};
use traffic::Traffic;

/// The class of requests that are of none. Classes have lower numbers, because there are at most 255.
const NO_CLASS: u8 = u8::MAX;

/// Reads the counters of all ports of a fabric, or of those assigned to it.
#[derive(Debug)]
pub struct Sampler {
    config: Config,
    books: Books,
    traffic: Traffic,
    cables: Cables,
}

impl Sampler {
    /// Returns a sampler. It sends nothing before it has an inventory, and reads no counters before it knows the wall
    /// time.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            books: Books::new(&config),
            traffic: Traffic::new(&config),
            cables: Cables::new(config.cable_info, config.back_off_max),
            config,
        }
    }

    /// Continues the totals of a sample that was stored before a restart. Call it before the first input, with the last
    /// sample of each port, group and class, in the order in which they were handed out.
    pub fn resume(&mut self, sample: &Sample) {
        self.books.resume(sample);
    }

    /// Returns when the sampler wants to be called with [`In::Wake`], if at all.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let slot = self.books.rounds.next().and_then(|wall| self.books.clock.when(wall));
        let due = [slot, self.traffic.next_wake(), self.cables.next_wake()];
        due.into_iter().flatten().min()
    }

    /// Returns the counts of requests and answers so far, for display.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.traffic.counters()
    }

    /// Returns the parameters.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The only way in.
    pub fn handle(&mut self, now: Time, input: In, out: &mut Vec<Out>) {
        match input {
            In::Clock(wall) => {
                let by_ns = self.books.clock.set(now, wall);
                if u128::from(by_ns.unsigned_abs()) >= self.config.step_min.as_nanos() {
                    out.push(Out::Event(Event::ClockSet { by_ns }));
                }
            }
            In::Inventory(inventory) => {
                self.cables.handle(now, CableIn::Inventory(&inventory));
                self.books.take_inventory(inventory);
            }
            In::Assign(assignment) => self.books.assignment = assignment,
            In::Received(datagram) => self.received(now, &datagram, out),
            In::Returned(datagram) => {
                if let Some(ask) = self.traffic.returned(&datagram.mad) {
                    self.failed(now, ask, out);
                }
            }
            In::Wake => {}
        }
        while let Some(ask) = self.traffic.expired(now) {
            self.failed(now, ask, out);
        }
        self.complete(now, out);
        self.begin_slots(now, out);
        self.complete(now, out);
        self.ask_cables(now);
        self.send(now, out);
    }

    // ---- slots

    fn begin_slots(&mut self, now: Time, out: &mut Vec<Out>) {
        let Some(wall) = self.books.clock.wall(now) else { return };
        for class in self.books.rounds.classes() {
            match self.books.rounds.tick(class, wall) {
                Tick::Wait => {}
                Tick::Renumber => out.push(Out::Event(Event::Renumbered { class })),
                Tick::Begin { slot, missed } => {
                    self.cut_off(now, class, out);
                    self.books.rounds.begin(now, class, slot, missed);
                    self.begin(now, class, out);
                }
            }
        }
    }

    /// Ends a slot that is not complete: ports that have not been read by now are missing in it.
    fn cut_off(&mut self, now: Time, class: u8, out: &mut Vec<Out>) {
        let Some((slot, _)) = self.books.rounds.slot(class) else {
            return;
        };
        let mut missing = 0;
        for node in self.books.nodes() {
            let pending = self.books.node(node).pending.keys();
            let groups: Vec<Group> = pending.filter(|at| at.0 == class).map(|at| at.1).collect();
            for group in groups {
                missing += self.books.miss_group(node, class, group, Why::Late);
            }
        }
        out.push(Out::Event(Event::Overrun { class, slot, missing }));
        self.complete(now, out);
    }

    /// Reports slots in which every port has a sample or is missing.
    fn complete(&mut self, now: Time, out: &mut Vec<Out>) {
        for class in self.books.rounds.classes() {
            if let Some(round) = self.books.rounds.completed(class) {
                out.push(Out::Ended(SlotReport {
                    took: now.since(round.began),
                    ..round.report
                }));
            }
        }
    }

    /// Begins the slot of a class. All nodes are opened before the first is asked: a port may wait for another node's.
    fn begin(&mut self, now: Time, class: u8, out: &mut Vec<Out>) {
        self.traffic.grow(self.books.nodes().count());
        for node in self.books.nodes() {
            if self.books.node(node).is_present {
                self.books
                    .open(now, (class, &self.config.classes[usize::from(class)]), node, out);
            }
        }
        for node in self.books.nodes() {
            let at = self.books.node_mut(node);
            if !at.reads(class) {
                continue;
            }
            if at.silence.is_paused(now) {
                self.books.miss_read(node, class, Why::BackOff);
                continue;
            }
            match at.abilities {
                Abilities::Known { .. } => self.ask_class(now, node, class),
                Abilities::Asked => {}
                Abilities::Unknown => {
                    at.abilities = Abilities::Asked;
                    self.push(node, class, What::Abilities);
                }
            }
        }
    }

    /// Queues the requests of a class to a node with known abilities.
    fn ask_class(&mut self, now: Time, node: u32, class: u8) {
        for wanted in self.config.classes[usize::from(class)].groups.clone() {
            self.ask_group(now, node, class, wanted);
        }
    }

    fn ask_group(&mut self, now: Time, node: u32, class: u8, wanted: Group) {
        let ports = self.books.pending(node, class, wanted);
        let at = self.books.node_mut(node);
        let Some(group) = at.group(wanted, &self.config.classes[usize::from(class)].groups) else {
            return self.books.forget(node, class, wanted, ports);
        };
        if group != wanted {
            at.rename(class, wanted, group);
        }
        let own = ports.iter().filter(|port| !at.waits_for_peer(class, group, *port));
        let mut asked: PortSet = own.collect();
        if let Triage::BySum { full_read_every } = self.config.classes[usize::from(class)].triage
            && at.sums_up()
            && asked.len() > 1
        {
            let sum = at.sums.entry(group).or_insert(Sum { last: None, slots: 0 });
            let is_full = sum.last.is_none() || sum.slots + 1 >= full_read_every;
            sum.slots = if is_full { 0 } else { sum.slots + 1 };
            if !is_full {
                asked = asked.iter().filter(|port| !at.is_in_sum(*port, group)).collect();
            }
            let decides = !is_full;
            self.push(node, class, What::Sum { group, decides });
        }
        for port in asked.iter() {
            let silence = self.books.node(node).silent_ports.get(&port);
            match silence.is_some_and(|silence| silence.is_paused(now)) {
                true => self.books.miss(node, class, group, port, Why::BackOff),
                false => self.push(node, class, What::Port { port, group }),
            }
        }
    }

    fn push(&mut self, node: u32, class: u8, what: What) {
        self.traffic.push(Ask {
            node,
            class,
            slot: Slot::default(),
            what,
            sent: None,
        });
    }

    /// Sends as many requests as the windows allow.
    fn send(&mut self, now: Time, out: &mut Vec<Out>) {
        loop {
            let (books, cables) = (&self.books, &self.cables);
            let lid = |ask: &mut Ask| {
                ask.slot = books.rounds.slot(ask.class).map_or(Slot::default(), |(slot, _)| slot);
                let is_wanted = match ask.what {
                    What::Cable { port } => {
                        let node = books.node(ask.node).guid;
                        cables.is_wanted(End { node, port })
                    }
                    What::Abilities | What::Sum { .. } | What::Port { .. } => books.is_wanted(ask),
                };
                books.lid(ask.node, ask.what).filter(|_| is_wanted)
            };
            let Some(sending) = self.traffic.next(now, lid) else {
                break;
            };
            if let Some(ask) = sending.first
                && let Some(round) = self.books.rounds.current(ask.class)
            {
                round.report.requests += 1;
            }
            out.push(Out::Send(sending.datagram, sending.timeout));
        }
    }

    // ---- cables

    /// Queues the requests for cables that are due.
    fn ask_cables(&mut self, now: Time) {
        for End { node, port } in self.cables.handle(now, CableIn::Wake) {
            let is_ours = self.books.assignment.ports(node, Group::BitErrors).contains(port);
            let node = self.books.index(node);
            if is_ours && !self.books.node(node).silence.is_paused(now) {
                self.traffic.grow(self.books.nodes().count());
                self.push(node, NO_CLASS, What::Cable { port });
            }
        }
    }

    /// Handles the end of a request for a cable; `None`: there was no answer. Nothing is concluded about the agent's
    /// other attributes: it may not know the class.
    fn ended_cable(&mut self, now: Time, end: End, answer: Option<Answer>, out: &mut Vec<Out>) {
        let outcome = match answer {
            Some(Answer::Cable(info)) if self.cables.is_wanted(end) => {
                out.push(Out::Cable(Box::new(CableReading { end, info })));
                Outcome::Answered
            }
            Some(Answer::Unsupported) => Outcome::Without,
            // The last one came too late: the link is not the same any more.
            Some(Answer::Abilities(_) | Answer::Counters(_) | Answer::Bad(_) | Answer::Cable(_)) => Outcome::Answered,
            None => Outcome::Silent,
        };
        self.cables.handle(now, CableIn::Ended(end, outcome));
    }

    // ---- answers

    fn received(&mut self, now: Time, datagram: &Datagram, out: &mut Vec<Out>) {
        if !Group::is_class(datagram.mad.class()) || !datagram.mad.method().is_response() {
            return;
        }
        let Some(ask) = self.traffic.received(&datagram.mad) else {
            return;
        };
        let guid = self.books.node(ask.node).guid;
        let lid = ask.sent.map_or(Lid::default(), |(lid, _)| lid);
        let answer = ask.read(datagram);
        if let What::Cable { port } = ask.what {
            let is_same = self.books.lid(ask.node, ask.what) == Some(lid);
            let answer = if is_same { answer } else { Answer::Bad(Why::Moved) };
            return self.ended_cable(now, End { node: guid, port }, Some(answer), out);
        }
        if answer == Answer::Bad(Why::Refused) {
            let key = ask.key(guid);
            let from = datagram.address.lid;
            out.push(Out::Event(Event::Stranger { key, lid, from }));
            return self.unanswered(now, ask, Why::Refused);
        }
        if self.books.lid(ask.node, ask.what) != Some(lid) {
            return self.unanswered(now, ask, Why::Moved);
        }
        let at = self.books.node_mut(ask.node);
        at.answered_at = Some(now);
        if at.silence.end() {
            out.push(Out::Event(Event::Answers { node: guid }));
        }
        match (answer, ask.what) {
            (Answer::Abilities(info), _) => {
                let (mask, mask2) = (info.capabilities, info.capabilities2);
                self.learn(now, ask.node, Abilities::Known { mask, mask2 });
            }
            (Answer::Counters(row), What::Port { port, group }) => self.books.read(now, ask, (port, group), &row, out),
            (Answer::Counters(row), What::Sum { group, decides }) => {
                self.read_sum(now, ask, (group, decides), row, out)
            }
            (Answer::Counters(_), What::Abilities) | (Answer::Cable(_), _) | (_, What::Cable { .. }) => {}
            (Answer::Unsupported, What::Port { group, .. }) => self.unsupported(now, ask, group, out),
            (Answer::Unsupported, What::Sum { .. } | What::Abilities) => self.unanswered(now, ask, Why::Refused),
            (Answer::Bad(why), _) => self.unanswered(now, ask, why),
        }
    }

    /// Records the abilities of an agent, and queues the requests that waited for them, in all classes.
    fn learn(&mut self, now: Time, node: u32, abilities: Abilities) {
        self.books.node_mut(node).abilities = abilities;
        for class in self.books.rounds.classes() {
            self.ask_class(now, node, class);
        }
    }

    /// Called when an agent turns out not to have a group: none of its ports is asked for the group again. Instead of
    /// PortCountersExtended, PortCounters are requested.
    fn unsupported(&mut self, now: Time, ask: Ask, group: Group, out: &mut Vec<Out>) {
        let at = self.books.node_mut(ask.node);
        if at.refuse(group) {
            let key = ask.key(at.guid);
            out.push(Out::Event(Event::Unsupported { key }));
        }
        for class in self.books.rounds.classes() {
            if !self.books.pending(ask.node, class, group).is_empty() {
                self.ask_group(now, ask.node, class, group);
            }
        }
    }

    /// Decides by the sum of all ports of a switch whether its ports are asked.
    fn read_sum(&mut self, now: Time, ask: Ask, (group, decides): (Group, bool), row: Row, out: &mut Vec<Out>) {
        let pending = self.books.pending(ask.node, ask.class, group);
        let at = self.books.node_mut(ask.node);
        let watched = at.watched(group);
        let node = at.guid;
        let sum = at.sums.entry(group).or_insert(Sum { last: None, slots: 0 });
        let last = sum.last.replace(row);
        let is_full = |i: usize| row[i] == u64::MAX >> (64 - group.bits(i));
        let has_moved = (0..group.counters())
            .filter(|i| watched >> i & 1 != 0)
            .any(|i| is_full(i) || last.is_none_or(|last| last[i] != row[i]));
        let held = pending.iter().filter(|port| at.is_in_sum(*port, group));
        let own = held.filter(|port| !at.waits_for_peer(ask.class, group, *port));
        let ports: PortSet = own.filter(|_| decides).collect();
        for port in ports.iter() {
            match has_moved {
                true => self.push(ask.node, ask.class, What::Port { port, group }),
                false => {
                    let key = SampleKey { node, port, group };
                    let told = Told {
                        how: How::Unchanged,
                        rtt_us: 0,
                        mask: watched,
                    };
                    self.books.report(now, ask.class, key, told, out);
                }
            }
        }
    }

    // ---- failures

    /// Handles a request without an answer. If the agent answered another request in the meantime, only this port is at
    /// fault.
    fn failed(&mut self, now: Time, ask: Ask, out: &mut Vec<Out>) {
        let (first, longest) = (self.config.back_off, self.config.back_off_max);
        let at = self.books.node_mut(ask.node);
        if let What::Cable { port } = ask.what {
            let end = End { node: at.guid, port };
            return self.ended_cable(now, end, None, out);
        }
        let (lid, sent_at) = ask.sent.unwrap_or_default();
        if let What::Sum { .. } = ask.what {
            return self.unanswered(now, ask, Why::Silent);
        }
        if at.answered_at.is_some_and(|answered| answered >= sent_at) {
            if let What::Port { port, .. } = ask.what {
                at.silent_ports.entry(port).or_default().fail(now, first, longest);
            }
            return self.unanswered(now, ask, Why::Silent);
        }
        let was_silent = at.silence.is_silent();
        let pause = at.silence.fail(now, first, longest);
        if let Some(pause) = pause.filter(|_| !was_silent) {
            let node = at.guid;
            out.push(Out::Event(Event::Silent { node, lid, pause }));
        }
        // After the pause one request shows whether it answers again.
        at.abilities = Abilities::Unknown;
        at.sum = SumSupport::AsSaid;
        self.traffic.clear(ask.node);
        for class in self.books.rounds.classes() {
            self.books.miss_read(ask.node, class, Why::Silent);
        }
    }

    /// Handles a missing or useless answer of an agent that may answer other requests.
    fn unanswered(&mut self, now: Time, ask: Ask, why: Why) {
        match ask.what {
            What::Port { port, group } => self.books.miss(ask.node, ask.class, group, port, why),
            What::Cable { .. } => {}
            // It cannot sum up after all, so each port is asked.
            What::Sum { group, decides } => {
                let at = self.books.node_mut(ask.node);
                at.sum = SumSupport::Doubtful;
                at.sums.remove(&group);
                let pending = self.books.pending(ask.node, ask.class, group);
                for port in pending.iter().filter(|_| decides) {
                    self.push(ask.node, ask.class, What::Port { port, group });
                }
            }
            // An agent without ClassPortInfo is asked only for what every agent has.
            What::Abilities => match why {
                Why::Moved => self.ask_again(ask),
                Why::Silent | Why::BackOff | Why::Refused | Why::Status(_) | Why::Late => {
                    self.learn(now, ask.node, Abilities::Known { mask: 0, mask2: 0 });
                }
            },
        }
    }

    /// Requests the abilities of an agent at its new LID.
    fn ask_again(&mut self, ask: Ask) {
        self.push(ask.node, ask.class, ask.what);
    }
}
