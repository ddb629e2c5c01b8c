//! The real-time driver around the manager.
//!
//! ```text
//!  front ends ──► Service ──notes──► manager's thread: receive → Coordinator → Sm → send ──► MadPort ──► fabric
//!                    ▲                   │        ▲
//!                    └── view, events ───┤        ├── computed ── plan thread
//!                                        │        └── stored ──── store thread
//!                                        └── recorder
//! ```
//! One thread owns the port and the manager, so a datagram crosses neither a lock nor a queue; other threads compute
//! plans and write files. The fabric is a real port, a port of a simulator, or an emulator that the same thread steps
//! in real time ([`Door`]). Everything that goes into the manager can be recorded and replayed ([`record`]).

mod administrator;
mod attached;
mod backend;
mod changes;
mod clock;
mod convert;
mod desk;
mod driver;
mod dumps;
mod emulated;
mod emulation;
mod error;
mod events;
mod files;
mod forget;
mod groups;
mod health;
mod host;
mod journal;
mod log_file;
mod memory;
mod names;
mod notice;
mod out_of_service;
mod outcome;
mod partitions;
mod place_names;
mod post;
pub mod record;
mod reload;
mod served;
mod service;
mod shared;
mod signals;
mod start;
mod storing;
mod systemd;
mod telemetry;
mod user_jobs;
mod wanted;
mod worker;

pub use clock::{utc_ms, utc_text};
pub use convert::{config_line, findings};
pub use driver::Until;
pub use dumps::{Dump, DumpSink};
pub use emulation::{Emulation, RunningEmulation, emulate};
pub use error::DaemonError;
pub use events::{EventLog, LogSink, NoLog};
pub use files::user_id;
pub use host::{EmulationOptions, Held};
pub use journal::Journal;
pub use log_file::LogFile;
pub use names::{Names, rename};
pub use notice::Notice;
pub use outcome::Outcome;
pub use post::Post;
pub use selvedge_config::HttpUrl;
pub use selvedge_emulator::EmulatorConfig;
pub use selvedge_transport::{GiveBack, Pages};
pub use served::Served;
pub use service::{Manager, Service};
pub use signals::obey;
pub use start::{Door, Options, Running, manager_config, start};
pub use storing::Promise;
pub use telemetry::{Metrics, Snapshot as TelemetrySnapshot, Telemetry, TelemetryService, check_telemetry_files};
pub use user_jobs::JobService;
pub use worker::Expected;
