//! Full reads of all counters on ibsim: the manager's sampler, a bare poller that sends as many requests and does
//! nothing else, and the tools that users have. All use the same simulator, in the same run, one after the other.

mod agents;
mod delay;
mod manager;
mod poller;
pub mod store;
mod table;

use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use selvedge_conformance::{HeavyLock, PeerLab};
use selvedge_transport::ibsim::IbsimPort;

use crate::case::Case;
use crate::error::BenchError;

use manager::{Manager, Read};
pub use table::{csv, summary};

/// 5,832 hosts and 810 switches of 36 ports, all of them cabled: 34,992 ends of links.
pub const FABRICS: [&str; 1] = ["pgft:m=18x18x18,w=1x18x9,p=1x1x2"];
/// Requests in flight, of the manager and of the bare poller.
const WINDOW: usize = 64;
/// Longest time that is waited for anything.
const LIMIT: Duration = Duration::from_secs(600);

/// Most requests of a full read, and with one end of each link: counts for 34,992 ends of links.
pub const REQUESTS_MAX: (u64, u64) = (70_000, 36_000);
/// Ends of links that these are for.
const ENDS: u64 = 34_992;

/// Which ends of a link are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Both.
    Both,
    /// One, while both are healthy.
    One,
}

/// A slot of the manager and, right after it, a run of the bare poller.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The slot.
    pub ours: Read,
    /// Milliseconds of the bare poller for as many requests.
    pub bare_ms: f64,
}

/// A scrape of `/metrics`.
#[derive(Clone, Copy, Debug)]
pub struct Scrape {
    /// True if the page was compressed.
    pub is_gzip: bool,
    /// From the request to the last byte, in milliseconds.
    pub ms: f64,
    /// Bytes of the body.
    pub bytes: usize,
}

/// The figures of one fabric.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The fabric, as given.
    pub spec: String,
    /// Which ends were read.
    pub ends: Ends,
    /// Ends of links.
    pub links: u64,
    /// The first slot of the manager: every port, and every group.
    pub first: Read,
    /// Later slots.
    pub pairs: Vec<Pair>,
    /// Processor time of the manager for a slot, in microseconds.
    pub cpu_us: f64,
    /// What the window adds to the round trip of an SMP; none where one end is read.
    pub delay: Option<delay::Delay>,
    /// Resident memory of the manager, in bytes.
    pub rss_bytes: f64,
    /// Scrapes; none where one end is read.
    pub scrapes: Vec<Scrape>,
    /// Milliseconds of the tools that users have, by name; none where one end is read.
    pub tools: Vec<(&'static str, f64)>,
}

impl Figures {
    /// True if ports lack a sample, or if there were more requests than allowed.
    #[must_use]
    pub fn misses_a_count(&self) -> bool {
        let mut reads = self.pairs.iter().map(|pair| &pair.ours).chain([&self.first]);
        let is_too_much = self.links == ENDS && self.requests() > self.requests_max();
        is_too_much || reads.any(|read| read.missing > 0 || read.ports != self.links)
    }

    /// Requests of the slot with the most, apart from the first one, which also asks each agent what it can.
    fn requests(&self) -> u64 {
        self.pairs.iter().map(|pair| pair.ours.requests).max().unwrap_or(0)
    }

    /// Most requests of a slot that are allowed.
    const fn requests_max(&self) -> u64 {
        match self.ends {
            Ends::Both => REQUESTS_MAX.0,
            Ends::One => REQUESTS_MAX.1,
        }
    }
}

/// Measures a fabric: so many slots, each followed by a run of the bare poller.
pub fn measure(case: &Case, program: &Path, repeats: usize, bar: &ProgressBar) -> Result<Vec<Figures>, BenchError> {
    let lab = PeerLab::new()?;
    let mut simulator = lab.ibsim_sized(&case.net, case.size)?;
    let _quiet = HeavyLock::acquire()?;
    bar.set_message(format!("{}: errors at every port", case.spec));
    simulator.console_all(&errors_at_every_port(case))?;
    let mut figures = Vec::new();
    for ends in [Ends::Both, Ends::One] {
        bar.set_message(format!("{}: manager, {ends:?} ends", case.spec));
        figures.push(measure_ends(case, &lab, program, ends, repeats, bar)?);
    }
    Ok(figures)
}

fn measure_ends(
    case: &Case,
    lab: &PeerLab,
    program: &Path,
    ends: Ends,
    repeats: usize,
    bar: &ProgressBar,
) -> Result<Figures, BenchError> {
    let manager = Manager::start(case, lab, program, ends)?;
    let first = manager.read_after(0)?;
    manager.settle()?;
    let targets = manager.targets()?;
    let mut port = IbsimPort::open(lab.base(), case.host_name())?;
    let (mut pairs, mut last, cpu_before) = (Vec::new(), first.number, manager.cpu()?);
    for _ in 0..repeats {
        let ours = manager.read_after(last)?;
        let bare = poller::poll(&mut port, &targets, ours.requests)?;
        last = ours.number;
        pairs.push(Pair {
            ours,
            bare_ms: bare.as_secs_f64() * 1e3,
        });
        bar.inc(1);
    }
    let cpu_us = (manager.cpu()? - cpu_before).as_secs_f64() * 1e6 / repeats.max(1) as f64;
    let delay = match ends {
        Ends::Both => Some(delay::measure(&mut port, &targets, WINDOW)?),
        Ends::One => None,
    };
    drop(port);
    let rss_bytes = manager.rss_bytes()?;
    let (mut scrapes, mut tools) = (Vec::new(), Vec::new());
    if ends == Ends::Both {
        for _ in 0..repeats {
            scrapes.push(manager.scrape(false)?);
            scrapes.push(manager.scrape(true)?);
        }
        for _ in 0..repeats {
            for tool in ["ibqueryerrors", "iblinkinfo"] {
                bar.set_message(format!("{}: {tool}", case.spec));
                tools.push((tool, run_tool(case, lab, tool, &[])?));
            }
        }
        bar.set_message(format!("{}: a perfquery of each switch", case.spec));
        tools.push(("perfquery of each switch", perfqueries(case, lab)?));
    }
    Ok(Figures {
        spec: case.spec.clone(),
        ends,
        links: case.fabric.nodes().iter().map(cabled).sum(),
        first,
        pairs,
        cpu_us,
        delay,
        rss_bytes,
        scrapes,
        tools,
    })
}

/// Returns how many ports of a node have a cable.
fn cabled(node: &selvedge_fabric::Node) -> u64 {
    let ports = node.external_ports().filter(|(_, port)| port.peer.is_some());
    ports.count() as u64
}

/// Console commands that give every port an error: tools ask for each port only if there is one.
fn errors_at_every_port(case: &Case) -> Vec<String> {
    let nodes = case.fabric.nodes().iter();
    let ports = nodes.flat_map(|node| {
        node.external_ports()
            .map(move |(port, _)| (&node.description, port.get()))
    });
    let line =
        |(node, port): (&String, u8)| format!("PerformanceSet \"{node}\"[{port}] PortCounters.SymbolErrorCounter=5");
    ports.map(line).collect()
}

/// Runs a tool to its end. Returns the milliseconds that it took.
fn run_tool(case: &Case, lab: &PeerLab, tool: &str, arguments: &[&str]) -> Result<f64, BenchError> {
    let begin = Instant::now();
    // Tools that find errors end with another status than 0.
    lab.spawn(lab.base(), case.host_name(), tool, arguments)?
        .finish(LIMIT)?;
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

/// Runs one perfquery for each switch, as treydock's exporter does. Returns the milliseconds that all took.
fn perfqueries(case: &Case, lab: &PeerLab) -> Result<f64, BenchError> {
    let nodes = case.fabric.nodes().iter().filter(|node| node.is_switch());
    let calls = nodes.map(|node| {
        let ports = node.external_ports().filter(|(_, port)| port.peer.is_some());
        let ports: Vec<String> = ports.map(|(num, _)| num.get().to_string()).collect();
        let arguments = ["-l", "-x", "-G"].map(str::to_owned).into_iter();
        arguments.chain([node.guid.to_string(), ports.join(",")]).collect()
    });
    let calls: Vec<Vec<String>> = calls.collect();
    let begin = Instant::now();
    for arguments in &calls {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        lab.output(case.host_name(), "perfquery", &arguments)?;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

fn silent(answered: usize, wanted: usize) -> BenchError {
    BenchError::Silent {
        answered,
        wanted,
        limit_s: LIMIT.as_secs(),
    }
}
