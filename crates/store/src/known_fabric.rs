//! The nodes and links that a manager has found: a text file that people can read, one line each.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use selvedge_health::{Known, KnownNode, PortKey, Since};
use selvedge_sim::Time;
use selvedge_types::{Guid, NodeKind, PortNum};

/// First line of the body: the format that this version reads and writes.
const FORMAT: &str = "format 1";
/// Mark of a node or link that is present.
const THERE: &str = "-";

/// Writes nodes and links in ascending order. `unix_ms` converts times of this run to milliseconds since 1970-01-01
/// UTC.
#[must_use]
pub fn print_known_fabric(known: &Known, unix_ms: impl Fn(Time) -> u64) -> String {
    let gone = |gone: Option<Since>| match gone {
        Some(since) => since.unix_ms(&unix_ms).to_string(),
        None => THERE.to_owned(),
    };
    let mut text = format!(
        "{FORMAT}\n\
         # Written by selvedge: the nodes (kind, GUID, gone since, name) and links (two ends, gone since) that it has\n\
         # found. Times are milliseconds since 1970-01-01 UTC, {THERE} means there. 'selvedge forget NAME' removes\n\
         # what is gone.\n"
    );
    // Writing to a String cannot fail.
    for (guid, node) in &known.nodes {
        let name = node.name.escape_debug();
        let _ = writeln!(text, "{} {guid} {} {name}", kind_word(node.kind), gone(node.gone));
    }
    for (&((a, a_port), (b, b_port)), &since) in &known.links {
        let _ = writeln!(text, "link {a} {a_port} {b} {b_port} {}", gone(since));
    }
    text
}

/// Reads nodes and links. Fails with the number of the line, counted from 1, that cannot be read.
pub fn parse_known_fabric(bytes: &[u8]) -> Result<Known, usize> {
    let text = std::str::from_utf8(bytes).map_err(|_| 1_usize)?;
    let mut known = Known::default();
    let mut lines = text.lines().zip(1_usize..);
    if lines.next().is_none_or(|(first, _)| first != FORMAT) {
        return Err(1);
    }
    for (line, number) in lines.filter(|(line, _)| !line.starts_with('#')) {
        take_line(line, &mut known).ok_or(number)?;
    }
    Ok(known)
}

fn take_line(line: &str, known: &mut Known) -> Option<()> {
    let (word, rest) = line.split_once(' ')?;
    if word == "link" {
        let mut words = rest.split(' ');
        let mut end = || -> Option<PortKey> { Some((words.next()?.parse().ok()?, port(words.next()?)?)) };
        let (a, b) = (end()?, end()?);
        let gone = gone(words.next()?)?;
        return (words.next().is_none() && known.links.insert((a, b), gone).is_none()).then_some(());
    }
    let mut words = rest.splitn(3, ' ');
    let guid: Guid = words.next()?.parse().ok()?;
    let node = KnownNode {
        kind: KINDS.into_iter().find(|(_, name)| *name == word)?.0,
        gone: gone(words.next()?)?,
        name: unescape(words.next()?)?,
    };
    known.nodes.insert(guid, node).is_none().then_some(())
}

const KINDS: [(NodeKind, &str); 3] = [
    (NodeKind::Ca, "host"),
    (NodeKind::Switch, "switch"),
    (NodeKind::Router, "router"),
];

const fn kind_word(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Ca => KINDS[0].1,
        NodeKind::Switch => KINDS[1].1,
        NodeKind::Router => KINDS[2].1,
    }
}

fn port(word: &str) -> Option<PortNum> {
    word.parse().ok().and_then(PortNum::new)
}

fn gone(word: &str) -> Option<Option<Since>> {
    match word {
        THERE => Some(None),
        ms => ms.parse().ok().map(|ms| Some(Since::Calendar(ms))),
    }
}

/// Undoes `str::escape_debug`.
fn unescape(text: &str) -> Option<String> {
    let simple: BTreeMap<char, char> = [
        ('n', '\n'),
        ('r', '\r'),
        ('t', '\t'),
        ('0', '\0'),
        ('\\', '\\'),
        ('\'', '\''),
        ('"', '"'),
    ]
    .into();
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(char) = rest.next() {
        if char != '\\' {
            plain.push(char);
            continue;
        }
        let escaped = match rest.next()? {
            'u' => {
                let digits: String = rest.by_ref().skip(1).take_while(|char| *char != '}').collect();
                char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
            }
            other => *simple.get(&other)?,
        };
        plain.push(escaped);
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read() {
        let port = |n| PortNum::new(n).unwrap();
        let node = |kind, name: &str, gone| KnownNode {
            kind,
            name: name.to_owned(),
            gone,
        };
        let gone = Some(Since::Calendar(1_700_000_000_123));
        let known = Known {
            nodes: BTreeMap::from([
                (Guid(1), node(NodeKind::Switch, "spine 1", None)),
                (Guid(2), node(NodeKind::Ca, "a \"b\" \\ c\n\u{202e}\u{7f} é '", gone)),
                (Guid(3), node(NodeKind::Router, "", None)),
            ]),
            links: BTreeMap::from([
                (((Guid(1), port(1)), (Guid(2), port(1))), gone),
                (((Guid(1), port(254)), (Guid(3), port(2))), None),
            ]),
        };
        let text = print_known_fabric(&known, |_| 0);
        assert_eq!(parse_known_fabric(text.as_bytes()), Ok(known));
        // Times of this run are written by the calendar.
        let mut of_run = Known::default();
        let since = Since::Run(Time(5_000_000));
        of_run.nodes.insert(Guid(9), node(NodeKind::Ca, "h", Some(since)));
        let text = print_known_fabric(&of_run, |time| 1_000 + time.0 / 1_000_000);
        let read = parse_known_fabric(text.as_bytes()).unwrap();
        assert_eq!(read.nodes[&Guid(9)].gone, Some(Since::Calendar(1_005)));
    }

    #[test]
    fn what_is_not_ours_is_refused_with_its_line() {
        let check = |text: &str, line: usize| assert_eq!(parse_known_fabric(text.as_bytes()), Err(line), "{text}");
        check("", 1);
        check("format 2\n", 1);
        check("format 1\nfoo 0x1 - a\n", 2);
        check("format 1\n# c\nhost 0x1 - a\nhost 0x1 - b\n", 4);
        check("format 1\nhost 1g - a\n", 2);
        check("format 1\nhost 0x1 x a\n", 2);
        check("format 1\nhost 0x1 - \\q\n", 2);
        check("format 1\nlink 0x1 1 0x2 255 -\n", 2);
        check("format 1\nlink 0x1 1 0x2 1\n", 2);
        assert_eq!(parse_known_fabric(b"\xff"), Err(1));
    }
}
