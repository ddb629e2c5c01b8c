//! The coordinator with a real manager and administrator on the emulator, and simulated hosts.

mod bench;
mod between;
mod sampling;
mod storing;
