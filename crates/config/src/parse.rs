//! Reads a configuration file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use selvedge_types::SecretKey;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Advice;
use crate::{ConfigError, Key, Settings, Value, alarm_keys, closest, keys};

/// Old section names with their new names.
const OLD_SECTIONS: [(&str, &str); 1] = [("administrator", "sa")];

/// The settings of a file, with all its mistakes.
pub(crate) struct Read {
    /// The settings; keys with mistakes keep their defaults.
    pub(crate) settings: Settings,
    /// The lines of keys, by `table.name`.
    pub(crate) lines: BTreeMap<String, usize>,
    /// Sections with an old name: line, old name, new name.
    pub(crate) old_sections: Vec<(usize, &'static str, &'static str)>,
    /// The mistakes: line, key as written, and error.
    pub(crate) errors: Vec<(usize, String, ConfigError)>,
}

impl Read {
    /// Returns a value that starts from these settings.
    const fn over(settings: Settings) -> Self {
        Self {
            settings,
            lines: BTreeMap::new(),
            old_sections: Vec::new(),
            errors: Vec::new(),
        }
    }
}

/// Reads a text and collects every mistake. Relative paths in it start at the folder of `path`.
pub(crate) fn read_all(text: &str, path: &Path) -> Read {
    let mut read = Read::over(Settings::default());
    Source { text, path }.read(&mut read);
    let folder = path.parent().unwrap_or(Path::new(""));
    let Settings {
        daemon,
        history,
        telemetry_choices: telemetry,
        ..
    } = &mut read.settings;
    let paths = [
        &mut history.folder,
        &mut telemetry.metrics,
        &mut telemetry.expected_types,
        &mut telemetry.host_counters,
        &mut daemon.socket,
        &mut daemon.state_dir,
        &mut daemon.log_file,
        &mut daemon.node_name_map,
        &mut daemon.expected,
        &mut daemon.dump_dir,
    ];
    for found in paths.into_iter().flatten() {
        *found = folder.join(&*found);
    }
    read
}

/// Reads a text; `path` is only for messages.
pub fn parse(text: &str, path: &Path) -> Result<Settings, ConfigError> {
    let mut settings = Settings::default();
    apply(text, path, &mut settings)?;
    Ok(settings)
}

/// Applies a text to the present `settings`.
pub fn apply(text: &str, path: &Path, settings: &mut Settings) -> Result<(), ConfigError> {
    let mut read = Read::over(settings.clone());
    Source { text, path }.read(&mut read);
    if let Some((_, _, error)) = read.errors.into_iter().next() {
        return Err(error);
    }
    *settings = read.settings;
    Ok(())
}

struct Source<'a> {
    text: &'a str,
    path: &'a Path,
}

impl Source<'_> {
    /// Reads the whole text into `read`.
    fn read(&self, read: &mut Read) {
        let table = match DeTable::parse(self.text) {
            Ok(table) => table,
            Err(error) => {
                let line = self.line(error.span().map_or(0, |span| span.start));
                let error = ConfigError::Syntax {
                    path: self.path.to_owned(),
                    line,
                    what: error.message().replace('\n', ", "),
                };
                return read.errors.push((line, "file".to_owned(), error));
            }
        };
        for (section, inner) in in_order(table.get_ref()) {
            let written = section.get_ref();
            let renamed = OLD_SECTIONS.iter().find(|(old, _)| *old == &**written);
            let name = renamed.map_or(&**written, |(_, new)| new);
            if let Some((old, new)) = renamed {
                read.old_sections.push((self.line(section.span().start), old, new));
            }
            let mut unknown = |known: Vec<String>| {
                let error = self.unknown(section, name, known);
                read.errors
                    .push((self.line(section.span().start), name.to_string(), error));
            };
            match inner.get_ref() {
                DeValue::Table(inner) if Key::sections().contains(&name) => {
                    self.read_section(name, inner, read);
                }
                DeValue::Table(_) => {
                    let sections = Key::sections().into_iter().filter(|section| !section.contains('.'));
                    unknown(sections.map(str::to_owned).collect());
                }
                _ => unknown(Key::ALL.iter().map(Key::path).collect()),
            }
        }
    }

    /// Reads a table, and the tables in it that are sections.
    fn read_section(&self, section: &str, table: &DeTable<'_>, read: &mut Read) {
        for (key, value) in in_order(table) {
            let inner = format!("{section}.{}", key.get_ref());
            match value.get_ref() {
                DeValue::Table(table) if Key::sections().contains(&inner.as_str()) => {
                    self.read_section(&inner, table, read);
                }
                _ => self.read_one(section, key, value, read),
            }
        }
    }

    fn read_one(
        &self,
        section: &str,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        read: &mut Read,
    ) {
        let path = format!("{section}.{}", name.get_ref());
        let line = self.line(value.span().start);
        let error = match Key::ALL.iter().find(|key| key.path() == path) {
            None => {
                let inner = Key::sections().into_iter().filter(|section| section.contains('.'));
                let keys = Key::ALL.iter().map(Key::path);
                self.unknown(name, &path, keys.chain(inner.map(str::to_owned)).collect())
            }
            Some(key) => {
                let converted = convert(value.get_ref());
                let taken = converted
                    .as_ref()
                    .is_some_and(|value| keys::set(key, &mut read.settings, value));
                if taken {
                    read.lines.insert(path, line);
                    return;
                }
                self.illegal(key, value, converted.as_ref())
            }
        };
        read.errors.push((line, path, error));
    }

    /// Returns the error for a value that is illegal for its key.
    fn illegal(&self, key: &Key, value: &Spanned<DeValue<'_>>, converted: Option<&Value>) -> ConfigError {
        let line = self.line(value.span().start);
        if let Some(what) = converted.and_then(|value| keys::engine_mistake(key, value)) {
            return ConfigError::Engine {
                place: format!("{}, line {line}: {}", self.path.display(), key.path()),
                what,
            };
        }
        if let Some(what) = converted.and_then(|value| alarm_keys::mistake(key, value)) {
            return ConfigError::Threshold {
                place: format!("{}, line {line}: {}", self.path.display(), key.path()),
                what,
            };
        }
        let found = match key.is_secret() {
            true => SecretKey::NOT_SHOWN,
            false => self.text.get(value.span()).unwrap_or_default(),
        };
        ConfigError::Value {
            path: self.path.to_owned(),
            line,
            key: key.path(),
            want: key.want,
            found: found.chars().take(60).collect(),
        }
    }

    fn unknown<T>(&self, at: &Spanned<T>, found: &str, known: Vec<String>) -> ConfigError {
        // A key may be right but for its table, or wrong in its last word only.
        let last = found.rsplit('.').next().unwrap_or(found);
        let by_name = |wanted: &str| known.iter().find(|key| key.rsplit('.').next() == Some(wanted)).cloned();
        let meant = by_name(last)
            .or_else(|| closest(found, known.iter().map(String::as_str)).map(str::to_owned))
            .or_else(|| closest(last, known.iter().filter_map(|key| key.rsplit('.').next())).and_then(by_name))
            .or_else(|| longer(found, &known));
        let otherwise = match known.len() {
            0..=FEW => Advice::Known(known),
            _ => Advice::Defaults,
        };
        ConfigError::UnknownKey {
            path: PathBuf::from(self.path),
            line: self.line(at.span().start),
            key: found.to_owned(),
            advice: meant.map_or(otherwise, Advice::DidYouMean),
        }
    }

    fn line(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
    }
}

/// Names that an error lists; more fill the screen.
const FEW: usize = 10;

/// Returns the key with a name that differs from `found` by whole words at the end, such as `roots` and `roots_file`.
fn longer(found: &str, known: &[String]) -> Option<String> {
    let (section, name) = found.rsplit_once('.').unwrap_or(("", found));
    let begins = |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with('_'));
    let is_meant = |key: &&String| {
        let (_, other) = key.rsplit_once('.').unwrap_or(("", key));
        begins(name, other) || begins(other, name)
    };
    let in_section = |key: &&&String| key.split('.').next() == Some(section);
    let meant: Vec<&String> = known.iter().filter(is_meant).collect();
    meant
        .iter()
        .find(in_section)
        .or(meant.first())
        .map(|key| (*key).clone())
}

/// Entries in the order of the file, so that the first mistake in it is the one reported.
fn in_order<'a, 'i>(table: &'a DeTable<'i>) -> Vec<(&'a Spanned<std::borrow::Cow<'i, str>>, &'a Spanned<DeValue<'i>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn convert(value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::Boolean(value) => Some(Value::Bool(*value)),
        DeValue::Integer(value) => u64::from_str_radix(value.as_str(), value.radix()).ok().map(Value::Int),
        DeValue::String(text) => Some(Value::Text(text.to_string())),
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
            texts.collect::<Option<_>>().map(Value::List)
        }
        DeValue::Table(table) => {
            let entries = in_order(table).into_iter();
            let entries = entries.map(|(name, value)| match convert(value.get_ref()) {
                Some(Value::Int(number)) => Some((name.get_ref().to_string(), number)),
                _ => None,
            });
            entries.collect::<Option<_>>().map(Value::Table)
        }
        DeValue::Float(_) | DeValue::Datetime(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text, Path::new("fm.toml")).unwrap_err().to_string()
    }

    #[test]
    fn mistakes_come_with_line_and_advice() {
        let check = |text: &str, want: &str| assert_eq!(error(text), want, "{text}");
        check(
            "[routing]\n\nengine = [\"updn\"]\n",
            "SLV-CONFIG-0003: fm.toml, line 3: unknown key 'routing.engine'; did you mean 'routing.engines'?",
        );
        check(
            "[rooting]\nlmc = 1\n",
            "SLV-CONFIG-0003: fm.toml, line 1: unknown key 'rooting'; did you mean 'routing'?",
        );
        check(
            "[fabric]\nlmc = 1\n",
            "SLV-CONFIG-0003: fm.toml, line 2: unknown key 'fabric.lmc'; did you mean 'routing.lmc'?",
        );
        check(
            "lmc = 1\n",
            "SLV-CONFIG-0003: fm.toml, line 1: unknown key 'lmc'; did you mean 'routing.lmc'?",
        );
        check(
            "[manager]\nwindow = 8\npriority = 16\n",
            "SLV-CONFIG-0004: fm.toml, line 3: manager.priority = 16; want 0 to 15",
        );
        check(
            "[manager]\nwindow = \"many\"\n",
            "SLV-CONFIG-0004: fm.toml, line 2: manager.window = \"many\"; want 1 to 1024 SMPs",
        );
        check(
            "[routing]\nroots = [\"0xgg\"]\n",
            "SLV-CONFIG-0004: fm.toml, line 2: routing.roots = [\"0xgg\"]; want a list of GUIDs, as \
             [\"0x0002c90300001234\"]",
        );
        check(
            "[routing]\nlmc = -1\n",
            "SLV-CONFIG-0004: fm.toml, line 2: routing.lmc = -1; want 0 to 7",
        );
        check(
            "[routing]\nroots_file = \"x\"\n",
            "SLV-CONFIG-0003: fm.toml, line 2: unknown key 'routing.roots_file'; did you mean 'routing.roots'?",
        );
        check(
            "[daemon]\nlog = \"x\"\n",
            "SLV-CONFIG-0003: fm.toml, line 2: unknown key 'daemon.log'; did you mean 'daemon.log_file'?",
        );
        check(
            "[daemon]\nquite_something_else = 1\n",
            "SLV-CONFIG-0003: fm.toml, line 2: unknown key 'daemon.quite_something_else'; 'selvedge config defaults' \
             prints every key",
        );
        check(
            "[daemon]\nsocket = \"\"\n",
            "SLV-CONFIG-0004: fm.toml, line 2: daemon.socket = \"\"; want a path; relative ones start at the \
             configuration file's folder",
        );
        assert!(error("[routing\nlmc = 1\n").starts_with("SLV-CONFIG-0002: fm.toml, line 1: "));
        assert!(error("[routing]\nlmc = 1\nlmc = 2\n").starts_with("SLV-CONFIG-0002: fm.toml, line 3: "));
        let there_are = "there are: routing, qos, fabric, keys, manager, sa, telemetry, daemon";
        assert!(error("[nothing_like_it]\n").contains(there_are));
    }

    #[test]
    fn values_arrive() {
        let text = "[routing]\nengines = \"updn\"\nroots = [\"0x10\"]\nlmc = 2\n[keys]\nm_key = 0xffffffffffffffff\n\
                    [manager]\nsweep_interval_s = 0\ntimeout_ms = 50\n[daemon]\nstate_dir = \"state\"\n";
        let settings = parse(text, Path::new("fm.toml")).unwrap();
        assert_eq!(settings.policy.engines.len(), 1);
        assert_eq!(settings.policy.engines[0].0, "updn");
        assert_eq!(settings.policy.roots, [selvedge_types::Guid(0x10)]);
        assert_eq!(settings.policy.lmc.get(), 2);
        assert_eq!(settings.policy.m_key, u64::MAX);
        assert_eq!(settings.manager.sweep_interval, None);
        assert_eq!(settings.manager.timeout.as_millis(), 50);
        assert_eq!(settings.daemon.state_dir.as_deref(), Some(Path::new("state")));
    }

    #[test]
    fn an_old_section_is_known_and_noted() {
        let old = read_all("[administrator]\nburst = 77\n", Path::new("x"));
        assert_eq!(old.settings.administrator.burst, 77);
        assert_eq!(old.old_sections, [(1, "administrator", "sa")]);
        let new = read_all("[sa]\nburst = 77\n", Path::new("x"));
        assert_eq!((new.settings.administrator.burst, new.old_sections.len()), (77, 0));
        assert!(error("[administrator]\nburts = 1\n").contains("did you mean 'sa.burst'"));
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(parse("", Path::new("x")).unwrap(), Settings::default());
    }
}
