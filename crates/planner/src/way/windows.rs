//! Steps and waits, found on the graph of all dependencies.
//!
//! Between two waits dependencies are only added. A *window* takes as many LIDs as can move while the graph stays
//! acyclic, each LID in as many steps as it needs. After a wait, earlier packets are gone and occupy no channel, so the
//! next window takes more LIDs. LIDs that cannot move in this way are dropped first: their entries become 255, and
//! after the wait their new entries add no dependency that the new tables do not have.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, LostLink, NO_PATH, Tables};
use selvedge_types::Lid;
use selvedge_verify::phases::{Past, Write};

use super::lanes::Lanes;
use super::net::{NONE, Net, Senders};
use super::order::{Order, Refused};
use super::split::{STEPS_MAX, ranks};
use super::track::Track;
use super::{Step, What};

/// Largest number of rows of the graph that the searches of one window may read, which takes less than a second. When
/// it is reached, the remaining LIDs are dropped first.
const WINDOW_BUDGET: u64 = 5_000_000;
/// Most waits before the remaining LIDs are dropped. Each wait takes seconds, and operators wait for the end.
const WAITS_MAX: usize = 4;
/// Divisor of the smallest useful window: if a window can move less than 1/8 of the remaining LIDs, it is not worth
/// another wait, so the remaining LIDs are dropped first.
const SHARE_MIN: usize = 8;

/// Inputs that do not change while steps are planned.
#[derive(Debug)]
pub struct Ground<'a> {
    /// The fabric.
    pub fabric: &'a Fabric,
    /// LIDs after the change.
    pub lids: &'a Lids,
    /// Switches and channels.
    pub net: &'a Net,
    /// Lanes before and after the transition.
    pub lanes: &'a Lanes<'a>,
    /// True if traffic from switch to switch counts.
    pub strict: bool,
    /// Earlier entries that packets in flight may use when the first window begins.
    pub past: Option<&'a Taken>,
}

/// Starting point of the steps, in every mode.
#[derive(Debug)]
pub struct Start<'a> {
    tables: &'a Tables,
    /// Tasks; those of LIDs with entries that lead nowhere now come first.
    tasks: Vec<Task>,
    /// The LIDs and dependencies that the tasks do not change.
    rest: Rest,
    /// The current dependencies; `None` if they have a cycle.
    order: Option<Order>,
}

/// The dependencies of LIDs with unchanged entries, and the LIDs in use with changed entries.
#[derive(Debug)]
struct Rest {
    order: Order,
    changing: Vec<Lid>,
}

impl Rest {
    fn new(ground: &Ground<'_>, tables: &Tables, tasks: &[Task]) -> Self {
        let mut changing: Vec<Lid> = tasks.iter().map(|task| task.lid).collect();
        changing.retain(|&lid| ground.lids.owner(lid).is_some());
        changing.sort_unstable();
        let mut order = Order::new(ground.net, ground.lanes.used, WINDOW_BUDGET);
        let stays = |lid: &Lid| changing.binary_search(lid).is_err();
        let lids = ground.lids.by_lid().map(|(lid, _)| lid).filter(stays);
        ground.put(tables, lids, &mut order);
        Self { order, changing }
    }
}

impl<'a> Start<'a> {
    /// Returns the starting point for these tables, with the LIDs that are to be moved.
    pub fn new(ground: &Ground<'_>, tables: &'a Tables, mut tasks: Vec<Task>) -> Self {
        tasks.sort_by_key(|task| (task.live(ground.net, tables) == task.writes.len(), task.lid));
        let lids: Vec<Lid> = tasks.iter().map(|task| task.lid).collect();
        let rest = Rest::new(ground, tables, &tasks);
        let order = at_rest((ground, &rest), tables, &lids, ground.past);
        Self {
            tables,
            tasks,
            rest,
            order,
        }
    }
}

/// Steps that were taken recently.
#[derive(Debug)]
pub struct Taken {
    /// The tables before the steps.
    tables: Tables,
    /// Writes of each LID by step.
    by_lid: BTreeMap<Lid, Vec<Vec<Write>>>,
    /// Links that have gone down since.
    lost: Vec<LostLink>,
}

impl Taken {
    /// Returns the recent steps, by LID.
    pub fn new(past: &Past) -> Self {
        let mut by_lid: BTreeMap<Lid, Vec<Vec<Write>>> = BTreeMap::new();
        for (number, step) in past.steps.iter().enumerate() {
            for write in &step.writes {
                let steps = by_lid.entry(write.lid).or_default();
                steps.resize(number.max(steps.len().saturating_sub(1)) + 1, Vec::new());
                steps[number].push(*write);
            }
        }
        Self {
            tables: past.tables.clone(),
            by_lid,
            lost: past.lost.clone(),
        }
    }
}

/// Choices in planning the steps. Each suits some changes better than others, so several combinations are tried.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// True if a LID may stay half changed during a wait.
    pub halves: bool,
    /// True if an entry changes only after those that it leads to are acknowledged: more steps, fewer dependencies.
    pub by_rank: bool,
}

impl Ground<'_> {
    fn senders(&self, lid: Lid) -> Senders {
        self.net.senders(self.fabric, self.lids, lid, self.strict)
    }

    /// Adds the dependencies of LIDs under unchanged tables.
    fn put(&self, tables: &Tables, lids: impl Iterator<Item = Lid>, order: &mut Order) {
        let mut track = Track::new(self.net, self.lanes);
        for lid in lids {
            track.load(tables, lid, self.senders(lid), |from, to| order.put(from, to));
        }
    }
}

/// A LID with entries to change.
#[derive(Clone, Debug)]
pub struct Task {
    /// The LID.
    lid: Lid,
    /// Entries to change with their ranks; those nearest to the LID under the new tables come first.
    writes: Vec<(u32, Write)>,
    /// True if the entries are 255 meanwhile.
    dropped: bool,
}

impl Task {
    /// Returns the task for one LID.
    pub fn new(net: &Net, tables: &Tables, lid: Lid, writes: &[Write]) -> Self {
        let mut writes = ranks(net, tables, lid, writes);
        writes.sort_unstable();
        Self {
            lid,
            writes,
            dropped: false,
        }
    }

    fn writes(&self) -> impl Iterator<Item = Write> + '_ {
        self.writes.iter().map(|(_, write)| *write)
    }

    /// True if only entries to be removed are left.
    fn only_ends(&self) -> bool {
        self.writes().all(|write| write.egress == NO_PATH)
    }

    /// Returns the number of entries that lead to other switches now; they forward nothing while they are dropped.
    fn live(&self, net: &Net, tables: &Tables) -> usize {
        let leads = |write: &Write| net.way(write.switch.0, tables.get(write.switch, self.lid)) != NONE;
        self.writes().filter(leads).count()
    }
}

/// Returns steps with waits that move all tasks. `None` if that needs a wait and none helps.
pub fn steps(ground: &Ground<'_>, start: &Start<'_>, mode: Mode, may_wait: bool) -> Option<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut tables, mut left) = (start.tables.clone(), start.tasks.clone());
    for waits in 0..=WAITS_MAX {
        let mut window: Vec<Vec<Write>> = Vec::new();
        let before = entries(&left);
        let was_filled = fill(&mut tables, &mut left, &mut window);
        let past = ground.past.filter(|_| waits == 0);
        let order = match waits {
            0 => start.order.clone(),
            _ => {
                let lids: Vec<Lid> = left.iter().map(|task| task.lid).collect();
                at_rest((ground, &start.rest), &tables, &lids, None)
            }
        };
        end(&mut tables, &mut left, &mut window);
        if let Some(order) = order {
            move_on((ground, mode), (order, past), &mut tables, &mut left, &mut window);
        }
        let after = entries(&left);
        for (number, writes) in window.into_iter().enumerate() {
            let what = match (number, was_filled) {
                (0, true) => What::Fill,
                _ => What::Change,
            };
            let waits = waits > 0 && number == 0;
            steps.push(Step { what, waits, writes });
        }
        if left.is_empty() {
            return Some(steps);
        }
        if !may_wait {
            return None;
        }
        let is_slow = (before - after) * SHARE_MIN < before;
        if is_slow || waits + 1 >= WAITS_MAX {
            let all = waits + 1 >= WAITS_MAX;
            let writes = drop_first((ground, &start.rest), &mut tables, &mut left, all);
            if !writes.is_empty() {
                // Removed entries block nothing, so removal need not wait.
                let (what, waits) = (What::Drop, false);
                steps.push(Step { what, waits, writes });
            }
        }
    }
    // Not reached: everything was dropped, so all of it has been written.
    None
}

fn entries(tasks: &[Task]) -> usize {
    tasks.iter().map(|task| task.writes.len()).sum()
}

/// Gives dropped entries their new values, in the first step after the wait. True if there are any.
fn fill(tables: &mut Tables, left: &mut Vec<Task>, window: &mut Vec<Vec<Write>>) -> bool {
    take(tables, left, window, |task| task.dropped)
}

/// Removes at once the entries that are only to be removed, for example of LIDs that no port has any more.
fn end(tables: &mut Tables, left: &mut Vec<Task>, window: &mut Vec<Vec<Write>>) {
    take(tables, left, window, Task::only_ends);
}

fn take(
    tables: &mut Tables,
    left: &mut Vec<Task>,
    window: &mut Vec<Vec<Write>>,
    which: impl Fn(&Task) -> bool,
) -> bool {
    let mut first = Vec::new();
    left.retain(|task| {
        let is_taken = which(task);
        if is_taken {
            apply(tables, task.writes());
            first.extend(task.writes());
        }
        !is_taken
    });
    let any = !first.is_empty();
    if any {
        if window.is_empty() {
            window.push(Vec::new());
        }
        window[0].extend(first);
    }
    any
}

fn apply(tables: &mut Tables, writes: impl IntoIterator<Item = Write>) {
    for write in writes {
        tables.set(write.switch, write.lid, write.egress);
    }
}

/// Returns the dependencies of unchanged tables, including those of LIDs that no port has any more and those of packets
/// in flight; `None` if they have a cycle.
fn at_rest((ground, rest): (&Ground<'_>, &Rest), tables: &Tables, lids: &[Lid], past: Option<&Taken>) -> Option<Order> {
    let mut order = rest.order.clone();
    let gone = lids.iter().copied().filter(|lid| ground.lids.owner(*lid).is_none());
    ground.put(tables, rest.changing.iter().copied().chain(gone), &mut order);
    if !order.sort(ground.net) {
        return None;
    }
    let mut track = Track::new(ground.net, ground.lanes);
    for (&lid, taken) in past.iter().flat_map(|past| &past.by_lid) {
        let (before, lost) = past.map_or((tables, &[][..]), |past| (&past.tables, &past.lost));
        if !track.replay((before, lost), (lid, ground.senders(lid)), taken, &mut order) {
            return None;
        }
    }
    order.keep();
    Some(order)
}

/// Moves the LIDs that can be moved now.
fn move_on(
    (ground, mode): (&Ground<'_>, Mode),
    (mut order, past): (Order, Option<&Taken>),
    tables: &mut Tables,
    left: &mut Vec<Task>,
    window: &mut Vec<Vec<Write>>,
) {
    let mut track = Track::new(ground.net, ground.lanes);
    // A LID can block others that are tried after it, never before it: nothing is removed meanwhile.
    left.retain_mut(|task| {
        if order.budget == 0 {
            return true;
        }
        let senders = ground.senders(task.lid);
        match past.and_then(|past| Some((past, past.by_lid.get(&task.lid)?))) {
            // All its dependencies are in the graph already, so it is accepted.
            Some((past, taken)) if track.replay((&past.tables, &past.lost), (task.lid, senders), taken, &mut order) => {
            }
            Some(_) => return true,
            None => track.load(tables, task.lid, senders, |_, _| ()),
        }
        let (steps, later) = try_task(&mut track, &mut order, &task.writes, mode.by_rank);
        if !later.is_empty() && !mode.halves {
            order.undo(0);
            return true;
        }
        order.keep();
        for (number, writes) in steps.into_iter().enumerate() {
            apply(tables, writes.iter().copied());
            if window.len() <= number {
                window.resize(number + 1, Vec::new());
            }
            window[number].extend(writes);
        }
        task.writes = later;
        !task.writes.is_empty()
    });
}

/// Assigns the writes of one LID to steps. Returns the steps, and the writes that must wait. `by_rank`: a write comes
/// only after the writes of all switches further along its new path.
fn try_task(
    track: &mut Track<'_>,
    order: &mut Order,
    writes: &[(u32, Write)],
    by_rank: bool,
) -> (Vec<Vec<Write>>, Vec<(u32, Write)>) {
    let (mut steps, mut left) = (Vec::new(), writes.to_vec());
    while steps.len() < STEPS_MAX {
        let rank = left.first().map_or(0, |(rank, _)| *rank);
        let mut taken = Vec::new();
        left.retain(|(of, write)| {
            if by_rank && *of > rank {
                return true;
            }
            match track.write(order, write.switch.0, write.egress) {
                Ok(()) => {
                    taken.push(*write);
                    false
                }
                Err(Refused::Cycle | Refused::Budget) => true,
            }
        });
        if taken.is_empty() {
            break;
        }
        track.settle();
        steps.push(taken);
        if left.is_empty() {
            break;
        }
    }
    (steps, left)
}

/// Drops the entries of LIDs that cannot keep them while the other LIDs get new entries. These are as few LIDs as a
/// greedy choice finds or, with `all`, all remaining LIDs.
fn drop_first((ground, rest): (&Ground<'_>, &Rest), tables: &mut Tables, left: &mut [Task], all: bool) -> Vec<Write> {
    if all || !choose((ground, rest), tables, left) {
        left.iter_mut().for_each(|task| task.dropped = true);
    }
    let mut dropped = Vec::new();
    for task in left.iter().filter(|task| task.dropped) {
        for write in task.writes() {
            // An entry that leads to no other switch blocks nothing.
            if ground.net.way(write.switch.0, tables.get(write.switch, task.lid)) != NONE {
                dropped.push(Write {
                    egress: NO_PATH,
                    ..write
                });
            }
        }
    }
    apply(tables, dropped.iter().copied());
    for task in left {
        // These already have their new value.
        let is_done = |write: &Write| write.egress == NO_PATH && tables.get(write.switch, task.lid) == NO_PATH;
        task.writes.retain(|(_, write)| !is_done(write));
    }
    dropped
}

/// Marks the LIDs to drop. False if there is none, or if it cannot be determined.
fn choose((ground, rest): (&Ground<'_>, &Rest), tables: &Tables, left: &mut [Task]) -> bool {
    let mut goal = tables.clone();
    left.iter().for_each(|task| apply(&mut goal, task.writes()));
    let Some(mut order) = at_rest((ground, rest), &goal, &[], None) else {
        return false;
    };
    let mut track = Track::new(ground.net, ground.lanes);
    // LIDs with many changed entries would lose most.
    let mut sorted: Vec<&mut Task> = left.iter_mut().collect();
    sorted.sort_by_key(|task| (Reverse(task.live(ground.net, tables)), task.lid));
    let mut any = false;
    for task in sorted {
        let senders = ground.senders(task.lid);
        let fits = track.load_until(tables, task.lid, senders, |from, to| {
            order.insert(ground.net, from, to).is_ok()
        });
        if fits {
            order.keep();
        } else {
            order.undo(0);
            task.dropped = true;
            any = true;
        }
    }
    any
}
