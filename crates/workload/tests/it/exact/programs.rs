//! Collective operations and traces on a fabric, compared with results computed by hand; several jobs at the same time.

use selvedge_dataplane::{LinkRate, Speed};
use selvedge_sim::Seed;
use selvedge_workload::{
    Arrivals, Collective, Job, Jobs, Pattern, PatternTraffic, Placement, Program, Traffic, read_goal,
};

use super::support::{Lab, near};

fn lab() -> Lab {
    Lab::new("karytree:k=4,n=2", "fat-tree").with(|s| {
        s.link = Some(LinkRate::four(Speed::Hdr));
        // Extra delays of paths through a spine would blur the numbers.
        (s.cable_delay_ns, s.switch_delay_ns) = (0, 0);
        s.source_queue = 1_000_000;
        (s.warmup_ns, s.duration_ns) = (0, 100_000_000);
    })
}

fn completed_ns(text: &str) -> f64 {
    let collective: Collective = text.parse().unwrap();
    let program = Program::new(collective.schedule(16).unwrap());
    let results = lab().run_traffic(program, None).results;
    assert!(results.completed_ns.unwrap() <= results.simulated_ns + 1);
    results.completed_ns.unwrap() as f64
}

/// Packets of 2,048 bytes take 82.96 ns; each further hop of a message adds nothing here, since nothing has a delay.
#[test]
fn collectives_take_their_time() {
    let packet = 82.96;
    // 30 steps of 1/16 of 1 MiB: 32 packets each, on links without other traffic.
    near(
        completed_ns("ring-all-reduce:bytes=1048576"),
        30.0 * 32.0 * packet,
        0.01,
        "ring",
    );
    // 4 steps of 64 packets.
    near(
        completed_ns("recursive-doubling:bytes=131072"),
        4.0 * 64.0 * packet,
        0.01,
        "doubling",
    );
    // Each host sends and receives 15 · 32 packets, in shifts.
    near(
        completed_ns("exchange:bytes=65536"),
        15.0 * 32.0 * packet,
        0.05,
        "exchange",
    );
    // Two neighbours, 3 times.
    near(
        completed_ns("stencil-1d:bytes=65536,repeat=3"),
        3.0 * 2.0 * 32.0 * packet,
        0.05,
        "stencil",
    );
}

#[test]
fn a_trace_runs() {
    let text = "num_ranks 2\n\
                rank 0 {\na: calc 1000\nb: send 2048b to 1 tag 1\nc: recv 2048b from 1 tag 2\nb requires a\n}\n\
                rank 1 {\na: recv 2048b from 0 tag 1\nb: calc 500\nc: send 2048b to 0 tag 2\n\
                b requires a\nc requires b\n}";
    let program = Program::new(read_goal(text).unwrap());
    let results = lab().run_traffic(program, None).results;
    // The message, computation, the reply: rounded up to a nanosecond.
    assert_eq!(results.completed_ns, Some(1_000 + 500 + 166));
    assert_eq!(results.packets_delivered, 2);
}

/// A job together with another one that fills its links, on the same lane and on lanes of their own.
#[test]
fn jobs_are_in_each_others_way() {
    let lab = |vls| lab().with(|s| s.vls = vls);
    let run = |noise: bool, sl: u8| {
        let lab = lab(2);
        let mut jobs = Jobs::new(16);
        let collective: Collective = "ring-all-reduce:bytes=262144".parse().unwrap();
        // One host of each leaf, each by another spine.
        let hosts = jobs.place(4, &"list=0+5+10+15".parse().unwrap(), Seed(1)).unwrap();
        let traffic = Traffic::Program(Program::new(collective.schedule(4).unwrap()));
        jobs.add(Job {
            traffic,
            hosts,
            sl: Some(0),
        })
        .unwrap();
        if noise {
            let hosts = jobs.place(12, &Placement::Random, Seed(1)).unwrap();
            let how = (1.0, 2_048, 40.5);
            let pattern = PatternTraffic::new((&Pattern::Bisection, Arrivals::Even), 12, how, Seed(1)).unwrap();
            let traffic = Traffic::Pattern(pattern);
            jobs.add(Job {
                traffic,
                hosts,
                sl: Some(sl),
            })
            .unwrap();
        }
        lab.run_traffic(jobs, None).results.completed_ns.unwrap()
    };
    let (alone, beside) = (run(false, 0), run(true, 0));
    assert!(beside > alone * 11 / 10, "{alone} {beside}");
    assert_eq!(run(false, 1), alone);
}
