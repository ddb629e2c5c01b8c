//! Pairs of hosts that talk to each other, and the paths of their connections.

use std::collections::BTreeSet;

use selvedge_apm::{Hosts, Path, Routes};
use selvedge_fabric::PortRef;
use selvedge_hca::{AhAttr, Path as QpPath};
use selvedge_types::{Lid, Sl};
use selvedge_workload::Receivers;

use super::Question;
use crate::error::StudyError;

/// The connections of a pair of hosts: primary and alternate path at each end.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Indexes of the hosts.
    pub(super) hosts: [u32; 2],
    /// Primary path, alternate path if there is one, and those that may replace it; each as the queue pair of either
    /// end has it.
    pub(super) paths: Vec<[QpPath; 2]>,
}

/// Returns the pairs that a pattern may need, the lower number first.
pub(super) fn pairs(receivers: &Receivers, hosts: u32) -> Vec<[u32; 2]> {
    let sorted = |a: u32, b: u32| [a.min(b), a.max(b)];
    let of = |host: u32| {
        let all = || (0..hosts).filter(|to| *to != host).collect();
        let to = receivers.of(host).unwrap_or_else(all);
        to.into_iter().map(move |to| sorted(host, to))
    };
    let found: BTreeSet<[u32; 2]> = (0..hosts).flat_map(of).collect();
    found.into_iter().collect()
}

/// Returns the paths of all pairs.
pub(super) fn links(
    question: &Question,
    routes: &Routes<'_>,
    hosts: &Hosts,
    pairs: &[[u32; 2]],
) -> Result<Vec<Link>, StudyError> {
    let of = |&hosts_of: &[u32; 2]| {
        let [a, b] = hosts_of.map(|host| &hosts.all()[host as usize]);
        let (primary, alternate) = if question.has_alternates() {
            let found = routes.alternate((a, b), 0, question.policy)?;
            if !found.is_in_hardware() {
                return Err(StudyError::OtherAdapter {
                    from: a.name.clone(),
                    to: b.name.clone(),
                });
            }
            (found.primary, Some(found.alternate))
        } else {
            (routes.primary((a, b), 0)?, None)
        };
        let level = |path: &Path, from: &Path| match question.policy {
            policy if policy.keeps_level() => (from.sl, routes.subnet.levels.to(from.slid)),
            _ => (path.sl, routes.subnet.levels.to(path.slid)),
        };
        let ends = |path: &Path| ends(question, routes, path, level(path, &primary));
        let mut paths = vec![ends(&primary)];
        paths.extend(alternate.as_ref().map(ends));
        if question.respecify && alternate.is_some() {
            let more = others(routes, &primary);
            paths.extend(more.iter().map(ends));
            let mut seen = BTreeSet::new();
            paths.retain(|[path, _]| seen.insert((path.port, path.ah.dlid, path.ah.src_path_bits)));
        }
        Ok(Link { hosts: hosts_of, paths })
    };
    pairs.iter().map(of).collect()
}

/// Returns further paths between the adapters of a path: the same number of the port and of the path bits at both ends.
fn others(routes: &Routes<'_>, primary: &Path) -> Vec<Path> {
    let ports = |at: PortRef| {
        let of_node = routes
            .subnet
            .lids
            .iter()
            .filter(move |(other, _)| other.node == at.node);
        of_node.filter(|(other, _)| routes.subnet.fabric.link_is_up(*other))
    };
    let mut found = Vec::new();
    for ((from, slids), (to, dlids)) in ports(primary.source).zip(ports(primary.target)) {
        for bits in 0..slids.lmc.lids().min(dlids.lmc.lids()) {
            let slid = Lid(slids.base.0 + bits);
            let dlid = Lid(dlids.base.0 + bits);
            let candidates = routes.candidates((from, to), Some(slid));
            found.extend(candidates.into_iter().filter(|path| path.dlid == dlid));
        }
    }
    found
}

/// Returns a path as the queue pairs of both ends have it: the second end has the mirrored path.
fn ends(question: &Question, routes: &Routes<'_>, path: &Path, (there, back): (Sl, Sl)) -> [QpPath; 2] {
    let base = |at| routes.subnet.lids.base(at).unwrap_or(Lid::NONE);
    let qp_path = |port: u8, dlid: Lid, bits: u16, sl: Sl| QpPath {
        port,
        ah: AhAttr {
            sl,
            src_path_bits: bits as u8,
            ..AhAttr::lid(dlid)
        },
        pkey_index: 0,
        timeout: question.settings.qp.ack_timeout,
    };
    let far = path.dlid.0.saturating_sub(base(path.target).0);
    [
        qp_path(path.source.port.get(), path.dlid, path.bits.into(), there),
        qp_path(path.target.port.get(), path.slid, far, back),
    ]
}
