//! Tries faults one after another: each is repaired as a manager would, and judged by the standing proof.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use selvedge_api::Backup;
use selvedge_fabric::{PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, Lids, NO_PATH, Tables};
use selvedge_routing::{Engine, FatTree, Routed, TreeMender};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Idx, Lid};
use selvedge_verify::Subject;
use selvedge_verify::standing::{Change, Entry, Standing};

use crate::cuts::pairs;
use crate::damage::{Damaged, What, link_changes};
use crate::in_force::{InForce, Judged};

impl InForce {
    /// Returns a trial, in which faults can be tried one at a time.
    pub(crate) fn trial(&self) -> Trial<'_> {
        let subject = Subject::tables(
            &self.fabric,
            &self.lids,
            &self.routed.tables,
            &self.routed.service_levels,
            &self.sl_to_vl,
        );
        let standing = Standing::new(subject, Par::Sequential).ok();
        let whole = match &standing {
            Some(standing) => Judged::from(&standing.proof()),
            None => Judged::from(&self.judge(&self.fabric, &self.routed, Par::Sequential)),
        };
        let tree = (self.engine == Engine::FatTree)
            .then(|| FatTree::detect(&self.fabric, &self.options.fat_tree, Par::Sequential).ok());
        Trial {
            mender: tree.flatten().map(TreeMender::new),
            tables: self.routed.tables.clone(),
            force: self,
            damaged: Damaged::new(&self.fabric),
            standing,
            whole,
        }
    }

    /// Returns the entries that differ from those in force, by block and switch, and the number of blocks that hold
    /// them. Entries of LIDs and switches that are gone do not count.
    fn differences(&self, new: &Tables, lids: &Lids, what: What) -> (Vec<Entry>, u64) {
        let old = &self.routed.tables;
        let (mut entries, mut blocks) = (Vec::new(), 0);
        for block in 0..old.blocks().min(new.blocks()) {
            for (switch, (was, now)) in (0..).zip(old.tile(block).iter().zip(new.tile(block))) {
                let switch = SwitchIdx(switch);
                if was == now || what == What::Switch(switch) {
                    continue;
                }
                let before = entries.len();
                for (column, (_, &egress)) in was.iter().zip(now).enumerate().filter(|(_, (was, now))| was != now) {
                    let lid = Lid(u16::try_from(block * BLOCK_LIDS + column).unwrap_or(u16::MAX));
                    if lids.owner(lid).is_some() {
                        entries.push(Entry { switch, lid, egress });
                    }
                }
                blocks += u64::from(entries.len() > before);
            }
        }
        (entries, blocks)
    }

    /// Returns the entries of LIDs that no port has any more. No packets go there, so these entries create no channel
    /// dependency.
    fn forgotten(&self, lids: &Lids, what: What) -> Vec<Entry> {
        if lids.len() == self.lids.len() {
            return Vec::new();
        }
        let gone = self.lids.by_lid().filter(|(lid, _)| lids.owner(*lid).is_none());
        let of_all = gone.flat_map(|(lid, _)| {
            let switches = self.routed.tables.switch_indices();
            let living = switches.filter(move |&switch| what != What::Switch(switch));
            living.map(move |switch| Entry {
                switch,
                lid,
                egress: NO_PATH,
            })
        });
        of_all.collect()
    }
}

/// A fabric in which one fault after another is tried.
pub(crate) struct Trial<'a> {
    force: &'a InForce,
    damaged: Damaged,
    /// Repairs fat trees in place. It cannot undo a loss, so each fault gets a copy of it.
    mender: Option<TreeMender>,
    /// The tables in force; each trial changes them and changes them back.
    tables: Tables,
    /// The judge's proof of the tables in force; `None` if they cannot have a standing proof.
    standing: Option<Standing>,
    /// The judge's figures while nothing is lost.
    pub(crate) whole: Judged,
}

impl Trial<'_> {
    /// Makes a fault, finds its repair, and undoes the fault.
    pub(crate) fn of(&mut self, what: What) -> Backup {
        let force = self.force;
        let ports = what.ports(&force.fabric, &force.links);
        self.damaged.lose(&ports);
        let lids = self.damaged.lids(&force.lids, what);
        let backup = match self.in_place(what, &ports, &lids) {
            Some(backup) => backup,
            None => self.anew(what, &ports, &lids),
        };
        self.damaged.mend();
        backup
    }

    /// Repairs a tree as a manager does: only entries over the lost links are examined.
    fn in_place(&mut self, what: What, ports: &[PortRef], lids: &Lids) -> Option<Backup> {
        let force = self.force;
        let changes = link_changes(&force.fabric, ports);
        let ends = changes.iter().flat_map(|change| {
            let at = PortRef {
                node: force.fabric.switches()[change.switch],
                port: change.port,
            };
            let peer = force.fabric.peer(at);
            let peer = peer.and_then(|peer| Some((force.fabric.switch_index(peer.node)?, peer.port)));
            std::iter::once((change.switch, change.port)).chain(peer)
        });
        let ends: Vec<_> = ends.collect();
        let standing = self.standing.as_ref();
        let by_hosts = |switch, lid| standing.is_none_or(|standing| standing.carries_hosts(switch, lid));
        let moved = self.mender.clone()?.lose(lids, &mut self.tables, &ends, by_hosts)?;
        for moved in moved.iter().rev() {
            self.tables.set(moved.switch, moved.lid, moved.before);
        }
        let living = moved
            .iter()
            .filter(|moved| what != What::Switch(moved.switch) && lids.owner(moved.lid).is_some());
        let last: BTreeMap<_, _> = living.map(|moved| ((moved.switch, moved.lid), moved.egress)).collect();
        let entries: Vec<Entry> = last
            .into_iter()
            .map(|((switch, lid), egress)| Entry { switch, lid, egress })
            .filter(|new| force.routed.tables.get(new.switch, new.lid) != new.egress)
            .collect();
        let blocks: BTreeSet<_> = entries
            .iter()
            .map(|new| (new.switch, new.lid.index() / BLOCK_LIDS))
            .collect();
        let mut backup = self.described(what);
        backup.entries = entries.len() as u64;
        backup.switches = switches_of(&entries);
        backup.blocks = blocks.len() as u64;
        let all = entries.into_iter().chain(force.forgotten(lids, what)).collect();
        let (before, after) = self.by_proof(what, ports, all)?;
        self.fill(&mut backup, what, before, after);
        Some(backup)
    }

    /// Lets the engine route the damaged fabric, starting from the tables in force.
    fn anew(&mut self, what: What, ports: &[PortRef], lids: &Lids) -> Backup {
        let force = self.force;
        let fabric = &self.damaged.fabric;
        let routed = force
            .engine
            .route(fabric, lids, &force.options, Seed(0), Par::Sequential);
        let mut backup = self.described(what);
        match routed {
            Ok(routed) => {
                let (mut entries, blocks) = force.differences(&routed.tables, lids, what);
                backup.entries = entries.len() as u64;
                backup.switches = switches_of(&entries);
                backup.blocks = blocks;
                entries.extend(force.forgotten(lids, what));
                let (before, after) = self.judged(what, ports, &routed, entries);
                self.fill(&mut backup, what, before, after);
            }
            Err(why) => {
                let (before, _) = self.judged(what, ports, &force.routed, Vec::new());
                self.fill(&mut backup, what, before, before);
                backup.refused = Some(why.to_string());
            }
        }
        backup
    }

    fn described(&self, what: What) -> Backup {
        let force = self.force;
        let cuts = &force.cuts;
        let (kind, name, hosts_lost, pairs_cut) = match what {
            What::Link(link) => {
                let at = force.links[link];
                let peer = force.fabric.peer(at).map(|peer| force.fabric.port_name(peer));
                let name = format!("{} – {}", force.fabric.port_name(at), peer.unwrap_or_default());
                ("link", name, 0, cuts.by_link[link])
            }
            What::Switch(switch) => {
                let node = force.fabric.switch(switch);
                let at = switch.to_usize();
                let name = match node.description.is_empty() {
                    true => node.guid.to_string(),
                    false => format!("\"{}\"", node.description),
                };
                ("switch", name, force.hosts[at], cuts.by_switch[at])
            }
        };
        Backup {
            kind: kind.to_owned(),
            name,
            hosts_lost,
            pairs_cut,
            single_point: pairs_cut > 0,
            ..Backup::default()
        }
    }

    /// Counts the pairs of the remaining hosts that are lost or interrupted.
    fn fill(&self, backup: &mut Backup, what: What, before: Judged, after: Judged) {
        let all: u64 = self.force.hosts.iter().sum();
        let own = match what {
            What::Link(_) => 0,
            What::Switch(switch) => self.force.hosts[switch.to_usize()],
        };
        let unreached = pairs(all).saturating_sub(self.whole.reached);
        let there = pairs(all - own).saturating_sub(unreached);
        backup.pairs_interrupted = there.saturating_sub(before.reached);
        backup.pairs_lost = there.saturating_sub(after.reached);
        backup.max_load = after.max_load;
        backup.load_share = self.whole.max_load as f64 / after.max_load.max(1) as f64;
        backup.deadlock_free = after.deadlock_free;
    }

    /// Returns the judge's figures with the old tables, and with the new ones.
    fn judged(&mut self, what: What, ports: &[PortRef], routed: &Routed, entries: Vec<Entry>) -> (Judged, Judged) {
        let force = self.force;
        let same_levels = routed.service_levels == force.routed.service_levels;
        let found = same_levels.then(|| self.by_proof(what, ports, entries)).flatten();
        found.unwrap_or_else(|| {
            let judge = |routed| Judged::from(&force.judge(&self.damaged.fabric, routed, Par::Sequential));
            (judge(&force.routed), judge(routed))
        })
    }

    /// Judges with the standing proof, if there is one and it covers the change.
    fn by_proof(&mut self, what: What, ports: &[PortRef], entries: Vec<Entry>) -> Option<(Judged, Judged)> {
        let force = self.force;
        let lost = Change {
            links: link_changes(&force.fabric, ports),
            entries: Vec::new(),
        };
        let repaired = Change {
            links: Vec::new(),
            entries,
        };
        let (before, after) = mended(self.standing.as_mut()?, lost, repaired)?;
        let What::Switch(dead) = what else {
            return Some((before, after));
        };
        // The proof knows links between switches only: hosts of a dead switch seem to reach each other still.
        let without = |judged: Judged| Judged {
            reached: judged.reached - pairs(force.hosts[dead.to_usize()]),
            ..judged
        };
        Some((without(before), without(after)))
    }
}

fn switches_of(entries: &[Entry]) -> u64 {
    let switches: BTreeSet<_> = entries.iter().map(|entry| entry.switch).collect();
    switches.len() as u64
}

/// Returns the verdict of a proof after one change, and after another on top of it. Then the proof is as before.
fn mended(standing: &mut Standing, first: Change, second: Change) -> Option<(Judged, Judged)> {
    let undo = standing.apply(&first).ok()?;
    let before = Judged::from(&standing.proof());
    let after = standing.apply(&second).ok().map(|undo| {
        let after = Judged::from(&standing.proof());
        // It was so a moment ago: nothing can be wrong with it.
        drop(standing.apply(&undo));
        after
    });
    drop(standing.apply(&undo));
    Some((before, after?))
}

/// Sorts weakest points first: faults that separate hosts, leave no plan, load links most, take most SMPs.
pub(crate) fn sort(faults: &mut [Backup]) {
    faults.sort_by_key(|fault| {
        let lost = fault.pairs_lost.max(fault.pairs_cut);
        let is_bad = fault.refused.is_some() || !fault.deadlock_free;
        Reverse((
            lost > 0,
            lost,
            is_bad,
            fault.max_load,
            fault.hosts_lost,
            fault.blocks,
            fault.entries,
        ))
    });
}
