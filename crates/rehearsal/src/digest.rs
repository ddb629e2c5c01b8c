//! Digests: numbers that differ if a byte differs, for comparing two runs. FNV-1a, 64 bits, eight bytes at a time.

use std::fmt;
use std::str::FromStr;

use selvedge_sim::Time;
use selvedge_sm::{Output, PersistentState};
use selvedge_types::{Guid, LidRange};

use crate::{ManagerId, Rehearsal};

/// A digest in the making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(pub u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Takes bytes in.
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<8>();
        let whole = words
            .iter()
            .fold(self, |digest, word| digest.number(u64::from_be_bytes(*word)));
        rest.iter().fold(whole, |digest, &byte| digest.number(byte.into()))
    }

    /// Takes a number in.
    pub fn number(self, number: u64) -> Self {
        // Turned, because a product's low bits depend on low bits alone.
        Self((self.0 ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29))
    }

    /// Takes a state in that a manager stores. It names every field: a new one must be placed here.
    fn state(self, state: &PersistentState) -> Self {
        let PersistentState {
            lids,
            lids_before,
            lids_aside,
            generation,
            lanes,
            levels,
            engines,
            lane_count,
            lanes_wanted,
        } = state;
        let range = |digest: Self, (guid, lids): (&Guid, &LidRange)| {
            let lids = u64::from(lids.base.0) << 8 | u64::from(lids.lmc.get());
            digest.number(guid.0).number(lids)
        };
        let mut digest = self.number(generation.0);
        for of in [lids, lids_before, lids_aside] {
            digest = of.iter().fold(digest.number(of.len() as u64), range);
        }
        digest = lanes
            .iter()
            .fold(digest.number(lanes.len() as u64), |digest, (guid, lane)| {
                digest.number(guid.0).number((*lane).into())
            });
        digest = levels
            .iter()
            .fold(digest.number(levels.len() as u64), |digest, (guid, levels)| {
                digest.number(guid.0).number(levels.len() as u64).bytes(levels)
            });
        digest = engines
            .iter()
            .fold(digest.number(engines.len() as u64), |digest, engine| {
                digest.number(engine.0.len() as u64).bytes(engine.0.as_bytes())
            });
        digest.number((*lane_count).into()).number((*lanes_wanted).into())
    }
}

/// The two digests of a run. Runs with the same ones have done the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Of every MAD that a manager sent, every state that it asked to be stored and every change of IsSM, in order and
    /// with its virtual time.
    pub wire: u64,
    /// Of what all agents hold, and hosts have registered, whenever all is well.
    pub end: u64,
}

impl fmt::Display for Digests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x} {:016x}", self.wire, self.end)
    }
}

impl FromStr for Digests {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WANT: &str = "two digests of 16 hexadecimal digits, wire and end";
        let number = |text: &str| u64::from_str_radix(text, 16).map_err(|_| WANT);
        let (wire, end) = text.split_once(' ').ok_or(WANT)?;
        Ok(Self {
            wire: number(wire)?,
            end: number(end)?,
        })
    }
}

/// What managers have sent: as a digest, and as text if that is asked for.
#[derive(Debug, Default)]
pub(crate) struct WireLog {
    pub digest: Digest,
    pub lines: Option<Vec<String>>,
}

impl WireLog {
    /// Takes an output in, unless only people read it or it stays in the manager's process.
    pub fn take(&mut self, now: Time, id: ManagerId, output: &Output) {
        let digest = self.digest.number(now.0).number(id.0 as u64);
        let (digest, what) = match output {
            Output::Send { datagram, .. } => {
                let address = datagram.address;
                let to = u64::from(address.lid.0) << 40 | u64::from(address.qp) << 8 | u64::from(address.sl.get());
                let digest = digest.number(1).number(to).bytes(datagram.mad.as_bytes());
                let text = |digest: Digest| format!("sends to LID {}: {} {:016x}", address.lid, datagram.mad, digest.0);
                let bytes = || Digest::default().bytes(datagram.mad.as_bytes());
                (digest, self.lines.is_some().then(|| text(bytes())))
            }
            Output::Persist { state, .. } => {
                let text = || format!("stores {:016x}: {state:?}", Digest::default().state(state).0);
                (digest.number(2).state(state), self.lines.is_some().then(text))
            }
            Output::SetIsSm(is_sm) => {
                let text = || format!("sets IsSM {is_sm}");
                (
                    digest.number(3).number((*is_sm).into()),
                    self.lines.is_some().then(text),
                )
            }
            Output::Compute(_) | Output::Milestone(_) | Output::Event(_) => return,
        };
        self.digest = digest;
        if let (Some(lines), Some(what)) = (&mut self.lines, what) {
            lines.push(format!("{} manager {} {what}", now.0, id.0));
        }
    }
}

impl Rehearsal {
    /// Returns the wire digest: every MAD that a manager sent, every state that it asked to be stored and every change
    /// of IsSM, in order and with its virtual time.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.wire.digest.0
    }

    /// Returns a digest of everything that agents hold now.
    #[must_use]
    pub fn held_digest(&self) -> u64 {
        let mut digest = Digest::default();
        self.emulator.held(&mut |bytes| digest = digest.bytes(bytes));
        digest.0
    }

    /// From now on what the wire digest takes in is kept as text, too.
    pub(crate) fn keep_wire(&mut self) {
        self.wire.lines.get_or_insert_default();
    }

    /// Returns that text since the last call, a line for each output.
    pub(crate) fn take_wire(&mut self) -> Vec<String> {
        self.wire.lines.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
