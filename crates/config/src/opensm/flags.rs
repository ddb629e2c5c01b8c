//! Every flag of OpenSM 3.3.23 with its replacement in Selvedge.

use super::{OpenSmOption, Treatment};

/// A flag of `opensm`.
#[derive(Clone, Copy, Debug)]
pub struct OpenSmFlag {
    /// Long name of the flag, such as `smkey`.
    pub long: &'static str,
    /// Short name of the flag, such as `k`; empty if it has none.
    pub short: &'static str,
    here: Here,
}

/// The replacement of a flag.
#[derive(Clone, Copy, Debug)]
enum Here {
    /// This flag of `selvedge run`.
    Flag(&'static str),
    /// This option of `opensm.conf`.
    Option(&'static str),
    /// Another command or program.
    Instead(&'static str),
    /// No replacement is needed, for this reason.
    Needless(&'static str),
}

const fn flag(long: &'static str, short: &'static str, here: Here) -> OpenSmFlag {
    OpenSmFlag { long, short, here }
}

const ONE_LOG: &str = "the log is a line per event with a code; it has no levels by module";

impl OpenSmFlag {
    /// Every flag, in the order of `opensm --help`.
    pub const ALL: &'static [Self] = &[
        flag("version", "", Here::Instead("'selvedge --version'")),
        flag("config", "F", Here::Flag("-F FILE (--opensm-conf)")),
        flag(
            "create-config",
            "c",
            Here::Instead("'selvedge config defaults' prints every key with its default"),
        ),
        flag("guid", "g", Here::Flag("-g GUID")),
        flag("lmc", "l", Here::Flag("-l LMC")),
        flag("priority", "p", Here::Flag("-p PRIORITY")),
        flag("subnet_prefix", "", Here::Option("subnet_prefix")),
        flag("smkey", "k", Here::Option("sm_key")),
        flag("reassign_lids", "r", Here::Flag("-r (--reassign-lids)")),
        flag("routing_engine", "R", Here::Flag("-R NAMES (--engine)")),
        flag("do_mesh_analysis", "", Here::Option("do_mesh_analysis")),
        flag("lash_start_vl", "", Here::Option("lash_start_vl")),
        flag("sm_sl", "", Here::Option("sm_sl")),
        flag("nue_max_num_vls", "", Here::Option("nue_max_num_vls")),
        flag("connect_roots", "z", Here::Option("connect_roots")),
        flag("ucast_cache", "A", Here::Option("use_ucast_cache")),
        flag("lid_matrix_file", "M", Here::Option("lid_matrix_dump_file")),
        flag("lfts_file", "U", Here::Option("lfts_file")),
        flag("sadb_file", "S", Here::Option("sa_db_file")),
        flag("root_guid_file", "a", Here::Flag("-a FILE (--roots)")),
        flag("cn_guid_file", "u", Here::Flag("-u FILE")),
        flag("io_guid_file", "G", Here::Flag("-G FILE")),
        flag("port-shifting", "", Here::Option("port_shifting")),
        flag("scatter-ports", "", Here::Option("scatter_ports")),
        flag("max_reverse_hops", "H", Here::Option("max_reverse_hops")),
        flag("ids_guid_file", "m", Here::Option("ids_guid_file")),
        flag("guid_routing_order_file", "X", Here::Flag("-X FILE (--guid-order)")),
        flag("torus_config", "", Here::Option("torus_config")),
        flag("once", "o", Here::Flag("-o (--once)")),
        flag("sweep", "s", Here::Flag("-s SECONDS (--sweep-interval)")),
        flag("timeout", "t", Here::Option("transaction_timeout")),
        flag("retries", "", Here::Option("transaction_retries")),
        flag("maxsmps", "n", Here::Flag("--window N")),
        flag("console", "q", Here::Option("console")),
        flag("console-port", "C", Here::Option("console_port")),
        flag("ignore_guids", "i", Here::Option("port_prof_ignore_file")),
        flag("hop_weights_file", "w", Here::Option("hop_weights_file")),
        flag(
            "port_search_ordering_file",
            "O",
            Here::Option("port_search_ordering_file"),
        ),
        flag("dimn_ports_file", "O", Here::Option("dimn_ports_file")),
        flag("honor_guid2lid", "x", Here::Option("honor_guid2lid_file")),
        flag("dump_files_dir", "", Here::Option("dump_files_dir")),
        flag("log_file", "f", Here::Flag("-f FILE (--log-file)")),
        flag("log_limit", "L", Here::Option("log_max_size")),
        flag("erase_log_file", "e", Here::Option("accum_log_file")),
        flag("Pconfig", "P", Here::Flag("-P FILE (--partitions)")),
        flag("no_part_enforce", "N", Here::Flag("-Z off")),
        flag("part_enforce", "Z", Here::Flag("-Z both|in|out|off (--part-enforce)")),
        flag("allow_both_pkeys", "W", Here::Option("allow_both_pkeys")),
        flag("qos", "Q", Here::Option("qos")),
        flag("qos_policy_file", "Y", Here::Option("qos_policy_file")),
        flag("congestion_control", "", Here::Option("congestion_control")),
        flag("cc_key", "", Here::Option("cc_key")),
        flag("stay_on_fatal", "y", Here::Option("exit_on_fatal")),
        flag("daemon", "B", Here::Flag("-B (--background)")),
        flag("inactive", "I", Here::Instead("'selvedge watch', which sends no Set")),
        flag("perfmgr", "", Here::Option("perfmgr")),
        flag("perfmgr_sweep_time_s", "", Here::Option("perfmgr_sweep_time_s")),
        flag("prefix_routes_file", "", Here::Option("prefix_routes_file")),
        flag("consolidate_ipv6_snm_req", "", Here::Option("consolidate_ipv6_snm_req")),
        flag(
            "guid_routing_order_no_scatter",
            "",
            Here::Option("guid_routing_order_no_scatter"),
        ),
        flag("log_prefix", "", Here::Option("log_prefix")),
        flag("verbose", "v", Here::Needless(ONE_LOG)),
        flag("V", "V", Here::Needless(ONE_LOG)),
        flag("D", "D", Here::Flag("-D FLAGS (--log-flags)")),
        flag(
            "debug",
            "d",
            Here::Needless(
                "-d0 (ignore other managers) would let two masters overwrite each other; -d1, -d2, -d3 and -d10 are \
                 for OpenSM's own threads, log and tests",
            ),
        ),
        flag("help", "h", Here::Flag("-h (--help)")),
        flag("help", "?", Here::Flag("-h (--help)")),
    ];

    /// Returns the flag of `opensm` that a word on the command line stands for: `--smkey`, `--smkey=1`, `-smkey`, `-k`,
    /// `-k1`.
    #[must_use]
    pub fn of_word(word: &str) -> Option<&'static Self> {
        let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
        let name = name.split('=').next().unwrap_or(name);
        let spelled = |text: &str| text.replace('-', "_");
        let mut all = Self::ALL.iter();
        let long = all.find(|flag| spelled(flag.long) == spelled(name));
        let short = || {
            let first = name.get(..1).filter(|_| !word.starts_with("--"))?;
            Self::ALL.iter().find(|flag| flag.short == first)
        };
        long.or_else(short)
    }

    /// Returns the names of the flag, such as `--smkey (-k)`.
    #[must_use]
    pub fn names(&self) -> String {
        match self.short {
            "" => format!("--{}", self.long),
            short => format!("--{} (-{short})", self.long),
        }
    }

    /// Returns the flag of `selvedge run` with the meaning of this flag; `None` if there is none.
    #[must_use]
    pub const fn flag_here(&self) -> Option<&'static str> {
        match self.here {
            Here::Flag(flag) => Some(flag),
            Here::Option(_) | Here::Instead(_) | Here::Needless(_) => None,
        }
    }

    /// Returns the option of `opensm.conf` with the meaning of this flag; `None` if there is none, or if a flag of
    /// `selvedge run` replaces it.
    #[must_use]
    pub fn option(&self) -> Option<&'static OpenSmOption> {
        match self.here {
            Here::Option(name) => OpenSmOption::ALL.iter().find(|option| option.name == name),
            Here::Flag(_) | Here::Instead(_) | Here::Needless(_) => None,
        }
    }

    /// Returns the replacement of the flag, such as `here -P FILE (--partitions)` or `not needed: …`.
    #[must_use]
    pub fn here(&self) -> String {
        match self.here {
            Here::Flag(flag) => format!("here {flag}"),
            Here::Instead(what) => format!("here {what}"),
            Here::Needless(why) => format!("not needed: {why}"),
            Here::Option(name) => {
                let (treatment, key, why) = self
                    .option()
                    .map_or((Treatment::Unknown, None, ""), OpenSmOption::treatment);
                let in_file = format!("option {name} of the file that -F names");
                match (treatment, key) {
                    (Treatment::Moot, _) => format!("not needed: {why}"),
                    (Treatment::Refused, _) => format!("here not available: {why} ({in_file})"),
                    (_, Some(key)) => format!("here {key} in the file that --config names, or {in_file}"),
                    (_, None) => format!("here {in_file}"),
                }
            }
        }
    }

    /// Returns the whole explanation: `OpenSM's flag --smkey (-k): here …`.
    #[must_use]
    pub fn explained(&self) -> String {
        format!("OpenSM's flag {}: {}", self.names(), self.here())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_find_their_flag() {
        let check = |word: &str, want: Option<&str>| {
            assert_eq!(OpenSmFlag::of_word(word).map(|flag| flag.long), want, "{word}");
        };
        check("--smkey", Some("smkey"));
        check("--smkey=0x5", Some("smkey"));
        check("-k", Some("smkey"));
        check("-k5", Some("smkey"));
        check("-smkey", Some("smkey"));
        check("--port_shifting", Some("port-shifting"));
        check("--port-shifting", Some("port-shifting"));
        check("--frobnicate", None);
        check("--k", None);
        check("5", None);
    }

    #[test]
    fn each_flag_is_explained() {
        for flag in OpenSmFlag::ALL {
            let said = flag.explained();
            assert!(said.contains(": here ") || said.contains(": not needed: "), "{said}");
            assert!(!said.contains("()") && !said.ends_with(": "), "{said}");
            if let Here::Option(name) = flag.here {
                assert!(flag.option().is_some(), "no option {name}");
            }
        }
    }
}
