//! The project's own tools, one entry for people and CI: `cargo xtask help`.

mod check;
mod codes;
mod finding;
mod licences;
mod modules;
mod rust_items;
mod rust_source;
mod test;
mod tidy;
mod tree;

use std::process::ExitCode;

use crate::tree::Tree;

const HELP: &str = "\
usage: cargo xtask <step>

  test       build and run every test; prints the slowest parts and the sums
  check      fmt, clippy, tidy, docs and licences, all of them even if one fails
  tidy       the project's own rules; see docs/reference/tidy.md
  licences   licences and duplicate versions of every dependency
  codes      write docs/reference/codes.md from the code
";

fn main() -> ExitCode {
    let step = std::env::args().nth(1).unwrap_or_default();
    let root = Tree::workspace_root();
    let findings = match step.as_str() {
        "test" => return test::run(&root),
        "check" => return check::run(&root),
        "tidy" => Tree::read(&root).map(|tree| tidy::findings(&tree)),
        "licences" => licences::findings(&root),
        "codes" => Tree::read(&root).and_then(|tree| codes::write(&root, &tree)),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        unknown => {
            eprintln!("no step '{unknown}'\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    finding::report(&step, &findings.unwrap_or_else(|one| vec![one]))
}
