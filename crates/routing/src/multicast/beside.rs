//! Trees that cause no credit loop with routes: all groups of a lane use parts of one spanning tree, the trunk.
//!
//! Some engines allow the turns of one spanning tree from the start (`weave`), or have an order of the switches that
//! any tree can follow (`updn`, `fat-tree`), so there is a trunk for their tables. For other tables there may be none;
//! then members that no tree reaches are left [apart](super::Trees::apart).

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::multicast::{Member, MulticastGroup, MulticastGroups, MulticastTables, PortMask, entry_of};
use selvedge_types::{Lid, Mtu, Sl};

use super::net::{Arc, Net};
use super::order::{Ground, Order, Trunk};
use super::{Planner, Reached, Routes, TreeRequest, Trees};

/// Smallest and largest number of trunks that are tried before the best so far is taken. Large fabrics get fewer tries,
/// because each try costs a scan of all links. Most random graphs need one try, and hardly any need more than 100.
const TRIES: (usize, usize) = (8, 300);
/// Number of directed links that all tries together may scan.
const WORK: usize = 400_000;

/// What groups that share a trunk have in common: the lane, the MTU, and the number of switches with room for the
/// group. A switch has room for all multicast LIDs up to a certain number, so equal numbers of switches mean the same
/// switches.
type Class = (u8, Mtu, usize);

/// Roots of the trees of [`probe`].
const PROBES: usize = 8;

/// Returns test groups of all hosts with trees from several roots in the middle, made without regard to routes. If
/// copies along all these trees cause no credit loop with the routes, as in a fat tree, groups need no common trunk.
#[must_use]
pub fn probe(fabric: &Fabric) -> (MulticastGroups, MulticastTables) {
    let is_host = |at: &PortRef| fabric.switch_index(at.node).is_none();
    let hosts = fabric
        .end_ports()
        .filter(|(at, _)| is_host(at) && entry_of(fabric, *at).is_some());
    let mut members: Vec<Member> = hosts
        .map(|(_, port)| Member {
            guid: port.guid,
            receives: true,
        })
        .collect();
    members.sort_unstable();
    let mut groups = MulticastGroups::default();
    for i in 0..PROBES as u16 {
        groups.put(MulticastGroup {
            mlid: Lid(Lid::MULTICAST_MIN.0 + i),
            mtu: Mtu::B256,
            sl: Sl::default(),
            members: members.clone().into(),
        });
    }
    let made = super::trees(&TreeRequest {
        fabric,
        groups: &groups,
        held: &MulticastTables::new(fabric.switches().len()),
        roots: &BTreeMap::new(),
        stale: &groups.iter().map(|group| group.mlid).collect(),
        routes: None,
    });
    (groups, made.tables)
}

/// Returns trees that cause no credit loop with the routes. `None` if they are not requested, or if the routes have a
/// credit loop of their own. Groups without a change (not stale) keep their trees, if trees of the other groups still
/// fit beside them.
pub fn trees(request: &TreeRequest<'_>) -> Option<Trees> {
    let routes = request.routes?;
    let net = Net::new(request.fabric);
    let orders: Option<Vec<Order>> = routes.turns.iter().map(|turns| Order::new(&net, turns)).collect();
    let orders = orders?;
    let all: BTreeSet<Lid> = request.groups.iter().map(|group| group.mlid).collect();
    let sparing = Beside::new(request, routes, orders.clone()).plan(request.stale);
    match sparing {
        Some(trees) if trees.apart.is_empty() || *request.stale == all => Some(trees),
        _ => Beside::new(request, routes, orders).plan(&all),
    }
}

struct Beside<'a> {
    planner: Planner<'a>,
    routes: &'a Routes,
    orders: Vec<Order>,
}

impl<'a> Beside<'a> {
    fn new(request: &'a TreeRequest<'a>, routes: &'a Routes, orders: Vec<Order>) -> Self {
        let planner = Planner::new(request);
        Self {
            planner,
            routes,
            orders,
        }
    }

    /// Plans the trees; returns `None` if groups that are not stale do not fit beside the routes.
    fn plan(mut self, stale: &BTreeSet<Lid>) -> Option<Trees> {
        let request = self.planner.request;
        for mlid in request.held.mlids() {
            if request.groups.find(mlid).is_none() {
                self.planner.clear(mlid);
            }
        }
        let mut classes: BTreeMap<Class, Vec<&MulticastGroup>> = BTreeMap::new();
        for group in request.groups.iter() {
            if !stale.contains(&group.mlid) {
                self.keep(group)?;
                continue;
            }
            let net = &self.planner.net;
            let room = (0..net.switches() as u32).filter(|&switch| net.can(switch, group.mlid));
            let lane = self.routes.lane_of[usize::from(group.sl.get())];
            classes.entry((lane, group.mtu, room.count())).or_default().push(group);
        }
        for (class, groups) in classes {
            self.class(class, &groups);
        }
        Some(self.planner.trees)
    }

    /// Counts the turns of a group that keeps its tree.
    fn keep(&mut self, group: &MulticastGroup) -> Option<()> {
        self.planner.keep(group);
        let order = self
            .orders
            .get_mut(usize::from(self.routes.lane_of[usize::from(group.sl.get())]))?;
        let mut links: BTreeMap<u32, Vec<Arc>> = BTreeMap::new();
        for arc in self.planner.in_force(group.mlid) {
            for arc in [arc, arc.back()] {
                let others = links.entry(arc.from).or_default();
                order.join(arc, others).then_some(())?;
                others.push(arc);
            }
        }
        Some(())
    }

    fn class(&mut self, (lane, mtu, _): Class, groups: &[&MulticastGroup]) {
        let mut wanted: Vec<BTreeMap<u32, PortMask>> = groups.iter().map(|group| self.planner.entries(group)).collect();
        let mut need: BTreeSet<u32> = wanted.iter().flat_map(|wanted| wanted.keys().copied()).collect();
        // The same trunk as before, as long as it exists: new members are grafted to it, and no other member moves.
        let mut held = vec![false; self.planner.net.cables()];
        for group in self.planner.request.groups.iter() {
            let in_force = self.planner.in_force(group.mlid);
            in_force.iter().for_each(|arc| held[arc.cable as usize] = true);
        }
        groups.iter().for_each(|group| self.planner.clear(group.mlid));
        let of = |wanted: &BTreeMap<u32, PortMask>| wanted.keys().copied().collect();
        let mut left: Vec<BTreeSet<u32>> = wanted.iter().map(of).collect();
        let mut roots = self.roots(groups);
        // Trees of one group must not meet.
        let mut used = vec![false; self.planner.net.switches()];
        let mut is_first = true;
        while let Some(&first) = need.first() {
            roots.push(first);
            let class = (usize::from(lane), mtu, groups[0].mlid);
            let Some(trunk) = self.trunk(class, (&need, &held, &used), &roots) else {
                break;
            };
            let before = need.len();
            for switch in &trunk.switches {
                need.remove(switch);
                used[*switch as usize] = true;
            }
            for ((group, wanted), left) in groups.iter().zip(&mut wanted).zip(&mut left) {
                self.lay(group, wanted, left, (&trunk, is_first));
            }
            if before == need.len() {
                break;
            }
            (is_first, roots) = (false, Vec::new());
        }
        for (group, wanted) in groups.iter().zip(wanted) {
            for (switch, mask) in wanted {
                self.planner.trees.tables.set_mask(SwitchIdx(switch), group.mlid, mask);
            }
        }
    }

    /// Returns the switches at which a trunk may begin: first roots in force, then switches in the middle, then all
    /// others.
    fn roots(&mut self, groups: &[&MulticastGroup]) -> Vec<u32> {
        let planner = &mut self.planner;
        let in_force = groups.iter().filter_map(|group| planner.request.roots.get(&group.mlid));
        let mut roots: Vec<u32> = in_force.filter_map(|&guid| planner.switch_of(guid)).collect();
        roots.extend(planner.net.centre(planner.request.fabric));
        roots.extend(0..planner.net.switches() as u32);
        let mut seen = BTreeSet::new();
        roots.retain(|root| seen.insert(*root));
        roots
    }

    /// Returns the trunk that reaches the most required switches; its turns are in the order.
    fn trunk(
        &mut self,
        (lane, mtu, mlid): (usize, Mtu, Lid),
        (need, held, used): (&BTreeSet<u32>, &[bool], &[bool]),
        roots: &[u32],
    ) -> Option<Trunk> {
        let net = &self.planner.net;
        let order = self.orders.get(lane)?;
        let mut ground = Ground {
            net,
            can: &|arc: &Arc| arc.mtu >= mtu && net.can(arc.to, mlid) && !used[arc.to as usize],
            is_first: &|cable| held[cable as usize],
            shuffle: 0,
        };
        let mut best: Option<(usize, Trunk, Order)> = None;
        let able: Vec<u32> = roots.iter().copied().filter(|&root| net.can(root, mlid)).collect();
        let tries = (WORK / net.cables().max(1) / 2).clamp(TRIES.0, TRIES.1);
        for (attempt, &root) in able.iter().cycle().take(tries).enumerate() {
            ground.shuffle = (attempt / able.len()) as u32;
            let mut order = order.clone();
            let trunk = Trunk::grow(&mut order, &ground, root);
            let reached = trunk.switches.iter().filter(|switch| need.contains(switch)).count();
            if best.as_ref().is_none_or(|best| best.0 < reached) {
                best = Some((reached, trunk, order));
            }
            if reached == need.len() {
                break;
            }
        }
        let (_, trunk, order) = best?;
        self.orders[lane] = order;
        Some(trunk)
    }

    /// Gives a group its part of a trunk.
    fn lay(
        &mut self,
        group: &MulticastGroup,
        wanted: &mut BTreeMap<u32, PortMask>,
        left: &mut BTreeSet<u32>,
        (trunk, is_first): (&Trunk, bool),
    ) {
        let Some(&root) = trunk.switches.first() else { return };
        let planner = &mut self.planner;
        let fabric = planner.request.fabric;
        let mut reached: Vec<Option<Reached>> = vec![None; planner.net.switches()];
        for &switch in &trunk.switches {
            reached[switch as usize] = Some(Reached {
                cost: 0,
                by: trunk.by[switch as usize].map(|arc| (arc, false)),
                is_final: true,
            });
        }
        let here: Vec<u32> = left
            .iter()
            .copied()
            .filter(|s| reached[*s as usize].is_some())
            .collect();
        here.iter().for_each(|switch| {
            left.remove(switch);
        });
        if is_first {
            planner.rooted[root as usize] += 1;
            let guid = fabric.switch(SwitchIdx(root)).guid;
            planner.trees.roots.insert(group.mlid, guid);
            let ways = planner.walk(group, root, &vec![false; planner.net.cables()]);
            let is_apart = |switch: u32| left.contains(&switch) && ways[switch as usize].is_some();
            let entry = |at: PortRef| entry_of(fabric, at).filter(|(switch, _)| is_apart(switch.0));
            let apart = (group.members.iter()).filter(|member| fabric.find_port(member.guid).and_then(entry).is_some());
            planner
                .trees
                .apart
                .extend(apart.map(|member| (group.mlid, member.guid)));
        }
        if !here.is_empty() {
            planner.draw(wanted, root, &here, &reached);
        }
    }
}
