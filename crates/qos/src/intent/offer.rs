//! What can be had instead of an intent that is refused.

use std::fmt;

use selvedge_types::{Mtu, Sl};

use super::compile::{least_of_latency, most_of_link, needed_by_others, plain_mtus, plan, room};
use super::{Class, Hardware, Intent, Latency};

/// An intent that compiles, and how far it is from what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The intent.
    pub intent: Intent,
    /// Layers of routing.
    pub layers: u8,
    /// How far it is from what was asked for.
    pub distance: Distance,
}

/// How far an offer is from what was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distance {
    /// Largest loss of a share, in percentage points of a link. Classes that share lanes count together.
    pub share: u8,
    /// Classes that share lanes with others.
    pub merged: Vec<String>,
    /// Low-latency classes without priority.
    pub without_priority: Vec<String>,
    /// Classes with another cap than asked for, or without one.
    pub other_cap: Vec<String>,
    /// Layers of routing that are missing.
    pub layers: u8,
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, class) in self.intent.classes.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{}", class.name)?;
            class.share.map_or(Ok(()), |share| write!(f, " >= {share} %"))?;
            if class.latency == Latency::Low {
                f.write_str(" with low latency")?;
            }
            class.cap.map_or(Ok(()), |cap| write!(f, " <= {cap} %"))?;
        }
        write!(f, " ({} points of share less", self.distance.share)?;
        let lists = [
            ("shared lanes", &self.distance.merged),
            ("no priority", &self.distance.without_priority),
            ("another cap", &self.distance.other_cap),
        ];
        for (what, names) in lists {
            if !names.is_empty() {
                write!(f, "; {what}: {}", names.join(", "))?;
            }
        }
        if self.distance.layers > 0 {
            write!(
                f,
                "; {} routing layers instead of {}",
                self.layers,
                self.layers + self.distance.layers
            )?;
        }
        f.write_str(")")
    }
}

/// Returns an intent near to this one that compiles.
pub(super) fn offer(intent: &Intent, hardware: &Hardware, asked_layers: u8) -> Offer {
    let mut work = Work {
        hardware,
        layers: asked_layers.min(hardware.lanes),
        classes: intent.classes.clone(),
        merged: vec![1; intent.classes.len()],
        default: intent.default.clone(),
        distance: Distance::default(),
    };
    work.layers = match work.layers > 1 {
        // Each layer needs an entry.
        true => work.layers.min(hardware.vl_arb_low.max(1)),
        false => work.layers,
    };
    work.distance.layers = asked_layers - work.layers;
    work.priority();
    work.merge();
    work.caps();
    work.latency_shares();
    work.leave_enough();
    work.weights();
    let Work {
        layers,
        classes,
        default,
        distance,
        ..
    } = work;
    let groups = intent.groups.clone();
    let intent = Intent {
        classes,
        default,
        groups,
    };
    Offer {
        intent,
        layers,
        distance,
    }
}

struct Work<'a> {
    hardware: &'a Hardware,
    layers: u8,
    classes: Vec<Class>,
    /// For each class, the number of classes that were asked for in it.
    merged: Vec<u32>,
    default: String,
    distance: Distance,
}

impl Work<'_> {
    fn count(&self, latency: Latency) -> usize {
        self.classes.iter().filter(|class| class.latency == latency).count() * usize::from(self.layers)
    }

    /// Takes priority from low-latency classes if the high-priority table has no room for one.
    fn priority(&mut self) {
        if self.hardware.vl_arb_high < self.layers {
            for at in 0..self.classes.len() {
                self.lose_priority(at);
            }
        }
    }

    fn lose_priority(&mut self, at: usize) {
        let class = &mut self.classes[at];
        if class.latency == Latency::Low {
            class.latency = Latency::Normal;
            self.distance.without_priority.push(class.name.clone());
        }
    }

    /// Merges classes until there are lanes, service levels and entries for all.
    fn merge(&mut self) {
        let lanes = usize::from(self.hardware.lanes).min(Sl::COUNT);
        loop {
            let (low_latency, normal) = (self.count(Latency::Low), self.count(Latency::Normal));
            if low_latency + normal == 1 {
                return;
            }
            if normal > usize::from(self.hardware.vl_arb_low) {
                self.merge_two(Latency::Normal);
            } else if low_latency > usize::from(self.hardware.vl_arb_high) {
                self.merge_two(Latency::Low);
            } else if low_latency + normal > lanes {
                let several = normal > usize::from(self.layers);
                self.merge_two(if several { Latency::Normal } else { Latency::Low });
            } else {
                return;
            }
        }
    }

    /// Merges the two classes of a kind with the smallest shares; if there is only one, it becomes a normal class and
    /// joins another.
    fn merge_two(&mut self, latency: Latency) {
        let mut of_kind: Vec<usize> = (0..self.classes.len())
            .filter(|&at| self.classes[at].latency == latency)
            .collect();
        of_kind.sort_by_key(|&at| (self.classes[at].share.unwrap_or(0), self.merged[at], at));
        let (a, b) = match of_kind.as_slice() {
            [a, b, ..] => (*a, *b),
            one_or_none => {
                // One class of each kind, or none of this one and several of the other.
                let last = one_or_none.first().copied().unwrap_or(self.classes.len() - 1);
                (0..self.classes.len()).for_each(|at| self.lose_priority(at));
                let other = (0..self.classes.len()).rev().find(|at| *at != last);
                match other {
                    Some(other) => (last, other),
                    // One class with more layers than there is room for.
                    None => {
                        self.layers -= 1;
                        self.distance.layers += 1;
                        return;
                    }
                }
            }
        };
        let (into, from) = (a.min(b), a.max(b));
        let gone = self.classes.remove(from);
        let sizes = [self.merged[into], self.merged.remove(from)];
        self.merged[into] = sizes.iter().sum();
        let kept = &mut self.classes[into];
        let name = format!("{}+{}", kept.name, gone.name);
        for (old, size) in [&kept.name, &gone.name].into_iter().zip(sizes) {
            if self.default == *old {
                self.default.clone_from(&name);
            }
            if size == 1 {
                self.distance.merged.push(old.clone());
            }
        }
        kept.name = name;
        kept.share = match (kept.share, gone.share) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0)).min(100)),
        };
        // One of them alone may take what both may.
        kept.cap = kept.cap.zip(gone.cap).map(|(a, b)| a.max(b));
        kept.mtu = kept.mtu.zip(gone.mtu).map(|(a, b)| a.max(b));
        kept.matches.extend(gone.matches);
    }

    /// Replaces caps that arbitration cannot keep.
    fn caps(&mut self) {
        let mtus = plain_mtus(&self.classes, self.hardware);
        let normal = self
            .classes
            .iter()
            .zip(&mtus)
            .filter(|(class, _)| class.latency == Latency::Normal);
        let smallest = normal.map(|(_, mtu)| *mtu).min();
        for class in &mut self.classes {
            let Some(cap) = class.cap else { continue };
            let kept = match (class.latency, smallest) {
                (Latency::Low, Some(smallest)) => Some(most_of_link(Mtu::B256, smallest)),
                (_, _) => None,
            };
            class.mtu = class.mtu.filter(|mtu| {
                let mtu = (*mtu).min(self.hardware.mtu);
                smallest.is_some_and(|smallest| most_of_link(mtu, smallest) <= u32::from(cap))
            });
            match kept {
                Some(least) if least <= u32::from(cap) => {}
                other => {
                    class.cap = other.and_then(|least| u8::try_from(least).ok());
                    self.distance.other_cap.push(class.name.clone());
                }
            }
        }
    }

    /// Lowers shares of low-latency classes to what they get.
    fn latency_shares(&mut self) {
        let default = self.classes.iter().position(|class| class.name == self.default);
        // The MTUs depend on caps, which are kept by now.
        let without_shares = Intent {
            classes: self
                .classes
                .iter()
                .map(|class| Class {
                    share: None,
                    ..class.clone()
                })
                .collect(),
            default: self.default.clone(),
            ..Intent::default()
        };
        let planned = plan(&without_shares, self.hardware, self.layers, default.unwrap_or(0));
        let mtus = match planned {
            Ok(planned) => planned.classes.iter().map(|class| class.mtu).collect(),
            Err(_) => plain_mtus(&self.classes, self.hardware),
        };
        for at in 0..self.classes.len() {
            if self.classes[at].latency == Latency::Low {
                let least = least_of_latency(&self.classes, &mtus, at, self.hardware.mtu);
                let least = u8::try_from(least).unwrap_or(100);
                self.lower(at, least);
            }
        }
    }

    /// Lowers a share, and counts what is lost.
    fn lower(&mut self, at: usize, share: u8) {
        let class = &mut self.classes[at];
        if let Some(asked) = class.share.filter(|asked| *asked > share) {
            self.distance.share = self.distance.share.max(asked - share);
            class.share = (share > 0).then_some(share);
        }
    }

    /// Lowers all shares in proportion until they leave something for classes without one.
    fn leave_enough(&mut self) {
        loop {
            let sum: u32 = self.classes.iter().filter_map(|class| class.share).map(u32::from).sum();
            let room = 100 - needed_by_others(&self.classes).min(100);
            if sum <= room {
                return;
            }
            for at in 0..self.classes.len() {
                if let Some(share) = self.classes[at].share {
                    let scaled = u32::from(share) * room / sum;
                    self.lower(at, u8::try_from(scaled).unwrap_or(100));
                }
            }
        }
    }

    /// Lowers shares of normal classes to those that weights can give.
    fn weights(&mut self) {
        let normal = (0..self.classes.len()).filter(|&at| self.classes[at].latency == Latency::Normal);
        let normal: Vec<usize> = normal.collect();
        if normal.is_empty() || self.classes.len() * usize::from(self.layers) == 1 {
            return;
        }
        let shares: Vec<Option<u8>> = normal.iter().map(|&at| self.classes[at].share).collect();
        let room = room(self.hardware, self.layers);
        if room.exact(&shares).is_some() {
            return;
        }
        let packets = room.nearest(&shares);
        let round: u32 = packets.iter().sum();
        for (&at, packets) in normal.iter().zip(&packets) {
            self.lower(at, u8::try_from(100 * packets / round).unwrap_or(100));
        }
    }
}
