//! The adapters of all hosts, and their connections.

use std::collections::BTreeMap;

use selvedge_hca::{
    Access, AttrMask as M, Path, PathState, QpAttr, QpCap, QpInit, QpState, Transport, VerbsError, masks,
};

use super::{End, Link, MEMORY_BYTES, Program, Ps, World};
use crate::error::StudyError;

impl World<'_> {
    pub(super) fn check_room(&self, most: u32) -> Result<(), StudyError> {
        let mut wanted = vec![0_u64; self.lab.hosts.all().len()];
        for host in self.lab.links.iter().flat_map(|link| link.hosts) {
            wanted[host as usize] += u64::from(self.question.program.connections);
        }
        match wanted.iter().position(|&wanted| wanted > u64::from(most)) {
            None => Ok(()),
            Some(host) => Err(StudyError::QueuePairs {
                host: self.lab.hosts.all()[host].name.clone(),
                wanted: wanted[host],
                most,
            }),
        }
    }

    /// Opens the adapter of each host.
    pub(super) fn open(&mut self) -> Result<(), StudyError> {
        let mut by_node = BTreeMap::new();
        for (end, info) in (0..).zip(self.simulation.subnet().end_ports()) {
            if let Some((hca, _)) = self.simulation.endpoint().of_end_port(end) {
                by_node.insert(info.at.node, hca);
            }
        }
        let completions = self.question.program.in_flight.saturating_mul(2).saturating_add(64);
        let (adapters, subnet) = self.simulation.parts_mut();
        for (number, host) in (0..).zip(self.lab.hosts.all()) {
            // A host has a connected port, so its adapter is there.
            let Some(node) = host.hcas.first().and_then(|ports| ports.first()).map(|at| at.node) else {
                continue;
            };
            let Some(&hca) = by_node.get(&node) else { continue };
            self.hosts.insert(hca, number);
            let rng = self.question.seed.child("host").child(&number.to_string()).rng();
            let opened = adapters.act(subnet, hca, |adapter, _| -> Result<Program, VerbsError> {
                let context = adapter.open()?;
                let pd = adapter.alloc_pd(context)?;
                let mr = adapter.reg_mr(pd, 0, MEMORY_BYTES, Access::ALL)?;
                let keys = adapter.query_mr(mr)?;
                Ok(Program {
                    hca,
                    node,
                    context,
                    pd,
                    cq: adapter.create_cq(context, completions, None)?,
                    lkey: keys.lkey,
                    rkey: keys.rkey,
                    ends: Vec::new(),
                    by_number: BTreeMap::new(),
                    by_peer: BTreeMap::new(),
                    in_flight: 0,
                    rng,
                })
            });
            if let Some(program) = opened {
                self.programs.push(program?);
            }
        }
        Ok(())
    }

    /// Makes one connection of a pair.
    pub(super) fn connect(&mut self, link: &Link) -> Result<(), StudyError> {
        for (side, host) in link.hosts.into_iter().enumerate() {
            let primary = link.primaries[side];
            let alternate = link.alternates.map_or(primary, |paths| paths[side]);
            self.create(host, link.hosts[1 - side], [primary, alternate])?;
        }
        for (side, host) in link.hosts.into_iter().enumerate() {
            let far = self.programs[link.hosts[1 - side] as usize].ends.last();
            let number = far.map_or(0, |end| end.number);
            self.bring_up(
                host,
                number,
                link.primaries[side],
                link.alternates.map(|paths| paths[side]),
            )?;
        }
        Ok(())
    }

    fn create(&mut self, host: u32, peer: u32, paths: [Path; 2]) -> Result<(), StudyError> {
        let in_flight = self.question.program.in_flight;
        let program = &mut self.programs[host as usize];
        let (adapters, subnet) = self.simulation.parts_mut();
        let (pd, cq) = (program.pd, program.cq);
        let created = adapters.act(subnet, program.hca, |hca, _| {
            let qp = hca.create_qp(
                pd,
                &QpInit {
                    transport: Transport::Rc,
                    send_cq: cq,
                    recv_cq: cq,
                    srq: None,
                    cap: QpCap {
                        max_send_wr: in_flight,
                        max_recv_wr: 1,
                        max_inline_data: 0,
                    },
                    sq_sig_all: true,
                },
            )?;
            Ok::<_, VerbsError>((qp, hca.qp_num(qp)?))
        });
        let Some(created) = created else { return Ok(()) };
        let (qp, number) = created?;
        let end = program.ends.len() as u32;
        program.ends.push(End {
            qp,
            number,
            peer,
            in_error: false,
            paths,
            posted: 0,
            done: 0,
            arm_after: None,
        });
        program.by_number.insert(number, end);
        program.by_peer.entry(peer).or_default().0.push(end);
        Ok(())
    }

    /// Takes the last queue pair of a host to RTS.
    fn bring_up(&mut self, host: u32, far: u32, primary: Path, alternate: Option<Path>) -> Result<(), StudyError> {
        let settings = &self.question.settings;
        let attr = QpAttr {
            access: Access::ALL,
            path_mtu: settings.mtu,
            dest_qp_num: far,
            max_rd_atomic: 1,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 1,
            retry_cnt: settings.qp.retry_count,
            rnr_retry: 7,
            primary,
            alternate: alternate.unwrap_or(primary),
            path_mig_state: PathState::Rearm,
            ..QpAttr::default()
        };
        let program = &self.programs[host as usize];
        let Some(qp) = program.ends.last().map(|end| end.qp) else {
            return Ok(());
        };
        let (adapters, subnet) = self.simulation.parts_mut();
        let done = adapters.act(subnet, program.hca, |hca, now| {
            let steps = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts];
            let mut done = now;
            for pair in steps.windows(2) {
                let required = masks(Transport::Rc, pair[0], pair[1]).map_or(M::NONE, |masks| masks.required);
                let mut mask = required.with(M::STATE);
                if alternate.is_some() && pair[1] == QpState::Rts {
                    mask = mask.with(M::ALT_PATH).with(M::PATH_MIG_STATE);
                }
                done = hca.modify_qp(now, qp, &QpAttr { state: pair[1], ..attr }, mask)?;
            }
            Ok::<Ps, VerbsError>(done)
        });
        if let Some(done) = done {
            self.start = self.start.max(done?);
        }
        Ok(())
    }
}
