//! Clients that write down what they ask for.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use karpenter_apiserver as apiserver;
use karpenter_platform::Clock;
use kube::Client;
use kube::client::Body;
use tower::Service;

use super::death::Life;
use crate::journal::Journal;

/// A client of one actor. Every change that it asks for is in the journal, with the answer's code.
pub(super) fn client(
    api: &apiserver::Api,
    journal: &Arc<Journal>,
    clock: &Arc<dyn Clock>,
    who: &'static str,
    life: Option<Life>,
) -> Client {
    let recorder = Recorder { api: api.clone(), journal: journal.clone(), clock: clock.clone(), who, life };
    Client::new(recorder, "default")
}

#[derive(Clone)]
struct Recorder {
    api: apiserver::Api,
    journal: Arc<Journal>,
    clock: Arc<dyn Clock>,
    who: &'static str,
    /// Of whoever may die in the middle of a call.
    life: Option<Life>,
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
        let worth = method != Method::GET && !path.contains("/kube-node-lease/");
        let Self { mut api, journal, clock, who, life } = self.clone();
        Box::pin(async move {
            // The request is heard when it is polled, so that one that dies before is not.
            let what = format!("{method} {path}");
            let call = async move { api.call(request).await };
            let answer = match life {
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
