//! Asks an administrator for paths between random ports of a fabric, as often as wished, and says what came of it.
//!
//! `cargo run -p selvedge-sa --example questions -- karytree:k=18,n=3 1000000`; `time` says how long it took.

#[path = "../tests/support/mod.rs"]
mod support;

use selvedge_sa::{Config, Input};
use selvedge_types::{Lid, TransactionId};
use selvedge_wire::sa::records;
use selvedge_wire::{Address, Datagram, Method, Status};
use support::{Bench, Wish, number};

#[allow(clippy::unwrap_used, reason = "an example: wrong arguments may stop it")]
fn main() {
    let mut arguments = std::env::args().skip(1);
    let spec = arguments.next().unwrap_or_else(|| "pgft:m=2x4,w=1x2,p=1x1".to_owned());
    let questions: u64 = arguments.next().map_or(10, |text| text.parse().unwrap());
    let limitless = Config {
        burst: u32::MAX,
        ..Config::default()
    };
    let mut bench = Bench::with(&Wish::new(spec.leak()), limitless);
    let hosts: Vec<Lid> = bench.hosts().iter().map(|end| end.lids.base).collect();
    let ports: usize = bench
        .snapshot
        .fabric()
        .nodes()
        .iter()
        .map(|n| usize::from(n.port_count()))
        .sum();
    println!(
        "{} ports, {} bytes of indices a port",
        ports,
        bench.snapshot.index_bytes() / ports
    );
    use records::path as f;
    let fields = [
        (f::SLID, number(0_u8)),
        (f::DLID, number(0_u8)),
        (f::NUMB_PATH, number(1_u8)),
        (f::REVERSIBLE, number(1_u8)),
    ];
    let mut mad = bench.question(Method::Get, &records::PATH, &fields);
    let (mut out, mut good, mut state) = (Vec::new(), 0, 1_u64);
    for transaction in 0..questions {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let pick = |shift: u32| hosts[(state >> shift) as usize % hosts.len()];
        let (from, to) = (pick(33), pick(17));
        f::SLID.set(mad.sa_data_mut(), u64::from(from.0));
        f::DLID.set(mad.sa_data_mut(), u64::from(to.0));
        mad.set_transaction(TransactionId(transaction));
        let address = Address::gsi(from, Default::default());
        bench
            .sa
            .handle(bench.now, Input::Received(Datagram { address, mad }), &mut out);
        good += out.drain(..).filter(|o| o.datagram.mad.status() == Status::OK).count();
    }
    println!("{questions} questions, {good} paths");
}
