//! Pages of `selvedge job` and its commands.

use super::pages::{ASKED, Page, page};

const OF_JOBS: &[&str] = &["selvedge(1)", "selvedge-job(1)", "selvedge-status(1)"];

/// The pages, by title.
pub const PAGES_OF_JOBS: &[(&str, Page)] = &[
    (
        "selvedge-job",
        page(
            ASKED,
            &["selvedge(1)", "selvedge-job-start(1)", "selvedge-job-list(1)"],
            &[("What jobs have of each class:", "selvedge job list")],
        ),
    ),
    (
        "selvedge-job-start",
        page(
            ASKED,
            OF_JOBS,
            &[
                (
                    "A job in class mpi that wants 40 % of a link:",
                    "selvedge job start sim-1 --hosts n1,n2,n3 --class mpi --share 40",
                ),
                (
                    "Its small messages go before others, and it waits until there is room:",
                    "selvedge job start sim-1 --hosts n1,n2 --class mpi --small control:4096 --share 40 --wait",
                ),
            ],
        ),
    ),
    (
        "selvedge-job-end",
        page(ASKED, OF_JOBS, &[("End a job:", "selvedge job end sim-1")]),
    ),
    (
        "selvedge-job-list",
        page(
            ASKED,
            OF_JOBS,
            &[("All jobs as a table for a program:", "selvedge job list --csv")],
        ),
    ),
    (
        "selvedge-job-explain",
        page(
            ASKED,
            OF_JOBS,
            &[("What its processes must export:", "selvedge job explain sim-1 --export")],
        ),
    ),
];
