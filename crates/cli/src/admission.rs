//! The result of a configuration check: applied by a start, and shown to people.

use std::path::Path;

use selvedge_api as api;
use selvedge_config::{Finding, SettingsFile, Treatment, Verdict, print_settings};
use selvedge_daemon::config_line;

use crate::config::values;
use crate::exit::{CliError, Exit};
use crate::out::{Cell, Format, Grid, Out, count, note};

/// Adds the mistakes in flags that give no setting: each flag with the result of its check.
pub fn with_flags<const N: usize>(mut verdict: Verdict, flags: [(&str, Result<(), CliError>); N]) -> Verdict {
    for (flag, checked) in flags {
        if let Err(error) = checked {
            verdict.refuse_flag(flag, error.to_string());
        }
    }
    verdict
}

/// Returns the settings that a process starts with, and prints warnings to standard error. If there are findings that
/// prevent the start, returns all of them in one error.
pub fn start(verdict: Verdict) -> Result<Verdict, CliError> {
    let file = verdict.file.path();
    for found in verdict.warnings() {
        note(format!("selvedge: warning: {}", found.in_words(file)));
    }
    let refused: Vec<String> = verdict.refused().map(|f| format!("{} {}", f.name, f.value)).collect();
    let path = file.map(Path::to_path_buf).unwrap_or_default();
    if verdict.is_ok() {
        if !refused.is_empty() {
            note(format!(
                "selvedge: warning: {}: continues without these options, which Selvedge does not support: {}",
                path.display(),
                refused.join(", ")
            ));
        }
        return Ok(verdict);
    }
    let wrong = verdict.stops().filter(|found| found.treatment != Treatment::Refused);
    let mut errors: Vec<String> = wrong.map(|found| found.error.clone()).collect();
    if verdict.stops().any(|found| found.treatment == Treatment::Refused) {
        let options = refused.join(", ");
        errors.push(CliError::OpenSmRefused { path, options }.to_string());
    }
    Err(CliError::NotAdmitted { errors })
}

/// Returns the exit code of a check: 1 if Selvedge cannot honour an option, 2 if something is wrong.
pub fn exit(verdict: &Verdict) -> Exit {
    match verdict.stops().any(|found| found.treatment != Treatment::Refused) {
        true => Exit::Usage,
        false if verdict.is_ok() => Exit::Good,
        false => Exit::NotGood,
    }
}

/// Prints the findings of a check, line by line, and the settings.
pub fn show(verdict: &Verdict, format: Format) -> Result<Exit, CliError> {
    if !format.json {
        complain_of(verdict);
    }
    let mut out = Out::new(format);
    match &verdict.file {
        SettingsFile::OpenSm(path) => of_opensm(verdict, path, &mut out)?,
        SettingsFile::None | SettingsFile::Toml(_) => {
            if format.json {
                out.document(api::Settings {
                    settings: values(&verdict.settings),
                    ok: verdict.is_ok(),
                    findings: verdict.findings.iter().map(config_line).collect(),
                })?;
            } else if !verdict.is_ok() {
                out.grid(&grid(verdict.findings.iter().map(config_line)))?;
            } else if format.csv {
                out.grid(&settings(verdict))?;
            } else {
                out.write(&print_settings(&verdict.settings))?;
            }
        }
    }
    out.flush()?;
    Ok(exit(verdict))
}

fn of_opensm(verdict: &Verdict, path: &Path, out: &mut Out) -> Result<(), CliError> {
    let (shown, plain): (Vec<&Finding>, Vec<&Finding>) = verdict
        .findings
        .iter()
        .partition(|f| f.treatment != Treatment::Default || !f.why.is_empty());
    let defaults = plain.len() as u64;
    let lines = shown.into_iter().map(config_line);
    if out.format().json {
        return out.document(api::OpenSmCheck {
            file: path.display().to_string(),
            ok: exit(verdict) == Exit::Good,
            options: lines.collect(),
            defaults,
            settings: values(&verdict.settings),
        });
    }
    out.grid(&grid(lines))?;
    if out.format().csv {
        return Ok(());
    }
    let defaults = count(defaults, "line");
    out.line(format!("\n{defaults} with OpenSM's default, which Selvedge uses too"))?;
    let refused = verdict.refused().count() as u64;
    let wrong = verdict.stops().filter(|f| f.treatment != Treatment::Refused).count() as u64;
    let words = match (refused, wrong) {
        (0, 0) => out.good("can take its place"),
        (_, 0) if verdict.is_ok() => out.good(&format!(
            "can take its place, without {} that Selvedge does not support",
            count(refused, "option")
        )),
        (_, 0) => out.bad(&format!("{} that Selvedge does not support", count(refused, "option"))),
        (0, _) => out.bad(&format!("{} wrong", count(wrong, "line"))),
        _ => out.bad(&format!(
            "{} that Selvedge does not support, {} wrong",
            count(refused, "option"),
            count(wrong, "line")
        )),
    };
    out.line(words)
}

/// Returns a table of every key that has a value.
fn settings(verdict: &Verdict) -> Grid {
    let mut grid = Grid::new(&["key", "value"]);
    for (key, value) in values(&verdict.settings) {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        grid.row([key.into(), value.into()]);
    }
    grid
}

/// Returns a table of findings.
pub fn grid(lines: impl Iterator<Item = api::OpenSmLine>) -> Grid {
    let mut grid = Grid::new(&["line", "option", "value", "becomes", "here", "why"]);
    for line in lines {
        grid.row([
            Cell::id(line.line),
            line.option.into(),
            line.value.into(),
            line.treatment.into(),
            line.key.unwrap_or_default().into(),
            line.why.into(),
        ]);
    }
    grid
}

/// Prints errors to standard error, and the warnings about a Selvedge file. Warnings about OpenSM's file are left out,
/// because each has a line in the table.
fn complain_of(verdict: &Verdict) {
    for found in verdict.stops().filter(|found| found.treatment != Treatment::Refused) {
        note(&found.error);
    }
    if !matches!(verdict.file, SettingsFile::OpenSm(_)) {
        for found in verdict.warnings() {
            note(format!("selvedge: warning: {}", found.in_words(verdict.file.path())));
        }
    }
}

/// Prints a running manager's findings to standard error.
pub fn complain(check: &api::Check) {
    for found in &check.findings {
        match &found.error[..] {
            "" => note(format!(
                "selvedge: {}: {}: {}",
                found.option, found.treatment, found.why
            )),
            error => note(error),
        }
    }
}

#[cfg(test)]
mod generated;
