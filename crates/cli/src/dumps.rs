//! OpenSM's dump files, written whenever the subnet comes up.

use std::io;
use std::path::PathBuf;

use selvedge_config::DaemonOptions;
use selvedge_daemon::{Dump, DumpSink};
use selvedge_store::{StoreError, replace_file};
use selvedge_topology::{LftStyle, opensm, write_lfts, write_sl_to_vl};

/// Writes OpenSM's dump files into a folder.
pub struct DumpFiles {
    folder: PathBuf,
    /// True if all files are written, not only the list of links.
    all: bool,
}

impl DumpFiles {
    /// Returns the dump files of the settings; none if the settings name no folder.
    pub fn of(options: &DaemonOptions) -> Option<Self> {
        let folder = options.dump_dir.clone()?;
        Some(Self {
            folder,
            all: options.dump_routes,
        })
    }

    fn file(&self, name: &str, write: impl FnOnce(&mut dyn FnMut(&str))) -> Result<(), (PathBuf, io::Error)> {
        let path = self.folder.join(name);
        let written = replace_file(&path, |file| {
            let mut result = Ok(());
            write(&mut |text| {
                if result.is_ok() {
                    result = file.write_all(text.as_bytes());
                }
            });
            result
        });
        written.map_err(|error| match error {
            StoreError::Io { cause, .. } => (path, cause),
            other => (path, io::Error::other(other)),
        })
    }
}

impl DumpSink for DumpFiles {
    fn dump(&mut self, what: &Dump) -> Result<(), (PathBuf, io::Error)> {
        let Dump {
            fabric, plan, copies, ..
        } = what;
        if !what.only_copies {
            self.file(opensm::SUBNET_FILE, |sink| opensm::write_subnet(fabric, sink))?;
        }
        if !self.all {
            return Ok(());
        }
        self.file(opensm::COPIES_FILE, |sink| opensm::write_copies(fabric, copies, sink))?;
        if what.only_copies {
            return Ok(());
        }
        let (lids, tables) = (&plan.lids, &plan.tables);
        self.file(opensm::LFTS_FILE, |sink| {
            sink(&write_lfts(fabric, lids, tables, LftStyle::Opensm));
        })?;
        let hops = opensm::HopCounts::new(fabric);
        self.file(opensm::HOPS_FILE, |sink| opensm::write_hops(fabric, lids, &hops, sink))?;
        self.file(opensm::ROUTES_FILE, |sink| {
            opensm::write_routes(fabric, lids, tables, &hops, sink);
        })?;
        // OpenSM writes lanes only where its engine plans them.
        if plan.lanes > 1 || plan.lane_tables.is_some() {
            self.file(opensm::LANES_FILE, |sink| {
                sink(&write_sl_to_vl(fabric, lids, &plan.lanes_of_ports(fabric)));
            })?;
        }
        Ok(())
    }
}
