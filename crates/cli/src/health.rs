//! `selvedge health` shows the verdict of a running manager; `selvedge forget` removes nodes and links from its list of
//! missing ones.

use clap::Args;
use selvedge_api::{Condition, ForgetRequest, Health};
use selvedge_daemon::utc_text;

use crate::ask::AskArgs;
use crate::exit::{CliError, Exit};
use crate::out::{Cell, Facts, Format, Grid, Out};

/// Show in one line whether a running manager and its subnet are well; exit codes of Nagios plugins: 0 OK, 1 WARNING, 2
/// CRITICAL, 3 UNKNOWN
#[derive(Args, Debug)]
pub struct HealthArgs {
    #[command(flatten)]
    ask: AskArgs,
}

impl HealthArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.ask.json()
    }
}

/// Runs `selvedge health`.
pub fn run(args: &HealthArgs) -> Result<Exit, CliError> {
    let health: Health = args.ask.client().get("health")?;
    let exit = Exit::of_nagios(health.nagios_code);
    args.ask.print(health, plugin_lines)?;
    Ok(exit)
}

/// Returns the line of a Nagios plugin, and a line for each condition.
fn plugin_lines(health: &Health) -> Vec<String> {
    let word = match Exit::of_nagios(health.nagios_code) {
        Exit::Good => "OK",
        Exit::NotGood => "WARNING",
        Exit::Usage => "CRITICAL",
        _ => "UNKNOWN",
    };
    let (warnings, errors) = counts(health);
    let verdict = format!(
        "SELVEDGE {word} - {} | warnings={warnings} errors={errors}",
        health.summary
    );
    let conditions = health.conditions.iter();
    let conditions = conditions.map(|condition| format!("{}; {}", condition.text, condition.evidence));
    [verdict].into_iter().chain(conditions).collect()
}

fn counts(health: &Health) -> (usize, usize) {
    let errors = health
        .conditions
        .iter()
        .filter(|of| of.severity == selvedge_api::Severity::Error);
    let errors = errors.count();
    (health.conditions.len() - errors, errors)
}

/// Take something off the list of what is missing: it is gone for good
#[derive(Args, Debug)]
pub struct ForgetArgs {
    /// A node by name or GUID, or a link by one of its ends: node and port
    #[arg(
        value_name = "NAME",
        help = "A node by name or GUID, or a link by one of its ends, as '\"leaf 1\"[3]'"
    )]
    name: String,
    #[command(flatten)]
    ask: AskArgs,
}

impl ForgetArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.ask.json()
    }
}

/// Runs `selvedge forget`.
pub fn forget(args: &ForgetArgs) -> Result<Exit, CliError> {
    let name = args.name.clone();
    let answer = args.ask.client().forget(&ForgetRequest { name })?;
    args.ask.print(answer, |answer| {
        let forgotten = answer.forgotten.iter();
        forgotten.map(|what| format!("forgotten: {what}")).collect()
    })?;
    Ok(Exit::Good)
}

/// Returns conditions as a table.
pub fn conditions(health: &Health) -> Grid {
    let mut grid = Grid::new(&["severity", "since", "code", "condition", "evidence", "clears"]);
    for condition in &health.conditions {
        grid.row([
            condition.severity.to_string().into(),
            utc_text(condition.since_ms).into(),
            (&condition.code).into(),
            (&condition.text).into(),
            (&condition.evidence).into(),
            (&condition.clears).into(),
        ]);
    }
    grid.lose_first(&["clears", "code"])
}

/// Returns the conditions as text, three lines each.
pub fn text(conditions: &[Condition]) -> Vec<String> {
    let lines = |condition: &Condition| {
        let Condition {
            severity,
            text,
            since_ms,
            evidence,
            clears,
            ..
        } = condition;
        let mut lines = vec![format!("{severity}: {text}, since {}", utc_text(*since_ms))];
        if !evidence.is_empty() {
            lines.push(format!("    evidence: {evidence}"));
        }
        lines.push(format!("    cleared when: {clears}"));
        lines
    };
    conditions.iter().flat_map(lines).collect()
}

/// Adds the verdict to the figures of a status.
pub fn verdict(health: &Health, facts: &mut Facts) {
    facts.several(
        "state",
        health.summary.clone(),
        [
            ("verdict", (&health.verdict).into()),
            ("conditions", Cell::id(health.count)),
        ],
    );
}

/// Largest number of conditions that a summary lists; the others are counted.
const LISTED: usize = 8;

/// Prints the first conditions below a summary.
pub fn list(out: &mut Out, health: &Health, format: Format) -> Result<(), CliError> {
    if health.conditions.is_empty() || !format.is_text() {
        return Ok(());
    }
    out.line("")?;
    let listed = &health.conditions[..health.conditions.len().min(LISTED)];
    for line in text(listed) {
        out.line(line)?;
    }
    let more = health.count.saturating_sub(listed.len() as u64);
    if more > 0 {
        out.line(format!("and {more} more: 'selvedge status conditions' lists all"))?;
    }
    Ok(())
}
