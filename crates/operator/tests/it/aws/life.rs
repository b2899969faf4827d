use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karpenter_testkit::aws::SECRET;
use serde_json::{Value, json};

use super::{CLUSTER, OnAws};
use crate::live::installed::{Replica, wait};
use crate::live::scene::{Scene, condition, name, workload};

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

/// The account's end of it: pending pods become instances and nodes; an interruption replaces one; another image replaces all;
/// what is deleted is terminated; a class that goes leaves nothing behind.
#[tokio::test]
async fn pods_get_instances_and_give_them_back() {
    let aws = OnAws::new().await;
    let replica = aws.start_talkative("karpenter-aws");
    let scene = Scene::new(&aws.installed, "on-aws").await;
    scene.create(aws.class("default")).await;
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
    scene
        .wait("instances are tagged with their claims", async || {
            let named = |claim: &Value, one: &karpenter_aws::cloud::InstanceInfo| {
                one.id == instance_id(claim)
                    && one.tags.get("karpenter.sh/nodeclaim").is_some_and(|tag| tag == name(claim))
            };
            let instances = aws.instances().await;
            let all = claims.iter().all(|claim| instances.iter().any(|one| named(claim, one)));
            Ok(all.then_some(()))
        })
        .await;

    every_call_counts(&aws, &replica).await;
    interruption(&aws, &scene).await;
    another_image(&aws, &scene).await;
    consolidation(&aws, &scene).await;
    let launched = aws.account.launched();
    the_end(&aws, &scene).await;
    nothing_secret(&replica, &launched);
    aws.nothing_was_denied();
    drop(replica);
}

/// AWS-237: metrics know of as many calls as AWS does, from the first one on.
async fn every_call_counts(aws: &OnAws, replica: &Replica) {
    let port = replica.port("metrics").await;
    wait("metrics count what AWS was called", async || {
        let called = aws.calls().into_iter().map(|call| call["operation"].as_str().unwrap().to_owned());
        let (_, text) = replica.get(port, "/metrics").await;
        let counted = text.lines().filter_map(|line| {
            let (labels, count) = line.strip_prefix("aws_sdk_go_request_attempt_total{")?.split_once("} ")?;
            let operation = labels.split_once("operation=\"")?.1.split_once('"')?.0;
            Some(std::iter::repeat_n(operation.to_owned(), count.parse().ok()?))
        });
        // One is always under way, and counted when it ends.
        let sorted = |calls: &mut dyn Iterator<Item = String>| {
            let mut calls: Vec<String> = calls.filter(|operation| operation != "ReceiveMessage").collect();
            calls.sort();
            calls
        };
        let called = sorted(&mut { called });
        assert!(["DescribeCluster", "DescribeInstanceTypes"].iter().all(|early| called.iter().any(|one| one == early)));
        (called == sorted(&mut counted.flatten())).then_some(())
    })
    .await;
}

/// AWS-214 to AWS-220, by way of EventBridge: the interrupted instance goes, its pods run elsewhere.
pub(super) async fn interruption(aws: &OnAws, scene: &Scene<'_>) {
    let claim = scene.claims().await.unwrap().remove(0);
    let id = instance_id(&claim).to_owned();
    let detail = json!({"instance-id": id, "instance-action": "terminate"}).to_string();
    let event = json!({"Source": "aws.ec2", "DetailType": "EC2 Spot Instance Interruption Warning", "Detail": detail});
    aws.account.call("events", "put_events", json!({"Entries": [event]}));
    scene
        .wait("the interrupted instance goes", async || {
            let there = aws.instances().await.iter().any(|one| one.id == id);
            Ok((!there && scene.get("NodeClaim", name(&claim)).await?.is_none()).then_some(()))
        })
        .await;
    scene.all_run(3).await;
}

/// AWS-26 ff.: nodes of an image that the class no longer selects are replaced.
async fn another_image(aws: &OnAws, scene: &Scene<'_>) {
    scene.patch("EC2NodeClass", "default", json!({"spec": {"amiSelectorTerms": [{"id": aws.images[1]}]}})).await;
    scene
        .wait("all instances have the other image", async || {
            let instances = aws.instances().await;
            let all = !instances.is_empty() && instances.iter().all(|one| one.image_id == aws.images[1]);
            Ok(all.then_some(()))
        })
        .await;
    scene.all_run(3).await;
}

/// DIS-104, DIS-120: when most of what a large instance was bought for is gone, a smaller one takes its place.
async fn consolidation(aws: &OnAws, scene: &Scene<'_>) {
    let mut over = spec("default", "on-demand");
    over["disruption"] = json!({"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]});
    over["template"]["metadata"]["labels"]["example.com/part"] = json!("dear");
    let there = json!({"spec": {"nodeSelector": {"example.com/part": "dear"}}});
    // Together they need the largest type.
    scene.create(workload("Deployment", "small", 1, scene.pod("small", "1", there.clone()))).await;
    scene.create(scene.pod("large", "5", there)).await;
    scene.all_wait(2).await;
    scene.create(scene.pool("dear", over)).await;
    scene.all_run(5).await;
    let on_demand = async || -> Vec<(String, String)> {
        let all = aws.instances().await.into_iter().filter(|one| one.spot_request_id.is_none());
        all.map(|one| (one.instance_type, one.id)).collect()
    };
    let before = on_demand().await;
    assert!(before.iter().any(|(name, _)| name == "m5.2xlarge"), "{before:?}");
    scene.delete("Pod", "large").await;
    scene
        .wait("a smaller instance has taken over", async || {
            let now = on_demand().await;
            let smaller = now.len() == 1 && now[0].0 == "m5.large" && !before.contains(&now[0]);
            Ok(smaller.then_some(()))
        })
        .await;
    scene.all_run(4).await;
    scene.delete("Deployment", "small").await;
    scene.delete("NodePool", &scene.pool_name("dear")).await;
    scene.all_run(3).await;
}

/// Not even in the most talkative log: no credential, no signature, no user data, plain or not.
fn nothing_secret(replica: &Replica, launched: &Value) {
    let log = replica.log();
    assert!(log.contains("DEBUG") && log.contains("launched"), "{log}");
    for secret in [SECRET, "Signature=", "X-Amz-Security-Token", "Authorization", "NodeConfig", "MIME-Version"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
    for (id, instance) in launched.as_object().unwrap() {
        let data = instance["user_data"].as_str().unwrap();
        assert!(!log.contains(data), "the user data of {id} is in the log");
    }
}

/// AWS-40, AWS-41, AWS-74: the class stays while it is used, and takes its profile and templates along.
pub(super) async fn the_end(aws: &OnAws, scene: &Scene<'_>) {
    let profile = scene.get("EC2NodeClass", "default").await.unwrap().unwrap();
    let profile = profile["status"]["instanceProfile"].as_str().unwrap().to_owned();
    aws.clients.iam.instance_profile(&profile).await.unwrap();
    scene.delete("EC2NodeClass", "default").await;
    let class = scene.get("EC2NodeClass", "default").await.unwrap().unwrap();
    assert!(class["metadata"]["deletionTimestamp"].is_string(), "{}", condition(&class, "Ready").1);
    scene.delete("Deployment", "web").await;
    scene.delete("NodePool", &scene.pool_name("")).await;
    scene.nothing_left().await;
    assert!(aws.instances().await.is_empty());
    scene
        .wait("the class is gone", async || Ok(scene.get("EC2NodeClass", "default").await?.is_none().then_some(())))
        .await;
    let gone = aws.clients.iam.instance_profile(&profile).await.unwrap_err();
    assert!(gone.is_not_found(), "{gone:?}");
    let templates = aws.clients.reads.launch_templates(&[]).await.unwrap();
    assert!(templates.is_empty(), "{templates:?}");
}
