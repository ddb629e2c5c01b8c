//! Faults and their times: a manager cannot know of a fault before its next sweep or probe.

use std::time::Duration;

use selvedge_chassis::Chassis;
use selvedge_emulator::Fault;
use selvedge_sim::Time;

use crate::digest::Digest;
use crate::subnet::{is_up, ports_of};

/// How long after the last flipped bit a wrong value may still be in flight, or in a manager.
const CORRUPT_ECHO: Duration = Duration::from_secs(1);
/// How long a manager may still miss nodes that are no longer hidden: the next light sweep finds them.
const BLIND_ECHO: Duration = Duration::from_secs(12);

/// The faults so far.
#[derive(Clone, Debug)]
pub(in crate::checkers) struct Faults {
    /// Digest of trained links, their peers and powered nodes.
    shape: u64,
    /// When this digest last changed.
    disturbed: Option<Time>,
    /// Whether two nodes show one GUID now, and when they last did.
    has_clones: bool,
    cloned: Option<Time>,
    /// Whether bits are flipped now, and when they last were.
    is_corrupting: bool,
    corrupted: Option<Time>,
    /// Number of nodes that are hidden from management, and when any node last was.
    hidden: u32,
    blind: Option<Time>,
}

impl Faults {
    pub fn new(chassis: &Chassis) -> Self {
        Self {
            shape: shape(chassis),
            disturbed: None,
            has_clones: false,
            cloned: None,
            is_corrupting: false,
            corrupted: None,
            hidden: 0,
            blind: None,
        }
    }

    /// Called when a fault is about to strike.
    pub fn strikes(&mut self, now: Time, fault: &Fault) {
        match fault {
            Fault::Corrupt(ratio, _) => self.set_corrupting(now, ratio.numerator > 0),
            Fault::Hang(_) => self.hides(now, true),
            Fault::Unhang(_) => self.hides(now, false),
            Fault::Loss(ratio, Some(_)) => self.hides(now, ratio.numerator > 0),
            _ => {}
        }
    }

    /// Records that bits are flipped from now on, or no longer.
    pub const fn set_corrupting(&mut self, now: Time, is_corrupting: bool) {
        self.is_corrupting = is_corrupting;
        self.corrupted = Some(now);
    }

    fn hides(&mut self, now: Time, is_hidden: bool) {
        self.blind = Some(now);
        self.hidden = match is_hidden {
            true => self.hidden.saturating_add(1),
            false => self.hidden.saturating_sub(1),
        };
    }

    /// Called when the hardware changed other than by a Set. Returns true if trained links or powered nodes changed.
    pub fn happened(&mut self, now: Time, chassis: &Chassis) -> bool {
        let shape = shape(chassis);
        let is_disturbed = std::mem::replace(&mut self.shape, shape) != shape;
        if is_disturbed {
            self.disturbed = Some(now);
        }
        let mut nodes = chassis.fabric().nodes().iter_enumerated();
        let had_clones = self.has_clones;
        self.has_clones = nodes.any(|(node, built)| chassis.node_guid(node) != built.guid);
        if had_clones || self.has_clones {
            self.cloned = Some(now);
        }
        if self.is_corrupting {
            self.corrupted = Some(now);
        }
        is_disturbed
    }

    pub const fn is_corrupting(&self) -> bool {
        self.is_corrupting
    }

    /// True if bits were ever flipped.
    pub const fn has_corrupted(&self) -> bool {
        self.corrupted.is_some()
    }

    /// True if bits are flipped now, or were since this time.
    pub fn corrupted_since(&self, then: Time) -> bool {
        self.is_corrupting || is_since(self.corrupted, then)
    }

    /// True if values that managers read at that time may come from a flipped bit.
    pub fn echoes_flipped_bits(&self, then: Time) -> bool {
        self.is_corrupting || self.corrupted.is_some_and(|at| at + CORRUPT_ECHO >= then)
    }

    /// True if links or nodes have changed since this time.
    pub fn disturbed_since(&self, then: Time) -> bool {
        is_since(self.disturbed, then)
    }

    /// True if two nodes show one GUID now, or did since this time.
    pub fn cloned_since(&self, then: Time) -> bool {
        self.has_clones || is_since(self.cloned, then)
    }

    /// Returns when two nodes last showed one GUID.
    pub const fn cloned(&self) -> Option<Time> {
        self.cloned
    }

    /// True if nodes are hidden from management, or were so lately that no light sweep has come since.
    pub fn is_blind(&self, now: Time) -> bool {
        self.hidden > 0 || self.blind.is_some_and(|at| at + BLIND_ECHO >= now)
    }
}

/// True if `last` is at or after `then`.
pub(super) fn is_since(last: Option<Time>, then: Time) -> bool {
    last.is_some_and(|last| last >= then)
}

/// Returns a digest of trained links, their peers and powered nodes.
fn shape(chassis: &Chassis) -> u64 {
    let mut digest = Digest::default();
    for node in chassis.fabric().nodes().indices() {
        digest = digest
            .number(chassis.boots(node).into())
            .bytes(&[u8::from(chassis.is_powered(node))]);
        for port in ports_of(chassis, node).filter(|&port| is_up(chassis, port)) {
            let peer = chassis.wire(port).peer().map_or(0, |peer| peer.0);
            digest = digest.number(u64::from(port.0) << 32 | u64::from(peer));
        }
    }
    digest.0
}
