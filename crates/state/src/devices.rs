//! What is known about devices: what drivers publish, what is asked for, and what was given (SCH-192 … SCH-195).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::devices::{DeviceClass, DeviceFacts, ResourceClaim, Slice};
use karpenter_model::pod::PodId;

use crate::{ClusterState, Source};

#[derive(Debug, Clone)]
pub enum DeviceChange {
    Slice(Arc<Slice>),
    SliceGone(String),
    Class(Arc<DeviceClass>),
    ClassGone(String),
    Claim(Arc<ResourceClaim>),
    ClaimGone(PodId),
}

#[derive(Debug, Default)]
pub(crate) struct Devices {
    slices: BTreeMap<String, Arc<Slice>>,
    classes: BTreeMap<String, Arc<DeviceClass>>,
    claims: BTreeMap<PodId, Arc<ResourceClaim>>,
    /// All of it, as long as nothing has changed.
    facts: Option<Arc<DeviceFacts>>,
}

impl Devices {
    fn apply(&mut self, change: DeviceChange) {
        self.facts = None;
        match change {
            DeviceChange::Slice(slice) => drop(self.slices.insert(slice.name.clone(), slice)),
            DeviceChange::SliceGone(name) => drop(self.slices.remove(&name)),
            DeviceChange::Class(class) => drop(self.classes.insert(class.name.clone(), class)),
            DeviceChange::ClassGone(name) => drop(self.classes.remove(&name)),
            DeviceChange::Claim(claim) => drop(self.claims.insert(claim.id.clone(), claim)),
            DeviceChange::ClaimGone(id) => drop(self.claims.remove(&id)),
        }
    }

    fn retain(&mut self, source: Source, known: &BTreeSet<String>) {
        self.facts = None;
        match source {
            Source::Slices => self.slices.retain(|name, _| known.contains(name)),
            Source::DeviceClasses => self.classes.retain(|name, _| known.contains(name)),
            Source::ResourceClaims => self.claims.retain(|id, _| known.contains(&id.to_string())),
            _ => {}
        }
    }

    fn facts(&mut self) -> Arc<DeviceFacts> {
        let facts = self.facts.get_or_insert_with(|| {
            Arc::new(DeviceFacts {
                slices: self.slices.values().cloned().collect(),
                classes: self.classes.values().cloned().collect(),
                claims: self.claims.values().cloned().collect(),
            })
        });
        facts.clone()
    }
}

impl ClusterState {
    /// Devices are looked at, and their lists waited for (SCH-191, SCH-194); before the first change.
    #[must_use]
    pub fn with_devices(mut self) -> Self {
        self.devices = Some(Devices::default());
        self
    }

    /// `None` when devices are not looked at.
    pub fn devices(&mut self) -> Option<Arc<DeviceFacts>> {
        self.devices.as_mut().map(Devices::facts)
    }

    /// Only pods that ask for devices depend on them, and those look at everything that changes.
    pub(crate) fn apply_device(&mut self, change: DeviceChange) {
        if let Some(devices) = &mut self.devices {
            devices.apply(change);
            self.world.all += 1;
        }
    }

    pub(crate) fn retain_devices(&mut self, source: Source, known: &BTreeSet<String>) {
        if let Some(devices) = &mut self.devices {
            devices.retain(source, known);
        }
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::devices::Reach;

    use super::*;
    use crate::Change;

    fn slice(name: &str) -> Change {
        Change::Device(DeviceChange::Slice(Arc::new(Slice {
            name: name.into(),
            driver: "gpu".into(),
            pool: "p".into(),
            generation: 1,
            parts: 1,
            owner: None,
            reach: Reach::AllNodes,
            counters: BTreeMap::new(),
            devices: Vec::new(),
        })))
    }

    fn class(name: &str) -> Change {
        Change::Device(DeviceChange::Class(Arc::new(DeviceClass { name: name.into(), selectors: Vec::new() })))
    }

    fn claim(name: &str) -> Change {
        Change::Device(DeviceChange::Claim(Arc::new(ResourceClaim {
            id: PodId::new("default", name),
            requests: Vec::new(),
            constraints: Vec::new(),
            allocation: None,
        })))
    }

    fn counts(state: &mut ClusterState) -> (usize, usize, usize) {
        let facts = state.devices().unwrap();
        (facts.slices.len(), facts.classes.len(), facts.claims.len())
    }

    /// SCH-194: nothing is decided before the lists are in; SCH-191: with devices ignored nobody waits for them.
    #[test]
    fn devices_are_waited_for_only_where_they_are_looked_at() {
        for looked_at in [false, true] {
            let mut state = ClusterState::default();
            if looked_at {
                state = state.with_devices();
            }
            for source in Source::ALL {
                state.apply(Change::Complete(source));
            }
            state.apply(slice("a"));
            assert_eq!((state.devices().is_some(), state.unlisted().is_some()), (looked_at, looked_at));
            for source in Source::DEVICES {
                assert_eq!(state.unlisted(), looked_at.then_some(source));
                state.apply(Change::Listed(source, ["a".to_owned()].into()));
            }
            assert_eq!(state.unlisted(), None);
        }
    }

    /// SCH-192, SCH-193: what is there is known, by name, and what is gone is not.
    #[test]
    fn facts_follow_the_objects() {
        let mut state = ClusterState::default().with_devices();
        for change in [slice("a"), slice("b"), slice("a"), class("c"), class("d"), claim("e"), claim("f")] {
            state.apply(change);
        }
        assert_eq!(counts(&mut state), (2, 2, 2));
        assert!(Arc::ptr_eq(&state.devices().unwrap(), &state.devices().unwrap()), "the same as long as it is");
        let world = state.world();
        state.apply(Change::Device(DeviceChange::SliceGone("a".into())));
        assert_eq!(counts(&mut state), (1, 2, 2));
        assert!(state.world().all > world.all && state.world().room == world.room);
        state.apply(Change::Listed(Source::Slices, BTreeSet::new()));
        state.apply(Change::Listed(Source::DeviceClasses, ["d".to_owned()].into()));
        state.apply(Change::Listed(Source::ResourceClaims, ["default/f".to_owned()].into()));
        assert_eq!(counts(&mut state), (0, 1, 1));
        state.apply(Change::Device(DeviceChange::ClassGone("d".into())));
        let id = PodId::new("default", "f");
        state.apply(Change::Device(DeviceChange::ClaimGone(id)));
        assert_eq!(counts(&mut state), (0, 0, 0));
    }
}
