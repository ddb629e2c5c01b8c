//! Checks that the manager's sub-machines are independent: `impl Sm` stands only in the module of the outer machine,
//! the state of a sub-machine is private and changes only by its inputs, and no sub-machine names another one or the
//! outer machine.
//!
//! A module of `sm` is a sub-machine if a type of it has a function `handle(&mut self, …)`.

use std::collections::{BTreeMap, BTreeSet};

use super::ratchet::{Limit, Measure};
use crate::modules::{Module, Modules};
use crate::rust_items::{head, impls, places, structs};
use crate::rust_source::words;
use crate::tree::Tree;

const ROOM: &str = "sm";
/// The outer machine: its type, and the module that it stands in.
const OUTER: (&str, &str) = ("Sm", "core");
/// A sub-machine without `handle`: it stands before the manager, and the coordinator calls it.
const ASKED_BY_OTHERS: (&str, &str) = ("Intake", "intake");
/// Types of the outer machine that sub-machines must not name.
const OF_OUTER: [&str; 3] = [OUTER.0, "Stage", "View"];

const OUTER_IMPL: Limit = Limit {
    rule: "outer-machine",
    unit: "places",
    most: 0,
    most_hard: usize::MAX,
    advice: "move it into a sub-machine, or what routes between them into crates/sm/src/core/",
};
const OPEN_STATE: Limit = Limit {
    rule: "machine-state",
    unit: "fields that are not private",
    advice: "ask by a function that returns a value, change by an input",
    ..OUTER_IMPL
};
const OPEN_DOOR: Limit = Limit {
    rule: "machine-door",
    unit: "functions",
    advice: "let handle be the only function that changes its state from outside; hand out values or shared references",
    ..OUTER_IMPL
};
const NEIGHBOUR: Limit = Limit {
    rule: "machine-names",
    advice: "answer with an effect, let the outer machine route; what is read comes as a value in Ctx",
    ..OUTER_IMPL
};

/// Returns every place at which a sub-machine or the outer machine opens or names something that it must not.
pub fn measures(tree: &Tree) -> Vec<Measure> {
    let modules = Modules::of(tree, ROOM);
    let machines = machines(&modules);
    let mut measures = Vec::new();
    for (at, module) in modules.iter() {
        let top = at.first().map(String::as_str).unwrap_or_default();
        if top != OUTER.1 {
            measures.extend(outer_impls(module, &machines));
        }
        if top == OUTER.1 || machines.contains_key(top) {
            measures.extend(open_fields(module));
        }
        if machines.contains_key(top) {
            measures.extend(open_doors(module, &machines, at.len() == 1));
            measures.extend(neighbours(&modules, module, (top, &machines)));
        }
    }
    measures
}

/// The type of each sub-machine, by its module.
fn machines(modules: &Modules<'_>) -> BTreeMap<String, String> {
    let mut machines = BTreeMap::new();
    for (at, module) in modules.iter() {
        let Some(top) = at.first().filter(|top| *top != OUTER.1) else {
            continue;
        };
        let functions = module.source.functions();
        let mut doors = functions
            .iter()
            .filter(|function| function.name == "handle" && head(&module.source, function).contains("&mut self"));
        if let Some(door) = doors.next() {
            let mut of = impls(&module.source).into_iter();
            if let Some(of) = of.find(|of| of.lines.contains(&door.lines.start)) {
                machines.insert(top.clone(), of.name);
            }
        }
    }
    if modules.iter().any(|(at, _)| at == [ASKED_BY_OTHERS.1]) {
        machines.insert(ASKED_BY_OTHERS.1.to_owned(), ASKED_BY_OTHERS.0.to_owned());
    }
    machines
}

/// Counts `impl Sm`, functions that take `Sm`, and functions that change more than one sub-machine.
fn outer_impls(module: &Module<'_>, machines: &BTreeMap<String, String>) -> Vec<Measure> {
    let source = &module.source;
    let blocks = impls(source).into_iter().filter(|block| block.name == OUTER.0);
    let mut found: Vec<_> = blocks
        .map(|block| (block.lines.start + 1, format!("impl {}", OUTER.0)))
        .collect();
    for function in source
        .functions()
        .iter()
        .filter(|function| !source.is_test[function.lines.start])
    {
        let head = head(source, function);
        let parameters = head.split("->").next().unwrap_or_default();
        let takes = |name: &str| words(parameters, name).any(|at| parameters[..at].ends_with(['&', ' ', ':', '<']));
        let changes = |name: &&String| words(parameters, &format!("&mut {name}")).next().is_some();
        if takes(OUTER.0) || machines.values().filter(changes).count() > 1 {
            found.push((function.lines.start + 1, function.name.clone()));
        }
    }
    Measure::count(&OUTER_IMPL, module.file, found)
}

/// Counts the fields that are not private of structs that hold state: structs with a function that takes `&mut self`.
fn open_fields(module: &Module<'_>) -> Vec<Measure> {
    let source = &module.source;
    let blocks = impls(source);
    let functions = source.functions().into_iter();
    let changing = functions.filter(|function| head(source, function).contains("&mut self"));
    let states: BTreeSet<&str> = changing
        .filter_map(|function| blocks.iter().find(|block| block.lines.contains(&function.lines.start)))
        .map(|block| block.name.as_str())
        .collect();
    let structs = structs(source).into_iter();
    let open = structs
        .filter(|item| states.contains(item.name.as_str()))
        .flat_map(|item| {
            let fields = item.fields.iter().filter(|field| words(field, "pub").next().is_some());
            fields.map(|_| (item.line + 1, item.name.clone())).collect::<Vec<_>>()
        });
    Measure::count(&OPEN_STATE, module.file, open)
}

/// Counts visible functions that return `&mut`, or that change a sub-machine and are not its `handle`.
fn open_doors(module: &Module<'_>, machines: &BTreeMap<String, String>, is_root: bool) -> Vec<Measure> {
    let source = &module.source;
    let blocks = impls(source);
    let mut found = Vec::new();
    for function in source
        .functions()
        .iter()
        .filter(|function| !source.is_test[function.lines.start])
    {
        let head = head(source, function);
        let (parameters, returned) = head.split_once("->").unwrap_or((&head, ""));
        let is_seen = parameters.starts_with("pub") && (is_root || !parameters.starts_with("pub(super)"));
        let mut around = blocks
            .iter()
            .filter(|block| block.lines.contains(&function.lines.start));
        let is_of_machine = around.any(|block| machines.values().any(|machine| *machine == block.name));
        let is_door = is_of_machine && function.name != "handle" && parameters.contains("&mut self");
        if is_seen && (is_door || hands_out(returned)) {
            found.push((function.lines.start + 1, function.name.clone()));
        }
    }
    Measure::count(&OPEN_DOOR, module.file, found)
}

/// True if a return type has `&mut` or `&'a mut`.
fn hands_out(returned: &str) -> bool {
    words(returned, "mut").next().is_some()
}

/// Counts names of other sub-machines and of the outer machine.
fn neighbours(
    modules: &Modules<'_>,
    module: &Module<'_>,
    (own, machines): (&str, &BTreeMap<String, String>),
) -> Vec<Measure> {
    let mut found = Vec::new();
    for named in modules.named_by(module) {
        if let Some(top) = named
            .module
            .first()
            .filter(|top| *top != own && machines.contains_key(*top))
        {
            let item = named
                .item
                .iter()
                .fold(top.clone(), |path, item| format!("{path}::{item}"));
            found.push((named.line + 1, item));
        }
    }
    for name in OF_OUTER {
        found.extend(places(&module.source, name).map(|(line, _)| (line + 1, name.to_owned())));
    }
    Measure::count(&NEIGHBOUR, module.file, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchet;

    const ROOT: &str = "mod core;\nmod drain;\nmod election;\nmod intake;\nmod trap;\npub use election::Role;";
    const CORE: &str = "use crate::election::Election;\npub struct Sm {\n    election: Election,\n}\nimpl Sm {}";
    const ELECTION: &str = "\
pub enum Role {}
pub struct Election {
    role: Role,
}
impl Election {
    pub fn handle(&mut self) {}
}
";
    const TRAP: &str = "\
pub struct Traps {
    open: u8,
}
pub struct Ctx {
    pub now: Time,
}
impl Traps {
    pub fn handle(
        &mut self,
        ctx: &Ctx,
    ) {}
    pub fn due(&self) -> u8 {}
}
";

    fn check(path: &str, text: &str, want: &[&str]) {
        let mut files = BTreeMap::from([
            ("crates/sm/src/lib.rs", ROOT),
            ("crates/sm/src/core.rs", CORE),
            ("crates/sm/src/election/mod.rs", ELECTION),
            ("crates/sm/src/trap.rs", TRAP),
        ]);
        files.insert(path, text);
        let files: Vec<_> = files.into_iter().collect();
        let tree = Tree::of(&files);
        let found = ratchet::findings(&tree, &measures(&tree));
        let found: Vec<_> = found.iter().map(|f| format!("{} {}", f.rule, f.what)).collect();
        assert_eq!(found, want, "{path}: {text}");
    }

    fn trap_with(more: &str) -> String {
        format!("{TRAP}{more}")
    }

    #[test]
    fn the_outer_machine_stays_in_its_room() {
        check("crates/sm/src/core/trap.rs", "impl Sm {}\nfn f(sm: &mut Sm) {}", &[]);
        let want = &["outer-machine impl Sm: 1 places, limit 0"];
        check("crates/sm/src/drain.rs", "impl Sm {\n}", want);
        check("crates/sm/src/drain.rs", "impl fmt::Display for crate::Sm {\n}", want);
        let want = &["outer-machine f: 1 places, limit 0"];
        check("crates/sm/src/drain.rs", "fn f(\n    sm: &mut Sm,\n) {\n}", want);
        check("crates/sm/src/drain.rs", "fn f(sm: &SmInfo) -> Sm {\n}", &[]);
    }

    #[test]
    fn nobody_else_changes_two_sub_machines() {
        let want = &["outer-machine f: 1 places, limit 0"];
        check(
            "crates/sm/src/drain.rs",
            "fn f(a: &mut Traps, b: &mut Election) {\n}",
            want,
        );
        check("crates/sm/src/drain.rs", "fn f(a: &mut Traps, b: &Election) {\n}", &[]);
        check(
            "crates/sm/src/core.rs",
            "fn f(a: &mut Traps, b: &mut Election) {\n}",
            &[],
        );
    }

    #[test]
    fn state_is_private() {
        let open = TRAP.replace("open: u8", "pub(crate) open: u8");
        let want = &["machine-state Traps: 1 fields that are not private, limit 0"];
        check("crates/sm/src/trap.rs", &open, want);
        let list = "pub(super) struct List {\n    pub a: u8,\n}\nimpl List {\n    fn next(&mut self) {}\n}";
        let want = &["machine-state List: 1 fields that are not private, limit 0"];
        check("crates/sm/src/election/list.rs", list, want);
        check("crates/sm/src/drain.rs", list, &[]);
        let sm = "pub struct Sm {\n    pub(crate) a: u8,\n    pub b: u8,\n}\nimpl Sm {\n    fn next(&mut self) {}\n}";
        let want = &["machine-state Sm: 2 fields that are not private, limit 0"];
        check("crates/sm/src/core.rs", sm, want);
    }

    #[test]
    fn state_changes_by_handle_only() {
        let want = &["machine-door f: 1 functions, limit 0"];
        let in_traps = |function: &str| trap_with(&format!("impl Traps {{\n    {function} {{}}\n}}\n"));
        check("crates/sm/src/trap.rs", &in_traps("pub fn f(&mut self)"), want);
        check(
            "crates/sm/src/trap.rs",
            &in_traps("pub(super) const fn f(&mut self)"),
            want,
        );
        check("crates/sm/src/trap.rs", &in_traps("fn f(&mut self) -> &mut u8"), &[]);
        check(
            "crates/sm/src/trap.rs",
            &trap_with("pub fn f(a: &mut Ctx) -> Option<&mut u8> {}"),
            want,
        );
        check(
            "crates/sm/src/trap.rs",
            &trap_with("pub fn f<'a>() -> &'a mut u8 {}"),
            want,
        );
        let child = "impl Election {\n    pub(super) fn f(&mut self) {}\n}";
        check("crates/sm/src/election/poll.rs", child, &[]);
        let intake = "impl Intake {\n    pub fn f(&mut self) {}\n}";
        check("crates/sm/src/intake.rs", intake, want);
    }

    #[test]
    fn sub_machines_do_not_know_each_other() {
        let want = &["machine-names election::Role: 1 places, limit 0"];
        check("crates/sm/src/trap.rs", &trap_with("use crate::election::Role;"), want);
        check("crates/sm/src/trap.rs", &trap_with("use crate::Role;"), want);
        check(
            "crates/sm/src/trap.rs",
            &trap_with("use super::election::{Role};"),
            want,
        );
        check("crates/sm/src/trap.rs", &trap_with("fn f(role: crate::Role) {}"), want);
        let want = &["machine-names election: 1 places, limit 0"];
        check("crates/sm/src/trap.rs", &trap_with("use crate::election;"), want);
        check("crates/sm/src/drain.rs", "use crate::election::Role;", &[]);
        check("crates/sm/src/election/poll.rs", "use super::Role;", &[]);
        let test = "#[cfg(test)]\nmod tests {\n    use crate::Role;\n}\n";
        check("crates/sm/src/trap.rs", &trap_with(test), &[]);
    }

    #[test]
    fn sub_machines_do_not_know_the_outer_one() {
        let want = &["machine-names Stage: 2 places, limit 0"];
        let more = "use crate::stage::Stage;\nfn f(stage: Stage) {}";
        check("crates/sm/src/trap.rs", &trap_with(more), want);
        check("crates/sm/src/trap.rs", &trap_with("fn f(view: &BalanceView) {}"), &[]);
        check("crates/sm/src/drain.rs", more, &[]);
    }
}
