//! Progress on a terminal, together with log lines.

use std::fmt;
use std::io::{self, IsTerminal, Write as _};
use std::sync::Once;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use selvedge_api::Severity;
use selvedge_daemon::{Journal, LogSink, Manager, Running};
use selvedge_sm::{StageName, View};
use selvedge_study::{Progress, Stage, Watch};

/// Time between two checks whether the manager has ended: the largest delay of `--once`.
const STEP: Duration = Duration::from_millis(1);
/// Number of steps between two drawings of the bar.
const DRAW_STEPS: u32 = 40;
/// Number of steps after which the end is checked only when the bar is drawn.
const EARLY_STEPS: u32 = 2_000;

/// Returns a bar on standard error; invisible if that is no terminal.
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

/// Lets the bar count simulated nanoseconds. The remaining time is estimated from the recent pace.
fn simulated_time(bar: &ProgressBar) {
    let us = |w: &mut dyn fmt::Write, ns: u64| {
        // A bar that cannot be drawn is no reason to stop.
        let _ = write!(w, "{:.1}", ns as f64 / 1e3);
    };
    let style =
        ProgressStyle::with_template("simulating {bar:30} {at} of {end} µs, {elapsed}; at this pace {eta} more");
    if let Ok(style) = style {
        let style = style
            .with_key("at", move |state: &ProgressState, w: &mut dyn fmt::Write| {
                us(w, state.pos())
            })
            .with_key("end", move |state: &ProgressState, w: &mut dyn fmt::Write| {
                us(w, state.len().unwrap_or(0));
            });
        bar.set_style(style.progress_chars("━╸ "));
    }
    bar.reset();
}

/// Lets the bar count items of different lengths: only the pace is shown.
pub fn several(bar: &ProgressBar, things: &'static str) {
    let template = "{msg} {bar:30} {human_pos} of {human_len}, {elapsed}; at this pace {eta} more";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━╸ "));
    }
    bar.set_message(things);
    bar.enable_steady_tick(Duration::from_secs(1));
}

/// Shows the current work on standard error while it takes longer than a moment. It is invisible if standard error is
/// no terminal.
pub fn spinner() -> ProgressBar {
    let bar = bar();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// Draws the progress of a study.
pub struct Drawn<'a>(pub &'a ProgressBar);

impl Watch for Drawn<'_> {
    fn progress(&self, progress: &Progress) {
        self.0.set_length(progress.total);
        self.0.set_position(progress.done);
        self.0.set_message(progress.stage.to_string());
        self.0.tick();
    }
}

/// Draws the progress of a simulation: its unit of work is simulated time.
pub struct DrawnTime<'a> {
    bar: &'a ProgressBar,
    begun: Once,
}

impl<'a> DrawnTime<'a> {
    /// Returns a value that draws with this bar.
    pub const fn new(bar: &'a ProgressBar) -> Self {
        let begun = Once::new();
        Self { bar, begun }
    }
}

impl Watch for DrawnTime<'_> {
    fn progress(&self, progress: &Progress) {
        if progress.stage != Stage::Simulating {
            self.bar.set_message(progress.stage.to_string());
            return;
        }
        self.begun.call_once(|| simulated_time(self.bar));
        self.bar.set_length(progress.total);
        self.bar.set_position(progress.done);
    }
}

/// Draws the progress of a manager until it ends, or until `done` returns true. `done` is called whenever the bar is
/// drawn.
pub fn follow(bar: &ProgressBar, running: &Running, mut done: impl FnMut(&Manager) -> bool) {
    let mut steps = 0_u32;
    while !running.is_finished() {
        let is_early = steps < EARLY_STEPS;
        if !is_early || steps.is_multiple_of(DRAW_STEPS) {
            if done(&running.manager) {
                break;
            }
            draw(bar, &running.manager.view());
        }
        steps = steps.saturating_add(1);
        // A manager that runs for long is no reason to wake up a thousand times a second.
        std::thread::park_timeout(if is_early { STEP } else { STEP * DRAW_STEPS });
    }
    bar.finish_and_clear();
}

fn draw(bar: &ProgressBar, view: &View) {
    if view.stage == StageName::Idle {
        bar.set_message("");
        bar.set_length(0);
    } else {
        bar.set_message(view.stage.to_string());
        bar.set_length(view.progress.total);
        bar.set_position(view.progress.done);
    }
}

/// Log lines on standard error that do not tear the bar, with priorities where the journal reads them.
pub struct BarLog {
    bar: ProgressBar,
    least: Severity,
    journal: Journal,
}

impl BarLog {
    /// Returns a log that shows lines of this severity or a higher one.
    pub fn new(bar: ProgressBar, least: Severity) -> Self {
        let journal = Journal::of_stderr();
        Self { bar, least, journal }
    }
}

impl LogSink for BarLog {
    fn line(&mut self, severity: Severity, line: &str) {
        if severity >= self.least {
            let priority = self.journal.prefix(severity);
            // Standard error may be closed; that is no failure.
            self.bar.suspend(|| drop(writeln!(io::stderr(), "{priority}{line}")));
        }
    }
}
