//! In which zones pods that wait could be at all, before anything is placed (SCH-29).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::labels;
use karpenter_model::pod::{PodId, PodPhase};
use karpenter_model::requirements::{Operator, Requirement};

use super::Compiled;
use super::group::Zones;
use super::pass::Pass;
use super::pods::{Class, ClassId};
use crate::plan::EffectiveZone;

impl Pass<'_> {
    /// Of pods in phase Pending. Asked of a pass that has placed nobody.
    pub(crate) fn effective_zones(&mut self) -> BTreeMap<PodId, EffectiveZone> {
        let mut known: BTreeMap<ClassId, EffectiveZone> = BTreeMap::new();
        let mut zones = BTreeMap::new();
        for at in 0..self.compiled.pods.pending.len() {
            let pod = &self.compiled.pods.all[at];
            if pod.phase != PodPhase::Pending {
                continue;
            }
            let (id, class) = (pod.id.clone(), self.compiled.pods.pending[at].class);
            let zone = match known.get(&class) {
                Some(zone) => zone.clone(),
                None => known.entry(class).or_insert(self.effective_zone(class)).clone(),
            };
            zones.insert(id, zone);
        }
        zones
    }

    fn effective_zone(&mut self, class: ClassId) -> EffectiveZone {
        let class = self.compiled.pods.classes[class as usize];
        let admitted = match self.admitted_zones(class) {
            Zones::Nowhere => return EffectiveZone::None,
            Zones::Anywhere => None,
            Zones::Only(zones) => Some(zones),
        };
        let scheduling = &self.compiled.pods.kinds[class.kind as usize].example.scheduling;
        let strict = scheduling.strict_requirements();
        let asked = strict.get(labels::ZONE);
        let volumes: Vec<Option<&Requirement>> =
            scheduling.volumes.alternatives.iter().map(|place| place.get(labels::ZONE)).collect();
        let Some(candidates) = candidates(asked, &volumes, admitted.as_ref()) else { return EffectiveZone::Flexible };
        let mut left = candidates.into_iter().filter(|zone| {
            let near = volumes.is_empty() || volumes.iter().any(|place| place.is_none_or(|place| place.has(zone)));
            near && asked.is_none_or(|asked| asked.has(zone))
                && admitted.as_ref().is_none_or(|admitted| admitted.contains(zone))
        });
        match (left.next(), left.next()) {
            (None, _) => EffectiveZone::None,
            (Some(zone), None) => EffectiveZone::Only(zone),
            (Some(_), Some(_)) => EffectiveZone::Flexible,
        }
    }

    /// What all groups of zones that the pod owns let it choose from; none of them, and none in common, are the same (Q28).
    fn admitted_zones(&mut self, class: Class) -> Zones {
        let variant = self.first_variant(class.kind);
        // Makes it known who is counted.
        let Compiled { algebra, .. } = &mut *self.compiled;
        let variant = &self.variants[variant];
        let of_zones = variant.owned[1].iter().filter(|group| self.groups.key(**group) == labels::ZONE);
        let of_zones: Vec<_> = of_zones.copied().collect();
        let mut all: Option<BTreeSet<String>> = None;
        for group in of_zones {
            match self.groups.admitted(group, class.badge, variant.asked.req, algebra) {
                Zones::Nowhere => return Zones::Nowhere,
                Zones::Anywhere => {}
                Zones::Only(zones) => {
                    let both = match all {
                        Some(all) => all.intersection(&zones).cloned().collect(),
                        None => zones,
                    };
                    all = Some(both);
                }
            }
        }
        match all {
            None => Zones::Anywhere,
            Some(zones) if zones.is_empty() => Zones::Nowhere,
            Some(zones) => Zones::Only(zones),
        }
    }
}

/// What the pod asks for, else where its volumes are, else what its groups admit.
fn candidates(
    asked: Option<&Requirement>,
    volumes: &[Option<&Requirement>],
    admitted: Option<&BTreeSet<String>>,
) -> Option<BTreeSet<String>> {
    let listed = |one: &&Requirement| one.operator() == Operator::In;
    if let Some(asked) = asked.filter(listed) {
        return Some(asked.values().map(ToOwned::to_owned).collect());
    }
    let places: Vec<&Requirement> = volumes.iter().copied().flatten().filter(listed).collect();
    if !places.is_empty() && places.len() == volumes.len() {
        return Some(places.into_iter().flat_map(Requirement::values).map(ToOwned::to_owned).collect());
    }
    admitted.cloned()
}
