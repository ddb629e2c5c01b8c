//! A standby's request for the revision of the master's registrations, and the answer.

use selvedge_wire::sa::records;
use selvedge_wire::{Class, Mad, Method, Status};

/// A revision: the master's run and a number; see [`mod@crate::revision`].
pub type Revision = (u64, u64);

/// A master's answer: its revision, and how often the service levels of senders have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    pub revision: Revision,
    pub levels: u64,
    /// Number of the master's list of places out of service; 0 if the list is empty.
    pub listed: u32,
    /// Number of the master's list of jobs; 0 if there is none.
    pub jobs: u32,
}

/// What the master does if the requester already knows its current revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfSame {
    /// Answer at once.
    Answer,
    /// Hold the request back, and answer it when the revision changes.
    Wait,
}

/// Returns a request for the revision. It states the revision for which the requester's copy may be complete.
pub fn revision_question(shown: Option<Revision>, if_same: IfSame) -> Mad {
    use records::revision as f;
    let mut mad = Mad::request(Class::SubnAdm, Method::Get, records::REVISION.id, 0);
    if let Some((life, number)) = shown {
        f::LIFE.set(mad.sa_data_mut(), life);
        f::NUMBER.set(mad.sa_data_mut(), number);
        mad.set_component_mask(match if_same {
            IfSame::Answer => f::NUMBER.mask(),
            IfSame::Wait => f::LIFE.mask() | f::NUMBER.mask(),
        });
    }
    mad
}

/// Returns the contents of the master's answer to [`revision_question`]; `None` if the answer has an error status,
/// because the master does not support the request.
pub fn said_of(mad: &Mad) -> Option<Said> {
    use records::revision as f;
    let data = mad.sa_data();
    (mad.status() == Status::OK).then(|| Said {
        revision: (f::LIFE.get(data), f::NUMBER.get(data)),
        levels: f::LEVELS.get(data),
        listed: f::OUT_OF_SERVICE.get(data) as u32,
        jobs: f::JOBS.get(data) as u32,
    })
}
