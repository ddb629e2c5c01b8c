//! The page of OpenSM's flags is generated from the table that `selvedge run` uses to explain flags.
use std::fmt::Write as _;
use std::path::Path;

use selvedge_config::OpenSmFlag;

fn page() -> String {
    let mut page = "# Every flag of opensm\n\n\
        Written from the table that `selvedge run` explains flags by; `SELVEDGE_BLESS=1 cargo test -p selvedge-config \
        --test it opensm_flags` writes it anew. The flags are those of OpenSM 3.3.23; a conformance test compares the \
        table with what `opensm --help` prints. `selvedge run` refuses flags that it does not have, with the words of \
        this table.\n\n\
        | OpenSM's flag | what takes its place |\n|---|---|\n"
        .to_owned();
    for flag in OpenSmFlag::ALL {
        writeln!(page, "| `{}` | {} |", flag.names(), flag.here().replace('|', "\\|")).unwrap();
    }
    page
}

#[test]
fn the_page_is_true() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/opensm-flags.md");
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
