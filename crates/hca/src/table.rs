//! Which attributes a change of state needs, and which it may have.
//!
//! Source: IBA vol 1 §11.2.5 and the man page of `ibv_modify_qp`. Where these leave a choice, the table of Linux
//! decides, because programs rely on it (`ib_modify_qp_is_ok`): RESET does not go to ERR, and RTR does not go to RTR or
//! SQD.

use crate::attr::{AttrMask, QpState, Transport};
use crate::error::VerbsError;

/// Attributes of one change of state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// Attributes that must be given, besides the state itself.
    pub required: AttrMask,
    /// Attributes that may be given.
    pub optional: AttrMask,
}

/// Unites attributes.
const fn all<const N: usize>(of: [AttrMask; N]) -> AttrMask {
    let mut mask = AttrMask::NONE;
    let mut at = 0;
    while at < N {
        mask = mask.with(of[at]);
        at += 1;
    }
    mask
}

type M = AttrMask;

/// What a program may change while a connection is in use.
const CONNECTED: M = all([M::CUR_STATE, M::ALT_PATH, M::ACCESS_FLAGS, M::PATH_MIG_STATE]);

/// Returns the attributes of a change of state; `None`: there is no such change.
#[must_use]
pub const fn masks(transport: Transport, from: QpState, to: QpState) -> Option<Masks> {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    let (required, optional) = match (from, to) {
        (_, Reset) | (Init | Rtr | Rts | Sqd | Sqe | Err, Err) => (M::NONE, M::NONE),
        (Reset, Init) => (initial(transport), M::NONE),
        (Init, Init) => (M::NONE, initial(transport)),
        (Init, Rtr) => to_rtr(transport),
        (Rtr, Rts) => to_rts(transport),
        (Rts, Rts) | (Sqd, Rts) => (M::NONE, in_use(transport)),
        (Rts, Sqd) => (M::NONE, M::EN_SQD_ASYNC_NOTIFY),
        (Sqd, Sqd) => (M::NONE, drained(transport)),
        // A reliable connection has no SQE, so its attributes can only be left as they are.
        (Sqe, Rts) => match transport {
            Transport::Rc => (M::NONE, M::NONE),
            Transport::Uc => (M::NONE, all([M::CUR_STATE, M::ACCESS_FLAGS])),
            Transport::Ud => (M::NONE, all([M::CUR_STATE, M::QKEY])),
        },
        _ => return None,
    };
    Some(Masks { required, optional })
}

const fn initial(transport: Transport) -> M {
    let third = match transport {
        Transport::Rc | Transport::Uc => M::ACCESS_FLAGS,
        Transport::Ud => M::QKEY,
    };
    all([M::PKEY_INDEX, M::PORT, third])
}

const fn to_rtr(transport: Transport) -> (M, M) {
    let path = all([M::AV, M::PATH_MTU, M::DEST_QPN, M::RQ_PSN]);
    let optional = all([M::ALT_PATH, M::ACCESS_FLAGS, M::PKEY_INDEX]);
    match transport {
        Transport::Rc => (all([path, M::MAX_DEST_RD_ATOMIC, M::MIN_RNR_TIMER]), optional),
        Transport::Uc => (path, optional),
        Transport::Ud => (M::NONE, all([M::PKEY_INDEX, M::QKEY])),
    }
}

const fn to_rts(transport: Transport) -> (M, M) {
    let retries = all([M::TIMEOUT, M::RETRY_CNT, M::RNR_RETRY, M::MAX_QP_RD_ATOMIC]);
    match transport {
        Transport::Rc => (all([M::SQ_PSN, retries]), in_use(transport)),
        Transport::Uc | Transport::Ud => (M::SQ_PSN, in_use(transport)),
    }
}

const fn in_use(transport: Transport) -> M {
    match transport {
        Transport::Rc => CONNECTED.with(M::MIN_RNR_TIMER),
        Transport::Uc => CONNECTED,
        Transport::Ud => all([M::CUR_STATE, M::QKEY]),
    }
}

const fn drained(transport: Transport) -> M {
    let path = all([M::AV, M::ALT_PATH, M::ACCESS_FLAGS, M::PKEY_INDEX, M::PATH_MIG_STATE]);
    let reads = all([M::MAX_QP_RD_ATOMIC, M::MAX_DEST_RD_ATOMIC]);
    let retries = all([M::TIMEOUT, M::RETRY_CNT, M::RNR_RETRY, M::MIN_RNR_TIMER]);
    match transport {
        Transport::Rc => all([path, M::PORT, reads, retries]),
        Transport::Uc => path,
        Transport::Ud => all([M::PKEY_INDEX, M::QKEY]),
    }
}

/// Fails if a change of state with these attributes is illegal. The error names the attributes.
pub fn check(transport: Transport, from: QpState, to: QpState, mask: AttrMask) -> Result<(), VerbsError> {
    let Some(masks) = masks(transport, from, to) else {
        return Err(VerbsError::Transition { from, to });
    };
    let missing = masks.required.without(mask);
    if !missing.is_empty() {
        return Err(VerbsError::AttributeMissing {
            transport,
            from,
            to,
            missing,
        });
    }
    let forbidden = mask.without(all([masks.required, masks.optional, M::STATE]));
    if !forbidden.is_empty() {
        return Err(VerbsError::AttributeForbidden {
            transport,
            from,
            to,
            forbidden,
        });
    }
    Ok(())
}
