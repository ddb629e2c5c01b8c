//! The operator's list of places that are out of service: switches, links and ports.
//!
//! A place that is *drained* carries no packets of hosts; its links stay up, and the manager still reaches it. A place
//! that is *isolated* is drained first, and then its ports are disabled. The list is part of the
//! [`Policy`](crate::Policy), so each change of it is a plan, and the judge sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use selvedge_types::{Guid, PortNum};

/// Largest number of places in the list. Each is looked up in every sweep.
pub const PLACES_MAX: usize = 1_024;

/// Longest reason, in bytes.
pub const REASON_MAX: usize = 200;

/// A port: the GUID of its node, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId {
    /// GUID of the node.
    pub node: Guid,
    /// Number of the port.
    pub port: PortNum,
}

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.node, self.port)
    }
}

impl FromStr for PortId {
    type Err = LineFault;

    /// Reads `0xGUID[port]`.
    fn from_str(text: &str) -> Result<Self, LineFault> {
        let parts = text.strip_suffix(']').and_then(|rest| rest.split_once('['));
        let (node, port) = parts.ok_or(LineFault::Port)?;
        Ok(Self {
            node: node.parse().map_err(|_| LineFault::Port)?,
            port: port.parse().ok().and_then(PortNum::new).ok_or(LineFault::Port)?,
        })
    }
}

/// A switch, a link or a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A switch with all its links.
    Switch(Guid),
    /// A link by both ends, the lower first. If the cable is moved, it is another link.
    Link(PortId, PortId),
    /// A port of a host, or a port of a switch together with whatever is behind it.
    Port(PortId),
}

impl Place {
    /// Returns the link between two ports.
    #[must_use]
    pub fn link(a: PortId, b: PortId) -> Self {
        Self::Link(a.min(b), a.max(b))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(guid) => write!(f, "switch {guid}"),
            Self::Link(a, b) => write!(f, "link {a} {b}"),
            Self::Port(port) => write!(f, "port {port}"),
        }
    }
}

/// The operator's order for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// Packets of hosts must not cross the place; its links stay up.
    Drain,
    /// As [`Self::Drain`], and the ports of the place are disabled once no entry leads over them.
    Isolate,
    /// The place is back in service: ports that were disabled are set to Polling.
    Enable,
}

impl Service {
    /// All values with their names.
    pub const ALL: [(&'static str, Self); 3] = [
        ("drain", Self::Drain),
        ("isolate", Self::Isolate),
        ("enable", Self::Enable),
    ];

    /// Returns the name, which is that of the command.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Drain => Self::ALL[0].0,
            Self::Isolate => Self::ALL[1].0,
            Self::Enable => Self::ALL[2].0,
        }
    }
}

impl FromStr for Service {
    type Err = LineFault;

    fn from_str(text: &str) -> Result<Self, LineFault> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, service)| service).ok_or(LineFault::Service)
    }
}

/// An entry of the list, without its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The operator's order.
    pub service: Service,
    /// When the order was given, in milliseconds since 1970-01-01 UTC.
    pub since_ms: u64,
    /// Ports that were disabled because this place was isolated: the ends of its links at nodes that stay in service.
    /// They are stored, because the switch behind them may be out of reach when they must be enabled.
    pub disabled: BTreeSet<PortId>,
    /// The operator's reason; empty if none was given.
    pub reason: String,
}

/// The list of places that are out of service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutOfService {
    places: BTreeMap<Place, Notice>,
}

/// The reasons for which a line of the list cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineFault {
    /// The first word is none of drain, isolate and enable.
    #[error("the first word is none of drain, isolate and enable")]
    Service,
    /// No `switch GUID`, `link PORT PORT` or `port PORT` follows.
    #[error("no 'switch GUID', 'link PORT PORT' or 'port PORT' follows")]
    Place,
    /// A port is not written as `0xGUID[number]`.
    #[error("a port is not written as 0xGUID[number]")]
    Port,
    /// There is no `since MILLISECONDS`.
    #[error("there is no 'since MILLISECONDS'")]
    Since,
    /// The line has unknown words after its known fields.
    #[error("the line has unknown words after its known fields")]
    Words,
    /// The place is listed twice.
    #[error("the place is listed twice")]
    Twice,
    /// There are too many places, or a reason is too long.
    #[error("there are too many places, or the reason is too long")]
    Limit,
}

impl OutOfService {
    /// True if nothing is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the number of places.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns all places in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Place, &Notice)> + Clone {
        self.places.iter()
    }

    /// Returns the entry of a place.
    #[must_use]
    pub fn get(&self, place: Place) -> Option<&Notice> {
        self.places.get(&place)
    }

    /// Adds a place to the list. Returns its former entry.
    pub fn insert(&mut self, place: Place, notice: Notice) -> Option<Notice> {
        self.places.insert(place, notice)
    }

    /// Removes a place from the list. Returns its entry.
    pub fn remove(&mut self, place: Place) -> Option<Notice> {
        self.places.remove(&place)
    }

    /// Returns this list for a fabric on which `former` was in force: ports that were disabled because of a place that
    /// is not isolated in this list are enabled again.
    #[must_use]
    pub fn enabling(&self, former: &Self) -> Self {
        let mut list = self.clone();
        for (&place, notice) in &former.places {
            let own = self.get(place).map(|own| own.service);
            if notice.service == Service::Isolate && own != Some(Service::Isolate) {
                list.enable_ports(place, notice, &notice.disabled);
            }
        }
        list
    }

    /// Returns this list with a change that was made on another one: `before` became `after` there. If both lists
    /// changed one place, the newer service counts, and the ports are those that either list has.
    #[must_use]
    pub fn with_change(&self, before: &Self, after: &Self) -> Self {
        let mut list = self.clone();
        let places: BTreeSet<Place> = before.places.keys().chain(after.places.keys()).copied().collect();
        for place in places {
            let (own, was, now) = (self.get(place), before.get(place), after.get(place));
            if was == now {
                continue;
            }
            match (own, now) {
                _ if own == was => list.put(place, now.cloned()),
                (Some(own), Some(now)) => {
                    let is_new = was.is_none_or(|was| was.service != now.service);
                    let mut notice = if is_new { now.clone() } else { own.clone() };
                    notice.disabled = own.disabled.union(&now.disabled).copied().collect();
                    list.put(place, Some(notice));
                }
                // The ports that one list got are not yet enabled, though the place is gone from the other one.
                (None, Some(notice)) | (Some(notice), None) => {
                    let is_new = was.is_none_or(|was| was.service != notice.service);
                    list.put(place, is_new.then(|| notice.clone()));
                    if let Some(was) = was.filter(|_| !is_new) {
                        let noted = notice.disabled.difference(&was.disabled).copied().collect();
                        list.enable_ports(place, notice, &noted);
                    }
                }
                (None, None) => {}
            }
        }
        list
    }

    fn put(&mut self, place: Place, notice: Option<Notice>) {
        match notice {
            Some(notice) => drop(self.places.insert(place, notice)),
            None => drop(self.places.remove(&place)),
        }
    }

    /// Lists ports to be enabled because a place is back in service; `notice` has the time and the reason.
    fn enable_ports(&mut self, place: Place, notice: &Notice, ports: &BTreeSet<PortId>) {
        if ports.is_empty() {
            return;
        }
        let listed = self.places.entry(place).or_insert_with(|| Notice {
            service: Service::Enable,
            disabled: BTreeSet::new(),
            ..notice.clone()
        });
        listed.disabled.extend(ports);
    }

    /// Returns the list as text, one place a line. [`Self::parse`] reads it.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.places
            .iter()
            .map(|(place, notice)| line(place, notice) + "\n")
            .collect()
    }

    /// Reads a list; an error comes with its line, counted from 1. Empty lines and lines that begin with `#` are
    /// skipped.
    pub fn parse(text: &str) -> Result<Self, (usize, LineFault)> {
        let mut list = Self::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (place, notice) = parse_line(line).map_err(|fault| (number + 1, fault))?;
            if list.places.len() >= PLACES_MAX {
                return Err((number + 1, LineFault::Limit));
            }
            if list.places.insert(place, notice).is_some() {
                return Err((number + 1, LineFault::Twice));
            }
        }
        Ok(list)
    }
}

/// Returns a line such as `isolate switch 0x10 since 5 disabled 0x20[3] reason fan is broken`.
fn line(place: &Place, notice: &Notice) -> String {
    let mut line = format!("{} {place} since {}", notice.service.name(), notice.since_ms);
    if !notice.disabled.is_empty() {
        let ports: Vec<String> = notice.disabled.iter().map(ToString::to_string).collect();
        line += &format!(" disabled {}", ports.join(","));
    }
    if !notice.reason.is_empty() {
        line += &format!(" reason {}", notice.reason);
    }
    line
}

fn parse_line(line: &str) -> Result<(Place, Notice), LineFault> {
    let (line, reason) = match line.split_once(" reason ") {
        Some((line, reason)) => (line, reason.trim()),
        None => (line, ""),
    };
    if reason.len() > REASON_MAX {
        return Err(LineFault::Limit);
    }
    let mut words = line.split_ascii_whitespace();
    let service: Service = words.next().ok_or(LineFault::Service)?.parse()?;
    let mut word = || words.next().ok_or(LineFault::Place);
    let place = match word()? {
        "switch" => Place::Switch(word()?.parse().map_err(|_| LineFault::Place)?),
        "link" => Place::link(word()?.parse()?, word()?.parse()?),
        "port" => Place::Port(word()?.parse()?),
        _ => return Err(LineFault::Place),
    };
    let since = words.next().filter(|word| *word == "since").and(words.next());
    let since_ms = since.and_then(|ms| ms.parse().ok()).ok_or(LineFault::Since)?;
    let disabled = match words.next() {
        None => BTreeSet::new(),
        Some("disabled") => {
            let ports = words.next().ok_or(LineFault::Port)?;
            ports.split(',').map(str::parse).collect::<Result<_, _>>()?
        }
        Some(_) => return Err(LineFault::Words),
    };
    if words.next().is_some() {
        return Err(LineFault::Words);
    }
    let notice = Notice {
        service,
        since_ms,
        disabled,
        reason: reason.to_owned(),
    };
    Ok((place, notice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, want: Result<&str, LineFault>) {
        let read = OutOfService::parse(line);
        let want = want.map(|text| format!("{text}\n")).map_err(|fault| (1, fault));
        assert_eq!(read.map(|list| list.to_text()), want, "{line}");
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        let same = |line: &str| check(line, Ok(line));
        same("drain switch 0x0000000000000010 since 5");
        same("isolate link 0x0000000000000010[3] 0x0000000000000020[1] since 5 reason the cable is bad");
        same("enable port 0x0000000000000010[3] since 5 disabled 0x0000000000000010[3],0x0000000000000011[36]");
        check(
            "drain  link 0x20[1] 0x10[3]  since 5",
            Ok("drain link 0x0000000000000010[3] 0x0000000000000020[1] since 5"),
        );
    }

    #[test]
    fn lines_that_cannot_be_read_say_why() {
        check("remove switch 0x10 since 5", Err(LineFault::Service));
        check("drain rack 0x10 since 5", Err(LineFault::Place));
        check("drain switch ten since 5", Err(LineFault::Place));
        check("drain port 0x10 since 5", Err(LineFault::Port));
        check("drain port 0x10[255] since 5", Err(LineFault::Port));
        check("drain switch 0x10", Err(LineFault::Since));
        check("drain switch 0x10 since now", Err(LineFault::Since));
        check("drain switch 0x10 since 5 for good", Err(LineFault::Words));
        check(
            "drain switch 0x10 since 5 disabled 0x10[3] for good",
            Err(LineFault::Words),
        );
        check(
            &format!("drain switch 0x10 since 5 reason {}", "x".repeat(201)),
            Err(LineFault::Limit),
        );
        let twice = OutOfService::parse("# list\ndrain switch 0x10 since 5\nisolate switch 0x10 since 6\n");
        assert_eq!(twice, Err((3, LineFault::Twice)));
        let many: String = (0..=PLACES_MAX)
            .map(|n| format!("drain switch {:#x} since 5\n", n + 1))
            .collect();
        assert_eq!(OutOfService::parse(&many), Err((PLACES_MAX + 1, LineFault::Limit)));
    }

    /// Returns the list of these lines.
    fn list(lines: &[&str]) -> OutOfService {
        OutOfService::parse(&lines.join("\n")).unwrap()
    }

    const PLACE: &str = "switch 0x10 since 5";
    const OTHER: &str = "drain switch 0x30 since 4";

    #[test]
    fn two_changes_of_a_list_are_both_in_it() {
        let check = |before: &str, manager: &str, operator: &str, want: &str| {
            let of = |line: &str| match line {
                "" => list(&[OTHER]),
                _ => list(&[OTHER, line]),
            };
            let (before, manager, operator, want) = (of(before), of(manager), of(operator), of(want));
            assert_eq!(
                manager.with_change(&before, &operator),
                want,
                "the operator's on the manager's"
            );
            assert_eq!(
                operator.with_change(&before, &manager),
                want,
                "the manager's on the operator's"
            );
            assert_eq!(before.with_change(&before, &manager), manager);
            assert_eq!(manager.with_change(&before, &before), manager);
        };
        let isolate = format!("isolate {PLACE}");
        let noted = format!("{isolate} disabled 0x20[1]");
        let enable = format!("enable {PLACE} disabled 0x20[1]");
        // The manager notes a port that it disables.
        check(&isolate, &noted, &isolate, &noted);
        check(&isolate, &noted, "", &enable);
        check(
            &isolate,
            &noted,
            &format!("drain {PLACE}"),
            &format!("drain {PLACE} disabled 0x20[1]"),
        );
        check(
            &isolate,
            &noted,
            &format!("{isolate} disabled 0x20[2]"),
            &format!("{isolate} disabled 0x20[1],0x20[2]"),
        );
        // The manager has enabled the ports of a place.
        check(&enable, "", &enable, "");
        check(&enable, "", &noted, &noted);
        // The operator alone.
        check("", "", &isolate, &isolate);
        check(&noted, &noted, &enable, &enable);
    }

    #[test]
    fn ports_of_places_that_are_not_isolated_any_more_are_enabled() {
        let check = |former: &[&str], now: &[&str], want: &[&str]| {
            assert_eq!(list(now).enabling(&list(former)), list(want), "{former:?} {now:?}");
        };
        let isolate = format!("isolate {PLACE} disabled 0x20[1]");
        let enable = format!("enable {PLACE} disabled 0x20[1]");
        check(&[OTHER, &isolate], &[OTHER], &[OTHER, &enable]);
        check(
            &[&isolate],
            &[&format!("drain {PLACE}")],
            &[&format!("drain {PLACE} disabled 0x20[1]")],
        );
        check(&[&isolate], &[&isolate], &[&isolate]);
        // No port was to be disabled.
        check(&[&format!("isolate {PLACE}")], &[OTHER], &[OTHER]);
        check(&[OTHER], &[], &[]);
        check(&[], &[&isolate], &[&isolate]);
    }
}
