//! Pages of `selvedge config` and its commands.

use super::files::NO_FILE;
use super::pages::{CONFIGURATION, Page, page};

/// The pages, by title.
pub const PAGES_OF_CONFIG: &[(&str, Page)] = &[
    (
        "selvedge-config-defaults",
        page(
            CONFIGURATION,
            &["selvedge-config(1)", "selvedge.toml(5)"],
            &[("A file with every key:", "selvedge config defaults > selvedge.toml")],
        ),
    ),
    (
        "selvedge-config-from-ufm",
        page(
            &[NO_FILE],
            &["selvedge-config(1)", "selvedge.toml(5)"],
            &[(
                "Classes for the bandwidths of a UFM site with HDR links:",
                "selvedge config from-ufm /opt/ufm/files/conf/opensm/enhanced_qos_policy.conf --link-rate 200000",
            )],
        ),
    ),
    (
        "selvedge-config-check",
        page(
            CONFIGURATION,
            &["selvedge-config(1)", "selvedge-reload(1)", "selvedge.toml(5)"],
            &[
                (
                    "What a file means, and its mistakes with their lines:",
                    "selvedge config check /etc/selvedge/selvedge.toml",
                ),
                (
                    "Whether the running manager would take it:",
                    "selvedge config check /etc/selvedge/selvedge.toml --against /run/selvedge/selvedge.sock",
                ),
            ],
        ),
    ),
];
