//! Reads `partitions.conf`, OpenSM's partition file.
//!
//! The syntax is that of OpenSM 3.3.23, line by line: a definition up to its first colon on one line, then members
//! separated by commas and groups separated by lines, up to a semicolon. Words may be abbreviated. What OpenSM only
//! logs and skips (an unknown flag, an unusable value) is an error here, because a partition that differs from its file
//! would otherwise be noticed too late.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::path::Path;

use selvedge_plan::partition::{Partition, Partitions, PresetGroup, Rule, Who};
use selvedge_types::{Guid, NodeKind, PKey, Sl};

use crate::ConfigError;
use crate::guid_list::read_text;

/// Reads a file.
pub fn read_partitions(path: &Path) -> Result<Partitions, ConfigError> {
    parse_partitions(&read_text(path)?, path)
}

/// Reads a text; `path` is only for messages.
pub fn parse_partitions(text: &str, path: &Path) -> Result<Partitions, ConfigError> {
    let mut reader = Reader::new();
    for (line, number) in text.lines().zip(1..) {
        let content = line.split('#').next().unwrap_or_default();
        reader.number = number;
        reader.line(content).map_err(|(found, want)| ConfigError::Partition {
            path: path.to_owned(),
            line: reader.blamed.unwrap_or(number),
            found: found.trim().chars().take(60).collect(),
            want,
        })?;
    }
    Ok(reader.end(text))
}

/// The text found, and the text expected.
type Mistake = (String, &'static str);

const MEMBERSHIP: &str = "full, limited or both";
const HEADER: &str = "NAME=PKEY,FLAGS: before the members, as 'Storage=0x8001,ipoib: ALL=full;'";

/// Properties of a group.
#[derive(Clone, Copy, Debug)]
struct Flags {
    mtu: u8,
    rate: u8,
    sl: u8,
    q_key: u32,
    traffic_class: u8,
    flow_label: u32,
    /// Bit mask of scopes; 0: link-local.
    scopes: u16,
}

impl Default for Flags {
    /// Returns OpenSM's defaults: MTU 2048, 10 Gbit/s.
    fn default() -> Self {
        Self {
            mtu: 4,
            rate: 3,
            sl: 0,
            q_key: 0,
            traffic_class: 0,
            flow_label: 0,
            scopes: 0,
        }
    }
}

const NO_END: &str = "a ';' at the end of this definition: the next line with a ':' begins another one";

/// An unfinished definition.
#[derive(Clone, Debug)]
struct Open {
    /// Line number and text of the definition's first line.
    start: (usize, String),
    key: u16,
    flags: Flags,
    is_full: bool,
    is_first: bool,
}

struct Reader {
    partitions: Partitions,
    open: Option<Open>,
    /// The last P_Key that was generated for a definition without one.
    made_up: u16,
    /// Number of the current line, counted from 1.
    number: usize,
    /// The line with the mistake, if that is not the current line.
    blamed: Option<usize>,
}

impl Reader {
    /// Starts with OpenSM's defaults for every file: every port is a limited member of the default partition, except
    /// that the manager's port is a full member.
    fn new() -> Self {
        let rule = |who, is_full| Rule {
            who,
            is_full,
            is_first: false,
        };
        Self {
            partitions: Partitions::only_default(&[rule(Who::All, false), rule(Who::Manager, true)]),
            open: None,
            made_up: 0,
            number: 0,
            blamed: None,
        }
    }

    fn line(&mut self, mut line: &str) -> Result<(), Mistake> {
        loop {
            let (part, rest) = match line.split_once(';') {
                Some((part, rest)) => (part, Some(rest)),
                None => (line, None),
            };
            self.part(part)?;
            let Some(rest) = rest else { return Ok(()) };
            self.open = None;
            line = rest;
        }
    }

    /// Parses the part of one definition on one line.
    fn part(&mut self, part: &str) -> Result<(), Mistake> {
        if part.trim().is_empty() {
            return Ok(());
        }
        let (open, members) = match self.open.take() {
            Some(open) if is_definition(part) => {
                self.blamed = Some(open.start.0);
                return Err((open.start.1, NO_END));
            }
            Some(open) => (open, part),
            None => {
                let (header, members) = part.split_once(':').ok_or_else(|| (part.to_owned(), HEADER))?;
                let open = self.header(header)?;
                let start = (self.number, part.to_owned());
                (Open { start, ..open }, members)
            }
        };
        let result = self.members(&open, members);
        self.open = Some(open);
        result
    }

    fn header(&mut self, header: &str) -> Result<Open, Mistake> {
        let mut words = header.split(',').map(name_and_value);
        let (name, id) = words.next().unwrap_or_default();
        let (name, id) = match id {
            None if name.starts_with(|c: char| c.is_ascii_digit()) => ("", Some(name)),
            id => (name, id),
        };
        let mut open = Open {
            start: (0, String::new()),
            key: 0,
            flags: Flags::default(),
            is_full: false,
            is_first: false,
        };
        let mut is_ipoib = false;
        for (word, value) in words {
            match word {
                word if group_flag(&mut open.flags, word, value)? => {}
                word if is_short_for(word, "ipoib") => is_ipoib = true,
                word if is_short_for(word, "defmember") => open.is_full = membership(value.unwrap_or_default())?,
                "indx0" => open.is_first = true,
                other => {
                    let want = "ipoib, defmember=, indx0, mtu=, rate=, sl=, scope=, Q_Key=, TClass= or FlowLabel=";
                    return Err((other.to_owned(), want));
                }
            }
        }
        let want = "a P_Key from 0x0001 to 0x7fff";
        let key = match id {
            Some(id) => number(id, 0xFFFF).ok_or_else(|| (id.to_owned(), want))? as u16 & 0x7FFF,
            None => 0,
        };
        open.key = self.key(name, key).ok_or_else(|| (header.to_owned(), want))?;
        let fresh = || Partition {
            name: name.to_owned(),
            key: open.key,
            sl: Sl::default(),
            rules: Vec::new(),
        };
        let partition = self.partitions.partitions.entry(open.key).or_insert_with(fresh);
        // Of several definitions the last one counts. Source: OpenSM (`osm_prtn_config.c`).
        partition.sl = Sl::new(open.flags.sl).unwrap_or_default();
        if is_ipoib {
            let broadcast = PresetGroup::broadcast(open.key);
            self.add_groups(broadcast.mgid, &open, open.flags, PresetGroup::IPOIB_Q_KEY);
        }
        Ok(open)
    }

    /// Returns the given key, or that of the partition with this name, or the next free one.
    fn key(&mut self, name: &str, given: u16) -> Option<u16> {
        if given != 0 {
            return Some(given);
        }
        let mut all = self.partitions.partitions.values();
        if let Some(known) = all.find(|known| !name.is_empty() && known.name == name) {
            return Some(known.key);
        }
        let mut free =
            (self.made_up + 1..Partitions::DEFAULT).filter(|key| !self.partitions.partitions.contains_key(key));
        self.made_up = free.next()?;
        Some(self.made_up)
    }

    fn members(&mut self, open: &Open, members: &str) -> Result<(), Mistake> {
        let mut rest = members;
        loop {
            let (word, more) = match rest.split_once(',') {
                Some((word, more)) => (word, Some(more)),
                None => (rest, None),
            };
            let (name, value) = name_and_value(word);
            if name == "mgid" {
                // The rest of the line describes this group.
                return self.group(open, value.unwrap_or_default(), more.unwrap_or_default());
            }
            self.member(open, name, value)?;
            let Some(more) = more else { return Ok(()) };
            rest = more;
        }
    }

    fn member(&mut self, open: &Open, name: &str, value: Option<&str>) -> Result<(), Mistake> {
        if name.is_empty() || is_short_for(name, "NONE") {
            return Ok(());
        }
        let who = match name {
            name if is_short_for(name, "ALL") => Who::All,
            name if is_short_for(name, "ALL_CAS") => Who::Kind(NodeKind::Ca),
            name if is_short_for(name, "ALL_SWITCHES") => Who::Kind(NodeKind::Switch),
            name if is_short_for(name, "ALL_ROUTERS") => Who::Kind(NodeKind::Router),
            name if is_short_for(name, "SELF") => Who::Manager,
            name => {
                let want = "a port GUID, ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS or SELF";
                let guid = number(name, u64::MAX).filter(|guid| *guid != 0);
                Who::Port(Guid(guid.ok_or_else(|| (name.to_owned(), want))?))
            }
        };
        let is_full = value.map_or(Ok(open.is_full), membership)?;
        if let Some(partition) = self.partitions.partitions.get_mut(&open.key) {
            partition.rules.push(Rule {
                who,
                is_full,
                is_first: open.is_first,
            });
        }
        Ok(())
    }

    fn group(&mut self, open: &Open, mgid: &str, words: &str) -> Result<(), Mistake> {
        let found = mgid.parse::<Ipv6Addr>().ok().map(|address| address.octets());
        let mut gid = (found.filter(|gid| gid[0] == 0xFF))
            .ok_or_else(|| (mgid.to_owned(), "a multicast GID, as ff12:401b::16"))?;
        let mut flags = open.flags;
        for (word, value) in words
            .split(',')
            .map(name_and_value)
            .filter(|(word, _)| !word.is_empty())
        {
            if !group_flag(&mut flags, word, value)? {
                return Err((
                    word.to_owned(),
                    "mtu=, rate=, sl=, scope=, Q_Key=, TClass= or FlowLabel=",
                ));
            }
        }
        // Groups of IPv4 and IPv6. Source: RFC 4391 §4.
        let is_ip = matches!(gid[2..4], [0x40, 0x1B] | [0x60, 0x1B]);
        if !is_ip {
            self.add_groups(gid, open, flags, 0);
            return Ok(());
        }
        if (flags.mtu, flags.rate) != (open.flags.mtu, open.flags.rate) {
            let want = "the MTU and rate of the partition for an IP group";
            return Err((words.to_owned(), want));
        }
        let key = open.key | 0x8000;
        let named = u16::from_be_bytes([gid[4], gid[5]]);
        if named != 0 && named != key && gid != PresetGroup::broadcast(Partitions::DEFAULT).mgid {
            return Err((
                mgid.to_owned(),
                "the partition's own P_Key, or 0, in the GID of an IP group",
            ));
        }
        gid[4..6].copy_from_slice(&key.to_be_bytes());
        self.add_groups(gid, open, flags, PresetGroup::IPOIB_Q_KEY);
        Ok(())
    }

    /// Adds a group for each scope. If several have the same GID, the first one is kept.
    fn add_groups(&mut self, mgid: [u8; 16], open: &Open, flags: Flags, q_key: u32) {
        const LINK_LOCAL: u8 = 2;
        let scopes = if flags.scopes == 0 {
            1 << LINK_LOCAL
        } else {
            flags.scopes
        };
        for scope in (0..16_u8).filter(|scope| scopes >> scope & 1 != 0) {
            let mut mgid = mgid;
            mgid[1] = mgid[1] & 0xF0 | scope;
            let group = PresetGroup {
                mgid,
                pkey: PKey(open.key | 0x8000),
                mtu: flags.mtu,
                rate: flags.rate,
                sl: flags.sl,
                q_key: if flags.q_key == 0 { q_key } else { flags.q_key },
                traffic_class: flags.traffic_class,
                flow_label: flags.flow_label,
                // Source: observed with OpenSM.
                hop_limit: if scope == LINK_LOCAL { 0 } else { 255 },
            };
            self.partitions.groups.entry(mgid).or_insert(group);
        }
    }

    fn end(mut self, text: &str) -> Partitions {
        let content = |line: &str| line.split('#').next().unwrap_or_default().trim().to_owned();
        self.partitions.statements = text.lines().map(content).filter(|line| !line.is_empty()).collect();
        // A partition without members: no port has its P_Key, and no port could join its groups.
        let empty: Vec<u16> = (self.partitions.partitions.iter())
            .filter(|(_, partition)| partition.rules.is_empty())
            .map(|(key, _)| *key)
            .collect();
        let mut kept: BTreeMap<_, _> = std::mem::take(&mut self.partitions.groups);
        kept.retain(|_, group| !empty.contains(&(group.pkey.0 & 0x7FFF)));
        self.partitions.groups = kept;
        self.partitions.partitions.retain(|key, _| !empty.contains(key));
        self.partitions
    }
}

/// True if a line among the members begins a new definition: it has a colon that does not belong to a multicast GID.
fn is_definition(part: &str) -> bool {
    let header = part.split_once(':').map(|(header, _)| header);
    header.is_some_and(|header| !header.split(',').any(|word| name_and_value(word).0 == "mgid"))
}

fn name_and_value(word: &str) -> (&str, Option<&str>) {
    match word.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (word.trim(), None),
    }
}

/// True if `word` is an abbreviation of `full`; OpenSM accepts any beginning.
fn is_short_for(word: &str, full: &str) -> bool {
    !word.is_empty() && full.starts_with(word)
}

/// Parses a number as C does: hexadecimal after 0x, octal after 0, else decimal.
fn number(text: &str, max: u64) -> Option<u64> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let value = match hex {
        Some(digits) => u64::from_str_radix(digits, 16),
        None if text.len() > 1 && text.starts_with('0') => u64::from_str_radix(text, 8),
        None => text.parse(),
    };
    value.ok().filter(|value| *value <= max)
}

/// Returns true if the word means a full member. `both` (a full and a limited P_Key for one port) works in OpenSM only
/// with allow_both_pkeys. Without that option it means full there, and always here.
fn membership(word: &str) -> Result<bool, Mistake> {
    match word {
        word if is_short_for(word, "full") || is_short_for(word, "both") => Ok(true),
        word if is_short_for(word, "limited") => Ok(false),
        other => Err((other.to_owned(), MEMBERSHIP)),
    }
}

/// Parses a flag of groups. Returns false if the word is no such flag.
fn group_flag(flags: &mut Flags, word: &str, value: Option<&str>) -> Result<bool, Mistake> {
    let value = value.unwrap_or_default();
    let value_to = |max, want| number(value, max).ok_or_else(|| (format!("{word}={value}"), want));
    match word {
        word if is_short_for(word, "mtu") => {
            let want = "mtu=1 to 5: 256, 512, 1024, 2048 or 4096 bytes";
            flags.mtu = value_to(5, want)? as u8;
            if flags.mtu == 0 {
                return Err((format!("{word}={value}"), want));
            }
        }
        word if is_short_for(word, "rate") => {
            let want = "rate=2 to 22, the code of a static rate: 3 for 10 Gbit/s";
            flags.rate = value_to(22, want)? as u8;
            if flags.rate < 2 {
                return Err((format!("{word}={value}"), want));
            }
        }
        word if is_short_for(word, "scope") => {
            let scope = value_to(15, "scope=1 to 15")?;
            flags.scopes |= 1 << scope;
        }
        word if is_short_for(word, "Q_Key") => flags.q_key = value_to(0xFFFF_FFFF, "Q_Key= with 32 bits")? as u32,
        word if is_short_for(word, "TClass") => flags.traffic_class = value_to(0xFF, "TClass=0 to 255")? as u8,
        // Without QoS OpenSM uses 0, whatever is in the file.
        word if is_short_for(word, "sl") => drop(value_to(15, "sl=0 to 15")?),
        word if is_short_for(word, "FlowLabel") => {
            flags.flow_label = value_to(0xF_FFFF, "FlowLabel= with 20 bits")? as u32;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Partitions {
        parse_partitions(text, Path::new("p.conf")).unwrap()
    }

    /// Returns partitions in a short form: P_Key, then members.
    fn show(partitions: &Partitions) -> String {
        let rule = |rule: &Rule| {
            let who = match rule.who {
                Who::All => "ALL".to_owned(),
                Who::Kind(kind) => format!("{kind:?}"),
                Who::Manager => "SELF".to_owned(),
                Who::Port(guid) => format!("{:x}", guid.0),
            };
            let first = if rule.is_first { "!" } else { "" };
            format!("{who}{}{first}", if rule.is_full { "+" } else { "-" })
        };
        let all = partitions.partitions.values().map(|p| {
            let rules: Vec<String> = p.rules.iter().map(rule).collect();
            format!("{:x} {}", p.key, rules.join(" "))
        });
        all.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn members() {
        let check = |text: &str, want: &str| assert_eq!(show(&read(text)), want, "{text}");
        check("", "7fff ALL- SELF+");
        check("Default=0x7fff : ALL, SELF=full ;", "7fff ALL- SELF+ ALL- SELF+");
        check("Default=0x7fff,ipoib:ALL=full;", "7fff ALL- SELF+ ALL+");
        check(
            "NewPartition , ipoib : 0x123456=full, 0x3456789034=limi, 0x2134af2306 ;",
            "1 123456+ 3456789034- 2134af2306-; 7fff ALL- SELF+",
        );
        check(
            "YetAnotherOne = 0x300 : SELF=full ;\nYetAnotherOne = 0x300 : ALL=limited ;",
            "300 SELF+ ALL-; 7fff ALL- SELF+",
        );
        check(
            "ShareIO = 0x80 , defmember=full : 0x123451, # a comment; here\n   0x123452=both,\n\n 17; # the end\n\
             # 0x123453\nShareIO : 0x123455=limited;A:ALL_SW=full;",
            "1 Switch+; 80 123451+ 123452+ 11+ 123455-; 7fff ALL- SELF+",
        );
        check(
            "0x8042, indx0 : ALL_CAS=full, ALL_ROUTERS",
            "42 Ca+! Router-!; 7fff ALL- SELF+",
        );
        check("Empty=5,ipoib: ;", "7fff ALL- SELF+");
    }

    #[test]
    fn groups() {
        let check = |text: &str, want: &[&str]| {
            let groups = read(text);
            let found: Vec<String> = (groups.groups.values())
                .map(|g| {
                    let gid = Ipv6Addr::from(g.mgid);
                    format!(
                        "{gid} {:x} mtu={} rate={} q={:x} hop={}",
                        g.pkey.0, g.mtu, g.rate, g.q_key, g.hop_limit
                    )
                })
                .collect();
            assert_eq!(found, want, "{text}");
        };
        check("Default=0x7fff : ALL=full;", &[]);
        check(
            "Default=0x7fff,ipoib:ALL=full;",
            &["ff12:401b:ffff::ffff:ffff ffff mtu=4 rate=3 q=b1b hop=0"],
        );
        check(
            "P=0x8001,ipoib,mtu=5,rate=7,scope=2,scope=0x5:ALL=full;",
            &[
                "ff12:401b:8001::ffff:ffff 8001 mtu=5 rate=7 q=b1b hop=0",
                "ff15:401b:8001::ffff:ffff 8001 mtu=5 rate=7 q=b1b hop=255",
            ],
        );
        check(
            "Default=0x7fff:\n mgid=ff12:401b::0707,sl=1 # random\n mgid=ff12:601b::16\n \
             mgid=ff12::1,sl=1,Q_Key=0xDEADBEEF,rate=3,mtu=2\n ALL=full;",
            &[
                "ff12::1 ffff mtu=2 rate=3 q=deadbeef hop=0",
                "ff12:401b:ffff::707 ffff mtu=4 rate=3 q=b1b hop=0",
                "ff12:601b:ffff::16 ffff mtu=4 rate=3 q=b1b hop=0",
            ],
        );
    }

    #[test]
    fn mistakes_name_line_and_what_is_right() {
        let check = |text: &str, want: &str| {
            let error = parse_partitions(text, Path::new("p.conf")).unwrap_err().to_string();
            assert!(error.starts_with("SLV-CONFIG-0007: p.conf, line "), "{error}");
            assert!(error.contains(want), "{error}");
        };
        check(
            "\nDefault=0x7fff ALL=full;",
            "line 2: 'Default=0x7fff ALL=full'; want NAME=PKEY",
        );
        check("A=0x1:ALL=ful1;", "line 1: 'ful1'; want full, limited or both");
        check("A=0x1,\nipoib:ALL;", "line 1: 'A=0x1,'; want NAME=PKEY");
        check("A=0x1:host1;", "'host1'; want a port GUID, ALL");
        check("A=0x1,ipiob:ALL;", "'ipiob'; want ipoib, defmember=");
        check("A=0x1,ipoib,mtu=9:ALL;", "'mtu=9'; want mtu=1 to 5");
        check("A=frog:ALL;", "'frog'; want a P_Key");
        // The error names the line without its end, not the line at which the parser notices.
        check(
            "Default=0x7fff,ipoib: ALL=full\nStorage=0x0002: 0x1=full;\n",
            "line 1: 'Default=0x7fff,ipoib: ALL=full'; want a ';' at the end",
        );
        check(
            "# all\nA=1:\n 0x1=full,\n 0x2 # last\n\nB=2,ipoib : ALL;\n",
            "line 2: 'A=1:'; want a ';' at the end",
        );
        check(
            "A=1:ALL;B=2:0x1\n mgid=ff12:401b::16\nC:ALL;",
            "line 1: 'B=2:0x1'; want a ';' at the end",
        );
        check("A=1:mgid=fe80::1\n", "'fe80::1'; want a multicast GID");
        check("A=1:mgid=ff12:401b:8002::1\n", "want the partition's own P_Key");
    }
}
