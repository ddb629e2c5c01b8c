//! Splits a policy file into tokens.
//!
//! OpenSM's lexer takes the longest word that it knows at each place, and changes the meaning of digits, dashes and
//! colons by the keyword before them on the line. So this lexer does the same. Keywords are lower-case; kinds of nodes
//! and ULPs are accepted in any case.

/// A keyword that opens or closes a section, or stands alone.
const SECTIONS: [&str; 24] = [
    "qos-ulps",
    "end-qos-ulps",
    "port-groups",
    "end-port-groups",
    "port-group",
    "end-port-group",
    "qos-setup",
    "end-qos-setup",
    "vlarb-tables",
    "end-vlarb-tables",
    "vlarb-scope",
    "end-vlarb-scope",
    "sl2vl-tables",
    "end-sl2vl-tables",
    "sl2vl-scope",
    "end-sl2vl-scope",
    "qos-levels",
    "end-qos-levels",
    "qos-level",
    "end-qos-level",
    "qos-match-rules",
    "end-qos-match-rules",
    "qos-match-rule",
    "end-qos-match-rule",
];

/// What follows a key on its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// A text with its blanks.
    Description,
    /// Texts without blanks.
    Texts,
    /// Kinds of nodes.
    NodeTypes,
    /// Numbers.
    Numbers,
}

/// Keys, which a colon follows, and what follows that.
const KEYS: [(&str, Value); 27] = [
    ("port-guid", Value::Numbers),
    ("port-name", Value::Texts),
    ("partition", Value::Texts),
    ("node-type", Value::NodeTypes),
    ("name", Value::Texts),
    ("use", Value::Description),
    ("group", Value::Texts),
    ("vlarb-high", Value::Numbers),
    ("vlarb-low", Value::Numbers),
    ("vl-high-limit", Value::Numbers),
    ("to", Value::Numbers),
    ("from", Value::Numbers),
    ("across-to", Value::Texts),
    ("across-from", Value::Texts),
    ("across", Value::Texts),
    ("sl2vl-table", Value::Numbers),
    ("sl", Value::Numbers),
    ("mtu-limit", Value::Numbers),
    ("rate-limit", Value::Numbers),
    ("packet-life", Value::Numbers),
    ("path-bits", Value::Numbers),
    ("qos-class", Value::Numbers),
    ("source", Value::Texts),
    ("destination", Value::Texts),
    ("service-id", Value::Numbers),
    ("pkey", Value::Numbers),
    ("qos-level-name", Value::Texts),
];

/// Kinds of nodes.
const NODE_TYPES: [&str; 5] = ["ROUTER", "CA", "SWITCH", "SELF", "ALL"];

/// ULPs that a colon follows.
const PLAIN_ULPS: [&str; 5] = ["default", "sdp", "rds", "iser", "ipoib"];

/// ULPs that a comma and a criterion follow.
const ULPS_WITH: [(&str, &str); 10] = [
    ("any", "service-id"),
    ("any", "pkey"),
    ("any", "target-port-guid"),
    ("any", "source-port-guid"),
    ("any", "source-target-port-guid"),
    ("sdp", "port-num"),
    ("rds", "port-num"),
    ("iser", "port-num"),
    ("srp", "target-port-guid"),
    ("ipoib", "pkey"),
];

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A piece of text.
    Text,
    /// A number.
    Number,
    /// `-`
    Dash,
    /// `:`
    Colon,
    /// `,`
    Comma,
    /// `*`
    Star,
    /// A keyword that opens or closes a section.
    Section(&'static str),
    /// A key with its colon.
    Key(&'static str),
    /// A kind of node, of `NODE_TYPES`.
    NodeType(&'static str),
    /// A ULP with its colon, or with its criterion; the criterion is empty for the former.
    Ulp(&'static str, &'static str),
    /// The end of the file.
    End,
}

/// A token and its place.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub kind: Kind,
    /// The text of a text or a number.
    pub text: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Offset in the file.
    pub at: usize,
    /// True if only blanks stand before it on its line.
    pub is_first: bool,
}

/// What was found at a place, and how long it is.
struct Found {
    kind: Option<Kind>,
    length: usize,
    value: Option<Value>,
}

/// Returns the tokens of a file; the last one is the end.
pub(super) fn tokens(file: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    // The values that keys of the current line announced.
    let mut announced: Vec<Value> = Vec::new();
    let (mut at, mut line, mut is_first) = (0, 1, true);
    while at < file.len() {
        let rest = &file[at..];
        let found = longest(rest, &announced);
        let piece = &rest[..found.length];
        if let Some(kind) = found.kind {
            let quoted = piece.len() > 1 && piece.starts_with('"');
            let text = if quoted { &piece[1..piece.len() - 1] } else { piece };
            tokens.push(Token {
                kind,
                text: text.to_owned(),
                line,
                at,
                is_first,
            });
            is_first = false;
        }
        announced.extend(found.value);
        line += piece.matches('\n').count();
        // A quoted text may go on over lines; it ends none.
        if piece.ends_with('\n') {
            announced.clear();
            is_first = true;
        }
        at += found.length;
    }
    tokens.push(Token {
        kind: Kind::End,
        text: String::new(),
        line,
        at: file.len(),
        is_first,
    });
    tokens
}

/// Returns what stands at the beginning of `rest`.
fn longest(rest: &str, announced: &[Value]) -> Found {
    let skip = |length| Found {
        kind: None,
        length,
        value: None,
    };
    let is_description = announced.contains(&Value::Description);
    let is_text = is_description || announced.contains(&Value::Texts);
    match rest.as_bytes()[0] {
        b'\n' => return skip(1),
        b'#' => return skip(rest.find('\n').map_or(rest.len(), |end| end + 1)),
        b' ' | b'\t' => {
            let length = blanks(rest);
            return match rest.as_bytes().get(length) {
                Some(b'\n') => skip(length + 1),
                _ if is_description => plain(Kind::Text, length),
                _ => skip(length),
            };
        }
        b'"' => {
            if let Some(end) = rest[1..].find('"') {
                return plain(Kind::Text, end + 2);
            }
        }
        _ => {}
    }
    if let Some(word) = keyword(rest) {
        return match word.kind {
            // Keywords have no meaning in a description.
            Some(_) if is_description => plain(Kind::Text, word.length),
            Some(Kind::NodeType(_)) if !announced.contains(&Value::NodeTypes) => plain(Kind::Text, word.length),
            _ => word,
        };
    }
    let digits = digits(rest);
    if digits > 0 {
        return plain(if is_text { Kind::Text } else { Kind::Number }, digits);
    }
    let of_sign = |sign| if is_text { Kind::Text } else { sign };
    match rest.as_bytes()[0] {
        b'-' => plain(of_sign(Kind::Dash), 1),
        b':' => plain(of_sign(Kind::Colon), 1),
        b'*' => plain(of_sign(Kind::Star), 1),
        b',' => plain(if is_description { Kind::Text } else { Kind::Comma }, 1),
        _ => plain(Kind::Text, rest.chars().next().map_or(1, char::len_utf8)),
    }
}

const fn plain(kind: Kind, length: usize) -> Found {
    Found {
        kind: Some(kind),
        length,
        value: None,
    }
}

fn blanks(text: &str) -> usize {
    text.len() - text.trim_start_matches([' ', '\t']).len()
}

/// Returns the length of a number at the beginning of `rest`, 0 if there is none.
fn digits(rest: &str) -> usize {
    let hex = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X"));
    let length = |text: &str, radix| text.chars().take_while(|c| c.is_digit(radix)).count();
    match hex.map(|hex| length(hex, 16)) {
        Some(hex) if hex > 0 => hex + 2,
        _ => length(rest, 10),
    }
}

/// Returns the longest keyword at the beginning of `rest`.
fn keyword(rest: &str) -> Option<Found> {
    let sections = SECTIONS.into_iter().filter(|word| rest.starts_with(word));
    let sections = sections.map(|word| (Kind::Section(word), word.len(), None));
    let keys = KEYS.into_iter().filter_map(|(word, value)| {
        let length = word.len() + sign(rest.strip_prefix(word)?, ':')?;
        Some((Kind::Key(word), length, Some(value)))
    });
    let kinds = NODE_TYPES.into_iter().filter(|word| in_any_case(rest, word).is_some());
    let kinds = kinds.map(|word| (Kind::NodeType(word), word.len(), None));
    let plain = PLAIN_ULPS.into_iter().filter_map(|word| {
        let length = word.len() + sign(in_any_case(rest, word)?, ':')?;
        Some((Kind::Ulp(word, ""), length, Some(Value::Numbers)))
    });
    let with = ULPS_WITH.into_iter().filter_map(|(word, criterion)| {
        let after = in_any_case(rest, word)?;
        let comma = sign(after, ',')?;
        after[comma..].starts_with(criterion).then_some(())?;
        let length = word.len() + comma + criterion.len();
        Some((Kind::Ulp(word, criterion), length, Some(Value::Numbers)))
    });
    let all = sections.chain(keys).chain(kinds).chain(plain).chain(with);
    let (kind, length, value) = all.max_by_key(|(_, length, _)| *length)?;
    Some(Found {
        kind: Some(kind),
        length,
        value,
    })
}

/// Returns the length of a sign with the blanks around it.
fn sign(rest: &str, sign: char) -> Option<usize> {
    let before = blanks(rest);
    let after = rest[before..].strip_prefix(sign)?;
    Some(before + sign.len_utf8() + blanks(after))
}

/// Returns the text after a word in upper or lower case.
fn in_any_case<'a>(rest: &'a str, word: &str) -> Option<&'a str> {
    let head = rest.get(..word.len())?;
    head.eq_ignore_ascii_case(word).then(|| &rest[word.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(file: &str) -> String {
        let tokens = tokens(file);
        let all = tokens.iter().map(|token| match token.kind {
            Kind::Text => format!("'{}'", token.text),
            Kind::Number => token.text.clone(),
            Kind::Dash => "-".to_owned(),
            Kind::Colon => ":".to_owned(),
            Kind::Comma => ",".to_owned(),
            Kind::Star => "*".to_owned(),
            Kind::Section(word) => format!("<{word}>"),
            Kind::Key(word) => format!("<{word}:>"),
            Kind::NodeType(word) => format!("<{word}>"),
            Kind::Ulp(word, criterion) => format!("<{word},{criterion}>"),
            Kind::End => format!("end@{}", token.line),
        });
        all.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_key_on_a_line_gives_signs_their_meaning() {
        let check = |file: &str, want: &str| assert_eq!(show(file), want, "{file}");
        check("sl : 0x1F\n", "<sl:> 0x1F end@2");
        check("pkey: 1-2, 3 # note\n", "<pkey:> 1 - 2 , 3 end@2");
        check("name: a1-b\n", "<name:> 'a' '1' '-' 'b' end@2");
        check(
            "use: a: sl: 3, x # y\n",
            "<use:> 'a' ':' ' ' 'sl: ' '3' ',' ' ' 'x' ' ' end@2",
        );
        check("port-name: \"vs 1/P1\",b\n", "<port-name:> 'vs 1/P1' , 'b' end@2");
        check("from: *\n", "<from:> * end@2");
        check("node-type: Ca,self\n", "<node-type:> <CA> , <SELF> end@2");
        check("source: all\n", "<source:> 'all' end@2");
        check("port-groups\nport-group", "<port-groups> <port-group> end@2");
        check("qos-level-name: x", "<qos-level-name:> 'x' end@1");
    }

    #[test]
    fn ulps() {
        let check = |file: &str, want: &str| assert_eq!(show(file), want, "{file}");
        check("DEFAULT:3\n", "<default,> 3 end@2");
        check(
            "Sdp , port-num 10000-20000 : 1",
            "<sdp,port-num> 10000 - 20000 : 1 end@1",
        );
        check("any,service-id 0x6234: 6", "<any,service-id> 0x6234 : 6 end@1");
        check("iser:4", "<iser,> 4 end@1");
        check(
            "SRP, target-port-guid 0x1234 : 5",
            "<srp,target-port-guid> 0x1234 : 5 end@1",
        );
        // Only ULP names are accepted in upper case.
        check("any, Pkey", "'a' 'n' 'y' , 'P' 'k' 'e' 'y' end@1");
    }
}
