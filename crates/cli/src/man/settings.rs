//! selvedge.toml(5): every key with its values, default and effect, from the keys that the reader of the file knows.

use clap_mangen::roff::{Roff, bold, italic, roman};
use selvedge_config::{Key, Settings};

use super::pages;

/// Returns the page as roff.
pub fn page() -> String {
    let mut roff = Roff::new();
    roff.control("TH", ["selvedge.toml", "5", "", &super::source(), "Selvedge manual"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman("selvedge.toml - settings of selvedge(1)")]);
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([italic("/etc/selvedge/selvedge.toml")]);
    description(&mut roff);
    roff.control("SH", ["KEYS"]);
    for section in Key::sections() {
        roff.control("SS", [format!("[{section}]").as_str()]);
        for key in Key::ALL.iter().filter(|key| key.section == section) {
            entry(&mut roff, key);
        }
    }
    super::exit_status(&mut roff, "of selvedge config check", super::exits::EXIT_STATUS);
    super::files(&mut roff, pages::CONFIGURATION);
    super::examples(&mut roff, pages::of("selvedge-config-check").examples);
    super::see_also(
        &mut roff,
        &[
            "selvedge(1)",
            "selvedge-config(1)",
            "selvedge-run(1)",
            "selvedge-reload(1)",
        ],
    );
    roff.to_roff()
}

fn description(roff: &mut Roff) {
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman(
        "The file is TOML: tables with keys. A key that is missing has its default. A key that is not known is an \
         error, and so is a value that is not legal: selvedge config check names each with its line. Flags of \
         selvedge run overrule the file.",
    )]);
    roff.control("PP", []);
    roff.text([roman(
        "selvedge reload and SIGHUP read the file again, and every file that it names. Keys of [routing], \
         [fabric] and [telemetry.alarms] and keys.sm_key then take effect at once; another keys.m_key is given to \
         one port after the other. Keys of [manager], [sa], [telemetry] itself and [daemon], and keys.sa_key, take \
         effect at the next start. A reload that is refused changes nothing. If the judge refuses the plan, the change \
         is rolled back.",
    )]);
    roff.control("PP", []);
    roff.text([roman(
        "GUIDs are texts of hexadecimal digits, as \"0x0002c90300001234\". Units stand at the end of a key's name: \
         _s seconds, _ms milliseconds, _bytes bytes.",
    )]);
}

fn entry(roff: &mut Roff, key: &Key) {
    let default = match key.shown(&Settings::default()) {
        Some(value) => format!(" = {value}"),
        None => " (no default)".to_owned(),
    };
    roff.control("TP", []);
    roff.text([bold(key.name), roman(default)]);
    roff.text([roman(key.doc)]);
    roff.control("br", []);
    roff.text([roman(format!("Values: {}.", key.want))]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_stands_in_the_page_with_its_values_and_default() {
        let page = page()
            .replace("\\-", "-")
            .replace("\\(aq", "'")
            .replace("\\&", "")
            .replace("\\*(Aq", "'");
        for key in Key::ALL {
            let section = page.split_once(&format!(".SS [{}]\n", key.section));
            let (_, entry) = section
                .and_then(|(_, section)| section.split_once(&format!("\\fB{}\\fR", key.name)))
                .unwrap_or_else(|| panic!("{}", key.path()));
            let entry = entry.split("\n.TP").next().unwrap();
            assert!(entry.contains(key.want), "{}: {entry}", key.path());
            let default = key.shown(&Settings::default()).map(|value| format!(" = {value}"));
            let default = default.unwrap_or_else(|| " (no default)".to_owned());
            assert!(entry.starts_with(&default), "{}: {entry}", key.path());
        }
        for section in Key::sections() {
            assert!(page.contains(&format!(".SS [{section}]\n")), "{section}");
        }
    }
}
