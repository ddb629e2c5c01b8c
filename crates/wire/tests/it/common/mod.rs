//! Reads the stored captures.

use selvedge_wire::Mad;

/// A MAD of a stored capture and the comment above it.
pub struct Golden {
    /// The peer's command line, or what a vector is for.
    pub title: String,
    /// The 256 bytes.
    pub mad: Mad,
}

/// All MADs of `text`, which is `#` comments and lines of a direction sign and hexadecimal digits.
pub fn goldens(text: &str) -> Vec<Golden> {
    let mut title = "";
    let mut found = Vec::new();
    for line in text.lines() {
        match line.split_once(' ').expect("a sign and a text") {
            ("#", comment) => title = comment,
            (">" | "<", digits) => found.push(Golden {
                title: title.to_owned(),
                mad: Mad::new_checked(&bytes(digits)).expect("256 bytes"),
            }),
            (other, _) => panic!("unknown sign {other}"),
        }
    }
    found
}

/// The bytes written as hexadecimal digits.
fn bytes(digits: &str) -> Vec<u8> {
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits"))
        .collect()
}

/// What peers sent and received; see `golden/README.md`.
pub fn peers() -> Vec<Golden> {
    goldens(include_str!("../../golden/peers.txt"))
}

/// What libibmad and OpenSM's headers laid out; see `golden/README.md`.
pub fn vectors() -> Vec<Golden> {
    goldens(include_str!("../../golden/vectors.txt"))
}

/// MADs of our own vendor class; see `golden/README.md`.
pub fn vendor() -> Vec<Golden> {
    goldens(include_str!("../../golden/vendor.txt"))
}
