//! Reads any bytes as a QoS policy, as settings and as UFM's bandwidths; see `selvedge_qos::fuzz_body`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| selvedge_qos::fuzz_body::read(bytes));
