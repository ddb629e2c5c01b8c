//! Parts of the manual pages of `selvedge telemetry`.

use super::files::{SELECTION, SOCKET};
use super::pages::{ASKED, Page, page};

const TELEMETRY: &[&str] = &[
    "selvedge(1)",
    "selvedge-telemetry(1)",
    "selvedge-status(1)",
    "selvedge.toml(5)",
];

/// The pages.
pub const PAGES_OF_TELEMETRY: &[(&str, Page)] = &[
    (
        "selvedge-telemetry",
        page(
            ASKED,
            TELEMETRY,
            &[
                (
                    "How sampling goes, and which nodes are silent:",
                    "selvedge telemetry status",
                ),
                ("The ports with the highest load:", "selvedge telemetry top"),
            ],
        ),
    ),
    (
        "selvedge-telemetry-status",
        page(
            ASKED,
            TELEMETRY,
            &[(
                "For a script; the exit code is 0 if every port has its samples:",
                "selvedge telemetry status --json",
            )],
        ),
    ),
    (
        "selvedge-telemetry-top",
        page(
            ASKED,
            TELEMETRY,
            &[
                ("The 20 ports with the longest waits:", "selvedge telemetry top wait"),
                (
                    "The five ports with the most discards, for a program:",
                    "selvedge telemetry top PortXmitDiscards --top 5 --csv",
                ),
            ],
        ),
    ),
    (
        "selvedge-telemetry-port",
        page(
            ASKED,
            TELEMETRY,
            &[
                ("Both ends of a link:", "selvedge telemetry port 'leaf 1' 7"),
                (
                    "Every counter of every port of a switch, zeros too:",
                    "selvedge telemetry port 'leaf 1' --all --csv",
                ),
            ],
        ),
    ),
    (
        "selvedge-telemetry-watch",
        page(
            ASKED,
            TELEMETRY,
            &[
                ("The busiest ports, again with every slot:", "selvedge telemetry watch"),
                (
                    "Ten slots of the ports with the most errors, as lines of JSON:",
                    "selvedge telemetry watch errors --slots 10 --json",
                ),
            ],
        ),
    ),
    (
        "selvedge-telemetry-congestion",
        page(
            ASKED,
            TELEMETRY,
            &[
                ("The links that ports wait for:", "selvedge telemetry congestion"),
                (
                    "The pairs of hosts with a route over each of them, for a program:",
                    "selvedge telemetry congestion --pairs 1000000 --csv",
                ),
                (
                    "A heat map of the loads between leaf and spine switches:",
                    "selvedge telemetry congestion --svg loads.svg --colour load",
                ),
                (
                    "The connections as a picture, by Graphviz:",
                    "selvedge telemetry congestion --dot links.dot; dot -Tsvg links.dot > links.svg",
                ),
            ],
        ),
    ),
    (
        "selvedge-telemetry-cables",
        page(
            ASKED,
            TELEMETRY,
            &[
                ("The worst cables:", "selvedge telemetry cables"),
                (
                    "All cables by bit error rate, for a program:",
                    "selvedge telemetry cables ber --all --top 100000 --csv",
                ),
            ],
        ),
    ),
    (
        "selvedge-telemetry-alarms",
        page(
            ASKED,
            TELEMETRY,
            &[
                ("The alarms:", "selvedge telemetry alarms"),
                (
                    "Warnings and critical alarms that are not acknowledged:",
                    "selvedge telemetry alarms --level warning --open",
                ),
                (
                    "Also the alarms that ended within a week, for a program:",
                    "selvedge telemetry alarms --cleared --since 7d --csv",
                ),
            ],
        ),
    ),
    (
        "selvedge-telemetry-ack",
        page(
            ASKED,
            TELEMETRY,
            &[
                (
                    "The cable at a port will be replaced, so its alarms are known:",
                    "selvedge telemetry ack 'leaf 1' 7 --note 'replaced on Friday'",
                ),
                (
                    "The cable has been replaced: its alarms end now:",
                    "selvedge telemetry ack 'leaf 1' 7 --clear",
                ),
            ],
        ),
    ),
    (
        "selvedge-telemetry-plot",
        page(
            ASKED,
            TELEMETRY,
            &[
                (
                    "What a port sent in the last hour:",
                    "selvedge telemetry plot 'leaf 1' 7",
                ),
                (
                    "Its waits since yesterday, as a picture:",
                    "selvedge telemetry plot 'leaf 1' 7 wait --since 1d --svg wait.svg",
                ),
                (
                    "Every slot that is stored of two hours, for a program:",
                    "selvedge telemetry plot 'leaf 1' 7 PortRcvData --since 2026-11-29T06:00 --until 2026-11-29T08:00 \
                     --csv",
                ),
            ],
        ),
    ),
    (
        "selvedge-telemetry-history",
        page(
            ASKED,
            TELEMETRY,
            &[(
                "For a script; the exit code is 0 if everything is stored:",
                "selvedge telemetry history --json",
            )],
        ),
    ),
    (
        "selvedge-telemetry-history-events",
        page(
            ASKED,
            TELEMETRY,
            &[(
                "Warnings and errors of the last week, over restarts:",
                "selvedge telemetry history events --since 7d --severity warning",
            )],
        ),
    ),
    (
        "selvedge-telemetry-history-topology",
        page(
            ASKED,
            TELEMETRY,
            &[
                ("When the topology changed:", "selvedge telemetry history topology"),
                (
                    "The links that there were yesterday, for a program:",
                    "selvedge telemetry history topology --at 1d --csv",
                ),
            ],
        ),
    ),
    (
        "selvedge-telemetry-history-slice",
        page(
            ASKED,
            TELEMETRY,
            &[
                (
                    "What all ports had discarded at noon, for a program:",
                    "selvedge telemetry history slice PortXmitDiscards --at 2026-11-29T12:00 --csv",
                ),
                (
                    "The ten ports that received the most since yesterday:",
                    "selvedge telemetry history slice rcv --since 1d --top 10",
                ),
            ],
        ),
    ),
    (
        "selvedge-telemetry-baseline",
        page(
            ASKED,
            TELEMETRY,
            &[
                ("Count all ports from now on:", "selvedge telemetry baseline"),
                (
                    "Count one port from its first reading on again:",
                    "selvedge telemetry baseline 'leaf 1' 7 --clear",
                ),
            ],
        ),
    ),
    (
        "selvedge-telemetry-sets",
        page(
            &[SOCKET, SELECTION],
            TELEMETRY,
            &[
                ("Which sets there are:", "selvedge telemetry sets"),
                (
                    "The ports of a switch as ldms_ls -l prints a set, with the metrics that a file selects:",
                    "selvedge telemetry sets 'ibfabric/leaf 1' --metrics metrics.conf",
                ),
                (
                    "A row of LDMS CSV of all ports, for a job:",
                    "selvedge telemetry sets ibfabric --csv --no-header --job-id 533",
                ),
            ],
        ),
    ),
];
