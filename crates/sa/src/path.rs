//! Paths: a row for every pair of LIDs that suits.

use selvedge_types::{Guid, Lid, PKey, Sl};
use selvedge_wire::Gid;
use selvedge_wire::sa::{Field, SaData, records};

use crate::alias::Aliases;
use crate::query::Step;
use crate::rate::{self, Selector, StaticRate, Wish};
use crate::refusal::Refusal;
use crate::snapshot::{EndPort, Quality, Snapshot};

/// What a path must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Largest payload.
    pub mtu: Wish,
    /// Static rate.
    pub rate: Wish,
    /// Life time of packets.
    pub life: Wish,
    /// Partition.
    pub pkey: Option<PKey>,
    /// Service level.
    pub sl: Option<Sl>,
    /// Its reverse must carry the same on the same service level.
    pub reversible: bool,
}

/// Fields of a question about paths: PathRecord and MultiPathRecord have the same at different places.
struct Fields {
    mtu: (Field, Field),
    rate: (Field, Field),
    life: (Field, Field),
    pkey: Field,
    sl: Field,
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
        reversible: f::REVERSIBLE,
        numb_path: f::NUMB_PATH,
    }
};

/// A selector and its value, if the mask names both. One alone means nothing, as with OpenSM.
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
            reversible: given(self.reversible) == Some(1),
        }
    }

    /// Most paths of a pair; 0 is no number of paths.
    fn most(&self, mask: u64, data: &SaData) -> Result<u32, Refusal> {
        match self.numb_path.get(data) {
            _ if mask & self.numb_path.mask() == 0 => Ok(u32::MAX),
            0 => Err(Refusal::Invalid),
            most => Ok(most as u32),
        }
    }
}

/// End ports on one side of a question, by position.
#[derive(Clone, Debug)]
enum Side {
    /// Exactly these, with the GUIDs that they are named by.
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

/// A question about paths, and how far its answer is.
#[derive(Debug)]
pub struct Paths {
    wishes: Wishes,
    sources: Side,
    targets: Side,
    slid: Option<Lid>,
    dlid: Option<Lid>,
    /// Most paths of one pair.
    most_of_pair: u32,
    /// Paths of a pair should share as few cables as possible.
    apart: bool,
    /// Whoever is not trusted sees only paths between ports with which it shares a partition: its position.
    requester: Option<u32>,
    source: usize,
    target: usize,
    /// Offsets of the pair at hand that are still to be tried, last first; `None`: it has not begun.
    offsets: Option<Vec<u16>>,
    /// Paths of the pair so far.
    of_pair: u32,
}

impl Paths {
    /// What a PathRecord asks. `requester`: see the field.
    pub fn of_path(
        names: (&Snapshot, &Aliases),
        mask: u64,
        data: &SaData,
        requester: Option<u32>,
    ) -> Result<Self, Refusal> {
        use records::path as f;
        let gid = |field: Field| (mask & field.mask() != 0).then(|| Gid(field.wide(data)));
        let lid = |field: Field| (mask & field.mask() != 0).then(|| Lid(field.get(data) as u16));
        // Raw packets have no path of ours. Source: OpenSM refuses them as well.
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

    /// What a MultiPathRecord asks.
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
            // Whoever wants few of many should get those that fail apart.
            apart: most_of_pair != u32::MAX,
            requester,
            source: 0,
            target: 0,
            offsets: None,
            of_pair: 0,
        }
    }

    /// Only the first path of a pair is wanted (a Get).
    pub fn only_first(&mut self) {
        self.most_of_pair = 1;
        self.apart = false;
    }

    /// Pairs that will be looked at.
    pub fn pairs(&self, snapshot: &Snapshot) -> u64 {
        self.sources.len(snapshot).saturating_mul(self.targets.len(snapshot))
    }

    /// The next path, or the next pair.
    pub fn next(&mut self, snapshot: &Snapshot, row: &mut SaData) -> Step {
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
        if self.offsets.is_none() {
            self.of_pair = 0;
            self.offsets = Some(self.offsets_of(snapshot, from, (target, to)));
        }
        let left = self.of_pair < self.most_of_pair && self.may_see(snapshot, from, to);
        let offset = self.offsets.as_mut().and_then(Vec::pop).filter(|_| left);
        let Some(offset) = offset else {
            (self.target, self.offsets) = (self.target + 1, None);
            return Step::Nothing;
        };
        let slid = self.slid.unwrap_or_else(|| lid_at(from, offset));
        let dlid = self.dlid.unwrap_or_else(|| lid_at(to, offset));
        let preference = u8::try_from(self.of_pair).unwrap_or(u8::MAX);
        let path = Path {
            source: (source, from, slid),
            target: (target, to, dlid),
            named: (sguid, dguid),
        };
        match path.answer(snapshot, &self.wishes) {
            Some(answer) => {
                path.write(snapshot, &answer, preference, row);
                self.of_pair += 1;
                Step::Row
            }
            None => Step::Nothing,
        }
    }

    /// Source: IBA vol 1 §15.4.1.2: nobody learns of ports with which it shares no partition.
    fn may_see(&self, snapshot: &Snapshot, from: &EndPort, to: &EndPort) -> bool {
        let Some(requester) = self.requester.and_then(|place| snapshot.end(place)) else {
            return true;
        };
        [from, to]
            .into_iter()
            .all(|end| end.at == requester.at || snapshot.shared_key(requester, end, None).is_some())
    }

    /// The LMC offsets of a pair in the order in which they are tried, last first.
    fn offsets_of(&self, snapshot: &Snapshot, from: &EndPort, (target, to): (u32, &EndPort)) -> Vec<u16> {
        let count = match (self.dlid, self.slid) {
            (Some(_), Some(_)) => 1,
            (Some(_), None) => from.lids.lmc.lids(),
            (None, _) => to.lids.lmc.lids(),
        };
        if !self.apart || count == 1 || self.dlid.is_some() {
            return (0..count).rev().collect();
        }
        let ways = (0..count).map(|offset| {
            let mut way = Vec::new();
            snapshot.walk_by(from, target, lid_at(to, offset), |hop| way.push(hop));
            way
        });
        let mut order = most_apart(ways.collect());
        order.reverse();
        order
    }
}

/// Ways in an order in which each shares as few hops as possible with those before it; of equals the first.
fn most_apart(ways: Vec<Vec<u32>>) -> Vec<u16> {
    let mut taken: Vec<u32> = Vec::new();
    let mut left: Vec<(u16, Vec<u32>)> = (0..).zip(ways).collect();
    let mut order = Vec::with_capacity(left.len());
    while let Some(best) = (0..left.len()).min_by_key(|&at| left[at].1.iter().filter(|h| taken.contains(h)).count()) {
        let (offset, way) = left.remove(best);
        taken.extend(way);
        order.push(offset);
    }
    order
}

/// LID of an end port at an LMC offset; fewer LIDs than offsets are used again from the first on.
fn lid_at(end: &EndPort, offset: u16) -> Lid {
    Lid(end.lids.base.0 + offset % end.lids.lmc.lids())
}

/// The end ports that a GID and a LID mean.
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
        // Two ends that are not one, or a LID that nobody has.
        (_, Some(_)) => Side::These(Vec::new()),
    })
}

/// One path: an end port, its position and its LID, twice.
struct Path<'a> {
    source: (u32, &'a EndPort, Lid),
    target: (u32, &'a EndPort, Lid),
    /// The GUIDs by which they are asked for: their own, or aliases.
    named: (Guid, Guid),
}

/// What is answered.
struct Answer {
    mtu: u8,
    rate: StaticRate,
    life: u8,
    pkey: PKey,
    sl: Sl,
    reversible: bool,
}

impl Path<'_> {
    /// What is answered of a path; `None` if there is none that suits.
    fn answer(&self, snapshot: &Snapshot, wishes: &Wishes) -> Option<Answer> {
        let ((source, from, slid), (target, to, dlid)) = (self.source, self.target);
        let pkey = snapshot.shared_key(from, to, wishes.pkey)?;
        let plan = snapshot.plan();
        let (levels, takes_any) = (plan.told_levels(), plan.takes_any_level());
        let told = levels.to(dlid);
        let sl = wishes.sl.filter(|_| takes_any).unwrap_or(told);
        if wishes.sl.is_some_and(|wanted| wanted != sl) {
            return None;
        }
        let there = snapshot.walk(from, target, dlid)?;
        let quality = |have: Quality| Some((rate::mtu(wishes.mtu, have.mtu)?, rate::rate(wishes.rate, have.rate)?));
        let (mtu, rate) = quality(there)?;
        // Whoever answers along a reversed path uses its service level: that is what was judged if the plan has the
        // same for both directions, or if its proof holds whatever levels packets have.
        let back = (takes_any || levels.to(slid) == sl)
            .then(|| snapshot.walk(to, source, slid))
            .flatten();
        let reversible = back.and_then(quality).is_some_and(|(m, r)| m >= mtu && r >= rate);
        if wishes.reversible && !reversible {
            return None;
        }
        // Source: IBA vol 1 §15.2.5.16: to itself 0.
        let life = rate::life(wishes.life, if from.at == to.at { 0 } else { snapshot.life() })?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_that_share_least_come_first() {
        let check = |ways: &[&[u32]], want: &[u16]| {
            let order = most_apart(ways.iter().map(|way| way.to_vec()).collect());
            assert_eq!(order, want, "{ways:?}");
        };
        check(&[], &[]);
        check(&[&[1, 2], &[1, 2], &[3, 4]], &[0, 2, 1]);
        check(&[&[1, 2, 9], &[1, 3, 9], &[4, 3, 9], &[4, 5, 9]], &[0, 2, 3, 1]);
    }
}
