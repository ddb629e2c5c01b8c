//! The coordinator with a real manager and administrator on the emulator, and hosts by hand.

mod bench;
mod between;
mod storing;
