//! Exit codes in manual pages.

/// Exit codes, each with its meaning.
pub type Exits = &'static [(&'static str, &'static str)];

/// Exit codes of every command but `health`, as in docs/contracts.md.
pub const EXIT_STATUS: Exits = &[
    (
        "0",
        "Done, and the answer is good. A manager that runs until a signal ends it returns 0 too.",
    ),
    (
        "1",
        "Done, and the answer is not good: the judge has errors, hosts are isolated or out of the manager's reach, a \
         link is not ACTIVE for an unknown reason, or two things differ.",
    ),
    (
        "2",
        "Not started: wrong usage, or bad input (a file, a fabric, a configuration); or an output that could not be \
         written.",
    ),
    (
        "3",
        "No fabric: the port cannot be opened or is down, the simulator or the manager does not answer, or the socket \
         is taken.",
    ),
    (
        "4",
        "Refused, and nothing was changed: an M_Key forbids Sets, no plan passed the judge, or another manager is \
         master.",
    ),
    ("130", "Interrupted by SIGINT or SIGTERM before there was an answer."),
];

/// Exit codes of `health`, as in docs/health.md. Source: Nagios Plugins Development Guidelines, "Plugin Return Codes".
pub const OF_NAGIOS: Exits = &[
    ("0", "OK: healthy, standby ready, or watching a managed fabric."),
    (
        "1",
        "WARNING: degraded, or watching a fabric that no manager has set up.",
    ),
    ("2", "CRITICAL: failed, the manager cannot do its work."),
    ("3", "UNKNOWN: the manager starts, or no manager answers."),
];
