//! When a connection that has migrated may load an alternate path again.
//!
//! A queue pair in REARM shows MigReq 0, which an end that is still on the former path would not follow. So a
//! connection waits after a migration until a message that was posted afterwards has been acknowledged: the other end
//! has followed then.

use std::collections::BTreeMap;

use selvedge_hca::Qp;

/// Messages of a queue pair.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    posted: u64,
    acknowledged: u64,
    /// After a migration: more messages than these have to be acknowledged.
    after: Option<u64>,
}

/// The queue pairs of a process.
#[derive(Clone, Debug, Default)]
pub struct Rearm {
    flows: BTreeMap<Qp, Flow>,
}

impl Rearm {
    /// A message was posted.
    pub fn posted(&mut self, qp: Qp) {
        self.flows.entry(qp).or_default().posted += 1;
    }

    /// The queue pair has migrated.
    pub fn migrated(&mut self, qp: Qp) {
        let flow = self.flows.entry(qp).or_default();
        flow.after = Some(flow.posted);
    }

    /// A message was acknowledged. True once after each migration: an alternate path may be loaded now.
    pub fn acknowledged(&mut self, qp: Qp) -> bool {
        let flow = self.flows.entry(qp).or_default();
        flow.acknowledged += 1;
        let acknowledged = flow.acknowledged;
        flow.after.take_if(|posted| acknowledged > *posted).is_some()
    }
}

#[cfg(test)]
mod tests {
    use selvedge_hca::{Hca, HcaConfig, Transport};
    use selvedge_types::Guid;

    use super::*;
    use crate::objects::Objects;

    #[test]
    fn a_message_posted_after_the_migration_decides() {
        let mut hca = Hca::new(HcaConfig::new(Guid(1), 1)).unwrap();
        let qp = Objects::open(&mut hca, 1).unwrap();
        let qp = qp.create_qp(&mut hca, Transport::Rc, 1).unwrap();
        let mut rearm = Rearm::default();
        rearm.posted(qp);
        rearm.posted(qp);
        assert!(!rearm.acknowledged(qp), "nothing has migrated");
        rearm.migrated(qp);
        assert!(!rearm.acknowledged(qp), "posted before");
        rearm.posted(qp);
        assert!(rearm.acknowledged(qp));
        rearm.posted(qp);
        assert!(!rearm.acknowledged(qp), "once");
    }
}
