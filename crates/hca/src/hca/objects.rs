//! Verbs that create, query and destroy objects.

use selvedge_types::Lid;

use super::{Address, Hca, SharedAt};
use crate::attr::{Access, AhAttr, Gid, QpAttr, QpState, Transport};
use crate::cq::{Channel, Queue};
use crate::error::{VerbsError, in_range};
use crate::event::{Element, Events};
use crate::handle::{Ah, CompChannel, Context, Cq, Mr, Pd, Qp, Srq};
use crate::memory::MrInfo;
use crate::qp::{QpCounts, QpInit, QueuePair};
use crate::receive_queue::SharedQueue;

/// Fails if an object has users, of a kind with this name.
const fn unused(what: &'static str, by: &'static str, used: bool) -> Result<(), VerbsError> {
    if used {
        Err(VerbsError::InUse { what, by })
    } else {
        Ok(())
    }
}

const fn acknowledged(what: &'static str, count: u32) -> Result<(), VerbsError> {
    if count > 0 {
        Err(VerbsError::EventsPending { what, count })
    } else {
        Ok(())
    }
}

impl Hca {
    /// Opens the device.
    pub fn open(&mut self) -> Result<Context, VerbsError> {
        self.contexts.insert(Events::default())
    }

    /// Closes a context without objects.
    pub fn close(&mut self, context: Context) -> Result<(), VerbsError> {
        self.contexts.get(context)?;
        let pds = self.pds.iter().any(|(_, owner)| *owner == context);
        let cqs = self.cqs.iter().any(|(_, cq)| cq.context == context);
        let channels = self.channels.iter().any(|(_, channel)| channel.context == context);
        unused("context", "protection domain", pds)?;
        unused("context", "completion queue", cqs)?;
        unused("context", "completion channel", channels)?;
        self.contexts.remove(context).map(drop)
    }

    /// Allocates a protection domain.
    pub fn alloc_pd(&mut self, context: Context) -> Result<Pd, VerbsError> {
        self.contexts.get(context)?;
        self.pds.insert(context)
    }

    /// Frees a protection domain without objects.
    pub fn dealloc_pd(&mut self, pd: Pd) -> Result<(), VerbsError> {
        let what = "protection domain";
        self.pds.get(pd)?;
        unused(what, "memory region", self.memory.uses(pd))?;
        unused(what, "queue pair", self.qps.iter().any(|(_, qp)| qp.pd == pd))?;
        unused(
            what,
            "shared receive queue",
            self.srqs.iter().any(|(_, at)| at.shared.pd == pd),
        )?;
        unused(what, "address handle", self.ahs.iter().any(|(_, ah)| ah.pd == pd))?;
        self.pds.remove(pd).map(drop)
    }

    /// Registers a range of addresses. Remote write and atomics need local write.
    pub fn reg_mr(&mut self, pd: Pd, addr: u64, bytes: u64, access: Access) -> Result<Mr, VerbsError> {
        self.pds.get(pd)?;
        self.memory.register(pd, addr, bytes, access)
    }

    /// Returns range, rights and keys of a region.
    pub fn query_mr(&self, mr: Mr) -> Result<MrInfo, VerbsError> {
        self.memory.info(mr)
    }

    /// Returns a word on which atomics have worked; 0 before the first one.
    pub fn read_word(&self, mr: Mr, addr: u64) -> Result<u64, VerbsError> {
        self.memory.word(mr, addr)
    }

    /// Removes a region: its keys are refused from now on.
    pub fn dereg_mr(&mut self, mr: Mr) -> Result<(), VerbsError> {
        self.memory.deregister(mr)
    }

    /// Creates a completion channel.
    pub fn create_comp_channel(&mut self, context: Context) -> Result<CompChannel, VerbsError> {
        self.contexts.get(context)?;
        self.channels.insert(Channel::new(context))
    }

    /// Destroys a completion channel without queues.
    pub fn destroy_comp_channel(&mut self, channel: CompChannel) -> Result<(), VerbsError> {
        self.channels.get(channel)?;
        let used = self.cqs.iter().any(|(_, cq)| cq.channel == Some(channel));
        unused("completion channel", "completion queue", used)?;
        self.channels.remove(channel).map(drop)
    }

    /// Creates a completion queue with room for `size` completions.
    pub fn create_cq(&mut self, context: Context, size: u32, channel: Option<CompChannel>) -> Result<Cq, VerbsError> {
        self.contexts.get(context)?;
        let most = u64::from(self.config.limits.cqe);
        in_range("size of a completion queue", u64::from(size), 1, most)?;
        if let Some(channel) = channel
            && self.channels.get(channel)?.context != context
        {
            return Err(VerbsError::Foreign {
                what: "completion channel",
                owner: "context",
            });
        }
        self.cqs.insert(Queue::new(context, channel, size))
    }

    /// Changes the size of a completion queue.
    pub fn resize_cq(&mut self, cq: Cq, size: u32) -> Result<(), VerbsError> {
        let most = u64::from(self.config.limits.cqe);
        in_range("size of a completion queue", u64::from(size), 1, most)?;
        self.cqs.get_mut(cq)?.resize(size)
    }

    /// Destroys a completion queue without queue pairs.
    pub fn destroy_cq(&mut self, cq: Cq) -> Result<(), VerbsError> {
        let queue = self.cqs.get(cq)?;
        let users = |qp: &QueuePair| qp.init.send_cq == cq || qp.init.recv_cq == cq;
        unused(
            "completion queue",
            "queue pair",
            self.qps.iter().any(|(_, qp)| users(qp)),
        )?;
        acknowledged("completion queue", queue.unacknowledged)?;
        let queue = self.cqs.remove(cq)?;
        if let Some(channel) = queue.channel
            && let Ok(channel) = self.channels.get_mut(channel)
        {
            channel.forget(cq);
        }
        self.forget_events(queue.context, Element::Cq(cq));
        Ok(())
    }

    fn forget_events(&mut self, context: Context, element: Element) {
        if let Ok(events) = self.contexts.get_mut(context) {
            events.forget(element);
        }
    }

    /// Creates a shared receive queue. SRQ_LIMIT_REACHED follows once when fewer than `limit` receives are left; 0:
    /// never.
    pub fn create_srq(&mut self, pd: Pd, size: u32, limit: u32) -> Result<Srq, VerbsError> {
        let context = *self.pds.get(pd)?;
        let most = u64::from(self.config.limits.wrs);
        in_range("size of a shared receive queue", u64::from(size), 1, most)?;
        in_range("limit of a shared receive queue", u64::from(limit), 0, u64::from(size))?;
        self.srqs.insert(SharedAt {
            shared: SharedQueue::new(pd, size, limit),
            context,
            unacknowledged: 0,
        })
    }

    /// Sets the limit of a shared receive queue, which arms its event.
    pub fn modify_srq(&mut self, srq: Srq, limit: u32) -> Result<(), VerbsError> {
        self.srqs.get_mut(srq)?.shared.arm(limit);
        Ok(())
    }

    /// Returns the limit of a shared receive queue (0: not armed), and the number of posted receives.
    pub fn query_srq(&self, srq: Srq) -> Result<(u32, usize), VerbsError> {
        let at = self.srqs.get(srq)?;
        Ok((at.shared.limit(), at.shared.queue.len()))
    }

    /// Destroys a shared receive queue without queue pairs.
    pub fn destroy_srq(&mut self, srq: Srq) -> Result<(), VerbsError> {
        let at = self.srqs.get(srq)?;
        let used = self.qps.iter().any(|(_, qp)| qp.init.srq == Some(srq));
        unused("shared receive queue", "queue pair", used)?;
        acknowledged("shared receive queue", at.unacknowledged)?;
        let context = at.context;
        self.srqs.remove(srq)?;
        self.forget_events(context, Element::Srq(srq));
        Ok(())
    }

    /// Fails if an address cannot be one.
    pub(super) fn check_address(&self, port: u8, ah: &AhAttr, multicast: bool) -> Result<(), VerbsError> {
        self.port(port)?;
        let most = if multicast { Lid(0xFFFE) } else { Lid::UNICAST_MAX };
        in_range("destination LID", u64::from(ah.dlid.0), 1, u64::from(most.0))?;
        in_range("src_path_bits", u64::from(ah.src_path_bits), 0, 127)?;
        in_range("static_rate", u64::from(ah.static_rate), 0, 24)?;
        if ah.dlid.is_multicast() && ah.grh.is_none() {
            // Source: IBA vol 1 §10.5.1: multicast datagrams have a global route header.
            return Err(VerbsError::OutOfRange {
                what: "destination LID of an address without a GID",
                value: u64::from(ah.dlid.0),
                least: 1,
                most: u64::from(Lid::UNICAST_MAX.0),
            });
        }
        Ok(())
    }

    /// Creates an address handle for datagrams that leave by a port.
    pub fn create_ah(&mut self, pd: Pd, port: u8, attr: &AhAttr) -> Result<Ah, VerbsError> {
        self.pds.get(pd)?;
        self.check_address(port, attr, true)?;
        self.ahs.insert(Address { pd, port, attr: *attr })
    }

    /// Destroys an address handle. Datagrams that are posted with it fail.
    pub fn destroy_ah(&mut self, ah: Ah) -> Result<(), VerbsError> {
        self.ahs.remove(ah).map(drop)
    }

    /// Creates a queue pair in RESET.
    pub fn create_qp(&mut self, pd: Pd, init: &QpInit) -> Result<Qp, VerbsError> {
        let context = *self.pds.get(pd)?;
        for cq in [init.send_cq, init.recv_cq] {
            if self.cqs.get(cq)?.context != context {
                return Err(VerbsError::Foreign {
                    what: "completion queue",
                    owner: "context",
                });
            }
        }
        if let Some(srq) = init.srq
            && self.srqs.get(srq)?.shared.pd != pd
        {
            return Err(VerbsError::Foreign {
                what: "shared receive queue",
                owner: "protection domain",
            });
        }
        let most = u64::from(self.config.limits.wrs);
        in_range("max_send_wr", u64::from(init.cap.max_send_wr), 0, most)?;
        in_range("max_recv_wr", u64::from(init.cap.max_recv_wr), 0, most)?;
        self.qps.insert_with(|handle| {
            // 18 bits of the place, after the numbers 0 and 1, and 6 bits that change with each queue pair there.
            let number = (handle.generation() & 63) << 18 | (handle.index() as u32 + 2);
            QueuePair::new(number, context, pd, *init)
        })
    }

    /// Destroys a queue pair. Its completions that were not polled are removed.
    pub fn destroy_qp(&mut self, qp: Qp) -> Result<(), VerbsError> {
        let found = self.qps.get(qp)?;
        unused("queue pair", "multicast group", self.groups.has(qp.index() as u32))?;
        acknowledged("queue pair", found.unacknowledged)?;
        let gone = self.qps.remove(qp)?;
        for cq in [gone.init.send_cq, gone.init.recv_cq] {
            if let Ok(queue) = self.cqs.get_mut(cq) {
                queue.forget(gone.number);
            }
        }
        self.forget_events(gone.context, Element::Qp(qp));
        Ok(())
    }

    /// Returns all attributes of a queue pair.
    pub fn query_qp(&self, qp: Qp) -> Result<QpAttr, VerbsError> {
        self.qps.get(qp).map(QueuePair::query)
    }

    /// Returns the number of a queue pair, 24 bits.
    pub fn qp_num(&self, qp: Qp) -> Result<u32, VerbsError> {
        self.qps.get(qp).map(|qp| qp.number)
    }

    /// Returns the counters of a queue pair.
    pub fn qp_counts(&self, qp: Qp) -> Result<QpCounts, VerbsError> {
        self.qps.get(qp).map(QueuePair::counts)
    }

    /// Returns the number of queue pairs.
    #[must_use]
    pub fn qp_count(&self) -> usize {
        self.qps.len()
    }

    fn datagram_qp(&self, qp: Qp, operation: &'static str) -> Result<&QueuePair, VerbsError> {
        let found = self.qps.get(qp)?;
        if found.init.transport == Transport::Ud {
            Ok(found)
        } else {
            Err(VerbsError::NoSuchOperation {
                transport: found.init.transport,
                operation,
            })
        }
    }

    /// Makes a UD queue pair a member of a multicast group.
    pub fn attach_mcast(&mut self, qp: Qp, gid: Gid, lid: Lid) -> Result<(), VerbsError> {
        let found = self.datagram_qp(qp, "multicast")?;
        if found.state == QpState::Reset {
            return Err(VerbsError::WrongState {
                verb: "attach_mcast",
                state: found.state,
            });
        }
        in_range(
            "multicast LID",
            u64::from(lid.0),
            u64::from(Lid::MULTICAST_MIN.0),
            0xFFFE,
        )?;
        self.groups.attach(gid, lid, qp.index() as u32);
        Ok(())
    }

    /// Ends a membership. False if there was none.
    pub fn detach_mcast(&mut self, qp: Qp, gid: Gid, lid: Lid) -> Result<bool, VerbsError> {
        self.datagram_qp(qp, "multicast")?;
        Ok(self.groups.detach(gid, lid, qp.index() as u32))
    }
}
