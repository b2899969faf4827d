//! What the process serves: probes on one port, metrics and profiles on another (API-181, API-300).

mod profiles;

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use karpenter_controllers::Context;
use karpenter_controllers::leader::Fence;
use karpenter_controllers::metrics::CONTENT_TYPE;
use kube::Client;
use tokio::net::TcpListener;

/// A port of ours. Taken before anything else happens, so that a second process on it does nothing at all.
pub(crate) async fn listen(setting: &str, port: u16) -> Result<TcpListener> {
    let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    match TcpListener::bind(everywhere).await {
        Ok(listener) => Ok(listener),
        // A machine without IPv6.
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported || error.raw_os_error() == Some(97) => {
            TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], port))).await.with_context(|| in_use(setting, port))
        }
        Err(error) => Err(error).with_context(|| in_use(setting, port)),
    }
}

fn in_use(setting: &str, port: u16) -> String {
    format!("--{setting}: cannot listen on port {port}")
}

/// What probes look at.
#[derive(Clone)]
pub(crate) struct Health {
    pub(crate) client: Client,
    pub(crate) context: Arc<Context>,
    /// Open while this process acts.
    pub(crate) acting: Fence,
}

const LIVE: &[&str] = &["healthz"];
const READY: &[&str] = &["manager", "crd", "readyz"];

impl Health {
    async fn check(&self, name: &str) -> Result<(), String> {
        match name {
            // Everything that this process acts on has been seen once. A standby acts on nothing.
            "manager" => match self.context.state().unsynced() {
                Some(karpenter_controllers::Unsynced::NotListed(source)) if self.acting.is_open() => {
                    Err(format!("{source:?} have not been listed yet"))
                }
                _ => Ok(()),
            },
            "crd" => {
                crate::start::missing_core_kinds(&self.client).await.map_err(|e| format!("{e:#}")).and_then(|missing| {
                    if missing.is_empty() { Ok(()) } else { Err(format!("{} not served", missing.join(", "))) }
                })
            }
            _ => Ok(()),
        }
    }

    /// `ok`, or each check with its result.
    async fn answer(&self, probe: &str, checks: &[&str]) -> Response {
        let mut lines = Vec::new();
        let mut failed = false;
        for check in checks {
            match self.check(check).await {
                Ok(()) => lines.push(format!("[+]{check} ok")),
                Err(why) => {
                    failed = true;
                    lines.push(format!("[-]{check} failed: {why}"));
                }
            }
        }
        if failed {
            lines.push(format!("{probe} check failed\n"));
            return (StatusCode::INTERNAL_SERVER_ERROR, lines.join("\n")).into_response();
        }
        "ok".into_response()
    }
}

async fn one(health: &Health, probe: &str, known: &[&str], check: &str) -> Response {
    match known.iter().find(|known| **known == check) {
        Some(check) => health.answer(probe, &[check]).await,
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn live(State(health): State<Health>) -> Response {
    health.answer("healthz", LIVE).await
}

async fn one_live(State(health): State<Health>, Path(check): Path<String>) -> Response {
    one(&health, "healthz", LIVE, &check).await
}

async fn ready(State(health): State<Health>) -> Response {
    health.answer("readyz", READY).await
}

async fn one_ready(State(health): State<Health>, Path(check): Path<String>) -> Response {
    one(&health, "readyz", READY, &check).await
}

pub(crate) fn probes(health: Health) -> Router {
    Router::new()
        .route("/healthz", get(live))
        .route("/healthz/{check}", get(one_live))
        .route("/readyz", get(ready))
        .route("/readyz/{check}", get(one_ready))
        .with_state(health)
}

async fn scrape(State(context): State<Arc<Context>>) -> impl IntoResponse {
    let parts = context.report.metrics.parts(context.clock.now());
    let parts = futures::stream::iter(parts.into_iter().map(Ok::<_, std::convert::Infallible>));
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], Body::from_stream(parts))
}

pub(crate) fn metrics(context: Arc<Context>, profiling: bool) -> Router {
    let router = Router::new().route("/metrics", get(scrape)).with_state(context);
    if profiling { router.merge(profiles::router()) } else { router }
}

/// Serves until the process ends.
pub(crate) fn serve(endpoint: &'static str, listener: TcpListener, router: Router) {
    if let Ok(address) = listener.local_addr() {
        tracing::info!(endpoint, port = address.port(), "serving");
    }
    tokio::spawn(async move {
        // Ends only when the listener itself breaks, and then probes fail, which is what should happen.
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(endpoint, %error, "an endpoint ended");
        }
    });
}
