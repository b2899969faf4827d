//! The provider keeps the contract, on a real API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::convert;
use karpenter_api::crd;
use karpenter_api::instance_types::Catalogue;
use karpenter_kwok::KwokProvider;
use karpenter_model::claim::ClaimView;
use karpenter_model::pool::PoolView;
use karpenter_platform::contract::{self, Subject};
use karpenter_platform::{CallError, CloudProvider, Instance, RebootError, RepairPolicies};
use karpenter_testkit::{ControlPlane, build};
use kube::Client;
use kube::api::{Api, PostParams};

struct Kwok {
    client: Client,
    provider: Arc<KwokProvider>,
    claims: AtomicUsize,
}

async fn kwok() -> Kwok {
    // Of its own: the class is named `default`, and Nodes are counted.
    let control_plane = Box::leak(Box::new(ControlPlane::builder().start().await.unwrap()));
    control_plane.apply_crds(crd::all().into_iter().map(|crd| serde_json::from_value(crd).unwrap())).await.unwrap();
    let client = control_plane.client();
    let classes = Api::all(client.clone());
    classes.create(&PostParams::default(), &build::kwok_class("default")).await.unwrap();
    let provider = KwokProvider::new(client.clone(), Catalogue::built_in().unwrap());
    Kwok { client, provider: Arc::new(provider), claims: AtomicUsize::new(0) }
}

#[async_trait]
impl Subject for Kwok {
    fn provider(&self) -> Arc<dyn CloudProvider> {
        self.provider.clone()
    }

    fn pool(&self) -> PoolView {
        convert::pool(&build::node_pool("default").build(), self.provider.label_rules()).view
    }

    async fn new_claim(&self) -> ClaimView {
        let number = self.claims.fetch_add(1, Ordering::Relaxed);
        let claim = build::node_claim(&format!("claim-{number}")).request("cpu", "3").requirement(
            "node.kubernetes.io/instance-type",
            "In",
            &["s-4x-amd64-linux", "c-8x-arm64-linux"],
        );
        let mut claim = claim.build();
        claim.metadata.uid = Some(format!("uid-{number}"));
        convert::claim(&claim, self.provider.label_rules()).view
    }

    async fn joined(&self, claim: &ClaimView, instance: &Instance) -> ClaimView {
        let node_name = instance.provider_id.strip_prefix("kwok://").map(ToOwned::to_owned);
        ClaimView { node_name, ..claim.clone() }
    }

    async fn boot_id(&self, claim: &ClaimView) -> Option<String> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = nodes.get(claim.node_name.as_ref()?).await.unwrap();
        Some(node.status?.node_info?.boot_id)
    }

    async fn pause(&self, _: Duration) {
        // What is written to the API server is there for the next who asks.
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// API-237 … API-247, V15-72, V15-120, V15-121: the suite of all providers, and what is kwok's own.
#[tokio::test]
async fn the_provider_keeps_the_contract() {
    let kwok = kwok().await;
    assert_eq!(contract::violations(&kwok).await, Vec::<String>::new());

    let policies = kwok.provider.repair_policies();
    assert!(RepairPolicies::compile(&policies).is_ok());
    let shown: Vec<_> = policies
        .iter()
        .map(|p| (p.to_string(), p.toleration.as_secs(), p.termination_grace_period.unwrap().as_secs()))
        .collect();
    let row = |text: &str, toleration, grace| (text.to_owned(), toleration, grace);
    assert_eq!(
        shown,
        [
            row("Ready=False reason // priority 0 ReplaceNode", 600, 0),
            row("Ready=Unknown reason /.*/ priority 0 ReplaceNode", 600, 0),
            row("KWOKUnhealthy=True reason /.*/ priority 0 ReplaceNode", 30, 45),
            row("KWOKRebootRequired=True reason /.*/ priority 0 RebootNode", 30, 60),
        ]
    );

    // Without a node the reboot is tried again.
    let claim = kwok.new_claim().await;
    let missing = ClaimView { node_name: Some("missing".to_owned()), ..claim.clone() };
    for claim in [claim, missing] {
        let answer = kwok.provider.reboot(&claim, "op").await;
        assert!(matches!(answer, Err(RebootError::Call(CallError { .. }))), "{answer:?}");
    }
}
