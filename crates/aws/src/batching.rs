//! Many small requests as few large ones (§4.13). A state machine that is told the time; who drives it sleeps until
//! [`Batcher::next_due`] and sends what [`Batcher::due`] gives.

mod executor;
mod sharing;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

pub use executor::{Executor, Observer};
pub use sharing::{TOO_FEW, hand_out, missing};

/// How long requests wait for company.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub name: &'static str,
    /// After the last request.
    pub idle: SignedDuration,
    /// After the first.
    pub longest: SignedDuration,
    pub most: usize,
}

pub const CREATE_FLEET: Window = window("create_fleet", 35, 1000);
pub const DESCRIBE_INSTANCES: Window = window("describe_instances", 100, 500);
/// By the claims' tag; a filter of EC2 takes two hundred values.
pub const DESCRIBE_TAGGED: Window = window("describe_instances", 100, 200);
pub const TERMINATE_INSTANCES: Window = window("terminate_instances", 100, 500);

const fn window(name: &'static str, idle_ms: i64, most: usize) -> Window {
    Window { name, idle: SignedDuration::from_millis(idle_ms), longest: SignedDuration::from_secs(1), most }
}

/// How many batches may be under way at the same time (AWS-194).
pub const CONCURRENT: usize = 100;

#[derive(Debug, Clone)]
struct Bucket<T> {
    items: Vec<T>,
    opened: Timestamp,
    last: Timestamp,
}

/// Requests that can be sent together, by what makes them so.
#[derive(Debug, Clone)]
pub struct Batcher<K, T> {
    window: Window,
    buckets: BTreeMap<K, Bucket<T>>,
}

impl<K: Ord + Clone, T> Batcher<K, T> {
    pub fn new(window: Window) -> Self {
        Self { window, buckets: BTreeMap::new() }
    }

    pub fn add(&mut self, key: K, item: T, now: Timestamp) {
        let bucket = self.buckets.entry(key).or_insert_with(|| Bucket { items: Vec::new(), opened: now, last: now });
        bucket.items.push(item);
        bucket.last = now;
    }

    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    fn end(&self, bucket: &Bucket<T>) -> Timestamp {
        if bucket.items.len() >= self.window.most {
            return bucket.opened;
        }
        let later = |from: Timestamp, by| from.saturating_add(by).unwrap_or(Timestamp::MAX);
        later(bucket.last, self.window.idle).min(later(bucket.opened, self.window.longest))
    }

    /// When [`Batcher::due`] has something next; `None` while nobody waits.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.buckets.values().map(|bucket| self.end(bucket)).min()
    }

    /// The batches whose time has come, none larger than allowed, with the time since each was opened.
    pub fn due(&mut self, now: Timestamp) -> Vec<(K, Vec<T>, SignedDuration)> {
        let keys: Vec<K> =
            self.buckets.iter().filter(|(_, bucket)| self.end(bucket) <= now).map(|(key, _)| key.clone()).collect();
        let mut batches = Vec::new();
        for key in keys {
            let Some(bucket) = self.buckets.remove(&key) else { continue };
            let waited = now.duration_since(bucket.opened);
            let mut items = bucket.items.into_iter().peekable();
            while items.peek().is_some() {
                batches.push((key.clone(), items.by_ref().take(self.window.most).collect(), waited));
            }
        }
        batches
    }
}

#[cfg(test)]
mod tests;
