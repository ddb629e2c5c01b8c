//! Decides what a running manager applies at once, applies at its next start, or refuses for now.

use selvedge_plan::Policy;

use super::{Lost, Verdict};
use crate::{ConfigError, Key, Settings, Treatment};

const M_KEY: &str = "ports hold an M_Key, and the file names none: put the key back, or write m_key = 0 to take it \
    from every port";

const UNSTORED: &str = "there is no state folder (daemon.state_dir, --state): if the manager is killed while the M_Key \
    changes, ports may be left with a key that the next start does not know";

const OPEN: &str = "or write 'Default=0x7fff: ALL=full;' to make every port a member of one partition";

const NEXT_START: &str = "the running manager keeps its value; the new one holds after a restart";

impl Verdict {
    /// Compares the settings with those of the running manager.
    pub(super) fn compare(&mut self, running: &Settings, gives_m_key: bool) {
        let in_force = &running.policy;
        let wanted = self.settings.policy.m_key;
        if in_force.m_key != 0 && wanted == 0 && !gives_m_key {
            self.refuse_for_now("keys.m_key", M_KEY.to_owned());
        } else if in_force.m_key != wanted && running.daemon.state_dir.is_none() {
            self.judge("keys.m_key", Treatment::Warned, UNSTORED.to_owned(), String::new());
        }
        let changes = in_force.partitions != self.settings.policy.partitions;
        if let Some(lost) = self.lost_partitions.take().filter(|_| changes) {
            self.refuse_for_now("fabric.partitions", of_lost(&lost));
        }
        self.warn_of_emptied(in_force);
        // A reload applies the policy, the SM_Key, thresholds of alarms and node names only.
        let mut after = Settings {
            policy: self.settings.policy.clone(),
            alarms: self.settings.alarms.clone(),
            ..running.clone()
        };
        after.manager.sm_key = self.settings.manager.sm_key;
        for key in Key::ALL {
            let path = key.path();
            let is_read_again = path == "daemon.node_name_map";
            let is_wrong = self.stops().any(|found| found.name == path || found.key == Some(&path));
            if !is_read_again && !is_wrong && key.value(&after) != key.value(&self.settings) {
                self.judge(&path, Treatment::NextStart, NEXT_START.to_owned(), String::new());
            }
        }
    }

    /// Warns of lists that name nothing any more: the file may have been cut short.
    fn warn_of_emptied(&mut self, in_force: &Policy) {
        if !self.is_ok() {
            // A list that could not be read is empty, too.
            return;
        }
        let policy = &self.settings.policy;
        let lists = [
            ("routing.roots", in_force.roots.len(), policy.roots.len()),
            ("routing.compute", in_force.compute.len(), policy.compute.len()),
            ("routing.io", in_force.io.len(), policy.io.len()),
            ("routing.guid_order", in_force.guid_order.len(), policy.guid_order.len()),
            ("--guid2lid", in_force.known_lids.len(), policy.known_lids.len()),
        ];
        for (key, before, after) in lists {
            if before > 0 && after == 0 {
                let why =
                    format!("the list in force has {before} entries, this one none: check whether it was cut short");
                self.judge(key, Treatment::Warned, why, String::new());
            }
        }
    }

    fn refuse_for_now(&mut self, key: &'static str, why: String) {
        let error = ConfigError::NotNow { key, why: why.clone() }.to_string();
        self.judge(key, Treatment::NotNow, why, error);
    }
}

/// Returns why partitions in force stay, and what to do.
fn of_lost(lost: &Lost) -> String {
    match lost {
        Lost::Gone => format!("the file of the partitions in force is not there any more; put it back, {OPEN}"),
        Lost::Emptied(path) => format!(
            "{} is empty, and partitions are in force; put its content back, {OPEN}",
            path.display()
        ),
    }
}
