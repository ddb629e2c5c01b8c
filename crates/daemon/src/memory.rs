//! Memory for what a repair needs, beforehand.

/// The smallest piece.
const LEAST: usize = 64;
/// How often pieces double in size, in four steps each: up to 512 KiB.
const DOUBLINGS: usize = 13;
/// Steps of one doubling: an allocator has as many sizes.
const STEPS: usize = 4;

/// A piece of each size, asked for one after another while nobody waits, and given back together.
///
/// The manager's thread reads and writes whatever the fabric's size, but plans next to nothing before the first fault.
/// Memory that no thread has used yet comes from the system in huge pages, each cleared first: 0.1 ms each, and 5 ms on a
/// virtual machine whose host has to find the memory as well. The first repair of a process took up to 12 ms longer for
/// that, two pages. The allocator keeps what is given back here.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pieces: Vec<Vec<u8>>,
    is_done: bool,
}

impl Memory {
    /// Asks for the next piece, if there is one left.
    pub(crate) fn touch_next(&mut self) {
        if self.is_done {
            return;
        }
        let step = self.pieces.len();
        let size = (LEAST << (step / STEPS)) / STEPS * (STEPS + step % STEPS);
        // Zeros it might not write.
        self.pieces.push(std::hint::black_box(vec![1; size]));
        if self.pieces.len() == DOUBLINGS * STEPS {
            (self.pieces, self.is_done) = (Vec::new(), true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_its_turn_once() {
        let mut memory = Memory::default();
        let mut sizes = Vec::new();
        for _ in 0..DOUBLINGS * STEPS - 1 {
            memory.touch_next();
            sizes.push(memory.pieces.last().map_or(0, Vec::len));
        }
        assert_eq!(sizes[..6], [64, 80, 96, 112, 128, 160]);
        assert_eq!(sizes.last(), Some(&(384 << 10)), "the last but one");
        assert!(sizes.is_sorted());
        for _ in 0..2 {
            memory.touch_next();
            assert!(memory.is_done && memory.pieces.is_empty());
        }
    }
}
