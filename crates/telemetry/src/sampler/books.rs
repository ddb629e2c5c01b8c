//! The books of a sampler: the totals of all ports, and the ports that still have no sample in the slots in progress.
//!
//! The books know nothing of requests: the sampler sends them, and records the answers here.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_sim::Time;
use selvedge_types::{Guid, Lid};

use super::ask::{Ask, What};
use super::choice::{Choice, Ctx};
use super::node::{Held, Node, Step};
use super::rounds::Rounds;
use crate::account::{Account, Taken};
use crate::clock::{Clock, Slot};
use crate::config::{Config, SamplingClass};
use crate::group::{Group, Row, WIDEST};
use crate::inventory::{End, Inventory};
use crate::io::{How, Out, Sample, SampleKey, Why};
use crate::{Assignment, Event, Metric, PortSet};

/// The data of a sample besides its totals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// How the values were obtained.
    pub how: How,
    /// Round trip in microseconds.
    pub rtt_us: u32,
    /// Counters that may have a value.
    pub mask: u32,
}

/// The books of a sampler.
#[derive(Debug)]
pub(super) struct Books {
    pub clock: Clock,
    pub inventory: Arc<Inventory>,
    pub assignment: Assignment,
    pub rounds: Rounds,
    nodes: Vec<Node>,
    by_guid: BTreeMap<Guid, u32>,
    agent: u32,
}

impl Books {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            clock: Clock::default(),
            inventory: Arc::default(),
            assignment: Assignment::All,
            rounds: Rounds::new(config),
            nodes: Vec::new(),
            by_guid: BTreeMap::new(),
            agent: config.agent,
        }
    }

    /// Returns the index of a node. A new node gets an index.
    pub(super) fn index(&mut self, guid: Guid) -> u32 {
        let next = self.nodes.len();
        // A fabric has fewer than 2^32 nodes, because each has a LID or a port with one.
        let index = *self.by_guid.entry(guid).or_insert(next as u32);
        if index as usize == next {
            self.nodes.push(Node::new(guid));
        }
        index
    }

    /// Returns all indices.
    pub(super) fn nodes(&self) -> impl Iterator<Item = u32> + use<> {
        (0..self.nodes.len()).map(|node| node as u32)
    }

    pub(super) fn node(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    pub(super) fn node_mut(&mut self, node: u32) -> &mut Node {
        &mut self.nodes[node as usize]
    }

    /// Continues the totals of a sample.
    pub(super) fn resume(&mut self, sample: &Sample) {
        self.rounds.resume(sample.class, sample.slot);
        let node = self.index(sample.key.node);
        let account = Account::resumed(sample.totals, sample.raw, sample.resets, sample.known);
        let place = (sample.key.port, sample.key.group);
        let step = match sample.how {
            How::Read | How::Derived => Some(Step {
                slot: (sample.class, sample.slot),
                known_at: None,
                is_read: sample.how == How::Read,
            }),
            How::Unchanged | How::Down => None,
        };
        let held = Held {
            account,
            step,
            resumed_at: self.rounds.begin_of(sample.class, sample.slot),
            ..Held::default()
        };
        self.node_mut(node).held.insert(place, held);
    }

    /// Replaces the inventory. Ports that are not up in the new one get no sample in the slots in progress.
    pub(super) fn take_inventory(&mut self, inventory: Arc<Inventory>) {
        for node in self.nodes() {
            let guid = self.node(node).guid;
            let entry = inventory.nodes.get(&guid);
            let is_up = |port: u8| {
                entry
                    .and_then(|entry| entry.port(port))
                    .is_some_and(|port| port.is_up())
            };
            for ((class, group), ports) in self.node(node).pending.clone() {
                for port in ports.iter().filter(|port| !is_up(*port)) {
                    self.miss(node, class, group, port, Why::Moved);
                }
            }
            self.node_mut(node).is_present = entry.is_some();
        }
        for guid in inventory.nodes.keys() {
            self.index(*guid);
        }
        self.inventory = inventory;
    }

    /// Opens the slot of a class at a node: reports the ports that are down, and records which ports need a sample.
    pub(super) fn open(&mut self, now: Time, (class, of): (u8, &SamplingClass), node: u32, out: &mut Vec<Out>) {
        let guid = self.node(node).guid;
        for group in of.groups.iter().copied() {
            let choice = self.choose(now, of, guid, group);
            for port in choice.down.iter() {
                self.report_down(
                    now,
                    class,
                    SampleKey {
                        node: guid,
                        port,
                        group,
                    },
                    out,
                );
            }
            let pending = choice.read.union(choice.derived);
            if pending.is_empty() {
                continue;
            }
            if let Some(round) = self.rounds.current(class) {
                round.open += pending.len();
            }
            let at = self.node_mut(node);
            at.pending.insert((class, group), pending);
            if !choice.derived.is_empty() {
                at.derived.insert((class, group), choice.derived);
            }
        }
    }

    fn choose(&self, now: Time, class: &SamplingClass, guid: Guid, group: Group) -> Choice {
        let Some(entry) = self.inventory.nodes.get(&guid) else {
            return Choice::default();
        };
        let node_of = |guid: Guid| self.by_guid.get(&guid).map(|node| self.node(*node));
        let ctx = Ctx {
            inventory: &self.inventory,
            assignment: &self.assignment,
            class,
            is_silent: &|guid| node_of(guid).is_some_and(|node| node.silence.is_silent()),
            had_error: &|end, span| node_of(end.node).is_some_and(|node| node.had_error(end.port, now, span)),
        };
        Choice::of(&ctx, guid, entry, group)
    }

    /// Records a reading, and hands out the samples that follow from it.
    pub(super) fn read(&mut self, now: Time, ask: Ask, (port, group): (u8, Group), row: &Row, out: &mut Vec<Out>) {
        let node = self.node(ask.node).guid;
        let key = SampleKey { node, port, group };
        let most = self.most(now, ask.node, key);
        let at = self.node_mut(ask.node);
        at.answered_port(port, group);
        let known = at.known(group);
        let held = at.held.entry((port, group)).or_default();
        let step = held.step.take().filter(|_| held.account.was_read());
        let before = *held.account.totals();
        let Ok(taken) = held.account.take(group, row, known, most) else {
            out.push(Out::Event(Event::Implausible { key }));
            return self.miss(ask.node, ask.class, group, port, Why::Refused);
        };
        held.read_at = Some(now);
        let totals = held.account.totals();
        // By totals, because they have what was derived since the last reading.
        let grown: Row = core::array::from_fn(|i| totals[i] - before[i]);
        self.note(now, ask.node, key, &taken, out);
        if self.rounds.slot(ask.class).is_none_or(|(slot, _)| slot != ask.slot) {
            return;
        }
        let rtt = ask.sent.map_or(Duration::ZERO, |(_, at)| now.since(at));
        let told = Told {
            how: How::Read,
            rtt_us: micros(rtt),
            mask: u32::MAX,
        };
        let slot = (ask.class, ask.slot);
        let read = Step {
            slot,
            known_at: Some(now),
            is_read: true,
        };
        self.set_step(ask.node, key, read);
        self.report(now, ask.class, key, told, out);
        self.derive(now, slot, (key, step), &grown, out);
    }

    fn set_step(&mut self, node: u32, key: SampleKey, step: Step) {
        if let Some(held) = self.node_mut(node).held.get_mut(&(key.port, key.group)) {
            held.step = Some(step);
        }
    }

    /// Returns the largest number of words that the port can have sent since its last reading: twice what its rate
    /// allows, plus one second, because readings have no exact time.
    fn most(&self, now: Time, node: u32, key: SampleKey) -> Option<u64> {
        let held = self.node(node).held.get(&(key.port, key.group))?;
        let since_start = held.read_at.or(held.derived_at).map(|at| now.since(at));
        let resumed = held.resumed_at.zip(self.clock.wall(now));
        let since_restart = resumed.map(|(at, wall)| Duration::from_nanos(wall.0.saturating_sub(at.0)));
        let span = since_start.or(since_restart)? + Duration::from_secs(1);
        let end = End {
            node: key.node,
            port: key.port,
        };
        let rate = self.inventory.port(end)?.rate?;
        let words_per_s = u128::from(rate.mbit_per_s()) * 1_000_000 / 32;
        u64::try_from(2 * words_per_s * span.as_nanos() / 1_000_000_000).ok()
    }

    /// Notes errors, resets and full counters of a reading.
    fn note(&mut self, now: Time, node: u32, key: SampleKey, taken: &Taken, out: &mut Vec<Out>) {
        let errors = key.group.mask_of(Metric::is_error);
        let grown = taken.grown.iter().enumerate();
        if grown.into_iter().any(|(i, grown)| errors >> i & 1 != 0 && *grown > 0) {
            self.node_mut(node).error_at.insert(key.port, now);
        }
        let event = |counters, event: Event| (counters != 0).then_some(Out::Event(event));
        // What PortCountersExtended counts too misses nothing.
        let wide = match key.group {
            Group::Base => self.node(node).held.get(&(key.port, Group::Extended)),
            _ => None,
        };
        let wide = wide.map_or(0, |held| held.account.known());
        let is_wide = |metric: Metric| wide >> metric as u32 & 1 != 0;
        let (reset, full) = (taken.reset, taken.filled & !key.group.mask_of(is_wide));
        out.extend(event(reset, Event::Reset { key, counters: reset }));
        out.extend(event(full, Event::Full { key, counters: full }));
    }

    /// Gives the port at the other end its sample, if it waits for one. `key` is the port that was read, with its
    /// previous step; `grown` is its growth since then. If the two ports did not have their last values from the same
    /// step, it is unknown how much of that growth the other end already has. Then nothing is added, and the other
    /// end's next own reading adds the difference.
    fn derive(
        &mut self,
        now: Time,
        (class, slot): (u8, Slot),
        (key, step): (SampleKey, Option<Step>),
        grown: &Row,
        out: &mut Vec<Out>,
    ) {
        let group = key.group;
        let Some((node, peer)) = self.peer(key.node, key.port) else {
            return;
        };
        if !self.node_mut(node).waits_for_peer(class, group, peer.port) {
            // The ends have different attributes: the sample is in the group of the end that was read.
            let other = match group {
                Group::Base => Group::Extended,
                _ => Group::Base,
            };
            if !self.node_mut(node).move_port(class, peer.port, other, group) {
                return;
            }
        }
        let read = self
            .by_guid
            .get(&key.node)
            .and_then(|node| self.node(*node).held.get(&(key.port, group)));
        let Some((totals, known)) = read.map(|held| (*held.account.totals(), held.account.known())) else {
            return;
        };
        let mask = mirror_mask(group, known);
        let held = self.node_mut(node).held.entry((peer.port, group)).or_default();
        let both = step.filter(|step| step.is_read).zip(held.step);
        let is_in_step = both.is_some_and(|(read, derived)| read.is_with(derived));
        let grown = if is_in_step { mirror(group, grown) } else { [0; WIDEST] };
        held.account.derive(&grown, &mirror(group, &totals), mask);
        held.derived_at = Some(now);
        held.step = Some(Step {
            slot: (class, slot),
            known_at: Some(now),
            is_read: false,
        });
        let key = SampleKey {
            node: peer.node,
            port: peer.port,
            group,
        };
        let told = Told {
            how: How::Derived,
            rtt_us: 0,
            mask,
        };
        self.report(now, class, key, told, out);
    }

    /// Hands out the sample of a port, if the port waits for one.
    pub(super) fn report(&mut self, now: Time, class: u8, key: SampleKey, told: Told, out: &mut Vec<Out>) {
        let Some(node) = self.by_guid.get(&key.node).copied() else {
            return;
        };
        if !self.node_mut(node).settle(class, key.group, key.port) {
            return;
        }
        let sample = self.sample(now, class, key, told);
        let Some(round) = self.rounds.current(class) else {
            return;
        };
        round.open -= 1;
        round.count(told.how);
        out.extend(sample.map(|sample| Out::Sample(Box::new(sample))));
    }

    fn report_down(&mut self, now: Time, class: u8, key: SampleKey, out: &mut Vec<Out>) {
        let told = Told {
            how: How::Down,
            rtt_us: 0,
            mask: u32::MAX,
        };
        let sample = self.sample(now, class, key, told);
        if let Some(round) = self.rounds.current(class) {
            round.count(How::Down);
        }
        out.extend(sample.map(|sample| Out::Sample(Box::new(sample))));
    }

    fn sample(&self, now: Time, class: u8, key: SampleKey, told: Told) -> Option<Sample> {
        let (slot, begin) = self.rounds.slot(class)?;
        let node = self.node(*self.by_guid.get(&key.node)?);
        let fresh = Held::default();
        let account = &node.held.get(&(key.port, key.group)).unwrap_or(&fresh).account;
        let wall = self.clock.wall(now)?;
        Some(Sample {
            key,
            class,
            slot,
            offset_us: micros(Duration::from_nanos(wall.0.saturating_sub(begin.0))),
            rtt_us: told.rtt_us,
            agent: self.agent,
            how: told.how,
            totals: *account.totals(),
            raw: account.raw().copied(),
            known: account.known() & told.mask,
            full: account.full() & told.mask,
            resets: account.resets(),
        })
    }

    /// Records that a port has no sample in the slot of a class, and that the port at the other end of its link has
    /// none either, if it waits for this one.
    pub(super) fn miss(&mut self, node: u32, class: u8, group: Group, port: u8, why: Why) {
        let guid = self.node(node).guid;
        self.node_mut(node).unread.entry(group).or_default().insert(port);
        if self.node_mut(node).settle(class, group, port) {
            let key = SampleKey {
                node: guid,
                port,
                group,
            };
            self.rounds.miss(class, key, why);
        }
        let Some((node, peer)) = self.peer(guid, port) else {
            return;
        };
        for group in [Group::Base, Group::Extended] {
            let at = self.node_mut(node);
            if at.waits_for_peer(class, group, peer.port) && at.settle(class, group, peer.port) {
                let key = SampleKey {
                    node: peer.node,
                    port: peer.port,
                    group,
                };
                self.rounds.miss(class, key, why);
            }
        }
    }

    /// Notes that no port of a node and group has a sample; returns how many.
    pub(super) fn miss_group(&mut self, node: u32, class: u8, group: Group, why: Why) -> u32 {
        let ports = self.pending(node, class, group);
        ports.iter().for_each(|port| self.miss(node, class, group, port, why));
        ports.len()
    }

    /// Records that those ports of a node that are read themselves have no sample in the slot of a class.
    pub(super) fn miss_read(&mut self, node: u32, class: u8, why: Why) {
        for (group, ports) in self.node(node).read_in(class) {
            ports.iter().for_each(|port| self.miss(node, class, group, port, why));
        }
    }

    /// Removes ports that wait for a sample, because their agent does not have the group. Also removes the ports at the
    /// other ends of their links that wait for them.
    pub(super) fn forget(&mut self, node: u32, class: u8, group: Group, ports: PortSet) {
        let guid = self.node(node).guid;
        for port in ports.iter() {
            let peer = self
                .peer(guid, port)
                .filter(|(at, peer)| self.node(*at).waits_for_peer(class, group, peer.port));
            for (at, port) in [Some((node, port)), peer.map(|(at, peer)| (at, peer.port))]
                .into_iter()
                .flatten()
            {
                if self.node_mut(at).settle(class, group, port)
                    && let Some(round) = self.rounds.current(class)
                {
                    round.open -= 1;
                }
            }
        }
    }

    /// Returns the ports of a node without a sample in the slot of a class.
    pub(super) fn pending(&self, node: u32, class: u8, group: Group) -> PortSet {
        self.node(node)
            .pending
            .get(&(class, group))
            .copied()
            .unwrap_or_default()
    }

    fn peer(&self, node: Guid, port: u8) -> Option<(u32, End)> {
        let peer = self.inventory.port(End { node, port })?.peer?;
        Some((*self.by_guid.get(&peer.node)?, peer))
    }

    /// Returns the LID of the agent to ask: that of the port or, for the node as a whole, that of any port that is up.
    pub(super) fn lid(&self, node: u32, what: What) -> Option<Lid> {
        let entry = self.inventory.nodes.get(&self.node(node).guid)?;
        let port = match what {
            What::Port { port, .. } | What::Cable { port } => entry.port(port)?,
            What::Abilities | What::Sum { .. } => entry.ports.iter().find(|port| port.is_up())?,
        };
        port.is_up().then_some(port.lid)
    }

    /// True if the answer to a request can still give a port its sample.
    pub(super) fn is_wanted(&self, ask: &Ask) -> bool {
        match ask.what {
            What::Abilities | What::Cable { .. } => true,
            What::Sum { group, .. } => !self.pending(ask.node, ask.class, group).is_empty(),
            What::Port { port, group } => self.pending(ask.node, ask.class, group).contains(port),
        }
    }
}

/// Returns the counts of the other end of the link, for the counters that both ends count.
fn mirror(group: Group, row: &Row) -> Row {
    core::array::from_fn(|i| mirror_place(group, i).map_or(0, |place| row[place]))
}

fn mirror_mask(group: Group, known: u32) -> u32 {
    let places = (0..group.counters()).filter(|i| mirror_place(group, *i).is_some_and(|place| known >> place & 1 != 0));
    places.fold(0, |mask, i| mask | 1 << i)
}

fn mirror_place(group: Group, counter: usize) -> Option<usize> {
    group.place(group.metric(counter)?.mirror()?)
}

fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}
