//! What programs do with the modules of path migration.

use selvedge_dataplane::Ps;
use selvedge_fabric::PortRef;
use selvedge_hca::{Hca, Path, Qp};
use selvedge_tolerance::{Deaths, Of, ToleranceError};

use super::{Act, End, Mode, Told, World};
use crate::error::StudyError;

/// Returns the paths of a connection other than the one in use.
fn others(hca: &Hca, end: &End) -> Vec<Path> {
    let Ok(attr) = hca.query_qp(end.qp) else {
        return Vec::new();
    };
    let in_use = (attr.primary.port, attr.primary.ah);
    let others = end.paths.iter().filter(|path| (path.port, path.ah) != in_use);
    others.copied().collect()
}

/// Returns the first path that is not known to be dead, or else the first one.
fn choose(hca: &Hca, end: &End, deaths: &Deaths) -> Option<Path> {
    let others = others(hca, end);
    let alive = others.iter().find(|path| !deaths.breaks(hca, path));
    alive.or(others.first()).copied()
}

impl World<'_> {
    /// Counts a migration.
    pub(super) fn migrated(&mut self, host: usize, qp: Qp) {
        let step = self.step();
        self.run.migrations += 1;
        self.run.migrated[step] += 1;
        let program = &mut self.programs[host];
        program.rearm.migrated(qp);
        let attr = self.cluster.hca(program.place).and_then(|hca| hca.query_qp(qp));
        if attr.is_ok_and(|attr| !self.carries(host as u32, &attr.primary)) {
            self.run.dead_alternates += 1;
        }
    }

    /// Counts an acknowledged message. Loads an alternate path again if that is due.
    pub(super) fn acknowledged(&mut self, host: usize, end: usize) -> Result<(), StudyError> {
        let program = &mut self.programs[host];
        let Some(end) = program.ends.get_mut(end) else {
            return Ok(());
        };
        end.done += 1;
        if !program.rearm.acknowledged(end.qp) {
            return Ok(());
        }
        let (process, deaths) = (&mut program.process, &program.deaths);
        let asked = self.cluster.act(program.place, |hca, now| {
            let path = choose(hca, end, deaths);
            Ok(process.specify_and_load(now, hca, Of::Qps(&[end.qp]), |_| path))
        })?;
        asked.map_err(StudyError::from)?;
        self.run.rearmed += 1;
        self.settle(host)
    }

    /// Handles what a call of the modules has reported, and notes when the next one is due.
    fn settle(&mut self, host: usize) -> Result<(), StudyError> {
        self.wakes.set(host as u32, self.programs[host].process.next_wake());
        self.reports(host)
    }

    /// Calls the path migration module.
    pub(super) fn ask(&mut self, host: u32, qps: &[Qp]) -> Result<(), StudyError> {
        let program = &mut self.programs[host as usize];
        let process = &mut program.process;
        let asked: Result<(), ToleranceError> = self
            .cluster
            .act(program.place, |hca, now| Ok(process.migrate(now, hca, Of::Qps(qps))))?;
        asked?;
        self.run.requested += qps.len() as u64;
        self.settle(host as usize)
    }

    /// Returns what programs will be told of a fault, or of its repair, and when.
    pub(super) fn tell(&mut self, at: Ps, cut: Option<PortRef>) -> Option<(Ps, Act)> {
        let at_told = at + self.question.told;
        let mut told = Told::default();
        if let Some(cut) = cut.filter(|_| matches!(self.question.mode, Mode::Request | Mode::Policy(_))) {
            for (host, qp) in self.over(cut) {
                told.migrate.entry(host).or_default().push(qp);
            }
        }
        if self.question.respecify {
            told.reach = self.reach(self.start + at_told);
        }
        let is_news = !(told.migrate.is_empty() && told.reach.is_empty());
        is_news.then_some((at_told, Act::Tell(told)))
    }

    /// Programs learn which LIDs are not reached, load other paths, and ask for migrations.
    pub(super) fn told(&mut self, told: Told) -> Result<(), StudyError> {
        for (host, reach) in told.reach {
            let program = &mut self.programs[host as usize];
            program.deaths.tell(reach);
            let (process, deaths) = (&mut program.process, &mut program.deaths);
            let (ends, by_qp, place) = (&program.ends, &program.by_qp, program.place);
            let done = self.cluster.act(place, |hca, now| {
                let paths: Vec<(Qp, Vec<Path>)> = ends.iter().map(|end| (end.qp, others(hca, end))).collect();
                let of = |qp: Qp| by_qp.get(&qp).map(|&end| paths[end as usize].1.clone());
                Ok(deaths.handle(now, hca, process, |qp, _| of(qp).unwrap_or_default()))
            })??;
            let step = self.step();
            self.run.deaths[step] += (done.moved.len() + done.without.len()) as u64;
            self.run.respecified += done.moved.len() as u64;
            self.run.without_other += done.without.len() as u64;
            self.settle(host as usize)?;
        }
        for (host, qps) in told.migrate {
            self.ask(host, &qps)?;
        }
        Ok(())
    }
}
