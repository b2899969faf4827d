//! Hash annotations.

use karpenter_api::hash::{EC2_NODE_CLASS_HASH_VERSION, ec2_node_class_hash};
use karpenter_api::kinds::EC2NodeClass;
use kube::ResourceExt as _;
use serde_json::json;

use crate::desk::Desk;

const HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
const VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";

/// AWS-26, AWS-27, AWS-30: stamped at first sight and again with every change that counts.
#[tokio::test(start_paused = true)]
async fn classes_are_stamped() {
    let desk = Desk::start().await;
    let class = desk.add_class("default", json!({})).await;
    let hash = |class: &EC2NodeClass| class.annotations()[HASH].clone();
    assert_eq!(hash(&class), ec2_node_class_hash(&class.spec, "Y2E=").unwrap().to_string());
    assert_eq!(class.annotations()[VERSION], EC2_NODE_CLASS_HASH_VERSION);
    desk.change::<EC2NodeClass>("default", json!({ "spec": { "userData": "x" } })).await;
    assert_ne!(hash(&desk.class("default").await), hash(&class));
}

/// AC-28, AC-29: claims follow to the new version; what has drifted keeps its hash; other classes are not touched.
#[tokio::test(start_paused = true)]
async fn claims_follow_to_the_new_version() {
    let mut desk = Desk::start().await;
    desk.add_class("default", json!({})).await;
    desk.kill();
    let old = json!({ HASH: "1", VERSION: "v1" });
    desk.change::<EC2NodeClass>("default", json!({ "metadata": { "annotations": old } })).await;
    for name in ["plain", "drifted"] {
        desk.add_claim(name, json!({ "annotations": old })).await;
    }
    let class = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "other" });
    desk.add::<karpenter_api::kinds::NodeClaim>(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": { "name": "foreign", "annotations": old },
        "spec": { "nodeClassRef": class, "requirements": [] },
    }))
    .await;
    let drifted = json!({ "type": "Drifted", "status": "True", "reason": "AMIDrift", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1 });
    desk.set_status::<karpenter_api::kinds::NodeClaim>("drifted", json!({ "conditions": [drifted] })).await;
    desk.restart().await;
    let class = desk.class("default").await;
    let hash = ec2_node_class_hash(&class.spec, "Y2E=").unwrap().to_string();
    assert_eq!((class.annotations()[HASH].as_str(), class.annotations()[VERSION].as_str()), (hash.as_str(), "v5"));
    for (name, want) in [("plain", [hash.as_str(), "v5"]), ("drifted", ["1", "v5"]), ("foreign", ["1", "v1"])] {
        let claim = desk.claim(name).await;
        let have = [HASH, VERSION].map(|key| claim.annotations()[key].as_str());
        assert_eq!(have, want, "{name}");
    }
}
