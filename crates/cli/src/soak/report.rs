//! The output of `selvedge soak` about a run.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_api::{Soak, SoakCoverage, SoakExemption, SoakFailure, SoakReal, SoakRealFinding, SoakRealRun};
use selvedge_rehearsal::soak::{Family, Kind, STAGES, Totals, stage_word};

use crate::exit::CliError;
use crate::out::{Cell, Facts, Grid, Out, thousands};
use crate::soak::real::Run;

/// Returns the totals of a run as the document that JSON shows.
pub fn document(totals: &Totals) -> Soak {
    let mut counts: BTreeMap<String, Vec<Vec<u64>>> = BTreeMap::new();
    let has_changes = totals.coverage.keys().any(|(kind, ..)| Kind::CHANGES.contains(kind));
    let changes = Kind::CHANGES.into_iter().filter(|_| has_changes);
    for kind in Kind::ALL.into_iter().chain(changes) {
        counts.insert(kind.name().to_owned(), vec![vec![0; Family::ALL.len()]; STAGES.len()]);
    }
    for (&(kind, stage, family), &count) in &totals.coverage {
        let row = counts
            .get_mut(kind.name())
            .and_then(|rows| rows.get_mut(usize::from(stage)));
        let cell = row.and_then(|row| row.get_mut(family as usize));
        cell.into_iter().for_each(|cell| *cell += count);
    }
    let exemptions = totals
        .exemptions
        .iter()
        .map(|(&(checker, rule), &count)| SoakExemption {
            checker: checker.name().to_owned(),
            rule: rule.name().to_owned(),
            count,
        });
    let failures = totals.failures.iter().map(|(&seed, failure)| SoakFailure {
        seed,
        what: failure.what.clone(),
    });
    Soak {
        schedules: totals.schedules,
        happenings: totals.happenings,
        sets: totals.sets,
        looks: totals.looks,
        known: totals.known,
        store_failures: totals.store_failures,
        virtual_s: totals.virtual_ns as f64 / 1e9,
        failures: failures.collect(),
        exemptions: exemptions.collect(),
        coverage: SoakCoverage {
            stages: STAGES.map(|stage| stage_word(stage).to_owned()).to_vec(),
            families: Family::ALL.map(|family| family.name().to_owned()).to_vec(),
            counts,
        },
        ..Soak::default()
    }
}

/// Prints a run.
pub fn show(out: &mut Out, all: &Soak) -> Result<(), CliError> {
    if out.format().csv {
        return out.facts(&figures(all));
    }
    for (name, value) in head(all) {
        out.line(format!("{name:<11} {value}"))?;
    }
    out.line("")?;
    let coverage = &all.coverage;
    let (stages, families) = tables(coverage);
    out.grid(&stages)?;
    out.line("")?;
    out.grid(&families)?;
    out.line("")?;
    for line in unmet(coverage) {
        out.line(line)?;
    }
    out.line("")?;
    out.grid(&excused(all))?;
    out.line("")?;
    for failure in &all.failures {
        let seed = out.bad(&format!("seed {}", failure.seed));
        out.line(format!("{seed}: {}", failure.what))?;
    }
    let verdict = match all.failures.len() {
        0 => out.good("no violation"),
        count => out.bad(&format!("{count} schedules with a violation")),
    };
    out.line(verdict)
}

/// Returns the totals of a run; JSON has the details.
fn figures(all: &Soak) -> Facts {
    let mut facts = Facts::new();
    facts.add("from", Cell::id(all.from));
    facts.add("to", Cell::id(all.to));
    facts.add("sa", all.sa);
    facts.add("schedules", all.schedules);
    facts.add("schedules_with_violations", all.failures.len());
    facts.add("happenings", all.happenings);
    facts.add("sets", all.sets);
    facts.add("looks", all.looks);
    facts.add("known", all.known);
    facts.add("combinations_met", all.coverage.met());
    facts.add("combinations", all.coverage.cells());
    facts.add("virtual_s", Cell::Real(all.virtual_s, 0));
    facts.add("cpu_ms", Cell::Real(all.cpu_ms, 1));
    facts.add("jobs", all.jobs);
    facts
}

/// Returns the page of a run.
pub fn page(all: &Soak, command: &str) -> String {
    let mut text = format!(
        "# Simulated disasters: seeds {}..{}\n\n| what | value |\n|---|---|\n",
        all.from, all.to
    );
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!("| command | `{command}` |"));
    for (name, value) in head(all) {
        line(format!("| {name} | {value} |"));
    }
    let mut by_code: BTreeMap<&str, Vec<&SoakFailure>> = BTreeMap::new();
    for failure in &all.failures {
        by_code.entry(code(&failure.what)).or_default().push(failure);
    }
    line("\n## What the checkers found\n".to_owned());
    if by_code.is_empty() {
        line("Nothing.".to_owned());
    } else {
        line("| code | seeds | the first of them | what the first is |\n|---|---|---|---|".to_owned());
    }
    for (code, failures) in by_code {
        let seeds: Vec<String> = failures.iter().take(SEEDS_SHOWN).map(|f| f.seed.to_string()).collect();
        let what = failures.first().map_or("", |f| f.what.as_str()).replace('|', "\\|");
        line(format!(
            "| {code} | {} | {} | {what} |",
            failures.len(),
            seeds.join(" ")
        ));
    }
    line("\n## What was excused\n".to_owned());
    line("| checker | rule | times |\n|---|---|---|".to_owned());
    for e in &all.exemptions {
        line(format!("| {} | {} | {} |", e.checker, e.rule, thousands(e.count)));
    }
    line("\n## What happened in which stage of the master\n".to_owned());
    let (stages, families) = tables(&all.coverage);
    line(stages.markdown());
    line("\n## What happened in which family of fabrics\n".to_owned());
    line(families.markdown());
    unmet(&all.coverage).into_iter().for_each(line);
    text
}

/// Number of seeds of one code that a page lists.
const SEEDS_SHOWN: usize = 40;

/// Returns the last code in the text of a violation. It identifies the violation.
fn code(what: &str) -> &str {
    let after_time = what.split("SLV-REHEARSAL-").filter(|part| !part.starts_with("0005"));
    after_time.last().and_then(|part| part.get(..4)).unwrap_or("other")
}

fn head(all: &Soak) -> [(&'static str, String); 6] {
    let mean = all.cpu_ms / all.schedules.max(1) as f64;
    let (happenings, sets, looks) = (thousands(all.happenings), thousands(all.sets), thousands(all.looks));
    let known = thousands(all.known);
    let refused = match all.store_faults {
        true => format!("{} calls refused by disks; ", thousands(all.store_failures)),
        false => String::new(),
    };
    [
        ("program", format!("{}, file {}", all.program, all.binary)),
        (
            "machine",
            format!("{}, {} threads, {:.2} thread hours", all.machine, all.jobs, all.hours),
        ),
        (
            "schedules",
            format!(
                "{} (of seeds {}..{}{}{}{}), {mean:.1} ms of processor time each",
                thousands(all.schedules),
                all.from,
                all.to,
                if all.sa {
                    ", with clients of subnet administration"
                } else {
                    ""
                },
                if all.store_faults { ", with disks that fail" } else { "" },
                if all.changes {
                    ", with changes of the operator"
                } else {
                    ""
                }
            ),
        ),
        (
            "happenings",
            format!(
                "{happenings}; {sets} Sets taken; {known} repairs worked out before; {refused}the checkers looked \
                 {looks} times"
            ),
        ),
        ("virtual", format!("{:.1} days", all.virtual_s / 86_400.0)),
        (
            "violations",
            format!("in {} of {} schedules", all.failures.len(), thousands(all.schedules)),
        ),
    ]
}

/// Returns two tables of the kinds of events: how often each happened in each stage, and on each family of fabrics.
fn tables(coverage: &SoakCoverage) -> (Grid, Grid) {
    let mut stages = Grid::new(&[
        "happening",
        "idle",
        "discover",
        "reading",
        "planning",
        "storing",
        "applying",
        "light",
        "probing",
    ]);
    let mut families = Grid::new(&[
        "happening",
        "tree2",
        "tree3",
        "random",
        "torus",
        "mesh",
        "ring",
        "rails",
        "odd",
    ]);
    for kind in coverage.counts.keys() {
        let cells = |count: &dyn Fn(usize) -> u64| {
            let counts = (0..STAGES.len()).map(|i| count(i).into());
            std::iter::once(Cell::from(kind)).chain(counts).collect::<Vec<_>>()
        };
        stages.add(cells(&|i| coverage.in_stage(kind, i)));
        families.add(cells(&|i| coverage.in_family(kind, i)));
    }
    (stages, families)
}

/// Returns how much of kind × stage × family was covered, and which kinds never happened in which stages.
fn unmet(coverage: &SoakCoverage) -> Vec<String> {
    let mut lines = vec![format!(
        "met: {} of {} combinations of kind, stage and family",
        coverage.met(),
        coverage.cells()
    )];
    for (kind, rows) in &coverage.counts {
        let never = |i: &usize| rows.get(*i).is_none_or(|row| row.iter().all(|count| *count == 0));
        let stages: Vec<&str> = (0..coverage.stages.len())
            .filter(never)
            .filter_map(|i| coverage.stages.get(i).map(String::as_str))
            .collect();
        if !stages.is_empty() {
            lines.push(format!("never met: {kind} in {}", stages.join(", ")));
        }
    }
    lines
}

fn excused(all: &Soak) -> Grid {
    let mut excused = Grid::new(&["checker", "excused_by", "times"]);
    for e in &all.exemptions {
        excused.row([(&e.checker).into(), (&e.rule).into(), e.count.into()]);
    }
    excused
}

/// Returns a run in real time, in the form of a report.
pub fn real_run(run: &Run) -> SoakRealRun {
    let mut report = SoakRealRun {
        seed: run.seed,
        fabric: run.fabric.clone(),
        ..SoakRealRun::default()
    };
    let outcome = match &run.outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            report.error = Some(error.clone());
            return report;
        }
    };
    report.happenings = outcome.happenings.values().sum();
    report.crashes.clone_from(&outcome.crashes);
    report.sets = outcome.sets;
    report.virtual_s = outcome.ended.0 as f64 / 1e9;
    report.looping_s = outcome.looping.as_secs_f64();
    report.findings = outcome
        .findings
        .iter()
        .map(|(checker, found)| SoakRealFinding {
            checker: checker.name().to_owned(),
            count: found.count,
            first: found.first.clone(),
        })
        .collect();
    report.exemptions = outcome
        .exemptions
        .iter()
        .map(|(&(checker, rule), &count)| SoakExemption {
            checker: checker.name().to_owned(),
            rule: rule.name().to_owned(),
            count,
        })
        .collect();
    for (when, result) in &outcome.converged {
        report.converged_s.push(result.as_ref().ok().map(Duration::as_secs_f64));
        report
            .trouble
            .extend(result.as_ref().err().map(|what| format!("{when}: {what}")));
    }
    report
}

/// Returns a table with one row for each run in real time.
fn real_runs(report: &SoakReal) -> Grid {
    let keys = [
        "seed",
        "fabric",
        "events",
        "virtual_s",
        "sets",
        "crashes",
        "looping_s",
        "converged_after_s",
        "converged_mended_s",
        "found",
    ];
    let mut runs = Grid::new(&keys);
    for run in &report.runs {
        let seconds = |place: usize| match run.converged_s.get(place) {
            Some(Some(seconds)) => Cell::Real(*seconds, 1),
            Some(None) | None => Cell::None,
        };
        let found: Vec<String> = run
            .findings
            .iter()
            .map(|f| format!("{}: {}", f.checker, f.count))
            .collect();
        runs.row([
            Cell::id(run.seed),
            (&run.fabric).into(),
            run.happenings.into(),
            Cell::Real(run.virtual_s, 0),
            run.sets.into(),
            run.crashes.len().into(),
            Cell::Real(run.looping_s, 3),
            seconds(0),
            seconds(1),
            found.join(", ").into(),
        ]);
    }
    runs
}

/// Prints the results of runs in real time.
pub fn show_real(out: &mut Out, report: &SoakReal) -> Result<(), CliError> {
    if out.format().csv {
        return out.grid(&real_runs(report));
    }
    out.line(format!("manager  {}", report.manager))?;
    out.line(format!("program  {}", report.program))?;
    out.line(format!("machine  {}", report.machine))?;
    out.line(format!(
        "time     real: one second for {} s of a schedule",
        report.speed
    ))?;
    out.line("")?;
    out.grid(&real_runs(report))?;
    out.line("")?;
    out.grid(&found_real(report))?;
    out.line("")?;
    for run in &report.runs {
        let seed = run.seed;
        for what in &run.crashes {
            out.line(format!("seed {seed}: {} ended by itself {what}", report.manager))?;
        }
        for what in run.error.iter().chain(&run.trouble) {
            out.line(format!("seed {seed}: {what}"))?;
        }
        for finding in &run.findings {
            out.line(format!("seed {seed}: first of {}: {}", finding.count, finding.first))?;
        }
    }
    Ok(())
}

/// Returns a table of the violations of all runs, and of the rules that excused them.
fn found_real(report: &SoakReal) -> Grid {
    let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for run in &report.runs {
        for f in &run.findings {
            *sums.entry((&f.checker, "")).or_default() += f.count;
        }
        for e in &run.exemptions {
            *sums.entry((&e.checker, &e.rule)).or_default() += e.count;
        }
    }
    let mut table = Grid::new(&["checker", "excused_by", "times"]);
    for ((checker, rule), count) in sums {
        let rule = if rule.is_empty() { "nothing" } else { rule };
        table.row([checker.into(), rule.into(), count.into()]);
    }
    table
}
