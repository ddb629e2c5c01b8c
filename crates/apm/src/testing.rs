//! Fixtures: a generated fabric with LIDs and tables, as a manager would plan them.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, Policy, ServiceLevels, Tables};
use selvedge_planner::lid;
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_types::Lmc;

use crate::{Hosts, Index, Subnet};

/// A fabric with the tables of the engine `auto`.
pub(crate) struct Lab {
    pub(crate) fabric: Fabric,
    pub(crate) lids: Lids,
    pub(crate) tables: Tables,
    pub(crate) levels: ServiceLevels,
}

impl Lab {
    pub(crate) fn new(spec: &str, lmc: u8) -> Self {
        let Spec::Generated(recipe) = spec.parse().unwrap() else {
            panic!("{spec} is a file")
        };
        let fabric = recipe.fabric().unwrap();
        let policy = Policy {
            lmc: Lmc::new(lmc).unwrap(),
            ..Policy::default()
        };
        let lids = lid::assign(&fabric, &policy, &BTreeMap::new(), &BTreeSet::new(), &mut Vec::new()).unwrap();
        let routed = Engine::Auto
            .route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential)
            .unwrap();
        Self {
            fabric,
            lids,
            tables: routed.tables,
            levels: routed.service_levels,
        }
    }

    pub(crate) fn subnet(&self) -> Subnet<'_> {
        Subnet {
            fabric: &self.fabric,
            lids: &self.lids,
            tables: &self.tables,
            levels: &self.levels,
        }
    }

    pub(crate) fn hosts(&self) -> Hosts {
        Hosts::of(self.subnet(), &Index::new(self.subnet()))
    }
}
