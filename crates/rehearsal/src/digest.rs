//! Digests: numbers that differ if a byte differs, for comparing two runs. FNV-1a, 64 bits, eight bytes at a time.

use std::fmt;
use std::str::FromStr;

use selvedge_sm::PersistentState;
use selvedge_types::{Guid, LidRange};

/// A digest that is being computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(pub u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Adds bytes.
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<8>();
        let whole = words
            .iter()
            .fold(self, |digest, word| digest.number(u64::from_be_bytes(*word)));
        rest.iter().fold(whole, |digest, &byte| digest.number(byte.into()))
    }

    /// Adds a number.
    pub fn number(self, number: u64) -> Self {
        // Rotated, because the low bits of a product depend on low bits alone.
        Self((self.0 ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29))
    }

    /// Adds a state that a manager stores. It names every field: a new one must be placed here.
    pub fn state(self, state: &PersistentState) -> Self {
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
            m_keys,
            m_keys_retired,
            sm_keys,
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
        digest = digest.number((*lane_count).into()).number((*lanes_wanted).into());
        // The newest key is the configuration's. Others exist once it was changed.
        let former = m_keys.iter().skip(1).chain(m_keys_retired).chain(sm_keys);
        former.fold(digest, |digest, key| digest.number(key.expose()))
    }
}

/// The two digests of a run. If two runs have equal digests, they have done the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Digest of every MAD that a manager sent, every state that it had stored and every change of IsSM, in order and
    /// with its virtual time.
    pub wire: u64,
    /// Digest of the contents of all agents, and of the registrations of hosts, at each time when all was well.
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
