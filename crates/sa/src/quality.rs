//! What quality of service gives a path: its service level, its P_Key and its limits.
//!
//! Without quality of service in the plan the service level is that of the routes, or, if routes leave the choice, the
//! requested one. Source of the order with OpenSM's quality of service: observed with OpenSM 3.3.23; see
//! [`selvedge_qos::path`].

use selvedge_plan::qos::{Asked, Compiled, End, PathRules, Resolved};
use selvedge_qos::intent::{Context, class_of};
use selvedge_qos::path::{Limits, SlAsked, SlSet, pkey_of_path, sl_of_path};
use selvedge_types::{Lid, PKey, Sl};

use crate::path::Wishes;
use crate::query::Registered;
use crate::snapshot::{EndPort, Snapshot};

/// Fields of a path query that decide about quality of service; `None`: not in its component mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QosWishes {
    /// Service ID.
    pub service_id: Option<u64>,
    /// QoS class.
    pub class: Option<u16>,
    /// TClass.
    pub traffic_class: Option<u8>,
}

/// What a path gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// Service level.
    pub sl: Sl,
    /// P_Key.
    pub pkey: PKey,
    /// Limits of its MTU, rate and lifetime.
    pub limits: Limits,
}

/// A question for the quality of a path.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The plan in force.
    pub snapshot: &'a Snapshot,
    /// Jobs.
    pub registered: &'a Registered,
    /// Source of the path.
    pub from: &'a EndPort,
    /// Destination, with its index.
    pub to: (u32, &'a EndPort),
    /// LID of the destination.
    pub dlid: Lid,
    /// What the query asks for.
    pub wishes: &'a Wishes,
}

impl Question<'_> {
    /// Returns what the path gets; `None`: there is no path that the query allows.
    pub fn answer(&self) -> Option<Given> {
        let tables = self.snapshot.plan().lane_tables.as_ref();
        match tables.and_then(|tables| tables.qos.as_ref()).map(|qos| &qos.rules) {
            None => self.by_routes(),
            Some(PathRules::OpenSm(policy)) => self.by_policy(policy.as_deref()),
            Some(PathRules::Classes(classes)) => self.by_class(classes),
        }
    }

    fn shared(&self, pkey: Option<PKey>) -> Option<PKey> {
        self.snapshot.shared_key(self.from, self.to.1, pkey)
    }

    /// Returns the service level on which routes to the destination rely; `None`: they leave the choice.
    fn of_routes(&self) -> Option<Sl> {
        let plan = self.snapshot.plan();
        (!plan.takes_any_level()).then(|| plan.told_levels().to(self.dlid))
    }

    fn by_routes(&self) -> Option<Given> {
        let pkey = self.shared(self.wishes.pkey)?;
        let sl = match (self.of_routes(), self.wishes.sl) {
            (Some(told), Some(wanted)) if wanted != told => return None,
            (Some(told), _) => told,
            (None, Some(wanted)) => wanted,
            (None, None) => self.snapshot.plan().told_levels().to(self.dlid),
        };
        Some(Given {
            sl,
            pkey,
            limits: Limits::default(),
        })
    }

    fn by_policy(&self, policy: Option<&Resolved>) -> Option<Given> {
        let asked = self.asked();
        let found = policy.map(|resolved| resolved.policy.level(resolved.level_of(&asked)));
        let level = found.and_then(|(level, _)| level);
        let of_level = pkey_of_path(level, self.wishes.pkey, |pkey| self.shared(Some(pkey)).is_some()).ok()?;
        let pkey = match of_level {
            Some(pkey) => pkey,
            None => self.shared(self.wishes.pkey)?,
        };
        let rows = self.snapshot.rows_along(self.from, self.to.0, self.dlid);
        let asked = SlAsked {
            requested: self.wishes.sl,
            level: found.map(|(_, sl)| sl),
            partition: Some(self.snapshot.sl_of_partition(pkey)),
            valid: SlSet::along(&rows),
            engine: self.of_routes(),
        };
        Some(Given {
            sl: sl_of_path(&asked).ok()?,
            pkey,
            limits: Limits::of(level),
        })
    }

    /// The class of the query gives the service level, for the layer of routing of the destination. A query that asks
    /// for a service level of a class gets this class.
    fn by_class(&self, classes: &Compiled) -> Option<Given> {
        let pkey = self.shared(self.wishes.pkey)?;
        let layer = usize::from(self.of_routes().map_or(0, Sl::get));
        let sl_of = |class: usize| classes.classes.get(class)?.sls.get(layer).copied();
        let asks_for = |sl: Sl| (0..classes.classes.len()).find(|class| sl_of(*class) == Some(sl));
        let class = match self.wishes.sl.and_then(asks_for) {
            Some(class) => class,
            None => self.class(classes),
        };
        let sl = sl_of(class)?;
        if self.wishes.sl.is_some_and(|wanted| wanted != sl) {
            return None;
        }
        Some(Given {
            sl,
            pkey,
            limits: Limits {
                mtu: Some(classes.classes.get(class)?.mtu),
                ..Limits::default()
            },
        })
    }

    /// Returns the class of the query: that of the job which both ends run, or that of the first match.
    fn class(&self, classes: &Compiled) -> usize {
        let jobs = &self.registered.jobs;
        let of_both = || jobs.of_both(self.from.guid, self.to.1.guid);
        let named = |name: &str| classes.classes.iter().position(|plan| plan.class.name == name);
        let of_job = of_both().find_map(|job| jobs.class_of(job).and_then(named));
        let ends = [self.from.guid, self.to.1.guid];
        let rules = Context {
            traffic_class: self.wishes.quality.traffic_class,
            sl: self.wishes.sl,
            is_in_group: &|name| {
                let group = classes.groups.get(name);
                group.is_some_and(|group| ends.iter().any(|end| group.contains(end)))
            },
            is_in_job: &|name| of_both().any(|job| job == name),
        };
        of_job.unwrap_or_else(|| class_of(classes, &self.asked(), &rules))
    }

    fn asked(&self) -> Asked {
        let end = |end: &EndPort| End {
            guid: end.guid,
            kind: self.snapshot.fabric().node(end.at.node).kind,
        };
        Asked {
            source: end(self.from),
            destination: end(self.to.1),
            service_id: self.wishes.quality.service_id,
            class: self.wishes.quality.class,
            pkey: self.wishes.pkey,
        }
    }
}
