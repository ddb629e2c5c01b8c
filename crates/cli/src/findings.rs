//! Prints the judge's findings as text: the number of each kind, and the first few of each kind.

use std::fmt::Display;

use selvedge_api::{Finding, Findings, Severity};
use selvedge_topology::DumpWarning;
use selvedge_verify::Verdict;

use crate::exit::CliError;
use crate::out::{Facts, Grid, Out, count, thousands};

/// Number of findings of each kind that are listed as text, unless `--top` sets another.
pub const TOP: usize = 3;
/// The kind of findings about the files that are judged.
const INPUT: &str = "input";
/// Largest number of findings about files in --json and --csv.
const INPUTS_MAX: usize = 1_000;

/// The findings of one severity and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    severity: String,
    kind: String,
    /// Number of the group's findings, including those that no list contains.
    count: u64,
}

/// Returns the groups of a verdict, errors first.
pub fn groups(verdict: &Verdict) -> Vec<Group> {
    let group = |total: &selvedge_verify::Total| Group {
        severity: total.severity.to_string(),
        kind: total.kind.name().to_owned(),
        count: total.count,
    };
    verdict.totals.iter().map(group).collect()
}

/// Returns the groups of a list of findings, in its order.
pub fn groups_of(findings: &[Finding]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for finding in findings {
        let severity = finding.severity.to_string();
        match groups
            .iter_mut()
            .find(|g| g.severity == severity && g.kind == finding.kind)
        {
            Some(group) => group.count += 1,
            None => groups.push(Group {
                severity,
                kind: finding.kind.clone(),
                count: 1,
            }),
        }
    }
    groups
}

/// A warning of a reader about a file that is judged.
pub struct InputWarning {
    /// Code, a colon, and what is odd.
    text: String,
    /// True if values are unknown, so that no verdict is good.
    is_gap: bool,
}

impl InputWarning {
    /// Returns a warning that leaves no value unknown.
    pub fn odd(warning: impl Display) -> Self {
        Self {
            text: warning.to_string(),
            is_gap: false,
        }
    }

    /// Returns a warning about a dump.
    pub fn of_dump(warning: &DumpWarning) -> Self {
        Self {
            is_gap: warning.is_gap(),
            ..Self::odd(warning)
        }
    }

    fn finding(&self) -> Finding {
        let severity = if self.is_gap {
            Severity::Error
        } else {
            Severity::Warning
        };
        let (code, what) = self.text.split_once(": ").unwrap_or((&self.text, ""));
        Finding {
            code: code.to_owned(),
            kind: INPUT.to_owned(),
            severity,
            accepted: false,
            text: format!("{code} {severity}: {what}"),
            witness: String::new(),
            detail: serde_json::Value::Null,
        }
    }
}

/// Adds the warnings of readers in front of the judge's findings. Returns the groups with their numbers.
pub fn with_inputs(found: &mut Findings, mut groups: Vec<Group>, inputs: &[InputWarning]) -> Vec<Group> {
    for (severity, is_gap) in [(Severity::Warning, false), (Severity::Error, true)] {
        let alike = || inputs.iter().filter(|input| input.is_gap == is_gap);
        let count = alike().count() as u64;
        if count == 0 {
            continue;
        }
        match severity {
            Severity::Error => found.errors += count,
            _ => found.warnings += count,
        }
        let listed = alike().take(INPUTS_MAX).map(InputWarning::finding);
        let (severity, kind) = (severity.to_string(), INPUT.to_owned());
        let group = Group { severity, kind, count };
        // Errors stand first.
        let errors = found.findings.iter().take_while(|f| f.severity == Severity::Error);
        let at = if is_gap { 0 } else { errors.count() };
        found.findings.splice(at..at, listed);
        let errors = groups.iter().take_while(|g| g.severity == Severity::Error.to_string());
        let at = if is_gap { 0 } else { errors.count() };
        groups.insert(at, group);
    }
    found.ok &= found.errors == 0;
    groups
}

/// Returns the numbers of findings as figures.
pub fn counts(found: &Findings) -> Facts {
    let mut facts = Facts::new();
    facts.add("ok", found.ok);
    facts.add("errors", found.errors);
    facts.add("warnings", found.warnings);
    facts.add("infos", found.infos);
    facts
}

/// Prints the groups with at most `top` findings of each, then the verdict.
pub fn text(out: &mut Out, found: &Findings, groups: &[Group], top: usize) -> Result<(), CliError> {
    if !groups.is_empty() {
        out.line("")?;
        out.grid(&group_table(groups))?;
    }
    let listed = first_of_each(&found.findings, top);
    if !listed.is_empty() {
        out.line("")?;
        out.grid(&table(&listed))?;
    }
    let all: u64 = groups.iter().map(|group| group.count).sum();
    if all > listed.len() as u64 {
        out.line(format!(
            "\n{} of {} listed, at most {top} of a kind: --top N lists more, --json and --csv {}",
            thousands(listed.len() as u64),
            count(all, "finding"),
            thousands(found.findings.len() as u64),
        ))?;
    }
    let counts = [
        count(found.errors, "error"),
        count(found.warnings, "warning"),
        count(found.infos, "note"),
    ];
    let word = match found.ok {
        true => out.good("good"),
        false => out.bad("not good"),
    };
    let apart = apart(&found.figures).unwrap_or_default();
    out.line(format!("\njudged {word}: {}{apart}", counts.join(", ")))
}

/// Returns a text about host pairs that do not reach each other, from the judge's figures; `None` if all do.
fn apart(figures: &serde_json::Value) -> Option<String> {
    let figure = |name: &str| figures.get(name)?.as_u64();
    let (reached, pairs) = (figure("host_pairs_reached")?, figure("host_pairs")?);
    (reached != pairs).then(|| {
        format!(
            "; {} of {} host pairs reach each other, in {}",
            thousands(reached),
            thousands(pairs),
            count(figure("parts").unwrap_or_default(), "part")
        )
    })
}

fn group_table(groups: &[Group]) -> Grid {
    let mut grid = Grid::new(&["severity", "kind", "count"]);
    for group in groups {
        grid.row([(&group.severity).into(), (&group.kind).into(), group.count.into()]);
    }
    grid
}

/// Returns the first findings of each severity and kind, in the order of the list.
fn first_of_each(findings: &[Finding], top: usize) -> Vec<&Finding> {
    let mut listed: Vec<&Finding> = Vec::new();
    for finding in findings {
        let is_alike = |of: &&&Finding| (of.severity, &of.kind) == (finding.severity, &finding.kind);
        if listed.iter().filter(is_alike).count() < top {
            listed.push(finding);
        }
    }
    listed
}

fn table(findings: &[&Finding]) -> Grid {
    let mut grid = Grid::new(&["severity", "finding", "witness"]);
    for finding in findings {
        let accepted = if finding.accepted { " (accepted)" } else { "" };
        grid.row([
            format!("{}{accepted}", finding.severity).into(),
            (&finding.text).into(),
            (&finding.witness).into(),
        ]);
    }
    grid
}
