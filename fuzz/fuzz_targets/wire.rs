//! Decodes, re-encodes and prints any bytes; see `selvedge_wire::fuzz_body`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| selvedge_wire::fuzz_body::decode_encode_print(bytes));
