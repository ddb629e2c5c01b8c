//! Contents of the dump files, which are written each time the subnet comes up. The writer is passed in.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use selvedge_fabric::Fabric;
use selvedge_plan::Plan;
use selvedge_plan::multicast::MftBlocks;
use selvedge_types::Guid;

use crate::DaemonError;
use crate::worker::{Note, Worker};

/// The contents of a dump.
#[derive(Clone, Debug)]
pub struct Dump {
    /// The fabric with the operator's names.
    pub fabric: Arc<Fabric>,
    /// The plan that is in force in the fabric.
    pub plan: Arc<Plan>,
    /// Multicast tables by switch GUID.
    pub copies: Arc<BTreeMap<Guid, MftBlocks>>,
    /// True if nothing but multicast tables has changed since the last dump.
    pub only_copies: bool,
}

/// Writes dump files.
pub trait DumpSink: Send {
    /// Writes what has changed. The error names the file.
    fn dump(&mut self, what: &Dump) -> Result<(), (PathBuf, io::Error)>;
}

/// Starts the thread that dumps. A newer state replaces those that still wait.
pub(crate) fn dumper(notes: Sender<Note>, mut sink: Box<dyn DumpSink>) -> Result<Worker<Dump>, DaemonError> {
    Worker::start("dump", notes, move |mut what: Dump, queue| {
        while let Ok(newer) = queue.try_recv() {
            let only_copies = what.only_copies && newer.only_copies;
            what = Dump { only_copies, ..newer };
        }
        Note::Dumped(sink.dump(&what))
    })
}
