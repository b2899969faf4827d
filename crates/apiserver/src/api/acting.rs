//! The API as a certain user has it, with a record of what that user asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http::{Request, Response};
use tower::Service;

use super::{Api, BoxError, lock};
use crate::rbac::{self, Access, User};
use crate::watch::Body;

/// A service for `kube::Client::new`, as [`Api`] is. Clones share the record.
#[derive(Debug, Clone)]
pub struct Acting {
    api: Api,
    actor: Actor,
}

/// Travels with each request.
#[derive(Debug, Clone)]
pub(super) struct Actor {
    pub(super) user: User,
    log: Arc<Mutex<BTreeMap<Access, Counts>>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    allowed: u64,
    refused: u64,
}

impl Api {
    /// This API for one user. With [`Options::rbac`](super::Options::rbac) roles decide; without, everything is allowed and
    /// the record tells which roles would be needed.
    pub fn acting_as(&self, user: User) -> Acting {
        Acting { api: self.clone(), actor: Actor { user, log: Arc::default() } }
    }
}

impl Acting {
    /// What was asked for and allowed.
    pub fn used(&self) -> BTreeSet<Access> {
        self.having(|counts| counts.allowed > 0)
    }

    /// What was asked for and refused.
    pub fn refused(&self) -> BTreeSet<Access> {
        self.having(|counts| counts.refused > 0)
    }

    /// Forgets what was asked for, for instance while a test prepares its objects.
    pub fn forget(&self) {
        lock(&self.actor.log).clear();
    }

    fn having(&self, which: impl Fn(&Counts) -> bool) -> BTreeSet<Access> {
        lock(&self.actor.log).iter().filter(|(_, counts)| which(counts)).map(|(access, _)| access.clone()).collect()
    }
}

impl Actor {
    pub(super) fn note(&self, request: &rbac::Request, allowed: bool) {
        let Some(access) = Access::of(request) else { return };
        let mut log = lock(&self.log);
        let counts = log.entry(access).or_default();
        if allowed {
            counts.allowed += 1;
        } else {
            counts.refused += 1;
        }
    }
}

impl<B> Service<Request<B>> for Acting
where
    Api: Service<Request<B>, Response = Response<Body>, Error = BoxError>,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = <Api as Service<Request<B>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.api.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(self.actor.clone());
        self.api.call(request)
    }
}
