//! Settings in a record: text as in a configuration file, with the list of places out of service.

use std::path::Path;
use std::sync::Arc;

use selvedge_config::{Settings, parse, print_settings_with_keys};
use selvedge_plan::OutOfService;

/// Prefix of a line that lists a place out of service, below the settings. Readers of settings skip it as a comment.
const LISTED: &str = "#out-of-service ";

/// Returns settings as text, with the places out of service.
pub(super) fn settings_text(settings: &Settings) -> String {
    let mut text = print_settings_with_keys(settings);
    for line in settings.policy.out_of_service.to_text().lines() {
        text += &format!("\n{LISTED}{line}");
    }
    text
}

/// Reads such a text.
pub(super) fn settings_of(text: &str, what: &str) -> Result<Settings, String> {
    let mut settings = parse(text, Path::new(what)).map_err(|error| error.to_string())?;
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(LISTED)).collect();
    let list = OutOfService::parse(&lines.join("\n"));
    let list = list.map_err(|(line, fault)| format!("{what}: place {line} out of service: {fault}"))?;
    settings.policy.out_of_service = Arc::new(list);
    Ok(settings)
}
