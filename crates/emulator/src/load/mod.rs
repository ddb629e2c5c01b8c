//! Traffic of hosts that moves the counters of ports: patterns over the tables that switches hold now.
//!
//! There are no packets. A load is a list of flows, each from one host to another with a rate. Each flow takes the way
//! that the switches' forwarding tables give it, and links are shared among flows in one computation (`fill`). So
//! rates are constant until the load, a table or a link changes, and a port's counters at a time are rate × time: they
//! cost work only when they are read.
//!
//! **Congestion.** All flows grow in proportion to what they offer, until a link on their way is full; then they stop,
//! and the others go on. No packet is lost. A link that is full is the root of a congestion tree: its port sends at
//! the full rate and never waits. The ports before it on the ways of the flows that it holds back have packets to send
//! at all times but credits for a part of them only, up to the hosts. They count PortXmitWait whenever they do not
//! send: `PortXmitData + PortXmitWait` of such a port is what its link can carry, in words, because a tick is the time
//! of one word. If a host stalls, the port that sends to it is the root and waits itself. The root counts the time in
//! PortXmitConCtrl, PortVLXmitTimeCong and SwPortVLCongestion.
//!
//! **Discards.** Packets to a port that is not ACTIVE count as PortXmitDiscards (PortInactiveDiscards) there. Packets
//! without a forwarding entry, or with one that leads back, count as PortRcvSwitchRelayErrors at the input port.
//!
//! **Changes** count from the time of the first one since rates were computed. With many flows, changes in quick
//! succession are computed together: at most a few per cent of the time goes into that (`FOLLOW_NS_PER_STEP`).
//!
//! Limits:
//! - Flows that a full link holds back do not delay others that share a port with them (no head-of-line blocking, as
//!   with virtual output queues), and no packet exceeds the head-of-queue or switch lifetime.
//! - A flow in a forwarding loop is not sent, and neither is one to a host without a LID.
//! - Packets go to the base LID on SL 0. The packets of a port count on one lane, that of one of its flows.
//! - Congestion control is off, as managers leave it: no FECN, no BECN. No multicast.

mod capacity;
mod demand;
mod fill;
mod flows;
mod pattern;
mod rates;
mod report;
mod state;

pub(crate) use capacity::wait_ticks;
pub use pattern::Load;
pub(crate) use pattern::parse;
pub use report::Congestion;
pub(crate) use state::{Demands, Traffic};
