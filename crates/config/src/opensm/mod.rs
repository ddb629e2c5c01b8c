//! Reads OpenSM's own configuration file, `opensm.conf`, and reports for each option how Selvedge treats it.
//!
//! Names, defaults and meanings are those of OpenSM 3.3.23 (its manual page, `opensm --create-config`, and the table in
//! `osm_subnet.c`); additional options of NVIDIA's closed fork are known by name. A file as `opensm --create-config`
//! writes it holds every option with its default, so an option counts as used only if its value differs from that.

mod effect;
mod flags;
mod marked;
mod option;
mod qos;
mod read;
mod table;
mod value;

use crate::{Finding, Treatment};

pub use flags::OpenSmFlag;
pub use option::OpenSmOption;
pub(crate) use read::load;
pub use read::{OpenSmConf, opensm_dump_dir, parse_opensm_conf};
pub use table::OPENSM_LOG_ROUTING;
