//! The HTTP API on a Unix socket, and its client.
//!
//! | method and path | answer |
//! |---|---|
//! | `GET /api/v1/status` | [`Status`](selvedge_api::Status) |
//! | `GET /api/v1/fabric` | [`Fabric`](selvedge_api::Fabric): figures |
//! | `GET /api/v1/nodes`, `ports`, `links` | the lists of those names |
//! | `GET /api/v1/plan` | [`Plan`](selvedge_api::Plan) |
//! | `GET /api/v1/findings` | [`Findings`](selvedge_api::Findings) |
//! | `GET /api/v1/events?since=N` | [`Events`](selvedge_api::Events) after number N |
//! | `POST /api/v1/sweep` | 202: everything will be discovered again |
//! | `POST /api/v1/policy/reload` | 202 and [`Check`](selvedge_api::Check): every file was read again |
//! | `POST /api/v1/policy/check` | [`Check`](selvedge_api::Check): what a reload would say; nothing changes |
//! | `POST /api/v1/fault` | [`FaultReport`](selvedge_api::FaultReport) |
//!
//! The body of a fault is a [`FaultRequest`](selvedge_api::FaultRequest), that of a check a
//! [`CheckRequest`](selvedge_api::CheckRequest), or empty.
//!
//! Clients cannot take all of a process: connections, their silence, what they send and what they leave unread are
//! limited, large answers are made two at a time, and clients that ask the same get the same bytes.
//!
//! A refusal is an [`Error`](selvedge_api::Error) with its code; its HTTP status is that of
//! [`ErrorKind::http_status`](selvedge_api::ErrorKind::http_status), 400 for refusals with codes of other rooms.

mod answers;
mod client;
mod error;
mod front;
mod guarded;
mod limits;
mod routes;
mod seats;
mod server;
mod socket;

pub use client::Client;
pub use error::HttpError;
pub use front::Front;
pub use routes::router;
pub use socket::{EMULATOR_SOCKET, MANAGER_SOCKET, Socket, default_path, default_paths, existing_path};
