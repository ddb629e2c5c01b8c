//! Reads a policy file into values.

mod link;
mod sections;
mod setup;
mod ulps;

use super::lexer::{Kind, Token, tokens};
use super::{PolicyError, PolicyFile, Ranges};
use crate::near::meant;
use crate::opensm::number::number;

use link::Unlinked;
pub(crate) use ulps::ulp_service_ids;

/// Reads the text of a policy file.
pub fn parse(file: &str) -> Result<PolicyFile, PolicyError> {
    let mut parser = Parser {
        file,
        tokens: tokens(file),
        at: 0,
        taken: 0,
    };
    let mut found = Unlinked::default();
    loop {
        match parser.take() {
            Kind::End => return found.link(),
            Kind::Section("qos-ulps") => parser.ulps(&mut found)?,
            Kind::Section("port-groups") => parser.groups(&mut found)?,
            Kind::Section("qos-setup") => parser.setup(&mut found)?,
            Kind::Section("qos-levels") => parser.levels(&mut found)?,
            Kind::Section("qos-match-rules") => parser.rules(&mut found)?,
            _ => return Err(parser.wrong(FILE)),
        }
    }
}

const FILE: &[&str] = &["qos-ulps", "port-groups", "qos-setup", "qos-levels", "qos-match-rules"];
const NUMBER: &str = "a number of at most 64 bits (octal after a leading 0)";

/// A text with its line.
type Named = (usize, String);

/// The tokens, and the place of the next one.
struct Parser<'a> {
    file: &'a str,
    tokens: Vec<Token>,
    at: usize,
    /// The place of the token that was taken last.
    taken: usize,
}

impl Parser<'_> {
    /// Returns the next token. The last one is the end, and stays.
    fn token(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn kind(&self) -> Kind {
        self.token().kind
    }

    /// Takes a token.
    fn take(&mut self) -> Kind {
        let kind = self.kind();
        self.taken = self.at.min(self.tokens.len() - 1);
        self.at += 1;
        kind
    }

    /// Line of the token that was taken last.
    fn line(&self) -> usize {
        self.tokens[self.taken].line
    }

    /// Takes a token of this kind, if it is the next one.
    fn takes(&mut self, kind: Kind) -> bool {
        let is_it = self.kind() == kind;
        if is_it {
            self.take();
        }
        is_it
    }

    /// Returns the error that the token that was taken last is none of these words.
    fn wrong(&self, want: &[&str]) -> PolicyError {
        self.not(&self.tokens[self.taken], want)
    }

    /// Returns the error that the next token is none of these words.
    fn unexpected(&self, want: &[&str]) -> PolicyError {
        self.not(self.token(), want)
    }

    fn not(&self, token: &Token, want: &[&str]) -> PolicyError {
        let rest = &self.file[token.at..];
        let end = rest.find([' ', '\t', '\n', ',', ':', '#', '"']);
        let word = &rest[..end
            .unwrap_or(rest.len())
            .max(rest.chars().next().map_or(0, char::len_utf8))];
        let shown: String = word.chars().take(40).collect();
        let plain = want.iter().filter_map(|word| word.split([':', ',']).next());
        PolicyError::Syntax {
            line: token.line,
            found: match token.kind {
                Kind::End => "the end of the file".to_owned(),
                _ => format!("'{}'", selvedge_types::printable(&shown)),
            },
            want: match want {
                [init @ .., last] if !init.is_empty() => format!("{} or {last}", init.join(", ")),
                all => all.concat(),
            },
            // A single word is what is wanted, and needs no guess.
            meant: if want.len() > 1 {
                meant(word, plain)
            } else {
                String::new()
            },
        }
    }

    /// Takes a text: pieces up to the end of the line.
    fn text(&mut self) -> Result<Named, PolicyError> {
        if self.kind() != Kind::Text {
            return Err(self.unexpected(&["a text"]));
        }
        let line = self.token().line;
        let mut text = self.token().text.clone();
        self.take();
        // OpenSM would add an unknown word at the beginning of the next line to the text.
        while self.kind() == Kind::Text && !self.token().is_first {
            text += &self.token().text;
            self.take();
        }
        Ok((line, text.trim().to_owned()))
    }

    /// Takes texts with commas between them.
    fn texts(&mut self) -> Result<Vec<Named>, PolicyError> {
        let mut texts = vec![self.text()?];
        while self.takes(Kind::Comma) {
            texts.push(self.text()?);
        }
        Ok(texts)
    }

    /// Takes a number up to `most`.
    fn number(&mut self, most: u64, want: &'static str) -> Result<u64, PolicyError> {
        if self.kind() != Kind::Number {
            return Err(self.unexpected(&["a number"]));
        }
        let (line, found) = (self.token().line, self.token().text.clone());
        let value = number(&found);
        let want = if value.is_none() { NUMBER } else { want };
        self.take();
        let fits = value.filter(|value| *value <= most);
        fits.ok_or(PolicyError::Value { line, found, want })
    }

    /// Takes a number from `least` to `most` that fits a byte.
    fn byte(&mut self, (least, most): (u8, u8), want: &'static str) -> Result<u8, PolicyError> {
        let found = self.number(u64::from(most), want)?;
        let byte = u8::try_from(found).ok().filter(|byte| *byte >= least);
        byte.ok_or_else(|| PolicyError::Value {
            line: self.line(),
            found: found.to_string(),
            want,
        })
    }

    /// Takes ranges of numbers up to `most`, with commas between them.
    fn pairs(&mut self, most: u64, want: &'static str) -> Result<Vec<(u64, u64)>, PolicyError> {
        let mut pairs = Vec::new();
        loop {
            let first = self.number(most, want)?;
            let last = match self.takes(Kind::Dash) {
                true => self.number(most, want)?,
                false => first,
            };
            pairs.push((first, last));
            if !self.takes(Kind::Comma) {
                return Ok(pairs);
            }
        }
    }

    /// Takes ranges of any numbers into a set.
    fn ranges(&mut self, set: &mut Ranges) -> Result<(), PolicyError> {
        let pairs = self.pairs(u64::MAX, NUMBER)?;
        pairs.into_iter().for_each(|(a, b)| set.add(a, b));
        Ok(())
    }

    /// Takes ranges of P_Keys into a set, without the membership bit.
    fn pkeys(&mut self, set: &mut Ranges) -> Result<(), PolicyError> {
        let pairs = self.pairs(0xFFFF, "a P_Key of 16 bits")?;
        let base = |pkey: u64| pkey & 0x7FFF;
        pairs.into_iter().for_each(|(a, b)| set.add(base(a), base(b)));
        Ok(())
    }

    /// Returns the error that an entry is given a second time, if it is.
    fn once<T>(&self, held: &Option<T>, what: &str) -> Result<(), PolicyError> {
        match held {
            None => Ok(()),
            Some(_) => Err(PolicyError::Twice {
                line: self.line(),
                what: format!("'{what}'"),
            }),
        }
    }
}

/// Returns the value of an entry that a section must have.
fn needed<T>(held: Option<T>, line: usize, section: &'static str, what: &'static str) -> Result<T, PolicyError> {
    held.ok_or(PolicyError::Missing { line, section, what })
}
