//! Contradictions in stored state, with which the manager continues.

use std::path::{Path, PathBuf};

use selvedge_plan::{SharedLid, shared_lids};
use selvedge_types::{Guid, Lid};

use crate::LidMap;

/// Largest number of conflicts that are named, so that a file full of errors does not fill the log.
const NAMED_MAX: usize = 20;

/// A contradiction in stored state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateWarning {
    /// SLV-STORE-0008: two ports have the same stored LID.
    #[error(
        "SLV-STORE-0008: {} gives LID {lid} to port GUID {first} and to port GUID {second}; the port that holds it in \
         the fabric keeps it, the other port gets another LID; to choose otherwise, correct the file",
        path.display()
    )]
    OneLid {
        /// Path of the file.
        path: PathBuf,
        /// The first LID that both ports have.
        lid: Lid,
        /// The port with the lower LIDs, or the lower GUID.
        first: Guid,
        /// The other port.
        second: Guid,
    },
    /// SLV-STORE-0009: the stored LIDs are older than the plan state in the same folder.
    #[error(
        "SLV-STORE-0009: {} has generation {found}, but had {known} when plan-state.toml was written: the file is an \
         older copy without the LIDs assigned since; ports that are up keep their LIDs",
        path.display()
    )]
    OldLids {
        /// Path of the file.
        path: PathBuf,
        /// The generation of the file.
        found: u64,
        /// The generation that plan-state.toml names.
        known: u64,
    },
    /// SLV-STORE-0010: the list of nodes and links that were found cannot be read.
    #[error(
        "SLV-STORE-0010: {}: {why}; nodes and links that were missing are no longer listed; the list begins again",
        path.display()
    )]
    KnownFabric {
        /// Path of the file.
        path: PathBuf,
        /// The problem of the file.
        why: String,
    },
}

/// Returns pairs of ports that share a LID, ordered by LID, then GUID; twenty at most.
pub fn overlaps(path: &Path, lids: &LidMap) -> Vec<StateWarning> {
    let shared = shared_lids(lids.iter().map(|(&guid, &range)| (guid, range)));
    let warning = |SharedLid { lid, first, second }| StateWarning::OneLid {
        path: path.to_owned(),
        lid,
        first,
        second,
    };
    shared.into_iter().take(NAMED_MAX).map(warning).collect()
}

#[cfg(test)]
mod tests {
    use selvedge_types::{LidRange, Lmc};

    use super::*;

    #[test]
    fn each_port_that_shares_a_lid_is_named_with_the_other_one() {
        let check = |entries: &[(u64, u16, u8)], want: &[(u16, u64, u64)]| {
            let range = |base, lmc| LidRange {
                base: Lid(base),
                lmc: Lmc::new(lmc).unwrap(),
            };
            let lids: LidMap = entries
                .iter()
                .map(|&(guid, base, lmc)| (Guid(guid), range(base, lmc)))
                .collect();
            let found = overlaps(Path::new("g"), &lids);
            let pair = |warning: &StateWarning| match *warning {
                StateWarning::OneLid { lid, first, second, .. } => (lid.0, first.0, second.0),
                StateWarning::OldLids { .. } | StateWarning::KnownFabric { .. } => unreachable!("only LIDs here"),
            };
            assert_eq!(found.iter().map(pair).collect::<Vec<_>>(), want, "{entries:?}");
        };
        check(&[], &[]);
        check(&[(1, 4, 0), (2, 5, 0), (3, 8, 3)], &[]);
        check(&[(1, 4, 0), (2, 4, 0)], &[(4, 1, 2)]);
        check(
            &[(1, 8, 3), (2, 9, 0), (3, 15, 0), (4, 16, 0)],
            &[(9, 1, 2), (15, 1, 3)],
        );
        check(&[(1, 4, 0), (2, 4, 0), (3, 4, 1)], &[(4, 1, 2), (4, 1, 3)]);
        let same: Vec<(u64, u16, u8)> = (1..=99).map(|guid| (guid, 7, 0)).collect();
        let want: Vec<(u16, u64, u64)> = (2..=21).map(|guid| (7, 1, guid)).collect();
        check(&same, &want);
    }
}
