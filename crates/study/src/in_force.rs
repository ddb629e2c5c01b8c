//! A fabric, the tables in force in it, and how an engine continues from them.

use std::sync::Arc;

use selvedge_apm::Subnet;
use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{EngineName, Lids, ServiceLevels, SlToVl};
use selvedge_routing::{Capability, Engine, Listed, Note, Options, Routed};
use selvedge_sim::{Par, Seed};
use selvedge_verify::standing::Proof;
use selvedge_verify::{JudgeOptions, Kind, Subject, Verdict, verify};

use crate::cuts::{Cuts, cuts};
use crate::damage::{hosts_of, switch_links};
use crate::error::StudyError;
use crate::threads::Threads;
use crate::watch::{Reporter, Stage};

/// A fabric before its first fault, with its options.
#[derive(Clone, Debug)]
pub struct Start {
    /// The whole fabric.
    pub fabric: Arc<Fabric>,
    /// LIDs of the fabric; replaced by those of listed tables, if there are any.
    pub lids: Arc<Lids>,
    /// The engine that makes new tables. `auto` chooses an engine once, and that choice stays.
    pub engine: Engine,
    /// Options of the engine. Listed tables ([`Listed::Tables`]) are in force from the start, unless the engine is
    /// `file`.
    pub options: Options,
}

/// A fabric and its routing in force.
pub(crate) struct InForce {
    /// The whole fabric.
    pub(crate) fabric: Arc<Fabric>,
    /// LIDs of the fabric.
    pub(crate) lids: Arc<Lids>,
    /// The engine that computes new tables.
    pub(crate) engine: Engine,
    /// Options of the engine, which include the tables in force.
    pub(crate) options: Options,
    /// The tables in force.
    pub(crate) routed: Routed,
    /// Lane maps.
    pub(crate) sl_to_vl: SlToVl,
    /// Live links between switches.
    pub(crate) links: Vec<PortRef>,
    /// Live host ports of each switch.
    pub(crate) hosts: Vec<u64>,
    /// Pairs of hosts that no tables can join any more.
    pub(crate) cuts: Cuts,
}

impl InForce {
    /// Returns what paths depend on.
    pub(crate) fn subnet(&self) -> Subnet<'_> {
        Subnet {
            fabric: &self.fabric,
            lids: &self.lids,
            tables: &self.routed.tables,
            levels: &self.routed.service_levels,
        }
    }
}

impl Start {
    /// Returns the routing in force, and the engine's notes.
    pub(crate) fn in_force(
        &self,
        threads: Threads,
        reporter: &Reporter<'_>,
    ) -> Result<(InForce, Vec<Note>), StudyError> {
        reporter.begin(Stage::Routing(self.engine))?;
        let fabric = &self.fabric;
        let mut options = self.options.clone();
        let given = match options.listed.as_deref() {
            Some(Listed::Tables { tables, lids }) if !self.engine.can(Capability::Given) => {
                Some((tables.clone(), Arc::new(lids.clone())))
            }
            _ => None,
        };
        let lids = given.as_ref().map_or(&self.lids, |(_, lids)| lids).clone();
        let mut routed = self.engine.route(fabric, &lids, &options, Seed(0), threads.par())?;
        let notes = std::mem::take(&mut routed.notes);
        // Of `auto` the engine that it takes: a manager changes it for no fault.
        let engine = Engine::try_from(&routed.engine)?;
        if let Some((tables, _)) = given {
            routed = Routed {
                tables,
                service_levels: ServiceLevels::default(),
                lanes: 1,
                engine: EngineName(engine.name().to_owned()),
                notes: Vec::new(),
            };
        }
        options.fat_tree.nominal = Some(fabric.clone());
        options.previous = Some(Arc::new(routed.tables.clone()));
        options.weave.previous_levels = Some(Arc::new(routed.service_levels.clone()));
        options.lanes = Some(routed.lanes);
        let (links, hosts) = (switch_links(fabric), hosts_of(fabric));
        let force = InForce {
            fabric: fabric.clone(),
            lids,
            engine,
            options,
            sl_to_vl: SlToVl::modulo(routed.lanes),
            cuts: cuts(fabric, &links, &hosts),
            routed,
            links,
            hosts,
        };
        Ok((force, notes))
    }
}

impl InForce {
    /// Returns the judge's verdict on tables, on a fabric with these cables.
    pub(crate) fn judge(&self, fabric: &Fabric, routed: &Routed, par: Par) -> Verdict {
        let subject = Subject::tables(
            fabric,
            &self.lids,
            &routed.tables,
            &routed.service_levels,
            &self.sl_to_vl,
        );
        let options = JudgeOptions {
            par,
            findings_max: 1,
            ..JudgeOptions::default()
        };
        verify(subject, &options)
    }
}

/// The figures of the judge that a study uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    /// Number of pairs of hosts that reach each other.
    pub(crate) reached: u64,
    /// Pairs on the busiest link.
    pub(crate) max_load: u64,
    /// True if packets cannot wait for each other in a cycle.
    pub(crate) deadlock_free: bool,
}

impl From<&Proof> for Judged {
    fn from(proof: &Proof) -> Self {
        let is_harmless = |traffic| traffic == selvedge_verify::Traffic::Switches;
        Self {
            reached: proof.host_pairs_reached,
            max_load: proof.load.max,
            deadlock_free: proof.cyclic.is_none_or(is_harmless),
        }
    }
}

impl From<&Verdict> for Judged {
    fn from(verdict: &Verdict) -> Self {
        let cycles = [Kind::HostCycle, Kind::AgentCycle].map(|kind| verdict.count_of(kind));
        Self {
            reached: verdict.figures.host_pairs_reached,
            max_load: verdict.figures.load.max,
            deadlock_free: cycles.iter().sum::<u64>() == 0,
        }
    }
}
