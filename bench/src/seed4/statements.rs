//! What the paper states beside what was found.

use selvedge_experiment::Summary;
use selvedge_hca::Transport;
use selvedge_messaging::{Policy, QpMemory};

use super::{of, sizes};
use crate::claims::{Claim, percent};

/// Lengths of messages that the paper's figures call small, medium and large.
const SMALL: [u32; 4] = [4, 64, 512, 1_024];
const MEDIUM: [u32; 4] = [2_048, 4_096, 8_192, 16_384];
const LARGE: [u32; 3] = [65_536, 262_144, 1_048_576];
/// Deviation up to which a share counts as met, as a share of the paper's value.
pub(super) const MET: f64 = 0.1;
/// Change of a latency that the paper would call small: it gives no number.
const LITTLE: f64 = 0.25;

/// Returns by how much a case is faster than another one: 1 means that the other one takes twice as long.
pub(super) fn gain(summary: &Summary, test: &str, case: &str, than: &str, bytes: u32) -> f64 {
    of(summary, test, than, bytes) / of(summary, test, case, bytes) - 1.0
}

/// Returns the largest value; one that is no number, if there is one.
fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NEG_INFINITY, |most, value| {
        if value > most || value.is_nan() { value } else { most }
    })
}

/// Returns the smallest value.
fn least(values: impl Iterator<Item = f64>) -> f64 {
    -most(values.map(|value| -value))
}

pub(super) fn claim(what: &str, paper: &str, ours: String, how: &'static str, is_met: bool) -> Claim {
    Claim {
        what: what.to_owned(),
        paper: paper.to_owned(),
        ours,
        how,
        is_met,
    }
}

fn up_to(what: &str, paper: f64, ours: f64, how: &'static str) -> Claim {
    let is_met = (ours / paper - 1.0).abs() <= MET;
    let (paper, ours) = (format!("up to {}", percent(paper)), format!("up to {}", percent(ours)));
    claim(what, &paper, ours, how, is_met)
}

pub(super) fn claims(summary: &Summary) -> Vec<Claim> {
    let mut all = inter(summary);
    all.extend(intra(summary));
    all.extend(by_weights(summary));
    all.extend(in_turn(summary));
    all.extend(datagrams(summary));
    all
}

fn inter(summary: &Summary) -> Vec<Claim> {
    let gain = |bytes| gain(summary, "inter", "load, priority", "load, same level", bytes);
    let small = most(SMALL.map(gain).into_iter());
    let large = most(LARGE.map(gain).into_iter());
    let each = SMALL.into_iter().chain(MEDIUM).chain(LARGE).map(gain);
    let lowest = least(each);
    vec![
        up_to("priority for the job, small messages: faster", 2.2, small, "fitted"),
        up_to("priority for the job, large messages: faster", 0.9, large, "predicted"),
        claim(
            "priority helps messages of every length",
            "yes",
            format!("at least {}", percent(lowest)),
            "predicted",
            lowest > 0.0,
        ),
        claim(
            "priority helps small messages more than large ones",
            "yes",
            format!("{} and {}", percent(small), percent(large)),
            "predicted",
            small > large,
        ),
    ]
}

fn intra(summary: &Summary) -> Vec<Claim> {
    let at = |case, bytes| of(summary, "intra", case, bytes);
    // Of what the load adds to a latency, the share that is left.
    let left = |bytes| {
        let idle = at("no load", bytes);
        (at("up to 1 KB first", bytes) - idle) / (at("load, one level", bytes) - idle)
    };
    let left = most(SMALL.map(left).into_iter());
    let slower = |bytes| -gain(summary, "intra", "up to 1 KB first", "load, one level", bytes);
    let slower = most(LARGE.map(slower).into_iter());
    let mut claims = vec![
        claim(
            "small messages first: their latency",
            "much lower",
            format!("{:.0} % of what the load adds is left", 100.0 * left),
            "predicted",
            left < 0.5,
        ),
        claim(
            "small messages first: large ones slow down",
            "not much",
            format!("by {:.0} % at most", 100.0 * slower),
            "predicted",
            slower < LITTLE,
        ),
    ];
    for (kb, longer) in [(1, 2_048), (2, 4_096), (4, 8_192), (8, 16_384)] {
        let case = format!("up to {kb} KB first");
        let gain = |bytes| gain(summary, "intra", &case, "load, one level", bytes);
        let (below, above) = (gain(kb * 1_024), gain(longer));
        claims.push(claim(
            &format!("lower latency holds up to a threshold of {kb} KB"),
            "yes",
            format!("{} there, {} above", percent(below), percent(above)),
            "predicted",
            below > 0.5 && above < below / 3.0,
        ));
    }
    claims
}

fn by_weights(summary: &Summary) -> Vec<Claim> {
    let block = LARGE[0];
    let slower = |case| of(summary, "weights", case, block) / of(summary, "weights", "S100-L100", block) - 1.0;
    let than_best = |what, case| {
        let slower = slower(case);
        claim(what, "worse", percent(slower), "predicted", slower > 0.0)
    };
    vec![
        than_best("S100-L10 beside S100-L100: time of a round", "S100-L10"),
        than_best("S100-L200 beside S100-L100: time of a round", "S100-L200"),
    ]
}

fn in_turn(summary: &Summary) -> Vec<Claim> {
    let gain = |case, bytes| gain(summary, "turns", case, "1 QP, 1 VL", bytes);
    let several = ["2 QPs, 2 VLs", "4 QPs, 4 VLs", "8 QPs, 8 VLs"];
    let mut claims = Vec::new();
    for case in ["2 QPs, 1 VL", "4 QPs, 1 VL", "8 QPs, 1 VL"] {
        let lengths = MEDIUM.into_iter().chain(LARGE);
        let mean = lengths.map(|bytes| gain(case, bytes)).sum::<f64>() / 7.0;
        claims.push(claim(
            &format!("{case}, medium and large messages on average"),
            "worse than 1 QP",
            percent(mean),
            "predicted",
            mean < 0.0,
        ));
    }
    let large = most(
        several
            .into_iter()
            .flat_map(|case| LARGE.map(|bytes| gain(case, bytes))),
    );
    let times = std::iter::once("1 QP, 1 VL").chain(several);
    let times: Vec<f64> = times.map(|case| of(summary, "turns", case, LARGE[2])).collect();
    let medium = most(
        several
            .into_iter()
            .flat_map(|case| MEDIUM.map(|bytes| gain(case, bytes))),
    );
    let worst = least(
        several
            .into_iter()
            .flat_map(|case| MEDIUM.map(|bytes| gain(case, bytes))),
    );
    let steps: Vec<String> = times.iter().map(|ps| format!("{ps:.0}")).collect();
    claims.extend([
        up_to("as many VLs as QPs, large messages: faster", 0.45, large, "fitted"),
        claim(
            "latency of 1 MB by 1, 2, 4, 8 QPs and VLs",
            "decreases each time",
            format!("{} µs", steps.join(", ")),
            "predicted",
            times.windows(2).all(|two| two[1] < two[0]),
        ),
        claim(
            "as many VLs as QPs, medium messages",
            "faster",
            format!("{} to {}", percent(worst), percent(medium)),
            "predicted",
            worst > 0.0,
        ),
    ]);
    claims
}

/// Peers of a process for which memory is stated.
const PEERS: u64 = 1_024;

fn datagrams(summary: &Summary) -> Vec<Claim> {
    let differs = |bytes| -gain(summary, "intra", "up to 1 KB first, UD", "up to 1 KB first", bytes);
    let differs = most(SMALL.map(|bytes| differs(bytes).abs()).into_iter());
    let bytes = |transport| {
        let policy = Policy::new(sizes(&[1_024]), transport);
        policy.map_or(f64::NAN, |policy| QpMemory::default().of(&policy, PEERS) as f64)
    };
    let [rc, ud] = [Transport::Rc, Transport::Ud].map(bytes);
    vec![
        claim(
            "UD with the level per message: latency of small messages",
            "future work",
            format!("within {:.0} % of RC with two queue pairs", 100.0 * differs),
            "predicted",
            differs < MET,
        ),
        claim(
            &format!("memory of queue pairs for {PEERS} peers, two classes"),
            "future work: UD to save",
            format!("RC {:.1} MB, UD {:.2} MB", rc / 1e6, ud / 1e6),
            "from stated sizes",
            ud * 10.0 < rc,
        ),
    ]
}
