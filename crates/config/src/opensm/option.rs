//! Definition of an OpenSM option, and its treatment in Selvedge.

use super::value::boolean;
use super::{OpenSmConf, Treatment};

/// An option of `opensm.conf`.
#[derive(Clone, Copy, Debug)]
pub struct OpenSmOption {
    /// Name of the option, such as `sm_priority`.
    pub name: &'static str,
    /// Default of the option, as `opensm --create-config` writes it; empty if that file does not contain the option.
    pub default: &'static str,
    /// Treatment of the option.
    pub(crate) meaning: Meaning,
}

/// Treatment of an option's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meaning {
    /// The option sets a Selvedge key, such as `routing.lmc`, that has the same meaning as the option.
    Same(&'static str, Take),
    /// The option sets a Selvedge key, such as `routing.lmc`, that has another meaning; the last field explains the
    /// difference.
    Near(&'static str, Take, &'static str),
    /// The option sets a Selvedge key, such as `routing.engines`, from a list of engines. The last field explains how
    /// the meaning of the key differs.
    Engines(&'static str, &'static str),
    /// An option of quality of service: `qos`, `qos_policy_file` or one of the 25 settings of tables.
    Qos,
    /// The option has no effect, whatever its value. The text explains why nothing is lost.
    Moot(&'static str),
    /// Only OpenSM's default is supported; the text explains what is missing and what to do instead.
    Lacking(&'static str),
}

/// Applies a value; `Err` lists the legal values.
pub(crate) type Take = fn(&mut OpenSmConf, &str) -> Result<(), &'static str>;

/// `babbling_port_policy`: disables the port of a babbling host.
pub(super) const BABBLING: Meaning = Meaning::Near(
    "manager.disable_babbling_ports",
    |conf, text| {
        conf.settings.manager.disable_babbling_ports = boolean(text).ok_or("TRUE or FALSE")?;
        Ok(())
    },
    "traps of every number count, from 32 a second on; links between switches stay enabled",
);

impl OpenSmOption {
    /// Returns the treatment of a value other than the default, with the Selvedge key and the explanation.
    #[must_use]
    pub const fn treatment(&self) -> (Treatment, Option<&'static str>, &'static str) {
        match self.meaning {
            Meaning::Same(key, _) => (Treatment::Honoured, Some(key), ""),
            Meaning::Qos => (Treatment::Honoured, None, ""),
            Meaning::Engines(key, why) | Meaning::Near(key, _, why) => (Treatment::Mapped, Some(key), why),
            Meaning::Moot(why) => (Treatment::Moot, None, why),
            Meaning::Lacking(why) => (Treatment::Refused, None, why),
        }
    }
}
