//! Leaders that are leaders no more.

use serde_json::json;

use super::installed::{Installed, wait};
use super::scene::Scene;
use crate::chart;

/// API-297, API-299, LIF-128: a leader that slept through its lease does nothing when it wakes up but end, and one whose
/// lease was given to somebody else ends at once.
#[tokio::test]
async fn a_leader_without_its_lease_stops() {
    let installed = Installed::new(chart::KWOK).await;
    let scene = Scene::new(&installed, "lease").await;
    scene.create(scene.pool("", json!({}))).await;
    let mut first = installed.start("karpenter-first");
    wait("the first leads", async || first.is_leader().then_some(())).await;
    let mut second = installed.start("karpenter-second");
    scene.create(scene.pod("one", "3", json!({}))).await;
    scene.runs("one").await;
    let holder = installed.holder().await.unwrap();
    let creations = |log: String| log.lines().filter(|line| line.contains("created nodeclaim")).count();
    assert_eq!((creations(first.log()), creations(second.log())), (1, 0));

    // Everything in it stands still, the time of the lease does not.
    first.signal("-STOP").await;
    scene.create(scene.pod("two", "3", json!({}))).await;
    scene.runs("two").await;
    assert_ne!(installed.holder().await.unwrap(), holder);
    // It wakes up with work to do that is not its own any more.
    scene.create(scene.pod("three", "3", json!({}))).await;
    first.signal("-CONT").await;
    assert_eq!(first.ended().await, 1, "{}", first.log());
    scene.runs("three").await;
    assert_eq!((creations(first.log()), creations(second.log())), (1, 2), "{}", first.log());
    assert!(first.log().contains("lost the lease"), "{}", first.log());
    assert_eq!(scene.claims().await.unwrap().len(), 3);

    // Taken away.
    let patch = json!({"spec": {"holderIdentity": "somebody-else"}}).to_string();
    let command = ["patch", "lease", "-n", "karpenter", "karpenter-leader-election", "--type=merge", "-p", &patch];
    let out = installed.cluster.kubectl(command).await.unwrap();
    assert!(out.status.success(), "{out:?}");
    assert_eq!(second.ended().await, 1, "{}", second.log());
    assert!(second.log().contains("lost the lease"), "{}", second.log());
    assert_eq!(
        installed.holder().await.as_deref(),
        Some("somebody-else"),
        "what it does not hold it does not give back"
    );
}
