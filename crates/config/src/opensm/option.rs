//! What an option of OpenSM's is, and what becomes of it.

use super::OpenSmConf;
use super::value::boolean;

/// An option of `opensm.conf`.
#[derive(Clone, Copy, Debug)]
pub struct OpenSmOption {
    /// Its name, as `sm_priority`.
    pub name: &'static str,
    /// Its default, as `opensm --create-config` writes it; empty: it stands in no such file.
    pub default: &'static str,
    /// What becomes of it.
    pub(crate) meaning: Meaning,
}

/// What becomes of an option's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meaning {
    /// Goes into a setting of ours, named as `routing.lmc`, that means the same.
    Same(&'static str, Take),
    /// Goes into a setting of ours, named as `routing.lmc`, that differs as the text says.
    Near(&'static str, Take, &'static str),
    /// Changes nothing here, whatever its value; the text says why nothing is lost.
    Moot(&'static str),
    /// Only OpenSM's default can be had; the text says what is missing and what to do instead.
    Lacking(&'static str),
}

/// Takes a value over; `Err` says which values are legal.
pub(crate) type Take = fn(&mut OpenSmConf, &str) -> Result<(), &'static str>;

/// `babbling_port_policy`: disables the port of a host that babbles.
pub(super) const BABBLING: Meaning = Meaning::Near(
    "manager.disable_babbling_ports",
    |conf, text| {
        conf.settings.manager.disable_babbling_ports = boolean(text).ok_or("TRUE or FALSE")?;
        Ok(())
    },
    "any trap counts, from 32 a second on; links between switches stay",
);

/// What becomes of an option that stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It has OpenSM's default, and so has Selvedge, or it does not matter here.
    Default,
    /// Its value holds here as it did there.
    Honoured,
    /// Its value goes into a setting that differs as the explanation says.
    Mapped,
    /// It changes nothing here, and nothing is lost.
    Moot,
    /// It cannot be had: a manager started with it would not do what the file says.
    Refused,
    /// Neither OpenSM 3.3.23 nor its known forks have such an option. OpenSM goes on; so does Selvedge, with a warning.
    Unknown,
}

impl Treatment {
    /// As tables show it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Honoured => "honoured",
            Self::Mapped => "mapped",
            Self::Moot => "without effect",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }
}

/// What becomes of one line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Line, counted from 1; 0: no line, but a file that OpenSM reads unasked.
    pub line: usize,
    /// The option's name as it is written.
    pub name: String,
    /// Its value as it is written.
    pub value: String,
    /// What becomes of it.
    pub treatment: Treatment,
    /// Our key that takes the value, as `routing.lmc`.
    pub key: Option<&'static str>,
    /// Why, or what to do instead; empty where there is nothing to say.
    pub why: String,
}

impl OpenSmOption {
    /// What a value other than the default becomes: the treatment, our key, and the explanation.
    #[must_use]
    pub const fn treatment(&self) -> (Treatment, Option<&'static str>, &'static str) {
        match self.meaning {
            Meaning::Same(key, _) => (Treatment::Honoured, Some(key), ""),
            Meaning::Near(key, _, why) => (Treatment::Mapped, Some(key), why),
            Meaning::Moot(why) => (Treatment::Moot, None, why),
            Meaning::Lacking(why) => (Treatment::Refused, None, why),
        }
    }
}
