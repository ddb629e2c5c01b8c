//! The names of the keys in which two policies differ.

use crate::Policy;

/// Defines [`Policy::KEYS`] and [`Policy::changed_from`]. A field without a name does not compile.
macro_rules! keys {
    ($($field:ident $name:literal),+ $(,)?) => {
        impl Policy {
            /// The configuration keys from which a policy comes, such as `routing.lmc`; `guid2lid` and `out-of-service`
            /// are files of the state folder.
            pub const KEYS: &[&str] = &[$($name),+];

            /// Returns the keys with other values than in the policy `before`, in the order of [`Self::KEYS`].
            #[must_use]
            pub fn changed_from(&self, before: &Self) -> Vec<&'static str> {
                let Self { $($field),+ } = self;
                let mut changed = Vec::new();
                $(if *$field != before.$field {
                    changed.push($name);
                })+
                changed
            }
        }
    };
}

keys!(
    engines "routing.engines",
    roots "routing.roots",
    compute "routing.compute",
    io "routing.io",
    guid_order "routing.guid_order",
    count_switches "routing.count_switches",
    lmc "routing.lmc",
    known_lids "guid2lid",
    reassign_lids "routing.reassign_lids",
    lid_layout "routing.lid_layout",
    lanes "routing.lanes",
    used_lanes "routing.used_lanes",
    assume_sl_aware "routing.assume_sl_aware",
    multicast_lane "routing.multicast_lane",
    qos "qos.classes",
    flap_downs "routing.flap_downs",
    flap_window_s "routing.flap_window_s",
    flap_hold_s "routing.flap_hold_s",
    rebalance "routing.rebalance",
    rebalance_blocks "routing.rebalance_blocks",
    rebalance_quiet_s "routing.rebalance_quiet_s",
    rebalance_pause_s "routing.rebalance_pause_s",
    partitions "fabric.partitions",
    part_enforce "fabric.part_enforce",
    mtu_max "fabric.mtu_max_bytes",
    packet_life "fabric.packet_life",
    hoq_life "fabric.hoq_life",
    leaf_hoq_life "fabric.leaf_hoq_life",
    vl_stall_count "fabric.vl_stall_count",
    m_key "keys.m_key",
    m_key_lease_s "keys.m_key_lease_s",
    m_key_protect "keys.m_key_protect",
    subnet_prefix "fabric.subnet_prefix",
    subnet_timeout "fabric.subnet_timeout",
    local_phy_errors "fabric.local_phy_errors",
    overrun_errors "fabric.overrun_errors",
    sm_sl "fabric.sm_sl",
    out_of_service "out-of-service",
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineName;

    #[test]
    fn a_policy_names_what_differs() {
        let before = Policy::default();
        assert!(before.changed_from(&before).is_empty());
        let after = Policy {
            engines: vec![EngineName("updn".to_owned())],
            m_key: 7,
            ..Policy::default()
        };
        assert_eq!(after.changed_from(&before), ["routing.engines", "keys.m_key"]);
        assert_eq!(before.changed_from(&after), ["routing.engines", "keys.m_key"]);
    }
}
