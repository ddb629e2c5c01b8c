//! `selvedge man`: manual pages, from the one definition of every flag and of every key.
//!
//! A page of a command has the sections of clap's definition, then exit status, files and examples ([`pages`]).
//! selvedge.toml(5) is made from the keys that the reader of the file knows ([`settings`]).

mod apm;
mod config;
mod exits;
mod files;
mod job;
mod pages;
mod settings;
mod telemetry;

use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use self::exits::Exits;
use self::files::File;
use self::pages::Page;
use crate::exit::{CliError, Exit};
use crate::out::{Format, Out};
use crate::{args, load};

/// Print the manual page, or write one page per command, and selvedge.toml(5).
#[derive(Args, Debug)]
pub struct ManArgs {
    /// Write selvedge.1, a page per command, and selvedge.toml.5 into DIR
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Runs `selvedge man`.
pub fn run(args: &ManArgs) -> Result<Exit, CliError> {
    let Some(folder) = &args.folder else {
        let mut out = Out::new(Format::default());
        out.write(&page(&whole()))?;
        out.flush()?;
        return Ok(Exit::Good);
    };
    for command in with_all_below(&whole()) {
        let name = format!("{}.1", title(&command));
        load::write(&folder.join(name), &page(&command))?;
    }
    load::write(&folder.join("selvedge.toml.5"), &settings::page())?;
    Ok(Exit::Good)
}

/// Returns the definition of all commands, as manual pages describe it: `help` is in each of them, and has no page.
fn whole() -> Command {
    let mut command = as_documented(args::command());
    command.build();
    command
}

fn as_documented(command: Command) -> Command {
    command
        .disable_help_subcommand(true)
        .subcommand_help_heading("COMMANDS")
        .subcommand_value_name("COMMAND")
        .mut_subcommands(as_documented)
}

/// Returns a command, with all its subcommands.
fn with_all_below(command: &Command) -> Vec<Command> {
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
    let below = shown.flat_map(with_all_below);
    std::iter::once(command.clone()).chain(below).collect()
}

/// Returns the title of a command's page: `selvedge`, `selvedge-run`, `selvedge-topology-show`.
fn title(command: &Command) -> String {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned()
}

fn source() -> String {
    format!("selvedge {}", env!("CARGO_PKG_VERSION"))
}

/// Returns a page as roff.
fn page(command: &Command) -> String {
    let title = title(command);
    let man = Man::new(command.clone())
        .title(&title)
        .source(source())
        .manual("Selvedge manual");
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = man.render_title(&mut text);
    let _ = man.render_name_section(&mut text);
    let _ = man.render_synopsis_section(&mut text);
    let _ = man.render_description_section(&mut text);
    let mut text = String::from_utf8_lossy(&text).into_owned() + &options(&man);
    if command.has_subcommands() {
        let mut below = Vec::new();
        let _ = man.render_subcommands_section(&mut below);
        text += &String::from_utf8_lossy(&below);
    }
    let roff = added(command, pages::of(&title));
    text + &roff.to_roff()
}

/// Returns the options of a command: one section, with the headings of help below it.
fn options(man: &Man) -> String {
    let mut text = Vec::new();
    let _ = man.render_options_section(&mut text);
    let text = String::from_utf8_lossy(&text).replace(".SH ", ".SS ");
    match text.contains(".SS OPTIONS") {
        true => text.replacen(".SS OPTIONS", ".SH OPTIONS", 1),
        false => text.replacen(".SS ", ".SH OPTIONS\n.SS ", 1),
    }
}

/// Returns the sections for which clap has no data.
fn added(command: &Command, page: Page) -> Roff {
    let mut roff = Roff::new();
    let notes = command.get_after_long_help().or_else(|| command.get_after_help());
    if let Some(notes) = notes {
        roff.control("SH", ["NOTES"]);
        literal(&mut roff, &notes.to_string());
    }
    exit_status(&mut roff, "", page.exits);
    files(&mut roff, page.files);
    examples(&mut roff, page.examples);
    see_also(&mut roff, page.see);
    roff
}

/// Writes the exit codes. `of`: the command to which they apply, if that is not the page's own command.
fn exit_status(roff: &mut Roff, of: &str, exits: Exits) {
    roff.control("SH", ["EXIT STATUS"]);
    if !of.is_empty() {
        roff.text([roman(format!("Exit codes {of}:"))]);
    }
    for &(code, meaning) in exits {
        roff.control("TP", []).text([bold(code)]).text([roman(meaning)]);
    }
}

fn files(roff: &mut Roff, files: &[File]) {
    roff.control("SH", ["FILES"]);
    for file in files {
        roff.control("TP", []);
        roff.text([italic(file.path)]).text([roman(file.what)]);
    }
}

fn examples(roff: &mut Roff, examples: &[(&str, &str)]) {
    roff.control("SH", ["EXAMPLES"]);
    for (why, line) in examples {
        roff.control("PP", []).text([roman(*why)]);
        literal(roff, &format!("    {line}"));
    }
}

/// Writes lines exactly as they are.
fn literal(roff: &mut Roff, text: &str) {
    roff.control("nf", []);
    for line in text.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
}

fn see_also(roff: &mut Roff, pages: &[&str]) {
    roff.control("SH", ["SEE ALSO"]);
    let mut words = Vec::new();
    for page in pages {
        let (name, section) = page.split_once('(').unwrap_or((page, ""));
        words.extend([bold(name), roman(format!("({section}, "))]);
    }
    words.push(roman("/usr/share/doc/selvedge/docs"));
    roff.text(words);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::args::tests::words;

    fn all() -> Vec<Command> {
        with_all_below(&whole())
    }

    #[test]
    fn every_page_has_every_section() {
        for command in all() {
            let text = page(&command);
            let mut rest = text.as_str();
            for section in [
                "NAME",
                "SYNOPSIS",
                "DESCRIPTION",
                "OPTIONS",
                "\"EXIT STATUS\"",
                "FILES",
                "EXAMPLES",
                "\"SEE ALSO\"",
            ] {
                let heading = format!(".SH {section}\n");
                let (_, after) = rest
                    .split_once(&heading)
                    .unwrap_or_else(|| panic!("{}: {section}\n{text}", title(&command)));
                assert!(
                    !after.starts_with(".SH") && !after.is_empty(),
                    "{}: {section}",
                    title(&command)
                );
                rest = after;
            }
        }
    }

    #[test]
    fn no_page_cites_a_page_that_does_not_exist() {
        let mut known: BTreeSet<String> = all().iter().map(|command| format!("{}(1)", title(command))).collect();
        known.insert("selvedge.toml(5)".to_owned());
        let mut cited = 0;
        let texts = all().iter().map(page).chain([settings::page()]).collect::<Vec<_>>();
        for text in texts {
            let plain = text
                .replace("\\-", "-")
                .replace("\\fB", "")
                .replace("\\fR", "")
                .replace("\\fI", "");
            for word in plain.split_whitespace() {
                let word = word.trim_end_matches([',', '.']);
                let is_page = word.starts_with("selvedge") && (word.ends_with("(1)") || word.ends_with("(5)"));
                if is_page {
                    cited += 1;
                    assert!(known.contains(word), "{word}");
                }
            }
        }
        assert!(cited > all().len(), "each page cites one at least, here {cited}");
    }

    #[test]
    fn examples_are_command_lines_that_the_program_takes() {
        let mut tried = 0;
        for command in all() {
            for (_, line) in pages::of(&title(&command)).examples {
                let own = line.split(" | ").find(|part| part.contains("selvedge")).unwrap();
                let own = own.split([';', '>']).next().unwrap().trim();
                let own = &own[own.find("selvedge").unwrap()..];
                if let Err(error) = args::command().try_get_matches_from(words(own)) {
                    assert!(!error.use_stderr(), "{line}\n{error}");
                }
                tried += 1;
            }
        }
        assert!(tried >= all().len(), "{tried} examples on {} pages", all().len());
    }
}
