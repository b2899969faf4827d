//! Pods that no rule about places and neighbours tells apart, so that each rule is looked at once for all of them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use karpenter_model::pod::PodView;

use super::sites::Site;

pub(super) type KindId = usize;

#[derive(Default)]
pub(super) struct Kinds<'a> {
    pub(super) examples: Vec<&'a PodView>,
    index: BTreeMap<u64, Vec<KindId>>,
    /// By the address of what pods of one workload share, and by namespace.
    shared: BTreeMap<(usize, &'a str), KindId>,
    /// By kind: on which sites, and how many of those that the plan places.
    pub(super) new: Vec<Vec<(usize, usize)>>,
    /// The same of those that are there and stay.
    pub(super) old: Vec<Vec<(usize, usize)>>,
}

/// A number that equal things share; others hardly ever do.
pub(super) fn digest(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl<'a> Kinds<'a> {
    pub(super) fn of(&mut self, pod: &'a PodView) -> KindId {
        let shared = (Arc::as_ptr(&pod.class).addr(), pod.id.namespace.as_str());
        if let Some(known) = self.shared.get(&shared) {
            return *known;
        }
        let kind = self.find(pod);
        self.shared.insert(shared, kind);
        kind
    }

    fn find(&mut self, pod: &'a PodView) -> KindId {
        let number = digest(&(&pod.id.namespace, &pod.labels, &pod.scheduling));
        let known = self.index.entry(number).or_default();
        let same = |kind: &&KindId| {
            let example = self.examples[**kind];
            example.id.namespace == pod.id.namespace
                && example.labels == pod.labels
                && example.scheduling == pod.scheduling
        };
        if let Some(kind) = known.iter().find(same) {
            return *kind;
        }
        known.push(self.examples.len());
        self.examples.push(pod);
        self.examples.len() - 1
    }

    /// Notes who is where.
    pub(super) fn count(&mut self, sites: &[Site<'a>]) {
        self.new = vec![Vec::new(); self.examples.len()];
        self.old = vec![Vec::new(); self.examples.len()];
        let add = |all: &mut Vec<(usize, usize)>, site: usize| match all.last_mut() {
            Some((last, count)) if *last == site => *count += 1,
            _ => all.push((site, 1)),
        };
        for (at, site) in sites.iter().enumerate() {
            site.new_pods.iter().for_each(|(_, kind)| add(&mut self.new[*kind], at));
            let staying = site.old_pods.iter().filter(|(pod, _)| pod.deleting_since.is_none());
            staying.for_each(|(_, kind)| add(&mut self.old[*kind], at));
        }
    }
}
