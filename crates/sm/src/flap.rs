//! Flap quarantine: links that go down again and again are left out of routing for a while, even while they are up.
//! Otherwise traffic would be moved twice each time such a link fails and returns.
//!
//! A repair counts the links that it finds lost ([`In::Lost`]). Inventories and probes leave out the links that
//! [`Flaps::quarantined`] returns. The timer `Release` ends the quarantine and has the switch of the link probed. A
//! sweep that the operator requests ends it too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::Policy;
use selvedge_sim::Time;
use selvedge_types::{Guid, PortNum};

use crate::event::Event;

/// A port by name.
type End = (Guid, PortNum);

/// A link by its two ends, the lower first. One end is not enough: if the cable at this end is replaced, the new link
/// may lead to a host, which has no other route, or to the manager itself.
type Key = (End, End);

/// Links between switches that went down recently, and those that are quarantined.
#[derive(Clone, Debug, Default)]
pub struct Flaps {
    links: BTreeMap<Key, Record>,
}

#[derive(Clone, Debug, Default)]
struct Record {
    /// The times at which the link went down, inside the window.
    downs: VecDeque<Time>,
    /// When the quarantine of the link ends.
    until: Option<Time>,
}

/// The state of other sub-machines that this one may read.
#[derive(Debug)]
pub struct Ctx<'a> {
    /// The time of the input.
    pub now: Time,
    /// The operator's policy.
    pub policy: &'a Policy,
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In {
    /// Links of a fabric went down. The set has one or both ports of each.
    Lost(Arc<Fabric>, BTreeSet<PortRef>),
    /// The time of [`Flaps::due`] has come.
    ReleaseDue,
    /// The operator wants to end all quarantines.
    Cleared,
}

/// The effects that the outer machine carries out.
#[derive(Debug)]
pub enum Effect {
    /// Report this event.
    Event(Event),
    /// Probe a switch again: one of its links is no longer quarantined.
    Probe(Guid),
}

impl Flaps {
    /// Handles one input and appends its effects.
    pub fn handle(&mut self, ctx: &Ctx<'_>, input: In, effects: &mut Vec<Effect>) {
        match input {
            In::Lost(fabric, ports) => {
                for &at in &ports {
                    let far = fabric.peer(at);
                    // Where both ends were seen, it is one link all the same.
                    if !far.is_some_and(|far| far < at && ports.contains(&far)) {
                        effects.extend(self.down(ctx, &fabric, at).map(Effect::Event));
                    }
                }
            }
            In::ReleaseDue => effects.extend(self.release(ctx.now).iter().map(|&((guid, _), _)| Effect::Probe(guid))),
            In::Cleared => self.links.clear(),
        }
    }

    /// Returns when the next link is released.
    pub fn due(&self) -> Option<Time> {
        self.links.values().filter_map(|record| record.until).min()
    }

    /// Returns an end of every link that went down lately and still has the same two ends.
    pub fn lately_down(&self, fabric: &Fabric) -> Vec<PortRef> {
        let ends = self.links.keys().filter_map(|&((guid, port), _)| {
            let node = fabric.find(guid)?;
            Some(PortRef { node, port })
        });
        ends.collect()
    }

    /// Returns both ends of every quarantined link that still has the same two ends.
    pub fn quarantined(&self, fabric: &Fabric) -> BTreeSet<PortRef> {
        let links = self.links.iter().filter(|(_, record)| record.until.is_some());
        let find = |(guid, port): End| fabric.find(guid).map(|node| PortRef { node, port });
        links
            .filter_map(|(&(low, high), _)| Some([find(low)?, find(high)?]))
            .filter(|&[low, high]| fabric.peer(low) == Some(high))
            .flatten()
            .collect()
    }

    /// Counts that the link of `at` went down. Returns an event if it went down too often.
    fn down(&mut self, ctx: &Ctx<'_>, fabric: &Fabric, at: PortRef) -> Option<Event> {
        let (now, policy) = (ctx.now, ctx.policy);
        let key = key(fabric, at).filter(|_| policy.flap_downs > 0)?;
        self.forget(now, policy);
        let record = self.links.entry(key).or_default();
        record.downs.push_back(now);
        let downs = record.downs.len();
        if downs < usize::from(policy.flap_downs) {
            return None;
        }
        let is_new = record.until.replace(now + seconds(policy.flap_hold_s)).is_none();
        is_new.then(|| Event::LinkLeftOut {
            what: fabric.link_name_of(at),
            downs,
            window_s: policy.flap_window_s,
            hold_s: policy.flap_hold_s,
        })
    }

    /// Drops entries outside the window, so that memory is bounded by the events of one window.
    fn forget(&mut self, now: Time, policy: &Policy) {
        let window = seconds(policy.flap_window_s);
        self.links.retain(|_, record| {
            while record.downs.front().is_some_and(|&at| now.since(at) > window) {
                record.downs.pop_front();
            }
            record.until.is_some() || !record.downs.is_empty()
        });
    }

    /// Removes the links with expired quarantines, and returns them.
    fn release(&mut self, now: Time) -> Vec<Key> {
        let mut released = Vec::new();
        self.links.retain(|&key, record| {
            let is_over = record.until.is_some_and(|until| until <= now);
            released.extend(is_over.then_some(key));
            !is_over
        });
        released
    }
}

/// Returns a link between two switches, by name. Links of hosts are never quarantined, because no other link could
/// replace them.
fn key(fabric: &Fabric, at: PortRef) -> Option<Key> {
    let far = fabric.peer(at)?;
    for end in [at, far] {
        fabric.switch_index(end.node)?;
    }
    let name = |end: PortRef| (fabric.node(end.node).guid, end.port);
    let (at, far) = (name(at), name(far));
    Some((at.min(far), at.max(far)))
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node};
    use selvedge_types::NodeKind;

    use super::*;

    /// Returns a fabric, and the second port of a switch in it. This port is cabled to the first port of another switch
    /// or of a host, with this GUID.
    fn cabled_to(kind: NodeKind, guid: u64) -> (Fabric, PortRef) {
        let [one, two] = [1, 2].map(|n| PortNum::new(n).unwrap());
        let mut builder = FabricBuilder::new();
        let near = builder.add(Node::new(NodeKind::Switch, Guid(1), 2, "near"));
        let far = builder.add(Node::new(kind, Guid(guid), 2, "far"));
        builder.link((near, two), (far, one)).unwrap();
        let fabric = builder.finish().unwrap();
        let node = fabric.find(Guid(1)).unwrap();
        (fabric, PortRef { node, port: two })
    }

    /// Hands in an input at this second. Returns how many effects it has.
    fn hand(flaps: &mut Flaps, policy: &Policy, second: u64, input: In) -> usize {
        let now = Time::ZERO + Duration::from_secs(second);
        let mut effects = Vec::new();
        flaps.handle(&Ctx { now, policy }, input, &mut effects);
        effects.len()
    }

    #[test]
    fn a_cable_that_is_moved_is_another_link() {
        let policy = Policy {
            flap_downs: 1,
            ..Policy::default()
        };
        let (before, at) = cabled_to(NodeKind::Switch, 2);
        let mut flaps = Flaps::default();
        let lost = In::Lost(Arc::new(before.clone()), BTreeSet::from([at]));
        assert_eq!(hand(&mut flaps, &policy, 0, lost), 1);
        assert_eq!(flaps.quarantined(&before).len(), 2);
        let (after, _) = cabled_to(NodeKind::Ca, 3);
        assert!(
            flaps.quarantined(&after).is_empty(),
            "nothing stands in for the link of a host"
        );
        assert_eq!(flaps.quarantined(&before).len(), 2, "the cable is where it was again");
        assert_eq!(hand(&mut flaps, &policy, 0, In::Cleared), 0);
        assert_eq!((flaps.quarantined(&before).len(), flaps.due()), (0, None));
    }

    #[test]
    fn too_often_within_the_window_is_quarantined_for_a_while() {
        let (fabric, near) = cabled_to(NodeKind::Switch, 2);
        let far = fabric.peer(near).unwrap();
        let fabric = Arc::new(fabric);
        let policy = Policy {
            flap_downs: 3,
            flap_window_s: 10,
            flap_hold_s: 100,
            ..Policy::default()
        };
        let check = |downs: &[u64], is_quarantined: bool| {
            let mut flaps = Flaps::default();
            let mut told = 0;
            // One end of the link is seen, the other one, or both.
            let seen = [vec![near], vec![far], vec![near, far]];
            for (ends, &second) in seen.iter().cycle().zip(downs) {
                let lost = In::Lost(Arc::clone(&fabric), ends.iter().copied().collect());
                told += hand(&mut flaps, &policy, second, lost);
            }
            let quarantined = flaps.quarantined(&fabric);
            assert_eq!(quarantined.len(), if is_quarantined { 2 } else { 0 }, "{downs:?}");
            assert_eq!(told, usize::from(is_quarantined), "{downs:?}: told once");
            let last = downs.last().copied().unwrap_or_default();
            assert_eq!(hand(&mut flaps, &policy, last + 99, In::ReleaseDue), 0);
            let released = hand(&mut flaps, &policy, last + 100, In::ReleaseDue);
            assert_eq!(released, usize::from(is_quarantined));
            assert!(flaps.quarantined(&fabric).is_empty());
        };
        check(&[], false);
        check(&[0, 1], false);
        check(&[0, 1, 2], true);
        check(&[0, 1, 2, 3, 4], true);
        check(&[0, 9, 18, 27], false);
        check(&[0, 9, 10], true);
    }
}
