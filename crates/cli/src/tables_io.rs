//! LIDs and forwarding tables from files and into files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use selvedge_fabric::Fabric;
use selvedge_plan::{LidLayout, Lids, Policy, ServiceLevels, SlToVl, Tables};
use selvedge_planner::lid;
use selvedge_topology::{
    DumpWarning, Forwarding, KnownLids, LftStyle, read_guid2lid, read_lfts, read_service_levels, read_sl_to_vl,
    write_guid2lid, write_lfts, write_service_levels, write_sl_to_vl,
};
use selvedge_types::{Guid, LidRange, Lmc};

use crate::exit::CliError;
use crate::load;

/// Where results go.
#[derive(Args, Clone, Debug, Default)]
pub struct OutputArgs {
    /// Write the LIDs to FILE (guid2lid)
    #[arg(long, value_name = "FILE")]
    pub lids_out: Option<PathBuf>,
    /// Write the forwarding tables to FILE
    #[arg(long, value_name = "FILE")]
    pub lfts_out: Option<PathBuf>,
    /// Form of the file of --lfts-out
    #[arg(long, value_enum, value_name = "STYLE", default_value_t = Style::Opensm)]
    pub lfts_style: Style,
    /// Write the lane maps to FILE (OpenSM's dump)
    #[arg(long, value_name = "FILE")]
    pub sl2vl_out: Option<PathBuf>,
    /// Write the service level of each destination to FILE (lines: 0xDLID SL)
    #[arg(long, value_name = "FILE")]
    pub sl_out: Option<PathBuf>,
}

/// The format of a dump of forwarding tables.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Style {
    /// OpenSM's dump, which its file engine reads
    #[default]
    Opensm,
    /// The output of ibroute
    Ibroute,
}

/// What can be written.
#[derive(Clone, Copy)]
pub struct Results<'a> {
    /// The fabric, with the names to write.
    pub fabric: &'a Fabric,
    /// LIDs of every end port.
    pub lids: &'a Lids,
    /// Forwarding tables.
    pub tables: &'a Tables,
    /// Service levels.
    pub service_levels: &'a ServiceLevels,
    /// Lane maps.
    pub sl_to_vl: &'a SlToVl,
}

impl OutputArgs {
    /// Checks, before the work begins, whether the results can be written. Leaves no file behind.
    pub fn check(&self) -> Result<(), CliError> {
        let paths = [&self.lids_out, &self.lfts_out, &self.sl2vl_out, &self.sl_out];
        paths.into_iter().flatten().try_for_each(|path| load::writable(path))
    }

    /// Writes the requested files.
    pub fn write(&self, results: Results<'_>) -> Result<(), CliError> {
        let Results {
            fabric,
            lids,
            tables,
            service_levels,
            sl_to_vl,
        } = results;
        if let Some(path) = &self.lids_out {
            load::write(path, &write_guid2lid(fabric, lids))?;
        }
        if let Some(path) = &self.lfts_out {
            let style = match self.lfts_style {
                Style::Opensm => LftStyle::Opensm,
                Style::Ibroute => LftStyle::Ibroute,
            };
            load::write(path, &write_lfts(fabric, lids, tables, style))?;
        }
        if let Some(path) = &self.sl2vl_out {
            load::write(path, &write_sl_to_vl(fabric, lids, sl_to_vl))?;
        }
        if let Some(path) = &self.sl_out {
            load::write(path, &write_service_levels(lids, service_levels))?;
        }
        Ok(())
    }
}

/// How a fabric that is only planned gets its LIDs.
#[derive(Args, Clone, Debug)]
pub struct LidArgs {
    /// LIDs per end port, as a power of two
    #[arg(long, value_name = "0-7", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub lmc: u8,
    /// Order of new LIDs where no port holds one: by-plane (few blocks change when a link of a tree is lost) or
    /// sequential (by node GUID) (default: by-plane)
    #[arg(long, value_name = "LAYOUT")]
    lid_layout: Option<LidLayout>,
    /// LIDs to keep (guid2lid)
    #[arg(long, value_name = "FILE")]
    pub lids: Option<PathBuf>,
}

impl LidArgs {
    /// Returns the LIDs that a manager would give out.
    pub fn assign(&self, fabric: &Fabric) -> Result<Lids, CliError> {
        let policy = Policy {
            lmc: Lmc::new(self.lmc).unwrap_or_default(),
            lid_layout: self.lid_layout.unwrap_or_default(),
            ..Policy::default()
        };
        lids(fabric, &policy, &known_lids(self.lids.as_deref(), fabric)?)
    }
}

/// Reads a guid2lid file.
pub fn guid2lid(path: &Path) -> Result<KnownLids, CliError> {
    Ok(read_guid2lid(&path.display().to_string(), &load::text_bytes(path)?)?)
}

/// Returns LIDs by port GUID from a guid2lid file; none without one. Prints warnings to standard error.
pub fn known_lids(path: Option<&Path>, fabric: &Fabric) -> Result<BTreeMap<Guid, LidRange>, CliError> {
    let Some(path) = path else {
        return Ok(BTreeMap::new());
    };
    let known = guid2lid(path)?;
    let (_, warnings) = known.on(fabric);
    load::warn(warnings.iter());
    Ok(known.ranges())
}

/// Reads forwarding tables.
pub fn tables_and_warnings(path: &Path, fabric: &Fabric, known: Option<&Lids>) -> Result<Forwarding, CliError> {
    Ok(read_lfts(
        &path.display().to_string(),
        &load::text_bytes(path)?,
        fabric,
        known,
    )?)
}

/// Reads forwarding tables. Prints warnings to standard error.
pub fn tables(path: &Path, fabric: &Fabric, known: Option<&Lids>) -> Result<Forwarding, CliError> {
    let read = tables_and_warnings(path, fabric, known)?;
    load::warn(read.warnings.iter());
    Ok(read)
}

/// Reads the forwarding tables before or after a change. They must be complete: every switch, every entry.
pub fn whole_tables(path: &Path, fabric: &Fabric, known: Option<&Lids>) -> Result<Forwarding, CliError> {
    let read = tables(path, fabric, known)?;
    let gaps: Vec<&DumpWarning> = read.warnings.iter().filter(|warning| warning.is_gap()).collect();
    match gaps.first() {
        None => Ok(read),
        Some(first) => Err(CliError::NotWhole {
            path: path.to_owned(),
            switches: gaps.len(),
            first: first.to_string(),
        }),
    }
}

/// Reads the service level of each destination.
pub fn service_levels(path: &Path, fabric: &Fabric, lids: &Lids) -> Result<ServiceLevels, CliError> {
    Ok(read_service_levels(
        &path.display().to_string(),
        &load::text_bytes(path)?,
        fabric,
        lids,
    )?)
}

/// Reads SL2VL tables. Prints warnings to standard error.
pub fn lane_maps(path: &Path, fabric: &Fabric) -> Result<SlToVl, CliError> {
    let (map, warnings) = lane_maps_and_warnings(path, fabric)?;
    load::warn(warnings.iter());
    Ok(map)
}

/// Reads SL2VL tables.
pub fn lane_maps_and_warnings(path: &Path, fabric: &Fabric) -> Result<(SlToVl, Vec<DumpWarning>), CliError> {
    Ok(read_sl_to_vl(
        &path.display().to_string(),
        &load::text_bytes(path)?,
        fabric,
    )?)
}

/// Returns the LIDs that a manager would assign to each port: its present LIDs, else its stored LIDs, else the lowest
/// free ones. Warnings go to standard error.
pub fn lids(fabric: &Fabric, policy: &Policy, known: &BTreeMap<Guid, LidRange>) -> Result<Lids, CliError> {
    let mut events = Vec::new();
    let lids = lid::assign(fabric, policy, known, &BTreeSet::new(), &mut events)?;
    load::warn(events.iter());
    Ok(lids)
}
