//! `modify_qp`: checks a change as a whole, then carries it out.

use super::Hca;
use crate::attr::{Access, AttrMask, Path, PathState, QpAttr, QpState, Transport};
use crate::error::{VerbsError, in_range};
use crate::handle::Qp;
use crate::path;
use crate::qp::{QueuePair, merged};
use crate::requester;
use crate::responder;
use crate::table;
use crate::time::Ps;

use AttrMask as M;

/// Attributes of the primary path.
const PRIMARY: M = M(M::AV.0 | M::PORT.0 | M::PKEY_INDEX.0 | M::TIMEOUT.0);

impl Hca {
    /// Modifies attributes of a queue pair, and returns when the call returns to the program.
    ///
    /// The HCA carries out one command at a time, and the queue pair neither sends nor answers meanwhile. A program
    /// that waits for each call makes the next one at the returned time. Of a command that waits for others the
    /// attributes are new at once; the queue pair works until the command's turn comes, unless the command changes its
    /// state or asks for a migration.
    pub fn modify_qp(&mut self, now: Ps, qp: Qp, attr: &QpAttr, mask: AttrMask) -> Result<Ps, VerbsError> {
        let found = self.qps.get(qp)?;
        let from = found.state;
        let to = if mask.has(M::STATE) { attr.state } else { from };
        table::check(found.init.transport, from, to, mask)?;
        if mask.has(M::CUR_STATE) && attr.cur_state != from {
            return Err(VerbsError::NotInState {
                assumed: attr.cur_state,
                found: from,
            });
        }
        let others = mask.without(M::STATE).without(M::CUR_STATE);
        if (from, to) == (QpState::Sqd, QpState::Sqd) && !others.is_empty() && !found.requester.is_drained() {
            return Err(VerbsError::Draining);
        }
        self.check_values(found, attr, mask)?;
        self.check_paths(found, attr, mask, to)?;
        let start = now.max(self.command_free_at);
        let end = start + self.config.costs.modify(mask);
        self.command_free_at = end;
        let migrates = mask.has(M::PATH_MIG_STATE) && attr.path_mig_state == PathState::Migrated;
        if let Ok(found) = self.qps.get_mut(qp) {
            let silent_from = if to != from || migrates { now } else { start };
            found.occupy_between(now, silent_from, end);
        }
        self.apply(start, qp, attr, mask, to);
        self.kick(now, qp.index() as u32);
        Ok(end)
    }

    fn check_values(&self, qp: &QueuePair, attr: &QpAttr, mask: AttrMask) -> Result<(), VerbsError> {
        let psn = crate::packet::PSN_MASK;
        let reads = u64::from(self.config.limits.rd_atomic);
        let ranges = [
            (M::RQ_PSN, "rq_psn", u64::from(attr.rq_psn), psn),
            (M::SQ_PSN, "sq_psn", u64::from(attr.sq_psn), psn),
            (M::DEST_QPN, "dest_qp_num", u64::from(attr.dest_qp_num), psn),
            (M::TIMEOUT, "timeout", u64::from(attr.primary.timeout), 31),
            (M::ALT_PATH, "alt_timeout", u64::from(attr.alternate.timeout), 31),
            (M::RETRY_CNT, "retry_cnt", u64::from(attr.retry_cnt), 7),
            (M::RNR_RETRY, "rnr_retry", u64::from(attr.rnr_retry), 7),
            (M::MIN_RNR_TIMER, "min_rnr_timer", u64::from(attr.min_rnr_timer), 31),
            (
                M::MAX_QP_RD_ATOMIC,
                "max_rd_atomic",
                u64::from(attr.max_rd_atomic),
                reads,
            ),
            (
                M::MAX_DEST_RD_ATOMIC,
                "max_dest_rd_atomic",
                u64::from(attr.max_dest_rd_atomic),
                reads,
            ),
            (
                M::ACCESS_FLAGS,
                "qp_access_flags",
                u64::from(attr.access.0),
                u64::from(Access::ALL.0),
            ),
        ];
        for (_, what, value, most) in ranges.into_iter().filter(|(bit, ..)| mask.has(*bit)) {
            in_range(what, value, 0, most)?;
        }
        if mask.has(M::PATH_MTU) {
            let path = merged(qp.path.in_use(), &attr.primary, mask);
            let most = self.port(path.port)?.attr().mtu.bytes();
            in_range(
                "path_mtu in bytes",
                u64::from(attr.path_mtu.bytes()),
                256,
                u64::from(most),
            )?;
        }
        Ok(())
    }

    fn check_paths(&self, qp: &QueuePair, attr: &QpAttr, mask: AttrMask, to: QpState) -> Result<(), VerbsError> {
        let primary = merged(qp.path.in_use(), &attr.primary, mask);
        if !M(mask.0 & PRIMARY.0).is_empty() {
            self.check_path(&primary, mask.has(M::AV))?;
        }
        let alternate = mask.has(M::ALT_PATH).then_some(&attr.alternate);
        if let Some(path) = alternate {
            self.check_path(path, true)?;
        }
        if mask.has(M::PATH_MIG_STATE) {
            qp.path.check_request(attr.path_mig_state, &primary, alternate, to)?;
        }
        Ok(())
    }

    fn check_path(&self, path: &Path, with_address: bool) -> Result<(), VerbsError> {
        if with_address {
            self.check_address(path.port, &path.ah, false)?;
        }
        let keys = self.port(path.port)?.attr().pkeys.len() as u64;
        in_range("pkey_index", u64::from(path.pkey_index), 0, keys.saturating_sub(1))
    }

    fn apply(&mut self, now: Ps, qp: Qp, attr: &QpAttr, mask: AttrMask, to: QpState) {
        let index = qp.index() as u32;
        let Some(found) = self.qps.at_mut(index) else { return };
        let from = found.state;
        if to == QpState::Reset {
            return self.reset(now, index);
        }
        set_attributes(found, attr, mask);
        let primary = merged(found.path.in_use(), &attr.primary, mask);
        if !M(mask.0 & PRIMARY.0).is_empty() {
            self.run_path(now, index, path::In::Primary(primary));
        }
        if mask.has(M::ALT_PATH) {
            self.run_path(now, index, path::In::Alternate(attr.alternate));
        }
        if mask.has(M::RQ_PSN) {
            self.run_receiver(now, index, responder::In::Begin { psn: attr.rq_psn });
        }
        if mask.has(M::SQ_PSN) {
            self.run_sender(now, index, requester::In::Begin { psn: attr.sq_psn });
        }
        if to == QpState::Err {
            return self.enter_error(now, index, None);
        }
        let Some(found) = self.qps.at_mut(index) else { return };
        found.state = to;
        if to == QpState::Rtr && from != to {
            // A datagram queue pair has no communication to establish.
            found.established = found.init.transport == Transport::Ud;
        }
        if mask.has(M::EN_SQD_ASYNC_NOTIFY) {
            found.drain_event_due = attr.en_sqd_async_notify;
        }
        if mask.has(M::PATH_MIG_STATE) {
            self.run_path(now, index, path::In::Request(attr.path_mig_state));
        }
    }

    /// Empties the queues without completions, and removes the completions that were not polled.
    fn reset(&mut self, now: Ps, index: u32) {
        let Some(found) = self.qps.at_mut(index) else { return };
        found.state = QpState::Reset;
        found.receives.clear();
        (found.established, found.drain_event_due) = (false, false);
        let (number, cqs) = (found.number, [found.init.send_cq, found.init.recv_cq]);
        self.run_sender(now, index, requester::In::Reset);
        self.run_receiver(now, index, responder::In::Reset);
        self.run_path(now, index, path::In::Reset);
        for cq in cqs {
            if let Ok(queue) = self.cqs.get_mut(cq) {
                queue.forget(number);
            }
        }
    }
}

/// Sets the attributes that no sub-machine holds.
const fn set_attributes(qp: &mut QueuePair, attr: &QpAttr, mask: AttrMask) {
    let own = &mut qp.attr;
    if mask.has(M::ACCESS_FLAGS) {
        own.access = attr.access;
    }
    if mask.has(M::QKEY) {
        own.qkey = attr.qkey;
    }
    if mask.has(M::PATH_MTU) {
        own.path_mtu = attr.path_mtu;
    }
    if mask.has(M::RETRY_CNT) {
        own.retry_cnt = attr.retry_cnt;
    }
    if mask.has(M::RNR_RETRY) {
        own.rnr_retry = attr.rnr_retry;
    }
    if mask.has(M::RQ_PSN) {
        own.rq_psn = attr.rq_psn;
    }
    if mask.has(M::MAX_QP_RD_ATOMIC) {
        own.max_rd_atomic = attr.max_rd_atomic;
    }
    if mask.has(M::MIN_RNR_TIMER) {
        own.min_rnr_timer = attr.min_rnr_timer;
    }
    if mask.has(M::MAX_DEST_RD_ATOMIC) {
        own.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    }
    if mask.has(M::DEST_QPN) {
        own.dest_qp_num = attr.dest_qp_num;
    }
    if mask.has(M::EN_SQD_ASYNC_NOTIFY) {
        own.en_sqd_async_notify = attr.en_sqd_async_notify;
    }
}
