//! What is wrong with the account is said where its owner looks: in the class's conditions, in events and in the log.

use serde_json::{Value, json};

use super::life::spec;
use super::{CLUSTER, DISCOVERY, OnAws};
use crate::live::installed::{Replica, wait};
use crate::live::scene::{Scene, condition, is_ready, label};

/// AWS-214, AWS-210, AWS-66, AWS-103, AWS-19, AWS-56: a queue that is not there and a price list that is down keep nobody; a lack
/// of addresses, a right that is missing, subnets and images that vanish are named.
#[tokio::test]
async fn what_is_wrong_is_said() {
    let aws = OnAws::new().await;
    let queue = aws.account.call("sqs", "get_queue_url", json!({"QueueName": CLUSTER}))["QueueUrl"].clone();
    aws.account.call("sqs", "delete_queue", json!({"QueueUrl": queue}));
    let down = json!({"operation": "GetProducts", "code": "InternalError", "status": 500, "times": -1});
    aws.account.change(json!({"faults": [down]}));
    let replica = aws.start("karpenter-faults");
    let scene = Scene::new(&aws.installed, "faults").await;
    scene.create(aws.class("default")).await;
    scene.create(scene.pool("", spec("default", "on-demand"))).await;
    scene.create(scene.pod("one", "1", json!({}))).await;
    scene.runs("one").await;
    said(&replica, "WARN", &["sqs:ReceiveMessage failed; does the queue exist"]).await;
    said(&replica, "WARN", &["refresh failed, the last answer stays in use", "GetProducts"]).await;

    no_addresses(&aws, &scene, &replica).await;
    aws.nothing_was_denied();
    aws.allow("nodes", &[json!({"Effect": "Deny", "Action": "ec2:CreateFleet", "Resource": "*"})]);
    let why = becomes(&scene, "1", "ValidationSucceeded", "CreateFleetAuthCheckFailed").await;
    assert!(why.contains("ec2:CreateFleet"), "{why}");
    aws.allow("nodes", &[]);
    becomes(&scene, "2", "Ready", "Ready").await;
    let denied = aws.account.take_denials();
    assert!(denied.iter().all(|one| one["action"] == "ec2:CreateFleet") && !denied.is_empty(), "{denied:?}");

    let tag = json!([{"Key": DISCOVERY}]);
    let subnets = aws.account.call("ec2", "describe_subnets", json!({}));
    let ids: Vec<Value> = subnets["Subnets"].as_array().unwrap().iter().map(|one| one["SubnetId"].clone()).collect();
    aws.account.call("ec2", "delete_tags", json!({"Resources": ids, "Tags": tag}));
    becomes(&scene, "3", "SubnetsReady", "SubnetsNotFound").await;
    aws.account.call("ec2", "deregister_image", json!({"ImageId": aws.images[0]}));
    becomes(&scene, "4", "AMIsReady", "AMINotFound").await;
    let class = scene.get("EC2NodeClass", "default").await.unwrap().unwrap();
    assert_eq!(condition(&class, "Ready").0, "False", "{class}");
    let told = scene.wait("an event about the class", async || scene.told("Ready", "default").await).await;
    assert!(told.contains("Ready"), "{told}");
    // What runs goes on running.
    scene.runs("one").await;
    aws.nothing_was_denied();
}

/// AWS-66, AWS-189, AC-223: no subnet has an address left.
async fn no_addresses(aws: &OnAws, scene: &Scene<'_>, replica: &Replica) {
    let text = "There are not enough free addresses in subnet 'subnet-1' to satisfy the requested number of instances.";
    aws.account.change(json!({"fleet_errors": [{"code": "InsufficientFreeAddressesInSubnet", "message": text}]}));
    let mut over = spec("default", "on-demand");
    over["template"]["metadata"]["labels"]["example.com/case"] = json!("addresses");
    scene.create(scene.pool("addresses", over)).await;
    let there = json!({"spec": {"nodeSelector": {"example.com/case": "addresses"}}});
    scene.create(scene.pod("two", "1", there)).await;
    let events = scene
        .wait("an event about the lack of addresses", async || {
            let events = scene.list("Event").await?.into_iter().chain(default_events(aws).await);
            let of_claims = events.filter(|event| event["involvedObject"]["kind"] == "NodeClaim");
            let lacks: Vec<Value> = of_claims.filter(|event| event["reason"] == "InsufficientCapacityError").collect();
            Ok((!lacks.is_empty()).then_some(lacks))
        })
        .await;
    let message = events[0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("InsufficientFreeAddressesInSubnet") && message.contains("not enough free"), "{message}");
    said(replica, "", &["InsufficientFreeAddressesInSubnet"]).await;
    let instances = aws.instances().await;
    assert_eq!(instances.len(), 1, "nothing was launched: {instances:?}");
    aws.account.change(json!({"fleet_errors": []}));
    scene.delete("Pod", "two").await;
    scene.delete("NodePool", &scene.pool_name("addresses")).await;
    let own = scene.claims().await.unwrap();
    assert!(own.iter().filter(|claim| label(claim, "karpenter.sh/nodepool") == scene.name).count() == 1, "{own:?}");
}

/// Events about objects without a namespace.
async fn default_events(aws: &OnAws) -> Vec<Value> {
    let out = aws.installed.cluster.kubectl(["get", "events", "-n", "default", "-o", "json"]).await.unwrap();
    let list: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
    list["items"].as_array().cloned().unwrap_or_default()
}

/// Asks the class's controllers to look again; waits for the condition and returns its message.
async fn becomes(scene: &Scene<'_>, look: &str, type_: &str, reason: &str) -> String {
    // Another generation, of which nothing drifts: the second term finds nothing.
    let terms = json!([{"tags": {DISCOVERY: CLUSTER}}, {"tags": {"example.com/look": look}}]);
    let change =
        json!({"metadata": {"annotations": {"example.com/look": look}}, "spec": {"subnetSelectorTerms": terms}});
    scene.patch("EC2NodeClass", "default", change).await;
    scene
        .wait(&format!("{type_} says {reason}"), async || {
            let class = scene.get("EC2NodeClass", "default").await?.unwrap_or_default();
            let is = condition(&class, type_).1 == reason && (type_ != "Ready" || is_ready(&class));
            let all = class["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let message = all.iter().find(|one| one["type"] == type_).map(|one| one["message"].clone());
            Ok(is.then(|| message.unwrap_or_default().as_str().unwrap_or_default().to_owned()))
        })
        .await
}

/// Waits for a line of this level, or of any, that has all of these words.
async fn said(replica: &Replica, level: &str, words: &[&str]) {
    wait(&format!("the log says {words:?}"), async || {
        let lines = replica.lines();
        let fits = |line: &&Value| {
            let text = line.to_string();
            (level.is_empty() || line["level"] == level) && words.iter().all(|word| text.contains(word))
        };
        lines.iter().find(fits).map(|_| ())
    })
    .await;
}
