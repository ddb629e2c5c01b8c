//! Who may join a group and leave it for whom: a port for itself, whoever shows the SM_Key for any, and others of the
//! group's partition by proxy.
//!
//! As OpenSM does it (`osm_sa_mcmember_record.c`), which goes by IBA vol 1 §15.2.5.17: whoever is not the port itself
//! joins by proxy, whatever the request says of ProxyJoin, and both need keys of the group's partition by which they
//! may talk. A membership with ProxyJoin may be changed by the partition's members, one without by its own port only
//! (o15-0.2.1). Two things OpenSM does not do: a port that joins itself has its membership to itself from then on, so
//! that nobody who was quicker can put it out; and a membership counts for who asked for it, so that nobody uses up
//! the groups of others (`Config::groups_per_client`).

use selvedge_types::{Guid, PKey};
use selvedge_wire::Gid;
use selvedge_wire::sa::{SaData, records};

use crate::alias::Aliases;
use crate::member::Member;
use crate::refusal::Refusal;
use crate::snapshot::{EndPort, Snapshot};

/// Who joined for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinedBy {
    /// Its port did.
    Itself,
    /// Another port, for which the membership counts. `None`: one that showed the SM_Key, or one that is not known, as
    /// records do not tell it to a standby; then it counts for nobody.
    Proxy(Option<Guid>),
}

/// A request to join or to leave.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The port that is to join or leave.
    pub port: &'a EndPort,
    /// The GUID by which it is named: its own or an alias.
    pub guid: Guid,
    /// As what.
    pub join_state: u8,
    requester: &'a EndPort,
    trusted: bool,
}

impl<'a> Asked<'a> {
    /// Reads who is to join or to leave, and as what.
    pub fn read(
        (snapshot, aliases): (&'a Snapshot, &Aliases),
        (requester, trusted): (&'a EndPort, bool),
        (mask, data): (u64, &SaData),
    ) -> Result<Self, Refusal> {
        use records::member as f;
        let needed = f::PORT_GID.mask() | f::JOIN_STATE.mask();
        if mask & needed != needed {
            return Err(Refusal::Insufficient);
        }
        let join_state = f::JOIN_STATE.get(data) as u8;
        if join_state == 0 {
            return Err(Refusal::Invalid);
        }
        let named = aliases.find(snapshot, Gid(f::PORT_GID.wide(data)));
        let (place, guid) = named.ok_or(Refusal::InvalidGid)?;
        let port = snapshot.end(place).ok_or(Refusal::InvalidGid)?;
        Ok(Self {
            port,
            guid,
            join_state,
            requester,
            trusted,
        })
    }

    /// True if the port speaks for itself.
    pub fn is_itself(&self) -> bool {
        self.port.guid == self.requester.guid
    }

    /// What is remembered of who asked.
    pub fn joined_by(&self) -> JoinedBy {
        match (self.is_itself(), self.trusted) {
            (true, _) => JoinedBy::Itself,
            (false, true) => JoinedBy::Proxy(None),
            (false, false) => JoinedBy::Proxy(Some(self.requester.guid)),
        }
    }

    /// The port whose membership it will be when groups are counted.
    pub fn payer(&self) -> Guid {
        match self.joined_by() {
            JoinedBy::Proxy(Some(by)) => by,
            JoinedBy::Itself | JoinedBy::Proxy(None) => self.port.guid,
        }
    }

    /// Whether the requester may join for the port in a partition.
    pub fn may_join(&self, snapshot: &Snapshot, pkey: PKey) -> Result<(), Refusal> {
        let shares = || snapshot.shared_key(self.requester, self.port, Some(pkey)).is_some();
        self.granted_if(shares)
    }

    /// Whether the requester may change a membership, or end it.
    pub fn may_change(&self, member: &Member, snapshot: &Snapshot, pkey: PKey) -> Result<(), Refusal> {
        let is_by_proxy = matches!(member.joined_by, JoinedBy::Proxy(_));
        self.granted_if(|| is_by_proxy && belongs(snapshot, self.requester, pkey))
    }

    /// Source of the status: IBA vol 1 §15.2.5.17 (o15-0.2.1).
    fn granted_if(&self, is_granted: impl FnOnce() -> bool) -> Result<(), Refusal> {
        match self.is_itself() || self.trusted || is_granted() {
            true => Ok(()),
            false => Err(Refusal::Invalid),
        }
    }
}

impl Member {
    /// The port for which this membership counts, if it is known.
    pub(crate) fn payer(&self, aliases: &Aliases) -> Option<Guid> {
        match self.joined_by {
            JoinedBy::Proxy(by) => by,
            JoinedBy::Itself => Some(aliases.port_of(self.guid)),
        }
    }
}

/// True if a port has a key of this partition, as full or limited member.
pub fn belongs(snapshot: &Snapshot, port: &EndPort, pkey: PKey) -> bool {
    let keys = snapshot.keys(port);
    keys.iter().any(|key| key.0 & 0x7FFF == pkey.0 & 0x7FFF)
}
