//! One replica acts: leader election on a Lease (API-296 … API-299, LIF-128).
//!
//! Times of the lease are for people. Whether it has run out is judged by how long this process has seen it unchanged, so
//! that clocks need not agree. A leader counts its own time from before it asked for the renewal and ends five seconds
//! before anybody else may begin.

mod record;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use karpenter_platform::Clock;
use kube::api::{Api, PostParams};
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{debug, info, warn};

use self::record::Claimed;
use crate::metrics::Metrics;

/// API-297.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long an unchanged lease is respected.
    pub lease: Duration,
    /// How long a leader goes on without a renewal.
    pub renew_deadline: Duration,
    /// The pause between two looks at the lease.
    pub retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { lease: Duration::from_secs(15), renew_deadline: Duration::from_secs(10), retry: Duration::from_secs(2) }
    }
}

/// Until when this process may act. Shared with whoever sends writes, which is the last moment to notice that a process
/// was stopped for a while and is no longer the leader.
#[derive(Debug, Clone, Default)]
pub struct Fence(Arc<Mutex<Option<Instant>>>);

impl Fence {
    /// One that never closes, for a process without election.
    pub fn open() -> Self {
        let fence = Self::default();
        // Tokio itself takes thirty years for ever.
        fence.set(Instant::now().checked_add(Duration::from_hours(24 * 365 * 30)));
        fence
    }

    pub fn is_open(&self) -> bool {
        self.lock().is_some_and(|until| Instant::now() < until)
    }

    fn set(&self, until: Option<Instant>) {
        *self.lock() = until;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why [`Election::lead`] ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended<T> {
    /// Told to stop; the lease was given back if it was held.
    Stopped,
    /// The lease could not be renewed in time or is somebody else's. The work was dropped.
    Lost,
    /// The work itself ended.
    Done(T),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseName {
    pub namespace: String,
    pub name: String,
}

/// What a replica runs to become the leader.
pub struct Election {
    api: Api<Lease>,
    lease: LeaseName,
    identity: String,
    timing: Timing,
    clock: Arc<dyn Clock>,
    metrics: Option<Arc<Metrics>>,
    fence: Fence,
    /// The lease as last seen, and since when it is like that.
    seen: Option<(Lease, Instant)>,
}

impl std::fmt::Debug for Election {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Election").field("lease", &self.lease).field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Election {
    /// `client` shares no rate limit with the work, so that no burst of it can cost the lease (API-298).
    pub fn new(client: kube::Client, lease: LeaseName, identity: String, clock: Arc<dyn Clock>) -> Self {
        let api = Api::namespaced(client, &lease.namespace);
        let (timing, fence) = (Timing::default(), Fence::default());
        Self { api, lease, identity, timing, clock, metrics: None, fence, seen: None }
    }

    #[must_use]
    pub fn metrics(mut self, metrics: Arc<Metrics>) -> Self {
        metrics.all.leader_election_master_status.set([&self.lease.name], 0.0);
        metrics.all.leader_election_slowpath.family().touch(&[&self.lease.name]);
        self.metrics = Some(metrics);
        self
    }

    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Waits for the lease, then does the work while it is held. Stops at once when told to or when the lease is lost.
    pub async fn lead<T>(mut self, work: impl Future<Output = T>, stop: impl Future<Output = ()>) -> Ended<T> {
        tokio::pin!(stop);
        tokio::select! {
            biased;
            () = &mut stop => return Ended::Stopped,
            () = self.acquire() => {}
        }
        info!(lease = self.lease.name, identity = self.identity, "became leader");
        self.set_leading(true);
        let ended = {
            // Not pinned outside: dropping the work is what stops it.
            tokio::pin!(work);
            tokio::select! {
                biased;
                () = self.hold() => Ended::Lost,
                () = &mut stop => Ended::Stopped,
                done = &mut work => Ended::Done(done),
            }
        };
        self.fence.set(None);
        self.set_leading(false);
        if !matches!(ended, Ended::Lost) {
            self.release().await;
        }
        ended
    }

    fn set_leading(&self, leading: bool) {
        if let Some(metrics) = &self.metrics {
            let value = if leading { 1.0 } else { 0.0 };
            metrics.all.leader_election_master_status.set([&self.lease.name], value);
        }
    }

    /// Tries until the lease is ours.
    async fn acquire(&mut self) {
        loop {
            let asked = Instant::now();
            let limit = asked + self.timing.renew_deadline;
            match timeout_at(limit, self.try_acquire()).await {
                Ok(Ok(true)) => {
                    self.fence.set(Some(limit));
                    return;
                }
                Ok(Ok(false)) => {}
                Ok(Err(error)) if is_lost_race(&error) => debug!("another replica was faster"),
                Ok(Err(error)) => {
                    warn!(lease = self.lease.name, error = %error, "could not ask for the lease, trying again");
                }
                Err(_) => warn!(lease = self.lease.name, "the API server did not answer about the lease, trying again"),
            }
            tokio::time::sleep(self.timing.retry).await;
        }
    }

    /// Reads the lease, and takes it if nobody holds it any more.
    async fn try_acquire(&mut self) -> Result<bool, kube::Error> {
        let Some(current) = self.api.get_opt(&self.lease.name).await? else {
            let mine = Claimed { identity: &self.identity, lease: self.timing.lease, now: self.clock.now() };
            let created = self.api.create(&PostParams::default(), &mine.first(&self.lease)).await?;
            self.see(created);
            return Ok(true);
        };
        self.see(current.clone());
        if self.is_held_by_another(&current) {
            return Ok(false);
        }
        self.take(&current).await?;
        Ok(true)
    }

    /// Remembers since when the lease is as it is.
    fn see(&mut self, lease: Lease) {
        if self.seen.as_ref().is_none_or(|(seen, _)| seen.spec != lease.spec) {
            self.seen = Some((lease, Instant::now()));
        } else if let Some((seen, _)) = &mut self.seen {
            *seen = lease;
        }
    }

    fn is_held_by_another(&self, lease: &Lease) -> bool {
        let holder = record::holder(lease);
        let since = self.seen.as_ref().map_or_else(Instant::now, |(_, since)| *since);
        // A holder that set a longer time than ours is given it.
        let respected = record::duration(lease).unwrap_or(self.timing.lease);
        !holder.is_empty() && holder != self.identity && since.elapsed() < respected
    }

    /// Writes our name into the lease as it was read; whoever is second gets a conflict.
    async fn take(&mut self, current: &Lease) -> Result<(), kube::Error> {
        let mine = Claimed { identity: &self.identity, lease: self.timing.lease, now: self.clock.now() };
        let taken = self.api.replace(&self.lease.name, &PostParams::default(), &mine.over(current)).await?;
        self.see(taken);
        Ok(())
    }

    /// Renews the lease; returns when that has not worked for too long or the lease is somebody else's.
    async fn hold(&mut self) {
        let mut until = Instant::now() + self.timing.renew_deadline;
        if let Some(acquired) = *self.fence.lock() {
            until = until.min(acquired);
        }
        loop {
            let next = Instant::now() + self.timing.retry;
            sleep_until(next.min(until)).await;
            let asked = Instant::now();
            if asked >= until {
                warn!(lease = self.lease.name, "the lease was not renewed in time");
                return;
            }
            match timeout_at(until, self.renew()).await {
                Ok(Ok(Renewed::Yes)) => {
                    until = asked + self.timing.renew_deadline;
                    self.fence.set(Some(until));
                }
                Ok(Ok(Renewed::Taken)) => {
                    warn!(lease = self.lease.name, "another replica has the lease");
                    return;
                }
                Ok(Err(error)) => {
                    warn!(lease = self.lease.name, error = %error, "could not renew the lease, trying again");
                }
                Err(_) => {
                    warn!(lease = self.lease.name, "the API server did not answer before the lease had to be renewed");
                    return;
                }
            }
        }
    }

    /// Writes over the lease that we wrote last; when somebody changed it, looks first.
    async fn renew(&mut self) -> Result<Renewed, kube::Error> {
        if let Some((mine, _)) = self.seen.clone() {
            match self.take(&mine).await {
                Ok(()) => return Ok(Renewed::Yes),
                Err(error) if is_lost_race(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(metrics) = &self.metrics {
            metrics.all.leader_election_slowpath.increment([&self.lease.name]);
        }
        match self.api.get_opt(&self.lease.name).await? {
            Some(lease) if record::holder(&lease) != self.identity => Ok(Renewed::Taken),
            Some(lease) => {
                self.take(&lease).await?;
                Ok(Renewed::Yes)
            }
            // Somebody deleted it; whoever writes it first has it.
            None => Ok(if self.try_acquire().await? { Renewed::Yes } else { Renewed::Taken }),
        }
    }

    /// Gives the lease back, so that the next replica need not wait for it to run out.
    async fn release(&mut self) {
        let Some((mine, _)) = self.seen.clone() else { return };
        let released = record::released(&mine, self.clock.now());
        let limit = Instant::now() + self.timing.retry;
        match timeout_at(limit, self.api.replace(&self.lease.name, &PostParams::default(), &released)).await {
            Ok(Ok(_)) => info!(lease = self.lease.name, "gave the lease back"),
            Ok(Err(error)) => debug!(%error, "could not give the lease back; it runs out by itself"),
            Err(_) => debug!("no time to give the lease back; it runs out by itself"),
        }
    }
}

enum Renewed {
    Yes,
    Taken,
}

/// Somebody wrote first.
fn is_lost_race(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict() || status.is_already_exists() || status.is_not_found())
}

#[cfg(test)]
mod tests;
