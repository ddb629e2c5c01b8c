//! Progress on a terminal, log lines beside it.

use std::io::{self, IsTerminal, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use selvedge_api::Severity;
use selvedge_daemon::{LogSink, Manager, Running};
use selvedge_sm::StageName;

/// How often the bar is drawn.
const INTERVAL: Duration = Duration::from_millis(40);

/// A bar on standard error; invisible if that is no terminal.
pub fn bar() -> ProgressBar {
    let target = if io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(0), target);
    // A template that cannot be read would be a defect of this line; the default style is good enough then.
    if let Ok(style) = ProgressStyle::with_template("{msg:16} {bar:40} {human_pos}/{human_len}") {
        bar.set_style(style.progress_chars("━╸ "));
    }
    bar
}

/// Draws what a manager does until it ends, or until `done` says so.
pub fn follow(bar: &ProgressBar, running: &Running, mut done: impl FnMut(&Manager) -> bool) {
    while !running.is_finished() && !done(&running.manager) {
        let view = running.manager.view();
        if view.stage == StageName::Idle {
            bar.set_message("");
            bar.set_length(0);
        } else {
            bar.set_message(view.stage.to_string());
            bar.set_length(view.progress.total);
            bar.set_position(view.progress.done);
        }
        std::thread::park_timeout(INTERVAL);
    }
    bar.finish_and_clear();
}

/// Log lines on standard error that do not tear the bar.
pub struct BarLog {
    bar: ProgressBar,
    least: Severity,
}

impl BarLog {
    /// Shows lines from `least` on.
    pub const fn new(bar: ProgressBar, least: Severity) -> Self {
        Self { bar, least }
    }
}

impl LogSink for BarLog {
    fn line(&mut self, severity: Severity, line: &str) {
        if severity >= self.least {
            // Nobody may be reading standard error; that is their choice.
            self.bar.suspend(|| drop(writeln!(io::stderr(), "{line}")));
        }
    }
}
