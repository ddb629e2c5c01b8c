//! Limits as classes with a least share.

use std::collections::BTreeMap;

use selvedge_plan::qos::{Class, Intent, Match};
use selvedge_types::Sl;

use super::{Bandwidths, Ports, UfmError};

/// An intent with what it leaves out of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// A class for each limited service level, and one for all others.
    pub intent: Intent,
    /// What the intent does not keep.
    pub notes: Vec<Note>,
}

/// What an import does not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A limit became a least share: ports may send faster while others leave the link free.
    NoLimit,
    /// Rules give a service level different limits, and a class has one share on every link.
    OneShare {
        /// The service level.
        sl: Sl,
        /// The largest limit in Mb/s, which is taken.
        taken: u32,
        /// A rule with another limit.
        other: Ports,
        /// Its limit in Mb/s; `None`: no limit.
        limit: Option<u32>,
    },
    /// The limits are more than a link, so all shares are smaller in proportion.
    Scaled {
        /// Sum of the limits in Mb/s.
        sum: u64,
        /// Data rate of a link in Mb/s.
        link: u32,
    },
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoLimit => f.write_str(
                "a limit becomes the least share of its service level: IBA has no limit per service level, so a port \
                 may send faster while others leave the link free",
            ),
            Self::OneShare {
                sl,
                taken,
                other,
                limit,
            } => {
                let sl = sl.get();
                let limit = limit.map_or_else(|| "no limit".to_owned(), |mbps| format!("{mbps} Mb/s"));
                write!(
                    f,
                    "SL {sl} has {taken} Mb/s on all links: the rule of {other} says {limit}, but a class has one share"
                )
            }
            Self::Scaled { sum, link } => write!(
                f,
                "the limits are {sum} Mb/s, and a link carries {link} Mb/s: shares are smaller in proportion"
            ),
        }
    }
}

/// What shares must leave for traffic without a limit, in percent.
const REST: u64 = 1;

impl Bandwidths {
    /// Returns the intent of the rules on links with a data rate of `link` Mb/s.
    ///
    /// # Errors
    ///
    /// No rule limits a service level.
    pub fn intent(&self, link: u32) -> Result<Import, UfmError> {
        let link = link.max(1);
        let mut limits: BTreeMap<Sl, u32> = BTreeMap::new();
        for (ports, rule) in &self.rules {
            for sl in rule.keys() {
                if let Some(mbps) = self.limit(ports, *sl) {
                    let most = limits.entry(*sl).or_default();
                    *most = mbps.max(*most);
                }
            }
        }
        if limits.is_empty() {
            return Err(UfmError::NoLimit);
        }
        let mut notes = vec![Note::NoLimit];
        notes.extend(limits.iter().flat_map(|(sl, taken)| self.others(*sl, *taken)));
        let sum: u64 = limits.values().map(|mbps| u64::from(*mbps)).sum();
        let whole = sum.max(u64::from(link));
        if sum > u64::from(link) {
            notes.push(Note::Scaled { sum, link });
        }
        let share = |mbps: u32| (u64::from(mbps) * (100 - REST) / whole).max(1) as u8;
        let mut classes = vec![Class {
            name: "rest".to_owned(),
            ..Class::default()
        }];
        classes.extend(limits.iter().map(|(sl, mbps)| Class {
            name: format!("sl{}", sl.get()),
            share: Some(share(*mbps)),
            matches: vec![Match::Sl(*sl)],
            ..Class::default()
        }));
        let default = "rest".to_owned();
        Ok(Import {
            intent: Intent {
                classes,
                default,
                ..Intent::default()
            },
            notes,
        })
    }

    /// Returns the rules with another limit of a service level than the one taken.
    fn others(&self, sl: Sl, taken: u32) -> impl Iterator<Item = Note> {
        let limits = self.rules.keys().map(move |ports| (ports, self.limit(ports, sl)));
        let others = limits.filter(move |(_, limit)| *limit != Some(taken));
        others.map(move |(other, limit)| Note::OneShare {
            sl,
            taken,
            other: other.clone(),
            limit,
        })
    }
}
