//! A digest of outputs: equal outputs, equal digests, on every machine and version.

use std::fmt::Write as _;

use selvedge_sm::Output;

/// FNV-1a over 8-byte words: fast enough to run beside a manager at full speed; it does not resist attackers.
pub(super) struct Digest(u64);

impl Digest {
    pub(super) const fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    fn number(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(29);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.number(u64::from_le_bytes(word));
        }
    }
}

/// Returns the digest of the outputs of one call.
pub(super) fn outputs(outputs: &[Output]) -> u64 {
    let mut digest = Digest::new();
    let mut text = String::new();
    for output in outputs {
        match output {
            Output::Send { datagram, timeout } => {
                digest.number(1 << 56 | u64::from(datagram.address.lid.0) << 32 | u64::from(datagram.address.qp));
                digest.number(u64::from(datagram.address.sl.get()));
                digest.bytes(datagram.mad.as_bytes());
                digest.number(timeout.as_nanos() as u64);
            }
            Output::Compute(job) => digest.number(2 << 56 | job.id.0),
            Output::Persist { id, state } => {
                digest.number(3 << 56 | id);
                for (guid, range) in &state.lids {
                    digest.number(guid.0);
                    digest.number(u64::from(range.base.0) << 8 | u64::from(range.lmc.get()));
                }
            }
            Output::SetIsSm(is_sm) => digest.number(4 << 56 | u64::from(*is_sm)),
            // Its values are in the other outputs, and in earlier ones.
            Output::Milestone(milestone) => digest.number(6 << 56 | milestone.number()),
            Output::Event(event) => {
                text.clear();
                // Measured values differ in every run. Writing to a String cannot fail.
                let _ = if event.is_measured() {
                    write!(text, "{}", event.code())
                } else {
                    write!(text, "{event}")
                };
                digest.number(5 << 56);
                digest.bytes(text.as_bytes());
            }
        }
    }
    digest.0
}
