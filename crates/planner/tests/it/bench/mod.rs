//! A fabric under traffic and tables of engines: the start of tests and examples of transitions.

use selvedge_fabric::{Fabric, LinkState, PortRef};
use selvedge_plan::{EngineName, Generation, Installed, Lids, Plan, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange, PortState};

/// A fabric under traffic, with LIDs.
#[derive(Clone)]
pub struct Bench {
    /// The fabric, with all links ACTIVE.
    pub fabric: Fabric,
    /// The LIDs: one for each end port.
    pub lids: Lids,
}

/// A generated fabric; the error says why there is none, or that it is too large.
pub fn bench(spec: &str) -> Result<Bench, String> {
    let Spec::Generated(recipe) = spec.parse::<Spec>().map_err(|e| e.to_string())? else {
        return Err(format!("{spec}: only generated fabrics here"));
    };
    let mut fabric = recipe.fabric().map_err(|e| e.to_string())?;
    let mut lids = Lids::new();
    for ((at, _), lid) in fabric.end_ports().zip(1..) {
        lids.insert(at, LidRange::single(Lid(lid)))
            .map_err(|_| format!("{spec}: out of LIDs"))?;
    }
    let ends: Vec<PortRef> = fabric.links().flat_map(|link| [link.a, link.b]).collect();
    ends.iter().for_each(|&at| set(&mut fabric, at, PortState::Active));
    for node in fabric.switches().iter().copied().collect::<Vec<_>>() {
        let mut settings = fabric.node(node).switch_settings;
        settings.lifetime = 18;
        settings.linear_top = 0xBFFF;
        fabric.set_switch(node, settings);
    }
    Ok(Bench { fabric, lids })
}

/// Sets the state of a port.
pub fn set(fabric: &mut Fabric, at: PortRef, state: PortState) {
    if let Some((link, settings)) = fabric.port(at).map(|port| (port.link, port.settings)) {
        fabric.set_port(at, LinkState { state, ..link }, settings);
    }
}

impl Bench {
    /// Returns the tables of an engine for this fabric on one lane; `None` if the engine cannot route it.
    pub fn route(&self, engine: Engine, previous: Option<&Tables>, par: Par) -> Option<Tables> {
        let options = Options {
            previous: previous.cloned().map(Into::into),
            lanes: Some(1),
            ..Options::default()
        };
        let routed = engine.route(&self.fabric, &self.lids, &options, Seed(0), par);
        routed.ok().map(|routed| routed.tables)
    }

    /// True if a port belongs to a switch.
    pub fn is_between(&self, at: PortRef) -> bool {
        self.fabric.switch_index(at.node).is_some()
    }

    /// Returns these tables as known contents of the switches.
    pub fn installed(&self, tables: &Tables) -> Installed {
        let mut installed = Installed::unknown(tables.switches());
        for switch in tables.switch_indices() {
            for block in 0..tables.blocks() {
                installed.learn(switch, block, *tables.block(switch, block));
            }
        }
        installed
    }

    /// Returns a plan with these tables.
    pub fn plan(&self, tables: Tables) -> Plan {
        let switches = self.fabric.switches().iter();
        let settings = switches.map(|&node| self.fabric.node(node).switch_settings);
        Plan {
            generation: Generation(7),
            engine: EngineName("test".to_owned()),
            lids: self.lids.clone(),
            tables,
            service_levels: ServiceLevels::default(),
            sl_to_vl: SlToVl::default(),
            lanes: 1,
            lane_tables: None,
            ports: Default::default(),
            end_ports: Default::default(),
            switches: settings.collect(),
        }
    }
}
