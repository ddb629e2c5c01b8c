//! Pages of `selvedge apm` and its commands.

use super::pages::{OF_FABRICS, OFFLINE, Page, page};

/// The pages, by title.
pub const PAGES_OF_APM: &[(&str, Page)] = &[
    (
        "selvedge-apm",
        page(
            OFFLINE,
            &["selvedge(1)", "selvedge-apm-show(1)", "selvedge-backups(1)"],
            &[(
                "Pairs of hosts that one fault can part, with four LIDs per port:",
                "selvedge apm show --fabric sx6536 --lmc 2",
            )],
        ),
    ),
    (
        "selvedge-apm-show",
        page(
            OFFLINE,
            OF_FABRICS,
            &[
                (
                    "Every alternate path of two hosts:",
                    "selvedge apm show H-0 H-323 --fabric sx6536:ports-per-host=2 --lmc 1",
                ),
                (
                    "What Open MPI's alternate paths share, with the tables that switches hold:",
                    "selvedge apm show --fabric net.topo --lfts lfts.dump --lids guid2lid --lmc 1 --policy openmpi",
                ),
            ],
        ),
    ),
];
