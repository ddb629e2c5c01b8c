//! Paths and what answers them.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use selvedge_api::{Body, CheckRequest, Document, Error, ErrorKind, Fabric, FaultRequest, RebalanceRequest};
use selvedge_daemon::Service;
use serde::Deserialize;

type Shared = State<Arc<dyn Service>>;

/// All paths.
pub fn router(service: Arc<dyn Service>) -> Router {
    Router::new()
        .route("/api/v1/status", get(async |s: Shared| show(s, |s| s.status()).await))
        .route(
            "/api/v1/fabric",
            get(async |s: Shared| show(s, |s| Ok(Fabric::of(&*s.fabric()?))).await),
        )
        .route("/api/v1/nodes", get(async |s: Shared| show(s, |s| s.nodes()).await))
        .route("/api/v1/ports", get(async |s: Shared| show(s, |s| s.ports()).await))
        .route("/api/v1/links", get(async |s: Shared| show(s, |s| s.links()).await))
        .route("/api/v1/plan", get(async |s: Shared| show(s, |s| s.plan()).await))
        .route(
            "/api/v1/findings",
            get(async |s: Shared| show(s, |s| s.findings()).await),
        )
        .route("/api/v1/events", get(events))
        .route("/api/v1/sweep", post(async |s: Shared| accept(s, |s| s.sweep()).await))
        .route("/api/v1/rebalance", post(rebalance))
        .route("/api/v1/policy/reload", post(reload))
        .route("/api/v1/policy/check", post(check))
        .route("/api/v1/fault", post(fault))
        .fallback(async || refusal(&ErrorKind::NotFound.error("there is no such path")))
        .method_not_allowed_fallback(async || refusal(&ErrorKind::NotFound.error("this path has another method")))
        .with_state(service)
}

/// Runs `question` where it may take its time: lists of large fabrics need milliseconds.
async fn ask<T: Send + 'static>(
    State(service): Shared,
    question: impl FnOnce(&dyn Service) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(move || question(&*service)).await {
        Ok(result) => result,
        Err(_) => Err(ErrorKind::Stopping.error("the request was given up")),
    }
}

async fn show<T: Body + Send + 'static>(
    service: Shared,
    question: impl FnOnce(&dyn Service) -> Result<T, Error> + Send + 'static,
) -> Response {
    let answer = ask(service, move |service| Ok(Document::new(question(service)?).to_json())).await;
    match answer {
        Ok(json) => json_response(StatusCode::OK, json),
        Err(error) => refusal(&error),
    }
}

async fn accept(service: Shared, request: impl FnOnce(&dyn Service) -> Result<(), Error> + Send + 'static) -> Response {
    match ask(service, request).await {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(error) => refusal(&error),
    }
}

#[derive(Deserialize)]
struct Since {
    #[serde(default)]
    since: u64,
}

async fn events(service: Shared, query: Result<Query<Since>, axum::extract::rejection::QueryRejection>) -> Response {
    match query {
        Ok(Query(Since { since })) => show(service, move |s| Ok(s.events(since))).await,
        Err(error) => refusal(&ErrorKind::BadRequest.error(error.body_text())),
    }
}

/// An empty body asks for what the defaults say.
async fn rebalance(service: Shared, body: Bytes) -> Response {
    let request = match body.is_empty() {
        true => Ok(RebalanceRequest::default()),
        false => serde_json::from_slice(&body),
    };
    match request {
        Ok(request) => show(service, move |s| s.rebalance(request)).await,
        Err(error) => refusal(&ErrorKind::BadRequest.error(format!("the body is no request to rebalance: {error}"))),
    }
}

/// Accepted: what comes of the new policy is told by events.
async fn reload(service: Shared) -> Response {
    let answer = ask(service, |service| Ok(Document::new(service.reload()?).to_json())).await;
    match answer {
        Ok(json) => json_response(StatusCode::ACCEPTED, json),
        Err(error) => refusal(&error),
    }
}

/// An empty body asks about the files that the manager was started with.
async fn check(service: Shared, body: Bytes) -> Response {
    let request = match body.is_empty() {
        true => Ok(CheckRequest::default()),
        false => serde_json::from_slice(&body),
    };
    match request {
        Ok(request) => show(service, move |s| s.check(&request)).await,
        Err(error) => refusal(&ErrorKind::BadRequest.error(format!("the body is no configuration: {error}"))),
    }
}

async fn fault(service: Shared, body: Bytes) -> Response {
    match serde_json::from_slice::<FaultRequest>(&body) {
        Ok(request) => show(service, move |s| s.fault(&request)).await,
        Err(error) => refusal(&ErrorKind::BadRequest.error(format!("the body is no fault: {error}"))),
    }
}

fn refusal(error: &Error) -> Response {
    let status = StatusCode::from_u16(ErrorKind::status_of(&error.code)).unwrap_or(StatusCode::BAD_REQUEST);
    json_response(status, Document::new(error.clone()).to_json())
}

fn json_response(status: StatusCode, json: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], json).into_response()
}
