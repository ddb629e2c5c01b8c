//! Ports through libibumad, the standard library for management datagrams.
//!
//! The library is loaded when the first port is opened, so the program can be built and can simulate without RDMA
//! packages. Using the library instead of `/dev/infiniband/umad*` also makes ibsim work: its preloaded libumad2sim
//! (Debian:
//! `libumad2sim0`) intercepts the calls of libibumad: `open opendir scandir read write close ioctl poll`. Rust's
//! `File::open` calls `open64`, which libumad2sim does not intercept.
//!
//! With libumad2sim: start the process in a scratch folder (it writes `./sys-<pid>`), with `SIM_HOST` and
//! `IBSIM_SOCKNAME` in the environment. Without a server libumad2sim waits for ever, and if the server refuses, it ends
//! the process.

mod library;
mod port;

pub use library::{CaInfo, CaPort, Umad};
pub use port::UmadPort;
