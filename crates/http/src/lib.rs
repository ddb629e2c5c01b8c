//! The HTTP API on a Unix socket, its client, and the client for other servers.
//!
//! | method and path | answer |
//! |---|---|
//! | `GET /api/v1/status` | [`Status`](selvedge_api::Status) |
//! | `GET /api/v1/health` | [`Health`](selvedge_api::Health) |
//! | `GET /api/v1/fabric` | [`Fabric`](selvedge_api::Fabric): figures |
//! | `GET /api/v1/nodes`, `ports`, `links` | the list of that name |
//! | `GET /api/v1/plan` | [`Plan`](selvedge_api::Plan) |
//! | `GET /api/v1/findings` | [`Findings`](selvedge_api::Findings) |
//! | `GET /api/v1/partitions` | [`Partitions`](selvedge_api::Partitions) |
//! | `GET /api/v1/out-of-service` | [`OutOfService`](selvedge_api::OutOfService) |
//! | `GET /api/v1/events?since=N` | [`Events`](selvedge_api::Events) after number N |
//! | `GET /api/v1/telemetry` | [`Telemetry`](selvedge_api::Telemetry): how sampling goes |
//! | `GET /api/v1/telemetry/counters` | [`TelemetryPorts`](selvedge_api::TelemetryPorts): counters of ports |
//! | `POST /api/v1/telemetry/baseline` | [`Baseline`](selvedge_api::Baseline): ports are counted from now on |
//! | `GET /api/v1/telemetry/history` | [`TelemetryHistory`](selvedge_api::TelemetryHistory): how storing goes |
//! | `GET /api/v1/telemetry/history/series?node=N&port=P` | [`TelemetrySeries`](selvedge_api::TelemetrySeries) |
//! | `GET /api/v1/telemetry/history/ports` | [`TelemetrySlice`](selvedge_api::TelemetrySlice): a counter of all ports |
//! | `GET /api/v1/telemetry/history/events` | [`StoredEvents`](selvedge_api::StoredEvents) |
//! | `GET /api/v1/telemetry/history/topologies` | [`TopologyVersions`](selvedge_api::TopologyVersions) |
//! | `GET /api/v1/telemetry/history/topology` | [`Topology`](selvedge_api::Topology) |
//! | `GET /api/v1/telemetry/sets` | [`MetricSets`](selvedge_api::MetricSets) that can be pulled |
//! | `GET /api/v1/telemetry/set?name=NAME` | the text of one metric set, as `ldms_ls -l` prints it, or as LDMS CSV |
//! | `GET /metrics` | metrics for Prometheus, as text 0.0.4 or OpenMetrics, compressed if the client accepts that |
//! | `POST /api/v1/sweep` | 202: a heavy sweep follows |
//! | `POST /api/v1/forget` | [`Forgotten`](selvedge_api::Forgotten): a missing node or link is no longer listed |
//! | `POST /api/v1/out-of-service` | [`OutOfServiceChange`](selvedge_api::OutOfServiceChange) |
//! | `GET /api/v1/jobs` | [`Jobs`](selvedge_api::Jobs): running and waiting jobs, and the classes |
//! | `POST /api/v1/jobs` | [`JobStarted`](selvedge_api::JobStarted): a job starts or waits |
//! | `POST /api/v1/jobs/end` | [`JobEnded`](selvedge_api::JobEnded) |
//! | `POST /api/v1/rebalance` | [`Rebalance`](selvedge_api::Rebalance) |
//! | `POST /api/v1/policy/reload` | 202 and [`PolicyChange`](selvedge_api::PolicyChange): every file was read again |
//! | `POST /api/v1/policy/preview` | [`WouldSend`](selvedge_api::WouldSend): the Sets of a reload; nothing changes |
//! | `GET /api/v1/changes` | [`PolicyChanges`](selvedge_api::PolicyChanges): the outcomes of the last 16 changes |
//! | `POST /api/v1/policy/check` | [`Check`](selvedge_api::Check): whether a reload would accept it; nothing changes |
//! | `POST /api/v1/fault` | [`FaultReport`](selvedge_api::FaultReport) |
//!
//! The body of a fault is a [`FaultRequest`](selvedge_api::FaultRequest). The body of a check is a
//! [`CheckRequest`](selvedge_api::CheckRequest), or empty.
//!
//! Clients cannot exhaust a process. It limits connections, the time without data, request sizes and unread bytes. It
//! builds at most two large answers at a time, and clients with the same request share one answer.
//!
//! A refusal is an [`Error`](selvedge_api::Error) with its code.
//! [`ErrorKind::http_status`](selvedge_api::ErrorKind::http_status) gives its HTTP status; refusals with codes of other
//! crates have 400.

mod answers;
mod client;
mod error;
mod exchange;
mod exposition;
mod front;
mod guarded;
mod jobs;
mod limits;
mod poster;
mod routes;
mod seats;
mod server;
mod socket;
mod telemetry;

pub use client::Client;
pub use error::HttpError;
pub use exposition::{MetricsAddress, MetricsServer};
pub use front::Front;
pub use poster::Poster;
pub use routes::router;
pub use socket::{EMULATOR_SOCKET, MANAGER_SOCKET, Socket, default_path, default_paths, existing_path};
