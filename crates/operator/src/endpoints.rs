//! What the process serves: probes on one port, metrics and profiles on another (API-181, API-300).

mod profiles;

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

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

const LIVE: &[&str] = &["healthz", "provider"];
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
            "provider" => answers(self.context.provider.live()).await,
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

/// Far longer than anything inside of the process takes, and shorter than the patience of a probe.
const STUCK: Duration = Duration::from_secs(20);

async fn answers(question: impl Future<Output = ()>) -> Result<(), String> {
    let late = |_| format!("it has not answered for {} s", STUCK.as_secs());
    tokio::time::timeout(STUCK, question).await.map_err(late)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS-235: a provider that is stuck is not alive; one that takes its time is.
    #[tokio::test(start_paused = true)]
    async fn a_stuck_provider_fails_the_probe() {
        let lock = tokio::sync::Mutex::new(());
        let held = lock.lock().await;
        let stuck = answers(async { drop(lock.lock().await) }).await;
        assert_eq!(stuck, Err("it has not answered for 20 s".to_owned()));
        drop(held);
        assert_eq!(answers(async { drop(lock.lock().await) }).await, Ok(()));
        assert_eq!(answers(tokio::time::sleep(Duration::from_secs(19))).await, Ok(()));
        assert!(LIVE.contains(&"provider"), "and it is asked");
    }
}
