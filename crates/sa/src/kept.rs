//! Registrations of clients as a value that can be stored and restored.
//!
//! The text form has one line per group, member, subscription, service and alias GUID. Records are in hexadecimal, in
//! wire format:
//! ```text
//! format 1
//! serial 2
//! group ff12401bffff…
//! member 0x0002c90300001235 1
//! member 0x0002c90300001236 1 proxy 0x0002c90300001235
//! subscription 0x0002c90300001235 17 1 0 0000…
//! service 0x0002c90300001235 3600 0000…
//! alias 0x0002c90300001235 3 0x0014050000000001
//! given 0x0002c90300001235 3 0x0014050000000001
//! job {"running":{"job":{"id":"sim",…
//! ```
//! A job is a line of [`Jobs::to_text`].
//! `proxy` is followed by the port that joined for the member, if known. The number of a service is the rest of its
//! lease in seconds at the time of writing, `-` if it has none. After a restart the lease continues from there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use selvedge_qos::jobs::Jobs;
use selvedge_types::{Guid, Lid, Sl};
use selvedge_wire::Address;
use selvedge_wire::sa::{SA_DATA_LEN, SaData, records};

use crate::member::Member;
use crate::proxy::JoinedBy;

/// The format that this version reads and writes.
const FORMAT: &str = "format 1";

/// A multicast group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptGroup {
    pub record: SaData,
    pub members: Vec<Member>,
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptSubscription {
    pub guid: Guid,
    pub to: Address,
    pub wanted: SaData,
}

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptService {
    pub owner: Guid,
    /// Remaining time of the service's lease; `None`: the lease does not end.
    pub left: Option<Duration>,
    pub record: SaData,
}

/// An alias GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptAlias {
    /// The port's own GUID.
    pub port: Guid,
    pub entry: u8,
    pub guid: Guid,
    /// True if the administrator assigned this GUID for the entry. If the port requests a GUID again, the entry gets
    /// the same one, even if it has another one now.
    pub is_given: bool,
}

/// Registrations of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registrations {
    pub(crate) groups: Vec<KeptGroup>,
    pub(crate) subscriptions: Vec<KeptSubscription>,
    pub(crate) services: Vec<KeptService>,
    /// Absent ports with registrations that were removed.
    pub(crate) forgotten: BTreeSet<Guid>,
    pub(crate) aliases: Vec<KeptAlias>,
    pub(crate) jobs: Jobs,
    /// Serial number of assigned group GIDs.
    pub(crate) serial: u64,
}

/// An invalid line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is no group, member, subscription, service, alias GUID or job")]
pub struct BadLine {
    /// Number of the line, from 1.
    pub line: usize,
}

impl Registrations {
    /// Returns the numbers of groups, members, subscriptions and services.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize, usize) {
        let members = self.groups.iter().map(|group| group.members.len()).sum();
        (
            self.groups.len(),
            members,
            self.subscriptions.len(),
            self.services.len(),
        )
    }

    /// Returns the ports that were absent when this value was stored, and had registered something before. A port that
    /// is back when a manager starts again does not know that its registrations were removed.
    #[must_use]
    pub const fn forgotten(&self) -> &BTreeSet<Guid> {
        &self.forgotten
    }

    /// Returns the text form.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "# Written by selvedge: what hosts have registered with the subnet administrator.\n{FORMAT}\nserial {}\n",
            self.serial
        );
        // Writing to a String cannot fail.
        for group in &self.groups {
            let _ = writeln!(text, "group {}", hex(&group.record[..records::MEMBER.len]));
            for member in &group.members {
                let proxy = match member.joined_by {
                    JoinedBy::Itself => String::new(),
                    JoinedBy::Proxy(None) => " proxy".to_owned(),
                    JoinedBy::Proxy(Some(by)) => format!(" proxy {by}"),
                };
                let _ = writeln!(text, "member {} {}{proxy}", member.guid, member.join_state);
            }
        }
        for s in &self.subscriptions {
            let (lid, qp, sl) = (s.to.lid.0, s.to.qp, s.to.sl.get());
            let wanted = hex(&s.wanted[..records::INFORM_INFO.len]);
            let _ = writeln!(text, "subscription {} {lid} {qp} {sl} {wanted}", s.guid);
        }
        for s in &self.services {
            let left = s.left.map_or_else(|| "-".to_owned(), |left| left.as_secs().to_string());
            let record = hex(&s.record[..records::SERVICE.len]);
            let _ = writeln!(text, "service {} {left} {record}", s.owner);
        }
        for guid in &self.forgotten {
            let _ = writeln!(text, "forgotten {guid}");
        }
        for alias in &self.aliases {
            let word = if alias.is_given { "given" } else { "alias" };
            let _ = writeln!(text, "{word} {} {} {}", alias.port, alias.entry, alias.guid);
        }
        for job in self.jobs.to_text().lines() {
            let _ = writeln!(text, "job {job}");
        }
        text
    }

    /// Parses the text of [`Self::to_text`].
    pub fn from_text(text: &str) -> Result<Self, BadLine> {
        let mut all = Self::default();
        let lines = text.lines().zip(1..).filter(|(line, _)| !line.starts_with('#'));
        let mut lines = lines.filter(|(line, _)| !line.trim().is_empty());
        match lines.next() {
            Some((FORMAT, _)) => {}
            Some((_, line)) => return Err(BadLine { line }),
            None => return Err(BadLine { line: 1 }),
        }
        let mut jobs = String::new();
        for (text, line) in lines {
            match text.strip_prefix("job ") {
                Some(job) if Jobs::parse(job).is_ok() => jobs.extend([job, "\n"]),
                Some(_) => return Err(BadLine { line }),
                None => all.take_line(text).ok_or(BadLine { line })?,
            }
        }
        // Each of its lines could be read.
        all.jobs = Jobs::parse(&jobs).unwrap_or_default();
        Ok(all)
    }

    fn take_line(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            ["serial", number] => self.serial = number.parse().ok()?,
            ["group", record] => self.groups.push(KeptGroup {
                record: bytes(record, records::MEMBER.len)?,
                members: Vec::new(),
            }),
            ["member", guid, join_state, ref proxy @ ..] => self.groups.last_mut()?.members.push(Member {
                guid: guid.parse().ok()?,
                join_state: join_state.parse().ok().filter(|state| matches!(state, 1..=15))?,
                joined_by: match *proxy {
                    [] => JoinedBy::Itself,
                    ["proxy"] => JoinedBy::Proxy(None),
                    ["proxy", by] => JoinedBy::Proxy(Some(by.parse().ok()?)),
                    _ => return None,
                },
            }),
            ["subscription", guid, lid, qp, sl, wanted] => self.subscriptions.push(KeptSubscription {
                guid: guid.parse().ok()?,
                to: Address {
                    lid: Lid(lid.parse().ok()?),
                    qp: qp.parse().ok()?,
                    sl: Sl::new(sl.parse().ok()?)?,
                },
                wanted: bytes(wanted, records::INFORM_INFO.len)?,
            }),
            ["service", owner, left, record] => self.services.push(KeptService {
                owner: owner.parse().ok()?,
                left: match left {
                    "-" => None,
                    seconds => Some(Duration::from_secs(seconds.parse::<u32>().ok()?.into())),
                },
                record: bytes(record, records::SERVICE.len)?,
            }),
            ["forgotten", guid] => {
                self.forgotten.insert(guid.parse().ok()?);
            }
            [word @ ("alias" | "given"), port, entry, guid] => self.aliases.push(KeptAlias {
                port: port.parse().ok()?,
                entry: entry.parse().ok()?,
                guid: guid.parse().ok()?,
                is_given: word == "given",
            }),
            _ => return None,
        }
        Some(())
    }

    /// Returns the groups by LID. A group that shares its LID or GID with another one is left out.
    pub(crate) fn take_groups(&mut self) -> BTreeMap<u16, KeptGroup> {
        use records::member::MLID;
        let groups = std::mem::take(&mut self.groups).into_iter();
        groups.map(|group| (MLID.get(&group.record) as u16, group)).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns a record of this length in bytes.
fn bytes(text: &str, len: usize) -> Option<SaData> {
    let mut data = [0; SA_DATA_LEN];
    if text.len() != 2 * len || !text.is_ascii() {
        return None;
    }
    for (slot, at) in data.iter_mut().zip((0..len).map(|i| i * 2)) {
        *slot = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(data)
}

#[cfg(test)]
mod tests {
    use selvedge_qos::jobs::Job;

    use super::*;

    #[test]
    fn what_is_printed_is_read() {
        let mut record = [0; SA_DATA_LEN];
        record[..16].fill(0xAB);
        let all = Registrations {
            groups: vec![KeptGroup {
                record,
                members: [JoinedBy::Itself, JoinedBy::Proxy(None), JoinedBy::Proxy(Some(Guid(8)))]
                    .map(|joined_by| Member {
                        guid: Guid(7),
                        join_state: 5,
                        joined_by,
                    })
                    .into(),
            }],
            subscriptions: vec![KeptSubscription {
                guid: Guid(8),
                to: Address {
                    lid: Lid(3),
                    qp: 1,
                    sl: Sl::default(),
                },
                wanted: record,
            }],
            services: vec![
                KeptService {
                    owner: Guid(9),
                    left: Some(Duration::from_secs(60)),
                    record,
                },
                KeptService {
                    owner: Guid(9),
                    left: None,
                    record,
                },
            ],
            forgotten: [Guid(10), Guid(11)].into(),
            aliases: [false, true]
                .map(|is_given| KeptAlias {
                    port: Guid(9),
                    entry: 255,
                    guid: Guid(0x0014_0500_0000_0001),
                    is_given,
                })
                .into(),
            jobs: Jobs::restore(
                Vec::new(),
                vec![Job {
                    id: "a b".to_owned(),
                    ..Job::default()
                }],
            ),
            serial: 4,
        };
        assert_eq!(Registrations::from_text(&all.to_text()), Ok(all));
        let none = Registrations::default();
        assert_eq!(Registrations::from_text(&none.to_text()), Ok(none));
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let check = |text: &str, line: usize| {
            assert_eq!(Registrations::from_text(text), Err(BadLine { line }), "{text:?}");
        };
        check("", 1);
        check("format 2\n", 1);
        check("# x\nformat 1\nserial x\n", 3);
        check("format 1\nmember 0x1 1\n", 2);
        check("format 1\ngroup 00\n", 2);
        let group = format!("format 1\ngroup {}\n", "00".repeat(records::MEMBER.len));
        check(&format!("{group}member 0x1 1\nmember 0x1 1 by 0x2\n"), 4);
        check(&format!("{group}member 0x1 1 proxy 0x2 0x3\n"), 3);
        check("format 1\nservice 0x1 5 zz\n", 2);
        check("format 1\nsubscription 0x1 1 1 16 00\n", 2);
        check("format 1\nhello\n", 2);
        check("format 1\njob {}\n", 2);
        check("format 1\nalias 0x1 256 0x2\n", 2);
        check("format 1\ngiven 0x1 2 x\n", 2);
    }
}
