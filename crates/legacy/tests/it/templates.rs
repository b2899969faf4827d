use serde_json::{Value, json};

use super::desk::Desk;

fn template() -> Value {
    json!({ "spec": {
        "subnetSelector": { "karpenter.sh/discovery": "demo" }, "securityGroupSelector": { "karpenter.sh/discovery": "demo" },
        "amiFamily": "Bottlerocket", "tags": { "team": "a" },
    } })
}

/// AWS-256, AWS-257: a template is part of the class of each Provisioner that refers to it, and shows what it selects.
#[tokio::test(start_paused = true)]
async fn templates_are_shared() {
    let desk = Desk::start().await;
    for (name, kubelet) in [("one", json!({ "maxPods": 10 })), ("two", Value::Null)] {
        let spec = json!({ "spec": { "providerRef": { "name": "shared" }, "kubeletConfiguration": kubelet } });
        desk.add("Provisioner", name, spec).await;
        let [status, _, why] = desk.condition("Provisioner", name, "Translated").await;
        assert_eq!(
            (status.as_str(), why.as_str()),
            ("False", "spec.providerRef.name: there is no AWSNodeTemplate shared")
        );
    }
    desk.add("AWSNodeTemplate", "shared", template()).await;
    for (name, kubelet) in [("one", json!({ "maxPods": 10 })), ("two", Value::Null)] {
        assert_eq!(desk.condition("Provisioner", name, "Translated").await[0], "True");
        let class = desk.get("EC2NodeClass", name).await.unwrap();
        assert_eq!(class["spec"]["kubelet"], kubelet);
        assert_eq!(class["spec"]["amiSelectorTerms"], json!([{ "alias": "bottlerocket@latest" }]));
        assert_eq!(class["spec"]["instanceProfile"], "usual", "the installation's own");
    }
    desk.class_is_ready("one").await;
    let status = desk.get("AWSNodeTemplate", "shared").await.unwrap()["status"].clone();
    assert_eq!(status["subnets"], json!([{ "id": "subnet-1", "zone": "z" }]));
    assert_eq!(status["securityGroups"], json!([{ "id": "sg-1", "name": "nodes" }]));
    assert_eq!(status["amis"][0]["id"], "ami-1");

    desk.patch("AWSNodeTemplate", "shared", json!({ "spec": { "tags": { "team": "b" } } })).await;
    for name in ["one", "two"] {
        assert_eq!(desk.get("EC2NodeClass", name).await.unwrap()["spec"]["tags"], json!({ "team": "b" }));
    }
    // Whoever is deleted takes only what is its own.
    desk.delete("Provisioner", "one").await;
    desk.wait(10).await;
    assert_eq!(desk.names("EC2NodeClass").await, ["two"]);
    assert_eq!(desk.names("AWSNodeTemplate").await, ["shared"]);
}

/// AWS-257: what is wrong with a template is said by it, and by who refers to it; their objects stay as they were.
#[tokio::test(start_paused = true)]
async fn a_bad_template() {
    let desk = Desk::start().await;
    desk.add("AWSNodeTemplate", "shared", template()).await;
    desk.add("Provisioner", "one", json!({ "spec": { "providerRef": { "name": "shared" } } })).await;
    desk.patch("AWSNodeTemplate", "shared", json!({ "spec": { "launchTemplate": "mine", "amiFamily": "Odd" } })).await;
    let [status, reason, why] = desk.condition("AWSNodeTemplate", "shared", "Translated").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Invalid"));
    assert!(why.contains("spec.launchTemplate: ") && why.contains("spec.amiFamily: \"Odd\" is not one of"), "{why}");
    let [status, _, why] = desk.condition("Provisioner", "one", "Translated").await;
    assert!(status == "False" && why.starts_with("AWSNodeTemplate/shared spec.launchTemplate: "), "{why}");
    let class = desk.get("EC2NodeClass", "one").await.unwrap();
    assert_eq!(class["spec"]["amiSelectorTerms"], json!([{ "alias": "bottlerocket@latest" }]));
    desk.delete("AWSNodeTemplate", "shared").await;
    let [_, _, why] = desk.condition("Provisioner", "one", "Translated").await;
    assert_eq!(why, "spec.providerRef.name: there is no AWSNodeTemplate shared");
    assert!(desk.get("EC2NodeClass", "one").await.is_some());
}
