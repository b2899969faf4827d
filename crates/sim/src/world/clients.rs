//! Clients that write down what they ask for.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use karpenter_apiserver as apiserver;
use karpenter_controllers::leader::Fence;
use karpenter_platform::Clock;
use kube::Client;
use kube::client::Body;
use tower::Service;

use super::death::Life;
use super::overseer::Overseer;
use super::process::Line;
use crate::journal::Journal;

/// What stands between a process of the autoscaler and what it asks for.
#[derive(Debug, Clone)]
pub(super) struct Hands {
    pub(super) line: Line,
    /// Of whoever may die in the middle of a call.
    pub(super) life: Option<Life>,
    /// Writes are sent only while it is open.
    pub(super) fence: Option<Fence>,
    pub(super) overseer: Option<Arc<Overseer>>,
    /// In the lease.
    pub(super) identity: String,
}

/// A write of a process that may not act any more. Nothing was sent.
#[derive(Debug, thiserror::Error)]
#[error("not the leader any more, the request was not sent")]
pub(super) struct NotLeader;

impl Hands {
    /// Waits until something can be asked, and says whether it may be. A process that was held up here is as one that was
    /// stopped for a while: it must notice that it is not the leader any more.
    pub(super) async fn reach(&self, now: &dyn Clock, what: &str, writes: bool) -> Result<(), NotLeader> {
        self.line.whole().await;
        if writes && self.fence.as_ref().is_some_and(|fence| !fence.is_open()) {
            return Err(NotLeader);
        }
        if let Some(overseer) = &self.overseer {
            overseer.sees(now.now(), &self.identity, what, writes);
        }
        Ok(())
    }
}

/// A client of one actor. Every change that it asks for is in the journal, with the answer's code.
pub(super) fn client(
    api: &apiserver::Api,
    journal: &Arc<Journal>,
    clock: &Arc<dyn Clock>,
    who: &'static str,
    hands: Option<Hands>,
) -> Client {
    let recorder = Recorder { api: api.clone(), journal: journal.clone(), clock: clock.clone(), who, hands };
    Client::new(recorder, "default")
}

#[derive(Clone)]
struct Recorder {
    api: apiserver::Api,
    journal: Arc<Journal>,
    clock: Arc<dyn Clock>,
    who: &'static str,
    hands: Option<Hands>,
}

impl Service<Request<Body>> for Recorder {
    type Response = Response<apiserver::Body>;
    type Error = apiserver::BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // Reading changes nothing, and leases are renewed all the time.
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let writes = method != Method::GET;
        let worth = writes && !path.contains("/leases");
        let Self { mut api, journal, clock, who, hands } = self.clone();
        Box::pin(async move {
            // The request is heard when it is polled, so that one that dies before is not.
            let what = format!("{method} {path}");
            if let Some(hands) = &hands {
                hands.reach(clock.as_ref(), &what, writes).await?;
            }
            let call = async move { api.call(request).await };
            let answer = match hands.and_then(|hands| hands.life) {
                Some(life) => life.call(&what, call).await,
                None => call.await,
            };
            if worth {
                let code = answer.as_ref().map_or_else(|_| "lost".to_owned(), |a| a.status().as_u16().to_string());
                journal.write(clock.now(), who, &format!("{what} {code}"));
            }
            answer
        })
    }
}
