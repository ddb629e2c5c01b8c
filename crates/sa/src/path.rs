//! Paths: one row for every matching pair of LIDs.

use std::collections::BTreeMap;

use selvedge_apm::rank;
use selvedge_qos::path::Limits;
use selvedge_types::{Guid, Lid, PKey, Sl};
use selvedge_wire::Gid;
use selvedge_wire::sa::{Field, SaData, records};

use crate::alias::Aliases;
use crate::quality::{Given, QosWishes, Question};
use crate::query::{Registered, Step};
use crate::rate::{self, Selector, StaticRate, Wish};
use crate::refusal::Refusal;
use crate::snapshot::{EndPort, Quality, Snapshot};

/// Required properties of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Largest payload.
    pub mtu: Wish,
    /// Static rate.
    pub rate: Wish,
    /// Packet lifetime.
    pub life: Wish,
    /// Partition.
    pub pkey: Option<PKey>,
    /// Service level.
    pub sl: Option<Sl>,
    /// What else decides about quality of service.
    pub quality: QosWishes,
    /// True if the reverse path must have the same properties on the same service level.
    pub reversible: bool,
}

/// Fields of a path query: PathRecord and MultiPathRecord have the same ones at different offsets.
struct Fields {
    mtu: (Field, Field),
    rate: (Field, Field),
    life: (Field, Field),
    pkey: Field,
    sl: Field,
    service_id: (Field, Field),
    qos_class: Field,
    traffic_class: Field,
    reversible: Field,
    numb_path: Field,
}

const PATH: Fields = {
    use records::path as f;
    Fields {
        mtu: (f::MTU_SELECTOR, f::MTU),
        rate: (f::RATE_SELECTOR, f::RATE),
        life: (f::LIFE_SELECTOR, f::LIFE),
        pkey: f::PKEY,
        sl: f::SL,
        service_id: (f::SERVICE_ID_MSB, f::SERVICE_ID_LSB),
        qos_class: f::QOS_CLASS,
        traffic_class: f::TRAFFIC_CLASS,
        reversible: f::REVERSIBLE,
        numb_path: f::NUMB_PATH,
    }
};

const MULTI_PATH: Fields = {
    use records::multi_path as f;
    Fields {
        mtu: (f::MTU_SELECTOR, f::MTU),
        rate: (f::RATE_SELECTOR, f::RATE),
        life: (f::LIFE_SELECTOR, f::LIFE),
        pkey: f::PKEY,
        sl: f::SL,
        service_id: (f::SERVICE_ID_MSB, f::SERVICE_ID_LSB),
        qos_class: f::QOS_CLASS,
        traffic_class: f::TRAFFIC_CLASS,
        reversible: f::REVERSIBLE,
        numb_path: f::NUMB_PATH,
    }
};

/// Returns a selector and its value, if the mask names both. One alone is ignored, as in OpenSM.
pub fn wish((selector, value): (Field, Field), mask: u64, data: &SaData) -> Wish {
    let both = mask & selector.mask() != 0 && mask & value.mask() != 0;
    both.then(|| (Selector::from_code(selector.get(data)), value.get(data) as u8))
}

impl Fields {
    fn wishes(&self, mask: u64, data: &SaData) -> Wishes {
        let given = |field: Field| (mask & field.mask() != 0).then(|| field.get(data));
        Wishes {
            mtu: wish(self.mtu, mask, data),
            rate: wish(self.rate, mask, data),
            life: wish(self.life, mask, data),
            pkey: given(self.pkey).map(|key| PKey(key as u16)),
            sl: given(self.sl).and_then(|sl| Sl::new(sl as u8)),
            quality: QosWishes {
                service_id: given(self.service_id.0)
                    .zip(given(self.service_id.1))
                    .map(|(high, low)| high << 56 | low),
                class: given(self.qos_class).map(|class| class as u16),
                traffic_class: given(self.traffic_class).map(|class| class as u8),
            },
            reversible: given(self.reversible) == Some(1),
        }
    }

    /// Returns the most paths per pair; 0 is invalid.
    fn most(&self, mask: u64, data: &SaData) -> Result<u32, Refusal> {
        match self.numb_path.get(data) {
            _ if mask & self.numb_path.mask() == 0 => Ok(u32::MAX),
            0 => Err(Refusal::Invalid),
            most => Ok(most as u32),
        }
    }
}

/// End ports on one side of a query, by index.
#[derive(Clone, Debug)]
enum Side {
    /// Exactly these end ports, with the GUIDs that name them.
    These(Vec<(u32, Guid)>),
    /// All.
    All,
}

impl Side {
    fn get(&self, snapshot: &Snapshot, at: usize) -> Option<(u32, Guid)> {
        match self {
            Self::These(all) => all.get(at).copied(),
            Self::All => {
                let at = u32::try_from(at).ok()?;
                Some((at, snapshot.end(at)?.guid))
            }
        }
    }

    fn len(&self, snapshot: &Snapshot) -> u64 {
        match self {
            Self::These(all) => all.len() as u64,
            Self::All => u64::from(snapshot.end_count()),
        }
    }
}

/// A path query and its progress.
#[derive(Debug)]
pub struct Paths {
    wishes: Wishes,
    sources: Side,
    targets: Side,
    slid: Option<Lid>,
    dlid: Option<Lid>,
    /// Largest number of paths of a pair.
    most_of_pair: u32,
    /// True if the paths of a pair should share as few cables as possible.
    apart: bool,
    /// Index of an untrusted requester, which sees only paths between ports with which it shares a partition.
    requester: Option<u32>,
    source: usize,
    target: usize,
    /// Source and destination LIDs of the current pair that are still to be tried, last first; `None`: not started.
    lids: Option<Vec<(Lid, Lid)>>,
    /// Number of paths of the current pair so far.
    of_pair: u32,
    /// If the paths of several pairs should be apart: all that are still to be tried.
    joint: Option<Joint>,
}

/// The paths of several pairs of ports, in one order.
#[derive(Debug)]
struct Joint {
    /// Places of source and target in the query, and LIDs; last first.
    left: Vec<((usize, usize), (Lid, Lid))>,
    /// By pair: the number of its paths so far.
    counts: BTreeMap<(usize, usize), u32>,
    paths: u32,
}

/// Largest number of paths of several pairs that are put into one order.
const JOINT_MAX: usize = 256;

impl Paths {
    /// Reads a PathRecord query. `requester`: see the field.
    pub fn of_path(
        names: (&Snapshot, &Aliases),
        mask: u64,
        data: &SaData,
        requester: Option<u32>,
    ) -> Result<Self, Refusal> {
        use records::path as f;
        let gid = |field: Field| (mask & field.mask() != 0).then(|| Gid(field.wide(data)));
        let lid = |field: Field| (mask & field.mask() != 0).then(|| Lid(field.get(data) as u16));
        // Raw packets have no paths here. OpenSM refuses them too.
        if mask & f::RAW.mask() != 0 && f::RAW.get(data) == 1 {
            return Err(Refusal::None);
        }
        let (slid, dlid) = (lid(f::SLID), lid(f::DLID));
        let sources = side(names, gid(f::SGID), slid)?;
        let targets = side(names, gid(f::DGID), dlid)?;
        let most_of_pair = PATH.most(mask, data)?;
        Ok(Self::new(
            PATH.wishes(mask, data),
            (sources, slid),
            (targets, dlid),
            most_of_pair,
            requester,
        ))
    }

    /// Reads a MultiPathRecord query.
    pub fn of_multi(
        (snapshot, aliases): (&Snapshot, &Aliases),
        mask: u64,
        data: &SaData,
        requester: Option<u32>,
    ) -> Result<Self, Refusal> {
        use records::multi_path as f;
        let needed = f::SGID_COUNT.mask() | f::DGID_COUNT.mask();
        if mask & needed != needed {
            return Err(Refusal::Insufficient);
        }
        let (sources, targets) = (f::SGID_COUNT.get(data) as usize, f::DGID_COUNT.get(data) as usize);
        let gids = f::GIDS.slice(data).chunks_exact(16);
        if sources == 0 || targets == 0 || sources + targets > gids.len() {
            return Err(Refusal::Invalid);
        }
        let mut places = Vec::with_capacity(sources + targets);
        for gid in gids.take(sources + targets) {
            let gid = Gid(core::array::from_fn(|i| gid[i]));
            places.push(aliases.find(snapshot, gid).ok_or(Refusal::InvalidGid)?);
        }
        let targets = Side::These(places.split_off(sources));
        let most_of_pair = MULTI_PATH.most(mask, data)?;
        let wishes = MULTI_PATH.wishes(mask, data);
        let mut paths = Self::new(
            wishes,
            (Side::These(places), None),
            (targets, None),
            most_of_pair,
            requester,
        );
        paths.apart |= mask & f::INDEPENDENCE.mask() != 0 && f::INDEPENDENCE.get(data) != 0;
        Ok(paths)
    }

    fn new(
        wishes: Wishes,
        (sources, slid): (Side, Option<Lid>),
        (targets, dlid): (Side, Option<Lid>),
        most_of_pair: u32,
        requester: Option<u32>,
    ) -> Self {
        Self {
            wishes,
            sources,
            targets,
            slid,
            dlid,
            most_of_pair,
            // A client that wants only some of many paths should get paths that share few cables.
            apart: most_of_pair != u32::MAX,
            requester,
            source: 0,
            target: 0,
            lids: None,
            of_pair: 0,
            joint: None,
        }
    }

    /// Limits the answer to the first path of a pair, as a Get needs it.
    pub fn only_first(&mut self) {
        self.most_of_pair = 1;
        self.apart = false;
    }

    /// Returns the number of pairs to examine.
    pub fn pairs(&self, snapshot: &Snapshot) -> u64 {
        self.sources.len(snapshot).saturating_mul(self.targets.len(snapshot))
    }

    /// Returns the next path, or moves to the next pair.
    pub fn next(&mut self, ground: (&Snapshot, &Registered), row: &mut SaData) -> Step {
        let (snapshot, _) = ground;
        if self.joint.is_none() && (self.source, self.target) == (0, 0) && self.lids.is_none() {
            self.joint = self.jointly(snapshot);
        }
        if self.joint.is_some() {
            return self.next_of_joint(ground, row);
        }
        let Some((source, sguid)) = self.sources.get(snapshot, self.source) else {
            return Step::End;
        };
        let Some((target, dguid)) = self.targets.get(snapshot, self.target) else {
            (self.source, self.target) = (self.source + 1, 0);
            return Step::Nothing;
        };
        let (Some(from), Some(to)) = (snapshot.end(source), snapshot.end(target)) else {
            return Step::End;
        };
        if self.lids.is_none() {
            self.of_pair = 0;
            self.lids = Some(self.lids_of(snapshot, from, to));
        }
        let left = self.of_pair < self.most_of_pair && self.may_see(snapshot, from, to);
        let lids = self.lids.as_mut().and_then(Vec::pop).filter(|_| left);
        let Some((slid, dlid)) = lids else {
            (self.target, self.lids) = (self.target + 1, None);
            return Step::Nothing;
        };
        let preference = u8::try_from(self.of_pair).unwrap_or(u8::MAX);
        let path = Path {
            source: (source, from, slid),
            target: (target, to, dlid),
            named: (sguid, dguid),
        };
        match path.answer(ground, &self.wishes) {
            Some(answer) => {
                path.write(snapshot, &answer, preference, row);
                self.of_pair += 1;
                Step::Row
            }
            None => Step::Nothing,
        }
    }

    /// Returns the paths of all pairs in the order of `selvedge_apm::rank`, if they should be apart and there are
    /// several pairs: so the second path of hosts with two ports uses the other port at both ends. Paths
    /// without a way back come last. `None`: each pair has an order of its own.
    fn jointly(&self, snapshot: &Snapshot) -> Option<Joint> {
        let (Side::These(sources), Side::These(targets)) = (&self.sources, &self.targets) else {
            return None;
        };
        let pairs = sources.len() * targets.len();
        if !self.apart || pairs < 2 {
            return None;
        }
        let routes = snapshot.routes_of_ports();
        let (mut all, mut ways, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (s, &(source, _)) in sources.iter().enumerate() {
            for (t, &(target, _)) in targets.iter().enumerate() {
                let (from, to) = (snapshot.end(source)?, snapshot.end(target)?);
                let candidates = routes.candidates((from.at, to.at), None);
                for path in candidates.iter().take((JOINT_MAX / pairs).max(1)) {
                    let lids = (path.slid, path.dlid);
                    match routes.way(path) {
                        Some(way) => {
                            all.push(((s, t), lids));
                            ways.push(Some(way));
                        }
                        None => others.push(((s, t), lids)),
                    }
                }
            }
        }
        let mut left: Vec<_> = rank(&ways).into_iter().map(|at| all[at]).chain(others).collect();
        left.reverse();
        Some(Joint {
            left,
            counts: BTreeMap::new(),
            paths: 0,
        })
    }

    /// Returns the next path of several pairs, or moves on.
    fn next_of_joint(&mut self, ground: (&Snapshot, &Registered), row: &mut SaData) -> Step {
        let (snapshot, _) = ground;
        let next = self.joint.as_mut().and_then(|joint| joint.left.pop());
        let Some((pair, (slid, dlid))) = next else {
            return Step::End;
        };
        let ends = (self.sources.get(snapshot, pair.0), self.targets.get(snapshot, pair.1));
        let (Some((source, sguid)), Some((target, dguid))) = ends else {
            return Step::End;
        };
        let (Some(from), Some(to)) = (snapshot.end(source), snapshot.end(target)) else {
            return Step::End;
        };
        let may_see = self.may_see(snapshot, from, to);
        let Some(joint) = &mut self.joint else { return Step::End };
        let count = joint.counts.entry(pair).or_insert(0);
        let path = Path {
            source: (source, from, slid),
            target: (target, to, dlid),
            named: (sguid, dguid),
        };
        let most = self.most_of_pair.min(u32::from(to.lids.lmc.lids()));
        let wanted = may_see && *count < most;
        let Some(answer) = wanted.then(|| path.answer(ground, &self.wishes)).flatten() else {
            return Step::Nothing;
        };
        path.write(snapshot, &answer, u8::try_from(joint.paths).unwrap_or(u8::MAX), row);
        *count += 1;
        joint.paths += 1;
        Step::Row
    }

    /// True if a requester may see a path. Source: IBA vol 1 §15.4.1.2: a requester sees no port with which it shares
    /// no partition.
    fn may_see(&self, snapshot: &Snapshot, from: &EndPort, to: &EndPort) -> bool {
        let Some(requester) = self.requester.and_then(|place| snapshot.end(place)) else {
            return true;
        };
        [from, to]
            .into_iter()
            .all(|end| end.at == requester.at || snapshot.shared_key(requester, end, None).is_some())
    }

    /// Returns the source and destination LIDs of a pair in the order of attempts, last first, as many as the port has
    /// LIDs. If paths should be apart, the order is that of `selvedge_apm::rank`: most disjoint, then least loaded.
    fn lids_of(&self, snapshot: &Snapshot, from: &EndPort, to: &EndPort) -> Vec<(Lid, Lid)> {
        let count = match (self.dlid, self.slid) {
            (Some(_), Some(_)) => 1,
            (Some(_), None) => from.lids.lmc.lids(),
            (None, _) => to.lids.lmc.lids(),
        };
        let plain = |offset: u16| {
            let slid = self.slid.unwrap_or_else(|| lid_at(from, offset));
            (slid, self.dlid.unwrap_or_else(|| lid_at(to, offset)))
        };
        if !self.apart || count == 1 || self.dlid.is_some() {
            return (0..count).rev().map(plain).collect();
        }
        let Some(routes) = snapshot.routes() else {
            return (0..count).rev().map(plain).collect();
        };
        let candidates = routes.candidates((from.at, to.at), self.slid);
        let ways: Vec<_> = candidates.iter().map(|path| routes.way(path)).collect();
        let mut order: Vec<(Lid, Lid)> = (rank(&ways).into_iter())
            .map(|at| (candidates[at].slid, candidates[at].dlid))
            .collect();
        // Paths without a way back are tried too, after the others.
        let others: Vec<(Lid, Lid)> = (0..count).map(plain).filter(|lids| !order.contains(lids)).collect();
        order.extend(others);
        order.truncate(usize::from(count));
        order.reverse();
        order
    }
}

/// Returns the LID of an end port at an LMC offset. If the port has fewer LIDs, they are used again from the first on.
fn lid_at(end: &EndPort, offset: u16) -> Lid {
    Lid(end.lids.base.0 + offset % end.lids.lmc.lids())
}

/// Returns the end ports that a GID and a LID name.
fn side((snapshot, aliases): (&Snapshot, &Aliases), gid: Option<Gid>, lid: Option<Lid>) -> Result<Side, Refusal> {
    let by_gid = gid
        .map(|gid| aliases.find(snapshot, gid).ok_or(Refusal::InvalidGid))
        .transpose()?;
    let own = |place: u32| Some((place, snapshot.end(place)?.guid));
    let by_lid = lid.map(|lid| snapshot.by_lid(lid).and_then(own));
    Ok(match (by_gid, by_lid) {
        (None, None) => Side::All,
        (Some(gid), Some(Some(lid))) if gid.0 == lid.0 => Side::These(vec![gid]),
        (Some(gid), None) => Side::These(vec![gid]),
        (None, Some(Some(lid))) => Side::These(vec![lid]),
        // GID and LID name different ports, or no port has the LID.
        (_, Some(_)) => Side::These(Vec::new()),
    })
}

/// One path: source and destination end port, each with its index and LID.
struct Path<'a> {
    source: (u32, &'a EndPort, Lid),
    target: (u32, &'a EndPort, Lid),
    /// The GUIDs in the query: the ports' own, or aliases.
    named: (Guid, Guid),
}

/// Returns the properties of a path within the limits of its QoS level.
fn within(have: Quality, limits: &Limits) -> Quality {
    let mtu = limits.mtu.map_or(have.mtu, |limit| limit.code().min(have.mtu));
    let limit = limits.rate.and_then(StaticRate::from_code);
    Quality {
        mtu,
        rate: limit.map_or(have.rate, |limit| limit.min(have.rate)),
    }
}

/// The values of the answer.
struct Answer {
    mtu: u8,
    rate: StaticRate,
    life: u8,
    pkey: PKey,
    sl: Sl,
    reversible: bool,
}

impl Path<'_> {
    /// Returns the answer for a path; `None` if the path does not match.
    fn answer(&self, (snapshot, registered): (&Snapshot, &Registered), wishes: &Wishes) -> Option<Answer> {
        let ((source, from, slid), (target, to, dlid)) = (self.source, self.target);
        let question = Question {
            snapshot,
            registered,
            from,
            to: (target, to),
            dlid,
            wishes,
        };
        let Given { sl, pkey, limits } = question.answer()?;
        let quality = |have: Quality| {
            let have = within(have, &limits);
            Some((rate::mtu(wishes.mtu, have.mtu)?, rate::rate(wishes.rate, have.rate)?))
        };
        let (mtu, rate) = quality(snapshot.walk(from, target, dlid)?)?;
        // A response on the reversed path uses the same service level. This is what was judged if routes rely on the
        // same level for both directions, or if their proof is valid for any level.
        let plan = snapshot.plan();
        let levels = plan.told_levels();
        let back = (plan.takes_any_level() || levels.to(slid) == levels.to(dlid))
            .then(|| snapshot.walk(to, source, slid))
            .flatten();
        let reversible = back.and_then(quality).is_some_and(|(m, r)| m >= mtu && r >= rate);
        if wishes.reversible && !reversible {
            return None;
        }
        // Source: IBA vol 1 §15.2.5.16: 0 for a path to the port itself.
        let life = limits.packet_life.unwrap_or_else(|| snapshot.life());
        let life = rate::life(wishes.life, if from.at == to.at { 0 } else { life })?;
        Some(Answer {
            mtu,
            rate,
            life,
            pkey,
            sl,
            reversible,
        })
    }

    fn write(&self, snapshot: &Snapshot, answer: &Answer, preference: u8, row: &mut SaData) {
        use records::path as f;
        let ((_, _, slid), (_, _, dlid)) = (self.source, self.target);
        f::DGID.put(row, &snapshot.gid_of(self.named.1).0);
        f::SGID.put(row, &snapshot.gid_of(self.named.0).0);
        f::DLID.set(row, u64::from(dlid.0));
        f::SLID.set(row, u64::from(slid.0));
        f::REVERSIBLE.set(row, u64::from(answer.reversible));
        f::PKEY.set(row, u64::from(answer.pkey.0));
        f::SL.set(row, u64::from(answer.sl.get()));
        let exactly = u64::from(Selector::EXACTLY >> 6);
        f::MTU_SELECTOR.set(row, exactly);
        f::MTU.set(row, u64::from(answer.mtu));
        f::RATE_SELECTOR.set(row, exactly);
        f::RATE.set(row, u64::from(answer.rate.code()));
        f::LIFE_SELECTOR.set(row, exactly);
        f::LIFE.set(row, u64::from(answer.life));
        f::PREFERENCE.set(row, u64::from(preference));
    }
}
