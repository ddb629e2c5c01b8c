//! Limits of one source: what the manager gets, what the log shows, and that other sources are not affected.

use selvedge_wire::{Address, NoticeSource, PRODUCER_CA, SmInfo};

use super::*;

const M_KEY: u64 = 7;

/// Returns a trap with this number, from a port with this LID.
fn trap(lid: u16, number: u16) -> Datagram {
    let mut notice = Notice::new(PRODUCER_CA, Lid(lid), &Trap::LinkState { lid: Lid(lid) });
    notice.source = NoticeSource::Generic {
        producer: PRODUCER_CA,
        trap: number,
    };
    let mut mad = Mad::request(Class::SubnLid, Method::Trap, AttributeId::NOTICE, 0);
    mad.write(&notice);
    let address = Address::smi(Lid(lid));
    Datagram { address, mad }
}

fn vendor_trap(lid: u16) -> Datagram {
    let mut datagram = trap(lid, 128);
    let mut data = *datagram.mad.smp_data();
    data[0] &= 0x7F;
    datagram.mad.set_smp_data(&data);
    datagram
}

fn request(lid: u16, method: Method, attribute: AttributeId) -> Datagram {
    let mad = Mad::request(Class::SubnLid, method, attribute, 0);
    let address = Address::smi(Lid(lid));
    Datagram { address, mad }
}

/// Records what an intake did.
#[derive(Default)]
struct Bench {
    intake: Intake,
    handed: Vec<Lid>,
    represses: usize,
    codes: Vec<&'static str>,
}

impl Bench {
    fn master() -> Self {
        let mut bench = Self::default();
        bench.intake.serve(Some(M_KEY));
        bench
    }

    fn note(&mut self, out: Vec<IntakeOut>) {
        for output in out {
            match output {
                IntakeOut::Repress(datagram) => {
                    assert_eq!(datagram.mad.method(), Method::TrapRepress);
                    assert_eq!(datagram.mad.m_key(), M_KEY);
                    self.represses += 1;
                }
                IntakeOut::Event(event) => self.codes.push(event.code()),
            }
        }
    }

    fn wake(&mut self, now: Time) {
        let mut out = Vec::new();
        let again = self.intake.wake(now, &mut out);
        self.handed.extend(again.iter().map(|datagram| datagram.address.lid));
        self.note(out);
    }

    /// Hands in a datagram that arrives at this time, in microseconds.
    fn arrives(&mut self, at_us: u64, datagram: &Datagram) {
        let now = Time::from_micros(at_us);
        self.wake(now);
        let mut out = Vec::new();
        if self.intake.take(now, datagram, &mut out) {
            self.handed.push(datagram.address.lid);
        }
        self.note(out);
    }

    fn count(&self, code: &str) -> usize {
        self.codes.iter().filter(|told| **told == code).count()
    }
}

/// Returns a trap of every kind, and datagrams of other kinds that an intake limits.
fn floods() -> Vec<Datagram> {
    let numbers = [64, 128, 129, 130, 131, 144, 145, 256, 257, 258, 259, 0, 999, 65_535];
    let traps = numbers.map(|number| trap(5, number));
    traps.into_iter().chain([vendor_trap(5)]).collect()
}

#[test]
fn equal_traps_are_one_line_and_then_a_count() {
    for flood in floods() {
        let mut bench = Bench::master();
        for turn in 0..5_000 {
            bench.arrives(turn * 200, &flood);
        }
        assert_eq!(bench.codes, ["SLV-SM-0016", "SLV-SM-0091"], "{flood:?}");
        let first = bench.handed.len();
        assert!((1..=BURST as usize + 1).contains(&first), "{first} handed");
        assert_eq!(
            bench.represses,
            5_000 - first,
            "the manager represses those that it gets"
        );
        // The newest one is not lost.
        bench.wake(Time::from_secs(1));
        assert_eq!(bench.handed.len(), first + 1);
        assert_eq!(bench.codes, ["SLV-SM-0016", "SLV-SM-0091", "SLV-SM-0090"]);
        let held = bench.intake.held();
        assert_eq!(held, 5_000 - first as u64);
    }
}

#[test]
fn a_flood_delays_no_other_source_and_no_other_kind() {
    let mut bench = Bench::master();
    for turn in 0..14_000 {
        bench.arrives(turn * 71, &trap(5, 128));
        if turn % 1_000 == 500 {
            let (lid, before) = (100 + (turn / 1_000) as u16, bench.handed.len());
            bench.arrives(turn * 71, &trap(lid, 128));
            assert_eq!(bench.handed.len(), before + 1, "of LID {lid}");
            assert_eq!(bench.handed.last(), Some(&Lid(lid)));
        }
    }
    let before = bench.handed.len();
    bench.arrives(14_000 * 71, &trap(5, 144));
    assert_eq!(bench.handed.len(), before + 1);
}

#[test]
fn an_agent_that_works_is_not_limited() {
    let mut bench = Bench::master();
    // Links of one switch fail together, several times: each time the manager gets the trap at once.
    for second in 0..5 {
        for link in 0..8 {
            bench.arrives(second * 2_000_000 + link, &trap(5, 128));
        }
    }
    assert_eq!((bench.handed.len(), bench.intake.held()), (40, 0));
    assert_eq!(bench.count("SLV-SM-0016"), 5);
    assert_eq!(bench.count("SLV-SM-0091"), 0);
}

#[test]
fn a_held_trap_gets_to_the_manager_soon() {
    let mut bench = Bench::master();
    // Not enough for babble, twice.
    for at_us in [0, 1_100_000] {
        (0..30).for_each(|turn| bench.arrives(at_us + turn, &trap(5, 128)));
    }
    assert_eq!(bench.codes.iter().filter(|code| **code == "SLV-SM-0091").count(), 0);
    // Four tokens came back between them.
    assert_eq!(bench.handed.len(), BURST as usize + 4);
    let due = bench.intake.next_wake().unwrap();
    assert!(due <= Time::from_millis(1_400), "{due}");
    bench.wake(due);
    assert_eq!(bench.handed.len(), BURST as usize + 5);
}

#[test]
fn a_babbling_source_is_named_until_it_is_calm() {
    let mut bench = Bench::master();
    let mut at_us = 0;
    while at_us < 20_000_000 {
        bench.arrives(at_us, &trap(5, 144));
        at_us += 1_000;
    }
    let babblers: Vec<Babbler> = bench.intake.babblers().collect();
    let [babbler] = babblers[..] else {
        panic!("{babblers:?}")
    };
    assert_eq!(
        (babbler.lid, babbler.kind, babbler.came),
        (Lid(5), Kind::Trap(144), 20_000)
    );
    // Intervals of 1, 2, 4 and 8 s have ended.
    assert_eq!(bench.count("SLV-SM-0090"), 4);
    assert!(bench.handed.len() <= BURST as usize + 4);
    assert_eq!(bench.intake.take_accused().len(), 5);
    // The current interval has enough of them; the next one has none.
    for second in 20..=40 {
        bench.wake(Time::from_secs(second));
    }
    assert_eq!(bench.count("SLV-SM-0092"), 1);
    assert_eq!((bench.intake.babblers().count(), bench.intake.next_wake()), (0, None));
    let before = bench.handed.len();
    bench.arrives(41_000_000, &trap(5, 144));
    assert_eq!((bench.handed.len(), bench.count("SLV-SM-0016")), (before + 1, 2));
}

#[test]
fn what_is_no_trap_is_dropped_above_the_limit_and_answers_never() {
    let mut set = request(5, Method::Set, AttributeId::SM_INFO);
    set.mad.write(&SmInfo::default());
    let rows = [
        (set, true),
        (request(5, Method::Get, AttributeId::NODE_INFO), true),
        (request(5, Method::Get, AttributeId::from_code(0x7777)), true),
        (request(5, Method::Report, AttributeId::NOTICE), true),
        (request(5, Method::from_code(0x7B), AttributeId::NOTICE), true),
        (request(5, Method::Get, AttributeId::SM_INFO), false),
        (request(5, Method::GetResp, AttributeId::NODE_INFO), false),
    ];
    for (datagram, is_limited) in rows {
        let mut bench = Bench::master();
        for turn in 0..5_000 {
            bench.arrives(turn * 200, &datagram);
        }
        bench.wake(Time::from_secs(1));
        assert_eq!(bench.represses, 0);
        match is_limited {
            true => {
                assert!(bench.handed.len() <= BURST as usize + 1, "{datagram:?}");
                assert_eq!(bench.codes, ["SLV-SM-0091", "SLV-SM-0090"], "{datagram:?}");
            }
            false => assert_eq!((bench.handed.len(), bench.codes.len()), (5_000, 0), "{datagram:?}"),
        }
    }
}

#[test]
fn sources_without_end_take_no_memory_without_end() {
    let mut bench = Bench::master();
    for lid in 1..=40_000 {
        bench.arrives(u64::from(lid), &trap(lid, 128));
        assert!(bench.intake.flows.len() <= FLOWS_MAX + 1);
    }
    // Their records are dropped.
    bench.arrives(60_000_000, &trap(50_000, 128));
    bench.arrives(60_000_001, &trap(50_001, 144));
    assert_eq!(bench.handed[bench.handed.len() - 2..], [Lid(50_000), Lid(50_001)]);
}

#[test]
fn a_manager_that_is_not_master_tells_of_babble_only() {
    let mut bench = Bench::default();
    for turn in 0..5_000 {
        bench.arrives(turn * 200, &trap(5, 144));
    }
    bench.wake(Time::from_secs(1));
    assert_eq!(
        (bench.represses, bench.codes.as_slice()),
        (0, ["SLV-SM-0091"].as_slice())
    );
}

#[test]
fn the_same_arrivals_give_the_same_outputs() {
    let run = || {
        let mut bench = Bench::master();
        let mut rng = selvedge_sim::Seed(35).child("intake").rng();
        let mut at_us = 0;
        for _ in 0..20_000 {
            at_us += rng.below(500);
            let lid = 1 + rng.below(5) as u16;
            bench.arrives(at_us, &trap(lid, [128, 144, 256][rng.below(3) as usize]));
        }
        (bench.handed, bench.codes, bench.represses)
    };
    assert_eq!(run(), run());
}

#[test]
fn a_change_is_never_lost() {
    // Whatever comes, a trap that comes last gets to the manager within the longest interval.
    let mut rng = selvedge_sim::Seed(36).child("intake").rng();
    for _ in 0..50 {
        let mut bench = Bench::master();
        let mut at_us = 0;
        for _ in 0..rng.below(3_000) {
            at_us += rng.below(3_000);
            bench.arrives(at_us, &trap(5, 128));
        }
        at_us += 1;
        let mut last = trap(5, 128);
        let lid = Lid(99);
        last.mad
            .write(&Notice::new(PRODUCER_CA, Lid(5), &Trap::LinkState { lid }));
        let before = bench.handed.len();
        bench.arrives(at_us, &last);
        let mut now = Time::from_micros(at_us);
        while let Some(due) = bench.intake.next_wake() {
            now = now.max(due);
            bench.wake(now);
            assert!(now <= Time::from_micros(at_us) + INTERVAL_MAX * 3, "it ends");
        }
        assert!(bench.handed.len() > before, "the last one");
    }
}
