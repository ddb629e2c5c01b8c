//! Options of NVIDIA's closed fork (MLNXSM, the manager inside UFM), which occur in files of its users.

/// Beginnings of names, with an explanation for each.
const FORK: &[(&str, &str)] = &[
    (
        "virt_",
        "NVIDIA's fork only: virtual ports are not managed; SR-IOV needs that fork so far",
    ),
    (
        "ar_",
        "NVIDIA's fork only: adaptive routing is set by vendor-specific MADs, which Selvedge does not send",
    ),
    (
        "armgr_",
        "NVIDIA's fork only: adaptive routing is set by vendor-specific MADs, which Selvedge does not send",
    ),
    (
        "shield_mode",
        "NVIDIA's fork only: fast link fault recovery in the switch is set by vendor-specific MADs",
    ),
    (
        "pfrn_",
        "NVIDIA's fork only: fault routing notifications are set by vendor-specific MADs",
    ),
    (
        "hm_",
        "NVIDIA's fork only: the nearest here is the quarantine of flapping links (routing.flap_downs)",
    ),
    (
        "rch_",
        "NVIDIA's fork only: routing chains; list several engines in routing_engine instead",
    ),
    ("pgrp_policy_file", "NVIDIA's fork only: port groups of routing chains"),
    ("topo_policy_file", "NVIDIA's fork only: topologies of routing chains"),
    (
        "topo_config_",
        "NVIDIA's fork only: compare with a planned fabric by 'selvedge topology diff'",
    ),
    ("m_key_per_port", "NVIDIA's fork only: the whole subnet has one M_Key"),
    (
        "master_sm_lid",
        "NVIDIA's fork only: a LID that moves to each new master; here the master keeps the LID of its port",
    ),
    ("sa_enhanced_trust_model", "NVIDIA's fork only"),
    (
        "enable_sm_port_failover",
        "NVIDIA's fork only: run a standby at the second port instead",
    ),
    (
        "key_mgr_",
        "NVIDIA's fork only: of the keys of management classes, only the M_Key is managed",
    ),
    (
        "vs_key",
        "NVIDIA's fork only: of the keys of management classes, only the M_Key is managed",
    ),
    (
        "n2n_",
        "NVIDIA's fork only: of the keys of management classes, only the M_Key is managed",
    ),
    (
        "aggregation_manager",
        "NVIDIA's fork only: aggregation nodes are not configured",
    ),
    ("sharp_", "NVIDIA's fork only: aggregation nodes are not configured"),
    (
        "mepi_",
        "NVIDIA's fork only: vendor-specific port information is neither read nor set",
    ),
];

/// Returns the explanation for an option of the fork; `None` if it is not one.
pub(super) fn fork_option(name: &str) -> Option<&'static str> {
    let (_, what) = FORK.iter().find(|(beginning, _)| name.starts_with(beginning))?;
    Some(what)
}
