//! Pods in a plan: positions in one list of all pods, since a plan of a million pods has no time to copy their names.

use std::fmt;
use std::sync::Arc;

use karpenter_model::pod::{PodId, PodView};

use crate::plan::Placement;

/// All pods that a pass was asked to place, by namespace and name.
pub(crate) type AllPods = Arc<Vec<Arc<PodView>>>;

/// Some pods of a plan.
#[derive(Clone, Default)]
pub struct PodList {
    all: AllPods,
    at: Vec<u32>,
}

impl PodList {
    pub(crate) fn new(all: &AllPods, at: Vec<u32>) -> Self {
        Self { all: all.clone(), at }
    }

    pub fn iter(&self) -> Ids<'_> {
        Ids { all: &self.all, at: self.at.iter() }
    }

    /// The pods themselves.
    pub fn views(&self) -> impl ExactSizeIterator<Item = &Arc<PodView>> {
        self.at.iter().map(|at| &self.all[*at as usize])
    }

    pub fn len(&self) -> usize {
        self.at.len()
    }

    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    pub fn contains(&self, pod: &PodId) -> bool {
        self.iter().any(|one| one == pod)
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&PodId) -> bool) {
        let all = &self.all;
        self.at.retain(|at| keep(&all[*at as usize].id));
    }
}

impl fmt::Debug for PodList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for &'a PodList {
    type Item = &'a PodId;
    type IntoIter = Ids<'a>;

    fn into_iter(self) -> Ids<'a> {
        self.iter()
    }
}

#[derive(Debug, Clone)]
pub struct Ids<'a> {
    all: &'a [Arc<PodView>],
    at: std::slice::Iter<'a, u32>,
}

impl<'a> Iterator for Ids<'a> {
    type Item = &'a PodId;

    fn next(&mut self) -> Option<&'a PodId> {
        self.at.next().map(|at| &self.all[*at as usize].id)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.at.size_hint()
    }
}

impl ExactSizeIterator for Ids<'_> {}

/// Where pods go, by namespace and name of the pod.
#[derive(Clone, Default)]
pub struct Placed {
    all: AllPods,
    /// Ascending, which is the order of names.
    places: Vec<(u32, Placement)>,
}

impl Placed {
    /// `places`: ascending by position.
    pub(crate) fn new(all: &AllPods, places: Vec<(u32, Placement)>) -> Self {
        Self { all: all.clone(), places }
    }

    fn id(&self, at: u32) -> &PodId {
        &self.all[at as usize].id
    }

    pub fn get(&self, pod: &PodId) -> Option<&Placement> {
        let found = self.places.binary_search_by(|(at, _)| self.id(*at).cmp(pod)).ok()?;
        Some(&self.places[found].1)
    }

    pub fn contains_key(&self, pod: &PodId) -> bool {
        self.get(pod).is_some()
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub fn iter(&self) -> Places<'_> {
        Places { all: &self.all, places: self.places.iter() }
    }

    pub fn keys(&self) -> impl Iterator<Item = &PodId> {
        self.iter().map(|(pod, _)| pod)
    }

    pub fn values(&self) -> impl Iterator<Item = &Placement> {
        self.places.iter().map(|(_, place)| place)
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Placement> {
        self.places.iter_mut().map(|(_, place)| place)
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&PodId, &mut Placement) -> bool) {
        let all = &self.all;
        self.places.retain_mut(|(at, place)| keep(&all[*at as usize].id, place));
    }

    pub fn clear(&mut self) {
        self.places.clear();
    }
}

impl fmt::Debug for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for &'a Placed {
    type Item = (&'a PodId, &'a Placement);
    type IntoIter = Places<'a>;

    fn into_iter(self) -> Places<'a> {
        self.iter()
    }
}

#[derive(Debug, Clone)]
pub struct Places<'a> {
    all: &'a [Arc<PodView>],
    places: std::slice::Iter<'a, (u32, Placement)>,
}

impl<'a> Iterator for Places<'a> {
    type Item = (&'a PodId, &'a Placement);

    fn next(&mut self) -> Option<Self::Item> {
        self.places.next().map(|(at, place)| (&self.all[*at as usize].id, place))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

impl ExactSizeIterator for Places<'_> {}
