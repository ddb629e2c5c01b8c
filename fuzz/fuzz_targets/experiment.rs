//! Reads any bytes as an experiment's file and as stored results, and draws its charts; see
//! `selvedge_experiment::fuzz_body`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| selvedge_experiment::fuzz_body::read_and_draw(bytes));
