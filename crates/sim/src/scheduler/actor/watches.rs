//! One stream of what happens to all kinds that matter.

use std::fmt::Debug;
use std::time::Duration;

use futures::stream::{BoxStream, SelectAll, select_all};
use futures::{StreamExt as _, future};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tracing::debug;

use super::super::cluster::Key;
use super::super::objects::Object;

/// How many kinds there are; each has a number below.
pub(super) const KINDS: usize = 11;

#[derive(Debug)]
pub(super) enum News {
    ListBegins(usize),
    Is(usize, Key, Object),
    Gone(usize, Key, Object),
    ListEnds(usize),
}

pub(super) fn watch_all(client: &Client) -> SelectAll<BoxStream<'static, News>> {
    let all: [_; KINDS] = [
        watch::<Namespace>(0, client),
        watch::<StorageClass>(1, client),
        watch::<CSIDriver>(2, client),
        watch::<CSIStorageCapacity>(3, client),
        watch::<CSINode>(4, client),
        watch::<PersistentVolume>(5, client),
        watch::<PersistentVolumeClaim>(6, client),
        watch::<VolumeAttachment>(7, client),
        watch::<Node>(8, client),
        watch::<Pod>(9, client),
        watch::<PodDisruptionBudget>(10, client),
    ];
    select_all(all)
}

fn watch<K>(kind: usize, client: &Client) -> BoxStream<'static, News>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    Object: From<K>,
{
    let news = move |event: watcher::Result<Event<K>>| {
        future::ready(match event {
            Ok(Event::Init) => Some(News::ListBegins(kind)),
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                Some(News::Is(kind, Key::of(object.meta()), object.into()))
            }
            Ok(Event::Delete(object)) => Some(News::Gone(kind, Key::of(object.meta()), object.into())),
            Ok(Event::InitDone) => Some(News::ListEnds(kind)),
            Err(error) => {
                debug!(kind = %K::kind(&()), %error, "watch failed");
                // A server that does not know the kind has none of it.
                let unknown = matches!(&error, watcher::Error::InitialListFailed(kube::Error::Api(s)) if s.code == 404);
                unknown.then_some(News::ListEnds(kind))
            }
        })
    };
    watcher(Api::<K>::all(client.clone()), watcher::Config::default())
        .backoff(Pauses::default())
        .filter_map(news)
        .boxed()
}

/// 200 ms to 12.8 s, the same in every run, unlike kube's own.
#[derive(Debug, Clone, Default)]
struct Pauses(u32);

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0 = (self.0 + 1).min(7);
        Some(Duration::from_millis(100) * (1 << self.0))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.0 = 0;
    }
}
