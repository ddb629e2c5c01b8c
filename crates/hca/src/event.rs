//! Asynchronous events of a context.

use std::collections::VecDeque;

use crate::handle::{Cq, Qp, Srq};
use crate::time::Ps;

/// The object of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// A queue pair.
    Qp(Qp),
    /// A completion queue.
    Cq(Cq),
    /// A shared receive queue.
    Srq(Srq),
    /// A port, from 1.
    Port(u8),
}

/// Type of an event. Source: IBA vol 1 §11.6.3; names of `ibv_event_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// A completion queue was overrun.
    CqErr,
    /// An error without a completion moved a queue pair to ERR.
    QpFatal,
    /// A remote request was refused for its access, and moved a queue pair to ERR.
    QpAccessErr,
    /// The first packet has arrived at a queue pair in RTR.
    CommEst,
    /// The send queue of a queue pair in SQD is drained.
    SqDrained,
    /// A connection has migrated to its alternate path.
    PathMig,
    /// A connection could not migrate to its alternate path.
    PathMigErr,
    /// A connection has become ARMED. Neither IBA nor verbs have this event; seed 3 counts on it. It comes only if
    /// [`crate::HcaConfig::armed_events`] is set.
    PathArmed,
    /// A port has become ACTIVE.
    PortActive,
    /// A port has left ACTIVE.
    PortErr,
    /// The LID of a port has changed.
    LidChange,
    /// The P_Key table of a port has changed.
    PkeyChange,
    /// The subnet manager of a port has changed.
    SmChange,
    /// The subnet manager asks for all registrations again.
    ClientReregister,
    /// The subnet prefix of a port has changed, and its GIDs with it.
    GidChange,
    /// Fewer receives than the limit are left in a shared receive queue.
    SrqLimitReached,
    /// A queue pair in ERR will take no more receives from its shared receive queue.
    QpLastWqeReached,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    /// Type.
    pub kind: EventType,
    /// The object.
    pub element: Element,
    /// When the program can see it.
    pub at: Ps,
}

/// Events of a context, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    queue: VecDeque<AsyncEvent>,
}

impl Events {
    pub fn push(&mut self, event: AsyncEvent) {
        let at = self.queue.back().map_or(event.at, |last| last.at.max(event.at));
        self.queue.push_back(AsyncEvent { at, ..event });
    }

    pub fn fetch(&mut self, now: Ps) -> Option<AsyncEvent> {
        let first = *self.queue.front()?;
        if first.at > now {
            return None;
        }
        self.queue.pop_front();
        Some(first)
    }

    /// Removes the events of an object that is destroyed.
    pub fn forget(&mut self, element: Element) {
        self.queue.retain(|event| event.element != element);
    }
}
