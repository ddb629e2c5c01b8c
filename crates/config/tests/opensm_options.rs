//! The page of OpenSM's options is written from the table that the reader goes by.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::fmt::Write as _;
use std::path::Path;

use selvedge_config::OpenSmOption;

fn page() -> String {
    let mut page = "# Every option of opensm.conf\n\n\
        Written from the table that `selvedge run --opensm-conf FILE` reads by; `SELVEDGE_BLESS=1 cargo test -p \
        selvedge-config --test opensm_options` writes it anew. Names and defaults are those of OpenSM 3.3.23. With its \
        default every option is taken; the table says what another value becomes:\n\n\
        - **honoured**: it goes into the key or flag beside it, with the same meaning;\n\
        - **mapped**: it goes there, with the difference that is named;\n\
        - **without effect**: it changes nothing here, and nothing is lost;\n\
        - **refused**: the manager does not start (`--skip-refused`: starts without it).\n\n\
        | option | OpenSM's default | another value is | key or flag | why |\n|---|---|---|---|---|\n"
        .to_owned();
    for option in OpenSmOption::ALL {
        let (treatment, key, why) = option.treatment();
        let code = |text: &str| match text {
            "" => String::new(),
            _ => format!("`{text}`"),
        };
        writeln!(
            page,
            "| `{}` | {} | {} | {} | {why} |",
            option.name,
            code(option.default),
            treatment.name(),
            code(key.unwrap_or_default()),
        )
        .unwrap();
    }
    page
}

#[test]
fn the_page_is_true() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/opensm-options.md");
    if std::env::var_os("SELVEDGE_BLESS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(
        found == page(),
        "{} is not what the table says; write it anew with SELVEDGE_BLESS=1",
        path.display()
    );
}
