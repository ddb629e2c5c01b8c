//! What is read back in which order, and what an answer leads to.

use std::sync::Arc;

use selvedge_plan::Phase;
use selvedge_planner::Inventory;

use super::*;
use crate::config::Mode;
use crate::made::{FIRST, SECOND, guid, inventory, row};

/// A read-back and what it sees: the row, with an hour between two turns of a block.
struct Bench {
    read_back: ReadBack,
    config: Config,
    inventory: Inventory,
    installed: Installed,
    now: Time,
}

impl Bench {
    /// Both switches are known to hold so many blocks.
    fn new(blocks: usize) -> Self {
        let local = selvedge_wire::LocalPort {
            node_guid: Guid(1),
            port_guid: Guid(1),
            port: PortNum::MANAGEMENT,
        };
        let mut installed = Installed::unknown(2);
        for (switch, block) in (0..2).flat_map(|switch| (0..blocks).map(move |block| (switch, block))) {
            installed.learn(SwitchIdx(switch), block, [1; BLOCK_LIDS]);
        }
        Self {
            read_back: ReadBack::default(),
            config: Config {
                read_back_sweeps: 0,
                ..Config::new(Mode::Manage, local, Arc::default())
            },
            inventory: inventory(row()),
            installed,
            now: Time::ZERO,
        }
    }

    /// Hands an input in.
    fn handle(&mut self, input: In<'_>) -> Vec<Effect> {
        let ctx = Ctx {
            now: self.now,
            config: &self.config,
            inventory: Some(&self.inventory),
            in_force: None,
            installed: &self.installed,
        };
        let mut effects = Vec::new();
        self.read_back.handle(&ctx, input, &mut effects);
        effects
    }

    /// These LFT blocks are written.
    fn write(&mut self, blocks: &[(usize, u16)], is_live: bool) {
        let fabric = Arc::clone(&self.inventory.fabric);
        let ops = blocks.iter().map(|&(at, block)| Op::Lft {
            node: fabric.find(guid(at)).unwrap(),
            block,
            data: [1; BLOCK_LIDS],
        });
        let phase = Phase {
            label: "",
            wait_before_ns: 0,
            ops: ops.collect(),
        };
        let changes = ChangeSet {
            phases: vec![phase],
            ..ChangeSet::default()
        };
        self.handle(In::Writing);
        self.handle(In::Written {
            fabric: &fabric,
            changes: &changes,
            is_live,
        });
    }

    /// Returns the next so many questions, with the tables that they are for.
    fn ask(&mut self, count: usize) -> Vec<(ReadId, Table)> {
        let mut asked = Vec::new();
        while asked.len() < count {
            let Some(Effect::Ask { id, .. }) = self.handle(In::Room(Kind::Lft)).pop() else {
                break;
            };
            asked.push((id, self.read_back.list(Kind::Lft).get(id.number).unwrap()));
        }
        asked
    }

    /// Returns the tables that a whole light sweep asks for; whoever is asked holds `entry` everywhere, or is silent.
    fn light_sweep(&mut self, entry: Option<u8>) -> (Vec<Table>, Vec<Effect>) {
        self.handle(In::LightSweepDue);
        self.handle(In::LightSweepBegins);
        let (mut asked, mut effects) = (Vec::new(), Vec::new());
        if self.read_back.can_open() {
            self.handle(In::Open);
        }
        while let [(id, table)] = *self.ask(1) {
            let data = entry.map(|entry| [entry; BLOCK_LIDS]);
            effects.extend(self.handle(In::Answered(id, data.as_ref())));
            asked.push(table);
        }
        self.handle(In::LightSweepEnds);
        (asked, effects)
    }
}

fn lft(at: usize, block: u16) -> Table {
    let switch = guid(at);
    Table::Lft { block, switch }
}

#[test]
fn what_was_written_comes_first_and_is_read_whatever_is_found() {
    let check = |asked: usize, want: &[Table]| {
        let mut bench = Bench::new(2);
        bench.config.read_back_sweeps = 1;
        bench.write(&[(SECOND, 1), (SECOND, 1)], false);
        // Of a switch that is not there.
        let (switch, blocks) = (Guid(0x99), 1);
        bench.handle(In::MayHaveLost { switch, blocks });
        bench.handle(In::LightSweepBegins);
        bench.handle(In::Open);
        let mut found = bench.ask(asked);
        let &(id, _) = found.first().unwrap();
        bench.handle(In::Answered(id, Some(&[2; BLOCK_LIDS])));
        found.extend(bench.ask(9));
        let found: Vec<Table> = found.into_iter().map(|(_, table)| table).collect();
        assert_eq!(found, want, "{asked}");
    };
    check(1, &[lft(SECOND, 1)]);
    check(3, &[lft(SECOND, 1), lft(FIRST, 0), lft(SECOND, 0)]);
}

#[test]
fn a_block_is_read_until_it_is_right() {
    let mut bench = Bench::new(1);
    bench.write(&[(FIRST, 0)], false);
    let mut check = |entry: Option<u8>, want: (usize, usize), is_left: bool| {
        let (asked, effects) = bench.light_sweep(entry);
        assert_eq!((asked.len(), effects.len()), want, "{entry:?}");
        bench.now = bench.now + Duration::from_secs(10);
        let interval = bench.config.sweep_interval;
        assert_eq!(bench.read_back.is_overdue(bench.now, interval), is_left, "{entry:?}");
    };
    check(None, (1, 0), true);
    check(Some(7), (1, 2), true);
    check(Some(7), (1, 2), true);
    // The third time in a row: the switch lies.
    check(Some(7), (1, 3), true);
    check(Some(1), (1, 0), false);
    check(Some(1), (0, 0), false);
}

#[test]
fn a_sweep_reads_what_was_written_under_traffic_and_not_read_since() {
    // Whether packets flowed and the read-back is overdue, what the switch answers to the sweep, and what is asked for.
    let check = |is_live: bool, is_overdue: bool, answer: Option<u8>, want: usize| {
        let mut bench = Bench::new(1);
        bench.write(&[(SECOND, 0)], is_live);
        let fabric = Arc::clone(&bench.inventory.fabric);
        let asks = |bench: &mut Bench, now: u64, want: usize| {
            bench.now = Time::from_secs(now);
            let mut installed = bench.installed.clone();
            let effects = bench.handle(In::HeavySweepReads {
                fabric: &fabric,
                installed: &installed,
            });
            let [Effect::Doubt(blocks)] = &*effects else {
                panic!("{effects:?}")
            };
            assert_eq!(blocks.len(), want, "{is_live} {is_overdue} {answer:?}");
            for &(switch, block) in blocks {
                installed.lfts[switch][block] = answer.map(|entry| [entry; BLOCK_LIDS]);
            }
            bench.now = Time::from_secs(10);
            let effects = bench.handle(In::HeavySweepHasRead {
                fabric: &fabric,
                installed: &installed,
            });
            let [Effect::Believe(blocks)] = &*effects else {
                panic!("{effects:?}")
            };
            assert!(blocks.iter().all(|(_, _, believed)| *believed == [1; BLOCK_LIDS]));
        };
        asks(&mut bench, if is_overdue { 10 } else { 0 }, want);
        let is_left = bench.read_back.is_overdue(bench.now, bench.config.sweep_interval);
        assert_eq!(is_left, !is_overdue);
        // Once it has been read it is known; else the next sweep asks again.
        let again = if answer.is_none() { want } else { 0 };
        asks(&mut bench, if is_overdue { 20 } else { 0 }, again);
    };
    check(false, false, None, 0);
    check(true, false, Some(7), 1);
    check(true, false, None, 1);
    // The sweep takes the place of a light sweep.
    check(false, true, Some(7), 1);
    check(true, true, Some(7), 1);
    check(false, true, None, 1);
}
