//! Links that go down again and again are left out of routing for a while, though they are up: each time they come and
//! go, traffic would be moved twice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::Policy;
use selvedge_sim::Time;
use selvedge_types::{Guid, PortNum};

/// A port by name.
type End = (Guid, PortNum);

/// A link by its two ends, the lower first. One end is not enough: a cable that is plugged in elsewhere may lead from
/// there to a host, for which nothing stands in, or to the manager itself.
type Key = (End, End);

/// What is remembered of links between switches that went down.
#[derive(Clone, Debug, Default)]
pub struct Flaps {
    links: BTreeMap<Key, Record>,
}

#[derive(Clone, Debug, Default)]
struct Record {
    /// When it went down, inside the window.
    downs: VecDeque<Time>,
    /// It is left out until then.
    until: Option<Time>,
}

impl Flaps {
    /// The link of `at` went down. If that was once too often: how often, and until when it is left out.
    pub fn down(&mut self, fabric: &Fabric, at: PortRef, now: Time, policy: &Policy) -> Option<(usize, Time)> {
        let key = key(fabric, at).filter(|_| policy.flap_downs > 0)?;
        self.forget(now, policy);
        let record = self.links.entry(key).or_default();
        record.downs.push_back(now);
        let count = record.downs.len();
        if count < usize::from(policy.flap_downs) {
            return None;
        }
        let until = now + seconds(policy.flap_hold_s);
        let is_new = record.until.replace(until).is_none();
        is_new.then_some((count, until))
    }

    /// Drops what is outside the window, so that memory is bounded by what happens within one.
    fn forget(&mut self, now: Time, policy: &Policy) {
        let window = seconds(policy.flap_window_s);
        self.links.retain(|_, record| {
            while record.downs.front().is_some_and(|&at| now.since(at) > window) {
                record.downs.pop_front();
            }
            record.until.is_some() || !record.downs.is_empty()
        });
    }

    /// An end of every link that went down of late and is where it was.
    pub fn lately_down(&self, fabric: &Fabric) -> Vec<PortRef> {
        let ends = self.links.keys().filter_map(|&((guid, port), _)| {
            let node = fabric.find(guid)?;
            Some(PortRef { node, port })
        });
        ends.collect()
    }

    /// When the next link may come back.
    pub fn next_release(&self) -> Option<Time> {
        self.links.values().filter_map(|record| record.until).min()
    }

    /// Lets back in what has been left out for long enough.
    pub fn release(&mut self, now: Time) -> Vec<Key> {
        let mut free = Vec::new();
        for (&key, record) in &mut self.links {
            if record.until.is_some_and(|until| until <= now) {
                *record = Record::default();
                free.push(key);
            }
        }
        self.links
            .retain(|_, record| record.until.is_some() || !record.downs.is_empty());
        free
    }

    /// Lets everything back in, at the operator's word.
    pub fn clear(&mut self) {
        self.links.clear();
    }

    /// Both ends of every link that is left out and that is there as it was.
    pub fn held(&self, fabric: &Fabric) -> BTreeSet<PortRef> {
        let held = self.links.iter().filter(|(_, record)| record.until.is_some());
        let find = |(guid, port): End| fabric.find(guid).map(|node| PortRef { node, port });
        held.filter_map(|(&(low, high), _)| Some([find(low)?, find(high)?]))
            .filter(|&[low, high]| fabric.peer(low) == Some(high))
            .flatten()
            .collect()
    }
}

/// A link between two switches by name; links of hosts are not left out, as nothing could stand in for them.
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

    /// A switch of two ports, whose second is cabled to the first of another switch, or of a host.
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

    #[test]
    fn a_cable_that_is_moved_is_another_link() {
        let policy = Policy {
            flap_downs: 1,
            ..Policy::default()
        };
        let (before, at) = cabled_to(NodeKind::Switch, 2);
        let mut flaps = Flaps::default();
        assert!(flaps.down(&before, at, Time::ZERO, &policy).is_some());
        assert_eq!(flaps.held(&before).len(), 2);
        let (after, _) = cabled_to(NodeKind::Ca, 3);
        assert!(
            flaps.held(&after).is_empty(),
            "nothing stands in for the link of a host"
        );
        assert_eq!(flaps.held(&before).len(), 2, "the cable is where it was again");
    }

    #[test]
    fn too_often_within_the_window_is_left_out_for_a_while() {
        let port = |n| PortNum::new(n).unwrap();
        let mut builder = FabricBuilder::new();
        let [a, b] = [1, 2].map(|guid| builder.add(Node::new(NodeKind::Switch, Guid(guid), 4, "s")));
        builder.link((a, port(1)), (b, port(2))).unwrap();
        let fabric = builder.finish().unwrap();
        let ends = [1, 2].map(|n| {
            let node = fabric.find(Guid(n)).unwrap();
            let port = port(u8::try_from(n).unwrap());
            PortRef { node, port }
        });
        let policy = Policy {
            flap_downs: 3,
            flap_window_s: 10,
            flap_hold_s: 100,
            ..Policy::default()
        };
        let at = |s: u64| Time::ZERO + Duration::from_secs(s);
        let check = |downs: &[u64], held: bool| {
            let mut flaps = Flaps::default();
            let mut told = 0;
            for (i, &s) in downs.iter().enumerate() {
                told += usize::from(flaps.down(&fabric, ends[i % 2], at(s), &policy).is_some());
            }
            assert_eq!(flaps.held(&fabric).len(), if held { 2 } else { 0 }, "{downs:?}");
            assert_eq!(told, usize::from(held), "{downs:?}: told once");
            let last = downs.last().copied().unwrap_or_default();
            assert_eq!(flaps.release(at(last + 99)).len(), 0);
            assert_eq!(flaps.release(at(last + 100)).len(), usize::from(held));
            assert!(flaps.held(&fabric).is_empty());
        };
        check(&[], false);
        check(&[0, 1], false);
        check(&[0, 1, 2], true);
        check(&[0, 1, 2, 3, 4], true);
        check(&[0, 9, 18, 27], false);
        check(&[0, 9, 10], true);
    }
}
