//! Many claims in bad weather: refusals, lost answers, throttling, deaths and an EC2 that is late, all drawn from a seed. When it
//! is over each claim that stays has one instance, and nothing else runs.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_platform::{InstanceError, Remedy};

use super::*;
use crate::fake::{Death, Refusal};
use crate::instances::orphans;
use crate::provider_id::instance_id;

/// The multiplier and increment of Knuth's MMIX: good enough to choose faults with, and the same everywhere.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What the core knows of a claim: nothing, or its instance.
#[derive(Default)]
struct Core {
    claims: BTreeMap<String, ClaimView>,
    going: BTreeSet<String>,
    made: u32,
}

impl Core {
    async fn step(&mut self, world: &World, chance: &mut Chance) {
        if self.claims.len() < 8 && chance.below(2) == 0 {
            self.made += 1;
            let types = [&["m5.large"][..], &["m5.large", "c5.large"], &["c5.large", "m6g.large"]];
            let mut claim =
                claim(&format!("claim-{}", self.made), types[usize::try_from(chance.below(3)).unwrap()], &[]);
            claim.created_at = world.now();
            self.claims.insert(claim.name.clone(), claim);
        }
        if chance.below(6) == 0
            && let Some(name) = self.claims.keys().nth(usize::try_from(chance.below(8)).unwrap())
        {
            self.going.insert(name.clone());
        }
        self.reconcile(world).await;
    }

    /// Every claim once: launched if it has no instance, ended if it goes.
    async fn reconcile(&mut self, world: &World) {
        for name in self.claims.keys().cloned().collect::<Vec<_>>() {
            let claim = self.claims[&name].clone();
            if self.going.contains(&name) {
                let known = match &claim.provider_id {
                    Some(_) => Some(claim),
                    // LIF-130: it may have one that nobody wrote down.
                    None => match world.provider.find(&claim).await {
                        Ok(found) => found.map(|instance| told(&claim, &instance)),
                        Err(_) => continue,
                    },
                };
                let gone = match known {
                    None => true,
                    Some(known) => matches!(world.provider.delete(&known).await, Err(InstanceError::NotFound(_))),
                };
                if gone {
                    self.claims.remove(&name);
                    self.going.remove(&name);
                }
            } else if claim.provider_id.is_none() {
                match world.create(&claim).await {
                    Ok(instance) => drop(self.claims.insert(name, told(&claim, &instance))),
                    Err(error) if error.remedy() == Remedy::DeleteClaim => drop(self.going.insert(name)),
                    Err(_) => {}
                }
            }
        }
    }

    async fn collect(&self, world: &World) {
        let Ok(all) = world.provider.listed_instances().await else { return };
        let ids = self.claims.values().filter_map(|claim| claim.provider_id.as_deref());
        let known: BTreeSet<String> = ids.map(|id| instance_id(id).unwrap().to_owned()).collect();
        for orphan in orphans(&all, &known, world.now()) {
            drop(world.provider.collect_instance(&orphan.id).await);
        }
    }
}

fn break_something(world: &World, chance: &mut Chance) {
    const CALLS: [&str; 6] = [
        "CreateFleet",
        "CreateLaunchTemplate",
        "DescribeInstances",
        "DescribeInstances by id",
        "TerminateInstances",
        "DescribeLaunchTemplates by name",
    ];
    let call = CALLS[usize::try_from(chance.below(6)).unwrap()];
    match chance.below(6) {
        0 => world.account.fail(call, &ApiError::new("RequestLimitExceeded", "x"), 2),
        1 => world.account.fail(call, &ApiError::new("", "no answer"), 1),
        2 => {
            let zone = ["test-zone-1a", "test-zone-1b", "test-zone-1c"][usize::try_from(chance.below(3)).unwrap()];
            world.account.lock().refusals = vec![Refusal::of("InsufficientInstanceCapacity", "m5.large", zone)];
        }
        3 => world.account.lock().refusals.clear(),
        4 => {
            let seconds = i64::try_from(chance.below(30)).unwrap();
            world.account.lock().pace.shown_after = SignedDuration::from_secs(seconds);
        }
        _ => {
            let at_call = world.account.all_calls() + 1 + usize::try_from(chance.below(12)).unwrap();
            world.account.die(Death { at_call, carried_out: chance.below(2) == 0 });
        }
    }
}

async fn live(seed: u64) {
    let mut chance = Chance(seed);
    let mut world = World::with(settings(), &["m5.large", "c5.large", "m6g.large"]).await;
    let mut core = Core::default();
    for _ in 0..60 {
        if chance.below(3) == 0 {
            break_something(&world, &mut chance);
        }
        core.step(&world, &mut chance).await;
        core.collect(&world).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        if world.account.lock().is_dead() {
            world.restart().await;
        }
        let running = world.account.running();
        let owners: BTreeSet<Option<&String>> = running.iter().map(|info| info.tags.get(CLAIM_UID_TAG)).collect();
        assert_eq!(owners.len(), running.len(), "seed {seed}: a claim has two instances");
        let ids: Vec<&str> = core.claims.values().filter_map(|claim| claim.provider_id.as_deref()).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "seed {seed}: two claims share an instance");
    }
    // Calm: whoever is left gets what it wants, and what belongs to nobody goes.
    world.account.revive();
    world.account.lock().calm();
    for _ in 0..60 {
        core.reconcile(&world).await;
        core.collect(&world).await;
        world.provider.tidy().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert!(core.going.is_empty() && core.claims.values().all(|claim| claim.provider_id.is_some()), "seed {seed}");
    let wanted: BTreeSet<String> = core
        .claims
        .values()
        .map(|claim| instance_id(claim.provider_id.as_deref().unwrap()).unwrap().to_owned())
        .collect();
    let running: BTreeSet<String> = world.account.running().into_iter().map(|info| info.id).collect();
    assert_eq!(running, wanted, "seed {seed}");
    assert!(world.account.templates().is_empty(), "seed {seed}: templates are left behind");
}

/// API-239, API-242, AWS-145, AWS-200.
#[tokio::test(start_paused = true)]
async fn every_claim_gets_one_instance_in_the_end() {
    for seed in 1..=25 {
        live(seed).await;
    }
}
