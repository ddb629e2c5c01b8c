//! Why a request is not answered, as its status.

use selvedge_wire::Status;
use selvedge_wire::sa::SaStatus;

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No plan yet, or the client asks too much.
    Busy,
    /// Class version other than 2.
    BadVersion,
    /// No such method.
    BadMethod,
    /// No such attribute, or it does not go with the method.
    BadAttribute,
    /// A component that the attribute does not have, or one that makes no sense.
    Invalid,
    /// Components are missing.
    Insufficient,
    /// More than one record where one was asked for.
    TooMany,
    /// No record where one was asked for.
    None,
    /// A GID that is none of this subnet.
    InvalidGid,
    /// Not allowed: a wrong SM_Key, somebody else's registration, or for trusted requesters only.
    Denied,
    /// A limit is reached.
    NoResources,
}

impl Refusal {
    /// What the requester is told.
    pub const fn status(self) -> Status {
        match self {
            Self::Busy => Status::BUSY,
            Self::BadVersion => Status::BAD_VERSION,
            Self::BadMethod => Status::BAD_METHOD,
            Self::BadAttribute => Status::BAD_METHOD_ATTRIBUTE,
            Self::Invalid => SaStatus::REQUEST_INVALID,
            Self::Insufficient => SaStatus::INSUFFICIENT_COMPONENTS,
            Self::TooMany => SaStatus::TOO_MANY_RECORDS,
            Self::None => SaStatus::NO_RECORDS,
            Self::InvalidGid => SaStatus::INVALID_GID,
            Self::Denied => SaStatus::DENIED,
            Self::NoResources => SaStatus::NO_RESOURCES,
        }
    }
}
