//! `selvedge soak --digest`: carries resolved schedules out and compares their digests with stored ones.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use selvedge_api::{SoakDifference, SoakDigest, SoakDigests};
use selvedge_rehearsal::soak::{DigestLine, Nobody, Resolved};

use super::{PANICKED, SoakArgs, bar, generated, program};
use crate::exit::{CliError, Exit};
use crate::load;
use crate::out::{Grid, Out, thousands};

/// The outcome of one schedule.
struct Replayed {
    line: DigestLine,
    /// The violation that a checker found.
    failure: Option<String>,
    /// The text from which the digests are computed, if requested.
    wire: Vec<String>,
}

/// Runs the command.
pub fn run(args: &SoakArgs, path: &Path) -> Result<Exit, CliError> {
    let text = load::text_bytes(path)?;
    let mut schedules = Resolved::read_all(&String::from_utf8_lossy(&text))?;
    if let Some(seeds) = &args.seeds {
        schedules.retain(|resolved| seeds.0.contains(&resolved.schedule.seed));
    }
    let stored = match &args.against {
        Some(path) => Some(stored(path)?),
        None => None,
    };
    let replayed = replay_all(&schedules, args.threads(), args.wire);
    let differ: Vec<SoakDifference> = match &stored {
        Some(stored) => replayed.iter().filter_map(|one| difference(one, stored)).collect(),
        None => Vec::new(),
    };
    let is_good = differ.is_empty() && replayed.iter().all(|one| one.failure.is_none());
    let mut out = Out::new(args.format);
    if args.format.json {
        out.document(SoakDigests {
            program: program(),
            schedules: replayed.iter().map(document).collect(),
            differ,
        })?;
    } else if args.format.csv {
        out.grid(&grid(&replayed, &differ))?;
    } else {
        show(&mut out, &replayed, stored.is_some().then_some(&differ))?;
    }
    out.flush()?;
    Ok(if is_good { Exit::Good } else { Exit::NotGood })
}

/// Reads stored digests, by name.
fn stored(path: &Path) -> Result<BTreeMap<String, DigestLine>, CliError> {
    let text = load::text_bytes(path)?;
    let lines = DigestLine::read_all(&String::from_utf8_lossy(&text))?;
    Ok(lines.into_iter().map(|line| (line.name.clone(), line)).collect())
}

/// Replays all schedules with this number of threads; the results are in the order of the schedules.
fn replay_all(schedules: &[Resolved], threads: usize, wants_wire: bool) -> Vec<Replayed> {
    let bar = bar(schedules.len() as u64);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(resolved) = schedules.get(number) else { return };
                    let replayed = replay(resolved, wants_wire);
                    done.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .insert(number, replayed);
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.into_values().collect()
}

fn replay(resolved: &Resolved, wants_wire: bool) -> Replayed {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let fabric = generated(&resolved.schedule.fabric)?;
        Ok::<_, String>(match wants_wire {
            true => resolved.replay_wire(&fabric),
            false => (resolved.replay(&fabric, &mut Nobody), Vec::new()),
        })
    }));
    let (digests, failure, wire) = match ran {
        Ok(Ok((outcome, wire))) => (outcome.digests, outcome.failure.map(|failure| failure.what), wire),
        Ok(Err(error)) => (Default::default(), Some(error), Vec::new()),
        Err(_) => (Default::default(), Some(PANICKED.to_owned()), Vec::new()),
    };
    Replayed {
        line: resolved.line(digests),
        failure,
        wire,
    }
}

/// Returns which digests of a schedule differ from the stored ones, if any do.
fn difference(one: &Replayed, stored: &BTreeMap<String, DigestLine>) -> Option<SoakDifference> {
    let line = &one.line;
    let digests = match stored.get(&line.name) {
        None => vec!["stored"],
        Some(stored) => [
            ("schedule", stored.schedule != line.schedule),
            ("wire", stored.digests.wire != line.digests.wire),
            ("end", stored.digests.end != line.digests.end),
        ]
        .into_iter()
        .filter_map(|(name, differs)| differs.then_some(name))
        .collect(),
    };
    (!digests.is_empty()).then(|| SoakDifference {
        name: line.name.clone(),
        digests: digests.into_iter().map(str::to_owned).collect(),
    })
}

fn document(one: &Replayed) -> SoakDigest {
    let line = &one.line;
    SoakDigest {
        name: line.name.clone(),
        schedule: format!("{:016x}", line.schedule),
        wire: format!("{:016x}", line.digests.wire),
        end: format!("{:016x}", line.digests.end),
        failure: one.failure.clone(),
    }
}

fn grid(replayed: &[Replayed], differ: &[SoakDifference]) -> Grid {
    let mut grid = Grid::new(&["name", "schedule", "wire", "end", "differs", "failure"]);
    for one in replayed {
        let SoakDigest {
            name,
            schedule,
            wire,
            end,
            failure,
        } = document(one);
        let differs = differ.iter().find(|difference| difference.name == name);
        let differs = differs.map_or_else(String::new, |difference| difference.digests.join(" "));
        grid.row([
            name.into(),
            schedule.into(),
            wire.into(),
            end.into(),
            differs.into(),
            failure.unwrap_or_default().into(),
        ]);
    }
    grid
}

/// Prints all digests in the form in which they are stored, or the differences.
fn show(out: &mut Out, replayed: &[Replayed], differ: Option<&Vec<SoakDifference>>) -> Result<(), CliError> {
    for one in replayed {
        if let Some(what) = &one.failure {
            let name = out.bad(&one.line.name);
            out.line(format!("# {name}: {what}"))?;
        }
    }
    let Some(differ) = differ else {
        out.line(format!("# {}: name, schedule, wire, end", program()))?;
        for one in replayed {
            one.wire.iter().try_for_each(|line| out.line(format!("# {line}")))?;
            out.line(one.line.to_string())?;
        }
        return Ok(());
    };
    for difference in differ {
        let name = out.bad(&difference.name);
        out.line(format!("{name}: another {}", difference.digests.join(", another ")))?;
    }
    let (differ, all) = (thousands(differ.len() as u64), thousands(replayed.len() as u64));
    let verdict = format!("{differ} of {all} schedules differ");
    let verdict = match differ == "0" {
        true => out.good(&verdict),
        false => out.bad(&verdict),
    };
    out.line(verdict)
}
