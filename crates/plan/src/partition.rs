//! Partitions: which ports may communicate, and the preset IPoIB groups.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_types::{Guid, NodeKind, PKey, PortNum, Sl};

/// P_Keys per block of a P_KeyTable, which one SMP reads or writes. Source: IBA vol 1 §14.2.5.7.
pub const BLOCK_PKEYS: usize = 32;

/// Returns a block of a table, without empty entries at its end.
#[must_use]
pub fn pkey_block(table: &[PKey], block: u16) -> &[PKey] {
    let keys = table.chunks(BLOCK_PKEYS).nth(block.into()).unwrap_or_default();
    trimmed(keys)
}

/// Returns a table after one of its blocks was written.
#[must_use]
pub fn with_pkey_block(table: &[PKey], block: u16, keys: &[PKey]) -> Vec<PKey> {
    let first = usize::from(block) * BLOCK_PKEYS;
    let mut now = table.to_vec();
    now.resize(now.len().max(first + BLOCK_PKEYS), PKey(0));
    for (place, slot) in now.iter_mut().skip(first).take(BLOCK_PKEYS).enumerate() {
        *slot = keys.get(place).copied().unwrap_or_default();
    }
    now.truncate(trimmed(&now).len());
    now
}

/// Returns the blocks in which two tables differ.
pub fn unlike_pkey_blocks<'a>(held: &'a [PKey], wanted: &'a [PKey]) -> impl Iterator<Item = u16> + 'a {
    let blocks = held.len().max(wanted.len()).div_ceil(BLOCK_PKEYS);
    let blocks = (0..).take(blocks);
    blocks.filter(|&block| pkey_block(held, block) != pkey_block(wanted, block))
}

/// Returns P_Keys without empty entries at the end.
fn trimmed(keys: &[PKey]) -> &[PKey] {
    let used = keys.iter().rposition(|key| key.0 != 0).map_or(0, |last| last + 1);
    keys.get(..used).unwrap_or_default()
}

/// Returns a table with `first` at index 0. Each P_Key of `left` stays at its current index, or gets a free one. There
/// is room for all of them.
///
/// If another block follows, the last entry of a block is never 0: by a last entry that is not 0, discovery knows that
/// there is another block. Without a P_Key the entry is [`PKey::NOBODYS`].
fn placed(first: Option<PKey>, mut left: Vec<PKey>, held: &[PKey], room: usize) -> Vec<PKey> {
    let fixed = usize::from(first.is_some());
    let mut table = vec![PKey(0); room.min(held.len().max(fixed + left.len()))];
    if let (Some(slot), Some(first)) = (table.first_mut(), first) {
        *slot = first;
    }
    for (slot, held) in table.iter_mut().zip(held).skip(fixed) {
        if let Some(found) = left.iter().position(|key| key.0 & 0x7FFF == held.0 & 0x7FFF) {
            *slot = left.remove(found);
        }
    }
    let mut left = left.into_iter();
    for slot in table.iter_mut().skip(fixed).filter(|slot| slot.0 == 0) {
        *slot = left.next().unwrap_or_default();
    }
    table.truncate(trimmed(&table).len());
    let followed = table.len().saturating_sub(1) / BLOCK_PKEYS * BLOCK_PKEYS;
    for last in table
        .iter_mut()
        .take(followed)
        .skip(BLOCK_PKEYS - 1)
        .step_by(BLOCK_PKEYS)
    {
        if last.0 == 0 {
            *last = PKey::NOBODYS;
        }
    }
    table
}

/// The ports to which a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Every end port.
    All,
    /// End ports of nodes of a kind.
    Kind(NodeKind),
    /// The manager's own port.
    Manager,
    /// The port with this GUID.
    Port(Guid),
}

/// A rule: these ports are members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The ports of the rule.
    pub who: Who,
    /// True for full members, false for limited ones.
    pub is_full: bool,
    /// True if the P_Key of the partition is at index 0 of their tables.
    pub is_first: bool,
}

impl Rule {
    /// Returns true if the rule applies to an end port: kind of its node, its GUID, whether it is the manager's own.
    #[must_use]
    pub fn applies_to(&self, kind: NodeKind, guid: Guid, is_manager: bool) -> bool {
        match self.who {
            Who::All => true,
            Who::Kind(of) => of == kind,
            Who::Manager => is_manager,
            Who::Port(of) => of == guid,
        }
    }
}

/// Prints the rule as in `partitions.conf`: `ALL_CAS=limited`, `0x0002c90300001234=full`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.who {
            Who::All => f.write_str("ALL")?,
            Who::Kind(NodeKind::Ca) => f.write_str("ALL_CAS")?,
            Who::Kind(NodeKind::Switch) => f.write_str("ALL_SWITCHES")?,
            Who::Kind(NodeKind::Router) => f.write_str("ALL_ROUTERS")?,
            Who::Manager => f.write_str("SELF")?,
            Who::Port(guid) => write!(f, "{guid}")?,
        }
        f.write_str(if self.is_full { "=full" } else { "=limited" })
    }
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Name of the partition.
    pub name: String,
    /// P_Key of the partition without the membership bit; never 0.
    pub key: u16,
    /// Service level of paths of the partition, if quality of service leaves the choice to it.
    pub sl: Sl,
    /// Rules of the partition. If several apply to a port, the last one is used.
    pub rules: Vec<Rule>,
}

/// A preset group, which exists without members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetGroup {
    /// GID of the group.
    pub mgid: [u8; 16],
    /// P_Key of the group's partition, with the membership bit.
    pub pkey: PKey,
    /// Largest payload, as an IBA code.
    pub mtu: u8,
    /// Static rate, as an IBA code.
    pub rate: u8,
    /// Service level.
    pub sl: u8,
    /// Q_Key.
    pub q_key: u32,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
}

/// GID of the IPv4 broadcast group of a partition. Source: RFC 4391 §4; observed with OpenSM.
const BROADCAST: [u8; 16] = [0xFF, 0x12, 0x40, 0x1B, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];

impl PresetGroup {
    /// Q_Key of IPoIB groups. Source: observed with OpenSM.
    pub const IPOIB_Q_KEY: u32 = 0x0B1B;

    /// Returns the IPv4 broadcast group of a partition with OpenSM's defaults: MTU 2048, 10 Gbit/s, SL 0.
    #[must_use]
    pub fn broadcast(key: u16) -> Self {
        let pkey = PKey(key | 0x8000);
        let mut mgid = BROADCAST;
        mgid[4..6].copy_from_slice(&pkey.0.to_be_bytes());
        Self {
            mgid,
            pkey,
            mtu: 4,
            rate: 3,
            sl: 0,
            q_key: Self::IPOIB_Q_KEY,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 0,
        }
    }
}

/// All partitions of a subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitions {
    /// The statements from which the partitions were read; empty without a file.
    pub statements: Vec<String>,
    /// Partitions by P_Key.
    pub partitions: BTreeMap<u16, Partition>,
    /// Preset groups, by GID.
    pub groups: BTreeMap<[u8; 16], PresetGroup>,
    /// P_Keys of partitions that belong to jobs, and not to the operator's file.
    pub of_jobs: BTreeSet<u16>,
}

impl Partitions {
    /// P_Key of the default partition. Source: IBA vol 1 §10.9.1.2.
    pub const DEFAULT: u16 = 0x7FFF;

    /// Returns the default partition with these rules, and no groups.
    #[must_use]
    pub fn only_default(rules: &[Rule]) -> Self {
        let partition = Partition {
            name: "Default".to_owned(),
            key: Self::DEFAULT,
            sl: Sl::default(),
            rules: rules.to_vec(),
        };
        Self {
            statements: Vec::new(),
            partitions: BTreeMap::from([(Self::DEFAULT, partition)]),
            groups: BTreeMap::new(),
            of_jobs: BTreeSet::new(),
        }
    }

    /// Returns the partitions of jobs.
    #[must_use]
    pub fn partitions_of_jobs(&self) -> Vec<Partition> {
        let all = self.of_jobs.iter().filter_map(|key| self.partitions.get(key));
        all.cloned().collect()
    }

    /// Replaces the partitions of jobs by these. One with a P_Key of the operator's file is left out.
    #[must_use]
    pub fn with_jobs(&self, list: &[Partition]) -> Self {
        let mut with = self.clone();
        for key in std::mem::take(&mut with.of_jobs) {
            with.partitions.remove(&key);
        }
        for partition in list {
            if let Entry::Vacant(free) = with.partitions.entry(partition.key) {
                free.insert(partition.clone());
                with.of_jobs.insert(partition.key);
            }
        }
        with
    }

    /// Returns the P_Keys of a port without their indexes; the first one is for index 0.
    fn keys(&self, kind: NodeKind, guid: Guid, is_manager: bool) -> Vec<PKey> {
        let holds = |rule: &&Rule| rule.applies_to(kind, guid, is_manager);
        let mut keys = Vec::new();
        let mut first = None;
        for partition in self.partitions.values() {
            let Some(rule) = partition.rules.iter().rev().find(holds) else {
                continue;
            };
            let key = PKey(partition.key | u16::from(rule.is_full) << 15);
            keys.push(key);
            // The default partition's P_Key, unless another one has a rule to be first.
            if rule.is_first || first.is_none() && partition.key == Self::DEFAULT {
                first = Some(key);
            }
        }
        if let Some(first) = first {
            keys.retain(|key| *key != first);
            keys.insert(0, first);
        }
        keys
    }

    /// Returns the planned P_Key table of an end port, and the number of P_Keys for which the table has no room. A
    /// current P_Key keeps its index, because queue pairs refer to it by index, and is not removed in favour of a new
    /// one.
    #[must_use]
    pub fn table(&self, fabric: &Fabric, at: PortRef, manager: PortRef) -> Option<(Vec<PKey>, usize)> {
        let (node, port) = (fabric.nodes().get(at.node)?, fabric.port(at)?);
        if node.is_switch() && at.port != PortNum::MANAGEMENT {
            return None;
        }
        let room = usize::from(node.partition_cap).max(1);
        let mut wanted = self.keys(node.kind, port.guid, at == manager);
        let too_many = wanted.len().saturating_sub(room);
        // Current P_Keys come first, except the one at index 0.
        if let Some(rest) = wanted.get_mut(1..).filter(|_| too_many > 0) {
            rest.sort_by_key(|key| !port.pkeys.iter().any(|held| held.0 & 0x7FFF == key.0 & 0x7FFF));
        }
        wanted.truncate(room);
        let first = (!wanted.is_empty()).then(|| wanted.remove(0));
        let table = placed(first, wanted, &port.pkeys, room);
        Some((table, too_many))
    }

    /// Returns the P_Keys that the switch port of an end port lets pass: the P_Keys of the end port, except limited
    /// P_Keys of partitions in which it is a full member. A current P_Key of the switch port keeps its index: a P_Key
    /// that moved to another block would be missing for a moment, and its packets would be dropped. `None` if `at` is
    /// not such a port, if its switch enforces nothing, or if the table has no room for all P_Keys.
    ///
    /// Source: observed with OpenSM (`osm_pkey_mgr.c`).
    #[must_use]
    pub fn enforced(&self, fabric: &Fabric, at: PortRef, manager: PortRef) -> Option<Vec<PKey>> {
        let room = usize::from(fabric.nodes().get(at.node)?.switch?.enforce_cap);
        let peer = fabric.peer(at)?;
        if room == 0 || at.port == PortNum::MANAGEMENT || fabric.switch_index(peer.node).is_some() {
            return None;
        }
        let (held, _) = self.table(fabric, peer, manager)?;
        let is_full_too = |key: PKey| key.0 & 0x8000 == 0 && held.contains(&PKey(key.0 | 0x8000));
        let keys = held.iter().filter(|key| key.0 & 0x7FFF != 0 && !is_full_too(**key));
        let keys: Vec<PKey> = keys.copied().collect();
        let there = &fabric.port(at)?.pkeys;
        (keys.len() <= room).then(|| placed(None, keys, there, room))
    }
}

impl Default for Partitions {
    /// Returns OpenSM's state without a file: every port is a full member of the default partition, and the IPv4
    /// broadcast group exists.
    fn default() -> Self {
        let everybody = Rule {
            who: Who::All,
            is_full: true,
            is_first: false,
        };
        let mut partitions = Self::only_default(&[everybody]);
        let group = PresetGroup::broadcast(Self::DEFAULT);
        partitions.groups.insert(group.mgid, group);
        partitions
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node};

    use super::*;

    fn rule(who: Who, is_full: bool, is_first: bool) -> Rule {
        Rule { who, is_full, is_first }
    }

    fn with(more: &[(u16, &[Rule])]) -> Partitions {
        let mut partitions = Partitions::only_default(&[rule(Who::All, false, false), rule(Who::Manager, true, false)]);
        for (key, rules) in more {
            let partition = Partition {
                name: String::new(),
                key: *key,
                sl: Sl::default(),
                rules: rules.to_vec(),
            };
            partitions.partitions.insert(*key, partition);
        }
        partitions
    }

    #[test]
    fn partitions_of_jobs_never_replace_those_of_the_file() {
        let of_job = |key| Partition {
            name: format!("job {key}"),
            key,
            sl: Sl::default(),
            rules: vec![rule(Who::Port(Guid(1)), true, false)],
        };
        let file = with(&[(5, &[])]);
        let both = file.with_jobs(&[of_job(5), of_job(6), of_job(7)]);
        assert_eq!(both.partitions.keys().copied().collect::<Vec<_>>(), [5, 6, 7, 0x7FFF]);
        assert_eq!(both.partitions[&5], file.partitions[&5]);
        assert_eq!(both.partitions_of_jobs(), [of_job(6), of_job(7)]);
        let later = both.with_jobs(&[of_job(7), of_job(8)]);
        assert_eq!(later.partitions_of_jobs(), [of_job(7), of_job(8)]);
        assert_eq!(later.with_jobs(&[]), file);
    }

    /// Returns the table of a port with these P_Keys and this much room, and the number of P_Keys without room.
    fn table_of(partitions: &Partitions, held: &[u16], is_manager: bool, room: u16) -> (Vec<u16>, usize) {
        let mut builder = FabricBuilder::new();
        let mut node = Node::new(NodeKind::Ca, Guid(0x10), 1, "h");
        node.partition_cap = room;
        let one = PortNum::new(1).unwrap();
        let port = node.port_mut(one).unwrap();
        port.guid = Guid(0x11);
        port.pkeys = held.iter().map(|key| PKey(*key)).collect();
        builder.add(node);
        let fabric = builder.finish().unwrap();
        let at = fabric.find_port(Guid(0x11)).unwrap();
        let manager = PortRef {
            port: if is_manager { one } else { PortNum::MANAGEMENT },
            ..at
        };
        let (table, over) = partitions.table(&fabric, at, manager).unwrap();
        (table.iter().map(|key| key.0).collect(), over)
    }

    #[test]
    fn tables_have_as_many_blocks_as_they_need() {
        let keys = |keys: &[u16]| -> Vec<PKey> { keys.iter().map(|key| PKey(*key)).collect() };
        let long: Vec<u16> = (1..=40).collect();
        let long = keys(&long);
        assert_eq!(pkey_block(&long, 0), &long[..32]);
        assert_eq!(pkey_block(&long, 1), &long[32..]);
        assert_eq!(pkey_block(&long, 2), &[]);
        let unlike = |held: &[PKey], wanted: &[PKey]| unlike_pkey_blocks(held, wanted).collect::<Vec<_>>();
        assert_eq!(unlike(&long, &long), [] as [u16; 0]);
        assert_eq!(unlike(&long[..1], &long), [0, 1]);
        assert_eq!(unlike(&long, &long[..32]), [1]);
        // Empty entries at the end make no difference.
        assert_eq!(unlike(&keys(&[1, 0, 0]), &keys(&[1])), [] as [u16; 0]);
        assert_eq!(with_pkey_block(&long[..1], 1, &long[32..])[32..], long[32..]);
        assert_eq!(with_pkey_block(&long, 1, &[]), long[..32]);
        assert_eq!(with_pkey_block(&long, 0, &[])[32..], long[32..]);
        assert_eq!(
            with_pkey_block(&keys(&[7, 8, 9]), 0, &keys(&[7, 0, 9])),
            keys(&[7, 0, 9])
        );
    }

    /// Forty partitions, some of which end: the other P_Keys keep their indexes.
    #[test]
    fn more_than_a_block_of_keys_stay_where_they_are() {
        let everybody = [rule(Who::All, true, false)];
        let held: Vec<u16> = [0xFFFF].into_iter().chain((1..=40).map(|key| key | 0x8000)).collect();
        let check = |gone: &[u16], room: u16, edit: fn(&mut Vec<u16>), too_many: usize| {
            let keys: Vec<u16> = (1..=40).filter(|key| !gone.contains(key)).collect();
            let more: Vec<(u16, &[Rule])> = keys.iter().map(|key| (*key, &everybody[..])).collect();
            let mut partitions = with(&more);
            partitions.partitions.get_mut(&Partitions::DEFAULT).unwrap().rules = everybody.to_vec();
            let mut want = held.clone();
            edit(&mut want);
            let found = table_of(&partitions, &held, false, room);
            assert_eq!(found, (want, too_many), "without {gone:?}, room for {room}");
        };
        check(&[], 128, |_| {}, 0);
        check(&[5], 128, |table| table[5] = 0, 0);
        check(&[40], 128, |table| table.truncate(40), 0);
        // In the last entry of a block.
        check(&[31], 128, |table| table[31] = PKey::NOBODYS.0, 0);
        let two = |table: &mut Vec<u16>| {
            table.truncate(40);
            table[31] = PKey::NOBODYS.0;
        };
        check(&[31, 40], 128, two, 0);
        // No block follows any more.
        let last_of_both: Vec<u16> = (31..=40).collect();
        check(&last_of_both, 128, |table| table.truncate(31), 0);
        check(&[], 36, |table| table.truncate(36), 5);
        check(&[], 1, |table| table.truncate(1), 40);
    }

    /// An entry without a valid P_Key is assigned if it is the first free one. A full port keeps its current P_Keys.
    #[test]
    fn new_keys_take_free_places_only() {
        let everybody = [rule(Who::All, true, false)];
        let mut held: Vec<u16> = [0xFFFF].into_iter().chain((1..=40).map(|key| key | 0x8000)).collect();
        held[31] = PKey::NOBODYS.0;
        let keys = |keys: std::ops::RangeInclusive<u16>| {
            let keys = keys.filter(|key| *key != 31);
            let keys: Vec<(u16, &[Rule])> = keys.map(|key| (key, &everybody[..])).collect();
            let mut partitions = with(&keys);
            partitions.partitions.get_mut(&Partitions::DEFAULT).unwrap().rules = everybody.to_vec();
            partitions
        };
        assert_eq!(table_of(&keys(1..=40), &held, false, 128), (held.clone(), 0));
        let mut want = held.clone();
        want[31] = 0x8000 | 41;
        assert_eq!(table_of(&keys(1..=41), &held, false, 128), (want.clone(), 0));
        let held = vec![0xFFFF, 0x8000 | 39, 0x8000 | 40];
        assert_eq!(table_of(&keys(1..=40), &held, false, 3), (held.clone(), 37));
    }

    #[test]
    fn what_a_port_holds_stays_where_it_is() {
        let check =
            |partitions: &Partitions, held: &[u16], is_manager: bool, room: u16, want: &[u16], too_many: usize| {
                let found = table_of(partitions, held, is_manager, room);
                assert_eq!(found, (want.to_vec(), too_many), "{held:x?}");
            };
        check(&Partitions::default(), &[0xFFFF], false, 32, &[0xFFFF], 0);
        check(&Partitions::default(), &[], false, 32, &[0xFFFF], 0);
        check(&Partitions::default(), &[0xFFFF, 0x8001], false, 32, &[0xFFFF], 0);
        check(&with(&[]), &[0xFFFF], false, 32, &[0x7FFF], 0);
        check(&with(&[]), &[0xFFFF], true, 32, &[0xFFFF], 0);
        let three = with(&[
            (
                1,
                &[rule(Who::All, false, false), rule(Who::Port(Guid(0x11)), true, false)],
            ),
            (2, &[rule(Who::Kind(NodeKind::Ca), false, false)]),
            (
                3,
                &[
                    rule(Who::Kind(NodeKind::Switch), true, false),
                    rule(Who::Port(Guid(0x12)), true, false),
                ],
            ),
        ]);
        check(&three, &[0xFFFF], false, 32, &[0x7FFF, 0x8001, 0x0002], 0);
        check(
            &three,
            &[0xFFFF, 0x8004, 0x0001, 0x0002],
            false,
            32,
            &[0x7FFF, 0, 0x8001, 0x0002],
            0,
        );
        check(&three, &[0xFFFF], false, 2, &[0x7FFF, 0x8001], 1);
        let first = with(&[(5, &[rule(Who::All, true, true)])]);
        check(&first, &[0xFFFF], false, 32, &[0x8005, 0x7FFF], 0);
    }
}
