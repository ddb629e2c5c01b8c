//! Reasons for refusing a request, with their status.

use selvedge_wire::Status;
use selvedge_wire::sa::SaStatus;

/// Reason for refusing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No plan yet, or too many requests from the client.
    Busy,
    /// The class version is not 2.
    BadVersion,
    /// The method does not exist.
    BadMethod,
    /// The attribute does not exist, or does not support the method.
    BadAttribute,
    /// The attribute does not have the component, or its value is invalid.
    Invalid,
    /// Required components are missing.
    Insufficient,
    /// A query for one record matches several.
    TooMany,
    /// A query for one record matches none.
    None,
    /// The GID does not belong to this subnet.
    InvalidGid,
    /// Not allowed: a wrong SM_Key, a registration of another port, or data for trusted requesters only.
    Denied,
    /// A limit is reached.
    NoResources,
}

impl Refusal {
    /// Returns the status for the requester.
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
