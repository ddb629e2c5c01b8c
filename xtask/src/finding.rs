//! The finding of a tool: place, rule, fault and advice.

use std::fmt;
use std::process::ExitCode;

/// One fault that a rule has found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the workspace root; empty if no file is to blame.
    pub file: String,
    /// Line, counted from 1; 0 if the finding is about the whole file.
    pub line: usize,
    /// Name of the rule.
    pub rule: &'static str,
    /// The fault.
    pub what: String,
    /// The advice: what to do.
    pub advice: String,
}

impl Finding {
    /// A finding at a line of a file.
    pub fn new(
        rule: &'static str,
        file: impl Into<String>,
        line: usize,
        what: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            file: file.into(),
            line,
            rule,
            what: what.into(),
            advice: advice.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = if self.file.is_empty() { "workspace" } else { &self.file };
        match self.line {
            0 => write!(f, "{file}: ")?,
            line => write!(f, "{file}:{line}: ")?,
        }
        write!(f, "{}: {}; {}", self.rule, self.what, self.advice)
    }
}

/// Prints the findings. Returns failure if there are any.
pub fn report(step: &str, findings: &[Finding]) -> ExitCode {
    for finding in findings {
        println!("{finding}");
    }
    println!("{step}: {} findings", findings.len());
    if findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_where_what_and_what_to_do() {
        let check = |line, want: &str| assert_eq!(Finding::new("r", "a.rs", line, "bad", "fix").to_string(), want);
        check(7, "a.rs:7: r: bad; fix");
        check(0, "a.rs: r: bad; fix");
        assert_eq!(
            Finding::new("r", "", 0, "bad", "fix").to_string(),
            "workspace: r: bad; fix"
        );
    }
}
