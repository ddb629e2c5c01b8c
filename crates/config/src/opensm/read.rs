//! Converts the text of an `opensm.conf` to settings and findings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use selvedge_plan::PartEnforce;
use selvedge_types::{Guid, SecretKey};

use super::option::Meaning;
use super::qos::{self, Qos};
use super::value::{is_text, same};
use super::{Finding, OpenSmOption, Treatment, effect, marked};
use crate::admit::{Lost, partitions};
use crate::{ConfigError, Settings, closest, parse_engines};

/// OpenSM's largest number of lanes, `max_op_vls 5`: its default.
const OPENSM_LANES: u8 = 15;

/// Path of the partition file that OpenSM reads by default.
const PARTITIONS: &str = "/etc/opensm/partitions.conf";

/// Folder of OpenSM's dump files, unless `OSM_TMP_DIR` is set.
const DUMPS: &str = "/var/log/";

/// The text that OpenSM writes for an empty value.
const NULL: &str = "(null)";

/// The contents of an `opensm.conf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSmConf {
    /// The resulting settings, on top of OpenSM's defaults where a fabric would notice the difference.
    pub settings: Settings,
    /// `guid`: the local port to manage the fabric from; `None`: the first port that is up.
    pub port_guid: Option<Guid>,
    /// `root_guid_file`; its contents go into the settings.
    pub roots_file: Option<PathBuf>,
    /// `cn_guid_file`; its contents go into the settings.
    pub compute_file: Option<PathBuf>,
    /// `io_guid_file`; its contents go into the settings.
    pub io_file: Option<PathBuf>,
    /// `guid_routing_order_file`; its contents go into the settings.
    pub guid_order_file: Option<PathBuf>,
    /// `partition_config_file`; its contents go into the settings. OpenSM's default path is read if the file exists.
    pub partitions_file: Option<PathBuf>,
    /// The reason for which `partition_config_file` gives no partitions, if it gives none.
    pub(crate) lost_partitions: Option<Lost>,
    /// The options of quality of service; with `qos TRUE` they go into the settings.
    pub(crate) qos: Qos,
    /// The treatment of each line, in the order of the file.
    pub findings: Vec<Finding>,
}

impl Default for OpenSmConf {
    /// Returns settings with OpenSM's default instead of Selvedge's wherever a fabric or a script would notice the
    /// difference: OperationalVLs as large as ports support, OpenSM's path for the list of links, partitions enforced
    /// by switches.
    fn default() -> Self {
        let mut settings = Settings::default();
        settings.policy.lanes = OPENSM_LANES;
        settings.policy.part_enforce = PartEnforce::Both;
        settings.daemon.dump_dir = Some(PathBuf::from(DUMPS));
        Self {
            settings,
            port_guid: None,
            roots_file: None,
            compute_file: None,
            io_file: None,
            guid_order_file: None,
            partitions_file: Some(PathBuf::from(PARTITIONS)),
            lost_partitions: None,
            qos: Qos::default(),
            findings: Vec::new(),
        }
    }
}

impl OpenSmConf {
    /// Returns the lines that Selvedge cannot honour.
    pub fn refused(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.treatment == Treatment::Refused)
    }

    /// Returns the unknown lines.
    pub fn unknown(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.treatment == Treatment::Unknown)
    }
}

/// Reads a text and the files that it names (`root_guid_file` and other lists). Each mistake becomes a finding.
pub(crate) fn load(text: &str, path: &Path) -> OpenSmConf {
    let (mut conf, _) = read_lines(text, path);
    let files = [
        ("root_guid_file", conf.roots_file.take()),
        ("cn_guid_file", conf.compute_file.take()),
        ("io_guid_file", conf.io_file.take()),
        ("guid_routing_order_file", conf.guid_order_file.take()),
    ];
    for (option, file) in files {
        let Some(file) = file else { continue };
        let guids = crate::read_guids(&file);
        let policy = &mut conf.settings.policy;
        let list = match option {
            "root_guid_file" => &mut policy.roots,
            "cn_guid_file" => &mut policy.compute,
            "io_guid_file" => &mut policy.io,
            _ => &mut policy.guid_order,
        };
        match guids {
            Ok(guids) => *list = guids,
            Err(error) => conf.mark(option, &error),
        }
    }
    conf.load_partitions();
    conf.load_qos();
    conf.find_defaults(Path::exists);
    effect::settle(&mut conf.findings, |file| Path::new(file).exists());
    if !conf.findings.iter().any(|found| found.name == "dump_files_dir") {
        conf.settings.daemon.dump_dir = Some(opensm_dump_dir());
    }
    conf
}

/// Returns OpenSM's default folder for dump files: the one that `OSM_TMP_DIR` names, or /var/log.
#[must_use]
pub fn opensm_dump_dir() -> PathBuf {
    std::env::var_os("OSM_TMP_DIR").map_or_else(|| PathBuf::from(DUMPS), PathBuf::from)
}

/// Reads a text; `path` is only for messages. If an option occurs twice, the last one counts, as in OpenSM.
///
/// Does not check for other files: an option that depends on a file is treated as if the file existed.
pub fn parse_opensm_conf(text: &str, path: &Path) -> Result<OpenSmConf, ConfigError> {
    let (mut conf, errors) = read_lines(text, path);
    effect::settle(&mut conf.findings, |_| true);
    errors.into_iter().next().map_or(Ok(conf), Err)
}

/// Reads each line. A wrong line becomes a finding and an error, and changes no setting.
fn read_lines(text: &str, path: &Path) -> (OpenSmConf, Vec<ConfigError>) {
    let mut conf = OpenSmConf::default();
    let mut errors = Vec::new();
    for (line, at) in text.lines().zip(1..) {
        let Some((name, value)) = split(line) else { continue };
        let finding = conf.take(at, name, value).unwrap_or_else(|mistake| {
            let error = mistake.at(path, at, (name, value));
            let found = Finding::wrong(at, name, shown(name, value), &error);
            errors.push(error);
            found
        });
        conf.findings.push(finding);
    }
    // OpenSM's older option overrides the newer one, wherever it is in the file.
    let old = conf
        .findings
        .iter()
        .rfind(|found| found.name == "no_partition_enforcement");
    if old.is_some_and(|found| found.value == "TRUE") {
        conf.settings.policy.part_enforce = PartEnforce::Off;
    }
    conf.settings.policy.qos = conf.qos.policy(conf.settings.policy.lanes).and_then(qos::shared);
    (conf, errors)
}

/// The reasons for which a line is wrong.
enum Mistake {
    /// The value is not one of these legal values.
    Want(&'static str),
    /// The list of engines is wrong for this reason.
    Engines(String),
    /// An option of quality of service is wrong for this reason.
    Qos(String),
}

impl Mistake {
    fn at(self, path: &Path, line: usize, (name, value): (&str, &str)) -> ConfigError {
        match self {
            Self::Want(want) => ConfigError::Value {
                path: path.to_owned(),
                line,
                key: name.to_owned(),
                want,
                found: shown(name, value).chars().take(60).collect(),
            },
            Self::Qos(what) => ConfigError::Qos {
                place: format!("{}, line {line}", path.display()),
                what,
            },
            Self::Engines(what) => ConfigError::Engine {
                place: format!("{}, line {line}: {name}", path.display()),
                what,
            },
        }
    }
}

/// Returns name and value of a line. `#` starts a comment, and one pair of quotes around the value is removed.
fn split(line: &str) -> Option<(&str, &str)> {
    let line = line.split('#').next().unwrap_or_default().trim();
    let (name, value) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let value = value.trim();
    let quoted = |quote| {
        value
            .strip_prefix(quote)
            .and_then(|rest: &str| rest.strip_suffix(quote))
    };
    (!name.is_empty()).then(|| (name, quoted('"').or_else(|| quoted('\'')).unwrap_or(value)))
}

/// Options with a default file that OpenSM reads if it exists, even if the option is not set.
const READ_UNASKED: [&str; 2] = ["partition_config_file", "prefix_routes_file"];

impl OpenSmConf {
    /// Finds files that OpenSM reads although no line names them: their contents must not be ignored silently.
    fn find_defaults(&mut self, exists: impl Fn(&Path) -> bool) {
        for option in OpenSmOption::ALL.iter().filter(|o| READ_UNASKED.contains(&o.name)) {
            let line = self.findings.iter().rfind(|found| found.name == option.name);
            let is_default = line.is_none_or(|found| found.treatment == Treatment::Default);
            if !is_default || !exists(Path::new(option.default)) {
                continue;
            }
            let line = line.map_or(0, |found| found.line);
            let (treatment, key, why) = option.treatment();
            let why = match why {
                "" => "this file exists, and OpenSM reads it although no option names it".to_owned(),
                why => format!("this file exists, and OpenSM reads it although no option names it: {why}"),
            };
            let found = Finding::new(line, option.name, option.default, treatment, why);
            self.findings.push(Finding { key, ..found });
        }
    }

    /// Reads the partitions. At the path that OpenSM uses by default, a missing file is not reported.
    fn load_partitions(&mut self) {
        let Some(file) = self.partitions_file.clone() else {
            return;
        };
        let read = match partitions(&file) {
            Ok(read) => read,
            Err(error) => return self.mark("partition_config_file", &error),
        };
        self.settings.policy.partitions = Arc::new(read.partitions);
        if let Some(lost) = &read.lost {
            let line = self.last_line("partition_config_file");
            if let Some(found) = line.filter(|_| file != Path::new(PARTITIONS)) {
                (found.treatment, found.why) = (Treatment::Warned, lost.in_words().to_owned());
            }
        }
        self.lost_partitions = read.lost;
    }

    /// Reads the QoS policy file, if quality of service is on.
    fn load_qos(&mut self) {
        let Some(mut wanted) = self.qos.policy(self.settings.policy.lanes) else {
            return;
        };
        match self.qos.read() {
            Ok(policy) => wanted.policy = policy,
            Err(error) => self.mark("qos_policy_file", &error),
        }
        self.settings.policy.qos = qos::shared(wanted);
    }

    fn last_line(&mut self, name: &str) -> Option<&mut Finding> {
        self.findings.iter_mut().rfind(|found| found.name == name)
    }

    /// Changes the finding for an option's line into an error. If the file has no line for this option, adds an error
    /// about the file that OpenSM reads by default.
    fn mark(&mut self, name: &str, error: &ConfigError) {
        let of_line = |found: &mut Finding| {
            let wrong = Finding::wrong(found.line, name, &found.value, error);
            *found = Finding {
                key: found.key,
                ..wrong
            };
        };
        if self.last_line(name).map(of_line).is_none() {
            self.findings.push(Finding::wrong(0, name, "", error));
        }
    }

    fn take(&mut self, line: usize, name: &str, value: &str) -> Result<Finding, Mistake> {
        let found = |treatment, key, why: &str| Finding {
            key,
            ..Finding::new(line, name, shown(name, value), treatment, why)
        };
        let Some(option) = OpenSmOption::ALL.iter().find(|option| option.name == name) else {
            return Ok(found(Treatment::Unknown, None, &advice(name)));
        };
        // Empty values leave OpenSM's defaults in place.
        if value.is_empty() {
            return Ok(found(Treatment::Default, None, "no value: OpenSM leaves its default"));
        }
        let (treatment, key, why) = option.treatment();
        // A setting takes even OpenSM's default, which may differ from that of Selvedge.
        let taken = match option.meaning {
            Meaning::Same(_, take) | Meaning::Near(_, take, _) => take(self, value).map_err(Mistake::Want),
            Meaning::Qos => self.qos.take(name, value).map_err(Mistake::Qos),
            Meaning::Engines(..) => {
                let fork = self.take_engines(value)?;
                if !fork.is_empty() {
                    return Ok(found(Treatment::Refused, key, &fork));
                }
                Ok(())
            }
            Meaning::Moot(_) | Meaning::Lacking(_) => Ok(()),
        };
        let is_default = !option.default.is_empty() && same(value, option.default);
        match taken {
            _ if value == NULL
                && !is_default
                && is_text(option.default)
                && !matches!(taken, Ok(()) if key.is_some()) =>
            {
                Ok(found(Treatment::Moot, None, "no value: OpenSM leaves the feature off"))
            }
            Ok(()) if is_default => Ok(found(Treatment::Default, key, "")),
            Ok(()) => Ok(found(treatment, key, why)),
            Err(mistake) => Err(mistake),
        }
    }

    /// Applies the engines. Returns the explanation of those that exist only in NVIDIA's fork.
    fn take_engines(&mut self, value: &str) -> Result<String, Mistake> {
        let list = parse_engines(value).map_err(Mistake::Engines)?;
        self.settings.policy.engines = match list.engines.is_empty() {
            true => Settings::default().policy.engines,
            false => list.engines,
        };
        Ok(list.fork.join("; "))
    }
}

/// OpenSM's options that hold keys.
const SECRET: [&str; 4] = ["m_key", "sm_key", "sa_key", "cc_key"];

/// Returns `value`, or a placeholder if it may be a key. Besides the options above, this applies to unknown options
/// with a similar name: a mistyped name, or a key option of NVIDIA's fork.
fn shown<'a>(name: &str, value: &'a str) -> &'a str {
    let is_known = OpenSmOption::ALL.iter().any(|option| option.name == name);
    let is_secret = match is_known {
        true => SECRET.contains(&name),
        false => name.to_ascii_lowercase().contains("key") || closest(name, SECRET).is_some(),
    };
    if is_secret { SecretKey::NOT_SHOWN } else { value }
}

fn advice(name: &str) -> String {
    if let Some(fork) = marked::fork_option(name) {
        return fork.to_owned();
    }
    match closest(name, OpenSmOption::ALL.iter().map(|option| option.name)) {
        Some(meant) => format!("OpenSM has no such option and ignores it; did you mean '{meant}'?"),
        None => "OpenSM 3.3.23 has no such option and ignores it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(text: &str) -> OpenSmConf {
        parse_opensm_conf(text, Path::new("opensm.conf")).unwrap()
    }

    #[test]
    fn each_line_gets_a_treatment() {
        let check = |line: &str, want: Treatment, key: Option<&str>| {
            let conf = conf(line);
            let [finding] = &conf.findings[..] else {
                panic!("{line}: {:?}", conf.findings)
            };
            assert_eq!((finding.treatment, finding.key), (want, key), "{line}: {}", finding.why);
        };
        check("sm_priority 13", Treatment::Honoured, Some("manager.priority"));
        check("sm_priority 0", Treatment::Default, Some("manager.priority"));
        check("lmc\t2 # four LIDs", Treatment::Honoured, Some("routing.lmc"));
        check("packet_life_time 0x12", Treatment::Default, Some("fabric.packet_life"));
        check("max_wire_smps 64", Treatment::Mapped, Some("manager.window"));
        check("single_thread TRUE", Treatment::Moot, None);
        check("part_enforce off", Treatment::Honoured, Some("fabric.part_enforce"));
        check("qos TRUE", Treatment::Honoured, None);
        check("qos FALSE", Treatment::Default, None);
        check("sm_prioritty 3", Treatment::Unknown, None);
        check("virt_enabled 2", Treatment::Unknown, None);
        check("log_prefix", Treatment::Default, None);
    }

    #[test]
    fn settings_arrive() {
        let text = "guid 0x0002c90300001234\nm_key 0x10\nsm_key 0x2\nlmc 1\nsweep_interval 0\nmax_op_vls 3\n\
                    routing_engine \"updn,minhop\"\nlog_file '/var/log/my opensm.log'\nsm_priority 3\nsm_priority 4\n\
                    sminfo_polling_timeout 500\nnode_name_map_name /etc/names\nm_key_lease_period 60\n";
        let conf = conf(text);
        let (policy, manager) = (&conf.settings.policy, &conf.settings.manager);
        assert_eq!(conf.port_guid, Some(Guid(0x0002_c903_0000_1234)));
        assert_eq!(
            (policy.m_key, policy.m_key_lease_s, manager.sm_key.expose()),
            (16, 60, 2)
        );
        assert_eq!((policy.lmc.get(), policy.lanes, manager.priority), (1, 4, 4));
        assert_eq!(manager.sweep_interval, None);
        assert_eq!(manager.poll_interval.as_millis(), 500);
        let engines: Vec<&str> = policy.engines.iter().map(|e| e.0.as_str()).collect();
        assert_eq!(engines, ["updn", "minhop"]);
        assert_eq!(
            conf.settings.daemon.log_file.as_deref(),
            Some(Path::new("/var/log/my opensm.log"))
        );
    }

    #[test]
    fn keys_are_not_shown() {
        let check = |line: &str, want: &str| assert_eq!(conf(line).findings[0].value, want, "{line}");
        for name in [
            "m_key",
            "sm_key",
            "sa_key",
            "cc_key",
            "mkey",
            "M_KEY",
            "m_kye",
            "vs_key",
            "m_key_per_port",
        ] {
            check(&format!("{name} 0xfeed"), "(not shown)");
        }
        check("lmc 1", "1");
        check("m_key_protection_level 2", "2");
        check("keep_pkey_indexes FALSE", "FALSE");
    }

    #[test]
    fn the_older_word_for_enforcement_overrules() {
        let check = |text: &str, want| assert_eq!(conf(text).settings.policy.part_enforce, want, "{text}");
        check("", PartEnforce::Both);
        check("part_enforce in", PartEnforce::In);
        check("no_partition_enforcement TRUE\npart_enforce both", PartEnforce::Off);
        check("part_enforce out\nno_partition_enforcement FALSE", PartEnforce::Out);
    }

    #[test]
    fn mistakes_name_line_and_legal_values() {
        let check = |text: &str, want: &str| {
            let error = parse_opensm_conf(text, Path::new("o.conf")).unwrap_err();
            assert_eq!(error.to_string(), want);
        };
        check("\nlmc 8\n", "SLV-CONFIG-0004: o.conf, line 2: lmc = 8; want 0 to 7");
        check(
            "reassign_lids yes\n",
            "SLV-CONFIG-0004: o.conf, line 1: reassign_lids = yes; want TRUE or FALSE",
        );
        check(
            "max_op_vls 6\n",
            "SLV-CONFIG-0004: o.conf, line 1: max_op_vls = 6; want 1 to 5 (1, 2, 4, 8 or 15 lanes)",
        );
    }

    #[test]
    fn every_option_takes_its_own_default() {
        for option in OpenSmOption::ALL {
            let conf = conf(&format!("{} {}", option.name, option.default));
            assert_eq!(conf.findings[0].treatment, Treatment::Default, "{}", option.name);
        }
        let text: String = OpenSmOption::ALL
            .iter()
            .map(|option| format!("{} {}\n", option.name, option.default))
            .collect();
        let mut all = conf(&text);
        assert_eq!(all.findings.len(), OpenSmOption::ALL.len());
        all.findings.clear();
        // OpenSM's defaults that a fabric does not notice: numbers and intervals of requests.
        let mut want = OpenSmConf::default();
        let (got, ours) = (&mut all.settings, &mut want.settings);
        ours.manager.poll_interval = got.manager.poll_interval;
        ours.manager.poll_misses = got.manager.poll_misses;
        ours.manager.window = got.manager.window;
        ours.daemon.log_file = got.daemon.log_file.clone();
        assert_eq!(all, want);
    }

    #[test]
    fn files_that_are_read_unasked_are_not_passed_over() {
        let check = |text: &str, there: &str, want: &[(usize, &str)]| {
            let mut conf = conf(text);
            conf.find_defaults(|path| path == Path::new(there));
            let refused: Vec<(usize, &str)> = conf.refused().map(|f| (f.line, f.name.as_str())).collect();
            assert_eq!(refused, want, "{text}");
        };
        let routes = "/etc/opensm/prefix-routes.conf";
        check("lmc 0", "/nowhere", &[]);
        check("lmc 0", PARTITIONS, &[]);
        check("lmc 0", routes, &[(0, "prefix_routes_file")]);
        check(
            "lmc 0\nprefix_routes_file /etc/opensm/prefix-routes.conf",
            routes,
            &[(2, "prefix_routes_file")],
        );
        check("prefix_routes_file /mine", routes, &[(1, "prefix_routes_file")]);
        let mut unasked = conf("lmc 0");
        unasked.find_defaults(|path| path == Path::new(PARTITIONS));
        assert_eq!(unasked.findings[1].treatment, Treatment::Honoured);
    }

    #[test]
    fn options_are_listed_once() {
        let mut names: Vec<&str> = OpenSmOption::ALL.iter().map(|option| option.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        for option in OpenSmOption::ALL {
            if let Some(key) = option.treatment().1 {
                let known = crate::Key::ALL.iter().any(|ours| ours.path() == key);
                assert!(known || key.starts_with("--"), "{}: {key}", option.name);
            }
        }
    }
}
