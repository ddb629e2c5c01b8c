//! x
use selvedge_plan::Lids;
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange};
fn main() {
    let spec = std::env::args().nth(1).unwrap();
    let Ok(Spec::Generated(r)) = spec.parse::<Spec>() else { panic!() };
    let fabric = r.fabric().unwrap();
    let mut lids = Lids::new();
    for ((at, _), lid) in fabric.end_ports().zip(1..) {
        lids.insert(at, LidRange::single(Lid(lid))).unwrap();
    }
    if std::env::args().nth(2).as_deref() == Some("fill") {
        let tree = selvedge_routing::FatTree::detect(&fabric, &Default::default(), Par::Sequential).unwrap();
        let mut tables = selvedge_plan::Tables::new(fabric.switches().len(), lids.top());
        for _ in 0..1000 {
            tree.fill(&lids, &mut tables, Par::Sequential).unwrap();
        }
        return;
    }
    for _ in 0..100 {
        let t = std::time::Instant::now();
        let r = Engine::FatTree.route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential).unwrap();
        std::hint::black_box(r.lanes);
        if std::env::args().len() > 2 { println!("{:?}", t.elapsed()); }
    }
}
