//! Reserved instances that come back from nodes which go before anything takes their place (Z19).
//!
//! Such a node goes because its pods can have nothing but what it holds. Until a pool that is meant to has bought that again, others are
//! not shown that there is room: one of their pods, or a move for money, would take it, and the pods that had to leave would
//! have nowhere to go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_disruption::methods::Command;
use karpenter_disruption::reserved::TerminateFirst;
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::{self, LabelRules};

use crate::context::Context;

/// Whoever has not come back by then is not expected any more: a pod is made again and planned for within seconds, and a launch that
/// fails is tried again within minutes.
const KEPT: SignedDuration = SignedDuration::from_mins(10);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Slot {
    reservation: String,
    /// Whose claims are meant to have it.
    pools: BTreeSet<String>,
    since: Timestamp,
    /// The claim that held it is gone.
    free_since: Option<Timestamp>,
}

/// By the claim that gives it back.
#[derive(Debug, Default)]
pub(crate) struct Slots(BTreeMap<String, Slot>);

impl Slots {
    fn keep(&mut self, claim: &ClaimView, pools: impl IntoIterator<Item = String>, rules: &LabelRules, now: Timestamp) {
        let Some(reservation) = reservation(claim, rules) else { return };
        let slot = Slot {
            reservation: reservation.to_owned(),
            pools: pools.into_iter().chain(claim.pool.clone()).collect(),
            since: now,
            free_since: None,
        };
        self.0.insert(claim.name.clone(), slot);
    }

    /// Forgets what was bought again, what stays with its node after all, and what nobody came for.
    fn refresh<'c>(
        &mut self,
        claims: impl Iterator<Item = &'c Arc<ClaimView>>,
        under_way: &BTreeSet<String>,
        rules: &LabelRules,
        now: Timestamp,
    ) {
        let claims: BTreeMap<&str, &ClaimView> = claims.map(|claim| (claim.name.as_str(), claim.as_ref())).collect();
        let mut used: BTreeSet<&str> = BTreeSet::new();
        self.0.retain(|name, slot| {
            if let Some(holder) = claims.get(name.as_str()) {
                return holder.deleting_since.is_some() || under_way.contains(name);
            }
            let free_since = *slot.free_since.get_or_insert(now);
            // The API knows seconds only.
            let is_new = |claim: &ClaimView| claim.created_at.as_second() >= slot.since.as_second();
            let takes = |claim: &ClaimView| {
                let meant = claim.pool.as_ref().is_some_and(|pool| slot.pools.contains(pool));
                meant && is_new(claim) && reservation(claim, rules) == Some(slot.reservation.as_str())
            };
            let taker = claims.values().find(|claim| takes(claim) && !used.contains(claim.name.as_str()));
            if let Some(taker) = taker {
                used.insert(&taker.name);
                return false;
            }
            now.duration_since(free_since) < KEPT
        });
    }

    /// The types with as much in their reservations as is left for this pool.
    fn shown(&self, pool: &str, types: Arc<Vec<InstanceType>>, rules: &LabelRules) -> Arc<Vec<InstanceType>> {
        let mut kept: BTreeMap<&str, u32> = BTreeMap::new();
        for slot in self.0.values().filter(|slot| !slot.pools.contains(pool)) {
            *kept.entry(slot.reservation.as_str()).or_default() += 1;
        }
        let concerns = |known: &InstanceType| {
            known.offerings.iter().any(|one| one.reservation(rules).is_some_and(|id| kept.contains_key(id)))
        };
        if kept.is_empty() || !types.iter().any(concerns) {
            return types;
        }
        let mut types = Vec::clone(&types);
        for offering in types.iter_mut().flat_map(|known| &mut known.offerings) {
            let count = offering.reservation(rules).and_then(|id| kept.get(id)).copied().unwrap_or_default();
            match &mut offering.reservation_capacity {
                Some(left) if *left > count => *left -= count,
                // What any pool says is left counts for all (SCH-111). So that those for whom it is kept find it, others are not told that
                // there is none, but that this one is not for sale.
                Some(left) if *left > 0 && count > 0 => offering.available = false,
                _ => {}
            }
        }
        Arc::new(types)
    }
}

/// The reservation that a claim's instance is from.
fn reservation<'c>(claim: &'c ClaimView, rules: &LabelRules) -> Option<&'c str> {
    let label = |key: &str| claim.labels.get(key).map(String::as_str);
    let reserved = label(labels::CAPACITY_TYPE) == Some(labels::CAPACITY_TYPE_RESERVED);
    rules.reservation_key().filter(|_| reserved).and_then(label)
}

/// What the nodes of a command give back is kept for those that the command foresees.
pub(super) fn keep(ctx: &Context, command: &Command) {
    if command.terminate_first != Some(TerminateFirst::NoReservedCapacity) {
        return;
    }
    let pools: Vec<String> = command.foreseen.iter().map(|claim| claim.pool.name.clone()).collect();
    for going in &command.going {
        keep_of(ctx, &going.claim, pools.clone());
    }
}

/// What a claim of a node that goes first gives back.
pub(super) fn keep_of(ctx: &Context, claim: &str, pools: Vec<String>) {
    let view = ctx.state().claim(claim).cloned();
    if let Some(view) = view {
        ctx.memory.slots().keep(&view, pools, ctx.provider.label_rules(), ctx.clock.now());
    }
}

/// What a pool is offered, without what is kept for others.
pub(crate) fn shown(ctx: &Context, pool: &str, types: Arc<Vec<InstanceType>>) -> Arc<Vec<InstanceType>> {
    if ctx.memory.slots().0.is_empty() {
        return types;
    }
    let claims: Vec<Arc<ClaimView>> = ctx.state().claims().cloned().collect();
    let under_way = ctx.memory.commands().claims();
    let rules = ctx.provider.label_rules();
    let mut slots = ctx.memory.slots();
    slots.refresh(claims.iter(), &under_way, rules, ctx.clock.now());
    slots.shown(pool, types, rules)
}

#[cfg(test)]
mod tests {
    use karpenter_model::example;
    use karpenter_model::instance_type::{Offering, Overhead, Overrides, Price};
    use karpenter_model::requirements::{Requirement, Requirements};
    use karpenter_model::resources::Resources;

    use super::*;

    const KEY: &str = "example.com/reservation";

    fn rules() -> LabelRules {
        LabelRules::core().reservation(KEY)
    }

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn claim(name: &str, pool: &str, reservation: &str, created: i64) -> ClaimView {
        let labels = [(labels::CAPACITY_TYPE, labels::CAPACITY_TYPE_RESERVED), (KEY, reservation)];
        ClaimView {
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            pool: Some(pool.to_owned()),
            created_at: time(created),
            ..example::claim(name)
        }
    }

    /// A type with two reservations, of which so much is left.
    fn types(left: u32) -> Arc<Vec<InstanceType>> {
        let offering = |id: &str| Offering {
            requirements: Requirements::from_iter([
                Requirement::any_of(labels::ZONE, ["z1"]),
                Requirement::any_of(labels::CAPACITY_TYPE, [labels::CAPACITY_TYPE_RESERVED]),
                Requirement::any_of(KEY, [id]),
            ]),
            price: Price::new(0.001).unwrap(),
            available: true,
            reservation_capacity: Some(left),
            overrides: Overrides::default(),
        };
        Arc::new(vec![InstanceType {
            name: "small".to_owned(),
            requirements: Requirements::default(),
            offerings: vec![offering("r1"), offering("r2")],
            capacity: Resources::new(),
            overhead: Overhead::default(),
            attachment_limits: BTreeMap::new(),
            devices: karpenter_model::devices::TypeDevices::default(),
        }])
    }

    /// What a pool can have of both reservations.
    fn left(slots: &Slots, pool: &str, left: u32) -> Vec<u32> {
        let shown = slots.shown(pool, types(left), &rules());
        let can_have = |one: &Offering| one.reservation_capacity.filter(|_| one.is_launchable()).unwrap_or(0);
        shown[0].offerings.iter().map(can_have).collect()
    }

    /// Z19: what a node gives back is kept for its own pool and those that its pods were planned for.
    #[test]
    fn z19_what_is_given_back_is_kept() {
        let mut slots = Slots::default();
        assert_eq!(left(&slots, "red", 1), [1, 1]);
        slots.keep(&claim("a", "blue", "r1", 0), ["green".to_owned()], &rules(), time(100));
        assert_eq!(left(&slots, "red", 1), [0, 1]);
        let told = slots.shown("red", types(1), &rules())[0].offerings[0].reservation_capacity;
        assert_eq!(told, Some(1), "SCH-111: what one pool says is left counts for all");
        assert_eq!(left(&slots, "red", 3), [2, 3], "only what comes back");
        assert_eq!((left(&slots, "blue", 1), left(&slots, "green", 1)), (vec![1, 1], vec![1, 1]));
        assert_eq!(left(&slots, "red", 0), [0, 0], "not yet");
        let mut plain = claim("b", "blue", "r1", 0);
        plain.labels.insert(labels::CAPACITY_TYPE.to_owned(), "on-demand".to_owned());
        let mut none = Slots::default();
        none.keep(&plain, [], &rules(), time(100));
        assert_eq!(left(&none, "red", 1), [1, 1], "it holds nothing");
    }

    /// Z19: until somebody who is meant to has it, the node stays after all, or nobody comes.
    #[test]
    fn z19_nothing_is_kept_for_ever() {
        let going = |name: &str| ClaimView { deleting_since: Some(time(101)), ..claim(name, "blue", "r1", 0) };
        let kept = |claims: Vec<ClaimView>, under_way: &[&str], seconds: &[i64]| {
            let mut slots = Slots::default();
            slots.keep(&claim("a", "blue", "r1", 0), [], &rules(), time(100));
            let claims: Vec<Arc<ClaimView>> = claims.into_iter().map(Arc::new).collect();
            let under_way = under_way.iter().map(|name| (*name).to_owned()).collect();
            for second in seconds {
                slots.refresh(claims.iter(), &under_way, &rules(), time(*second));
            }
            slots.0.len()
        };
        for (case, claims, under_way, seconds, want) in [
            ("it starts", vec![claim("a", "blue", "r1", 0)], vec!["a"], vec![101], 1),
            ("it goes, however long that takes", vec![going("a")], vec![], vec![101, 100_000], 1),
            ("it stays after all", vec![claim("a", "blue", "r1", 0)], vec![], vec![101], 0),
            ("it is gone", vec![], vec![], vec![200, 700], 1),
            ("nobody came", vec![], vec![], vec![200, 801], 0),
            ("it was bought again", vec![claim("new", "blue", "r1", 150)], vec![], vec![200], 0),
            ("somebody else's", vec![claim("new", "red", "r1", 150)], vec![], vec![200], 1),
            ("another reservation", vec![claim("new", "blue", "r2", 150)], vec![], vec![200], 1),
            ("one that was there before", vec![claim("old", "blue", "r1", 50)], vec![], vec![200], 1),
        ] {
            assert_eq!(kept(claims, &under_way, &seconds), want, "{case}");
        }
    }
}
