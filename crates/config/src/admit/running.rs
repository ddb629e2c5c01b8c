//! Decides what a running manager applies at once, applies at its next start, or refuses for now.

use selvedge_plan::Policy;

use super::{Lost, Verdict};
use crate::{ConfigError, Key, Settings, Treatment};

const M_KEY: &str = "the ports hold another M_Key and would refuse the manager; put the old key back, also where the \
    file is empty: a key cannot be changed while the manager runs. To change it, stop the manager, reset the ports, \
    and start with the new key";

const OPEN: &str = "or write 'Default=0x7fff: ALL=full;' to make every port a member of one partition";

const NEXT_START: &str = "the running manager keeps its value; the new one holds after a restart";

impl Verdict {
    /// Compares the settings with those of the running manager.
    pub(super) fn compare(&mut self, running: &Settings) {
        let in_force = &running.policy;
        if in_force.m_key != 0 && in_force.m_key != self.settings.policy.m_key {
            self.refuse_for_now("keys.m_key", M_KEY.to_owned());
        }
        let changes = in_force.partitions != self.settings.policy.partitions;
        if let Some(lost) = self.lost_partitions.take().filter(|_| changes) {
            self.refuse_for_now("fabric.partitions", of_lost(&lost));
        }
        self.warn_of_emptied(in_force);
        // A reload applies policy and node names only.
        let after = Settings {
            policy: self.settings.policy.clone(),
            ..running.clone()
        };
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
                    format!("the list in force has {before} entries, this one none: look whether it was cut short");
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
