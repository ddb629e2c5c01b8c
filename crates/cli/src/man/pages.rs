//! The parts of manual pages that do not come from the definition of flags: files, examples. Tests parse every example.

use super::apm::PAGES_OF_APM;
use super::config::PAGES_OF_CONFIG;
use super::exits::{EXIT_STATUS, Exits, OF_NAGIOS};
use super::files::{
    EMULATOR, EXPECTED, FABRIC, File, GUID2LID, LFTS, LOG, NAMES, NO_FILE, OPENSM, OPTIONS, PAGES, RECORD, SOCKET,
    STATE, TOML, file,
};
use super::job::PAGES_OF_JOBS;
use super::telemetry::PAGES_OF_TELEMETRY;

/// The parts of a page beside the definition of its command.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Exit codes.
    pub exits: Exits,
    /// Files.
    pub files: &'static [File],
    /// Examples: the purpose, and the command line.
    pub examples: &'static [(&'static str, &'static str)],
    /// Pages to read next.
    pub see: &'static [&'static str],
}

const SERVICE: &[&str] = &["selvedge(1)", "selvedge-status(1)", "selvedge-rebalance(1)"];
/// Files of selvedge.toml(5).
pub const CONFIGURATION: &[File] = &[TOML, OPTIONS, STATE, LOG];
const MANAGER: &[File] = &[TOML, OPTIONS, OPENSM, STATE, LOG, SOCKET];
pub const ASKED: &[File] = &[SOCKET];
const APPROVED: &[File] = &[EXPECTED, SOCKET];
pub const OFFLINE: &[File] = &[FABRIC, LFTS, GUID2LID, NAMES];

const RUNNING: &[&str] = &["selvedge(1)", "selvedge-run(1)", "selvedge-status(1)"];
pub const OF_FABRICS: &[&str] = &[
    "selvedge(1)",
    "selvedge-topology(1)",
    "selvedge-route(1)",
    "selvedge-verify(1)",
];
const OF_TRAFFIC: &[&str] = &["selvedge(1)", "selvedge-simulate(1)", "selvedge-experiment(1)"];
const OF_TESTS: &[&str] = &[
    "selvedge(1)",
    "selvedge-emulate(1)",
    "selvedge-fault(1)",
    "selvedge-replay(1)",
];

pub const fn page(
    files: &'static [File],
    see: &'static [&'static str],
    examples: &'static [(&'static str, &'static str)],
) -> Page {
    Page {
        exits: EXIT_STATUS,
        files,
        examples,
        see,
    }
}

/// Returns the parts of the page with this title; empty for a command without an entry.
pub fn of(title: &str) -> Page {
    let mut all = PAGES_OF_COMMANDS
        .iter()
        .chain(PAGES_OF_TELEMETRY)
        .chain(PAGES_OF_APM)
        .chain(PAGES_OF_JOBS)
        .chain(PAGES_OF_CONFIG);
    let known = all.find(|(of, _)| *of == title);
    known.map_or(page(&[], &[], &[]), |(_, page)| *page)
}

const PAGES_OF_COMMANDS: &[(&str, Page)] = &[
    (
        "selvedge",
        page(
            MANAGER,
            &[
                "selvedge-run(1)",
                "selvedge-status(1)",
                "selvedge-watch(1)",
                "selvedge-config(1)",
                "selvedge.toml(5)",
            ],
            &[
                ("See it work on an emulated fabric:", "selvedge demo"),
                (
                    "Show what a manager would change beside the one that runs, and send no Set:",
                    "selvedge run --port mlx5_0/1 --dry-run",
                ),
                (
                    "Manage the fabric behind a port:",
                    "selvedge run --port mlx5_0/1 --state /var/lib/selvedge",
                ),
                ("Ask the manager how it is doing:", "selvedge status"),
            ],
        ),
    ),
    (
        "selvedge-demo",
        page(
            &[FABRIC],
            RUNNING,
            &[("On a smaller fabric:", "selvedge demo --fabric mport:m=4,n=2")],
        ),
    ),
    (
        "selvedge-run",
        page(
            MANAGER,
            &[
                "selvedge-status(1)",
                "selvedge-watch(1)",
                "selvedge-config(1)",
                "selvedge.toml(5)",
            ],
            &[
                (
                    "Manage the fabric behind a port, with settings and with state between runs:",
                    "selvedge run --port mlx5_0/1 --config /etc/selvedge/selvedge.toml --state /var/lib/selvedge",
                ),
                (
                    "Show, beside the running manager, what would change:",
                    "selvedge run --port mlx5_0/1 --dry-run --json",
                ),
                (
                    "Take over from OpenSM with its own settings; first see what becomes of them:",
                    "selvedge run -F /etc/opensm/opensm.conf --check-config",
                ),
                (
                    "Manage an emulated fabric, and let infiniband-diags attach to it:",
                    "selvedge run --fabric sx6536 --serve sim",
                ),
            ],
        ),
    ),
    (
        "selvedge-watch",
        page(
            &[TOML, NAMES, SOCKET],
            RUNNING,
            &[(
                "Watch a fabric once, with Gets only:",
                "selvedge watch --port mlx5_0/1 --once",
            )],
        ),
    ),
    (
        "selvedge-status",
        page(
            ASKED,
            &["selvedge(1)", "selvedge-run(1)", "selvedge-fault(1)"],
            &[
                ("Role, stage, counts, and why ports are not ACTIVE:", "selvedge status"),
                (
                    "Ports without a link, by name:",
                    "selvedge status ports --state down --sort node",
                ),
                (
                    "Slow links of one switch:",
                    "selvedge status links --name 'leaf 1' --speed sdr,ddr,qdr",
                ),
                (
                    "Warnings and errors of the last two hours:",
                    "selvedge status events --since 2h --severity warning",
                ),
                ("Follow events in a script:", "selvedge status events --follow --json"),
                ("Which ports may communicate:", "selvedge status partitions --top 20"),
            ],
        ),
    ),
    (
        "selvedge-health",
        Page {
            exits: OF_NAGIOS,
            ..page(
                ASKED,
                &["selvedge(1)", "selvedge-status(1)", "selvedge-forget(1)"],
                &[
                    ("The verdict in one line, for Nagios or a script:", "selvedge health"),
                    (
                        "Each condition with its evidence, for programs:",
                        "selvedge health --json",
                    ),
                ],
            )
        },
    ),
    (
        "selvedge-forget",
        page(
            ASKED,
            &["selvedge(1)", "selvedge-health(1)", "selvedge-status(1)"],
            &[
                ("A host that was taken out for good:", "selvedge forget 'node 17'"),
                (
                    "A cable that was taken out, by one end:",
                    "selvedge forget '\"leaf 1\"[3]'",
                ),
            ],
        ),
    ),
    (
        "selvedge-drain",
        page(
            ASKED,
            SERVICE,
            &[
                (
                    "What draining a switch would change, and which hosts would lose their connection:",
                    "selvedge drain 'spine 1' --dry-run",
                ),
                (
                    "Lead no routes over a link that is known to be bad:",
                    "selvedge drain '\"leaf 1\"[3]' --reason 'CRC errors'",
                ),
                ("What is out of service:", "selvedge status out-of-service"),
            ],
        ),
    ),
    (
        "selvedge-isolate",
        page(
            ASKED,
            SERVICE,
            &[(
                "Take a switch out for repair, and disable the ports that lead to it:",
                "selvedge isolate 'spine 1' --reason 'fan is broken'",
            )],
        ),
    ),
    (
        "selvedge-enable",
        page(
            ASKED,
            SERVICE,
            &[("Put a switch back into service:", "selvedge enable 'spine 1'")],
        ),
    ),
    (
        "selvedge-sweep",
        page(
            ASKED,
            RUNNING,
            &[("Have everything discovered again:", "selvedge sweep")],
        ),
    ),
    (
        "selvedge-rebalance",
        page(
            ASKED,
            RUNNING,
            &[
                (
                    "Show what balancing load again would change:",
                    "selvedge rebalance --dry-run",
                ),
                ("Do it, in steps:", "selvedge rebalance"),
            ],
        ),
    ),
    (
        "selvedge-reload",
        page(
            &[TOML, SOCKET],
            &["selvedge(1)", "selvedge-config(1)", "selvedge.toml(5)"],
            &[
                (
                    "Ask first whether the manager would take the file:",
                    "selvedge config check /etc/selvedge/selvedge.toml --against /run/selvedge/selvedge.sock",
                ),
                ("List the Sets that it would send:", "selvedge reload --dry-run"),
                (
                    "Have every file read again, and wait for the end of the change:",
                    "selvedge reload",
                ),
            ],
        ),
    ),
    (
        "selvedge-topology",
        page(
            OFFLINE,
            OF_FABRICS,
            &[(
                "Figures of a fabric that is there:",
                "ibnetdiscover | selvedge topology show -",
            )],
        ),
    ),
    (
        "selvedge-topology-generate",
        page(
            OFFLINE,
            OF_FABRICS,
            &[(
                "A fat tree as a file for ibsim:",
                "selvedge topology generate mport:m=8,n=3 -o tree.net",
            )],
        ),
    ),
    (
        "selvedge-topology-convert",
        page(
            OFFLINE,
            OF_FABRICS,
            &[(
                "A picture of the switches, with Graphviz:",
                "selvedge topology convert net.topo --to dot-switches | dot -Tsvg -o net.svg",
            )],
        ),
    ),
    (
        "selvedge-topology-show",
        page(
            OFFLINE,
            OF_FABRICS,
            &[("Every link, as CSV:", "selvedge topology show net.topo --links --csv")],
        ),
    ),
    (
        "selvedge-topology-diff",
        page(
            OFFLINE,
            OF_FABRICS,
            &[(
                "What has changed since a listing was made:",
                "ibnetdiscover | selvedge topology diff net.topo -",
            )],
        ),
    ),
    (
        "selvedge-topology-approve",
        page(
            APPROVED,
            &[
                "selvedge(1)",
                "selvedge-run(1)",
                "selvedge-health(1)",
                "selvedge-topology-diff(1)",
            ],
            &[
                (
                    "What differs from what was approved before:",
                    "selvedge topology approve --dry-run /etc/selvedge/expected.topo",
                ),
                (
                    "Approve the fabric as it is:",
                    "selvedge topology approve /etc/selvedge/expected.topo",
                ),
                (
                    "Have every deviation from it reported:",
                    "selvedge run --expected /etc/selvedge/expected.topo",
                ),
            ],
        ),
    ),
    (
        "selvedge-route",
        page(
            OFFLINE,
            OF_FABRICS,
            &[
                (
                    "Route a fat tree, and print the judge's figures:",
                    "selvedge route --fabric sx6536 --engine fat-tree",
                ),
                (
                    "Make tables in OpenSM's formats for a fabric that is there:",
                    "selvedge route --fabric net.topo --lids guid2lid --lfts-out lfts.dump --sl2vl-out sl2vl.dump",
                ),
            ],
        ),
    ),
    (
        "selvedge-compare",
        page(
            OFFLINE,
            OF_FABRICS,
            &[(
                "Two engines, whole and with a link lost:",
                "selvedge compare --fabric sx6536 --engines fat-tree,updn --faults 1",
            )],
        ),
    ),
    (
        "selvedge-transition",
        page(
            OFFLINE,
            OF_FABRICS,
            &[(
                "From the tables that switches hold to those of an engine:",
                "selvedge transition --fabric net.topo --from-lfts lfts.dump --lids guid2lid --to fat-tree",
            )],
        ),
    ),
    (
        "selvedge-backups",
        page(
            OFFLINE,
            OF_FABRICS,
            &[(
                "The links that would be missed most:",
                "selvedge backups --fabric sx6536 --kinds link --top 5",
            )],
        ),
    ),
    (
        "selvedge-bench",
        page(
            &[NO_FILE],
            OF_TESTS,
            &[("Time from a lost link to new tables:", "selvedge bench failover")],
        ),
    ),
    (
        "selvedge-verify",
        page(
            OFFLINE,
            OF_FABRICS,
            &[(
                "Judge the tables that another manager has installed:",
                "selvedge verify --fabric net.topo --lfts lfts.dump",
            )],
        ),
    ),
    (
        "selvedge-model",
        page(
            &[FABRIC],
            &["selvedge(1)", "selvedge-simulate(1)", "selvedge-topology(1)"],
            &[(
                "What bring-up of a fabric will cost:",
                "selvedge model --fabric mport:m=36,n=3",
            )],
        ),
    ),
    (
        "selvedge-simulate",
        page(
            OFFLINE,
            &["selvedge(1)", "selvedge-experiment(1)", "selvedge-route(1)"],
            &[
                (
                    "Uniform traffic at eight tenths of the links' rate:",
                    "selvedge simulate --fabric sx6536 --engine fat-tree --load 0.8",
                ),
                (
                    "A cable is pulled while packets move:",
                    "selvedge simulate --fabric mport:m=4,n=2 --change '50us cut \"S-L1-0\"[1]'",
                ),
                (
                    "The same under reliable connections that migrate to an alternate path:",
                    "selvedge simulate --fabric karytree:k=4,n=2 --apm error --lmc 1 --ack-timeout 6 --retries 2 \
                     --duration 5ms --cut-at 1ms",
                ),
                (
                    "The same with software that fails over to a second connection, as NCCL's:",
                    "selvedge simulate --fabric karytree:k=4,n=2 --rival failover --lmc 1 --ack-timeout 6 --retries 2 \
                     --duration 20ms --cut-at 1ms",
                ),
            ],
        ),
    ),
    (
        "selvedge-experiment",
        page(
            &[file("FILE.toml", "The experiment; docs/experiments.md has its keys.")],
            OF_TRAFFIC,
            &[
                (
                    "List what would run, and run nothing:",
                    "selvedge experiment --check experiment.toml",
                ),
                (
                    "Run it, on two threads:",
                    "selvedge experiment experiment.toml --out results --jobs 2",
                ),
            ],
        ),
    ),
    (
        "selvedge-emulate",
        page(
            &[FABRIC, LFTS, EMULATOR],
            OF_TESTS,
            &[(
                "Emulate a fabric for OpenSM and infiniband-diags:",
                "selvedge emulate --fabric sx6536 --serve sim",
            )],
        ),
    ),
    (
        "selvedge-fault",
        page(
            &[SOCKET, EMULATOR],
            OF_TESTS,
            &[
                (
                    "Unplug a cable, and see what the manager does:",
                    "selvedge fault cut 'S-L1-0[1]'",
                ),
                ("Lose a tenth of all MADs:", "selvedge fault 'loss 10%'"),
            ],
        ),
    ),
    (
        "selvedge-decode",
        page(
            &[RECORD],
            OF_TESTS,
            &[("Every datagram of a record:", "selvedge decode --file record")],
        ),
    ),
    (
        "selvedge-replay",
        page(
            &[RECORD],
            OF_TESTS,
            &[
                (
                    "Check that a record leads to the same outputs:",
                    "selvedge replay record",
                ),
                ("Print every input:", "selvedge replay --print record"),
            ],
        ),
    ),
    (
        "selvedge-soak",
        page(
            &[file(
                "results.jsonl",
                "Results of --out, a line for some hundred seeds; summary.md stands beside it.",
            )],
            OF_TESTS,
            &[(
                "A thousand seeded disasters:",
                "selvedge soak --seeds 1..1001 --out results.jsonl",
            )],
        ),
    ),
    (
        "selvedge-config",
        page(
            CONFIGURATION,
            &["selvedge(1)", "selvedge-reload(1)", "selvedge.toml(5)"],
            &[("A file with every key:", "selvedge config defaults > selvedge.toml")],
        ),
    ),
    (
        "selvedge-completions",
        page(
            &[file(
                "/usr/share/bash-completion/completions/selvedge",
                "Where packages install them for bash.",
            )],
            &["selvedge(1)"],
            &[(
                "For this shell, bash:",
                "selvedge completions bash > completions; . ./completions",
            )],
        ),
    ),
    (
        "selvedge-man",
        page(
            &[
                PAGES,
                file("/usr/share/man/man5", "Where packages install selvedge.toml(5)."),
            ],
            &["selvedge(1)", "selvedge.toml(5)"],
            &[(
                "Write every page, and read one:",
                "selvedge man pages; man -l pages/selvedge-run.1",
            )],
        ),
    ),
];
