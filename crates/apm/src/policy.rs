//! Policies that choose an alternate path.

use std::fmt;
use std::str::FromStr;

use crate::ApmError;

/// All policies, for messages.
const KNOWN: &str = "port, hca, lmc=N (path bits 0-127), openmpi, mvapich2 (=N: N queue pairs per port), manager";

/// How an alternate path is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The next connected port of the same channel adapter, at both ends. Open MPI's `btl_openib_enable_apm_over_ports`
    /// does this, and so did the paper that this follows (Vishnu et al., "Automatic Path Migration over InfiniBand").
    Port,
    /// The next channel adapter of the host, at both ends. A queue pair cannot migrate there in hardware, as IBA vol 1
    /// §17.2.8 allows only ports of its own adapter: software must have a second queue pair ready.
    Hca,
    /// These path bits at both ends.
    Offset(u8),
    /// The path bits of the primary path plus one, at both ends, without wrapping around; the service level stays that
    /// of the primary path. Source: Open MPI 4.1, `apm_update_attr` in `btl_openib_async.c`.
    OpenMpi,
    /// (path bits of the primary path + queue pairs per port) modulo 2^LMC, at both ends; the service level stays that
    /// of the primary path. Source: MVAPICH2 2.3.7, `reload_alternate_path`.
    Mvapich2 {
        /// Queue pairs per port (`MV2_NUM_QP_PER_PORT`, default 1).
        queue_pairs: u8,
    },
    /// The answer of the subnet administrator: of all paths between ports of the two adapters the one that shares least
    /// with the primary path, then the least loaded one.
    Manager,
}

impl Policy {
    /// True if the alternate path has the service level of the primary path, whatever the plan says for its LID.
    #[must_use]
    pub const fn keeps_level(self) -> bool {
        matches!(self, Self::OpenMpi | Self::Mvapich2 { .. })
    }

    fn unknown(name: &str) -> ApmError {
        ApmError::UnknownPolicy {
            name: name.to_owned(),
            known: KNOWN,
        }
    }
}

impl FromStr for Policy {
    type Err = ApmError;

    fn from_str(text: &str) -> Result<Self, ApmError> {
        let (name, value) = text
            .split_once('=')
            .map_or((text, None), |(name, value)| (name, Some(value)));
        let number = |most: u8| {
            let number = value.and_then(|value| value.parse().ok());
            number.filter(|&number| number <= most)
        };
        let policy = match (name, value.is_some()) {
            ("port", false) => Some(Self::Port),
            ("hca", false) => Some(Self::Hca),
            ("lmc", true) => number(127).map(Self::Offset),
            ("openmpi", false) => Some(Self::OpenMpi),
            ("mvapich2", false) => Some(Self::Mvapich2 { queue_pairs: 1 }),
            ("mvapich2", true) => number(u8::MAX).map(|queue_pairs| Self::Mvapich2 { queue_pairs }),
            ("manager", false) => Some(Self::Manager),
            _ => None,
        };
        policy.ok_or_else(|| Self::unknown(text))
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port => f.write_str("port"),
            Self::Hca => f.write_str("hca"),
            Self::Offset(bits) => write!(f, "lmc={bits}"),
            Self::OpenMpi => f.write_str("openmpi"),
            Self::Mvapich2 { queue_pairs: 1 } => f.write_str("mvapich2"),
            Self::Mvapich2 { queue_pairs } => write!(f, "mvapich2={queue_pairs}"),
            Self::Manager => f.write_str("manager"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_names() {
        let check = |text: &str, want: Policy| {
            assert_eq!(text.parse(), Ok(want), "{text}");
            assert_eq!(want.to_string(), text);
        };
        check("port", Policy::Port);
        check("hca", Policy::Hca);
        check("lmc=3", Policy::Offset(3));
        check("openmpi", Policy::OpenMpi);
        check("mvapich2", Policy::Mvapich2 { queue_pairs: 1 });
        check("mvapich2=4", Policy::Mvapich2 { queue_pairs: 4 });
        check("manager", Policy::Manager);
        for bad in [
            "",
            "lmc",
            "lmc=",
            "lmc=128",
            "lmc=-1",
            "port=1",
            "mvapich2=256",
            "ports",
        ] {
            let error = bad.parse::<Policy>().unwrap_err().to_string();
            assert!(
                error.starts_with("SLV-APM-0001") && error.contains("manager"),
                "{error}"
            );
        }
    }
}
