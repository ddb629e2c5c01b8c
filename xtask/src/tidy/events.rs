//! Nothing is decided by a log entry: outside of `sm`, only tests look at what kind of event a manager logged. Programs
//! act upon `selvedge_sm::Milestone`, which carries the values of its moment.

use crate::finding::Finding;
use crate::rust_source::{RustSource, is_test_file, words};
use crate::tree::{Tree, room_of};

const RULE: &str = "event-decision";
const INSTEAD: &str = "act upon a selvedge_sm::Milestone; events are for operators";

/// Kinds of the manager's events that are named outside of `sm` and of tests.
pub fn findings(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let outside = |path: &str| room_of(path) != Some("sm") && !is_test_file(path);
    for (path, text) in tree.rust_files().filter(|(path, _)| outside(path)) {
        let source = RustSource::new(text);
        let imports = imports_event(&source);
        for (at, line) in source.code.iter().enumerate().filter(|(at, _)| !source.is_test[*at]) {
            let named = words(line, "Event").any(|column| {
                let (before, after) = (&line[..column], &line[column + "Event".len()..]);
                let is_variant = after
                    .strip_prefix("::")
                    .is_some_and(|rest| rest.starts_with(char::is_uppercase));
                let is_the_managers = match before.ends_with("::") {
                    true => before.ends_with("selvedge_sm::"),
                    false => imports,
                };
                is_variant && is_the_managers
            });
            if named {
                found.push(Finding::new(RULE, path, at + 1, "a kind of event".to_owned(), INSTEAD));
            }
        }
    }
    found
}

/// True if a file names the manager's events `Event`.
fn imports_event(source: &RustSource<'_>) -> bool {
    let code = source.code.join(" ");
    let uses = code.split("use ").skip(1).filter_map(|rest| rest.split(';').next());
    uses.filter(|path| path.starts_with("selvedge_sm::"))
        .any(|path| words(path, "Event").next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, want: &[usize]) {
        let found = findings(&Tree::of(&[(path, text)]));
        let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, want, "{path}: {text}");
    }

    #[test]
    fn kinds_of_events_are_for_sm_and_tests() {
        let decides = "use selvedge_sm::{\n    Event,\n    Sm,\n};\nmatches!(event, Event::NoPlan)";
        check("crates/daemon/src/a.rs", decides, &[5]);
        check("crates/sm/src/a.rs", decides, &[]);
        check("crates/daemon/tests/it/a.rs", decides, &[]);
        let test = "use selvedge_sm::Event;\n#[cfg(test)]\nmod tests {\n    fn f() -> Event { Event::NoPlan }\n}";
        check("crates/daemon/src/a.rs", test, &[]);
        check("crates/daemon/src/a.rs", "f(selvedge_sm::Event::NoPlan)", &[1]);
    }

    #[test]
    fn other_events_and_whole_events_may_be_named() {
        check("crates/emulator/src/a.rs", "self.push(Event::Arrive(slot))", &[]);
        let passes = "use selvedge_sm::{Event, Output};\nOutput::Event(event) => event.to_string(),";
        check("crates/daemon/src/a.rs", passes, &[]);
        check(
            "crates/daemon/src/a.rs",
            "use selvedge_sm::Event;\nother::Event::Gone",
            &[],
        );
    }
}
