//! What settings there are, and which values they take.

use std::fmt;

use crate::error::FieldError;

/// One setting of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Its name in files; the flag of the command without its dashes.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What it is, with its unit, in one line.
    pub help: &'static str,
}

/// What a setting takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Any text; the runner looks at it.
    Text,
    /// One of these.
    Choice(&'static [&'static str]),
    /// A whole number in a range, both ends included.
    Whole {
        /// The least.
        min: i64,
        /// The most.
        max: i64,
    },
    /// A number in a range, both ends included.
    Real {
        /// The least.
        min: f64,
        /// The most.
        max: f64,
    },
    /// True or false.
    Flag,
}

/// A value of a setting.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// A number.
    Real(f64),
    /// True or false.
    Flag(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Real(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{flag}"),
        }
    }
}

impl Value {
    /// As a number, where it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Real(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
            Self::Flag(_) => None,
        }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Whole(number) => (*number).into(),
            Self::Real(number) => (*number).into(),
            Self::Flag(flag) => (*flag).into(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("text"),
            Self::Choice(names) => write!(f, "one of {}", names.join(", ")),
            Self::Whole { min, max } => write!(f, "a whole number from {min} to {max}"),
            Self::Real { min, max } => write!(f, "a number from {min} to {max}"),
            Self::Flag => f.write_str("true or false"),
        }
    }
}

/// All settings of a runner.
#[derive(Clone, Copy, Debug)]
pub struct Schema(pub &'static [Field]);

impl Schema {
    /// Checks a value as it stands in a file.
    pub fn check(&self, name: &str, value: &toml::Value) -> Result<Value, FieldError> {
        let field = self.find(name)?;
        let wrong = || FieldError::Value {
            field: name.to_owned(),
            found: shown(value),
            want: field.kind.to_string(),
        };
        let is_in = |number: f64, min: f64, max: f64| (min..=max).contains(&number);
        match (field.kind, value) {
            (Kind::Text, toml::Value::String(text)) => Ok(Value::Text(text.clone())),
            // `links_lost = 3` where text as "1%" is taken, too.
            (Kind::Text, toml::Value::Integer(number)) => Ok(Value::Text(number.to_string())),
            (Kind::Choice(names), toml::Value::String(text)) if names.contains(&text.as_str()) => {
                Ok(Value::Text(text.clone()))
            }
            (Kind::Choice(names), toml::Value::String(text)) => Err(FieldError::Choice {
                field: name.to_owned(),
                found: text.clone(),
                meant: nearest(text, names.iter().copied()),
                known: names.join(", "),
            }),
            (Kind::Whole { min, max }, toml::Value::Integer(number)) if (min..=max).contains(number) => {
                Ok(Value::Whole(*number))
            }
            (Kind::Real { min, max }, toml::Value::Float(number)) if is_in(*number, min, max) => {
                Ok(Value::Real(*number))
            }
            (Kind::Real { min, max }, toml::Value::Integer(number)) if is_in(*number as f64, min, max) => {
                Ok(Value::Real(*number as f64))
            }
            (Kind::Flag, toml::Value::Boolean(flag)) => Ok(Value::Flag(*flag)),
            (Kind::Text | Kind::Choice(_) | Kind::Whole { .. } | Kind::Real { .. } | Kind::Flag, _) => Err(wrong()),
        }
    }

    /// The field of a name.
    pub fn find(&self, name: &str) -> Result<&'static Field, FieldError> {
        self.0
            .iter()
            .find(|field| field.name == name)
            .ok_or_else(|| FieldError::Unknown {
                field: name.to_owned(),
                meant: nearest(name, self.0.iter().map(|field| field.name)),
                known: self.0.iter().map(|field| field.name).collect::<Vec<_>>().join(", "),
            })
    }
}

/// `; did you mean '…'?`, or nothing.
pub fn nearest<'a>(found: &str, known: impl Iterator<Item = &'a str>) -> String {
    let ranked = known.map(|name| (strsim::damerau_levenshtein(found, name), name));
    match ranked.min() {
        Some((typos, name)) if typos <= 2 => format!("; did you mean '{name}'?"),
        Some(_) | None => String::new(),
    }
}

/// A value as in the file, cut to what fits a line.
fn shown(value: &toml::Value) -> String {
    value.to_string().chars().take(60).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const SCHEMA: Schema = Schema(&[
        Field {
            name: "fabric",
            kind: Kind::Text,
            help: "what is run on",
        },
        Field {
            name: "queue",
            kind: Kind::Choice(&["fifo", "voq"]),
            help: "queue discipline",
        },
        Field {
            name: "vls",
            kind: Kind::Whole { min: 1, max: 15 },
            help: "lanes",
        },
        Field {
            name: "load",
            kind: Kind::Real { min: 0.0, max: 1.0 },
            help: "share of the link",
        },
        Field {
            name: "series",
            kind: Kind::Flag,
            help: "keep time series",
        },
    ]);

    #[test]
    fn values_are_checked() {
        let check = |name: &str, text: &str, want: Result<Value, &str>| {
            let table: toml::Table = format!("x = {text}").parse().unwrap();
            match (SCHEMA.check(name, &table["x"]), want) {
                (Ok(found), Ok(want)) => assert_eq!(found, want, "{name} = {text}"),
                (Err(error), Err(want)) => {
                    let error = error.to_string();
                    assert!(error.contains(want), "{name} = {text}: {error:?} has no {want:?}");
                }
                (found, want) => panic!("{name} = {text}: {found:?}, want {want:?}"),
            }
        };
        check("fabric", "\"sx6536\"", Ok(Value::Text("sx6536".into())));
        check("fabric", "7", Ok(Value::Text("7".into())));
        check("fabric", "[1]", Err("want text"));
        check("queue", "\"voq\"", Ok(Value::Text("voq".into())));
        check("queue", "\"vok\"", Err("did you mean 'voq'?; known: fifo, voq"));
        check("queue", "1", Err("one of fifo, voq"));
        check("vls", "15", Ok(Value::Whole(15)));
        check("vls", "16", Err("a whole number from 1 to 15"));
        check("vls", "1.5", Err("found 1.5"));
        check("load", "1", Ok(Value::Real(1.0)));
        check("load", "0.25", Ok(Value::Real(0.25)));
        check("load", "nan", Err("a number from 0 to 1"));
        check("load", "-0.1", Err("a number from 0 to 1"));
        check("series", "true", Ok(Value::Flag(true)));
        check("series", "\"true\"", Err("true or false"));
        check("lode", "1", Err("did you mean 'load'?; known: fabric, queue"));
        check("zzzzzz", "1", Err("'zzzzzz'; known:"));
    }
}
