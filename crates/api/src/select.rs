//! Selects and orders rows of a list: the query of `GET /api/v1/nodes`, `ports` and `links`.
//!
//! A list has fields, named as the columns of its table. A condition is `FIELD=GLOB`: `*` stands for any characters,
//! `?` for one, and case does not matter. Several conditions on one field are alternatives: a row is shown if, for each
//! field with conditions, the value fits at least one of them.

use std::cmp::Reverse;

use selvedge_types::{LinkSpeed, LinkWidth, NodeKind, PortState, Rate};

use crate::{Error, ErrorKind, Link, Links, Node, Nodes, Port, Ports};

/// Name of the parameter that holds the field to sort by.
pub const SORT: &str = "sort";
/// Name of the parameter that holds the direction of sorting: `ascending` or `descending`.
pub const ORDER: &str = "order";

/// A list of which rows can be selected.
pub trait Rows {
    /// One row.
    type Row: 'static;
    /// The name of the rows in the plural: `ports`.
    const WHAT: &'static str;
    /// Every field, by name, in the order of the table's columns.
    const FIELDS: &'static [Field<Self::Row>];
    /// The rows.
    fn rows(&mut self) -> &mut Vec<Self::Row>;
}

/// A field of a list.
pub struct Field<R> {
    /// Name of the field.
    pub name: &'static str,
    /// Returns the values with which conditions are compared. Rows are sorted by the first one.
    values: fn(&R) -> Vec<Value>,
}

/// A value of a field: rows are sorted by number, then by text; conditions are compared with the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Value {
    number: u64,
    text: String,
}

impl Value {
    fn text(text: impl Into<String>) -> Self {
        Self::ranked(0, text.into())
    }

    fn number(number: impl Into<u64>) -> Self {
        let number = number.into();
        Self::ranked(number, number.to_string())
    }

    /// Returns a value with a text that is sorted by `number` and not by its letters, such as a link speed.
    const fn ranked(number: u64, text: String) -> Self {
        Self { number, text }
    }

    /// Returns the value, or `unknown` if no agent stated it. An unknown value is last in order.
    fn known(value: Option<Self>) -> Vec<Self> {
        vec![value.unwrap_or_else(|| Self::ranked(u64::MAX, "unknown".to_owned()))]
    }

    fn kind(kind: NodeKind) -> Self {
        let text = match kind {
            NodeKind::Ca => "host",
            NodeKind::Switch => "switch",
            NodeKind::Router => "router",
        };
        Self::text(text)
    }

    fn state(state: PortState) -> Self {
        Self::ranked(state.code().into(), state.to_string())
    }

    fn width(width: LinkWidth) -> Self {
        Self::ranked(width.lanes().into(), width.to_string())
    }

    fn speed(speed: LinkSpeed) -> Self {
        let text = match speed {
            LinkSpeed::Unknown => "unknown".to_owned(),
            known => known.to_string(),
        };
        Self::ranked(speed as u64, text)
    }

    fn rate(rate: Rate) -> Self {
        Self::ranked(rate.mbit_per_s().into(), rate.to_string())
    }
}

/// Returns width and speed of a port; none if its link is not trained.
fn port_rate(port: &Port) -> Option<Rate> {
    let (width, speed) = port.width.zip(port.speed)?;
    Some(Rate { width, speed })
}

/// Width and speed of a link, from their text: `4xHDR`.
fn link_rate(link: &Link) -> Option<Rate> {
    let (lanes, speed) = link.rate.as_deref()?.split_once('x')?;
    let width = LinkWidth::ALL
        .into_iter()
        .find(|width| width.lanes().to_string() == lanes)?;
    let known = LinkSpeed::ALL.into_iter().find(|of| of.to_string() == speed);
    Some(Rate {
        width,
        speed: known.unwrap_or(LinkSpeed::Unknown),
    })
}

/// Returns the value. An absent value has no text, and is last in order.
fn present(value: Option<Value>) -> Vec<Value> {
    vec![value.unwrap_or_else(|| Value::ranked(u64::MAX, String::new()))]
}

macro_rules! field {
    ($name:literal, $values:expr) => {
        Field {
            name: $name,
            values: $values,
        }
    };
}

impl Rows for Nodes {
    type Row = Node;
    const WHAT: &'static str = "nodes";
    const FIELDS: &'static [Field<Node>] = &[
        field!("guid", |node| vec![Value::text(node.guid.to_string())]),
        field!("kind", |node| vec![Value::kind(node.kind)]),
        field!("lid", |node| Value::known(node.lid.map(Value::number))),
        field!("ports", |node| vec![Value::number(node.ports)]),
        field!("active", |node| vec![Value::number(node.ports_active)]),
        field!("name", |node| vec![Value::text(&node.name)]),
    ];

    fn rows(&mut self) -> &mut Vec<Node> {
        &mut self.nodes
    }
}

impl Rows for Ports {
    type Row = Port;
    const WHAT: &'static str = "ports";
    const FIELDS: &'static [Field<Port>] = &[
        field!("node", |port| vec![Value::text(&port.node_name)]),
        field!("port", |port| vec![Value::number(port.port)]),
        field!("lid", |port| Value::known(port.lid.map(Value::number))),
        field!("state", |port| Value::known(port.state.map(Value::state))),
        field!("rate", |port| present(port_rate(port).map(Value::rate))),
        field!("mtu_bytes", |port| Value::known(port.mtu_bytes.map(Value::number))),
        field!("peer", |port| {
            present(port.peer.as_ref().map(|peer| Value::text(&peer.node_name)))
        }),
        field!("peer_port", |port| {
            present(port.peer.as_ref().map(|peer| Value::number(peer.port)))
        }),
        field!("reason", |port| present(port.reason_code.as_ref().map(Value::text))),
        field!("width", |port| present(port.width.map(Value::width))),
        field!("speed", |port| present(port.speed.map(Value::speed))),
        field!("guid", |port| {
            Value::known(port.guid.map(|guid| Value::text(guid.to_string())))
        }),
        field!("node_guid", |port| vec![Value::text(port.node_guid.to_string())]),
    ];

    fn rows(&mut self) -> &mut Vec<Port> {
        &mut self.ports
    }
}

impl Rows for Links {
    type Row = Link;
    const WHAT: &'static str = "links";
    /// `node`, `state` and `node_guid` apply to both ends, so that a link is found whichever end is named.
    const FIELDS: &'static [Field<Link>] = &[
        field!("node", |link| {
            [&link.a, &link.b].map(|end| Value::text(&end.node_name)).into()
        }),
        field!("port", |link| vec![Value::number(link.a.port)]),
        field!("state", |link| {
            let states = [link.state_a, link.state_b];
            states
                .into_iter()
                .flat_map(|state| Value::known(state.map(Value::state)))
                .collect()
        }),
        field!("rate", |link| present(link_rate(link).map(Value::rate))),
        field!("peer", |link| vec![Value::text(&link.b.node_name)]),
        field!("peer_port", |link| vec![Value::number(link.b.port)]),
        field!("peer_state", |link| Value::known(link.state_b.map(Value::state))),
        field!("width", |link| present(
            link_rate(link).map(|rate| Value::width(rate.width))
        )),
        field!("speed", |link| present(
            link_rate(link).map(|rate| Value::speed(rate.speed))
        )),
        field!("node_guid", |link| {
            [&link.a, &link.b]
                .map(|end| Value::text(end.node_guid.to_string()))
                .into()
        }),
    ];

    fn rows(&mut self) -> &mut Vec<Link> {
        &mut self.links
    }
}

/// Conditions on the rows of a list, and the order of those that fit.
pub struct Selection<T: Rows> {
    /// Fields with conditions, each with its alternative values.
    conditions: Vec<(&'static Field<T::Row>, Vec<String>)>,
    sort: Option<&'static Field<T::Row>>,
    is_descending: bool,
}

impl<T: Rows> Selection<T> {
    /// Reads the parameters of a query. An unknown name is refused: a misspelt condition must not show every row.
    pub fn of(parameters: &[(String, String)]) -> Result<Self, Error> {
        let mut selection = Self {
            conditions: Vec::new(),
            sort: None,
            is_descending: false,
        };
        for (name, value) in parameters {
            match name.as_str() {
                SORT => selection.sort = Some(Self::field(value)?),
                ORDER => selection.is_descending = is_descending(value)?,
                name => selection.add(Self::field(name)?, value),
            }
        }
        Ok(selection)
    }

    fn add(&mut self, field: &'static Field<T::Row>, glob: &str) {
        let known = self.conditions.iter_mut().find(|(of, _)| of.name == field.name);
        match known {
            Some((_, globs)) => globs.push(glob.to_owned()),
            None => self.conditions.push((field, vec![glob.to_owned()])),
        }
    }

    fn field(name: &str) -> Result<&'static Field<T::Row>, Error> {
        T::FIELDS.iter().find(|field| field.name == name).ok_or_else(|| {
            let known: Vec<_> = T::FIELDS.iter().map(|field| field.name).collect();
            let what = T::WHAT;
            ErrorKind::BadRequest.error(format!("{what} have no field '{name}': there are {}", known.join(", ")))
        })
    }

    /// Keeps the rows that fit, in the wanted order. Equal rows keep their order.
    pub fn apply(&self, list: &mut T) {
        let rows = list.rows();
        rows.retain(|row| self.fits(row));
        if let Some(field) = self.sort {
            let key = |row: &T::Row| (field.values)(row).into_iter().next();
            match self.is_descending {
                true => rows.sort_by_cached_key(|row| Reverse(key(row))),
                false => rows.sort_by_cached_key(key),
            }
        }
    }

    fn fits(&self, row: &T::Row) -> bool {
        self.conditions.iter().all(|(field, globs)| {
            let values = (field.values)(row);
            globs
                .iter()
                .any(|glob| values.iter().any(|value| is_match(glob, &value.text)))
        })
    }
}

fn is_descending(order: &str) -> Result<bool, Error> {
    match order {
        "ascending" => Ok(false),
        "descending" => Ok(true),
        other => Err(ErrorKind::BadRequest.error(format!("order={other}: want ascending or descending"))),
    }
}

/// Returns true if the whole text fits the glob: `*` is any characters, `?` one, upper and lower case are the same.
///
/// If the text for a star turns out to be too short, it is extended by one character. So the work is at most length of
/// glob × length of text.
fn is_match(glob: &str, text: &str) -> bool {
    let [glob, text] = [glob, text].map(|of| of.to_lowercase().chars().collect::<Vec<_>>());
    let (mut at, mut read) = (0, 0);
    // The last star, and the text from which the rest of the glob is matched.
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        match (glob.get(at), star) {
            (Some('*'), _) => {
                star = Some((at, read));
                at += 1;
            }
            (Some(&wanted), _) if wanted == '?' || wanted == text[read] => (at, read) = (at + 1, read + 1),
            (_, Some((place, from))) => {
                star = Some((place, from + 1));
                (at, read) = (place + 1, from + 1);
            }
            (_, None) => return false,
        }
    }
    glob[at..].iter().all(|&left| left == '*')
}

#[cfg(test)]
mod tests {
    use selvedge_types::Guid;

    use super::*;
    use crate::End;

    #[test]
    fn globs() {
        let check = |glob: &str, text: &str, want| assert_eq!(is_match(glob, text), want, "{glob} {text}");
        check("S-L1-*", "S-L1-12", true);
        check("s-l1-*", "S-L1-12", true);
        check("S-L1-?", "S-L1-12", false);
        check("*mlx5_?", "node3 HCA-1 mlx5_0", true);
        check("*a*b*c", "xxaxbxbxc", true);
        check("*a*b*c", "xxaxbxbx", false);
        check("", "", true);
        check("", "x", false);
        check("*", "", true);
        check("**x", "x", true);
        check("ACTIVE", "ACTIV", false);
        check("a", "ab", false);
        // Each star tries every place once, and not every combination of places.
        check(&format!("{}b", "a*".repeat(200)), &"a".repeat(4_000), false);
    }

    fn end(name: &str, port: u8) -> End {
        End {
            node_guid: Guid(u64::from(port)),
            node_name: name.to_owned(),
            port,
        }
    }

    fn links() -> Links {
        let link = |a: &str, b: &str, states: [Option<PortState>; 2], rate: Option<&str>| Link {
            a: end(a, 1),
            b: end(b, 2),
            state_a: states[0],
            state_b: states[1],
            rate: rate.map(str::to_owned),
        };
        let both = |state| [Some(state); 2];
        Links {
            links: vec![
                link("H-0", "leaf 1", both(PortState::Active), Some("4xHDR")),
                link("H-1", "leaf 1", both(PortState::Active), Some("12xSDR")),
                link("H-2", "leaf 2", both(PortState::Down), None),
                link("leaf 1", "spine", [Some(PortState::Init), None], Some("1x???")),
            ],
        }
    }

    /// What remains of [`links`], each by its first end, with a query as a URL has it, without its escapes.
    fn left(query: &str) -> Result<Vec<String>, String> {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let pairs: Vec<_> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut list = links();
        Selection::of(&pairs)
            .map_err(|error| error.to_string())?
            .apply(&mut list);
        Ok(list.links.into_iter().map(|link| link.a.node_name).collect())
    }

    #[test]
    fn rows_fit_all_fields_and_one_alternative_of_each() {
        let check = |query: &str, want: &[&str]| assert_eq!(left(query).unwrap(), want, "{query}");
        check("", &["H-0", "H-1", "H-2", "leaf 1"]);
        // Either end.
        check("node=leaf 1", &["H-0", "H-1", "leaf 1"]);
        check("node=leaf 1&state=active", &["H-0", "H-1"]);
        check("state=down&state=init", &["H-2", "leaf 1"]);
        check("state=unknown", &["leaf 1"]);
        check("speed=hdr", &["H-0"]);
        check("speed=unknown", &["leaf 1"]);
        check("width=1?x", &["H-1"]);
        check("rate=", &["H-2"]);
        check("node=nothing", &[]);
    }

    #[test]
    fn rates_are_sorted_by_their_bits_and_states_by_their_order() {
        let check = |query: &str, want: &[&str]| assert_eq!(left(query).unwrap(), want, "{query}");
        // 12xSDR is 30 Gbit/s, 4xHDR 212.5, as one lane of an unknown speed, which counts as XDR; no link is last.
        check("sort=rate", &["H-1", "leaf 1", "H-0", "H-2"]);
        check("sort=speed", &["H-1", "H-0", "leaf 1", "H-2"]);
        check("sort=state", &["H-2", "leaf 1", "H-0", "H-1"]);
        check("sort=state&order=descending&state=active", &["H-0", "H-1"]);
    }

    #[test]
    fn a_misspelt_name_is_refused() {
        let check = |query: &str, want: &str| {
            let said = left(query).unwrap_err();
            assert!(said.starts_with("SLV-API-0002") && said.contains(want), "{said}");
        };
        check("stat=down", "links have no field 'stat': there are node, port, state,");
        check("sort=lid", "links have no field 'lid'");
        check("order=up", "order=up: want ascending or descending");
    }
}
