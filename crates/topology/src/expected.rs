//! Deviations of a fabric from the expected topology: the differences of `topology diff` that an operator acts upon.

use std::collections::BTreeMap;
use std::fmt;

use selvedge_fabric::{Change, Fabric, diff};
use selvedge_types::{Guid, LinkSpeed, PortNum, Rate};

/// A port by name.
pub type Port = (Guid, PortNum);

/// A deviation of a node or link from the expected topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// A node is expected but not present.
    NodeMissing {
        /// GUID of the node.
        guid: Guid,
    },
    /// A node is present but not expected.
    NodeAdditional {
        /// GUID of the node.
        guid: Guid,
    },
    /// A link between nodes that are present is expected but not present.
    LinkMissing {
        /// Ends of the link.
        ends: (Port, Port),
    },
    /// A link between expected nodes is present but not expected.
    LinkAdditional {
        /// Ends of the link.
        ends: (Port, Port),
    },
    /// A cable is plugged into another port than it should be.
    WrongPort {
        /// The expected ends, first the end that is as expected.
        expected: (Port, Port),
        /// The port at the other end of the cable.
        leads_to: Port,
    },
    /// A link is slower than expected, per lane.
    Slow {
        /// Ends of the link.
        ends: (Port, Port),
        /// The expected rate.
        expected: Rate,
        /// The rate that was found.
        found: Rate,
    },
    /// A link has fewer lanes than expected.
    Narrow {
        /// Ends of the link.
        ends: (Port, Port),
        /// The expected rate.
        expected: Rate,
        /// The rate that was found.
        found: Rate,
    },
}

/// The expected topology belongs to another fabric: none of its nodes is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherFabric {
    /// Nodes that are expected.
    pub expected: usize,
    /// Nodes that were found.
    pub found: usize,
}

impl fmt::Display for OtherFabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expected, found } = self;
        write!(
            f,
            "none of its {expected} nodes is among the {found} that were found: it is of another fabric"
        )
    }
}

/// Compares a fabric with the expected one by GUID. Links of missing and of additional nodes are not listed by
/// themselves. Differences in states, LIDs and names are no deviations.
///
/// # Errors
///
/// The two fabrics have no node in common.
pub fn deviations(expected: &Fabric, found: &Fabric) -> Result<Vec<Deviation>, OtherFabric> {
    let is_common = |guid: Guid| expected.find(guid).is_some() && found.find(guid).is_some();
    if !expected.nodes().is_empty() && !expected.nodes().iter().any(|node| is_common(node.guid)) {
        return Err(OtherFabric {
            expected: expected.nodes().len(),
            found: found.nodes().len(),
        });
    }
    let mut deviations = Vec::new();
    let (mut lost, mut new): (BTreeMap<Port, Port>, BTreeMap<Port, Port>) = Default::default();
    for change in diff(expected, found).changes {
        match change {
            Change::NodeRemoved { guid, .. } => deviations.push(Deviation::NodeMissing { guid }),
            Change::NodeAdded { guid, .. } => deviations.push(Deviation::NodeAdditional { guid }),
            Change::LinkRemoved { a, b, .. } if is_common(a.0) && is_common(b.0) => drop(lost.insert(a, b)),
            Change::LinkAdded { a, b, .. } if is_common(a.0) && is_common(b.0) => drop(new.insert(a, b)),
            Change::RateChanged {
                a, b, before, after, ..
            } => deviations.extend(rate((a, b), before, after)),
            _ => {}
        }
    }
    for (&a, &b) in &lost {
        let moved = new.iter().find_map(|(&c, &d)| match () {
            () if c == a || d == a => Some(((c, d), (a, b), if c == a { d } else { c })),
            () if c == b || d == b => Some(((c, d), (b, a), if c == b { d } else { c })),
            () => None,
        });
        deviations.push(match moved {
            Some((link, expected, leads_to)) => {
                new.remove(&link.0);
                Deviation::WrongPort { expected, leads_to }
            }
            None => Deviation::LinkMissing { ends: (a, b) },
        });
    }
    deviations.extend(new.into_iter().map(|ends| Deviation::LinkAdditional { ends }));
    Ok(deviations)
}

/// Returns the deviation if a rate is below the expected one. An unknown rate is no deviation.
fn rate(ends: (Port, Port), expected: Rate, found: Rate) -> Option<Deviation> {
    if found.width < expected.width {
        return Some(Deviation::Narrow { ends, expected, found });
    }
    let are_known = ![found.speed, expected.speed].contains(&LinkSpeed::Unknown);
    (are_known && found.speed < expected.speed).then_some(Deviation::Slow { ends, expected, found })
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, LinkState, Node};
    use selvedge_types::{LinkWidth, NodeKind, PhysState, PortState};

    use super::*;

    /// Node GUID and port of both ends, speed and width.
    type Cable = ((u64, u8), (u64, u8), LinkSpeed, LinkWidth);

    /// Switches 1 and 2 and hosts 3 and up, with these cables: (node, port), (node, port), speed and width.
    fn fabric(nodes: u64, cables: &[Cable]) -> Fabric {
        let port = |n| PortNum::new(n).unwrap();
        let mut made: Vec<Node> = (1..=nodes)
            .map(|guid| {
                let kind = if guid <= 2 { NodeKind::Switch } else { NodeKind::Ca };
                Node::new(kind, Guid(guid), 4, format!("n{guid}"))
            })
            .collect();
        for &(a, b, speed, width) in cables {
            for (node, num) in [a, b] {
                made[node as usize - 1].port_mut(port(num)).unwrap().link = LinkState {
                    state: PortState::Active,
                    phys: PhysState::LinkUp,
                    rate: Rate { width, speed },
                };
            }
        }
        let mut builder = FabricBuilder::new();
        let keys: Vec<_> = made.into_iter().map(|node| builder.add(node)).collect();
        for &((a, a_port), (b, b_port), ..) in cables {
            let (a, b) = (keys[a as usize - 1], keys[b as usize - 1]);
            builder.link((a, port(a_port)), (b, port(b_port))).unwrap();
        }
        builder.finish().unwrap()
    }

    #[test]
    fn what_an_operator_acts_upon() {
        use LinkSpeed::{Edr, Hdr};
        use LinkWidth::{X1, X4};
        let end = |(node, port): (u64, u8)| (Guid(node), PortNum::new(port).unwrap());
        let (trunk, host) = (((1, 1), (2, 1), Hdr, X4), ((1, 2), (3, 1), Hdr, X4));
        let expected = fabric(3, &[trunk, host]);
        let check = |nodes: u64, cables: &[Cable], want: &[Deviation]| {
            assert_eq!(
                deviations(&expected, &fabric(nodes, cables)).as_deref(),
                Ok(want),
                "{cables:?}"
            );
        };
        check(3, &[trunk, host], &[]);
        check(2, &[trunk], &[Deviation::NodeMissing { guid: Guid(3) }]);
        let extra = ((2, 2), (4, 1), Hdr, X4);
        check(4, &[trunk, host, extra], &[Deviation::NodeAdditional { guid: Guid(4) }]);
        let ends = (end((1, 1)), end((2, 1)));
        check(3, &[host], &[Deviation::LinkMissing { ends }]);
        let second = (end((1, 3)), end((2, 3)));
        check(
            3,
            &[trunk, host, ((1, 3), (2, 3), Hdr, X4)],
            &[Deviation::LinkAdditional { ends: second }],
        );
        let moved = Deviation::WrongPort {
            expected: (end((1, 1)), end((2, 1))),
            leads_to: end((2, 4)),
        };
        check(3, &[((1, 1), (2, 4), Hdr, X4), host], &[moved]);
        let rate = |speed, width| Rate { width, speed };
        let (wanted, slow, narrow) = (rate(Hdr, X4), rate(Edr, X4), rate(Hdr, X1));
        let slow = Deviation::Slow {
            ends,
            expected: wanted,
            found: slow,
        };
        check(3, &[((1, 1), (2, 1), Edr, X4), host], &[slow]);
        let narrow = Deviation::Narrow {
            ends,
            expected: wanted,
            found: narrow,
        };
        check(3, &[((1, 1), (2, 1), Hdr, X1), host], &[narrow]);
    }

    #[test]
    fn another_fabric_is_told_from_a_bad_one() {
        let found = fabric(2, &[]);
        let mut builder = FabricBuilder::new();
        builder.add(Node::new(NodeKind::Switch, Guid(0x77), 4, "far"));
        let other = builder.finish().unwrap();
        let want = OtherFabric { expected: 1, found: 2 };
        assert_eq!(deviations(&other, &found), Err(want));
        // Nothing is expected.
        assert_eq!(deviations(&Fabric::default(), &found).map(|all| all.len()), Ok(2));
    }
}
