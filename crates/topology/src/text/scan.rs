//! Parses lines into records, without comparing them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use selvedge_types::{Guid, LinkSpeed, LinkWidth, NodeKind, Rate};

use super::line::{
    guid_in_parentheses, guid_of_id, leading_number, looks_like_rate, number_after, number_in_brackets, outer_quoted,
    quoted, read_rate, speed_of_bits, width_of_bits, without_ext,
};
use super::{FileError, Place, Warning, shorten};
use crate::generate::{NODES_MAX, PORTS_MAX};

/// A node in the file.
#[derive(Clone, Debug)]
pub struct Record<'t> {
    /// Line of the header.
    pub line: usize,
    /// Kind of node.
    pub kind: NodeKind,
    /// Id of the node in port lines.
    pub id: Cow<'t, str>,
    /// Number of external ports, 1–254.
    pub ports: u8,
    /// NodeDescription.
    pub description: &'t str,
    /// GUID of the node.
    pub guid: Guid,
    /// GUID of a switch's management port.
    pub management_guid: Option<Guid>,
    /// GUID of the node's system.
    pub system_guid: Option<Guid>,
    /// Vendor.
    pub vendor: u32,
    /// Device.
    pub device: u16,
    /// Switches: `enhanced port 0` or `base port 0`, if stated.
    pub enhanced: Option<bool>,
    /// Switches: LID and LMC.
    pub lid: Option<(u64, u64)>,
    /// Port lines of the node.
    pub cables: Vec<Cable<'t>>,
}

/// A port line.
#[derive(Clone, Debug)]
pub struct Cable<'t> {
    /// Line of the port.
    pub line: usize,
    /// The port.
    pub port: u8,
    /// GUID of the port.
    pub guid: Option<Guid>,
    /// The other end; `None` if the line only defines an alias for the port.
    pub peer: Option<Peer<'t>>,
    /// LID and LMC of this port.
    pub lid: Option<(u64, u64)>,
    /// Rate of the link.
    pub rate: Option<Rate>,
    /// Text in place of a rate, if it has no width.
    pub unreadable: Option<&'t str>,
    /// PortInfo.VLCap.
    pub vls: Option<u8>,
}

/// The other end of a cable.
#[derive(Clone, Debug)]
pub struct Peer<'t> {
    /// Id of the node, or alias of the port.
    pub id: Cow<'t, str>,
    /// Port of the peer; unused for an alias.
    pub port: u32,
    /// GUID of the peer's port.
    pub guid: Option<Guid>,
    /// LID of the peer's port.
    pub lid: Option<u64>,
}

/// The contents of a file.
#[derive(Debug, Default)]
pub struct Scanned<'t> {
    /// Nodes of the file, in order.
    pub records: Vec<Record<'t>>,
    /// Ports with aliases (`module@alias`): node by index, port.
    pub aliases: BTreeMap<String, (usize, u8)>,
    /// Warnings about the file.
    pub warnings: Vec<Warning>,
}

/// Parses all lines.
pub fn scan<'t>(file: &str, text: &'t str) -> Result<Scanned<'t>, FileError> {
    let mut scanner = Scanner::new(file);
    for (at, line) in text.lines().enumerate() {
        scanner.line = at + 1;
        scanner.read(line.trim())?;
    }
    let mut scanned = scanner.scanned;
    if let Some((line, text, count)) = scanner.ignored {
        scanned.warnings.push(Warning::IgnoredLines {
            place: Place {
                file: file.to_owned(),
                line,
            },
            text,
            more: count - 1,
        });
    }
    Ok(scanned)
}

/// Returns the id in a header line.
pub fn header_id(line: &str) -> Option<String> {
    let (_, rest) = header_kind(line.trim())?;
    quoted(rest).map(|(id, _)| id.to_owned())
}

/// Parses `Switch`, `Ca`, `Hca`, `Rt` at the start of a line. Returns the kind and the rest.
fn header_kind(line: &str) -> Option<(NodeKind, &str)> {
    [
        ("Switch", NodeKind::Switch),
        ("Ca", NodeKind::Ca),
        ("Hca", NodeKind::Ca),
        ("Rt", NodeKind::Router),
    ]
    .into_iter()
    .find_map(|(word, kind)| Some((kind, line.strip_prefix(word)?)))
    .filter(|(_, rest)| rest.starts_with([' ', '\t']))
}

/// Generates GUIDs for nodes that have none, counted as in ibsim.
#[derive(Debug)]
struct GuidCounter {
    base: u64,
    next: u64,
    /// True if a line since the last node has set the GUID.
    is_fresh: bool,
}

impl GuidCounter {
    const fn new(base: u64) -> Self {
        Self {
            base,
            next: base,
            is_fresh: false,
        }
    }
}

/// Assignments before a header; they belong to its node.
#[derive(Debug, Default)]
struct Pending {
    vendor: u32,
    device: u16,
    system_guid: Option<Guid>,
    management_guid: Option<Guid>,
}

struct Scanner<'a, 't> {
    file: &'a str,
    line: usize,
    scanned: Scanned<'t>,
    pending: Pending,
    switch_guids: GuidCounter,
    ca_guids: GuidCounter,
    router_guids: GuidCounter,
    /// ibsim's `module`, a prefix of ids.
    module: &'t str,
    width: Option<LinkWidth>,
    speeds: u64,
    extended_speeds: u64,
    /// Number of ports of all nodes so far.
    port_count: u64,
    /// First ignored line, its text, and the number of ignored lines.
    ignored: Option<(usize, String, usize)>,
}

impl<'a, 't> Scanner<'a, 't> {
    fn new(file: &'a str) -> Self {
        // First GUIDs as in ibsim; routers have no range of their own.
        let (switches, others) = (0x20_0000, 0x10_0000);
        Self {
            file,
            line: 0,
            scanned: Scanned::default(),
            pending: Pending::default(),
            switch_guids: GuidCounter::new(switches),
            ca_guids: GuidCounter::new(others),
            router_guids: GuidCounter::new(0x30_0000),
            module: "",
            width: None,
            speeds: 0,
            extended_speeds: 0,
            port_count: 0,
            ignored: None,
        }
    }

    fn read(&mut self, line: &'t str) -> Result<(), FileError> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some((kind, rest)) = header_kind(line) {
            return self.header(kind, rest);
        }
        if line.starts_with('[') || line.starts_with("@[") {
            return self.port(line);
        }
        let word_end = line.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(line.len());
        let (word, rest) = line.split_at(word_end);
        match (word, rest.trim_start().chars().next()) {
            ("include", _) => Err(self.syntax(line, "one file: put the included file's text in place of this line")),
            (_, Some('=' | '+')) => self.assignment(word, rest.trim_start(), line),
            // Lines that `ibnetdiscover --grouping` and ibsim's console write between nodes.
            ("Chassis" | "Non" | "Hostname" | "do", _) => Ok(()),
            _ => {
                self.ignore(line);
                Ok(())
            }
        }
    }

    fn ignore(&mut self, line: &str) {
        match &mut self.ignored {
            Some((_, _, count)) => *count += 1,
            None => self.ignored = Some((self.line, shorten(line), 1)),
        }
    }

    fn assignment(&mut self, word: &str, rest: &'t str, line: &'t str) -> Result<(), FileError> {
        // `rest` starts with '=' or '+', both one byte long.
        let (is_relative, value) = (rest.starts_with('+'), &rest[1..]);
        if word == "module" {
            let name = quoted(value).map(|(name, _)| name);
            self.module = name.ok_or_else(|| self.syntax(line, "module=\"name\""))?;
            return Ok(());
        }
        let is_known = matches!(
            word,
            "vendid"
                | "devid"
                | "sysimgguid"
                | "switchguid"
                | "caguid"
                | "hcaguids"
                | "rtguid"
                | "width"
                | "speed"
                | "extspeed"
        );
        if !is_known {
            // ibsim's "pdebug" and other assignments.
            self.ignore(line);
            return Ok(());
        }
        let (number, after) = leading_number(value).ok_or_else(|| self.syntax(line, "a number after the sign"))?;
        let counter = match word {
            // Vendor ids have 24 bits, device ids 16; higher bits are dropped.
            "vendid" => return self.set(|s| s.pending.vendor = (number & 0xFF_FFFF) as u32),
            "devid" => return self.set(|s| s.pending.device = (number & 0xFFFF) as u16),
            "sysimgguid" => return self.set(|s| s.pending.system_guid = Some(Guid(number))),
            "width" => {
                let width = self.width(number, line)?;
                return self.set(|s| s.width = width);
            }
            "speed" => return self.set(|s| s.speeds = number),
            "extspeed" => return self.set(|s| s.extended_speeds = number),
            "switchguid" => {
                self.pending.management_guid = guid_in_parentheses(after).map(|(guid, _)| guid);
                &mut self.switch_guids
            }
            "rtguid" => &mut self.router_guids,
            _ => &mut self.ca_guids,
        };
        if is_relative {
            counter.next = counter.base.wrapping_add(number);
        } else {
            (counter.base, counter.next) = (number, number);
        }
        counter.is_fresh = true;
        Ok(())
    }

    fn set(&mut self, change: impl FnOnce(&mut Self)) -> Result<(), FileError> {
        change(self);
        Ok(())
    }

    fn header(&mut self, kind: NodeKind, rest: &'t str) -> Result<(), FileError> {
        let want = "a kind, a number of ports (1-254) and an id, as in: Switch 36 \"name\"";
        let text = rest.trim_start();
        if text.starts_with(": 0x") {
            let want = "a topology: run ibnetdiscover without -l, -S, -H or -R";
            return Err(self.syntax(rest, want));
        }
        let (ports, after) = leading_number(text).ok_or_else(|| self.syntax(rest, want))?;
        let ports = u8::try_from(ports).ok().filter(|n| (1..=254).contains(n));
        let ports = ports.ok_or_else(|| self.syntax(rest, want))?;
        let (id, after) = quoted(after)
            .filter(|(id, _)| !id.is_empty())
            .ok_or_else(|| self.syntax(rest, want))?;
        self.check_size(ports)?;
        let comment = after.split_once('#').map_or("", |(_, comment)| comment);
        let (_, quoted, tail) = outer_quoted(comment);
        let description = quoted.unwrap_or_else(|| unquoted_description(comment));
        let tail = if quoted.is_some() { tail } else { comment };
        let guid = self.node_guid(kind, id, ports);
        let pending = std::mem::take(&mut self.pending);
        self.scanned.records.push(Record {
            line: self.line,
            kind,
            id: self.qualified(id),
            ports,
            description: if description.is_empty() { id } else { description },
            guid,
            management_guid: pending.management_guid,
            system_guid: pending.system_guid,
            vendor: pending.vendor,
            device: pending.device,
            enhanced: match (tail.contains("enhanced port 0"), tail.contains("base port 0")) {
                (true, _) => Some(true),
                (false, true) => Some(false),
                (false, false) => None,
            },
            lid: number_after(tail, "lid").map(|lid| (lid, number_after(tail, "lmc").unwrap_or(0))),
            cables: Vec::new(),
        });
        Ok(())
    }

    /// Checks the size, because a short line can request much memory.
    fn check_size(&mut self, ports: u8) -> Result<(), FileError> {
        self.port_count += u64::from(ports) + 1;
        let nodes = self.scanned.records.len() as u64 + 1;
        for (what, count, limit) in [("nodes", nodes, NODES_MAX), ("ports", self.port_count, PORTS_MAX)] {
            if count > limit {
                let place = place(self.file, self.line);
                return Err(FileError::TooBig { place, what, limit });
            }
        }
        Ok(())
    }

    fn node_guid(&mut self, kind: NodeKind, id: &str, ports: u8) -> Guid {
        let (counter, taken) = match kind {
            NodeKind::Switch => (&mut self.switch_guids, 1),
            NodeKind::Ca => (&mut self.ca_guids, u64::from(ports) + 1),
            NodeKind::Router => (&mut self.router_guids, u64::from(ports) + 1),
        };
        let is_fresh = std::mem::take(&mut counter.is_fresh);
        if let Some(guid) = guid_of_id(id).filter(|_| !is_fresh) {
            return guid;
        }
        let guid = Guid(counter.next);
        counter.next = counter.next.wrapping_add(taken);
        guid
    }

    /// Returns an id with the module as prefix, as ibsim writes it.
    fn qualified(&self, id: &'t str) -> Cow<'t, str> {
        if self.module.is_empty() || id.contains(['#', '@']) {
            Cow::Borrowed(id)
        } else {
            Cow::Owned(format!("{}#{id}", self.module))
        }
    }

    fn port(&mut self, line: &'t str) -> Result<(), FileError> {
        let want = "a port and its peer, as in: [1] \"S-0002c90000000001\"[12]";
        let Some(node) = self.scanned.records.len().checked_sub(1) else {
            return Err(self.syntax(
                line,
                "a node before its ports; the file's beginning seems to be missing",
            ));
        };
        let is_alias = line.starts_with('@');
        let (body, comment) = split_comment(line.trim_start_matches('@'));
        let (number, after) = number_in_brackets(body).ok_or_else(|| self.syntax(line, want))?;
        let (ports, id) = (self.scanned.records[node].ports, &self.scanned.records[node].id);
        let port = u8::try_from(number).ok().filter(|n| (1..=ports).contains(n));
        let port = port.ok_or_else(|| self.no_such_port(id, number, ports))?;
        let after = without_ext(after);
        let (guid, after) = split_guid(after);
        let (name, after) = quoted(after).ok_or_else(|| self.syntax(line, want))?;
        let mut cable = Cable {
            line: self.line,
            port,
            guid,
            peer: None,
            lid: None,
            rate: None,
            unreadable: None,
            vls: None,
        };
        if is_alias {
            let alias = format!("{}@{name}", self.module);
            self.scanned.aliases.insert(alias, (node, port));
        } else {
            let (peer_port, after) = number_in_brackets(after).unwrap_or((1, after));
            let (guid, after) = split_guid(without_ext(after));
            self.comment(comment, after, &mut cable)?;
            let lid = number_after(outer_quoted(comment).2, "lid");
            cable.peer = Some(Peer {
                id: self.peer_id(name),
                port: u32::try_from(peer_port).unwrap_or(u32::MAX),
                guid,
                lid,
            });
        }
        self.scanned.records[node].cables.push(cable);
        Ok(())
    }

    fn peer_id(&self, name: &'t str) -> Cow<'t, str> {
        match name.strip_prefix('@') {
            Some(_) => Cow::Owned(format!("{}{name}", self.module)),
            None => self.qualified(name),
        }
    }

    /// Parses rate, lanes and LIDs: `# lid 4 lmc 0 "description" lid 6 4xEDR s=4 w=2 v=4`, or ibsim's options before
    /// the `#`.
    fn comment(&mut self, comment: &'t str, options: &'t str, cable: &mut Cable<'t>) -> Result<(), FileError> {
        let (own, quoted, tail) = outer_quoted(comment);
        if quoted.is_some() {
            cable.lid = number_after(own, "lid").map(|lid| (lid, number_after(own, "lmc").unwrap_or(0)));
        }
        let (mut width, mut speeds, mut extended) = (self.width, self.speeds, self.extended_speeds);
        let mut has_bits = false;
        for word in options.split_ascii_whitespace().chain(tail.split_ascii_whitespace()) {
            if let Some((name, value)) = word.split_once('=') {
                let number = leading_number(value).map_or(0, |(n, _)| n);
                has_bits |= matches!(name, "w" | "s" | "e");
                match name {
                    "w" => width = self.width(number, word)?,
                    "s" => speeds = number,
                    "e" => extended = number,
                    "v" => cable.vls = u8::try_from(number).ok().filter(|v| (1..=5).contains(v)),
                    _ => {}
                }
            } else if looks_like_rate(word) {
                cable.rate = read_rate(word);
                cable.unreadable = cable.rate.is_none().then_some(word);
                self.warn_of_rate(cable.rate, word);
            }
        }
        let states_bits = has_bits || self.width.is_some() || self.speeds | self.extended_speeds != 0;
        if cable.rate.is_none() && cable.unreadable.is_none() && states_bits {
            cable.rate = Some(Rate {
                width: width.unwrap_or(LinkWidth::X4),
                speed: speed_of_bits(speeds, extended).unwrap_or(LinkSpeed::Sdr),
            });
            self.warn_of_rate(cable.rate, &format!("s={speeds} e={extended}"));
        }
        Ok(())
    }

    fn warn_of_rate(&mut self, rate: Option<Rate>, word: &str) {
        if rate.is_none_or(|rate| rate.speed == LinkSpeed::Unknown) {
            self.scanned.warnings.push(Warning::UnknownRate {
                place: place(self.file, self.line),
                rate: shorten(word),
            });
        }
    }

    /// Returns the width in an ibsim bit set; `None` for 0, which means no width.
    fn width(&self, bits: u64, text: &str) -> Result<Option<LinkWidth>, FileError> {
        let want = "a width: 1 (1x), 2 (4x), 4 (8x), 8 (12x), 16 (2x), or a sum of these";
        match (bits, width_of_bits(bits)) {
            (0, _) => Ok(None),
            (_, None) => Err(self.syntax(text, want)),
            (_, width) => Ok(width),
        }
    }

    fn syntax(&self, what: &str, want: &'static str) -> FileError {
        FileError::Syntax {
            place: place(self.file, self.line),
            what: format!("cannot read '{}'", shorten(what)),
            want,
        }
    }

    fn no_such_port(&self, node: &str, port: u64, count: u8) -> FileError {
        FileError::NoSuchPort {
            place: place(self.file, self.line),
            node: node.to_owned(),
            port: u32::try_from(port).unwrap_or(u32::MAX),
            count,
        }
    }
}

fn place(file: &str, line: usize) -> Place {
    Place {
        file: file.to_owned(),
        line,
    }
}

/// Returns the parts before and after the first `#` that is not inside quotes.
fn split_comment(line: &str) -> (&str, &str) {
    let mut in_quotes = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => in_quotes = !in_quotes,
            '#' if !in_quotes => return (&line[..at], &line[at + 1..]),
            _ => {}
        }
    }
    (line, "")
}

fn split_guid(text: &str) -> (Option<Guid>, &str) {
    guid_in_parentheses(text).map_or((None, text), |(guid, rest)| (Some(guid), rest))
}

/// Returns a description without quotes, which ends where the rest of the comment begins.
fn unquoted_description(comment: &str) -> &str {
    let end = [" enhanced port ", " base port ", " lid ", " lmc "]
        .iter()
        .filter_map(|word| comment.find(word))
        .min();
    comment[..end.unwrap_or(comment.len())].trim()
}
