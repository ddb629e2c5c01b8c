//! Multicast groups: which queue pairs of the HCA are members.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_types::Lid;

use crate::attr::Gid;

/// Members of all groups, by GID and LID.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    members: BTreeMap<(Gid, Lid), BTreeSet<u32>>,
}

impl Groups {
    pub fn attach(&mut self, gid: Gid, lid: Lid, qp: u32) {
        self.members.entry((gid, lid)).or_default().insert(qp);
    }

    /// True if the queue pair was a member.
    pub fn detach(&mut self, gid: Gid, lid: Lid, qp: u32) -> bool {
        let Some(members) = self.members.get_mut(&(gid, lid)) else {
            return false;
        };
        let was_member = members.remove(&qp);
        if members.is_empty() {
            self.members.remove(&(gid, lid));
        }
        was_member
    }

    /// True if the queue pair is a member of any group.
    pub fn has(&self, qp: u32) -> bool {
        self.members.values().any(|members| members.contains(&qp))
    }

    /// Returns the members of a group, each once; without a GID, those of all groups with the LID.
    pub fn of(&self, gid: Option<Gid>, lid: Lid) -> Vec<u32> {
        let fitting = self
            .members
            .iter()
            .filter(|((g, l), _)| *l == lid && gid.is_none_or(|gid| gid == *g));
        let all: BTreeSet<u32> = fitting.flat_map(|(_, members)| members.iter().copied()).collect();
        all.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_with_one_lid_are_told_apart_by_their_gid() {
        let mut groups = Groups::default();
        groups.attach(Gid(1), Lid(0xC001), 5);
        groups.attach(Gid(2), Lid(0xC001), 6);
        groups.attach(Gid(2), Lid(0xC001), 5);
        assert_eq!(groups.of(Some(Gid(1)), Lid(0xC001)), [5]);
        assert_eq!(groups.of(Some(Gid(2)), Lid(0xC001)), [5, 6]);
        assert_eq!(groups.of(None, Lid(0xC001)), [5, 6]);
        assert!(groups.detach(Gid(1), Lid(0xC001), 5));
        assert!(!groups.detach(Gid(1), Lid(0xC001), 5));
        assert!(groups.has(5), "member of the other group");
    }
}
