//! A host: objects on its adapter, its processor, and connections to others.

use selvedge_hca::{
    Ah, AhAttr, AttrMask as M, Costs, Datagram, Hca, HcaConfig, Path, Ps, Qp, QpAttr, QpCap, QpInit, QpState, RecvWr,
    SendOp, SendWr, Srq, Transport, VerbsError, masks,
};
use selvedge_tolerance::{Cluster, Objects, attributes};
use selvedge_types::{Guid, Lid, Mtu, Sl};

/// Places of a send queue of a connection, and of a datagram queue pair.
const PLACES: [u32; 2] = [1_024, 16_384];
/// Receives that a host keeps posted.
const RECEIVES: u32 = 4_096;
/// Room for completions.
const COMPLETIONS: u32 = 1 << 16;
/// Longest message in bytes: 1 GiB.
const BYTES_MAX: u32 = 1 << 30;
/// Q_Key of all datagram queue pairs.
const QKEY: u32 = 0x11;
/// Code of the time-out: 67 ms. Packets that only wait their turn are not repeated.
const TIMEOUT: u8 = 14;

/// Returns an adapter of these costs for an [`crate::Exchange`]: it announces what programs can see, and connecting
/// costs nothing.
#[must_use]
pub fn adapter(costs: Costs) -> HcaConfig {
    HcaConfig {
        costs: Costs {
            command_ps: 0,
            primary_ps: 0,
            limits_ps: 0,
            others_ps: 0,
            ..costs
        },
        notices: true,
        ..HcaConfig::new(Guid(0x5E1E_0000), 1)
    }
}

/// A host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub objects: Objects,
    srq: Srq,
    /// Time from which the processor is free.
    pub free_at: Ps,
    /// The queue pair of all datagrams, if there are any.
    pub datagrams: Option<Qp>,
    pub mtu: Mtu,
    lid: Lid,
}

impl Host {
    /// Opens a host's adapter, and posts receives.
    pub fn open(cluster: &mut Cluster, number: usize) -> Result<Self, VerbsError> {
        cluster.act(number, |hca, _| {
            let objects = Objects::open(hca, COMPLETIONS)?;
            let srq = hca.create_srq(objects.pd, RECEIVES, 0)?;
            let port = hca.query_port(1)?;
            let host = Self {
                objects,
                srq,
                free_at: 0,
                datagrams: None,
                mtu: port.mtu,
                lid: port.lids.base,
            };
            (0..RECEIVES).try_for_each(|_| host.post_receive(hca))?;
            Ok(host)
        })
    }

    /// Posts a receive for a message of any length.
    pub fn post_receive(&self, hca: &mut Hca) -> Result<(), VerbsError> {
        let sge = self.objects.sge(hca, BYTES_MAX)?;
        hca.post_srq_recv(self.srq, &RecvWr { wr_id: 0, sge })
    }

    fn create(&self, hca: &mut Hca, transport: Transport) -> Result<Qp, VerbsError> {
        let init = QpInit {
            transport,
            send_cq: self.objects.cq,
            recv_cq: self.objects.cq,
            srq: Some(self.srq),
            cap: QpCap {
                max_send_wr: PLACES[usize::from(transport == Transport::Ud)],
                max_recv_wr: 0,
                max_inline_data: 0,
            },
            sq_sig_all: false,
        };
        hca.create_qp(self.objects.pd, &init)
    }

    /// Returns the address of this host on a service level.
    fn address(&self, sl: Sl) -> AhAttr {
        AhAttr {
            sl,
            ..AhAttr::lid(self.lid)
        }
    }
}

fn to_rts(hca: &mut Hca, now: Ps, qp: Qp, transport: Transport, attr: &QpAttr) -> Result<(), VerbsError> {
    let states = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts];
    for step in states.windows(2) {
        let required = masks(transport, step[0], step[1]).map_or(M::NONE, |masks| masks.required);
        let attr = QpAttr {
            state: step[1],
            ..*attr
        };
        hca.modify_qp(now, qp, &attr, required.with(M::STATE))?;
    }
    Ok(())
}

/// Connects two hosts by a reliable connection on a service level. Returns the queue pair of each.
pub(crate) fn connect(cluster: &mut Cluster, hosts: &[Host], ends: [usize; 2], sl: Sl) -> Result<[Qp; 2], VerbsError> {
    let [a, b] = ends.map(|end| cluster.act(end, |hca, _| hosts[end].create(hca, Transport::Rc)));
    let pair = [a?, b?];
    for (own, end) in ends.into_iter().enumerate() {
        let other = 1 - own;
        let number = cluster.hca(ends[other])?.qp_num(pair[other])?;
        let path = Path {
            port: 1,
            ah: hosts[ends[other]].address(sl),
            pkey_index: 0,
            timeout: TIMEOUT,
        };
        let attr = QpAttr {
            path_mtu: hosts[end].mtu,
            ..attributes(number, path)
        };
        cluster.act(end, |hca, now| to_rts(hca, now, pair[own], Transport::Rc, &attr))?;
    }
    Ok(pair)
}

/// Returns the queue pair of a host's datagrams.
pub(crate) fn datagrams(cluster: &mut Cluster, hosts: &mut [Host], end: usize) -> Result<Qp, VerbsError> {
    if let Some(qp) = hosts[end].datagrams {
        return Ok(qp);
    }
    let host = &mut hosts[end];
    let qp = cluster.act(end, |hca, now| {
        let qp = host.create(hca, Transport::Ud)?;
        let attr = QpAttr {
            qkey: QKEY,
            ..QpAttr::default()
        };
        to_rts(hca, now, qp, Transport::Ud, &attr)?;
        Ok(qp)
    })?;
    host.datagrams = Some(qp);
    Ok(qp)
}

/// Returns a host's address handle of another host on a service level.
pub(crate) fn address(cluster: &mut Cluster, hosts: &[Host], from: usize, to: usize, sl: Sl) -> Result<Ah, VerbsError> {
    let attr = hosts[to].address(sl);
    cluster.act(from, |hca, _| hca.create_ah(hosts[from].objects.pd, 1, &attr))
}

/// What is posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub tag: u64,
    pub bytes: u32,
    pub signaled: bool,
    /// True if it is written to the other end's memory, with a notice.
    pub is_write: bool,
    /// Address handle and queue pair number of the destination (UD).
    pub datagram: Option<(Ah, u32)>,
}

/// Posts a piece of a message.
pub(crate) fn post(hca: &mut Hca, now: Ps, objects: &Objects, qp: Qp, piece: &Piece) -> Result<(), VerbsError> {
    let sge = objects.sge(hca, piece.bytes)?;
    let immediate = Some(0);
    let op = match piece.is_write {
        true => SendOp::Write {
            addr: 0,
            // All hosts register all memory first, so the keys are equal.
            rkey: hca.query_mr(objects.mr)?.rkey,
            immediate,
        },
        false => SendOp::Send { immediate: None },
    };
    let wr = SendWr {
        op,
        tag: piece.tag,
        signaled: piece.signaled,
        datagram: piece.datagram.map(|(ah, remote_qpn)| Datagram {
            ah,
            remote_qpn,
            remote_qkey: QKEY,
        }),
        ..SendWr::send(piece.tag, sge)
    };
    hca.post_send(now, qp, &wr)
}
