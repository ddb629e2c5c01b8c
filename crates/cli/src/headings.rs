//! Headings of `--help` and of manual pages: one table for all commands, so that a flag has one heading everywhere.

use clap::{Arg, Command};

/// The headings, each with the long names of its flags. The help of a command shows a heading where the first flag with
/// this heading is defined.
const HEADINGS: [(&str, &[&str]); 27] = [
    (
        "Way to the fabric",
        &[
            "fabric",
            "lfts",
            "port",
            "at",
            "serve",
            "seed",
            "service-time-us",
            "queue-depth",
        ],
    ),
    ("Way to the manager", &["socket"]),
    (
        "Job",
        &["hosts", "class", "small", "share", "isolated", "alternates", "export"],
    ),
    (
        "Process",
        &[
            "config",
            "once",
            "dry-run",
            "check-config",
            "background",
            "log-file",
            "record",
            "state",
            "node-name-map",
            "no-wait",
            "wait",
            "jobs",
            "check",
            "settings",
            "link-rate",
        ],
    ),
    (
        "Manager",
        &["window", "sweep-interval", "priority", "at-once", "agent-window"],
    ),
    (
        "Routing",
        &[
            "engine",
            "engines",
            "roots",
            "compute",
            "io",
            "guid-order",
            "hop-weights",
            "port-order",
            "hops",
            "effort",
            "rebalance",
            "from",
            "from-lfts",
        ],
    ),
    ("LIDs", &["lmc", "lid-layout", "reassign-lids", "guid2lid", "lids"]),
    (
        "Lanes and service levels",
        &["lanes", "assume-sl-aware", "vls", "sl", "sls", "sl2vl"],
    ),
    ("Alternate paths", &["policy", "path-bits", "among"]),
    ("Partitions", &["partitions", "part-enforce"]),
    ("Keys", &["m-key", "m-key-file", "sm-key-file", "sa-key-file"]),
    (
        "OpenSM's configuration",
        &["opensm-conf", "skip-refused", "guid", "log-flags"],
    ),
    (
        "Rows and their order",
        &[
            "name", "kind", "state", "width", "speed", "where", "sort", "reverse", "all",
        ],
    ),
    ("Events", &["since", "severity", "follow"]),
    ("Change", &["force", "reason"]),
    ("Alarms", &["level", "open", "cleared", "about", "clear", "note"]),
    (
        "Traffic",
        &[
            "traffic", "goal", "job", "load", "arrivals", "message", "duration", "warmup",
        ],
    ),
    (
        "Links, switches and hosts",
        &[
            "mtu",
            "link",
            "queue",
            "speedup",
            "buffer",
            "shared-buffer",
            "shared-buffer-per-vl",
            "cable-delay",
            "long-haul",
            "switch-delay",
            "credit-delay",
            "grh",
            "vlarb-low",
            "vlarb-high",
            "vlarb-limit",
            "source-queue",
            "hoq-life",
            "switch-life",
            "bare-queue",
        ],
    ),
    (
        "Transport",
        &[
            "transport",
            "ack-timeout",
            "retries",
            "qp-window",
            "ack-every",
            "ack-delay",
            "operation",
        ],
    ),
    (
        "Path migration",
        &[
            "apm",
            "rival",
            "alternate",
            "told",
            "respecify",
            "sample-every",
            "hold-off",
            "repair",
            "cut-at",
            "trace",
            "mtbf",
            "mttr",
            "in-flight",
            "connections",
        ],
    ),
    (
        "Faults and changes",
        &[
            "faults", "seeds", "kinds", "sample", "below", "orders", "lost", "change",
        ],
    ),
    (
        "Judging and measuring",
        &[
            "accept",
            "measure",
            "pairings",
            "no-contention",
            "repeat",
            "threads",
            "lifetime",
        ],
    ),
    (
        "Costs",
        &[
            "seat",
            "mad-us",
            "opensm-window",
            "manager-us",
            "entry-ns",
            "opensm-entry-ns",
            "link-ns",
            "relay-ns",
            "timeout-ms",
            "lost-ppm",
            "changed-blocks",
        ],
    ),
    (
        "Schedules",
        &["sa", "store-faults", "changes", "resolve", "digest", "against", "wire"],
    ),
    ("Real time", &["manager", "speed", "events"]),
    (
        "Written files",
        &[
            "out",
            "keep",
            "lids-out",
            "lfts-out",
            "lfts-style",
            "sl2vl-out",
            "sl-out",
            "svg",
            "dot",
            "colour",
            "with-hosts",
            "links",
            "series",
            "timeline",
            "heatmap",
            "paper",
        ],
    ),
    (
        "Output",
        &[
            "to",
            "output",
            "nodes",
            "print",
            "step",
            "until",
            "top",
            "slots",
            "metrics",
            "job-id",
            "no-header",
            "runs",
            "json",
            "csv",
        ],
    ),
];

/// Flags that have another meaning in one command: command, long name, heading.
const ELSEWHERE: [(&str, &str, &str); 35] = [
    ("transition", "to", "Routing"),
    ("plot", "since", "Output"),
    ("baseline", "clear", "Change"),
    ("status", "state", "Rows and their order"),
    ("run", "socket", "Process"),
    ("watch", "socket", "Process"),
    ("emulate", "socket", "Process"),
    ("start", "wait", "Job"),
    ("rebalance", "dry-run", "Manager"),
    ("drain", "dry-run", "Change"),
    ("isolate", "dry-run", "Change"),
    ("enable", "dry-run", "Change"),
    ("route", "lfts", "Routing"),
    ("compare", "lfts", "Routing"),
    ("backups", "lfts", "Routing"),
    ("simulate", "lfts", "Routing"),
    ("verify", "lfts", "Tables to judge"),
    ("verify", "lids", "Tables to judge"),
    ("verify", "sls", "Tables to judge"),
    ("verify", "sl2vl", "Tables to judge"),
    ("backups", "seed", "Faults and changes"),
    ("simulate", "seed", "Traffic"),
    ("model", "window", "Costs"),
    ("model", "agent-window", "Costs"),
    ("soak", "seeds", "Schedules"),
    ("show", "links", "Output"),
    ("show", "lfts", "Routing"),
    ("show", "seed", "Alternate paths"),
    ("check", "against", "Way to the manager"),
    ("congestion", "pairs", "Output"),
    ("ack", "all", "Alarms"),
    ("alarms", "since", "Alarms"),
    ("topology", "at", "Output"),
    ("slice", "at", "Output"),
    ("slice", "since", "Output"),
];

/// Returns a command, and each of its commands, with its flags under headings. A flag without one stands under Options.
pub fn under(command: Command) -> Command {
    let name = command.get_name().to_owned();
    command.mut_args(|arg| with_heading(&name, arg)).mut_subcommands(under)
}

fn with_heading(command: &str, arg: Arg) -> Arg {
    let heading = arg.get_long().and_then(|long| heading(command, long));
    match heading {
        Some(heading) => arg.help_heading(heading),
        None => arg,
    }
}

fn heading(command: &str, long: &str) -> Option<&'static str> {
    let own = ELSEWHERE.iter().find(|(of, flag, _)| *of == command && *flag == long);
    let own = own.map(|(_, _, heading)| *heading);
    own.or_else(|| {
        let found = HEADINGS.iter().find(|(_, flags)| flags.contains(&long));
        found.map(|(heading, _)| *heading)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::args;

    /// Largest number of flags under Options, where clap puts --help.
    const WITHOUT_MAX: usize = 1;

    fn all(command: &Command) -> Vec<Command> {
        let below = command.get_subcommands().flat_map(all);
        std::iter::once(command.clone()).chain(below).collect()
    }

    #[test]
    fn long_helps_have_headings() {
        for command in all(&args::command()) {
            let flags = || command.get_arguments().filter(|arg| arg.get_long().is_some());
            let without = flags().filter(|arg| arg.get_help_heading().is_none());
            let names: Vec<_> = without.filter_map(Arg::get_long).collect();
            let name = command.get_name();
            assert!(
                names.len() <= WITHOUT_MAX,
                "{name}: no heading for {names:?}: add them to headings.rs"
            );
            let headings: BTreeSet<_> = flags().filter_map(Arg::get_help_heading).collect();
            assert!(flags().count() < 12 || headings.len() >= 3, "{name}: {headings:?}");
        }
    }

    #[test]
    fn a_flag_stands_under_the_heading_of_its_command() {
        let check = |command: &str, flag: &str, want: &str| {
            let all = all(&args::command());
            let command = all.iter().find(|of| of.get_name() == command).unwrap();
            let arg = command
                .get_arguments()
                .find(|arg| arg.get_long() == Some(flag))
                .unwrap();
            assert_eq!(arg.get_help_heading(), Some(want), "{} --{flag}", command.get_name());
        };
        check("run", "state", "Process");
        check("status", "state", "Rows and their order");
        check("run", "lfts", "Way to the fabric");
        check("simulate", "lfts", "Routing");
        check("status", "json", "Output");
    }

    #[test]
    fn no_heading_names_a_flag_that_is_gone() {
        let commands = all(&args::command());
        let is_flag = |command: &Command, long: &str| command.get_arguments().any(|arg| arg.get_long() == Some(long));
        for (heading, flags) in HEADINGS {
            for flag in flags {
                assert!(
                    commands.iter().any(|command| is_flag(command, flag)),
                    "{heading}: --{flag}"
                );
            }
        }
        for (name, flag, _) in ELSEWHERE {
            let named = commands.iter().filter(|command| command.get_name() == name);
            assert!(
                named.into_iter().any(|command| is_flag(command, flag)),
                "{name} --{flag}"
            );
        }
    }
}
