//! `karpenter-controller webhook`: stands where charts of old ran their webhook (AWS-259).
//!
//! Nothing is sent to it. It is ready once Provisioners can be made, which is what `helm --wait` was for (SEED-2-21).

use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};

use crate::start::missing_kinds;
use crate::{client, endpoints};

/// What Services of old lead to.
const PORT: u16 = 8443;

/// Serves until a signal comes. The port may be given after the word.
pub(crate) async fn run(port: Option<String>) -> Result<()> {
    let port = match port {
        None => PORT,
        Some(text) => text.parse().with_context(|| format!("{text:?} is not a port"))?,
    };
    let listener = endpoints::listen("webhook", port).await?;
    let client = Client::try_from(client::config().await?).context("the client cannot be set up")?;
    let probes =
        Router::new().route("/healthz", get(|| async { "ok" })).route("/readyz", get(ready)).with_state(client);
    let port = listener.local_addr().context("the port is not known")?.port();
    crate::print(&format!("serving on port {port}"));
    endpoints::serve("webhook", listener, probes);
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

async fn ready(State(client): State<Client>) -> Response {
    match missing_kinds(&client, "karpenter.sh/v1alpha5", &["Provisioner"]).await {
        Ok(missing) if missing.is_empty() => "ok".into_response(),
        Ok(missing) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{} not served", missing.join(", "))).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")).into_response(),
    }
}
