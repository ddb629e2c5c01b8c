//! Preset groups, and groups that have changed.

use std::collections::BTreeMap;

use selvedge_plan::multicast::{self as plan, MulticastGroup};
use selvedge_plan::partition::PresetGroup;
use selvedge_types::{Guid, Lid, Mtu};
use selvedge_wire::Gid;
use selvedge_wire::sa::{SA_DATA_LEN, records};

use crate::alias::Aliases;
use crate::config::Config;
use crate::member::{FULL, Group, Groups, Member, NON_MEMBER};
use crate::rate::{Selector, StaticRate};
use crate::snapshot::Snapshot;

impl Groups {
    /// True if a group has changed since the last call of `take_changed`.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Marks all groups as changed, so that the next [`Self::take_changed`] returns all of them.
    pub(crate) fn all_changed(&mut self) {
        self.changed.extend(self.by_mlid.keys());
    }

    /// Returns the groups that have changed since the last call, in the form that tree planning needs. A group that has
    /// ended has no members. A port is a member once, even if it has joined by several GUIDs.
    pub(crate) fn take_changed(&mut self, aliases: &Aliases) -> Vec<MulticastGroup> {
        let group = |mlid: u16| {
            let group = self.by_mlid.get(&mlid);
            let receives = |m: &Member| m.join_state & (FULL | NON_MEMBER) != 0;
            let mut members: BTreeMap<Guid, bool> = BTreeMap::new();
            for member in group.iter().flat_map(|group| &group.members) {
                *members.entry(aliases.port_of(member.guid)).or_default() |= receives(member);
            }
            MulticastGroup {
                mlid: Lid(mlid),
                mtu: group.and_then(|group| Mtu::from_code(group.mtu)).unwrap_or(Mtu::B256),
                sl: group.and_then(Group::sl).unwrap_or_default(),
                members: members
                    .into_iter()
                    .map(|(guid, receives)| plan::Member { guid, receives })
                    .collect(),
            }
        };
        std::mem::take(&mut self.changed).into_iter().map(group).collect()
    }

    /// Creates the preset groups, as far as there is room. Former preset groups remain only if they have members.
    /// Returns the groups created, and those deleted.
    pub(crate) fn set_presets(
        &mut self,
        (config, snapshot): (&Config, &Snapshot),
        presets: &BTreeMap<[u8; 16], PresetGroup>,
    ) -> (Vec<Gid>, Vec<Gid>) {
        let (mut begun, mut ended) = (Vec::new(), Vec::new());
        for group in self.by_mlid.values_mut() {
            group.is_preset = presets.contains_key(&group.mgid.0);
            ended.extend((!group.is_alive()).then_some((group.mlid.0, group.mgid)));
        }
        for (mlid, _) in &ended {
            self.remove(*mlid);
        }
        for (&mgid, preset) in presets {
            let mgid = Gid(mgid);
            if let Some(mlid) = self.by_mgid.get(&mgid) {
                // Members use the service level that they got when they joined, so a group with members keeps it.
                let unused = self.by_mlid.get_mut(mlid).filter(|group| group.members.is_empty());
                if let Some(group) = unused {
                    records::member::SL.set(&mut group.record, u64::from(preset.sl));
                }
                continue;
            }
            let (Ok(mlid), Some(rate)) = (self.free_mlid(config, snapshot), StaticRate::from_code(preset.rate)) else {
                continue;
            };
            self.by_mgid.insert(mgid, mlid.0);
            let life = snapshot.life();
            self.by_mlid.insert(mlid.0, of_preset(preset, mlid, rate, life));
            begun.push(mgid);
        }
        (begun, ended.into_iter().map(|(_, mgid)| mgid).collect())
    }
}

/// Returns a preset group without members.
fn of_preset(preset: &PresetGroup, mlid: Lid, rate: StaticRate, life: u8) -> Group {
    use records::member as f;
    let mut record = [0; SA_DATA_LEN];
    let exactly = u64::from(Selector::EXACTLY >> 6);
    for (field, value) in [
        (f::QKEY, u64::from(preset.q_key)),
        (f::TRAFFIC_CLASS, u64::from(preset.traffic_class)),
        (f::SL, u64::from(preset.sl)),
        (f::FLOW_LABEL, u64::from(preset.flow_label)),
        (f::HOP_LIMIT, u64::from(preset.hop_limit)),
        (f::SCOPE, u64::from(preset.mgid[1] & 0x0F)),
        (f::MLID, u64::from(mlid.0)),
        (f::PKEY, u64::from(preset.pkey.0 | 0x8000)),
        (f::MTU_SELECTOR, exactly),
        (f::MTU, u64::from(preset.mtu)),
        (f::RATE_SELECTOR, exactly),
        (f::RATE, u64::from(preset.rate)),
        (f::LIFE_SELECTOR, exactly),
        (f::LIFE, u64::from(life)),
    ] {
        field.set(&mut record, value);
    }
    f::MGID.put(&mut record, &preset.mgid);
    Group {
        mgid: Gid(preset.mgid),
        mlid,
        pkey: preset.pkey,
        mtu: preset.mtu,
        rate,
        members: Vec::new(),
        is_preset: true,
        record,
    }
}
