//! Client of a running process.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use selvedge_api::{
    AlarmRequest, Alarms, Baseline, BaselineRequest, Body, Check, CheckRequest, Document, Error, FaultReport,
    FaultRequest, ForgetRequest, Forgotten, JobEndRequest, JobEnded, JobRequest, JobStarted, OutOfServiceChange,
    OutOfServiceRequest, PolicyChange, Rebalance, RebalanceRequest, WouldSend,
};
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use crate::exchange::{send, within};
use crate::{HttpError, default_paths, existing_path};

/// Longest time for a whole answer: lists of the largest fabrics need less than a second.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// Client of the process behind a socket.
#[derive(Clone, Debug)]
pub struct Client {
    path: PathBuf,
    /// Other socket paths that were tried.
    looked: Vec<PathBuf>,
}

impl Client {
    /// Returns a client of the process that listens at `path`.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            looked: Vec::new(),
        }
    }

    /// Returns a client of the process that listens on a socket of this name, in any of the default folders.
    #[must_use]
    pub fn of_default(name: &str) -> Self {
        let path = existing_path(name);
        let looked = default_paths(name).into_iter().filter(|other| *other != path);
        Self {
            looked: looked.collect(),
            path,
        }
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `GET /api/v1/<what>`.
    pub fn get<T: Body + DeserializeOwned>(&self, what: &str) -> Result<T, HttpError> {
        self.read(&self.exchange(Method::GET, what, Bytes::new())?)
    }

    /// `GET /api/v1/<what>` with the parameters of a query.
    pub fn select<T: Body + DeserializeOwned>(
        &self,
        what: &str,
        parameters: &[(String, String)],
    ) -> Result<T, HttpError> {
        if parameters.is_empty() {
            return self.get(what);
        }
        // Pairs of texts always have an encoded form.
        let query = serde_urlencoded::to_string(parameters).unwrap_or_default();
        self.get(&format!("{what}?{query}"))
    }

    /// `GET /api/v1/<what>` with the parameters of a query, answered with a text.
    pub fn text(&self, what: &str, parameters: &[(String, String)]) -> Result<String, HttpError> {
        // Pairs of texts always have an encoded form.
        let query = serde_urlencoded::to_string(parameters).unwrap_or_default();
        let bytes = self.exchange(Method::GET, &format!("{what}?{query}"), Bytes::new())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// `POST /api/v1/<what>`, answered without a body.
    pub fn post(&self, what: &str) -> Result<(), HttpError> {
        self.exchange(Method::POST, what, Bytes::new()).map(drop)
    }

    /// Makes the manager read every configuration file again.
    pub fn reload(&self) -> Result<PolicyChange, HttpError> {
        self.read(&self.exchange(Method::POST, "policy/reload", Bytes::new())?)
    }

    /// Counts ports from now on, or from their first reading on again.
    pub fn set_baseline(&self, request: &BaselineRequest) -> Result<Baseline, HttpError> {
        let body = serde_json::to_vec(request).map_err(|error| self.foreign(&error))?;
        self.read(&self.exchange(Method::POST, "telemetry/baseline", body.into())?)
    }

    /// Returns the Sets that a reload would send.
    pub fn would_send(&self) -> Result<WouldSend, HttpError> {
        self.read(&self.exchange(Method::POST, "policy/preview", Bytes::new())?)
    }

    /// Asks the manager whether a reload would accept a configuration.
    pub fn check(&self, request: &CheckRequest) -> Result<Check, HttpError> {
        let body = serde_json::to_vec(request).map_err(|error| self.foreign(&error))?;
        self.read(&self.exchange(Method::POST, "policy/check", body.into())?)
    }

    /// Injects a fault.
    pub fn fault(&self, request: &FaultRequest) -> Result<FaultReport, HttpError> {
        let body = serde_json::to_vec(request).map_err(|error| self.foreign(&error))?;
        self.read(&self.exchange(Method::POST, "fault", body.into())?)
    }

    /// Removes a node or link from the list of missing ones.
    pub fn forget(&self, request: &ForgetRequest) -> Result<Forgotten, HttpError> {
        let body = serde_json::to_vec(request).map_err(|error| self.foreign(&error))?;
        self.read(&self.exchange(Method::POST, "forget", body.into())?)
    }

    /// Takes a place out of service, or puts it back.
    pub fn change_service(&self, request: &OutOfServiceRequest) -> Result<OutOfServiceChange, HttpError> {
        let body = serde_json::to_vec(request).map_err(|error| self.foreign(&error))?;
        self.read(&self.exchange(Method::POST, "out-of-service", body.into())?)
    }

    /// Starts a job.
    pub fn start_job(&self, request: &JobRequest) -> Result<JobStarted, HttpError> {
        let body = serde_json::to_vec(request).map_err(|error| self.foreign(&error))?;
        self.read(&self.exchange(Method::POST, "jobs", body.into())?)
    }

    /// Ends a job.
    pub fn end_job(&self, request: &JobEndRequest) -> Result<JobEnded, HttpError> {
        let body = serde_json::to_vec(request).map_err(|error| self.foreign(&error))?;
        self.read(&self.exchange(Method::POST, "jobs/end", body.into())?)
    }

    /// Acknowledges or clears alarms.
    pub fn change_alarms(&self, request: &AlarmRequest) -> Result<Alarms, HttpError> {
        let body = serde_json::to_vec(request).map_err(|error| self.foreign(&error))?;
        self.read(&self.exchange(Method::POST, "telemetry/alarms", body.into())?)
    }

    /// Balances the load again, or returns what that would change.
    pub fn rebalance(&self, request: RebalanceRequest) -> Result<Rebalance, HttpError> {
        let body = serde_json::to_vec(&request).map_err(|error| self.foreign(&error))?;
        self.read(&self.exchange(Method::POST, "rebalance", body.into())?)
    }

    fn read<T: Body + DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, HttpError> {
        let document: Document<T> = serde_json::from_slice(bytes).map_err(|error| self.foreign(&error))?;
        if document.schema != T::SCHEMA || document.version != T::VERSION {
            let what = format!("it answers {} version {}", document.schema, document.version);
            return Err(HttpError::Foreign {
                path: self.path.clone(),
                what,
            });
        }
        Ok(document.body)
    }

    fn exchange(&self, method: Method, what: &str, body: Bytes) -> Result<Bytes, HttpError> {
        let done = within(TIMEOUT, self.talk(method, what, body)).map_err(|cause| HttpError::Thread { cause })?;
        let silent = || Err(self.broken(format!("no answer within {} s", TIMEOUT.as_secs())));
        let (status, bytes) = done.unwrap_or_else(silent)?;
        if status.is_success() {
            return Ok(bytes);
        }
        let error: Document<Error> = serde_json::from_slice(&bytes).map_err(|error| self.foreign(&error))?;
        Err(error.body.into())
    }

    async fn talk(&self, method: Method, what: &str, body: Bytes) -> Result<(StatusCode, Bytes), HttpError> {
        let stream = UnixStream::connect(&self.path)
            .await
            .map_err(|cause| self.unreachable(cause))?;
        let broken = |error: hyper::Error| self.broken(error.to_string());
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/v1/{what}"))
            .header(hyper::header::HOST, "selvedge")
            .body(Full::new(body))
            .map_err(|error| self.broken(error.to_string()))?;
        let response = send(stream, request).await.map_err(broken)?;
        let status = response.status();
        let bytes = response.into_body().collect().await.map_err(broken)?.to_bytes();
        Ok((status, bytes))
    }

    fn unreachable(&self, cause: std::io::Error) -> HttpError {
        let path = self.path.clone();
        match std::fs::metadata(&path) {
            Ok(meta) if !meta.file_type().is_socket() => HttpError::NoSocket { path },
            _ => HttpError::Unreachable {
                path,
                looked: self
                    .looked
                    .iter()
                    .map(|path| format!(" or {}", path.display()))
                    .collect(),
                cause,
            },
        }
    }

    fn broken(&self, cause: String) -> HttpError {
        HttpError::Broken {
            path: self.path.clone(),
            cause,
        }
    }

    fn foreign(&self, error: &serde_json::Error) -> HttpError {
        HttpError::Foreign {
            path: self.path.clone(),
            what: error.to_string(),
        }
    }
}
