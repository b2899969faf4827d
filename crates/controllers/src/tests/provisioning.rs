//! From pending pods to claims.

use karpenter_apiserver::{Fault, Rule, Verb};
use karpenter_model::requirements::{Requirement, Requirements};
use serde_json::{Value, json};

use super::desk::Desk;
use super::*;
use crate::claim_creation::{ClaimOrder, create_claim};

fn selecting(key: &str, value: &str) -> Value {
    json!({ "spec": { "nodeSelector": { key: value } } })
}

fn gauge(desk: &Desk) -> (Option<f64>, Option<f64>) {
    let metrics = &desk.ctx.report.metrics.all;
    (metrics.scheduler_ignored_pods.value([]), metrics.scheduler_unschedulable_pods.value(["provisioner"]))
}

fn decisions(desk: &Desk) -> Option<f64> {
    desk.ctx.report.metrics.all.pods_scheduling_decision_duration.value([])
}

/// What was written about a pod, by reason.
async fn told(desk: &Desk, pod: &str) -> Vec<String> {
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::all(desk.client.clone());
    let all = events.list(&kube::api::ListParams::default()).await.unwrap().items;
    let about = all.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(pod));
    about.map(|event| event.reason.unwrap_or_default()).collect()
}

/// SCH-1, SCH-2, SCH-11, SC-19, SC-20, API-159: a hundred pods, one pass, a decision about each.
#[tokio::test(start_paused = true)]
async fn a_hundred_pods_are_decided_on() {
    let mut desk = Desk::start().await;
    desk.add_ready_pool("blue", json!({})).await;
    for number in 0..100 {
        desk.add_pending(&format!("web-{number}"), json!({})).await;
    }
    desk.work(30).await;
    assert_eq!(decisions(&desk), Some(100.0));
    assert_eq!(gauge(&desk), (Some(0.0), Some(0.0)));
    let claims = desk.all::<NodeClaim>().await;
    assert!(!claims.is_empty() && claims.iter().all(|claim| claim.status.as_ref().unwrap().provider_id.is_some()));
    let mut nominated = 0;
    for number in 0..100 {
        nominated += told(&desk, &format!("web-{number}")).await.len();
    }
    assert!(nominated >= 10, "as many as the budget for such events allows: {nominated}");
}

/// SC-21, SCH-19, SCH-25, API-136: who fits nowhere is counted; who avoids us is not even told.
#[tokio::test(start_paused = true)]
async fn pods_that_find_no_place_are_counted() {
    let mut desk = Desk::start().await;
    desk.add_ready_pool("blue", json!({})).await;
    for number in 0..10 {
        desk.add_pending(&format!("odd-{number}"), selecting("node.kubernetes.io/instance-type", "unheard-of")).await;
    }
    for number in 0..5 {
        desk.add_pending(&format!("web-{number}"), json!({})).await;
    }
    let expression = json!({ "key": "karpenter.sh/nodepool", "operator": "DoesNotExist" });
    let required = json!({ "nodeSelectorTerms": [{ "matchExpressions": [expression] }] });
    let avoids = json!({ "spec": { "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } } } });
    desk.add_pending("shy", avoids).await;
    desk.add_pending("host", selecting("kubernetes.io/hostname", "n")).await;
    desk.work(30).await;
    assert_eq!(gauge(&desk), (Some(2.0), Some(10.0)), "also while nobody asks about them again");
    let zones = &desk.ctx.report.metrics.all.scheduler_pending_pods_by_zone;
    let last = "SCH-29: of those that the last pass was about; the others keep their place";
    assert_eq!(zones.value(["provisioner", "flexible"]), Some(10.0), "{last}");
    assert_eq!(decisions(&desk), Some(17.0), "SC-12: a rejection is a decision");
    assert_eq!(told(&desk, "odd-0").await, ["FailedScheduling"]);
    assert_eq!(told(&desk, "host").await, ["FailedScheduling"]);
    assert_eq!(told(&desk, "shy").await, Vec::<String>::new());
}

/// SC-10, SC-11, SCH-22, API-58: without a pool that may be used nothing is planned, and that is a decision too.
#[tokio::test(start_paused = true)]
async fn pools_that_may_not_be_used() {
    for deleting in [true, false] {
        let mut desk = Desk::start().await;
        desk.add_pool(
            "blue",
            json!({ "metadata": { "finalizers": ["example.com/stay"] }, "spec": { "template": { "spec": {
            "nodeClassRef": { "name": if deleting { "default" } else { "missing" } } } } } }),
        )
        .await;
        if deleting {
            desk.delete::<NodePool>("blue").await;
        }
        desk.add_pending("web", json!({})).await;
        desk.work(30).await;
        assert_eq!((desk.all::<NodeClaim>().await.len(), decisions(&desk)), (0, Some(1.0)));
        assert_eq!(told(&desk, "web").await, ["FailedScheduling"]);
    }
}

/// SC-18, SCH-20: a pod that cannot be planned for is counted, and the next one gets its node.
#[tokio::test(start_paused = true)]
async fn a_missing_volume_concerns_its_pod_only() {
    let mut desk = Desk::start().await;
    desk.add_ready_pool("blue", json!({})).await;
    let volume = json!({ "name": "data", "persistentVolumeClaim": { "claimName": "missing" } });
    desk.add_pending("waits", json!({ "spec": { "volumes": [volume] } })).await;
    desk.work(30).await;
    assert_eq!((gauge(&desk).0, desk.all::<NodeClaim>().await.len()), (Some(1.0), 0));
    desk.add_pending("web", json!({})).await;
    desk.wait(15).await;
    assert_eq!((gauge(&desk).0, desk.all::<NodeClaim>().await.len()), (Some(1.0), 1));
}

/// SCH-27: a pod with resource claims that nobody looks at is told so, and gets no node that may be the wrong one.
#[tokio::test(start_paused = true)]
async fn resource_claims_that_are_not_looked_at() {
    let mut desk = Desk::start().await;
    desk.add_ready_pool("blue", json!({})).await;
    let claims = json!([{ "name": "gpu", "resourceClaimName": "one" }]);
    desk.add_pending("gpu", json!({ "spec": { "resourceClaims": claims } })).await;
    desk.work(30).await;
    assert_eq!((desk.all::<NodeClaim>().await.len(), gauge(&desk).1), (0, Some(1.0)));
    assert_eq!(told(&desk, "gpu").await, ["FailedScheduling"]);
}

/// As a reader of the metrics sees it.
fn unsynced_for(desk: &Desk) -> f64 {
    let text = desk.ctx.report.metrics.render(desk.now());
    let line = text.lines().find(|line| line.starts_with("karpenter_cluster_state_unsynced_time_seconds ")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// SCH-9, SCH-241, LIF-112, LIF-117, SC-354, X2: a claim that has no instance is shown, with since when; it holds nobody up.
#[tokio::test(start_paused = true)]
async fn an_unlaunched_claim_is_shown() {
    let mut desk = Desk::start().await;
    desk.add_ready_pool("blue", json!({})).await;
    desk.add_claim("stuck", json!({})).await;
    desk.shop.book().down.insert(String::new());
    desk.add_pending("web", json!({})).await;
    desk.work(20).await;
    assert!(told(&desk, "web").await.contains(&"Nominated".to_owned()));
    assert_eq!(desk.all::<NodeClaim>().await.len(), 2);
    desk.wait(110).await;
    let metrics = &desk.ctx.report.metrics.all;
    assert_eq!(metrics.cluster_state_synced.value([]), Some(0.0));
    assert!(unsynced_for(&desk) >= 120.0);
    desk.shop.book().down.clear();
    desk.wait(90).await;
    let metrics = &desk.ctx.report.metrics.all;
    assert_eq!(metrics.cluster_state_synced.value([]), Some(1.0));
    assert!(unsynced_for(&desk) < 1.0);
    assert_eq!(desk.all::<NodeClaim>().await.len(), 2);
}

/// How many claims each pool has.
async fn claims_by_pool(desk: &Desk) -> std::collections::BTreeMap<String, usize> {
    let mut counts = std::collections::BTreeMap::new();
    for claim in desk.all::<NodeClaim>().await {
        *counts.entry(claim.labels()["karpenter.sh/nodepool"].clone()).or_default() += 1;
    }
    counts
}

/// X2, LC-118, SCH-25: while the claims of one pool cannot be launched, others get theirs at once; who waits for the first
/// ones is planned once, also by a process that does not remember them, and gets the instance when there is one.
#[tokio::test(start_paused = true)]
async fn a_failing_launch_holds_nobody_up() {
    let mut desk = Desk::start().await;
    for pool in ["bad", "good"] {
        desk.add_ready_pool(pool, json!({ "spec": { "limits": { "cpu": "40" } } })).await;
    }
    desk.shop.book().down.insert("bad".to_owned());
    let of = |pool: &str| selecting("karpenter.sh/nodepool", pool);
    desk.add_pending("first", of("bad")).await;
    desk.work(5).await;
    assert_eq!(claims_by_pool(&desk).await, [("bad".to_owned(), 1)].into());
    for number in 0..5 {
        desk.add_pending(&format!("web-{number}"), of("good")).await;
        desk.wait(12).await;
        let id = karpenter_model::pod::PodId::new("default", format!("web-{number}"));
        assert!(desk.ctx.state().expectations.claim_of(&id).is_some(), "web-{number} has a place");
    }
    assert_eq!(claims_by_pool(&desk).await["bad"], 1);
    let before = claims_by_pool(&desk).await;
    desk.work(60).await;
    assert_eq!(claims_by_pool(&desk).await, before, "another process plans nothing a second time");
    let id = karpenter_model::pod::PodId::new("default", "first");
    assert!(desk.ctx.state().is_in_hand(&id));
    desk.shop.book().down.clear();
    desk.wait(120).await;
    assert_eq!(claims_by_pool(&desk).await, before);
    assert!(desk.all::<NodeClaim>().await.iter().all(|claim| claim.status.as_ref().unwrap().provider_id.is_some()));
    assert!(desk.ctx.state().is_in_hand(&id), "it keeps its place on what was launched");
    assert!(desk.ctx.state().expectations.claim_of(&id).is_some());
}

/// SCH-80, X2: what unlaunched claims may become counts against the limit of their pool.
#[tokio::test(start_paused = true)]
async fn unlaunched_claims_count_against_limits() {
    let mut desk = Desk::start().await;
    desk.add_ready_pool("bad", json!({ "spec": { "limits": { "nodes": "2", "cpu": "1000" } } })).await;
    desk.shop.book().down.insert("bad".to_owned());
    for number in 0..4 {
        let alone = json!({ "spec": { "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
            { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchExpressions": [{ "key": "app", "operator": "Exists" }] } }
        ] } } } });
        desk.add_pending(&format!("web-{number}"), alone).await;
        if number == 0 {
            desk.work(5).await;
        } else {
            desk.wait(20).await;
        }
    }
    assert_eq!(claims_by_pool(&desk).await, [("bad".to_owned(), 2)].into());
}

/// SCH-3: a claim that could not be created is asked for again, although nothing happens to its pod.
#[tokio::test(start_paused = true)]
async fn a_lost_creation_is_made_up_for() {
    let mut desk = Desk::start().await;
    desk.add_ready_pool("blue", json!({})).await;
    desk.add_pending("web", json!({})).await;
    desk.api.add_fault(Rule::new(Fault::RequestLost).kind("NodeClaim").verb(Verb::Create).times(1));
    desk.work(5).await;
    assert_eq!(desk.all::<NodeClaim>().await.len(), 0);
    desk.wait(15).await;
    assert_eq!(desk.all::<NodeClaim>().await.len(), 1);
}

/// SCH-23, SCH-86, SCH-126, Q31: a pool whose types cannot be listed is done without and is not to blame; one that leaves no type is.
#[tokio::test(start_paused = true)]
async fn pools_without_types() {
    let mut desk = Desk::start().await;
    let nothing = json!({ "key": "kubernetes.io/arch", "operator": "In", "values": ["s390x"] });
    desk.add_ready_pool(
        "useless",
        json!({ "spec": { "weight": 9, "template": { "spec": { "requirements": [nothing] } } } }),
    )
    .await;
    desk.add_ready_pool("unlisted", json!({ "spec": { "weight": 8 } })).await;
    desk.shop.book().unlisted.insert("unlisted".to_owned());
    desk.add_pending("odd", selecting("node.kubernetes.io/instance-type", "unheard-of")).await;
    desk.work(30).await;
    assert!(told(&desk, "useless").await.contains(&"NoCompatibleInstanceTypes".to_owned()));
    assert!(!told(&desk, "unlisted").await.contains(&"NoCompatibleInstanceTypes".to_owned()));
    desk.add_ready_pool("good", json!({})).await;
    desk.add_pending("web", json!({})).await;
    desk.wait(30).await;
    let claims = desk.all::<NodeClaim>().await;
    assert_eq!(claims.iter().map(|claim| &*claim.labels()["karpenter.sh/nodepool"]).collect::<Vec<_>>(), ["good"]);
}

/// SCH-22, SCH-23, Q31: pools that may be used but say nothing about their types are no reason to call a pod hopeless: once
/// they do, it gets its node.
#[tokio::test(start_paused = true)]
async fn a_pool_that_says_nothing_for_a_while() {
    for empty in [false, true] {
        let mut desk = Desk::start().await;
        desk.add_ready_pool("blue", json!({})).await;
        let types = desk.shop.book().types.clone();
        if empty {
            desk.shop.book().types = std::sync::Arc::default();
        } else {
            desk.shop.book().unlisted.insert("blue".to_owned());
        }
        desk.add_pending("web", json!({})).await;
        desk.work(15).await;
        assert_eq!((desk.all::<NodeClaim>().await.len(), gauge(&desk).1), (0, Some(1.0)));
        assert!(!told(&desk, "blue").await.contains(&"NoCompatibleInstanceTypes".to_owned()));
        desk.shop.book().types = types;
        desk.shop.book().unlisted.clear();
        desk.wait(12).await;
        assert_eq!(desk.all::<NodeClaim>().await.len(), 1, "with the next pass, not a minute later");
    }
}

/// SCH-249: a kind of pod that fits nowhere is remembered: another one of it is told so, without being tried, until
/// something changes that it depends on.
#[tokio::test(start_paused = true)]
async fn a_kind_that_fits_nowhere_is_remembered() {
    let mut desk = Desk::start().await;
    desk.add_ready_pool("blue", json!({})).await;
    let gpu = || {
        json!({ "metadata": { "labels": { "app": "gpu" } },
            "spec": { "nodeSelector": { "node.kubernetes.io/instance-type": "unheard-of" } } })
    };
    desk.add_pending("gpu-0", gpu()).await;
    desk.work(20).await;
    let passes = |desk: &Desk| desk.ctx.report.metrics.all.scheduling_duration.value(["provisioner"]);
    let before = passes(&desk);
    for number in 1..=3 {
        desk.add_pending(&format!("gpu-{number}"), gpu()).await;
        desk.wait(5).await;
        assert_eq!(told(&desk, &format!("gpu-{number}")).await, ["FailedScheduling"]);
    }
    assert_eq!((passes(&desk), gauge(&desk).1, decisions(&desk)), (before, Some(4.0), Some(4.0)));
    desk.add_ready_pool("green", json!({})).await;
    desk.wait(15).await;
    assert!(passes(&desk) > before, "another pool may have a place");
}

/// API-163, SCH-147, SCH-148, V15-99, V15-100: pods that declare no spread get the configured one, with the selector of who
/// stands behind them.
#[tokio::test(start_paused = true)]
async fn pods_without_spread_get_the_default() {
    let zone = karpenter_model::scheduling::SpreadConstraint {
        key: "topology.kubernetes.io/zone".into(),
        max_skew: 1,
        when: karpenter_model::scheduling::WhenUnsatisfiable::DoNotSchedule,
        selector: None,
        min_domains: None,
        node_affinity_policy: karpenter_model::scheduling::NodePolicy::Honor,
        node_taints_policy: karpenter_model::scheduling::NodePolicy::Ignore,
    };
    for (defaults, zones) in [(vec![], 1), (vec![zone], 4)] {
        let features = crate::Features { default_spread: defaults, ..crate::Features::default() };
        let mut desk = Desk::with(super::desk::Setup { features, ..Default::default() }).await;
        desk.add_ready_pool("blue", json!({})).await;
        desk.put::<k8s_openapi::api::core::v1::Service>(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
            "spec": { "selector": { "tier": "web" }, "ports": [{ "port": 80 }] },
        }))
        .await;
        for number in 0..4 {
            desk.add_pending(&format!("web-{number}"), json!({ "metadata": { "labels": { "tier": "web" } } })).await;
        }
        desk.work(30).await;
        let claims = desk.all::<NodeClaim>().await;
        let used: std::collections::BTreeSet<&str> =
            claims.iter().map(|claim| &*claim.labels()["topology.kubernetes.io/zone"]).collect();
        assert_eq!(used.len(), zones);
    }
}

/// API-53: a static pool takes part in nothing without its gate.
#[tokio::test(start_paused = true)]
async fn static_pools_need_their_gate() {
    let mut desk = Desk::start().await;
    desk.add_ready_pool("fixed", json!({ "spec": { "replicas": 3 } })).await;
    desk.add_pending("web", json!({})).await;
    desk.work(90).await;
    assert_eq!(desk.all::<NodeClaim>().await.len(), 0);
}

/// SCH-217, SCH-222, SC-333, SCH-81, Q2: one claim that cannot be created does not stop the others, and they share nothing.
#[tokio::test(start_paused = true)]
async fn claims_are_created_one_by_one() {
    let desk = Desk::start().await;
    for name in ["there", "gone"] {
        desk.add_ready_pool(name, json!({ "spec": { "template": { "metadata": { "annotations": { "a": "b" } } } } }))
            .await;
    }
    let order = |name: &str| ClaimOrder::from_template(&desk.ctx.state().pool(name).unwrap().clone());
    let (there, gone) = (order("there"), order("gone"));
    desk.delete::<NodePool>("gone").await;
    let many: Requirements = (0..101).map(|n| Requirement::any_of(&format!("key-{n}"), ["v"])).collect();
    let too_much = ClaimOrder { requirements: many, ..there.clone() };
    let orders = [gone, there.clone(), too_much, there];
    let outcomes = futures::future::join_all(orders.iter().map(|order| create_claim(&desk.ctx, order))).await;
    let created: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(created, [false, true, false, true]);
    let [first, second] = &desk.all::<NodeClaim>().await[..] else { panic!("two claims") };
    desk.change::<NodeClaim>(&first.name_any(), json!({ "metadata": { "annotations": { "own": "x" } } })).await;
    assert!(!desk.claim(&second.name_any()).await.annotations().contains_key("own"));
    assert!(desk.ctx.state().unsynced().is_some(), "known at once, and not launched yet");
}

/// Nobody starves: with thousands of pods that nothing can serve, a pod that can be served has its claim and its instance
/// when the batch window has closed. In virtual time, thinking takes none.
#[tokio::test(start_paused = true)]
async fn hopeless_pods_keep_nobody_waiting() {
    let mut desk = Desk::start().await;
    desk.add_ready_pool("blue", json!({})).await;
    let gpu = json!({ "name": "main", "image": "none", "resources": { "limits": { "nvidia.com/gpu": "1" }, "requests": { "nvidia.com/gpu": "1" } } });
    let pods: Vec<Value> = (0..2000).map(|_| json!({ "spec": { "containers": [gpu] } })).collect();
    let added = pods.into_iter().enumerate().map(|(number, pod)| {
        let (desk, name) = (&desk, format!("gpu-{number}"));
        async move { desk.add_pending(&name, pod).await }
    });
    futures::future::join_all(added).await;
    desk.work(30).await;
    assert_eq!((desk.all::<NodeClaim>().await.len(), gauge(&desk).1), (0, Some(2000.0)));
    for round in 1..=3 {
        desk.add_pending(&format!("web-{round}"), json!({})).await;
        // The idle window of a second, and what the API and the cloud take, which is nothing here.
        tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
        let id = karpenter_model::pod::PodId::new("default", format!("web-{round}"));
        let expected = desk.ctx.state().expectations.claim_of(&id).map(ToOwned::to_owned);
        let claim = desk.claim(&expected.expect("it has a place")).await;
        assert!(claim.status.unwrap().provider_id.is_some(), "and the place an instance");
        desk.wait(20).await;
    }
    assert_eq!(gauge(&desk).1, Some(2000.0));
}

/// D7, LIF-129: everything that is kept between passes only saves work: another process decides the same.
#[tokio::test(start_paused = true)]
async fn a_new_process_decides_the_same() {
    let mut desk = Desk::start().await;
    desk.add_ready_pool("blue", json!({})).await;
    desk.add_pending("odd", selecting("node.kubernetes.io/instance-type", "unheard-of")).await;
    desk.add_pending("web", json!({})).await;
    desk.work(30).await;
    let before: Vec<String> = desk.all::<NodeClaim>().await.iter().map(kube::ResourceExt::name_any).collect();
    desk.work(60).await;
    let after: Vec<String> = desk.all::<NodeClaim>().await.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!((before.len(), before == after), (1, true), "the claim that was made for the pod is known");
    assert_eq!(gauge(&desk).1, Some(1.0));
}
