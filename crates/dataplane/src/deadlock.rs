//! Detects packets that wait for each other in a cycle.
//!
//! A buffer (the lane of a switch's input) can make progress in these cases: it has no waiting packet, or the first
//! packet of one of its queues has credits (or gets them soon), leads to a host, or leads to a buffer that can make
//! progress. All other buffers are in a deadlock. Following one of their packets leads around a cycle.

use core::fmt::Debug;

use serde::{Deserialize, Serialize};

use crate::layout::{CONTROL, NO_PORT};
use crate::packet::NIL;
use crate::settings::Queueing;
use crate::subnet::{Subnet, kind};
use crate::units::PS_PER_NS;

/// Number of checks during a simulation.
const LOOKS: u64 = 64;

/// Packets that wait for each other for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlock {
    /// Time of detection; the deadlock began at most 1/64 of the simulation earlier.
    pub at_ns: u64,
    /// Number of input buffers that will never send again.
    pub buffers: u64,
    /// One cycle of packets that wait for each other: their outputs, each with its lane, in the form `"switch"[port] VL
    /// 0`.
    pub cycle: Vec<String>,
}

impl<H: Copy + Debug> Subnet<H> {
    /// Schedules the next check, unless packet lifetimes would end any wait, or the end is not known.
    pub(crate) fn look_again(&mut self) {
        if self.hoq.is_none()
            && self.switch_life.is_none()
            && let Some(end) = self.end
        {
            let at = self.now + (end / LOOKS).max(PS_PER_NS);
            if at <= end {
                self.schedule(at, CONTROL, kind::LOOK, 0);
            }
        }
    }

    /// Ends the simulation if some packets can never move again.
    pub(crate) fn look_for_deadlock(&mut self) {
        self.deadlock = self.deadlocked();
        self.look_again();
    }

    /// Returns false if no packet in a switch, or on its way through it, waits for a lane without enough credits. Most
    /// checks end here.
    fn some_wait(&self) -> bool {
        let vls = usize::from(self.settings.vls);
        let least = self.settings.packet_blocks();
        let is_short = |lane: usize| u32::from(self.lanes[lane].all_credits(&self.far[lane])) < least;
        let first_host = self.layout.hosts.first().map_or(0, |host| host.port as usize);
        let wanted = self.ports[..first_host]
            .iter()
            .enumerate()
            .filter(|(_, port)| port.wanted != 0);
        wanted.flat_map(|(port, _)| port * vls..(port + 1) * vls).any(is_short)
    }

    pub(crate) fn deadlocked(&self) -> Option<Deadlock> {
        if !self.some_wait() {
            return None;
        }
        let waits = self.waits();
        let mut goes_on = vec![true; self.lanes.len()];
        for &(buffer, _) in &waits {
            goes_on[buffer] = false;
        }
        let mut changed = true;
        while changed {
            changed = false;
            for &(buffer, output) in &waits {
                if !goes_on[buffer] && self.next_buffer(output).is_none_or(|next| goes_on[next]) {
                    goes_on[buffer] = true;
                    changed = true;
                }
            }
        }
        let stuck: Vec<_> = waits.iter().filter(|&&(buffer, _)| !goes_on[buffer]).collect();
        let mut at = stuck.first()?.0;
        let mut way: Vec<(usize, usize)> = Vec::new();
        // Each buffer on the path is stuck, so it has a first packet that leads to another one.
        while way.iter().all(|&(buffer, _)| buffer != at) {
            let &&(_, output) = stuck.iter().find(|&&&(buffer, _)| buffer == at)?;
            way.push((at, output));
            at = self.next_buffer(output)?;
        }
        let circle = way.iter().skip_while(|&&(buffer, _)| buffer != at);
        let mut buffers: Vec<usize> = stuck.iter().map(|&&(buffer, _)| buffer).collect();
        buffers.sort_unstable();
        buffers.dedup();
        Some(Deadlock {
            at_ns: self.now / PS_PER_NS,
            buffers: buffers.len() as u64,
            cycle: circle.map(|&(_, output)| self.lane_name(output)).collect(),
        })
    }

    /// Returns pairs of a buffer and an output lane: the buffer cannot make progress unless this lane gets credits. If
    /// the first packet of a queue has no credits, there is a pair for each buffer that holds packets of this queue.
    /// For every other queue, its buffers are paired with the lane of an output without a cable, which never blocks.
    fn waits(&self) -> Vec<(usize, usize)> {
        let vls = usize::from(self.settings.vls);
        let mut waits = Vec::new();
        for (number, switch) in self.layout.switches.iter().enumerate() {
            let first = switch.first_port as usize;
            let queues = match self.settings.queueing {
                Queueing::Fifo => first * vls..(first + usize::from(switch.ports) + 1) * vls,
                Queueing::Voq => {
                    let pairs = usize::from(switch.ports) * usize::from(switch.ports);
                    let start = self.lanes.len() + switch.first_voq as usize * vls;
                    start..start + pairs * vls
                }
            };
            for place in queues {
                let head = self.queue::<false>(place).head;
                let Some(output) = self.waits_for(number, head) else {
                    continue;
                };
                let mut index = head;
                while index != NIL {
                    let packet = self.packets.get(index);
                    let buffer = (first + usize::from(packet.input)) * vls + usize::from(packet.vl);
                    if waits.last() != Some(&(buffer, output)) {
                        waits.push((buffer, output));
                    }
                    index = packet.next;
                }
            }
        }
        waits
    }

    /// Returns the output lane that the first packet of a queue waits for. If it does not wait for credits, returns
    /// index 0, which has no cable.
    fn waits_for(&self, switch: usize, head: u32) -> Option<usize> {
        if head == NIL {
            return None;
        }
        let packet = self.packets.get(head);
        let out = self.layout.switches[switch].first_port as usize + usize::from(packet.output);
        let lane = out * usize::from(self.settings.vls) + usize::from(packet.output_vl);
        let free = self.credits_of(lane);
        let waits = free < u32::from(packet.blocks) && self.ports[out].up;
        Some(if waits { lane } else { 0 })
    }

    /// Returns the buffer to which an output lane leads; `None` if it leads to a host, or nowhere.
    fn next_buffer(&self, lane: usize) -> Option<usize> {
        let vls = usize::from(self.settings.vls);
        let port = &self.ports[lane / vls];
        let leads_on = port.peer != NO_PORT && !port.to_host;
        leads_on.then(|| port.peer as usize * vls + lane % vls)
    }

    /// Returns the name of a lane for output.
    pub(crate) fn lane_name(&self, lane: usize) -> String {
        let vls = usize::from(self.settings.vls);
        let at = self.layout.refs[lane / vls];
        format!("{} VL {}", self.fabric.port_name(at), lane % vls)
    }
}
