//! What an option of OpenSM's is, and what becomes of it.

use super::value::boolean;
use super::{OpenSmConf, Treatment};

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
    /// Sets a Selvedge key, as `routing.engines`, from a list of engines; the text says how its meaning differs.
    Engines(&'static str, &'static str),
    /// Changes nothing here, whatever its value; the text says why nothing is lost.
    Moot(&'static str),
    /// Only OpenSM's default can be had; the text says what is missing and what to do instead.
    Lacking(&'static str),
}

/// Takes a value over; `Err` says which values are legal.
pub(crate) type Take = fn(&mut OpenSmConf, &str) -> Result<(), &'static str>;

/// `babbling_port_policy`: disables the port of a babbling host.
pub(super) const BABBLING: Meaning = Meaning::Near(
    "manager.disable_babbling_ports",
    |conf, text| {
        conf.settings.manager.disable_babbling_ports = boolean(text).ok_or("TRUE or FALSE")?;
        Ok(())
    },
    "any trap counts, from 32 a second on; links between switches stay",
);

impl OpenSmOption {
    /// What a value other than the default becomes: the treatment, our key, and the explanation.
    #[must_use]
    pub const fn treatment(&self) -> (Treatment, Option<&'static str>, &'static str) {
        match self.meaning {
            Meaning::Same(key, _) => (Treatment::Honoured, Some(key), ""),
            Meaning::Engines(key, why) | Meaning::Near(key, _, why) => (Treatment::Mapped, Some(key), why),
            Meaning::Moot(why) => (Treatment::Moot, None, why),
            Meaning::Lacking(why) => (Treatment::Refused, None, why),
        }
    }
}
