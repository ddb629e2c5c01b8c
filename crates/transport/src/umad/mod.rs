//! Ports through libibumad, the field's library for management datagrams.
//!
//! The library is loaded when the first port is opened, so the program builds and simulates without RDMA packages.
//! Going through it, rather than to `/dev/infiniband/umad*` directly, also makes ibsim work: its preloaded shim
//! (Debian: `libumad2sim0`) intercepts what libibumad calls: `open opendir scandir read write close ioctl poll`. Rust's
//! `File::open` calls `open64`, which it does not see.
//!
//! Under the shim: start the process in a scratch folder (it writes `./sys-<pid>`), with `SIM_HOST` and
//! `IBSIM_SOCKNAME` in the environment; without a server it waits for ever, and on refusal it ends the process.

mod library;
mod port;

pub use library::{CaInfo, CaPort, Umad};
pub use port::UmadPort;
