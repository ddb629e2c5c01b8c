//! Decides what a running manager applies at once, applies at its next start, or refuses for now.

use selvedge_plan::partition::Partitions;

use super::Verdict;
use crate::{ConfigError, Key, Settings, Treatment};

const M_KEY: &str = "the ports hold another M_Key and would refuse the manager; put the old key back, also where the \
    file is empty: a key cannot be changed while the manager runs. To change it, stop the manager, reset the ports, \
    and start with the new key";

const PARTITIONS: &str = "the file of the partitions in force is not there any more; put it back, or write a file with \
    'Default=0x7fff: ALL=full;' to make every port a member of one partition";

const NEXT_START: &str = "the running manager keeps its value; the new one holds after a restart";

impl Verdict {
    /// Compares the settings with those of the running manager.
    pub(super) fn compare(&mut self, running: &Settings) {
        let in_force = &running.policy;
        if in_force.m_key != 0 && in_force.m_key != self.settings.policy.m_key {
            self.refuse_for_now("keys.m_key", M_KEY);
        }
        if self.has_lost_partitions && *in_force.partitions != Partitions::default() {
            self.refuse_for_now("fabric.partitions", PARTITIONS);
        }
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

    fn refuse_for_now(&mut self, key: &'static str, why: &'static str) {
        let error = ConfigError::NotNow { key, why }.to_string();
        self.judge(key, Treatment::NotNow, why.to_owned(), error);
    }
}
