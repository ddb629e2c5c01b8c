//! Treats any bytes as a conversation with the subnet administrator; see `converse` in
//! `crates/sa/tests/it/support/fuzz.rs`.

#![no_main]

#[path = "../../crates/sa/tests/it/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::fuzz::converse(bytes));
