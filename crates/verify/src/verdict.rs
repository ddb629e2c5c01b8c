//! The verdict on tables and settings.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::cdg::DependencyGraph;
use crate::cycle::first_cycle;
use crate::figures::{Figures, figures};
use crate::finding::{Fault, Finding, Place, Severity, Traffic};
use crate::ground::{Ground, Way};
use crate::judged::{JudgeOptions, Senders};
use crate::kind::Kind;
use crate::reach::follow;
use crate::sl_vl::{LaneMap, level};
use crate::subject::Subject;
use crate::tally::{Loss, Losses, What};
use crate::witness::Finder;
use crate::{directed, lids, parts, settings};

/// Number of findings of one kind and severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Total {
    /// The kind.
    pub kind: Kind,
    /// Code of the findings.
    pub code: &'static str,
    /// The severity.
    pub severity: Severity,
    /// The number, including findings left out of [`Verdict::findings`].
    pub count: u64,
}

/// Result of the judge.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// Errors first, then by code, LID and switch; at most [`JudgeOptions::findings_max`] of a kind and severity.
    pub findings: Vec<Finding>,
    /// Number of findings of each kind and severity, in the same order.
    pub totals: Vec<Total>,
    /// Measured figures.
    pub figures: Figures,
}

impl Verdict {
    /// True if there is no error.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.count(Severity::Error) == 0
    }

    /// True if there is no error and the verdict covers the whole fabric: no host is isolated, and no node is out of a
    /// manager's reach. Findings that the operator accepted do not count.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let is_of_the_whole = |finding: &&Finding| {
            finding.severity == Severity::Warning && !finding.accepted && finding.fault.kind().is_of_the_whole()
        };
        // At least one finding of each kind and severity is listed.
        self.is_ok() && !self.findings.iter().any(|finding| is_of_the_whole(&finding))
    }

    /// Returns the number of findings of a severity, including those left out of [`Self::findings`].
    #[must_use]
    pub fn count(&self, severity: Severity) -> u64 {
        let of_it = self.totals.iter().filter(|total| total.severity == severity);
        of_it.map(|total| total.count).sum()
    }

    /// Returns the number of findings of a kind, including those left out of [`Self::findings`].
    #[must_use]
    pub fn count_of(&self, kind: Kind) -> u64 {
        let of_it = self.totals.iter().filter(|total| total.kind == kind);
        of_it.map(|total| total.count).sum()
    }

    /// Returns the errors that are listed.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.severity == Severity::Error)
    }
}

/// Judges tables and settings. The crate's page explains what is judged.
#[must_use]
pub fn verify(subject: Subject<'_>, options: &JudgeOptions) -> Verdict {
    let mut docket = Docket::new(options);
    let figures = docket.try_subject(subject, options.senders);
    docket.verdict(figures)
}

/// Collects findings: turns accepted errors into warnings, keeps the first of each kind and severity, counts all.
#[derive(Debug)]
pub struct Docket<'a> {
    options: &'a JudgeOptions,
    groups: BTreeMap<(Reverse<Severity>, Kind), (Vec<Finding>, u64)>,
}

impl<'a> Docket<'a> {
    /// Returns a collection without findings.
    pub const fn new(options: &'a JudgeOptions) -> Self {
        Self {
            options,
            groups: BTreeMap::new(),
        }
    }

    /// Adds a finding.
    pub fn add(&mut self, finding: Finding) {
        self.add_counted(finding, 1);
    }

    /// True if findings of this kind are accepted. If cycles of a plan are accepted, cycles during the transition to it
    /// are accepted too.
    fn accepts(&self, kind: Kind) -> bool {
        let accept = &self.options.accept;
        let cycles = [Kind::HostCycle, Kind::AgentCycle, Kind::Loop];
        let by_cycle = matches!(kind, Kind::UnsafeWay | Kind::MulticastCircle)
            && cycles.iter().any(|cycle| accept.contains(cycle));
        kind.is_acceptable() && (accept.contains(&kind) || by_cycle)
    }

    /// Adds a finding that stands for `count` findings of its kind and severity.
    fn add_counted(&mut self, mut finding: Finding, count: u64) {
        let kind = finding.fault.kind();
        let is_lowered = match finding.severity {
            Severity::Error => true,
            Severity::Warning => kind.is_of_the_whole(),
            Severity::Info => false,
        };
        if is_lowered && self.accepts(kind) {
            finding.severity = Severity::Warning;
            finding.accepted = true;
        }
        let group = self.groups.entry((Reverse(finding.severity), kind)).or_default();
        group.1 += count;
        if group.0.len() < self.options.kept() {
            group.0.push(finding);
        }
    }

    /// Judges a subject and returns the figures.
    pub fn try_subject(&mut self, subject: Subject<'_>, senders: Senders) -> Figures {
        let (tables, fabric) = (subject.tables.switches() as u64, subject.fabric.switches().len() as u64);
        if tables != fabric {
            self.add(Finding::new(Severity::Error, Fault::TableShape { tables, fabric }));
            return Figures::default();
        }
        let ground = Ground::new(subject);
        let lanes = LaneMap::new(&ground);
        self.add_plain_facts(&ground);
        let finder = Finder {
            ground: &ground,
            lanes: &lanes,
        };
        let tally = follow(&ground, &lanes, senders, self.options);
        self.add_losses(finder, &tally.losses);
        if let Some((traffic, cycle)) = first_cycle(&ground, &tally.dependencies, self.options.par) {
            let graph = DependencyGraph::new(&ground, &tally.dependencies, traffic);
            let cycle: Vec<_> = cycle.into_iter().map(|vertex| graph.parts(vertex)).collect();
            self.add_cycle(finder, traffic, &cycle);
        }
        figures(&ground, &tally, self.options.par)
    }

    /// Adds findings that do not depend on packets: connected parts, LIDs, settings.
    pub fn add_plain_facts(&mut self, ground: &Ground<'_>) {
        for finding in parts::findings(ground)
            .into_iter()
            .chain(directed::findings(ground))
            .chain(lids::findings(ground))
            .chain(settings::findings(ground))
        {
            self.add(self.as_wanted(finding, ground));
        }
    }

    /// Returns a finding. If it is about a host that the operator has taken out of service, its severity is changed to
    /// [`Severity::Info`].
    fn as_wanted(&self, mut finding: Finding, ground: &Ground<'_>) -> Finding {
        if let Fault::HostAlone { host, .. } = &finding.fault {
            let nodes = self
                .options
                .kept_off
                .iter()
                .map(|at| &ground.subject.fabric.nodes()[at.node]);
            if nodes
                .filter(|node| !node.is_switch())
                .any(|node| node.guid == host.node_guid)
            {
                finding.severity = Severity::Info;
            }
        }
        finding
    }

    /// Adds a cycle of channels with their lanes: (lane, channel).
    pub fn add_cycle(&mut self, finder: Finder<'_>, traffic: Traffic, cycle: &[(usize, usize)]) {
        let length = u32::try_from(cycle.len()).unwrap_or(u32::MAX);
        let severity = match traffic {
            Traffic::Hosts | Traffic::Agents => Severity::Error,
            Traffic::Switches => self.options.switch_pairs,
        };
        let witness = finder.of_cycle(traffic, cycle);
        self.add(Finding::proven(severity, Fault::Cycle { traffic, length }, witness));
    }

    fn add_losses(&mut self, finder: Finder<'_>, losses: &Losses) {
        for (kept, &total) in losses.kept.iter().zip(&losses.totals) {
            // The first kept loss also stands for those that were not kept.
            let mut count = total + 1 - kept.len() as u64;
            for loss in kept {
                let severity = if loss.between_switches {
                    self.options.switch_pairs
                } else {
                    Severity::Error
                };
                let fault = fault_of(finder.ground, loss);
                self.add_counted(Finding::proven(severity, fault, finder.of_loss(loss)), count);
                count = 1;
            }
        }
    }

    /// Returns the verdict on all findings added.
    pub fn verdict(self, figures: Figures) -> Verdict {
        let mut verdict = Verdict {
            figures,
            ..Verdict::default()
        };
        for ((severity, kind), (findings, count)) in self.groups {
            verdict.findings.extend(findings);
            verdict.totals.push(Total {
                kind,
                code: kind.code(),
                severity: severity.0,
                count,
            });
        }
        verdict
    }
}

fn fault_of(ground: &Ground<'_>, loss: &Loss) -> Fault {
    let fabric = ground.subject.fabric;
    let switch = Place::node(fabric, ground.node_of(loss.switch));
    let (lid, egress, lost) = (loss.lid, loss.entry, loss.from);
    let owner = match ground.subject.lids.owner(lid) {
        Some(at) => Place::port(fabric, at),
        None => switch.clone(),
    };
    match loss.what {
        What::Dead(cause) => Fault::BlackHole {
            switch,
            egress,
            lid,
            owner,
            cause,
            lost,
        },
        What::Loop { length } => Fault::Loop {
            switch,
            length,
            lid,
            owner,
            lost,
        },
        What::Wrong(exit) => {
            let receiver = match exit.way() {
                Way::Host(host) => Place::port(fabric, ground.hosts[host as usize].at),
                Way::Own | Way::Channel(_) | Way::Dead(_) => Place::port(fabric, ground.port0(loss.switch)),
            };
            Fault::WrongDelivery {
                switch,
                egress,
                lid,
                owner,
                receiver,
                lost,
            }
        }
        What::Lane(vl) => Fault::LaneDrop {
            lanes: ground.lanes(loss.switch as usize, egress),
            switch,
            egress,
            lid,
            owner,
            sl: level(ground, lid),
            vl,
            lost,
        },
        What::OwnLid => Fault::OwnLid { switch, lid, egress },
    }
}
