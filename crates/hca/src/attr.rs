//! Attributes of queue pairs and addresses, with the names that verbs have.

use core::fmt;

use selvedge_types::{Lid, Mtu, Sl};

/// State of a queue pair. Source: IBA vol 1 §10.3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum QpState {
    /// Initial state without attributes.
    #[default]
    Reset,
    /// Receives may be posted; nothing is sent or received.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// Send queue draining or drained: no new message begins.
    Sqd,
    /// Send queue error (UC, UD): sends are flushed, receives go on.
    Sqe,
    /// Error: everything is flushed.
    Err,
}

impl QpState {
    /// All states, in IBA's order.
    pub const ALL: [Self; 7] = [
        Self::Reset,
        Self::Init,
        Self::Rtr,
        Self::Rts,
        Self::Sqd,
        Self::Sqe,
        Self::Err,
    ];

    /// Returns the name of the state.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reset => "RESET",
            Self::Init => "INIT",
            Self::Rtr => "RTR",
            Self::Rts => "RTS",
            Self::Sqd => "SQD",
            Self::Sqe => "SQE",
            Self::Err => "ERR",
        }
    }

    /// True if packets from the fabric are handled in this state.
    #[must_use]
    pub const fn receives(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::Sqd | Self::Sqe)
    }
}

impl fmt::Display for QpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Transport service of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
}

impl Transport {
    /// All transports.
    pub const ALL: [Self; 3] = [Self::Rc, Self::Uc, Self::Ud];
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rc => "RC",
            Self::Uc => "UC",
            Self::Ud => "UD",
        })
    }
}

/// Path migration state of a connected queue pair. Source: IBA vol 1 §17.2.8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathState {
    /// The primary path is in use, and no alternate path is ready. The initial state.
    #[default]
    Migrated,
    /// The program has asked for the alternate path to be loaded; the other end has not shown that it did the same.
    Rearm,
    /// Both ends have loaded an alternate path.
    Armed,
}

impl PathState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Migrated, Self::Rearm, Self::Armed];
}

impl fmt::Display for PathState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Migrated => "MIGRATED",
            Self::Rearm => "REARM",
            Self::Armed => "ARMED",
        })
    }
}

/// A set of attributes of a queue pair. The bits are those of `ibv_qp_attr_mask`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttrMask(pub u32);

macro_rules! masks {
    ($($bit:literal $name:ident $doc:literal;)*) => {
        impl AttrMask {
            $(
                #[doc = $doc]
                pub const $name: Self = Self(1 << $bit);
            )*

            /// Every attribute with its name.
            pub const NAMES: &'static [(Self, &'static str)] = &[$((Self::$name, stringify!($name)),)*];
        }
    };
}

masks! {
    0 STATE "`qp_state`.";
    1 CUR_STATE "`cur_qp_state`.";
    2 EN_SQD_ASYNC_NOTIFY "`en_sqd_async_notify`.";
    3 ACCESS_FLAGS "`qp_access_flags`.";
    4 PKEY_INDEX "`pkey_index`.";
    5 PORT "`port_num`.";
    6 QKEY "`qkey`.";
    7 AV "`ah_attr`.";
    8 PATH_MTU "`path_mtu`.";
    9 TIMEOUT "`timeout`.";
    10 RETRY_CNT "`retry_cnt`.";
    11 RNR_RETRY "`rnr_retry`.";
    12 RQ_PSN "`rq_psn`.";
    13 MAX_QP_RD_ATOMIC "`max_rd_atomic`.";
    14 ALT_PATH "`alt_ah_attr`, `alt_pkey_index`, `alt_port_num` and `alt_timeout`.";
    15 MIN_RNR_TIMER "`min_rnr_timer`.";
    16 SQ_PSN "`sq_psn`.";
    17 MAX_DEST_RD_ATOMIC "`max_dest_rd_atomic`.";
    18 PATH_MIG_STATE "`path_mig_state`.";
    19 CAP "`cap`; no queue is resized here.";
    20 DEST_QPN "`dest_qp_num`.";
    25 RATE_LIMIT "`rate_limit`; only raw packet queue pairs have it.";
}

impl AttrMask {
    /// No attribute.
    pub const NONE: Self = Self(0);

    /// Returns the attributes of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the attributes that are not in the other set.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// True if all attributes of the other set are in this one.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for AttrMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = *self;
        let mut separator = "";
        for &(bit, name) in Self::NAMES.iter().filter(|(bit, _)| self.has(*bit)) {
            write!(f, "{separator}{name}")?;
            rest = rest.without(bit);
            separator = " ";
        }
        if !rest.is_empty() {
            write!(f, "{separator}{:#x}", rest.0)?;
        }
        Ok(())
    }
}

/// Remote operations that a queue pair or a memory region allows. The bits are those of `ibv_access_flags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(pub u8);

impl Access {
    /// No remote operation; local reads are always allowed.
    pub const NONE: Self = Self(0);
    /// The HCA may write: receives, READ responses, results of atomics.
    pub const LOCAL_WRITE: Self = Self(1);
    /// RDMA WRITE.
    pub const REMOTE_WRITE: Self = Self(2);
    /// RDMA READ.
    pub const REMOTE_READ: Self = Self(4);
    /// Atomics.
    pub const REMOTE_ATOMIC: Self = Self(8);
    /// Everything.
    pub const ALL: Self = Self(15);

    /// Returns the operations of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if all operations of the other set are in this one.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A global identifier: subnet prefix and GUID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gid(pub u128);

/// An address: what `ibv_ah_attr` holds besides the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AhAttr {
    /// Destination LID.
    pub dlid: Lid,
    /// Service level.
    pub sl: Sl,
    /// Offset of the source LID in the port's LID range, 0–127.
    pub src_path_bits: u8,
    /// Destination GID; packets then have a global route header of 40 bytes.
    pub grh: Option<Gid>,
    /// Largest rate of the path as an IBA code; 0: the rate of the port. After a packet the queue pair waits as long as
    /// the packet takes at this rate.
    pub static_rate: u8,
}

impl AhAttr {
    /// Returns the address of a LID on service level 0.
    #[must_use]
    pub const fn lid(dlid: Lid) -> Self {
        Self {
            dlid,
            sl: match Sl::new(0) {
                Some(sl) => sl,
                None => panic!(),
            },
            src_path_bits: 0,
            grh: None,
            static_rate: 0,
        }
    }
}

/// One path of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Local port, from 1.
    pub port: u8,
    /// Address of the other end.
    pub ah: AhAttr,
    /// Index in the port's P_Key table.
    pub pkey_index: u16,
    /// Local ACK time-out as an IBA code, 0–31: 4.096 µs × 2^value; 0: never.
    pub timeout: u8,
}

/// Sizes of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpCap {
    /// Largest number of work requests in the send queue. A place is free when the HCA has completed the request.
    pub max_send_wr: u32,
    /// Largest number of work requests in the receive queue.
    pub max_recv_wr: u32,
    /// Largest inline message in bytes. Inline messages save one DMA read.
    pub max_inline_data: u32,
}

impl Default for QpCap {
    fn default() -> Self {
        Self {
            max_send_wr: 128,
            max_recv_wr: 128,
            max_inline_data: 0,
        }
    }
}

/// Attributes of a queue pair, as `ibv_qp_attr` has them. `query_qp` fills in all of them whatever the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpAttr {
    /// State.
    pub state: QpState,
    /// State that the program assumes.
    pub cur_state: QpState,
    /// Largest payload of a packet.
    pub path_mtu: Mtu,
    /// Path migration state.
    pub path_mig_state: PathState,
    /// Q_Key (UD).
    pub qkey: u32,
    /// Sequence number of the first packet to receive, 24 bits.
    pub rq_psn: u32,
    /// Sequence number of the first packet to send, 24 bits.
    pub sq_psn: u32,
    /// Number of the other queue pair, 24 bits.
    pub dest_qp_num: u32,
    /// Remote operations allowed.
    pub access: Access,
    /// Sizes.
    pub cap: QpCap,
    /// Primary path: `ah_attr`, `port_num`, `pkey_index`, `timeout`.
    pub primary: Path,
    /// Alternate path: `alt_ah_attr`, `alt_port_num`, `alt_pkey_index`, `alt_timeout`.
    pub alternate: Path,
    /// True if SQ_DRAINED is wanted.
    pub en_sqd_async_notify: bool,
    /// True while the send queue drains; only `query_qp` uses it.
    pub sq_draining: bool,
    /// READs and atomics outstanding at the other end.
    pub max_rd_atomic: u8,
    /// READs and atomics that this end takes from the other one.
    pub max_dest_rd_atomic: u8,
    /// Code of the time that the other end waits after an RNR NAK, 0–31.
    pub min_rnr_timer: u8,
    /// Repeats after time-outs and sequence errors, 0–7.
    pub retry_cnt: u8,
    /// Repeats after RNR NAKs, 0–7; 7: for ever.
    pub rnr_retry: u8,
}

impl Default for QpAttr {
    fn default() -> Self {
        let path = Path {
            port: 1,
            ah: AhAttr::lid(Lid::NONE),
            pkey_index: 0,
            timeout: 0,
        };
        Self {
            state: QpState::Reset,
            cur_state: QpState::Reset,
            path_mtu: Mtu::B2048,
            path_mig_state: PathState::Migrated,
            qkey: 0,
            rq_psn: 0,
            sq_psn: 0,
            dest_qp_num: 0,
            access: Access::NONE,
            cap: QpCap::default(),
            primary: path,
            alternate: path,
            en_sqd_async_notify: false,
            sq_draining: false,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            retry_cnt: 0,
            rnr_retry: 0,
        }
    }
}
