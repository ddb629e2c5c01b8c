//! Checks that no program acts upon log events: outside `sm` and `planner`, only tests may distinguish the kinds of a
//! manager's events. Programs use `selvedge_sm::Milestone`, which carries the values of its moment.

use crate::finding::Finding;
use crate::rust_source::{RustSource, is_test_file, words};
use crate::tree::{Tree, room_of};

const RULE: &str = "event-decision";
const INSTEAD: &str = "act upon a selvedge_sm::Milestone; events are for operators";

/// The types of a manager's events, and their crates.
const EVENTS: [(&str, &str); 2] = [("Event", "selvedge_sm"), ("PlanEvent", "selvedge_planner")];

/// Returns each kind of a manager's event that is named outside of `sm`, `planner` and tests.
pub fn findings(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let outside = |path: &str| !matches!(room_of(path), Some("sm" | "planner")) && !is_test_file(path);
    for (path, text) in tree.rust_files().filter(|(path, _)| outside(path)) {
        let source = RustSource::new(text);
        for event in EVENTS {
            let imports = imports_event(&source, event);
            let code = source.code.iter().enumerate();
            let named = code.filter(|(at, line)| !source.is_test[*at] && names_kind(line, event, imports));
            found.extend(named.map(|(at, _)| {
                let what = "a kind of event".to_owned();
                Finding::new(RULE, path, at + 1, what, INSTEAD)
            }));
        }
    }
    found
}

/// True if a line names a variant of an event type. `imports`: the file imports the type under its own name.
fn names_kind(line: &str, (name, krate): (&str, &str), imports: bool) -> bool {
    words(line, name).any(|column| {
        let (before, after) = (&line[..column], &line[column + name.len()..]);
        let is_variant = after
            .strip_prefix("::")
            .is_some_and(|rest| rest.starts_with(char::is_uppercase));
        let is_the_managers = match before.strip_suffix("::") {
            Some(path) => path.ends_with(krate),
            None => imports,
        };
        is_variant && is_the_managers
    })
}

/// True if a file imports a type of events under its own name.
fn imports_event(source: &RustSource<'_>, (name, krate): (&str, &str)) -> bool {
    let code = source.code.join(" ");
    let uses = code.split("use ").skip(1).filter_map(|rest| rest.split(';').next());
    let of_crate = |path: &&str| path.strip_prefix(krate).is_some_and(|rest| rest.starts_with("::"));
    uses.filter(of_crate).any(|path| words(path, name).next().is_some())
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
        let of_plan = "use selvedge_planner::PlanEvent;\nmatches!(event, Event::Plan(PlanEvent::NoPlan))";
        check("crates/daemon/src/a.rs", of_plan, &[2]);
        check("crates/planner/src/a.rs", of_plan, &[]);
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
