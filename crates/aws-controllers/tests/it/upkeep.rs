//! What is done to claims, nodes and pools as time goes by.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::kinds::{EC2NodeClass, NodeClaim, NodeOverlay};
use karpenter_aws::cloud::{ApiError, InstanceInfo, ReservationInfo};
use karpenter_aws::provider::{OfferingRow, TypeRow};
use karpenter_aws::zonal_shift::ShiftInfo;
use karpenter_aws_controllers::zonal_shift_arn;
use karpenter_controllers::Features;
use karpenter_model::instance_type::Price;
use karpenter_platform::Clock as _;
use kube::ResourceExt as _;
use serde_json::json;

use crate::desk::{Desk, options, says, tags};

const RESERVED: [(&str, &str); 4] = [
    ("karpenter.sh/capacity-type", "reserved"),
    ("karpenter.k8s.aws/capacity-reservation-id", "cr-1"),
    ("karpenter.k8s.aws/capacity-reservation-type", "default"),
    ("karpenter.k8s.aws/capacity-reservation-interruptible", "false"),
];

fn instance(id: &str) -> InstanceInfo {
    InstanceInfo {
        id: id.to_owned(),
        state: "running".to_owned(),
        zone: "test-zone-1a".to_owned(),
        ..InstanceInfo::default()
    }
}

/// AWS-82, AWS-298, AC-83: claim and registered node become on-demand; one that is not registered yet waits its turn.
#[tokio::test(start_paused = true)]
async fn reservations_that_have_ended() {
    let desk = Desk::start().await;
    desk.add_running("a", &RESERVED).await;
    desk.add_running("still", &RESERVED).await;
    desk.change::<Node>("a", json!({ "metadata": { "labels": { "karpenter.sh/registered": null } } })).await;
    let still = InstanceInfo {
        reservation_id: Some("cr-1".to_owned()),
        reservation_preference: Some("capacity-reservations-only".to_owned()),
        ..instance("i-still")
    };
    desk.account.state().instances = vec![instance("i-a"), still];
    desk.wait(61).await;
    let reserved = |labels: &std::collections::BTreeMap<String, String>| {
        let kept = labels.keys().filter(|key| key.contains("capacity-reservation")).count();
        (labels["karpenter.sh/capacity-type"].clone(), kept)
    };
    assert_eq!(reserved(desk.claim("a").await.labels()), ("on-demand".to_owned(), 0));
    assert_eq!(reserved(desk.claim("still").await.labels()), ("reserved".to_owned(), 3));
    let node = async |name: &str| desk.get::<Node>(name).await.unwrap();
    assert_eq!(reserved(node("a").await.labels()), ("reserved".to_owned(), 3));
    desk.change::<Node>("a", json!({ "metadata": { "labels": { "karpenter.sh/registered": "true" } } })).await;
    desk.wait(61).await;
    assert_eq!(reserved(node("a").await.labels()), ("on-demand".to_owned(), 0), "only the node was left");
}

/// AWS-83, AC-84: only claims of capacity blocks go before the end.
#[tokio::test(start_paused = true)]
async fn reservations_that_will_end() {
    let desk = Desk::start().await;
    let id = "karpenter.k8s.aws/capacity-reservation-id";
    desk.add_running("block", &[(id, "cr-1")]).await;
    desk.add_running("plain", &[(id, "cr-2")]).await;
    desk.add_running("unknown", &[(id, "cr-9")]).await;
    let ends = Some(desk.clock.now() + SignedDuration::from_mins(30));
    let one =
        |id: &str, kind: &str| ReservationInfo { id: id.into(), kind: kind.into(), ends, ..ReservationInfo::default() };
    desk.account.state().reservations = vec![one("cr-1", "capacity-block"), one("cr-2", "default")];
    desk.wait(61).await;
    let going = [desk.is_going("block").await, desk.is_going("plain").await, desk.is_going("unknown").await];
    assert_eq!(going, [true, false, false]);
}

/// AWS-157, AC-195, AC-197: once, when there is a node, and without overwriting anything.
#[tokio::test(start_paused = true)]
async fn instances_get_their_tags() {
    let desk = Desk::start().await;
    let named = InstanceInfo { tags: tags(&[("Name", "mine")]), ..instance("i-b") };
    desk.account.state().instances = vec![instance("i-a"), named];
    desk.add_claim("early", json!({})).await;
    for name in ["a", "b", "lost"] {
        desk.add_running(name, &[]).await;
    }
    desk.wait(30).await;
    let calls = desk.account.take("CreateTags");
    assert_eq!(
        calls,
        ["i-a Name,eks:eks-cluster-name,karpenter.sh/nodeclaim", "i-b eks:eks-cluster-name,karpenter.sh/nodeclaim"]
    );
    assert_eq!(desk.account.state().instances[1].tags["Name"], "mine");
    let marked = |claim: NodeClaim| {
        ["karpenter.k8s.aws/tagged", "compatibility.karpenter.k8s.aws/cluster-name-tagged"]
            .map(|key| claim.annotations().get(key).is_some_and(|value| value == "true"))
    };
    for (name, want) in [("a", true), ("b", true), ("lost", false), ("early", false)] {
        assert_eq!(marked(desk.claim(name).await), [want, want], "{name}");
    }
    desk.change::<NodeClaim>("a", json!({ "metadata": { "labels": { "more": "news" } } })).await;
    desk.account.take("DescribeInstances");
    desk.wait(30).await;
    assert!(desk.account.take("CreateTags").is_empty());
}

/// AWS-157: an id that means nothing is logged, and that is all.
#[tokio::test(start_paused = true)]
async fn a_provider_id_that_means_nothing() {
    let desk = Desk::start().await;
    desk.add_claim("odd", json!({})).await;
    desk.set_status::<NodeClaim>("odd", json!({ "providerID": "i-0abc", "nodeName": "n" })).await;
    desk.wait(60).await;
    assert!(desk.account.take("CreateTags").is_empty() && desk.account.take("DescribeInstances").is_empty());
}

/// AWS-120, AWS-298, AWS-313, AC-302: registered nodes with the current image show what their type has.
#[tokio::test(start_paused = true)]
async fn nodes_show_what_types_have() {
    let desk = Desk::start().await;
    desk.add_class("default", json!({})).await;
    desk.add_running("a", &[]).await;
    let observed = || std::mem::take(&mut desk.provider.told.lock().unwrap().observed);
    assert!(observed().is_empty(), "no capacity yet");
    desk.set_status::<Node>("a", json!({ "capacity": { "memory": "7910Mi" } })).await;
    let told = observed();
    assert!(told.iter().all(|one| one == "default m5.large 8294236160") && !told.is_empty(), "{told:?}");
    desk.set_status::<NodeClaim>("a", json!({ "imageID": "ami-old" })).await;
    desk.set_status::<Node>("a", json!({ "capacity": { "memory": "7900Mi" } })).await;
    assert!(observed().is_empty(), "another image");
}

/// AWS-109: what images go by follows the cluster; nobody has to touch a class.
#[tokio::test(start_paused = true)]
async fn the_version_of_the_cluster() {
    let desk = Desk::start().await;
    let class = desk.add_class("default", json!({ "amiSelectorTerms": [{ "alias": "al2@latest" }] })).await;
    assert_eq!(says(karpenter_api::conditions::Conditioned::conditions(&class), "AMIsReady").0, "Unknown", "no images");
    desk.account.break_call("DescribeCluster", ApiError::new("Throttling", ""));
    desk.wait(330).await;
    desk.account.mend("DescribeCluster");
    desk.account.state().cluster.version = "1.33".to_owned();
    desk.wait(330).await;
    let class = desk.class("default").await;
    assert_eq!(
        says(karpenter_api::conditions::Conditioned::conditions(&class), "AMIsReady"),
        ("False", "UnsupportedAlias")
    );
}

/// AWS-225, AWS-226, AWS-228, AC-272: pools that could use the zone are told, once when it begins and once when it ends.
#[tokio::test(start_paused = true)]
async fn zonal_shifts() {
    let mut options = options();
    options.zonal_shift = Some("arn".to_owned());
    let desk = Desk::with(options).await;
    desk.add_class("default", json!({})).await;
    desk.add_pool("any", json!([])).await;
    let zone = json!([{ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-1b"] }]);
    desk.add_pool("elsewhere", zone).await;
    let id = json!([{ "key": "topology.k8s.aws/zone-id", "operator": "NotIn", "values": ["tstz1-1a"] }]);
    desk.add_pool("not-there", id).await;
    desk.events();
    desk.account.state().shifts = vec![ShiftInfo {
        away_from: "tstz1-1a".to_owned(),
        applied_status: "APPLIED".to_owned(),
        expires: desk.clock.now() + SignedDuration::from_mins(10),
    }];
    desk.wait(120).await;
    let said = desk.events();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("Warning NodePool/any: ZonalShiftActive: ") && said[0].contains("tstz1-1a"));
    desk.account.break_call("GetManagedResource", ApiError::new("AccessDenied", "no"));
    desk.wait(120).await;
    assert!(desk.events().is_empty(), "nobody knows better");
    desk.account.mend("GetManagedResource");
    desk.wait(600).await;
    let said = desk.events();
    assert!(said.len() == 1 && said[0].starts_with("Normal NodePool/any: ZonalShiftCleared: "), "{said:?}");
}

/// AWS-225, AC-273: a cluster that takes no part in zonal shifts is found out at the start.
#[tokio::test(start_paused = true)]
async fn a_cluster_without_zonal_shifts() {
    let desk = Desk::start().await;
    let arn = zonal_shift_arn(desk.account.as_ref(), "cluster").await.unwrap();
    assert_eq!(arn, "arn:aws:eks:us-west-2:123456789012:cluster/cluster");
    desk.wait(120).await;
    assert_eq!(desk.account.take("GetManagedResource").len(), 1, "off: nobody asks");
    desk.account.break_call("GetManagedResource", ApiError::new("ResourceNotFoundException", "no"));
    let error = zonal_shift_arn(desk.account.as_ref(), "cluster").await.unwrap_err().to_string();
    assert!(error.contains("is the cluster registered"), "{error}");
}

/// AWS-236: what is sold has series, and what is not any more has none.
#[tokio::test(start_paused = true)]
async fn series_of_types_and_offerings() {
    let desk = Desk::start().await;
    let row = |zone: &str, available: bool| OfferingRow {
        instance_type: "m5.large".to_owned(),
        capacity_type: "spot".to_owned(),
        zone: zone.to_owned(),
        available,
        price_per_hour: 0.04,
    };
    let of_type = TypeRow { instance_type: "m5.large".to_owned(), cores: 2, memory_bytes: 8 << 30 };
    {
        let mut told = desk.provider.told.lock().unwrap();
        told.types = vec![of_type];
        told.offerings = vec![row("a", true), row("b", false)];
    }
    desk.wait(61).await;
    let all = &desk.aws.ctx.report.metrics.all;
    assert_eq!(all.instance_type_cpu_cores.value(["m5.large"]), Some(2.0));
    assert_eq!(all.instance_type_memory.value(["m5.large"]), Some(8_589_934_592.0));
    let available = |zone: &str| all.offering_available.value(["m5.large", "spot", zone]);
    assert_eq!((available("a"), available("b")), (Some(1.0), Some(0.0)));
    assert_eq!(all.offering_price.value(["m5.large", "spot", "a"]), Some(0.04));
    {
        let mut told = desk.provider.told.lock().unwrap();
        told.types.clear();
        told.offerings.remove(0);
    }
    desk.wait(61).await;
    assert_eq!((available("a"), available("b")), (None, Some(0.0)));
    assert_eq!(all.instance_type_cpu_cores.value(["m5.large"]), None);
}

/// AWS-161, AC-182: a new leader takes over what its predecessor left.
#[tokio::test(start_paused = true)]
async fn a_new_leader() {
    let mut desk = Desk::start().await;
    desk.add_class("default", json!({})).await;
    desk.restart().await;
    assert_eq!(desk.provider.told.lock().unwrap().leads, 1);
    assert!(desk.get::<EC2NodeClass>("default").await.is_some());
}

/// AWS-135: read every five minutes while overlays are on; only what was found valid counts.
#[tokio::test(start_paused = true)]
async fn prices_of_overlays() {
    let told = |desk: &Desk| desk.provider.told.lock().unwrap().overlay_prices.last().cloned();
    let desk = Desk::start().await;
    desk.wait(600).await;
    assert_eq!(told(&desk), None, "overlays are off");

    let desk = Desk::with_features(options(), Features { node_overlays: true, ..Features::default() }).await;
    assert_eq!(told(&desk), Some([].into()));
    let types = json!([{ "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m99.large"] }]);
    desk.add::<NodeOverlay>(json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": { "name": "new" },
        "spec": { "requirements": types, "price": "4.2" },
    }))
    .await;
    desk.wait(301).await;
    assert_eq!(told(&desk), Some([].into()), "nobody has judged it");
    let valid = json!({ "type": "ValidationSucceeded", "status": "True", "reason": "ValidationSucceeded", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z" });
    desk.set_status::<NodeOverlay>("new", json!({ "conditions": [valid] })).await;
    desk.wait(301).await;
    assert_eq!(told(&desk), Some([("m99.large".to_owned(), Price::new(4.2).unwrap())].into()));
}
