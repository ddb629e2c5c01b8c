//! Multicast groups and their members.
//!
//! This module records which port belongs to which group. The manager makes switches copy packets to members; by
//! [`Groups::take_changed`] it learns which groups have changed.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::SwitchIdx;
use selvedge_types::{Guid, Lid, PKey, Sl};
use selvedge_wire::Gid;
use selvedge_wire::sa::{Filter, SA_DATA_LEN, SaData, records};

use crate::alias::Aliases;
use crate::config::Config;
use crate::kept::KeptGroup;
use crate::path::wish;
use crate::proxy::{Asked, JoinedBy, belongs};
use crate::query::{Cursor, Ground, Step};
use crate::rate::{self, Selector, StaticRate, Wish};
use crate::refusal::Refusal;
use crate::snapshot::{EndPort, Snapshot};

/// Bit of JoinState: full member. Source: IBA vol 1 §15.2.5.17.
pub const FULL: u8 = 1;
/// Bit of JoinState: non-member. Source: as for [`FULL`].
pub const NON_MEMBER: u8 = 2;
const SEND_ONLY_FULL: u8 = 8;
/// Join states that create a group and keep it alive: full member and send-only full member. Source: OpenSM
/// (`osm_sa_mcmember_record.c`, `osm_multicast.c`), which follows release 1.3 of IBA vol 1 §15.2.5.17.
const KEEPS: u8 = FULL | SEND_ONLY_FULL;
/// First multicast LID. Source: IBA vol 1 §4.1.3.
const FIRST: u16 = 0xC000;
/// Signature of the group GIDs that an administrator assigns, and their scope. Source: OpenSM
/// (`osm_sa_mcmember_record.c`), IBA vol 1 §15.2.5.17 (o15-0.1.6).
const SIGNATURE: u16 = 0xA01B;
const LINK_LOCAL: u8 = 2;
/// Last multicast LID: 0xFFFF is the permissive LID.
const LAST: u16 = 0xFFFE;

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// GUID of the member's port.
    pub guid: Guid,
    /// JoinState: 1 full, 2 non-member, 4 send-only, 8 send-only full.
    pub join_state: u8,
    /// The port that joined for this member.
    pub joined_by: JoinedBy,
}

/// A multicast group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// GID of the group.
    pub mgid: Gid,
    /// LID of the group.
    pub mlid: Lid,
    /// Partition of the group.
    pub pkey: PKey,
    /// Largest payload, as an IBA code.
    pub mtu: u8,
    /// Static rate of the group.
    pub rate: StaticRate,
    /// Members of the group, by GUID.
    pub members: Vec<Member>,
    /// True for a preset group, which stays without members.
    pub is_preset: bool,
    /// The properties of the group, as a record without a member.
    pub(crate) record: SaData,
}

impl Group {
    /// True while the group exists: always for a preset group, for others while a full or send-only full member is
    /// left.
    pub(crate) fn is_alive(&self) -> bool {
        self.is_preset || self.members.iter().any(|m| m.join_state & KEEPS != 0)
    }

    /// True if one of these GUIDs is a member.
    pub(crate) fn has_any(&self, guids: &BTreeSet<Guid>) -> bool {
        let mut named = guids.iter();
        named.any(|guid| self.members.binary_search_by_key(guid, |m| m.guid).is_ok())
    }

    /// Returns the service level of the group's packets.
    pub(crate) fn sl(&self) -> Option<Sl> {
        Sl::new(u8::try_from(records::member::SL.get(&self.record)).ok()?)
    }

    /// Returns the record of the group with a member.
    fn with(&self, gid: Gid, member: Member) -> SaData {
        use records::member as f;
        let mut row = self.record;
        f::PORT_GID.put(&mut row, &gid.0);
        f::JOIN_STATE.set(&mut row, u64::from(member.join_state));
        f::PROXY.set(&mut row, u64::from(member.joined_by != JoinedBy::Itself));
        row
    }
}

/// All multicast groups.
#[derive(Debug, Default)]
pub struct Groups {
    /// Groups by LID.
    pub(crate) by_mlid: BTreeMap<u16, Group>,
    pub(crate) by_mgid: BTreeMap<Gid, u16>,
    /// Serial number of assigned group GIDs.
    serial: u64,
    /// Groups that have changed since the last [`Groups::take_changed`].
    pub(crate) changed: BTreeSet<u16>,
}

/// Result of a join or leave.
#[derive(Debug)]
pub struct Changed {
    /// The answer.
    pub record: SaData,
    /// If the group was created or deleted: the number of the trap that reports it, and its GID.
    pub event: Option<(u16, Gid)>,
}

/// Number of the trap "a group was created". Source: IBA vol 1 §14.2.5.1.
pub const CREATED: u16 = 66;
/// Number of the trap "a group was deleted". Source: as for [`CREATED`].
pub const DELETED: u16 = 67;

impl Groups {
    /// Returns all groups, by LID.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.by_mlid.values()
    }

    fn find(&self, mgid: Gid) -> Option<&Group> {
        self.by_mlid.get(self.by_mgid.get(&mgid)?)
    }

    /// Adds a port to a group. The first member creates the group.
    pub fn join(
        &mut self,
        (config, snapshot, aliases): (&Config, &Snapshot, &Aliases),
        who: (&EndPort, bool),
        (mask, data): (u64, &SaData),
    ) -> Result<Changed, Refusal> {
        use records::member as f;
        let asked = Asked::read((snapshot, aliases), who, (mask, data))?;
        let Asked {
            port, guid, join_state, ..
        } = asked;
        let mgid = match mask & f::MGID.mask() {
            0 => Gid::default(),
            _ => Gid(f::MGID.wide(data)),
        };
        let known = self.by_mgid.get(&mgid).copied();
        // The limit applies to the requesting port, by whichever of its GUIDs it is named.
        let payer = asked.payer();
        let is_paid = |member: &Member| member.payer(aliases) == Some(payer);
        let counts = |group: &Group| group.members.iter().any(is_paid);
        let is_one_more = || known.is_none_or(|mlid| !self.by_mlid.get(&mlid).is_some_and(counts));
        let own = || self.iter().filter(|group| counts(group)).count();
        // Memberships are counted only if the port may have reached its limit, to keep joins fast.
        let may_be_full = self.by_mlid.len() >= config.groups_per_client;
        if may_be_full && is_one_more() && own() >= config.groups_per_client {
            return Err(Refusal::NoResources);
        }
        let (mlid, event) = match known {
            Some(mlid) => (mlid, None),
            None => {
                if join_state & KEEPS == 0 {
                    return Err(Refusal::Invalid);
                }
                let group = self.create((config, snapshot), &asked, mgid, (mask, data))?;
                let (mlid, mgid) = (group.mlid.0, group.mgid);
                self.by_mgid.insert(mgid, mlid);
                self.by_mlid.insert(mlid, group);
                (mlid, Some((CREATED, mgid)))
            }
        };
        self.changed.insert(mlid);
        let group = self.by_mlid.get_mut(&mlid).ok_or(Refusal::None)?;
        if event.is_none() {
            asked.may_join(snapshot, group.pkey)?;
            suits(group, snapshot, port, (mask, data))?;
        }
        let member = match group.members.binary_search_by_key(&guid, |m| m.guid) {
            Ok(at) => {
                asked.may_change(&group.members[at], snapshot, group.pkey)?;
                let member = &mut group.members[at];
                member.join_state |= join_state;
                if asked.is_itself() {
                    member.joined_by = JoinedBy::Itself;
                }
                *member
            }
            Err(at) => {
                let joined_by = asked.joined_by();
                let member = Member {
                    guid,
                    join_state,
                    joined_by,
                };
                group.members.insert(at, member);
                member
            }
        };
        let record = group.with(snapshot.gid_of(guid), member);
        Ok(Changed { record, event })
    }

    /// Creates a group with the parameters of its first member. Source: IBA vol 1 §15.2.5.17 (components needed to
    /// create).
    fn create(
        &mut self,
        (config, snapshot): (&Config, &Snapshot),
        asked: &Asked<'_>,
        mgid: Gid,
        (mask, data): (u64, &SaData),
    ) -> Result<Group, Refusal> {
        use records::member as f;
        let port = asked.port;
        let needed = [f::QKEY, f::TRAFFIC_CLASS, f::PKEY, f::SL, f::FLOW_LABEL];
        if needed.iter().any(|field| mask & field.mask() == 0) {
            return Err(Refusal::Insufficient);
        }
        let pkey = PKey(f::PKEY.get(data) as u16);
        if pkey.0 & 0x7FFF == 0 || !belongs(snapshot, port, pkey) {
            return Err(Refusal::Invalid);
        }
        asked.may_join(snapshot, pkey)?;
        let own = Snapshot::quality_of(port);
        let mtu = wish((f::MTU_SELECTOR, f::MTU), mask, data);
        let mtu = rate::mtu(mtu, own.mtu).ok_or(Refusal::Invalid)?;
        let rate = match wish((f::RATE_SELECTOR, f::RATE), mask, data) {
            // A group may have a lower rate than its members.
            Some((Selector::Exactly, code)) => StaticRate::from_code(code).filter(|rate| *rate <= own.rate),
            other => rate::rate(other, own.rate),
        };
        let rate = rate.ok_or(Refusal::Invalid)?;
        let life = match wish((f::LIFE_SELECTOR, f::LIFE), mask, data) {
            Some((Selector::Exactly, life)) => life,
            _ => snapshot.life(),
        };
        let mlid = self.free_mlid(config, snapshot)?;
        let mgid = self.checked_mgid(mgid, pkey)?;
        let mut record = [0; SA_DATA_LEN];
        for field in [f::QKEY, f::TRAFFIC_CLASS, f::SL, f::FLOW_LABEL] {
            field.set(&mut record, field.get(data));
        }
        if mask & f::HOP_LIMIT.mask() != 0 {
            f::HOP_LIMIT.set(&mut record, f::HOP_LIMIT.get(data));
        }
        // The GID contains the scope too.
        f::SCOPE.set(&mut record, u64::from(mgid.0[1] & 0x0F));
        f::MGID.put(&mut record, &mgid.0);
        f::MLID.set(&mut record, u64::from(mlid.0));
        // Groups have the full member's P_Key. Source: observed with OpenSM; IPoIB's GIDs contain it in this form.
        f::PKEY.set(&mut record, u64::from(pkey.0 | 0x8000));
        let exactly = u64::from(Selector::EXACTLY >> 6);
        for (selector, field, value) in [
            (f::MTU_SELECTOR, f::MTU, mtu),
            (f::RATE_SELECTOR, f::RATE, rate.code()),
            (f::LIFE_SELECTOR, f::LIFE, life),
        ] {
            selector.set(&mut record, exactly);
            field.set(&mut record, u64::from(value));
        }
        Ok(Group {
            mgid,
            mlid,
            pkey,
            mtu,
            rate,
            members: Vec::new(),
            is_preset: false,
            record,
        })
    }

    /// Returns the lowest free LID for which every switch has room.
    pub(crate) fn free_mlid(&self, config: &Config, snapshot: &Snapshot) -> Result<Lid, Refusal> {
        let fabric = snapshot.fabric();
        let switches = (0..).map(SwitchIdx).take(fabric.switches().len());
        let room = switches
            .filter_map(|switch| fabric.switch(switch).switch)
            .map(|s| s.mcast_cap)
            .min();
        let most = room.map_or(config.groups, |room| config.groups.min(usize::from(room)));
        let mut candidates = (FIRST..=LAST).take(most);
        let free = candidates.find(|mlid| !self.by_mlid.contains_key(mlid));
        free.map(Lid).ok_or(Refusal::NoResources)
    }

    /// Returns a group's GID: the requested one if it is valid, or a new one. Source: IBA vol 1 §4.1.1 (multicast
    /// GIDs).
    fn checked_mgid(&mut self, mgid: Gid, pkey: PKey) -> Result<Gid, Refusal> {
        if mgid == Gid::default() {
            // Transient and link-local.
            let head = 0xFF10_0000 | u32::from(LINK_LOCAL) << 16 | u32::from(SIGNATURE);
            let high = u128::from(head) << 96 | u128::from(pkey.0 | 0x8000) << 80;
            // Groups made by another administrator may use the same numbers.
            loop {
                self.serial = self.serial.wrapping_add(1);
                let gid = Gid((high | u128::from(self.serial)).to_be_bytes());
                if !self.by_mgid.contains_key(&gid) {
                    return Ok(gid);
                }
            }
        }
        // Flags above "transient" are reserved. The signature in the link-local scope is reserved for GIDs assigned
        // here.
        let reserved = mgid.0[1] & 0xE0 != 0;
        let given_out = mgid.0[1] & 0x0F == LINK_LOCAL && mgid.0[2..4] == SIGNATURE.to_be_bytes();
        if mgid.is_multicast() && !reserved && !given_out {
            Ok(mgid)
        } else {
            Err(Refusal::Invalid)
        }
    }

    /// Removes a port from a group, or removes some of its join states.
    pub fn leave(
        &mut self,
        (snapshot, aliases): (&Snapshot, &Aliases),
        who: (&EndPort, bool),
        (mask, data): (u64, &SaData),
    ) -> Result<Changed, Refusal> {
        use records::member as f;
        if mask & f::MGID.mask() == 0 {
            return Err(Refusal::Insufficient);
        }
        let asked = Asked::read((snapshot, aliases), who, (mask, data))?;
        let Asked { guid, join_state, .. } = asked;
        let mgid = Gid(f::MGID.wide(data));
        let mlid = *self.by_mgid.get(&mgid).ok_or(Refusal::Invalid)?;
        self.changed.insert(mlid);
        let group = self.by_mlid.get_mut(&mlid).ok_or(Refusal::Invalid)?;
        let at = group.members.binary_search_by_key(&guid, |m| m.guid);
        let at = at.map_err(|_| Refusal::Invalid)?;
        asked.may_change(&group.members[at], snapshot, group.pkey)?;
        let member = &mut group.members[at];
        // Source: OpenSM: a port cannot leave with a join state that it does not have.
        if member.join_state & join_state != join_state {
            return Err(Refusal::Invalid);
        }
        member.join_state &= !join_state;
        // Source: IBA vol 1 §15.2.5.17 (o15-0.1.14), as osmtest checks it: the answer has the remaining join states.
        let left = *member;
        let record = group.with(snapshot.gid_of(guid), left);
        if left.join_state == 0 {
            group.members.remove(at);
        }
        let ended = !group.is_alive();
        if ended {
            self.remove(mlid);
        }
        let event = ended.then_some((DELETED, mgid));
        Ok(Changed { record, event })
    }

    pub(crate) fn remove(&mut self, mlid: u16) {
        self.changed.insert(mlid);
        if let Some(group) = self.by_mlid.remove(&mlid) {
            self.by_mgid.remove(&group.mgid);
        }
    }

    /// Returns all groups, to be stored, and the serial number of the last assigned group GID.
    pub(crate) fn kept(&self) -> (Vec<KeptGroup>, u64) {
        let kept = |group: &Group| KeptGroup {
            record: group.record,
            members: group.members.clone(),
        };
        (self.iter().map(kept).collect(), self.serial)
    }

    /// Restores stored groups. Invalid ones are left out: a LID that is not multicast, or a GID that two groups have.
    pub(crate) fn restore(&mut self, groups: BTreeMap<u16, KeptGroup>, serial: u64) {
        use records::member as f;
        self.serial = serial;
        for (mlid, KeptGroup { record, mut members }) in groups {
            let mgid = Gid(f::MGID.wide(&record));
            let rate = u8::try_from(f::RATE.get(&record)).ok().and_then(StaticRate::from_code);
            let is_sound = (FIRST..=LAST).contains(&mlid) && mgid.is_multicast() && !self.by_mgid.contains_key(&mgid);
            let Some(rate) = rate.filter(|_| is_sound) else {
                continue;
            };
            members.sort_unstable_by_key(|member| member.guid);
            members.dedup_by_key(|member| member.guid);
            let group = Group {
                mgid,
                mlid: Lid(mlid),
                pkey: PKey(f::PKEY.get(&record) as u16),
                mtu: f::MTU.get(&record) as u8,
                rate,
                members,
                // A group without members was preset. Whether it still is depends on the partitions, which follow
                // later.
                is_preset: true,
                record,
            };
            self.by_mgid.insert(mgid, mlid);
            self.by_mlid.insert(mlid, group);
            self.changed.insert(mlid);
        }
    }

    /// Removes absent ports from all groups. Returns the groups that have ended.
    pub fn keep(&mut self, is_there: impl Fn(Guid) -> bool) -> Vec<Gid> {
        let mut ended = Vec::new();
        for (mlid, group) in &mut self.by_mlid {
            let before = group.members.len();
            group.members.retain(|m| is_there(m.guid));
            if group.members.len() != before {
                self.changed.insert(*mlid);
            }
            if !group.is_alive() {
                ended.push((*mlid, group.mgid));
            }
        }
        let ended = ended.into_iter().map(|(mlid, mgid)| {
            self.remove(mlid);
            mgid
        });
        ended.collect()
    }

    /// Returns the path of an end port to a group, as a PathRecord. Source: IBA vol 1 §15.2.5.16 (DGID of a group).
    pub fn path(&self, snapshot: &Snapshot, (from, named): (&EndPort, Guid), mgid: Gid) -> Result<SaData, Refusal> {
        use records::{member as m, path as f};
        let group = self.find(mgid).ok_or(Refusal::None)?;
        if !belongs(snapshot, from, group.pkey) {
            return Err(Refusal::None);
        }
        let mut row = [0; SA_DATA_LEN];
        f::DGID.put(&mut row, &mgid.0);
        f::SGID.put(&mut row, &snapshot.gid_of(named).0);
        f::SLID.set(&mut row, u64::from(from.lids.base.0));
        for (to, of) in [
            (f::DLID, m::MLID),
            (f::PKEY, m::PKEY),
            (f::SL, m::SL),
            (f::TRAFFIC_CLASS, m::TRAFFIC_CLASS),
            (f::FLOW_LABEL, m::FLOW_LABEL),
            (f::HOP_LIMIT, m::HOP_LIMIT),
            (f::MTU_SELECTOR, m::MTU_SELECTOR),
            (f::MTU, m::MTU),
            (f::RATE_SELECTOR, m::RATE_SELECTOR),
            (f::RATE, m::RATE),
            (f::LIFE_SELECTOR, m::LIFE_SELECTOR),
            (f::LIFE, m::LIFE),
        ] {
            to.set(&mut row, of.get(&group.record));
        }
        Ok(row)
    }
}

/// Returns the serial number in an assigned group GID. Returns `None` for very large numbers, so that the count of
/// assigned GIDs does not continue from them.
pub(crate) fn serial_of(mgid: Gid) -> Option<u64> {
    let given_out = mgid.0[1] & 0x0F == LINK_LOCAL && mgid.0[2..4] == SIGNATURE.to_be_bytes();
    given_out
        .then(|| mgid.guid().0)
        .filter(|serial| *serial <= u64::from(u32::MAX))
}

/// True if a group's value satisfies the request.
fn is_wished(wish: Wish, value: u64, rank: impl Fn(u64) -> Option<u64>) -> bool {
    let Some((selector, wanted)) = wish else { return true };
    let (Some(have), Some(wanted)) = (rank(value), rank(u64::from(wanted))) else {
        return selector == Selector::Best;
    };
    match selector {
        Selector::Greater => have > wanted,
        Selector::Less => have < wanted,
        Selector::Exactly => have == wanted,
        Selector::Best => true,
    }
}

/// Special fields of a query for groups: selectors, and a set of join states.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes {
    mtu: Wish,
    rate: Wish,
    life: Wish,
    join_state: Option<u64>,
}

impl Wishes {
    /// Returns the wishes that a query states.
    pub fn of(mask: u64, data: &SaData) -> Self {
        use records::member as f;
        Self {
            mtu: wish((f::MTU_SELECTOR, f::MTU), mask, data),
            rate: wish((f::RATE_SELECTOR, f::RATE), mask, data),
            life: wish((f::LIFE_SELECTOR, f::LIFE), mask, data),
            join_state: (mask & f::JOIN_STATE.mask() != 0).then(|| f::JOIN_STATE.get(data)),
        }
    }

    /// True if a row satisfies these wishes.
    pub fn accepts(&self, row: &SaData) -> bool {
        use records::member as f;
        let by_speed = |code: u64| {
            let rate = u8::try_from(code).ok().and_then(StaticRate::from_code)?;
            Some(rate.steps_above(StaticRate::MIN))
        };
        is_wished(self.mtu, f::MTU.get(row), Some)
            && is_wished(self.rate, f::RATE.get(row), by_speed)
            && is_wished(self.life, f::LIFE.get(row), Some)
            && self
                .join_state
                .is_none_or(|wanted| wanted == 0 || f::JOIN_STATE.get(row) & wanted != 0)
    }
}

/// Checks whether a port may join an existing group: the group satisfies the request, and the port can take part.
fn suits(group: &Group, snapshot: &Snapshot, port: &EndPort, (mask, data): (u64, &SaData)) -> Result<(), Refusal> {
    use records::member as f;
    let fixed = [f::QKEY, f::MLID, f::TRAFFIC_CLASS, f::SL, f::FLOW_LABEL];
    let compared = fixed.iter().fold(0, |all, field| all | mask & field.mask());
    let agrees = Filter::new(&records::MEMBER, compared, data).accepts(&group.record);
    let pkey = mask & f::PKEY.mask() == 0 || f::PKEY.get(data) & 0x7FFF == u64::from(group.pkey.0 & 0x7FFF);
    let wishes = Wishes {
        join_state: None,
        ..Wishes::of(mask, data)
    };
    let own = Snapshot::quality_of(port);
    let able = own.mtu >= group.mtu && own.rate >= group.rate && belongs(snapshot, port, group.pkey);
    if agrees && pkey && able && wishes.accepts(&group.record) {
        Ok(())
    } else {
        Err(Refusal::Invalid)
    }
}

/// Writes groups as rows, each once, without members. This is what untrusted requesters see.
pub fn group_rows(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let Some(group) = at(ground, cursor) else {
        return Step::End;
    };
    cursor.next_outer();
    *row = group.record;
    Step::Row
}

/// Writes members as rows.
pub fn member_rows(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let Some(group) = at(ground, cursor) else {
        return Step::End;
    };
    let Some(member) = group.members.get(cursor.inner as usize) else {
        cursor.next_outer();
        return Step::Nothing;
    };
    cursor.inner += 1;
    let port = ground.registered.aliases.port_of(member.guid);
    if ground.snapshot.by_guid(port).is_none() {
        return Step::Nothing;
    }
    *row = group.with(ground.snapshot.gid_of(member.guid), *member);
    Step::Row
}

/// Returns the group at the cursor, or the next one. The outer position is its LID.
fn at<'a>(ground: &Ground<'a>, cursor: &mut Cursor) -> Option<&'a Group> {
    let from = u16::try_from(cursor.outer).ok()?;
    let (mlid, group) = ground.registered.groups.by_mlid.range(from..).next()?;
    if *mlid != from {
        *cursor = Cursor {
            outer: u64::from(*mlid),
            inner: 0,
        };
    }
    Some(group)
}
