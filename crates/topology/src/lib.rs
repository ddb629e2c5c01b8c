//! Fabrics from generators and from the file formats of OpenSM, ibsim and infiniband-diags, and writing these formats.
//!
//! - [`Spec`]: the value of `--fabric`: a file, or a generator with its keys ([`Recipe`]).
//! - [`read`], [`write()`]: ibsim's net files and the text of `ibnetdiscover`. One grammar reads both, as in ibsim's
//!   own parser. Odd output of real clusters is accepted with [`Warning`]s; contradictions are refused.
//! - [`read_lfts`], [`write_lfts`]: forwarding tables as OpenSM dumps them and as `ibroute` and `dump_fts` print them;
//!   [`read_guid2lid`], [`write_guid2lid`], [`read_service_levels`], [`write_service_levels`], [`read_sl_to_vl`],
//!   [`write_sl_to_vl`]: the LIDs, service levels and lanes that belong to them.
//! - [`Summary`]: counts of a fabric. [`write_dot`]: a fabric as a drawing. [`without_links`]: a fabric with removed
//!   cables.
//!
//! Input is bytes and text, output is values and text. This crate opens no files.
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
