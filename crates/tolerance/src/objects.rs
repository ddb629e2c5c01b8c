//! The objects of a program on an adapter.

use selvedge_hca::{
    Access, Context, Cq, Hca, Mr, Pd, Ps, Qp, QpCap, QpInit, RecvWr, SendOp, SendWr, Sge, Transport, VerbsError, Wc,
};

/// The objects of a program on an adapter.
#[derive(Clone, Copy, Debug)]
pub struct Objects {
    /// The context.
    pub context: Context,
    /// Protection domain of everything.
    pub pd: Pd,
    /// Completion queue of everything.
    pub cq: Cq,
    /// All memory.
    pub mr: Mr,
}

impl Objects {
    /// Opens an adapter and creates the objects, with room for so many completions.
    pub fn open(hca: &mut Hca, completions: u32) -> Result<Self, VerbsError> {
        let context = hca.open()?;
        let pd = hca.alloc_pd(context)?;
        let cq = hca.create_cq(context, completions, None)?;
        let mr = hca.reg_mr(pd, 0, 1 << 40, Access::ALL)?;
        Ok(Self { context, pd, cq, mr })
    }

    /// Returns the same objects with another completion queue, which is created.
    pub fn with_queue(&self, hca: &mut Hca, completions: u32) -> Result<Self, VerbsError> {
        let cq = hca.create_cq(self.context, completions, None)?;
        Ok(Self { cq, ..*self })
    }

    /// Creates a queue pair with room for `requests` in each queue.
    pub fn create_qp(&self, hca: &mut Hca, transport: Transport, requests: u32) -> Result<Qp, VerbsError> {
        let init = QpInit {
            transport,
            send_cq: self.cq,
            recv_cq: self.cq,
            srq: None,
            cap: QpCap {
                max_send_wr: requests,
                max_recv_wr: requests,
                max_inline_data: 256,
            },
            sq_sig_all: false,
        };
        hca.create_qp(self.pd, &init)
    }

    /// Returns a local range of this length.
    pub fn sge(&self, hca: &Hca, bytes: u32) -> Result<Sge, VerbsError> {
        let lkey = hca.query_mr(self.mr)?.lkey;
        Ok(Sge { addr: 0, bytes, lkey })
    }

    /// Posts receives of this length.
    pub fn post_receives(&self, hca: &mut Hca, now: Ps, qp: Qp, count: u32, bytes: u32) -> Result<(), VerbsError> {
        let sge = self.sge(hca, bytes)?;
        for wr_id in 0..u64::from(count) {
            hca.post_recv(now, qp, &RecvWr { wr_id, sge })?;
        }
        Ok(())
    }

    /// Posts a request with a tag that is its number.
    pub fn post(&self, hca: &mut Hca, now: Ps, qp: Qp, op: SendOp, number: u64, bytes: u32) -> Result<(), VerbsError> {
        let sge = self.sge(hca, bytes)?;
        let wr = SendWr {
            op,
            tag: number,
            ..SendWr::send(number, sge)
        };
        hca.post_send(now, qp, &wr)
    }

    /// Posts a SEND.
    pub fn send(&self, hca: &mut Hca, now: Ps, qp: Qp, bytes: u32) -> Result<(), VerbsError> {
        self.post(hca, now, qp, SendOp::Send { immediate: None }, 0, bytes)
    }

    /// Moves all completions that are visible to the end of `out`.
    pub fn poll(&self, hca: &mut Hca, now: Ps, out: &mut Vec<Wc>) -> Result<(), VerbsError> {
        hca.poll_cq(now, self.cq, usize::MAX, out).map(drop)
    }
}
