//! Digests of what a rehearsal did, and of the contents of agents.

use selvedge_fabric::NodeIdx;

use super::Rehearsal;
use crate::Observed;
use crate::clients::Registered;
use crate::digest::Digest;

impl Rehearsal {
    /// Returns the wire digest: every MAD that a manager sent, every state that it had stored and every change of IsSM,
    /// in order and with its virtual time.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.wire.digest.0
    }

    /// Returns a digest of everything that agents hold now.
    #[must_use]
    pub fn held_digest(&self) -> u64 {
        let mut digest = Digest::default();
        self.emulator.held(&mut |bytes| digest = digest.bytes(bytes));
        digest.0
    }

    /// Begins to keep the input of both digests also as text.
    pub(crate) fn keep_wire(&mut self) {
        self.wire.lines.get_or_insert_default();
    }

    /// Adds what agents hold to the text of [`Self::keep_wire`]: a line for each attribute, and one with the judge's
    /// figures for the subnet of each manager.
    pub(crate) fn keep_held(&mut self) {
        let Some(lines) = &mut self.wire.lines else { return };
        let now = self.now.0;
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        self.emulator.held(&mut |bytes| pieces.push(bytes.to_vec()));
        let built = self.emulator.chassis().fabric();
        for [node, attribute, modifier, data] in pieces.as_chunks().0 {
            let node = node.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
            let name = &built.node(NodeIdx(node)).description;
            let [attribute, modifier, data] = [attribute, modifier, data].map(|bytes| hex(bytes));
            lines.push(format!("{now} \"{name}\" holds {attribute} {modifier}: {data}"));
        }
        for (id, manager) in self.managers.iter().enumerate() {
            let at = manager
                .life
                .as_ref()
                .and_then(|life| self.emulator.port_of(life.client));
            if let Some(at) = at {
                let verdict = Observed::around(&self.emulator, at).judge();
                let (errors, figures) = (verdict.errors().count(), verdict.figures);
                let (reached, load) = (figures.host_pairs_reached, figures.load);
                lines.push(format!(
                    "{now} around manager {id}: {errors} errors, {reached} pairs, load {} ({:.3})",
                    load.max, load.sd
                ));
            }
        }
    }

    /// Adds what hosts have registered to a digest, and to the text of [`Self::keep_wire`].
    pub(crate) fn keep_registered(&mut self, digest: Digest, registered: &Registered) -> Digest {
        if let Some(lines) = &mut self.wire.lines {
            let now = self.now.0;
            for (id, texts) in registered {
                let texts = texts.iter().map(|[first, second]| format!("{first} {second}"));
                lines.extend(texts.map(|text| format!("{now} manager {} has registered: {text}", id.0)));
            }
        }
        registered.iter().fold(digest, |digest, (id, lines)| {
            let digest = digest.number(id.0 as u64).number(lines.len() as u64);
            let texts = lines.iter().flatten();
            texts.fold(digest, |digest, text| digest.bytes(text.as_bytes()))
        })
    }

    /// Returns the text of [`Self::keep_wire`] since the last call.
    pub(crate) fn take_wire(&mut self) -> Vec<String> {
        self.wire.lines.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// Returns bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
