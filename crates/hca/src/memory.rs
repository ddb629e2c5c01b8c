//! Memory regions: ranges with keys and rights. They have no payload, except the words that atomics have changed.

use std::collections::BTreeMap;

use crate::attr::Access;
use crate::error::VerbsError;
use crate::handle::{Mr, MrKind, Pd, Slab};
use crate::packet::{Atomic, Range};
use crate::work::Sge;

/// A registered region, as `query_mr` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MrInfo {
    /// First address.
    pub addr: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Rights.
    pub access: Access,
    /// Key for local use.
    pub lkey: u32,
    /// Key for remote use.
    pub rkey: u32,
}

#[derive(Clone, Debug)]
struct Region {
    pd: Pd,
    info: MrInfo,
    /// Words that differ from 0, by address.
    words: BTreeMap<u64, u64>,
}

/// All memory regions of an HCA.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    regions: Slab<MrKind, Region>,
    /// Changes with each registration, so that a key of a former region fits no later one.
    serial: u8,
}

impl Region {
    fn covers(&self, addr: u64, bytes: u64) -> bool {
        let end = addr.checked_add(bytes);
        // A region ends within the address space: `register` has checked it.
        addr >= self.info.addr && end.is_some_and(|end| end <= self.info.addr + self.info.bytes)
    }
}

impl Memory {
    pub const fn new(limit: u32) -> Self {
        Self {
            regions: Slab::new(limit),
            serial: 0,
        }
    }

    pub fn register(&mut self, pd: Pd, addr: u64, bytes: u64, access: Access) -> Result<Mr, VerbsError> {
        let most = u64::MAX - addr;
        crate::error::in_range("length of a memory region", bytes, 0, most)?;
        let writes = Access::REMOTE_WRITE.0 | Access::REMOTE_ATOMIC.0;
        if access.0 & writes != 0 && !access.has(Access::LOCAL_WRITE) {
            // Source: IBA vol 1 §10.6.3.1: remote write and atomics need local write.
            return Err(VerbsError::OutOfRange {
                what: "access flags with REMOTE_WRITE or REMOTE_ATOMIC and without LOCAL_WRITE",
                value: u64::from(access.0),
                least: 0,
                most: u64::from(Access::ALL.0),
            });
        }
        crate::error::in_range("access flags", u64::from(access.0), 0, u64::from(Access::ALL.0))?;
        self.serial = self.serial.wrapping_add(1);
        let serial = u32::from(self.serial);
        self.regions.insert_with(|handle| {
            // As in mlx adapters: a place and a variant. Place 0 with variant 0 stands for no key.
            let key = (handle.index() as u32 + 1) << 8 | serial;
            Region {
                pd,
                info: MrInfo {
                    addr,
                    bytes,
                    access,
                    lkey: key,
                    rkey: key,
                },
                words: BTreeMap::new(),
            }
        })
    }

    pub fn deregister(&mut self, mr: Mr) -> Result<(), VerbsError> {
        self.regions.remove(mr).map(drop)
    }

    pub fn info(&self, mr: Mr) -> Result<MrInfo, VerbsError> {
        self.regions.get(mr).map(|region| region.info)
    }

    /// True if a region of the protection domain exists.
    pub fn uses(&self, pd: Pd) -> bool {
        self.regions.iter().any(|(_, region)| region.pd == pd)
    }

    fn of_key(&self, pd: Pd, key: u32) -> Option<u32> {
        let index = (key >> 8).checked_sub(1)?;
        let region = self.regions.at(index)?;
        (region.info.lkey == key && region.pd == pd).then_some(index)
    }

    /// True if a local range may be used with these rights.
    pub fn allows_local(&self, pd: Pd, sge: &Sge, access: Access) -> bool {
        if sge.bytes == 0 {
            return true;
        }
        let region = self.of_key(pd, sge.lkey).and_then(|index| self.regions.at(index));
        region.is_some_and(|region| region.info.access.has(access) && region.covers(sge.addr, u64::from(sge.bytes)))
    }

    /// True if a remote range may be used with these rights. An empty range needs no region. Source: IBA vol 1
    /// §9.7.4.1.5.
    pub fn allows_remote(&self, pd: Pd, range: &Range, access: Access) -> bool {
        let sge = Sge {
            addr: range.addr,
            bytes: range.bytes,
            lkey: range.rkey,
        };
        self.allows_local(pd, &sge, access)
    }

    /// Carries out an atomic and returns the former value. `None`: the word may not be changed.
    pub fn atomic(&mut self, pd: Pd, atomic: &Atomic) -> Option<u64> {
        let index = self.of_key(pd, atomic.rkey)?;
        let region = self.regions.at_mut(index)?;
        if !region.info.access.has(Access::REMOTE_ATOMIC) || !region.covers(atomic.addr, 8) {
            return None;
        }
        let word = region.words.entry(atomic.addr).or_default();
        let before = *word;
        *word = atomic.op.apply(before);
        Some(before)
    }

    /// Returns a word that atomics work on; 0 before the first one.
    pub fn word(&self, mr: Mr, addr: u64) -> Result<u64, VerbsError> {
        let region = self.regions.get(mr)?;
        Ok(region.words.get(&addr).copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::PdKind;
    use crate::packet::AtomicOp;

    #[test]
    fn rights_and_borders_are_checked() {
        let mut pds: Slab<PdKind, ()> = Slab::new(2);
        let (pd, other) = (pds.insert(()).unwrap(), pds.insert(()).unwrap());
        let mut memory = Memory::new(4);
        let write = Access::LOCAL_WRITE.with(Access::REMOTE_WRITE);
        let mr = memory.register(pd, 4_096, 100, write).unwrap();
        let rkey = memory.info(mr).unwrap().rkey;
        let check = |pd, addr, bytes, key, access, want| {
            let range = Range { addr, bytes, rkey: key };
            assert_eq!(
                memory.allows_remote(pd, &range, access),
                want,
                "{addr} {bytes} {key:#x}"
            );
        };
        check(pd, 4_096, 100, rkey, Access::REMOTE_WRITE, true);
        check(pd, 4_097, 100, rkey, Access::REMOTE_WRITE, false);
        check(pd, 4_095, 1, rkey, Access::REMOTE_WRITE, false);
        check(pd, u64::MAX, 2, rkey, Access::REMOTE_WRITE, false);
        check(pd, 4_096, 100, rkey, Access::REMOTE_READ, false);
        check(pd, 4_096, 100, rkey + 1, Access::REMOTE_WRITE, false);
        check(other, 4_096, 100, rkey, Access::REMOTE_WRITE, false);
        check(pd, 0, 0, 0, Access::REMOTE_WRITE, true);
        assert!(memory.register(pd, 0, 8, Access::REMOTE_ATOMIC).is_err());
        assert!(memory.register(pd, u64::MAX, 1, Access::NONE).is_err());
    }

    #[test]
    fn a_key_of_a_former_region_is_refused() {
        let mut pds: Slab<PdKind, ()> = Slab::new(1);
        let pd = pds.insert(()).unwrap();
        let mut memory = Memory::new(4);
        let mr = memory.register(pd, 0, 64, Access::ALL).unwrap();
        let rkey = memory.info(mr).unwrap().rkey;
        let add = Atomic {
            addr: 8,
            rkey,
            op: AtomicOp::FetchAdd(5),
        };
        assert_eq!(memory.atomic(pd, &add), Some(0));
        assert_eq!(memory.atomic(pd, &add), Some(5));
        assert_eq!(memory.word(mr, 8), Ok(10));
        memory.deregister(mr).unwrap();
        memory.register(pd, 0, 64, Access::ALL).unwrap();
        assert_eq!(memory.atomic(pd, &add), None);
    }
}
