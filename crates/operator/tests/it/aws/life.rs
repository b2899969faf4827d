use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{CLUSTER, OnAws};
use crate::live::scene::{Scene, workload};

/// What pools of these tests lay over [`Scene::pool`].
pub(super) fn spec(class: &str, capacity_type: &str) -> Value {
    json!({"template": {"spec": {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class},
        "expireAfter": "Never",
        "requirements": [
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.xlarge", "m5.2xlarge"]},
        ]}}})
}

pub(super) fn instance_id(claim: &Value) -> &str {
    claim["status"]["providerID"].as_str().and_then(|id| id.rsplit('/').next()).unwrap_or_default()
}

/// Pending pods become instances and nodes; another image replaces them; what is deleted is terminated.
#[tokio::test]
async fn pods_get_instances_and_give_them_back() {
    let aws = OnAws::new().await;
    let replica = aws.start("karpenter-aws");
    let scene = Scene::new(&aws.installed, "on-aws").await;
    aws.ready_class(&scene, "default").await;
    scene.create(scene.pool("", spec("default", "spot"))).await;
    scene.create(workload("Deployment", "web", 3, scene.pod("web", "1500m", json!({})))).await;
    scene.all_run(3).await;

    // AWS-155, AWS-157, AWS-158: instances are what was asked for.
    let instances = aws.instances().await;
    let claims = scene.claims().await.unwrap();
    assert_eq!(instances.len(), claims.len(), "{instances:?}");
    let launched = aws.account.launched();
    for claim in &claims {
        let instance = instances.iter().find(|one| one.id == instance_id(claim)).unwrap_or_else(|| panic!("{claim}"));
        assert!(instance.spot_request_id.is_some(), "{instance:?}");
        let tag = |key: &str| instance.tags.get(key).map(String::as_str).unwrap_or_default();
        assert_eq!((tag("karpenter.sh/nodepool"), tag("eks:eks-cluster-name")), ("on-aws", CLUSTER));
        assert_eq!((tag("team"), tag("kubernetes.io/cluster/shop")), ("shop", "owned"));
        let user_data = launched[&instance.id]["user_data"].as_str().unwrap();
        let user_data = String::from_utf8(STANDARD.decode(user_data).unwrap()).unwrap();
        assert!(user_data.contains("name: shop") && user_data.contains("NodeConfig"), "{user_data}");
    }
    another_image(&aws, &scene).await;

    // What is deleted is terminated.
    scene.delete("Deployment", "web").await;
    scene.delete("NodePool", "on-aws").await;
    scene.nothing_left().await;
    assert!(aws.instances().await.is_empty());
    drop(replica);
}

/// AC-24 ff.: nodes of an image that the class no longer has are replaced.
async fn another_image(aws: &OnAws, scene: &Scene<'_>) {
    aws.say_image(scene, "default", &aws.images[1]).await;
    scene
        .wait("all instances have the other image", async || {
            let instances = aws.instances().await;
            let all = !instances.is_empty() && instances.iter().all(|one| one.image_id == aws.images[1]);
            Ok(all.then_some(()))
        })
        .await;
    scene.all_run(3).await;
}
