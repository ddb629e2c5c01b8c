//! Paths of jobs.

use std::sync::Arc;

use axum::Router;
use axum::body::Body as RequestBody;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{get, post};
use selvedge_api::{JobEndRequest, JobRequest};

use crate::answers::Answers;
use crate::routes::{Shared, posted, refusal, show};

/// Returns a router of these paths.
pub(crate) fn routes() -> Router<Arc<Answers>> {
    Router::new()
        .route(
            "/api/v1/jobs",
            get(async |State(answers): Shared| show(answers.small(|s| s.jobs()).await)).post(start),
        )
        .route("/api/v1/jobs/end", post(end))
}

async fn start(State(answers): Shared, headers: HeaderMap, body: RequestBody) -> Response {
    match posted::<JobRequest>(&headers, body, "the body is no job").await {
        Ok(request) => show(answers.small(move |s| s.start_job(&request)).await),
        Err(error) => refusal(&error),
    }
}

async fn end(State(answers): Shared, headers: HeaderMap, body: RequestBody) -> Response {
    match posted::<JobEndRequest>(&headers, body, "the body names no job").await {
        Ok(request) => show(answers.small(move |s| s.end_job(&request)).await),
        Err(error) => refusal(&error),
    }
}
