//! The settings of a runner, and their legal values.

use std::fmt;

use crate::error::FieldError;

/// One setting of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Name of the setting in files: the flag of the command without its dashes.
    pub name: String,
    /// Legal values of the setting.
    pub kind: Kind,
    /// Meaning and unit of the setting, in one line.
    pub help: String,
}

/// The legal values of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Text or a number, which the runner checks.
    Any,
    /// One of these words.
    Choice(Vec<String>),
    /// One text, or a list of them.
    Many,
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
    /// Several texts.
    Many(Vec<String>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Real(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Many(texts) => f.write_str(&texts.join("; ")),
        }
    }
}

impl Value {
    /// Returns the value as a number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Real(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
            Self::Flag(_) | Self::Many(_) => None,
        }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Whole(number) => (*number).into(),
            Self::Real(number) => (*number).into(),
            Self::Flag(flag) => (*flag).into(),
            Self::Many(texts) => texts.clone().into(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("text or a number"),
            Self::Many => f.write_str("text, or a list of texts"),
            Self::Choice(names) => write!(f, "one of {}", names.join(", ")),
            Self::Flag => f.write_str("true or false"),
        }
    }
}

/// All settings of a runner.
#[derive(Clone, Debug)]
pub struct Schema(pub Vec<Field>);

impl Schema {
    /// Checks a value, as written in a file.
    pub fn check(&self, name: &str, value: &toml::Value) -> Result<Value, FieldError> {
        let field = self.find(name)?;
        match (&field.kind, value) {
            (Kind::Any, toml::Value::String(text)) => Ok(Value::Text(text.clone())),
            (Kind::Any, toml::Value::Integer(number)) => Ok(Value::Whole(*number)),
            (Kind::Any, toml::Value::Float(number)) if number.is_finite() => Ok(Value::Real(*number)),
            (Kind::Choice(names), toml::Value::String(text)) if names.contains(text) => Ok(Value::Text(text.clone())),
            (Kind::Choice(names), toml::Value::String(text)) => Err(FieldError::Choice {
                field: name.to_owned(),
                found: text.clone(),
                meant: nearest(text, names.iter().map(String::as_str)),
                known: names.join(", "),
            }),
            (Kind::Flag, toml::Value::Boolean(flag)) => Ok(Value::Flag(*flag)),
            (Kind::Many, toml::Value::String(text)) => Ok(Value::Many(vec![text.clone()])),
            (Kind::Many, toml::Value::Array(list)) if list.iter().all(toml::Value::is_str) => {
                let texts = list.iter().filter_map(toml::Value::as_str);
                Ok(Value::Many(texts.map(str::to_owned).collect()))
            }
            (Kind::Any | Kind::Choice(_) | Kind::Many | Kind::Flag, _) => Err(FieldError::Value {
                field: name.to_owned(),
                found: shown(value),
                want: field.kind.to_string(),
            }),
        }
    }

    /// Returns the field with this name.
    pub fn find(&self, name: &str) -> Result<&Field, FieldError> {
        self.0
            .iter()
            .find(|field| field.name == name)
            .ok_or_else(|| FieldError::Unknown {
                field: name.to_owned(),
                meant: nearest(name, self.0.iter().map(|field| field.name.as_str())),
                known: self
                    .0
                    .iter()
                    .map(|field| field.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            })
    }
}

/// Returns `; did you mean '…'?`, or an empty text if no known name is similar.
pub fn nearest<'a>(found: &str, known: impl Iterator<Item = &'a str>) -> String {
    let ranked = known.map(|name| (strsim::damerau_levenshtein(found, name), name));
    match ranked.min() {
        Some((typos, name)) if typos <= 2 => format!("; did you mean '{name}'?"),
        Some(_) | None => String::new(),
    }
}

/// Returns a value as in the file, cut to the length of a line.
fn shown(value: &toml::Value) -> String {
    value.to_string().chars().take(60).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn schema() -> Schema {
        let field = |name: &str, kind: Kind| Field {
            name: name.to_owned(),
            kind,
            help: "for tests".to_owned(),
        };
        Schema(vec![
            field("fabric", Kind::Any),
            field("queue", Kind::Choice(vec!["fifo".to_owned(), "voq".to_owned()])),
            field("vls", Kind::Any),
            field("load", Kind::Any),
            field("series", Kind::Flag),
            field("job", Kind::Many),
        ])
    }

    #[test]
    fn values_are_checked() {
        let check = |name: &str, text: &str, want: Result<Value, &str>| {
            let table: toml::Table = format!("x = {text}").parse().unwrap();
            match (schema().check(name, &table["x"]), want) {
                (Ok(found), Ok(want)) => assert_eq!(found, want, "{name} = {text}"),
                (Err(error), Err(want)) => {
                    let error = error.to_string();
                    assert!(error.contains(want), "{name} = {text}: {error:?} has no {want:?}");
                }
                (found, want) => panic!("{name} = {text}: {found:?}, want {want:?}"),
            }
        };
        check("fabric", "\"sx6536\"", Ok(Value::Text("sx6536".into())));
        check("fabric", "7", Ok(Value::Whole(7)));
        check("fabric", "[1]", Err("want text or a number"));
        check("queue", "\"voq\"", Ok(Value::Text("voq".into())));
        check("queue", "\"vok\"", Err("did you mean 'voq'?; known: fifo, voq"));
        check("queue", "1", Err("one of fifo, voq"));
        check("load", "0.25", Ok(Value::Real(0.25)));
        check("load", "nan", Err("found nan"));
        let jobs = |texts: &[&str]| Ok(Value::Many(texts.iter().map(|text| (*text).to_owned()).collect()));
        check("job", "\"a\"", jobs(&["a"]));
        check("job", "[\"a b\", \"c\"]", jobs(&["a b", "c"]));
        check("job", "[\"a\", 1]", Err("want text, or a list of texts"));
        check("series", "true", Ok(Value::Flag(true)));
        check("series", "\"true\"", Err("true or false"));
        check("lode", "1", Err("did you mean 'load'?; known: fabric, queue"));
        check("zzzzzz", "1", Err("'zzzzzz'; known:"));
    }
}
