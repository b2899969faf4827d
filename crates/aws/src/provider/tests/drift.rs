//! Instances that are not what their class asks for any more.

use super::*;
use crate::provider_id::instance_id;

async fn reason(world: &World, claim: &ClaimView) -> Result<Option<String>, String> {
    let found = world.provider.drift(claim).await;
    found.map(|reason| reason.map(|reason| reason.as_str().to_owned())).map_err(|error| format!("{error:?}"))
}

/// AWS-31, AWS-32, AC-31, AC-32, AC-33, AC-34, AC-35, AC-36, AC-286.
#[tokio::test(start_paused = true)]
async fn reasons() {
    let world = World::new().await;
    let (one, instance) = world.launched(&claim("a", &["m5.large"], &["on-demand"])).await;
    pass(60).await;
    assert_eq!(reason(&world, &one).await, Ok(None));
    assert_eq!(reason(&world, &ClaimView { pool: None, ..one.clone() }).await, Ok(None), "nobody's");

    let status = |status: Value| world.classes.put(ready_class(&json!({}), &status));
    status(json!({"amis": [{"id": "ami-new", "requirements": []}]}));
    assert_eq!(reason(&world, &one).await.unwrap().as_deref(), Some("AMIDrift"));
    status(json!({"securityGroups": [{"id": "sg-test1"}]}));
    assert_eq!(reason(&world, &one).await.unwrap().as_deref(), Some("SecurityGroupDrift"));
    status(json!({"subnets": [{"id": "subnet-other", "zone": "test-zone-1a"}]}));
    assert_eq!(reason(&world, &one).await.unwrap().as_deref(), Some("SubnetDrift"));
    for broken in [
        json!({"subnets": []}),
        json!({"securityGroups": []}),
        json!({"amis": []}),
        json!({"securityGroups": [{"id": "sg-9"}], "subnets": []}),
    ] {
        status(broken.clone());
        assert!(reason(&world, &one).await.is_err(), "{broken}");
    }
    status(json!({}));
    let mut untyped = one.clone();
    untyped.labels.remove(labels::INSTANCE_TYPE);
    assert!(reason(&world, &untyped).await.is_err());

    // A reservation that the class does not have: asked again past the memory.
    let id = instance_id(&instance.provider_id).unwrap().to_owned();
    let reserve = |with: Option<&str>| {
        let mut state = world.account.lock();
        state.machines.get_mut(&id).unwrap().change(|info| info.reservation_id = with.map(str::to_owned));
    };
    reserve(Some("cr-9"));
    world.provider.list().await.unwrap();
    reserve(None);
    assert_eq!(reason(&world, &one).await, Ok(None));
    reserve(Some("cr-9"));
    world.provider.list().await.unwrap();
    assert_eq!(reason(&world, &one).await.unwrap().as_deref(), Some("CapacityReservationDrift"));
    reserve(None);
    world.provider.list().await.unwrap();

    // Hashes count only with their versions, and before everything else.
    let mut class = ready_class(&json!({}), &json!({"amis": [{"id": "ami-new", "requirements": []}]}));
    let stamps = [(aws::HASH_ANNOTATION, "1"), (aws::HASH_VERSION_ANNOTATION, "v5")];
    class.metadata.annotations = Some(stamps.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    world.classes.put(class);
    assert_eq!(reason(&world, &one).await.unwrap().as_deref(), Some("NodeClassDrift"));

    world.seen.take();
    world.classes.remove("default");
    assert_eq!(reason(&world, &one).await, Ok(None));
    assert_eq!(world.seen.take(), ["event on default: Failed resolving NodeClass"]);
}
