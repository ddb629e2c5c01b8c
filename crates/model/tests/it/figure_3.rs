//! The six-switch fabric as a file, for programs that read files.

use selvedge_model::published::figure_3;
use selvedge_topology::{Format, NodeNames, write};

/// `SELVEDGE_BLESS=1` writes it anew.
#[test]
fn the_net_file_is_figure_3() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/fabrics/figure-3.net");
    let text = write(&figure_3(8), Format::IbsimNet, &NodeNames::default());
    if std::env::var_os("SELVEDGE_BLESS").is_some() {
        std::fs::write(path, &text).expect("the folder is there");
    }
    assert_eq!(std::fs::read_to_string(path).expect("the file is there"), text);
}
