//! Bring-up of fresh fabrics: Selvedge and OpenSM alternate in one run.

use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use selvedge_conformance::{HeavyLock, PeerLab};
use selvedge_transport::ibsim::IbsimPort;

use crate::case::Case;
use crate::ceiling::{Blast, Load};
use crate::error::BenchError;
use crate::formula::{Counts, Minimum};
use crate::opensm::Variant;
use crate::{machine, opensm, ours};

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct Options {
    /// Our program.
    pub program: PathBuf,
    /// Runs of each OpenSM variant on each fabric; Selvedge runs once before each of them.
    pub repeats: usize,
    /// OpenSM's variants.
    pub variants: Vec<Variant>,
    /// Number of MADs of each blast.
    pub blast_mads: usize,
}

impl Options {
    /// Steps that [`measure`] takes on one fabric.
    #[must_use]
    pub fn steps(&self) -> u64 {
        1 + (self.repeats * (self.variants.len() + self.variants.len().max(1))) as u64
    }
}

/// A blast, and whether it came before or after a run of Selvedge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// `before` or `after`.
    pub name: &'static str,
    /// Result of the blast.
    pub blast: Blast,
}

/// One run of Selvedge, and the most MADs a second that the simulator answered before and after it.
#[derive(Clone, Debug)]
pub struct OurSample {
    /// The pair of runs that it belongs to: Selvedge, then OpenSM.
    pub pair: usize,
    /// The run.
    pub run: ours::Run,
    /// Blasts before and after it.
    pub blasts: Vec<Phase>,
    /// Load of the machine when the run began.
    pub load: f64,
}

impl OurSample {
    /// Returns the best of the blasts, in MADs a second.
    #[must_use]
    pub fn ceiling(&self) -> f64 {
        self.blasts
            .iter()
            .map(|phase| phase.blast.mads_per_s)
            .fold(0.0, f64::max)
    }

    /// Ratio of the time of the whole run to the time of its MADs alone at the ceiling.
    #[must_use]
    pub fn over_ceiling(&self) -> f64 {
        self.run.process_s / (self.run.mads() as f64 / self.ceiling())
    }
}

/// One run of OpenSM.
#[derive(Clone, Debug)]
pub struct PeerSample {
    /// The pair of runs that it belongs to.
    pub pair: usize,
    /// How OpenSM was started.
    pub variant: Variant,
    /// The run.
    pub run: opensm::Run,
    /// Load of the machine when it began.
    pub load: f64,
}

/// Everything measured on one fabric.
#[derive(Clone, Debug)]
pub struct FabricResult {
    /// The fabric, as given.
    pub spec: String,
    /// Counts of the fabric.
    pub counts: Counts,
    /// The least number of MADs for a bring-up.
    pub minimum: Minimum,
    /// MADs of one run of Selvedge, counted on the wire by a relay.
    pub counted: u64,
    /// Our runs.
    pub ours: Vec<OurSample>,
    /// OpenSM's runs.
    pub peers: Vec<PeerSample>,
}

impl FabricResult {
    /// OpenSM's variants in the order of their names.
    #[must_use]
    pub fn variants(&self) -> Vec<Variant> {
        let mut variants: Vec<Variant> = self.peers.iter().map(|peer| peer.variant.clone()).collect();
        variants.sort();
        variants.dedup();
        variants
    }

    /// Returns the counted MADs divided by the minimum.
    #[must_use]
    pub fn mads_over_minimum(&self) -> f64 {
        self.counted as f64 / self.minimum.total() as f64
    }

    /// Returns, for each run of a variant, its time divided by the time of the run of Selvedge in the same pair; both
    /// include the start of the process.
    pub fn ratios(&self, variant: &Variant) -> impl Iterator<Item = f64> {
        self.peers
            .iter()
            .filter(move |peer| peer.variant == *variant)
            .filter_map(|peer| {
                let ours = self.ours.iter().find(|ours| ours.pair == peer.pair)?;
                Some(peer.run.process_s / ours.run.process_s)
            })
    }
}

/// Measures one fabric.
pub fn measure(case: &Case, options: &Options, bar: &ProgressBar) -> Result<FabricResult, BenchError> {
    let counts = Counts::of(&case.fabric);
    let load = Load::new(case, options.blast_mads);
    let mut result = FabricResult {
        spec: case.spec.clone(),
        counts,
        minimum: Minimum::of(&counts),
        counted: 0,
        ours: Vec::new(),
        peers: Vec::new(),
    };
    bar.set_message(format!("{}: counting MADs", case.spec));
    result.counted = {
        let _quiet = HeavyLock::acquire()?;
        count(case, &options.program)?
    };
    bar.inc(1);
    for repeat in 0..options.repeats {
        let _quiet = HeavyLock::acquire()?;
        let variants = options.variants.len();
        for turn in 0..variants.max(1) {
            let pair = repeat * variants.max(1) + turn;
            bar.set_message(format!("{}: selvedge", case.spec));
            result.ours.push(our_sample(case, &load, pair, &options.program)?);
            bar.inc(1);
            // Each repeat begins with another variant, so that none always has the machine's best moment.
            let Some(variant) = options.variants.get((turn + repeat) % variants.max(1)) else {
                continue;
            };
            bar.set_message(format!(
                "{}: OpenSM {}, window {}",
                case.spec, variant.engine, variant.window
            ));
            let machine_load = machine::load();
            let run = opensm::run(case, variant)?;
            result.peers.push(PeerSample {
                pair,
                variant: variant.clone(),
                run,
                load: machine_load,
            });
            bar.inc(1);
        }
    }
    Ok(result)
}

/// Counts the MADs of one run of Selvedge through a relay. The time of this run is not used, because the relay adds to
/// it.
fn count(case: &Case, program: &Path) -> Result<u64, BenchError> {
    let lab = PeerLab::new()?;
    let _simulator = lab.ibsim_sized(&case.net, case.size)?;
    let relay = lab.relay()?;
    ours::run(case, &lab, relay.base(), program)?;
    Ok(relay.sent().total())
}

/// One run of Selvedge on a fresh simulator, with blasts before and after.
fn our_sample(case: &Case, load: &Load, pair: usize, program: &Path) -> Result<OurSample, BenchError> {
    let lab = PeerLab::new()?;
    let _simulator = lab.ibsim_sized(&case.net, case.size)?;
    let machine_load = machine::load();
    let blast = |name| -> Result<Vec<Phase>, BenchError> {
        let mut port = IbsimPort::open(lab.base(), case.host_name())?;
        let blasts = load.all_windows(&mut port)?;
        Ok(blasts.into_iter().map(|blast| Phase { name, blast }).collect())
    };
    let mut blasts = blast("before")?;
    let run = ours::run(case, &lab, lab.base(), program)?;
    blasts.extend(blast("after")?);
    Ok(OurSample {
        pair,
        run,
        blasts,
        load: machine_load,
    })
}
