//! Channel dependencies: of present entries, and of old entries with packets still in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_plan::BLOCK_LIDS;
use selvedge_sim::Time;
use selvedge_types::Lid;

use super::channels::{Channels, Circle};
use super::entries::Entries;
use super::layout::{Layout, Switches};
use super::links::{Far, Relinked};
use crate::checkers::lifetime::lifetime;
use crate::checkers::rules::Rule;

/// A block of a switch, by position.
pub(super) type Place = (u8, usize);

/// Packets that may wait for a channel although no current entry leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Haunt {
    /// The port at which the channel begins in which the packets wait.
    pub at: PortIdx,
    /// When the last entry that forwarded the packets changed.
    pub since: Time,
    /// The LID of the packets.
    pub lid: Lid,
}

/// Blocks with contents other than managers believe.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubts {
    /// Blocks that switches acknowledged and do not hold.
    pub liars: BTreeSet<Place>,
    /// Blocks with contents that no manager knows, and the rule for each.
    pub strays: BTreeMap<Place, Rule>,
}

/// Channels, and the entries that made their ghosts.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    channels: Channels,
    doubts: Doubts,
    /// For each ghost made by an entry of a lying switch: the time at which the ghost began.
    of_liars: Vec<Time>,
    /// For each ghost made by an entry of an unknown block: the time at which the ghost began, and why the block is
    /// unknown.
    of_strays: Vec<(Time, Rule)>,
    /// When dependencies of former entries become ghosts; `None` if they do not.
    since: Option<Time>,
    /// How long packets may wait in each switch, by position.
    lifetimes: Vec<Duration>,
}

impl Waits {
    pub fn new(layout: &Layout) -> Self {
        Self {
            channels: Channels::new(layout.switches().len(), layout.stride()),
            doubts: Doubts::default(),
            of_liars: Vec::new(),
            of_strays: Vec::new(),
            since: None,
            lifetimes: Vec::new(),
        }
    }

    /// Sets the blocks with doubtful contents from now on.
    pub fn set_doubts(&mut self, doubts: Doubts) {
        self.doubts = doubts;
    }

    /// Begins a change of entries. If links have changed as well, no ghosts begin, because packets that waited for a
    /// link that went down are dropped.
    pub fn begin(&mut self, now: Time, layout: &Layout, chassis: &Chassis, have_links_changed: bool) {
        self.since = (!have_links_changed).then_some(now);
        let lifetimes = layout.switches().iter().map(|&node| lifetime(chassis, node));
        self.lifetimes.clear();
        self.lifetimes.extend(lifetimes);
    }

    /// Called when a port has another far end than before; `before`: all far ends before.
    pub fn relink(&mut self, layout: &Layout, relinked: Relinked, before: &[Far]) {
        if relinked.is_discarded {
            let (switch, port) = (relinked.port / layout.stride(), relinked.port % layout.stride());
            let enters = |far: &Far| matches!(far, Far::Switch(entered, _) if usize::from(*entered) == switch);
            for (channel, _) in before.iter().enumerate().filter(|(_, far)| enters(far)) {
                self.channels.forget(channel, port);
            }
        }
        if relinked.is_elsewhere {
            self.channels.forget_all(relinked.port);
        }
    }

    /// Sets the channel dependencies of packets to one LID. `passed` is the set of switches that these packets pass.
    /// `before` returns, for each switch, where its former entry leads.
    pub fn depend(&mut self, entries: &Entries, lid: Lid, passed: Switches, before: impl Fn(usize) -> Far) {
        let (count, stride) = (entries.layout.switches().len(), entries.layout.stride());
        // Packets to a LID of no port are dropped where they are.
        let since = self.since.filter(|_| passed != 0);
        for at in 0..count {
            let dependency = match entries.next(at, lid) {
                Far::Switch(next, ingress) if passed & 1 << at != 0 => {
                    let out = entries.entry(next.into(), lid);
                    let goes_on = matches!(entries.next(next.into(), lid), Far::Switch(..)) && out != ingress;
                    let from = at * stride + usize::from(entries.entry(at, lid));
                    goes_on.then_some((from * stride + usize::from(out)) as u32)
                }
                _ => None,
            };
            let holder = match before(at) {
                Far::Switch(holder, _) => Some(holder),
                Far::Dead | Far::Host(_) => None,
            };
            let ghost = since
                .zip(holder)
                .map(|(since, holder)| (since, since + self.lifetimes[usize::from(holder)]));
            let is_ghost = self.channels.set(lid.index() * count + at, dependency, ghost);
            if let Some(since) = since.filter(|_| is_ghost) {
                self.note_makers(since, [u8::try_from(at).ok(), holder], lid);
            }
        }
    }

    /// Records whether the entries that made a ghost were doubtful.
    fn note_makers(&mut self, since: Time, ends: [Option<u8>; 2], lid: Lid) {
        let block = lid.index() / BLOCK_LIDS;
        let mut ends = ends.iter().flatten();
        if ends.clone().any(|&at| self.doubts.liars.contains(&(at, block))) {
            self.of_liars.push(since);
        }
        let rule = ends.find_map(|&at| self.doubts.strays.get(&(at, block)));
        self.of_strays.extend(rule.map(|rule| (since, *rule)));
    }

    /// Returns a cycle that a new dependency closed: its ports, and the ghosts in it.
    pub fn close(&mut self, now: Time, entries: &Entries, chassis: &Chassis) -> Option<(Vec<PortIdx>, Vec<Haunt>)> {
        let circle = self.channels.close(now, |channel| entries.links.end(channel))?;
        let layout = &entries.layout;
        let haunts = circle.ghosts.iter().filter_map(|ghost| {
            Some(Haunt {
                at: layout.port(chassis, ghost.channel as usize)?,
                since: ghost.since,
                lid: Lid(u16::try_from(ghost.place / layout.switches().len()).ok()?),
            })
        });
        Some((ports_of(layout, chassis, &circle), haunts.collect()))
    }

    /// Returns the ports of a cycle of channels that begins at one of these switches, if there is one.
    pub fn any_cycle(&mut self, entries: &Entries, chassis: &Chassis, switches: Switches) -> Option<Vec<PortIdx>> {
        let layout = &entries.layout;
        let is_here = |channel: u32| switches & 1 << (channel as usize / layout.stride()) != 0;
        let end_here = |channel| entries.links.end(channel).filter(|_| is_here(channel));
        let cycle = self.channels.any_cycle(end_here)?;
        Some(ports_of(layout, chassis, &cycle))
    }

    /// True if an entry of a lying switch made a ghost that began at this time.
    pub fn is_of_liar(&self, at: Time) -> bool {
        self.of_liars.contains(&at)
    }

    /// Returns why no manager knew the entries that made the ghosts which began at these times.
    pub fn stray_at(&self, since: &[Time]) -> Option<Rule> {
        let mut of_strays = self.of_strays.iter().filter(|(at, _)| since.contains(at));
        of_strays.next().map(|(_, rule)| *rule)
    }
}

fn ports_of(layout: &Layout, chassis: &Chassis, circle: &Circle) -> Vec<PortIdx> {
    let channels = circle.channels.iter();
    channels
        .filter_map(|&channel| layout.port(chassis, channel as usize))
        .collect()
}
