//! Access rights for joining and leaving groups: a port for itself, a requester with the SM_Key for any port, and
//! members of the group's partition by proxy.
//!
//! This follows OpenSM (`osm_sa_mcmember_record.c`) and IBA vol 1 §15.2.5.17. A requester other than the port itself
//! joins by proxy, whether or not the request has ProxyJoin, and both ports need P_Keys of the group's partition that
//! match. A membership with ProxyJoin may be changed by any member of the partition, and a membership without it only
//! by its own port (o15-0.2.1).
//!
//! There are two differences from OpenSM. A port that joins for itself owns its membership from then on, so that no
//! other port can remove it. And a membership counts for the port that requested it, so that no port can use up the
//! groups of others (`Config::groups_per_client`).

use selvedge_types::{Guid, PKey};
use selvedge_wire::Gid;
use selvedge_wire::sa::{SaData, records};

use crate::alias::Aliases;
use crate::member::Member;
use crate::refusal::Refusal;
use crate::snapshot::{EndPort, Snapshot};

/// The port that joined for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinedBy {
    /// The member's port itself.
    Itself,
    /// Another port has joined the member, and the membership counts against the limit of that port. `None`: it counts
    /// for no port, because the requester has the SM_Key, or because this was a standby and the copied records do not
    /// name the port.
    Proxy(Option<Guid>),
}

/// A request to join or to leave.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The port that shall join or leave.
    pub port: &'a EndPort,
    /// The GUID in the request: the port's own or an alias.
    pub guid: Guid,
    /// The join states.
    pub join_state: u8,
    requester: &'a EndPort,
    trusted: bool,
}

impl<'a> Asked<'a> {
    /// Reads the port and the join states.
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

    /// True if the requester is the port itself.
    pub fn is_itself(&self) -> bool {
        self.port.guid == self.requester.guid
    }

    /// Returns the requester in the form that is stored with the membership.
    pub fn joined_by(&self) -> JoinedBy {
        match (self.is_itself(), self.trusted) {
            (true, _) => JoinedBy::Itself,
            (false, true) => JoinedBy::Proxy(None),
            (false, false) => JoinedBy::Proxy(Some(self.requester.guid)),
        }
    }

    /// Returns the port for which the membership counts.
    pub fn payer(&self) -> Guid {
        match self.joined_by() {
            JoinedBy::Proxy(Some(by)) => by,
            JoinedBy::Itself | JoinedBy::Proxy(None) => self.port.guid,
        }
    }

    /// Checks whether the requester may join for the port in a partition.
    pub fn may_join(&self, snapshot: &Snapshot, pkey: PKey) -> Result<(), Refusal> {
        let shares = || snapshot.shared_key(self.requester, self.port, Some(pkey)).is_some();
        self.granted_if(shares)
    }

    /// Checks whether the requester may change or end a membership.
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
    /// Returns the port for which this membership counts, if known.
    pub(crate) fn payer(&self, aliases: &Aliases) -> Option<Guid> {
        match self.joined_by {
            JoinedBy::Proxy(by) => by,
            JoinedBy::Itself => Some(aliases.port_of(self.guid)),
        }
    }
}

/// True if a port has a P_Key of this partition, as full or limited member.
pub fn belongs(snapshot: &Snapshot, port: &EndPort, pkey: PKey) -> bool {
    let keys = snapshot.keys(port);
    keys.iter().any(|key| key.0 & 0x7FFF == pkey.0 & 0x7FFF)
}
