//! Follows the packets of one LID while its entries change: where they may be, and which dependencies a write adds.

use selvedge_fabric::SwitchIdx;
use selvedge_plan::{LostLink, NO_PATH, Tables};
use selvedge_types::{Idx, Lid};
use selvedge_verify::phases::Write;

use super::lanes::Lanes;
use super::net::{NONE, Net, Senders};
use super::order::{Order, Refused, Vertex};

/// The channels and entries of one LID. The arrays are reused for the next LID.
#[derive(Debug)]
pub struct Track<'a> {
    net: &'a Net,
    lanes: &'a Lanes<'a>,
    /// Entries in force, and those that the current step writes (equal to the entries in force where it writes
    /// nothing).
    now: Vec<u8>,
    written: Vec<u8>,
    step: Vec<u32>,
    /// Channels that packets may be on, each with the round that reached it.
    reached: Vec<u32>,
    round: u32,
    log: Vec<u32>,
    open: Vec<u32>,
    lid: Lid,
    senders: Option<Senders>,
    /// Switches that packets to the LID may have entered by a link that has gone down since.
    strays: Vec<u32>,
}

impl<'a> Track<'a> {
    /// Returns a tracker for any LID.
    pub fn new(net: &'a Net, lanes: &'a Lanes<'a>) -> Self {
        Self {
            net,
            lanes,
            now: vec![NO_PATH; net.switches],
            written: vec![NO_PATH; net.switches],
            step: Vec::new(),
            reached: vec![0; net.channels.len()],
            round: 0,
            log: Vec::new(),
            open: Vec::new(),
            lid: Lid::NONE,
            senders: None,
            strays: Vec::new(),
        }
    }

    /// Loads a LID with its entries. Calls `f` with each dependency of the unchanged tables.
    pub fn load(&mut self, tables: &Tables, lid: Lid, senders: Senders, mut f: impl FnMut(Vertex, Vertex)) {
        self.load_until(tables, lid, senders, |from, to| {
            f(from, to);
            true
        });
    }

    /// Does the same as [`Self::load`], but stops when `f` returns false. Returns true if `f` never did.
    pub fn load_until(
        &mut self,
        tables: &Tables,
        lid: Lid,
        senders: Senders,
        f: impl FnMut(Vertex, Vertex) -> bool,
    ) -> bool {
        self.load_with((tables, Vec::new()), lid, senders, f)
    }

    fn load_with(
        &mut self,
        (tables, strays): (&Tables, Vec<u32>),
        lid: Lid,
        senders: Senders,
        mut f: impl FnMut(Vertex, Vertex) -> bool,
    ) -> bool {
        (self.lid, self.senders, self.strays) = (lid, Some(senders), strays);
        self.round += 1;
        self.log.clear();
        self.step.clear();
        for (switch, entry) in self.now.iter_mut().enumerate() {
            *entry = tables.get(SwitchIdx::from_usize(switch), lid);
        }
        self.written.copy_from_slice(&self.now);
        let (net, lanes) = (self.net, self.lanes);
        for switch in 0..net.switches as u32 {
            if !net.sends(switch, senders) && !self.strays.contains(&switch) {
                continue;
            }
            // Follows the entries until a place that packets of another source have reached.
            let mut at = net.way(switch, self.now[switch as usize]);
            let mut before = NONE;
            while at != NONE {
                if before != NONE && !each_turn(net, lanes, lid, before, at, &mut f) {
                    return false;
                }
                if self.reached[at as usize] == self.round {
                    break;
                }
                self.reached[at as usize] = self.round;
                before = at;
                let next = net.channels[at as usize].dst;
                at = net.way(next, self.now[next as usize]);
            }
        }
        true
    }

    /// Loads the entries of one LID: those of `tables`, and those of the steps taken since, which packets in flight may
    /// have used. Returns false if the dependencies of all these entries have a cycle.
    pub fn replay(
        &mut self,
        (tables, lost): (&Tables, &[LostLink]),
        (lid, senders): (Lid, Senders),
        taken: &[Vec<Write>],
        order: &mut Order,
    ) -> bool {
        let net = self.net;
        let led = |from, port| {
            let is_way = |write: &Write| (write.switch, write.egress) == (from, port);
            tables.get(from, lid) == port || taken.iter().flatten().any(is_way)
        };
        let strays = lost
            .iter()
            .filter(|link| link.from.is_none_or(|from| led(from, link.port)));
        let strays = strays.map(|link| link.to.0).collect();
        self.load_with((tables, strays), lid, senders, |from, to| {
            order.insert(net, from, to).is_ok()
        }) && taken.iter().all(|step| {
            let is_taken = |write: &Write| self.write(order, write.switch.0, write.egress).is_ok();
            let all = step.iter().all(is_taken);
            self.settle();
            all
        })
    }

    /// Writes an entry in the current step, if the dependencies that it adds are accepted. Otherwise nothing changes.
    pub fn write(&mut self, order: &mut Order, switch: u32, entry: u8) -> Result<(), Refused> {
        let (mark, reached) = (order.mark(), self.log.len());
        self.written[switch as usize] = entry;
        let result = self.spread(order, switch, entry);
        if result.is_ok() {
            self.step.push(switch);
        } else {
            order.undo(mark);
            for channel in self.log.drain(reached..) {
                self.reached[channel as usize] = 0;
            }
            self.open.clear();
            self.written[switch as usize] = self.now[switch as usize];
        }
        result
    }

    fn spread(&mut self, order: &mut Order, switch: u32, entry: u8) -> Result<(), Refused> {
        let net = self.net;
        let Some(senders) = self.senders else { return Ok(()) };
        let way = net.way(switch, entry);
        if way == NONE {
            return Ok(());
        }
        let mut carries = net.sends(switch, senders) || self.strays.contains(&switch);
        for &channel in net.entering(switch) {
            if self.reached[channel as usize] == self.round {
                self.turn(order, channel, way)?;
                carries = true;
            }
        }
        if carries {
            self.reach(way);
        }
        while let Some(channel) = self.open.pop() {
            let next = net.channels[channel as usize].dst;
            let (old, new) = (self.now[next as usize], self.written[next as usize]);
            let entries = [Some(old), (new != old).then_some(new)];
            for way in entries.into_iter().flatten().map(|entry| net.way(next, entry)) {
                if way != NONE {
                    self.turn(order, channel, way)?;
                    self.reach(way);
                }
            }
        }
        Ok(())
    }

    fn reach(&mut self, channel: u32) {
        let known = &mut self.reached[channel as usize];
        if *known != self.round {
            *known = self.round;
            self.log.push(channel);
            self.open.push(channel);
        }
    }

    fn turn(&self, order: &mut Order, from: u32, to: u32) -> Result<(), Refused> {
        let mut result = Ok(());
        each_turn(self.net, self.lanes, self.lid, from, to, &mut |from, to| {
            result = order.insert(self.net, from, to);
            result.is_ok()
        });
        result
    }

    /// Ends the step: it is acknowledged, so its entries are in force.
    pub fn settle(&mut self) {
        for switch in self.step.drain(..) {
            self.now[switch as usize] = self.written[switch as usize];
        }
    }
}

/// Calls `f` with a turn on every lane that packets to the LID may have, until `f` returns false.
fn each_turn(
    net: &Net,
    lanes: &Lanes<'_>,
    lid: Lid,
    from: u32,
    to: u32,
    f: &mut impl FnMut(Vertex, Vertex) -> bool,
) -> bool {
    let channels = net.channels.len() as u32;
    for set in lanes.to(lid) {
        for held in set {
            for wanted in set {
                if !f(held * channels + from, wanted * channels + to) {
                    return false;
                }
            }
        }
    }
    true
}
