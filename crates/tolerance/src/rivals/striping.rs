//! Striping with retransmission, as LA-MPI and Open MPI's reliable layer do it.
//!
//! Messages are cut into fragments, which go round robin over all paths. The receiver acknowledges each fragment by a
//! message of its own, on the path on which the fragment came or on a working one; the sender sends a fragment again by
//! another path when its acknowledgement is late, and later each time (the time-out grows with the number of tries, as
//! in Open MPI's `pml/dr`, `pml_dr_vfrag.h`). A path of which a queue pair has failed is not used again. Sources:
//! Graham et al., "A network-failure-tolerant message-passing system for terascale clusters", IJPP 31 (2003); Aulwes et
//! al., "Architecture of LA-MPI", IPDPS 2004: end-to-end acknowledgements, retransmission, re-routing over other
//! adapters.
//!
//! Not modelled: checksums, which the simulator has no use for.

use std::collections::BTreeMap;

use selvedge_hca::{Ps, SendOp, VerbsError, Wc, WcOpcode, WcStatus};

use super::{Carrier, Connection, Ends, Inbox, Progress, Retries, Way};
use crate::cluster::Cluster;

/// Settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripingSettings {
    /// Code of the local ACK time-out of the queue pairs. Default 14: 67 ms.
    pub timeout: u8,
    /// Retries of the queue pairs. Default 7.
    pub retry_cnt: u8,
    /// Longest fragment. Default 16 KiB.
    pub fragment_bytes: u32,
    /// Time after which a fragment without acknowledgement is sent again. Default 100 ms; estimate.
    pub resend_ps: Ps,
}

impl Default for StripingSettings {
    fn default() -> Self {
        Self {
            timeout: 14,
            retry_cnt: 7,
            fragment_bytes: 16_384,
            resend_ps: 100_000_000_000,
        }
    }
}

/// Marks an acknowledgement in the tag of a message.
const ACK: u64 = 1 << 63;
/// Bytes of an acknowledgement.
const ACK_BYTES: u32 = 32;

#[derive(Clone, Copy, Debug)]
struct Fragment {
    bytes: u32,
    path: usize,
    tries: u32,
    due: Ps,
}

/// Fragments of a message that are missing.
#[derive(Clone, Copy, Debug)]
struct Missing {
    first: u64,
    at_receiver: u64,
    acknowledgements: u64,
}

/// A connection for each path, and fragments over all of them.
#[derive(Clone, Debug)]
pub struct Striping {
    settings: StripingSettings,
    ends: Ends,
    paths: Vec<Connection>,
    /// Fragments that are not acknowledged, by number.
    open: BTreeMap<u64, Fragment>,
    /// Messages that are not acknowledged as a whole.
    messages: BTreeMap<u64, Missing>,
    /// Number of the first fragment of each of them, and of the message.
    firsts: BTreeMap<u64, u64>,
    fragments: u64,
    got: Inbox,
    done: Progress,
}

impl Striping {
    /// Connects by all ways.
    pub fn new(
        cluster: &mut Cluster,
        ends: Ends,
        ways: &[Way],
        settings: StripingSettings,
    ) -> Result<Self, VerbsError> {
        let retries = Retries {
            timeout: settings.timeout,
            retry_cnt: settings.retry_cnt,
        };
        let paths = ends.connect_all(cluster, ways, retries)?;
        Ok(Self {
            settings,
            ends,
            paths,
            open: BTreeMap::new(),
            messages: BTreeMap::new(),
            firsts: BTreeMap::new(),
            fragments: 0,
            got: Inbox::default(),
            done: Progress::new(ways.len()),
        })
    }

    fn post(&mut self, cluster: &mut Cluster, number: u64) -> Result<(), VerbsError> {
        let Some(&Fragment { bytes, path, tries, .. }) = self.open.get(&number) else {
            return Ok(());
        };
        let not = (tries > 0).then_some(path);
        let Some(path) = self.done.next_way(not) else {
            return Ok(());
        };
        let due = cluster.now() + self.settings.resend_ps.saturating_mul(u64::from(tries) + 1);
        let fragment = Fragment {
            bytes,
            path,
            tries: tries + 1,
            due,
        };
        self.open.insert(number, fragment);
        self.done.repeated += u64::from(tries > 0);
        self.put(cluster, 0, path, number, bytes)
    }

    fn put(&self, cluster: &mut Cluster, end: usize, path: usize, tag: u64, bytes: u32) -> Result<(), VerbsError> {
        let op = SendOp::Send { immediate: None };
        self.ends.send(cluster, end, self.paths[path].qps[end], op, tag, bytes)
    }

    fn handle(&mut self, cluster: &mut Cluster, end: usize, wc: &Wc) -> Result<(), VerbsError> {
        let path = self.paths.iter().position(|path| path.numbers[end] == wc.qp_num);
        let Some(path) = path else { return Ok(()) };
        if wc.status != WcStatus::Success {
            return self.path_failed(cluster, path);
        }
        if wc.opcode != WcOpcode::Recv {
            return Ok(());
        }
        self.ends.receive_again(cluster, end, self.paths[path].qps[end])?;
        if end == 0 {
            self.fragment_acknowledged(wc.tag & !ACK);
            return Ok(());
        }
        // A second copy is acknowledged too: the first acknowledgement may be lost.
        let back = if self.done.failed[path] {
            self.done.next_way(None)
        } else {
            Some(path)
        };
        if let Some(back) = back {
            self.put(cluster, 1, back, ACK | wc.tag, ACK_BYTES)?;
        }
        let is_new = self.got.arrived(cluster.now(), wc.tag);
        self.got.delivered.clear();
        if is_new && let Some((message, missing)) = self.message_of(wc.tag) {
            missing.at_receiver = missing.at_receiver.saturating_sub(1);
            if missing.at_receiver == 0 {
                self.done.inbox.arrived(cluster.now(), message);
            }
        }
        Ok(())
    }

    fn message_of(&mut self, fragment: u64) -> Option<(u64, &mut Missing)> {
        let (_, &message) = self.firsts.range(..=fragment).next_back()?;
        Some((message, self.messages.get_mut(&message)?))
    }

    fn fragment_acknowledged(&mut self, fragment: u64) {
        if self.open.remove(&fragment).is_none() {
            return;
        }
        let Some((message, missing)) = self.message_of(fragment) else {
            return;
        };
        missing.acknowledgements = missing.acknowledgements.saturating_sub(1);
        if missing.acknowledgements == 0 {
            let first = missing.first;
            self.messages.remove(&message);
            self.firsts.remove(&first);
            self.done.acknowledged += 1;
        }
    }

    /// Sends everything again that was under way on a path, and uses the path no more.
    fn path_failed(&mut self, cluster: &mut Cluster, path: usize) -> Result<(), VerbsError> {
        if !self.done.fail(path, true) || self.done.failure.is_some() {
            return Ok(());
        }
        let stranded = self.open.iter().filter(|(_, fragment)| fragment.path == path);
        let stranded: Vec<u64> = stranded.map(|(number, _)| *number).collect();
        stranded.into_iter().try_for_each(|number| self.post(cluster, number))
    }
}

impl Carrier for Striping {
    fn send(&mut self, cluster: &mut Cluster, bytes: u32) -> Result<(), VerbsError> {
        let message = self.done.send();
        let longest = self.settings.fragment_bytes.max(1);
        let count = bytes.div_ceil(longest).max(1);
        self.firsts.insert(self.fragments, message);
        let missing = Missing {
            first: self.fragments,
            at_receiver: u64::from(count),
            acknowledgements: u64::from(count),
        };
        self.messages.insert(message, missing);
        for at in 0..count {
            let number = self.fragments;
            self.fragments += 1;
            let fragment = Fragment {
                bytes: (bytes - at * longest).min(longest),
                path: 0,
                tries: 0,
                due: Ps::MAX,
            };
            self.open.insert(number, fragment);
            self.post(cluster, number)?;
        }
        Ok(())
    }

    fn progress(&mut self, cluster: &mut Cluster) -> Result<(), VerbsError> {
        for end in [1, 0] {
            for wc in self.ends.poll(cluster, end)? {
                self.handle(cluster, end, &wc)?;
            }
            self.ends.announced(cluster, end);
        }
        if self.done.failure.is_some() {
            return Ok(());
        }
        let late = self.open.iter().filter(|(_, fragment)| fragment.due <= cluster.now());
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        late.into_iter().try_for_each(|number| self.post(cluster, number))
    }

    fn next_wake(&self) -> Option<Ps> {
        let waits = self.done.failure.is_none();
        self.open.values().filter(|_| waits).map(|fragment| fragment.due).min()
    }

    fn take_delivered(&mut self, out: &mut Vec<(u64, Ps)>) {
        out.append(&mut self.done.inbox.delivered);
    }

    fn done(&self) -> &Progress {
        &self.done
    }

    fn ends(&self) -> &Ends {
        &self.ends
    }

    fn ready_at(&self) -> Ps {
        self.paths.iter().map(|path| path.ready_at).max().unwrap_or(0)
    }
}
