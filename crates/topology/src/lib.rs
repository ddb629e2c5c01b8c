//! Fabrics from generators and from the field's file formats, and back.
//!
//! - [`Spec`]: what `--fabric` means: a file, or a generator with its keys ([`Recipe`]).
//! - [`read`], [`write()`]: ibsim's net files and the text of `ibnetdiscover`. One grammar reads both, because ibsim's
//!   own parser reads both; what real clusters print is taken with [`Warning`]s, what contradicts itself is refused.
//! - [`read_lfts`], [`write_lfts`]: forwarding tables as OpenSM dumps them and as `ibroute` and `dump_fts` print them;
//!   [`read_guid2lid`], [`write_guid2lid`], [`read_service_levels`], [`write_service_levels`], [`read_sl_to_vl`],
//!   [`write_sl_to_vl`]: what belongs to them.
//! - [`Summary`]: a fabric in figures. [`write_dot`]: a fabric as a picture. [`without_links`]: a fabric that has lost
//!   cables.
//!
//! Bytes and text come in, values and text go out: nothing here opens a file.
//!
//! ```
//! use selvedge_topology::{Format, NodeNames, Spec, Summary, read, write};
//!
//! let Spec::Generated(recipe) = "sx6536:remove-links=1%".parse()? else {
//!     panic!("a file");
//! };
//! let fabric = recipe.fabric()?;
//! let summary = Summary::of(&fabric);
//! assert_eq!((summary.switches, summary.hosts, summary.switch_links), (27, 324, 321));
//!
//! let text = write(&fabric, Format::Ibnetdiscover, &NodeNames::default());
//! let loaded = read("memory", text.as_bytes())?;
//! assert_eq!(loaded.fabric, fabric);
//! assert_eq!(loaded.warnings, []);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod damage;
mod dot;
mod dump;
mod expected;
mod generate;
mod names;
mod spec;
mod summary;
mod text;

pub use damage::{DamageError, without_links};
pub use dot::{DotHosts, write_dot};
pub use dump::opensm;
pub use dump::{
    DumpError, DumpWarning, Forwarding, KnownLids, LftStyle, read_guid2lid, read_lfts, read_lid_matrix,
    read_service_levels, read_sl_to_vl, seen_lids, write_guid2lid, write_lfts, write_service_levels, write_sl_to_vl,
};
pub use expected::{Deviation, OtherFabric, deviations};
pub use generate::{GuidOrder, LinkRemoval, Options, Recipe, Shape, Tree};
pub use names::NodeNames;
pub use spec::{Spec, SpecError};
pub use summary::Summary;
pub use text::{FileError, Format, Loaded, Place, Warning, read, write};
