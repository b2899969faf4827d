//! The process ends at any of its calls, carried out or not. The next one brings everything to the same end: one instance
//! for the claim, and none once it is deleted.

use futures::future::join_all;
use karpenter_platform::InstanceError;

use super::*;
use crate::fake::{Death, Refusal};
use crate::instances::orphans;

/// What the core does: tries until it works, with pauses.
async fn tried(world: &World, claim: &ClaimView) -> Instance {
    for _ in 0..100 {
        match world.create(claim).await {
            Ok(instance) => return instance,
            Err(_) => tokio::time::sleep(Duration::from_secs(5)).await,
        }
    }
    panic!("never launched")
}

async fn ended(world: &World, claim: &ClaimView) {
    for _ in 0..100 {
        match world.provider.delete(claim).await {
            Err(InstanceError::NotFound(_)) => return,
            Ok(()) | Err(InstanceError::Call(_)) => tokio::time::sleep(Duration::from_secs(5)).await,
        }
    }
    panic!("never ended")
}

/// As garbage collection does, for whoever has these provider ids.
async fn collected(world: &World, known: &[&Instance]) {
    let ids = known.iter().map(|one| crate::provider_id::instance_id(&one.provider_id).unwrap().to_owned()).collect();
    tokio::time::sleep(Duration::from_mins(1)).await;
    let all = world.provider.listed_instances().await.unwrap();
    for orphan in orphans(&all, &ids, world.now()) {
        world.provider.collect_instance(&orphan.id).await.unwrap();
    }
}

async fn world(shown_after: u32) -> World {
    let world = World::with(settings(), &["m5.large", "c5.large"]).await;
    world.account.lock().pace.shown_after = SignedDuration::from_secs(i64::from(shown_after));
    world.account.forget_calls();
    world
}

/// AWS-145, API-239: death at each call of a launch, with an EC2 that shows instances at once, soon and late.
#[tokio::test(start_paused = true)]
async fn a_launch_survives_any_death() {
    let one = claim("a", &["m5.large", "c5.large"], &["spot", "on-demand"]);
    let mut lives = 0;
    for shown_after in [0, 3, 20] {
        for at_call in 1.. {
            let mut reached = false;
            for carried_out in [false, true] {
                let mut world = world(shown_after).await;
                world.account.die(Death { at_call, carried_out });
                let first = world.create(&one).await;
                reached |= world.account.lock().is_dead();
                if world.account.lock().is_dead() {
                    assert!(first.is_err());
                    lives += 1;
                }
                // The next leader begins a little later.
                tokio::time::sleep(Duration::from_secs(2)).await;
                world.restart().await;
                let instance = tried(&world, &one).await;
                assert_eq!(world.account.running().len(), 1, "call {at_call} {carried_out}, shown after {shown_after}");
                let again = tried(&world, &one).await;
                assert_eq!(again.provider_id, instance.provider_id);
                collected(&world, &[&instance]).await;
                assert_eq!(world.account.running().len(), 1);
                world.provider.tidy().await;
                tokio::time::sleep(Duration::from_secs(61)).await;
                world.provider.tidy().await;
                assert_eq!(world.account.templates().len(), 0, "no template is left behind");
            }
            if !reached {
                break;
            }
        }
    }
    assert!(lives >= 3 * 2 * 4, "{lives} deaths: cluster, template by name, its creation, fleet");
}

/// The same after a refusal, when the second process does not know what the first one was refused and asks for something else
/// with the same token.
#[tokio::test(start_paused = true)]
async fn a_second_attempt_survives_any_death() {
    for shown_after in [0, 20, 45] {
        for carried_out in [false, true] {
            let mut world = world(shown_after).await;
            let one = claim("a", &["m5.large", "c5.large"], &["on-demand"]);
            world.account.lock().refusals =
                vec![Refusal::all("InsufficientInstanceCapacity", "none"), Refusal::all("Other", "x")];
            assert!(world.create(&one).await.is_err());
            world.account.lock().refusals =
                vec![Refusal::of("InsufficientInstanceCapacity", "c5.large", "test-zone-1a")];
            pass(181).await;
            let next = world.account.all_calls();
            world.account.die(Death { at_call: next + 2, carried_out });
            drop(world.create(&one).await);
            world.account.lock().refusals.clear();
            world.account.lock().offerings.retain(|one| one.zone != "test-zone-1b");
            tokio::time::sleep(Duration::from_secs(2)).await;
            world.restart().await;
            let instance = tried(&world, &one).await;
            collected(&world, &[&instance]).await;
            assert_eq!(world.account.running().len(), 1, "{shown_after} {carried_out}");
        }
    }
}

/// AWS-200: death at each call of a deletion; the claim still knows its instance.
#[tokio::test(start_paused = true)]
async fn a_deletion_survives_any_death() {
    for at_call in 1..=4 {
        for carried_out in [false, true] {
            let mut world = world(0).await;
            let (one, _) = world.launched(&claim("a", &["m5.large"], &["on-demand"])).await;
            pass(60).await;
            world.account.forget_calls();
            world.account.die(Death { at_call, carried_out });
            drop(world.provider.delete(&one).await);
            assert_eq!(world.account.lock().is_dead(), at_call <= 2, "a look and the end");
            world.restart().await;
            ended(&world, &one).await;
            assert_eq!(world.account.running().len(), 0);
            assert!(matches!(
                world.provider.get(one.provider_id.as_deref().unwrap()).await,
                Err(InstanceError::NotFound(_))
            ));
        }
    }
}

/// A claim that is deleted right after its launch was lost: the core asks for its instance first (LIF-130).
#[tokio::test(start_paused = true)]
async fn an_instance_that_nobody_wrote_down_is_found() {
    let mut world = world(3).await;
    let one = claim("a", &["m5.large"], &["on-demand"]);
    let instance = world.create(&one).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.restart().await;
    let found = world.provider.find(&one).await.unwrap().unwrap();
    assert_eq!((found.provider_id, found.labels), (instance.provider_id, instance.labels));
    assert!(world.provider.find(&claim("b", &["m5.large"], &[])).await.unwrap().is_none());
}

/// AWS-194, AWS-196: a thousand claims at once: each gets its own instance, and templates, descriptions and terminations are shared.
#[tokio::test(start_paused = true)]
#[allow(clippy::print_stdout, reason = "figures are printed, not asserted")]
async fn a_thousand_claims() {
    let world = World::with(settings(), &["m5.large"]).await;
    {
        let mut state = world.account.lock();
        state.subnets.iter_mut().for_each(|(info, _)| info.free_addresses = 100_000);
        state.calls.clear();
    }
    world.describe_subnets();
    let young = |n: u32| {
        let created_at = world.now() + SignedDuration::from_hours(1);
        ClaimView { created_at, ..claim(&format!("claim-{n}"), &["m5.large"], &["on-demand"]) }
    };
    let claims: Vec<ClaimView> = (0..1000).map(young).collect();
    let launched = join_all(claims.iter().map(|claim| world.launched(claim))).await;
    let ids: std::collections::BTreeSet<_> = launched.iter().map(|(_, one)| one.provider_id.clone()).collect();
    assert_eq!((ids.len(), world.account.running().len()), (1000, 1000));
    let calls = |name: &str| world.account.calls(name);
    assert_eq!((calls("CreateFleet"), calls("CreateLaunchTemplate"), calls("DescribeInstances")), (1000, 1, 0));
    pass(60).await;
    let ends = join_all(launched.iter().map(|(claim, _)| world.provider.delete(claim))).await;
    assert!(ends.iter().all(Result::is_ok));
    let (looks, terminations) = (calls("DescribeInstances by id"), calls("TerminateInstances"));
    println!(
        "1000 claims: CreateFleet 1000, CreateLaunchTemplate 1, DescribeInstances {looks}, TerminateInstances {terminations}"
    );
    assert!(looks <= 4 && terminations <= 4, "{looks} {terminations}");
    assert_eq!(world.account.running().len(), 0);
}

/// AWS-196: after a change of leader every launch asks what its predecessor has made, many of them in one call.
#[tokio::test(start_paused = true)]
async fn predecessors_are_asked_after_together() {
    let mut world = World::with(settings(), &["m5.large"]).await;
    let claims: Vec<ClaimView> =
        (0..300).map(|n| claim(&format!("claim-{n}"), &["m5.large"], &["on-demand"])).collect();
    let first = join_all(claims[..150].iter().map(|claim| world.launched(claim))).await;
    world.restart().await;
    world.account.lock().calls.clear();
    let launched = join_all(claims.iter().map(|claim| world.launched(claim))).await;
    assert_eq!(world.account.running().len(), 300);
    let same = first.iter().zip(&launched).all(|((_, before), (_, after))| before.provider_id == after.provider_id);
    assert!(same, "those that were there are found");
    let calls = |name: &str| world.account.calls(name);
    assert_eq!((calls("CreateFleet"), calls("DescribeInstances")), (150, 2), "two hundred claims in a call");
}
