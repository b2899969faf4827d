//! The provider keeps the contract.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::convert;
use karpenter_model::claim::ClaimView;
use karpenter_model::pool::PoolView;
use karpenter_model::taints::Taint;
use karpenter_platform::contract::{self, Subject};
use karpenter_platform::{CallError, CloudProvider, Instance, RebootError, RepairPolicies};
use karpenter_testkit::build;
use kube::Api;

use crate::Kwok;

#[async_trait]
impl Subject for Kwok {
    fn provider(&self) -> Arc<dyn CloudProvider> {
        self.provider.clone()
    }

    fn pool(&self) -> PoolView {
        convert::pool(&build::node_pool("default").build(), self.provider.label_rules()).view
    }

    async fn new_claim(&self) -> ClaimView {
        let types = ["s-4x-amd64-linux", "c-8x-arm64-linux"];
        self.claim(|claim| claim.request("cpu", "3").requirement("node.kubernetes.io/instance-type", "In", &types))
    }

    async fn joined(&self, claim: &ClaimView, instance: &Instance) -> ClaimView {
        let node_name = instance.provider_id.strip_prefix("kwok://").map(ToOwned::to_owned);
        ClaimView { node_name, ..claim.clone() }
    }

    async fn taints(&self, claim: &ClaimView) -> Vec<Taint> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = nodes.get(claim.node_name.as_ref().unwrap()).await.unwrap();
        convert::node(&node).view.taints
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

/// API-237 … API-247, V15-72, V15-117, V15-121: the suite of all providers, and what is kwok's own.
async fn keeps_the_contract(kwok: &Kwok) {
    assert_eq!(contract::violations(kwok).await, Vec::<String>::new());

    // V15-121: without a node the reboot is tried again; with one its boot ID names the operation.
    let claim = kwok.new_claim().await;
    let missing = ClaimView { node_name: Some("missing".to_owned()), ..claim.clone() };
    for claim in [&claim, &missing] {
        let answer = kwok.provider.reboot(claim, "op").await;
        assert!(matches!(answer, Err(RebootError::Call(CallError { .. }))), "{answer:?}");
    }
    let instance = kwok.provider.create(&claim).await.unwrap();
    let claim = kwok.joined(&claim, &instance).await;
    kwok.provider.reboot(&claim, "op-7").await.unwrap();
    assert_eq!(kwok.boot_id(&claim).await.as_deref(), Some("kwok-op-7"));
}

#[tokio::test]
async fn on_a_real_api_server() {
    keeps_the_contract(&Kwok::real().await).await;
}

#[tokio::test(start_paused = true)]
async fn on_the_embedded_api_server() {
    keeps_the_contract(&Kwok::embedded().await).await;
}

/// V15-120 (replaces API-286), V15-27: its repair policies, in this order.
#[tokio::test]
async fn repair_policies() {
    let policies = Kwok::embedded().await.provider.repair_policies();
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
}
