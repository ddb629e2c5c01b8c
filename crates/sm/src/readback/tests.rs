//! Which tables are read back in which order, and the effects of an answer.

use std::sync::Arc;

use selvedge_plan::Phase;
use selvedge_planner::Inventory;
use selvedge_types::PortNum;

use super::*;
use crate::config::Mode;
use crate::made::{FIRST, SECOND, guid, inventory, row};

/// A read-back of the fabric of [`row`] (host, two switches, host).
struct Bench {
    read_back: ReadBack,
    config: Config,
    inventory: Inventory,
    installed: Installed,
    copies: BTreeMap<Guid, MftBlocks>,
    guids: HeldGuids,
    now: Time,
}

impl Bench {
    /// Returns a bench in which both switches have this number of known LFT blocks. Blocks are read back only after
    /// they are written, not in turn.
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
            copies: BTreeMap::new(),
            guids: HeldGuids::new(),
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
            copies: &self.copies,
            guids: &self.guids,
            unread_guids: &BTreeSet::new(),
        };
        let mut effects = Vec::new();
        self.read_back.handle(&ctx, input, &mut effects);
        effects
    }

    /// Lets a change write these LFT blocks, while packets flow or not (`is_live`).
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

    /// Returns the next Gets, at most this number, with their tables.
    fn ask(&mut self, kind: Kind, count: usize) -> Vec<(ReadId, Table)> {
        let mut asked = Vec::new();
        while asked.len() < count {
            let Some(Effect::Ask { id, .. }) = self.handle(In::Room(kind)).pop() else {
                break;
            };
            asked.push((id, self.read_back.list(kind).get(id.number).unwrap()));
        }
        asked
    }

    /// Returns the tables that a whole light sweep requests; each switch holds `entry` everywhere, or is silent.
    fn light_sweep(&mut self, entry: Option<u8>) -> (Vec<Table>, Vec<Effect>) {
        self.handle(In::LightSweepDue);
        self.handle(In::LightSweepBegins);
        let (mut asked, mut effects) = (Vec::new(), Vec::new());
        if self.read_back.has_begun(Kind::Lft) {
            self.handle(In::Open);
        }
        while let [(id, table)] = *self.ask(Kind::Lft, 1) {
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
        let mut found = bench.ask(Kind::Lft, asked);
        let &(id, _) = found.first().unwrap();
        bench.handle(In::Answered(id, Some(&[2; BLOCK_LIDS])));
        found.extend(bench.ask(Kind::Lft, 9));
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
        bench.now += Duration::from_secs(10);
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
    // Whether packets flowed and the read-back is overdue, the switch's answer to the sweep, and the requested tables.
    let check = |is_live: bool, is_overdue: bool, answer: Option<u8>, want: usize| {
        let mut bench = Bench::new(1);
        bench.write(&[(SECOND, 0)], is_live);
        let fabric = Arc::clone(&bench.inventory.fabric);
        let asks = |bench: &mut Bench, now: u64, want: usize| {
            bench.now = Time::from_secs(now);
            let mut installed = bench.installed.clone();
            let effects = bench.handle(In::HeavySweepReads(&fabric, &installed));
            let [Effect::Doubt(blocks)] = &*effects else {
                panic!("{effects:?}")
            };
            assert_eq!(blocks.len(), want, "{is_live} {is_overdue} {answer:?}");
            for &(switch, block) in blocks {
                installed.lfts[switch][block] = answer.map(|entry| [entry; BLOCK_LIDS]);
            }
            bench.now = Time::from_secs(10);
            let effects = bench.handle(In::HeavySweepHasRead(&fabric, &installed));
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

#[test]
fn what_is_read_between_light_sweeps_is_read_until_it_is_answered() {
    let mut bench = Bench::new(0);
    let places = [(SECOND, (0, 0)), (FIRST, (0, 1)), (FIRST, (0, 0))];
    let tables = places.map(|(at, place)| Table::Mft {
        switch: guid(at),
        place,
    });
    for (at, place) in places {
        bench.copies.entry(guid(at)).or_default().insert(place, [0; 32]);
    }
    // Of a switch that is not there.
    let (switch, place) = (Guid(0x99), (0, 0));
    bench.copies.entry(switch).or_default().insert(place, [0; 32]);
    for table in tables.into_iter().chain([Table::Mft { switch, place }]) {
        bench.handle(In::Acknowledged(table));
    }
    // The switches that are left out, the entry in the first table, the end of the light sweep, and the requested
    // tables.
    let mut check = |left_out: &[usize], entry: Option<u8>, end: In<'_>, want: &[Table], differs: bool| {
        let left_out = left_out.iter().map(|&at| guid(at)).collect();
        bench.handle(In::Begins(Kind::Mft, left_out));
        let asked = bench.ask(Kind::Mft, 9);
        assert_eq!(asked.iter().map(|(_, table)| *table).collect::<Vec<_>>(), want);
        for &(id, table) in &asked {
            let data = if table == want[0] { entry } else { Some(0) };
            let effects = bench.handle(In::Answered(id, data.map(|entry| [entry; 64]).as_ref()));
            let is_news = matches!(&*effects, [Effect::MftDiffers(switch, ..)] if *switch == guid(FIRST));
            assert_eq!(is_news, differs && table == want[0], "{effects:?}");
        }
        bench.handle(end);
    };
    let [second, other, first] = tables;
    check(&[SECOND], Some(7), In::BreaksOff(Kind::Mft), &[first, other], true);
    check(&[], None, In::Ends(Kind::Mft), &[first, other], false);
    check(&[], Some(7), In::Ends(Kind::Mft), &[first], true);
    check(&[], None, In::Ends(Kind::Mft), &[], false);
    // All blocks have their turn, one in each.
    bench.config.read_back_sweeps = 4;
    let turns = [&[first][..], &[other], &[second], &[], &[first]];
    for want in turns {
        bench.handle(In::Begins(Kind::Mft, BTreeSet::new()));
        let asked = bench.ask(Kind::Mft, 9);
        assert_eq!(asked.iter().map(|(_, table)| *table).collect::<Vec<_>>(), want);
        for (id, _) in asked {
            bench.handle(In::Answered(id, Some(&[0; 64])));
        }
        bench.handle(In::Ends(Kind::Mft));
    }
}

#[test]
fn a_block_of_guids_that_a_port_has_lost_is_news() {
    let mut bench = Bench::new(0);
    let port = bench.inventory.fabric.port(bench.inventory.local).unwrap().guid;
    bench.guids.insert((port, 0), [Guid(7); 8]);
    bench.handle(In::Acknowledged(Table::Guids { port, block: 0 }));
    bench.handle(In::Begins(Kind::Guids, BTreeSet::new()));
    let [(id, _)] = *bench.ask(Kind::Guids, 9) else {
        panic!("one block is to be read")
    };
    let effects = bench.handle(In::Answered(id, Some(&[0; 64])));
    assert!(matches!(&*effects, [Effect::GuidsDiffer((_, 0), _)]), "{effects:?}");
}

#[test]
fn a_block_whose_set_was_repeated_is_read_until_no_copy_can_come() {
    let mut bench = Bench::new(2);
    let [repeated, other] = [0, 1].map(|block| lft(FIRST, block));
    bench.handle(In::Repeated(Some(repeated)));
    bench.write(&[(FIRST, 0), (FIRST, 1)], false);
    let copies_end = bench.config.timeout * (u32::from(bench.config.retries) + 1);
    let (asked, _) = bench.light_sweep(Some(1));
    assert_eq!(asked, [repeated, other]);
    // It holds the written contents, and an earlier copy may still arrive.
    assert_eq!(bench.light_sweep(Some(1)).0, [repeated]);
    assert!(bench.read_back.may_copies_come(bench.now));
    bench.now += copies_end;
    assert!(!bench.read_back.may_copies_come(bench.now));
    assert_eq!(bench.light_sweep(Some(1)).0, [repeated]);
    assert!(bench.light_sweep(Some(1)).0.is_empty());
}
