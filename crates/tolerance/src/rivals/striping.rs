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

use super::{Carrier, Connection, Ends, Inbox, Retries, Way};
use crate::cluster::Cluster;
use crate::error::ToleranceError;

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
    failed: Vec<bool>,
    /// Fragments that are not acknowledged, by number.
    open: BTreeMap<u64, Fragment>,
    /// Messages that are not acknowledged as a whole.
    messages: BTreeMap<u64, Missing>,
    /// Number of the first fragment of each of them, and of the message.
    firsts: BTreeMap<u64, u64>,
    fragments: u64,
    sent: u64,
    acknowledged: u64,
    turn: usize,
    repeated: u64,
    got: Inbox,
    inbox: Inbox,
    failure: Option<ToleranceError>,
}

impl Striping {
    /// Connects by all ways.
    pub fn new(
        cluster: &mut Cluster,
        hosts: [usize; 2],
        ways: &[Way],
        settings: StripingSettings,
    ) -> Result<Self, VerbsError> {
        let retries = Retries {
            timeout: settings.timeout,
            retry_cnt: settings.retry_cnt,
        };
        let (ends, paths) = Ends::connected(cluster, hosts, ways, retries)?;
        Ok(Self {
            settings,
            ends,
            paths,
            failed: vec![false; ways.len()],
            open: BTreeMap::new(),
            messages: BTreeMap::new(),
            firsts: BTreeMap::new(),
            fragments: 0,
            sent: 0,
            acknowledged: 0,
            turn: 0,
            repeated: 0,
            got: Inbox::default(),
            inbox: Inbox::default(),
            failure: None,
        })
    }

    /// The next working path in turn, another one than `not` if there is one.
    fn path(&mut self, not: Option<usize>) -> Option<usize> {
        let count = self.paths.len();
        let mut paths = (0..count).map(|step| (self.turn + step) % count);
        let path = paths
            .clone()
            .find(|path| !self.failed[*path] && Some(*path) != not)
            .or_else(|| paths.find(|path| !self.failed[*path]))?;
        self.turn = path + 1;
        Some(path)
    }

    fn post(&mut self, cluster: &mut Cluster, number: u64) -> Result<(), VerbsError> {
        let Some(&Fragment { bytes, path, tries, .. }) = self.open.get(&number) else {
            return Ok(());
        };
        let not = (tries > 0).then_some(path);
        let Some(path) = self.path(not) else { return Ok(()) };
        let due = cluster.now() + self.settings.resend_ps.saturating_mul(u64::from(tries) + 1);
        let fragment = Fragment {
            bytes,
            path,
            tries: tries + 1,
            due,
        };
        self.open.insert(number, fragment);
        self.repeated += u64::from(tries > 0);
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
        let back = if self.failed[path] { self.path(None) } else { Some(path) };
        if let Some(back) = back {
            self.put(cluster, 1, back, ACK | wc.tag, ACK_BYTES)?;
        }
        let is_new = self.got.arrived(cluster.now(), wc.tag);
        self.got.delivered.clear();
        if is_new && let Some((message, missing)) = self.message_of(wc.tag) {
            missing.at_receiver = missing.at_receiver.saturating_sub(1);
            if missing.at_receiver == 0 {
                self.inbox.arrived(cluster.now(), message);
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
            self.acknowledged += 1;
        }
    }

    /// Sends everything again that was under way on a path, and uses the path no more.
    fn path_failed(&mut self, cluster: &mut Cluster, path: usize) -> Result<(), VerbsError> {
        if self.failed[path] {
            return Ok(());
        }
        self.failed[path] = true;
        let failed = self.failed.iter().filter(|failed| **failed).count();
        if failed == self.failed.len() {
            self.failure = Some(ToleranceError::NoPathLeft {
                path: path + 1,
                failed: failed - 1,
                paths: failed,
            });
            return Ok(());
        }
        let stranded = self.open.iter().filter(|(_, fragment)| fragment.path == path);
        let stranded: Vec<u64> = stranded.map(|(number, _)| *number).collect();
        stranded.into_iter().try_for_each(|number| self.post(cluster, number))
    }
}

impl Carrier for Striping {
    fn send(&mut self, cluster: &mut Cluster, bytes: u32) -> Result<(), VerbsError> {
        let message = self.sent;
        self.sent += 1;
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
        if self.failure.is_some() {
            return Ok(());
        }
        let late = self.open.iter().filter(|(_, fragment)| fragment.due <= cluster.now());
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        late.into_iter().try_for_each(|number| self.post(cluster, number))
    }

    fn next_wake(&self) -> Option<Ps> {
        let waits = self.failure.is_none();
        self.open.values().filter(|_| waits).map(|fragment| fragment.due).min()
    }

    fn take_delivered(&mut self, out: &mut Vec<(u64, Ps)>) {
        out.append(&mut self.inbox.delivered);
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    fn ends(&self) -> &Ends {
        &self.ends
    }

    fn ready_at(&self) -> Ps {
        self.paths.iter().map(|path| path.ready_at).max().unwrap_or(0)
    }

    fn connections_failed(&self) -> u32 {
        self.failed.iter().filter(|failed| **failed).count() as u32
    }

    fn failure(&self) -> Option<&ToleranceError> {
        self.failure.as_ref()
    }

    fn repeated(&self) -> u64 {
        self.repeated
    }
}
