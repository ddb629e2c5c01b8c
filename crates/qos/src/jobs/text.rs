//! The list of jobs as text: stored, and copied by standbys.
//!
//! Each line is a job as a JSON object: `{"running": GRANT}` or `{"waiting": JOB}`, waiting jobs in order of arrival.

use serde::{Deserialize, Serialize};

use super::{Grant, Job, Jobs};

/// A line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Running(Grant),
    Waiting(Job),
}

/// SLV-QOS-0068: a line of a list of jobs is no job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SLV-QOS-0068: list of jobs, line {line}: {why}")]
pub struct JobLineError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

impl Jobs {
    /// Returns the jobs as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let running = self.running().cloned().map(Line::Running);
        let lines = running.chain(self.waiting.iter().cloned().map(Line::Waiting));
        let mut text = String::new();
        for line in lines {
            // Maps with other keys than texts would fail; there are none.
            text.push_str(&serde_json::to_string(&line).unwrap_or_default());
            text.push('\n');
        }
        text
    }

    /// Reads the text of a list. Empty lines are skipped.
    ///
    /// # Errors
    ///
    /// The first line that is no job.
    pub fn parse(text: &str) -> Result<Self, JobLineError> {
        let (mut running, mut waiting) = (Vec::new(), Vec::new());
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match serde_json::from_str(line) {
                Ok(Line::Running(grant)) => running.push(grant),
                Ok(Line::Waiting(job)) => waiting.push(job),
                Err(error) => {
                    return Err(JobLineError {
                        line: at + 1,
                        why: error.to_string(),
                    });
                }
            }
        }
        Ok(Self::restore(running, waiting))
    }
}
