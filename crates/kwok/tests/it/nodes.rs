//! What the fake nodes look like, when they come, and which ones are chosen.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::kinds::{KWOKNodeClass, NodeClaim};
use karpenter_model::claim::ClaimView;
use karpenter_platform::{CloudProvider as _, CreateError, InstanceError, Remedy};
use karpenter_testkit::build;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::Kwok;

const TYPE: &str = "node.kubernetes.io/instance-type";
const ZONE: &str = "topology.kubernetes.io/zone";

fn shown(node: &Node) -> Value {
    serde_json::to_value(node).unwrap()
}

/// API-240, API-279, API-283, API-284: name, provider ID, taint, phase, amounts, labels and annotations.
#[tokio::test(start_paused = true)]
async fn a_node_says_where_it_comes_from() {
    let kwok = Kwok::embedded().await;
    assert_eq!(kwok.provider.name(), "kwok");
    let claim = kwok.claim(|claim| {
        claim
            .pool("blue")
            .label("team", "shop")
            .annotation("example.com/note", "kept")
            .request("cpu", "3")
            .request("example.com/fuse", "2")
            .requirement(TYPE, "In", &["s-4x-amd64-linux"])
            .requirement(ZONE, "In", &["test-zone-c"])
            .requirement("karpenter.sh/capacity-type", "In", &["on-demand"])
            .requirement("example.com/rack", "In", &["r1"])
            .requirement("example.com/floor", "In", &["1", "2"])
    });
    let instance = kwok.provider.create(&claim).await.unwrap();
    let nodes = kwok.nodes().await;
    assert_eq!(nodes.len(), 1);
    let node = shown(&nodes[0]);

    let name = node["metadata"]["name"].as_str().unwrap();
    let number = name.strip_prefix("kwok-claim-0-").and_then(|rest| rest.rsplit_once('-')).unwrap();
    assert!(number.0.split('-').count() == 2 && number.0.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{name}");
    assert!(number.1.parse::<u32>().is_ok(), "{name}");
    assert_eq!(node["spec"]["providerID"], format!("kwok://{name}"));
    assert_eq!(instance.provider_id, format!("kwok://{name}"));
    // The API server adds its own.
    assert_eq!(node["spec"]["taints"][0], json!({"key": "karpenter.sh/unregistered", "effect": "NoExecute"}));
    assert_eq!(node["status"]["phase"], "Pending");
    assert_eq!(
        node["status"]["allocatable"],
        json!({"cpu": "3900m", "memory": "16374Mi", "pods": "64", "ephemeral-storage": "20Gi", "example.com/fuse": "2"})
    );
    // No less than what can be allocated of it, as the kubelet of a real machine would say.
    assert_eq!(node["status"]["capacity"]["example.com/fuse"], "2");
    assert_eq!(node["status"]["capacity"]["cpu"], "4");
    assert_eq!(
        node["metadata"]["labels"],
        json!({
            "team": "shop", "karpenter.sh/nodepool": "blue", "example.com/rack": "r1",
            TYPE: "s-4x-amd64-linux", ZONE: "test-zone-c", "karpenter.sh/capacity-type": "on-demand",
            "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": "claim-0",
            "karpenter.kwok.sh/instance-size": "4", "karpenter.kwok.sh/instance-family": "s",
            "karpenter.kwok.sh/instance-cpu": "4", "karpenter.kwok.sh/instance-memory": "16Gi",
            "kwok.x-k8s.io/node": "fake", "kwok-partition": "a", "eks-node-viewer/instance-price": "0.117180",
        })
    );
    assert_eq!(node["metadata"]["annotations"], json!({"example.com/note": "kept", "kwok.x-k8s.io/node": "fake"}));
}

/// API-280: the cheapest of what the claim names and what has room; types without an offering are passed over, wherever they
/// stand; among equal offerings of a type chance decides, for one claim always the same way.
#[tokio::test(start_paused = true)]
async fn the_cheapest_is_chosen() {
    let kwok = Kwok::embedded().await;
    // For Windows only, so nothing of it can be had here.
    let types =
        ["m-2x-amd64-windows", "m-8x-amd64-linux", "c-4x-amd64-linux", "c-2x-amd64-linux", "c-1x-amd64-windows"];
    let named = |claim: build::ClaimBuilder| {
        claim.requirement(TYPE, "In", &types).requirement("kubernetes.io/os", "In", &["linux"])
    };
    for (cpu, want) in [("1", "c-2x-amd64-linux"), ("3", "c-4x-amd64-linux"), ("5", "m-8x-amd64-linux")] {
        let instance = kwok.provider.create(&kwok.claim(|claim| named(claim).request("cpu", cpu))).await.unwrap();
        assert_eq!(
            (instance.labels[TYPE].as_str(), instance.labels["karpenter.sh/capacity-type"].as_str()),
            (want, "spot")
        );
    }
    let mut zones = BTreeSet::new();
    for _ in 0..40 {
        let claim = kwok.claim(named);
        let first = kwok.provider.create(&claim).await.unwrap();
        assert_eq!(kwok.provider.create(&claim).await.unwrap(), first);
        zones.insert(first.labels[ZONE].clone());
    }
    assert_eq!(zones.len(), 4, "every zone has its turn: {zones:?}");
}

/// API-241, API-251, API-280, API-281, API-282, V15-122: what is wrong with the claim is found before the class is looked at,
/// and static pools name their types too.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_launched() {
    let kwok = Kwok::embedded().await;
    let nowhere = || build::kwok_class_ref("nowhere");
    let classes: Api<KWOKNodeClass> = Api::all(kwok.client.clone());
    classes.create(&PostParams::default(), &build::kwok_class("unready")).await.unwrap();
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Broken", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    classes.patch_status("unready", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();

    let large = "c-2x-amd64-linux";
    for (claim, text, remedy) in [
        (
            kwok.claim(|claim| claim.class(nowhere())),
            "creating nodeclaim, nodeclaim claim-0 names no instance type",
            Remedy::Backoff,
        ),
        (
            kwok.claim(|claim| claim.class(nowhere()).requirement(TYPE, "In", &[large, "no-such-type"])),
            "creating nodeclaim, instance type \"no-such-type\" is unknown",
            Remedy::Backoff,
        ),
        (
            kwok.claim(|claim| claim.requirement(TYPE, "In", &[large]).requirement(ZONE, "In", &["test-zone-z"])),
            "insufficient capacity, no instance type has an offering for nodeclaim claim-2",
            Remedy::DeleteClaim,
        ),
        (
            kwok.claim(|claim| claim.class(nowhere()).requirement(TYPE, "In", &[large])),
            "insufficient capacity, KWOKNodeClass \"nowhere\" does not exist",
            Remedy::DeleteClaim,
        ),
        (
            kwok.claim(|claim| claim.class(build::kwok_class_ref("unready")).requirement(TYPE, "In", &[large])),
            "NodeClassRef not ready, KWOKNodeClass \"unready\" is not ready",
            Remedy::DeleteClaim,
        ),
    ] {
        let error: CreateError = kwok.provider.create(&claim).await.unwrap_err();
        assert_eq!((error.to_string().as_str(), error.remedy()), (text, remedy));
    }
    assert!(kwok.nodes().await.is_empty());
}

/// API-282: hundreds of launches at a time read their class once; a class that is gone is missed a second later.
#[tokio::test(start_paused = true)]
async fn classes_are_not_read_for_every_node() {
    let kwok = Kwok::embedded().await;
    let classes: Api<KWOKNodeClass> = Api::all(kwok.client.clone());
    classes.create(&PostParams::default(), &build::kwok_class("brief")).await.unwrap();
    let claim = || {
        kwok.claim(|claim| claim.class(build::kwok_class_ref("brief")).requirement(TYPE, "In", &["c-2x-amd64-linux"]))
    };
    kwok.provider.create(&claim()).await.unwrap();
    classes.delete("brief", &DeleteParams::default()).await.unwrap();
    kwok.provider.create(&claim()).await.expect("as if it had been launched just before");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let error = kwok.provider.create(&claim()).await.unwrap_err();
    assert_eq!(error.to_string(), "insufficient capacity, KWOKNodeClass \"brief\" does not exist");
    classes.create(&PostParams::default(), &build::kwok_class("brief")).await.unwrap();
    kwok.provider.create(&claim()).await.expect("nobody remembers that it was missing");
}

/// API-283: the node comes when its class says, and not at all when nobody waits for it any more.
#[tokio::test(start_paused = true)]
async fn nodes_come_late() {
    let kwok = Kwok::embedded().await;
    let classes: Api<KWOKNodeClass> = Api::all(kwok.client.clone());
    let mut late = build::kwok_class("late");
    late.spec.node_registration_delay = Some(karpenter_api::values::DurationText("90s".to_owned()));
    classes.create(&PostParams::default(), &late).await.unwrap();
    let claims: Api<NodeClaim> = Api::all(kwok.client.clone());
    let mut launched: Vec<ClaimView> = Vec::new();
    for _ in 0..2 {
        let mut claim = kwok
            .claim(|claim| claim.class(build::kwok_class_ref("late")).requirement(TYPE, "In", &["c-2x-amd64-linux"]));
        let object = build::node_claim(&claim.name).class(build::kwok_class_ref("late")).build();
        claims.create(&PostParams::default(), &object).await.unwrap();
        let instance = kwok.provider.create(&claim).await.unwrap();
        claim.provider_id = Some(instance.provider_id);
        launched.push(claim);
    }
    let wait = async |seconds| tokio::time::sleep(Duration::from_secs(seconds)).await;
    wait(89).await;
    assert!(kwok.nodes().await.is_empty());
    claims.delete(&launched[1].name, &DeleteParams::default()).await.unwrap();
    wait(2).await;
    let nodes = kwok.nodes().await;
    assert_eq!(nodes.len(), 1);
    assert_eq!(shown(&nodes[0])["metadata"]["labels"]["kubernetes.io/hostname"], launched[0].name);
    wait(3600).await;
    assert_eq!(kwok.nodes().await.len(), 1, "the other one was given up");
}

/// API-152, API-244, API-285: an end is an end at once; what is being deleted is not found any more; nodes of others are
/// nobody's business; nothing ever drifts.
#[tokio::test(start_paused = true)]
async fn ends_and_lists() {
    let kwok = Kwok::embedded().await;
    let nodes: Api<Node> = Api::all(kwok.client.clone());
    let other = build::node("other").build();
    nodes.create(&PostParams::default(), &other).await.unwrap();
    let mut claim = kwok.claim(|claim| claim.requirement(TYPE, "In", &["c-2x-amd64-linux"]));
    let instance = kwok.provider.create(&claim).await.unwrap();
    let id = instance.provider_id.as_str();
    claim.provider_id = Some(id.to_owned());
    let name = id.strip_prefix("kwok://").unwrap();
    let finalizers = json!({"metadata": {"finalizers": ["karpenter.sh/termination"]}});
    nodes.patch(name, &PatchParams::default(), &Patch::Merge(finalizers)).await.unwrap();
    let listed = kwok.provider.list().await.unwrap();
    assert_eq!(listed.iter().map(|known| known.provider_id.as_str()).collect::<Vec<_>>(), [id]);
    assert_eq!(kwok.provider.running().await.unwrap(), BTreeSet::from([id.to_owned()]));
    assert_eq!(kwok.provider.drift(&claim).await.unwrap(), None);
    assert_eq!(kwok.provider.get(id).await.unwrap().labels[TYPE], "c-2x-amd64-linux");

    let answer = kwok.provider.delete(&claim).await;
    assert!(matches!(&answer, Err(InstanceError::NotFound(gone)) if gone == id), "{answer:?}");
    // Its finalizer keeps the object.
    assert!(nodes.get(name).await.unwrap().metadata.deletion_timestamp.is_some());
    assert!(matches!(kwok.provider.get(id).await, Err(InstanceError::NotFound(_))));
    assert!(kwok.provider.list().await.unwrap()[0].terminating, "garbage collection leaves it alone");
    assert!(kwok.provider.running().await.unwrap().is_empty());
    assert!(matches!(kwok.provider.get("aws:///z/i-1").await, Err(InstanceError::NotFound(_))));
    assert!(nodes.get("other").await.unwrap().metadata.deletion_timestamp.is_none());
}

/// API-244: however many there are; a hundred nodes are more than one answer of the API server.
#[tokio::test(start_paused = true)]
async fn all_nodes_are_listed() {
    let kwok = Kwok::embedded().await;
    let mut ids = BTreeSet::new();
    for _ in 0..130 {
        let claim = kwok.claim(|claim| claim.requirement(TYPE, "In", &["c-2x-amd64-linux"]));
        ids.insert(kwok.provider.create(&claim).await.unwrap().provider_id);
    }
    assert_eq!(ids.len(), 130);
    assert_eq!(kwok.provider.running().await.unwrap(), ids);
    let listed: BTreeSet<String> = kwok.provider.list().await.unwrap().into_iter().map(|one| one.provider_id).collect();
    assert_eq!(listed, ids);
}
