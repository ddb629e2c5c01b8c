//! What the processes of a job export, so that its libraries use what it got.

use super::Grant;

/// An environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name of the variable.
    pub name: &'static str,
    /// Value of the variable.
    pub value: String,
}

/// Returns the variables for UCX, NCCL, Open MPI, MVAPICH2, Mooncake and DeepEP. `lmc` is the LMC of hosts: with
/// alternate paths a library may use 2^LMC paths.
///
/// Each of these libraries takes one service level for all messages: that of the job's class in the first layer of
/// routing. With several layers the library must ask for the path's service level instead, so those variables are set
/// that make it ask, and no fixed level.
///
/// Source: `ucx_info -c` of UCX 1.18, NCCL's and MVAPICH2's user guides, the MCA parameters of Open MPI 4.1
/// (`btl_openib`), Mooncake #2515, and DeepEP's `ElasticBuffer`.
#[must_use]
pub fn environment(grant: &Grant, lmc: u8) -> Vec<Variable> {
    let mut found = Vec::new();
    let mut set = |name, value: String| found.push(Variable { name, value });
    match grant.sls.as_slice() {
        [sl] => {
            let sl = sl.get().to_string();
            for name in [
                "UCX_IB_SL",
                "UCX_IB_REVERSE_SL",
                "NCCL_IB_SL",
                "OMPI_MCA_btl_openib_ib_service_level",
                "MV2_DEFAULT_SERVICE_LEVEL",
                "MC_IB_SL",
                "EP_OVERRIDE_RDMA_SL",
            ] {
                set(name, sl.clone());
            }
        }
        _ => {
            set("OMPI_MCA_btl_openib_ib_path_record_service_level", "1".to_owned());
            set("MV2_PATH_SL_QUERY", "1".to_owned());
        }
    }
    if let Some(pkey) = grant.pkey {
        let pkey = format!("{:#06x}", pkey.0);
        for name in ["UCX_IB_PKEY", "OMPI_MCA_btl_openib_pkey", "MV2_DEFAULT_PKEY"] {
            set(name, pkey.clone());
        }
    }
    if grant.job.alternates && lmc > 0 {
        set("UCX_IB_NUM_PATHS", (1_u32 << lmc.min(7)).to_string());
    }
    found
}
