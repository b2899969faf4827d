//! What the planner makes of the types that AWS sells.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_aws::fake::{self, Account, Classes, Refusal, ready_class};
use karpenter_aws::fixtures::{class, sold};
use karpenter_aws::provider::{AwsProvider, NoReports};
use karpenter_model::claim::ClaimView;
use karpenter_model::example;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::PodView;
use karpenter_model::pool::{NodeClassRef, PoolView};
use karpenter_model::quantity::Quantity;
use karpenter_model::resources::Resources;
use karpenter_model::snapshot::{PoolOffer, Snapshot};
use karpenter_platform::{CloudProvider as _, CreateError, TokioClock};
use karpenter_solver::{Options, Plan, plan};
use serde_json::json;

fn pod(name: &str, requests: &[(&str, i64)]) -> PodView {
    let mut pod = example::pod(name);
    let all = requests.iter().map(|(resource, milli)| ((*resource).to_owned(), Quantity::milli(*milli)));
    pod.requests = all.chain([("pods".to_owned(), Quantity::units(1))]).collect::<Resources>();
    pod
}

fn pool() -> PoolView {
    let node_class = NodeClassRef {
        group: "karpenter.k8s.aws".to_owned(),
        kind: "EC2NodeClass".to_owned(),
        name: "default".to_owned(),
    };
    PoolView { node_class, ..example::pool("default") }
}

fn planned(types: Arc<Vec<InstanceType>>, rules: &LabelRules, pods: Vec<PodView>) -> Plan {
    let snapshot = Snapshot {
        pools: vec![PoolOffer { pool: Arc::new(pool()), instance_types: types, usage: Resources::new() }],
        nodes: Vec::new(),
        pending: pods.into_iter().map(|pod| (pod.id.clone(), Arc::new(pod))).collect(),
        daemons: Vec::new(),
        reservation_credits: BTreeMap::new(),
        namespaces: BTreeMap::from([("default".to_owned(), BTreeMap::new())]),
        devices: None,
    };
    let plan = plan(&snapshot, rules, &Options::default());
    assert!(plan.unplaced.is_empty(), "{:?}", plan.unplaced);
    plan
}

/// The first choice of each claim.
fn chosen(plan: &Plan) -> Vec<String> {
    plan.claims.iter().map(|claim| claim.instance_types[0].clone()).collect()
}

fn aws_rules() -> LabelRules {
    karpenter_api::names::LabelPolicy::aws().rules().clone()
}

/// AC-136, AC-137: accelerators fill up their types.
#[test]
fn accelerators() {
    for (id, resource, counts, types, want) in [
        ("AC-136", "nvidia.com/gpu", [5, 2, 5], &["p5.48xlarge"][..], "p5.48xlarge"),
        ("AC-137", "aws.amazon.com/neuron", [2, 2, 4], &["inf2.xlarge", "inf2.24xlarge"], "inf2.24xlarge"),
        ("AC-137", "amd.com/gpu", [1, 2, 4], &["g4ad.16xlarge"], "g4ad.16xlarge"),
    ] {
        let types = sold(types, &class(&json!({})), &[]);
        let pods = counts.iter().enumerate().map(|(at, count)| pod(&format!("p{at}"), &[(resource, count * 1000)]));
        let plan = planned(Arc::new(types), &aws_rules(), pods.collect());
        assert_eq!(chosen(&plan), [want, want], "{id} {resource}");
    }
}

/// AC-303: thirty pods with a volume each need more than one `m5.large`, which attaches twenty-six.
#[test]
fn volumes() {
    let with_volume = |number: usize| {
        let mut pod = pod(&format!("p{number}"), &[("cpu", 10)]);
        let claims = [format!("default/volume-{number}")].into();
        pod.scheduling.volumes.claims = BTreeMap::from([("ebs.csi.aws.com".to_owned(), claims)]);
        pod
    };
    let types = Arc::new(sold(&["m5.large"], &class(&json!({})), &[]));
    let plan = planned(types, &aws_rules(), (0..30).map(with_volume).collect());
    let mut sizes: Vec<usize> = plan.claims.iter().map(|claim| claim.pods.len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [4, 26]);
}

/// AC-217: EC2 has no `m5.xlarge` for two pods; the next round has an `m5.large` for each.
#[tokio::test(start_paused = true)]
async fn around_a_lack_of_capacity() {
    let clock = Arc::new(TokioClock::starting_at("2026-11-16T04:00:00Z".parse().unwrap()));
    let account = Account::selling(clock.clone(), &["m5.large", "m5.xlarge"]);
    let classes = Classes::default();
    classes.put(ready_class(&json!({}), &json!({})));
    let provider =
        AwsProvider::new(account.clients(), fake::settings(), clock, Arc::new(classes), Arc::new(NoReports)).unwrap();
    provider.discover().await.unwrap();
    provider.refresh_spot_prices().await.unwrap();
    provider.lead().await.unwrap();
    let subnets: Vec<_> = account.lock().subnets.iter().map(|(info, _)| info.clone()).collect();
    provider.subnets_described(&subnets);
    account.lock().refusals = ["test-zone-1a", "test-zone-1b", "test-zone-1c"]
        .map(|zone| Refusal::of("InsufficientInstanceCapacity", "m5.xlarge", zone))
        .into();

    let pods = || vec![pod("a", &[("cpu", 1500)]), pod("b", &[("cpu", 1500)])];
    let round = async || planned(provider.instance_types(&pool()).await.unwrap(), provider.label_rules(), pods());
    let mut rounds = vec![chosen(&round().await)];
    // Spot first, then on demand: each lack is known only after it was met.
    while rounds.last().unwrap()[..] == ["m5.xlarge"] {
        assert!(rounds.len() <= 2, "{rounds:?}");
        let plan = round().await;
        let mut claim = ClaimView {
            pool: Some("default".to_owned()),
            node_class: pool().node_class,
            uid: format!("claim-{}-4000-8000-000000000000", rounds.len()),
            requirements: (*plan.claims[0].requirements).clone().into(),
            requests: plan.claims[0].requests.clone(),
            ..example::claim("claim")
        };
        claim.labels.insert(labels::NODEPOOL.to_owned(), "default".to_owned());
        let refused = provider.create(&claim).await;
        assert!(matches!(refused, Err(CreateError::InsufficientCapacity(_))), "{refused:?}");
        rounds.push(chosen(&round().await));
    }
    assert_eq!(rounds.first().unwrap()[..], ["m5.xlarge"]);
    assert_eq!(rounds.last().unwrap()[..], ["m5.large", "m5.large"]);
}
