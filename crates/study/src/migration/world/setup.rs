//! The adapters of all hosts, and their connections.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_api::MigrationRun;
use selvedge_dataplane::{PS_PER_NS, Simulation};
use selvedge_hca::{Access, Adapters, AttrMask as M, Hca, HcaConfig, QpAttr, QpState, Transport, VerbsError, masks};
use selvedge_tolerance::{Cluster, Deaths, Objects, Of, Process, Rearm, ThreadCosts};
use selvedge_types::Guid;

use super::super::hosts::Link;
use super::super::wakes::Wakes;
use super::{End, InForce, Lab, Mode, Program, Ps, Question, STEPS, Samples, Software, World};
use crate::error::StudyError;

impl<'a> World<'a> {
    /// Sets up all connections.
    pub(in super::super) fn new(
        question: &'a Question,
        force: &'a InForce,
        lab: &'a Lab<'a>,
    ) -> Result<Self, StudyError> {
        let qp = question.settings.qp;
        let mut config = HcaConfig::new(Guid(1 << 32), 1);
        config.notices = true;
        config.armed_events = true;
        (config.window_packets, config.ack_every) = (qp.window_packets, qp.ack_every);
        config.costs.ack_ps = qp.ack_delay_ns * PS_PER_NS;
        let most = config.limits.qps;
        let simulation = Simulation::of_endpoint(&lab.network, &question.settings, Adapters::new(config)?)?;
        let mut world = Self {
            cluster: Cluster::new(simulation),
            programs: Vec::new(),
            receivers: lab.receivers.clone(),
            hosts: BTreeMap::new(),
            wakes: Wakes::default(),
            software: Software::default(),
            samples: Samples::default(),
            tables: force.routed.tables.clone(),
            cuts: BTreeSet::new(),
            broken: BTreeSet::new(),
            start: 0,
            run: MigrationRun {
                goodput: vec![0; STEPS as usize],
                migrated: vec![0; STEPS as usize],
                failed: vec![0; STEPS as usize],
                deaths: vec![0; STEPS as usize],
                ..MigrationRun::default()
            },
            done: Vec::new(),
            question,
            force,
            lab,
        };
        world.check_room(most)?;
        world.open()?;
        for link in &lab.links {
            if let Some(rival) = question.rival {
                world.open_carriers(link, rival)?;
                continue;
            }
            for _ in 0..question.program.connections {
                world.connect(link)?;
            }
        }
        Ok(world)
    }

    fn check_room(&self, most: u32) -> Result<(), StudyError> {
        let mut wanted = vec![0_u64; self.lab.hosts.all().len()];
        for link in &self.lab.links {
            let each = match self.question.rival {
                // A carrier has a queue pair at each end of each way, and one for probes; there are two carriers.
                Some(_) => 2 * (link.paths.len() as u64 + 1),
                None => u64::from(self.question.program.connections),
            };
            for host in link.hosts {
                wanted[host as usize] += each;
            }
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
    fn open(&mut self) -> Result<(), StudyError> {
        let simulation = self.cluster.simulation();
        let mut by_node = BTreeMap::new();
        for (end, info) in (0..).zip(simulation.subnet().end_ports()) {
            if let Some((hca, _)) = simulation.endpoint().of_end_port(end) {
                by_node.insert(info.at.node, hca as usize);
            }
        }
        let completions = self.question.program.in_flight.saturating_mul(2).saturating_add(64);
        for (number, host) in (0..).zip(self.lab.hosts.all()) {
            // A host has a connected port, so its adapter is there.
            let Some(node) = host.hcas.first().and_then(|ports| ports.first()).map(|at| at.node) else {
                continue;
            };
            let Some(&place) = by_node.get(&node) else { continue };
            let (objects, rkey) = self.cluster.act(place, |hca, _| {
                let objects = Objects::open(hca, completions)?;
                Ok((objects, hca.query_mr(objects.mr)?.rkey))
            })?;
            self.hosts.insert(place, number);
            self.programs.push(Program {
                place,
                node,
                objects,
                rkey,
                ends: Vec::new(),
                by_qp: BTreeMap::new(),
                by_peer: BTreeMap::new(),
                in_flight: 0,
                posted: 0,
                rng: self.question.seed.child("host").child(&number.to_string()).rng(),
                process: Process::new(objects.context, ThreadCosts::default()),
                rearm: Rearm::default(),
                deaths: Deaths::default(),
            });
        }
        Ok(())
    }

    /// Makes one connection of a pair.
    fn connect(&mut self, link: &Link) -> Result<(), StudyError> {
        for side in [0, 1] {
            self.create(link, side)?;
        }
        for side in [0, 1] {
            let far = self.programs[link.hosts[1 - side] as usize].ends.last();
            let number = far.map_or(0, |end| end.number);
            self.bring_up(link.hosts[side], number)?;
        }
        Ok(())
    }

    fn create(&mut self, link: &Link, side: usize) -> Result<(), StudyError> {
        let in_flight = self.question.program.in_flight;
        let (host, peer) = (link.hosts[side], link.hosts[1 - side]);
        let program = &mut self.programs[host as usize];
        let objects = program.objects;
        let (qp, number) = self.cluster.act(program.place, |hca, _| {
            let qp = objects.create_qp(hca, Transport::Rc, in_flight)?;
            Ok((qp, hca.qp_num(qp)?))
        })?;
        let end = program.ends.len() as u32;
        program.ends.push(End {
            qp,
            number,
            peer,
            in_error: false,
            paths: link.paths.iter().map(|paths| paths[side]).collect(),
            posted: 0,
            done: 0,
        });
        program.process.add(self.cluster.now(), peer, qp, Transport::Rc)?;
        program.by_qp.insert(qp, end);
        program.by_peer.entry(peer).or_default().0.push(end);
        Ok(())
    }

    /// Takes the last queue pair of a host to RTS; its alternate path is requested with that.
    fn bring_up(&mut self, host: u32, far: u32) -> Result<(), StudyError> {
        let settings = &self.question.settings;
        let program = &mut self.programs[host as usize];
        let Some(end) = program.ends.last() else { return Ok(()) };
        let (qp, primary) = (end.qp, end.paths[0]);
        let loads = self.question.mode != Mode::Off;
        let alternate = end.paths.get(1).copied().filter(|_| loads);
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
            ..QpAttr::default()
        };
        let process = &mut program.process;
        let mut bring_up = |hca: &mut Hca, now: Ps| {
            let steps = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts];
            let mut done = now;
            for pair in steps.windows(2) {
                if pair[1] == QpState::Rts && alternate.is_some() {
                    process.specify_and_load(done, hca, Of::Qps(&[qp]), |_| alternate)?;
                }
                let required = masks(Transport::Rc, pair[0], pair[1]).map_or(M::NONE, |masks| masks.required);
                let attr = QpAttr { state: pair[1], ..attr };
                done = process.modify_qp(now, hca, qp, &attr, required.with(M::STATE))?;
            }
            Ok::<Ps, StudyError>(done)
        };
        let done = self
            .cluster
            .act(program.place, |hca, now| Ok::<_, VerbsError>(bring_up(hca, now)))??;
        self.start = self.start.max(done);
        Ok(())
    }
}
