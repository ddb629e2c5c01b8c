//! Prepares memory that a repair will need.

use std::time::{Duration, Instant};

/// The smallest piece.
const LEAST: usize = 64;
/// How often pieces double in size, in four steps each; the last have 512 KiB.
const DOUBLINGS: usize = 13;
/// Number of sizes per doubling, as many as an allocator has.
const STEPS: usize = 4;

/// How long memory is requested without a pause. A trap waits at most this time, or for one piece.
const AT_A_TIME: Duration = Duration::from_millis(1);

/// Allocates one piece of memory of each size while there is time, and frees all of them together.
///
/// Reason: before the first fault the manager's thread uses little memory for planning. Memory that no thread has used
/// yet comes from the system in huge pages, and the system clears each page first. That takes 0.1 ms a page, and 5 ms
/// on a virtual machine if its host must find memory as well. Two such pages made the first repair of a process up to
/// 12 ms slower. The allocator keeps the memory that is freed here, but other threads may take it when they plan.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pieces: Vec<Vec<u8>>,
    is_done: bool,
}

impl Memory {
    /// Others have used memory since.
    pub(crate) const fn ask_again(&mut self) {
        self.is_done = false;
    }

    /// Requests the next pieces, if any are left.
    pub(crate) fn touch(&mut self) {
        let start = Instant::now();
        while !self.is_done && start.elapsed() < AT_A_TIME {
            self.touch_next();
        }
    }

    fn touch_next(&mut self) {
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
    fn every_size_has_its_turn() {
        let mut memory = Memory::default();
        for _ in 0..2 {
            let mut sizes = Vec::new();
            while sizes.len() + 1 < DOUBLINGS * STEPS {
                memory.touch_next();
                sizes.push(memory.pieces.last().map_or(0, Vec::len));
            }
            assert_eq!(sizes[..6], [64, 80, 96, 112, 128, 160]);
            assert_eq!(sizes.last(), Some(&(384 << 10)), "the last but one");
            assert!(sizes.is_sorted() && !memory.is_done);
            while !memory.is_done {
                memory.touch();
            }
            memory.touch();
            assert!(memory.pieces.is_empty(), "nothing is asked for any more");
            memory.ask_again();
        }
    }
}
