//! The AWS provider keeps the contract of all providers, over the wire.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use karpenter_api::convert;
use karpenter_api::kinds::{EC2NodeClass, NodeClassRef};
use karpenter_aws::instance_types::Sizing;
use karpenter_aws::provider::{AwsProvider, Clients, NoReports, NodeClasses, ProviderSettings};
use karpenter_aws::user_data::Cluster;
use karpenter_model::claim::ClaimView;
use karpenter_model::pool::PoolView;
use karpenter_model::taints::Taint;
use karpenter_platform::contract::{self, Subject};
use karpenter_platform::{CloudProvider, Instance, SystemClock};
use karpenter_testkit::aws::REGION;
use karpenter_testkit::build;
use serde_json::{Value, json};

use crate::setup::{IMAGE, World, world};

#[derive(Debug)]
struct OneClass(Arc<EC2NodeClass>);

impl NodeClasses for OneClass {
    fn get(&self, name: &str) -> Option<Arc<EC2NodeClass>> {
        (name == "default").then(|| self.0.clone())
    }
}

fn class_ref() -> NodeClassRef {
    let [group, kind, name] = ["karpenter.k8s.aws", "EC2NodeClass", "default"].map(str::to_owned);
    NodeClassRef { group, kind, name }
}

/// As the controllers leave it.
async fn class(world: &World) -> EC2NodeClass {
    let subnets = world.subnets().await;
    let subnets: Vec<Value> =
        subnets.iter().map(|subnet| json!({"id": subnet.id, "zone": subnet.zone, "zoneID": subnet.zone_id})).collect();
    let group = world.clients.reads.security_groups(&[]).await.unwrap().remove(0);
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-11-16T00:00:00Z", "observedGeneration": 1});
    let conditions =
        ["AMIsReady", "SubnetsReady", "SecurityGroupsReady", "InstanceProfileReady", "ValidationSucceeded", "Ready"];
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "default", "uid": "class-uid", "generation": 1, "annotations": {
            "karpenter.k8s.aws/ec2nodeclass-hash": "1", "karpenter.k8s.aws/ec2nodeclass-hash-version": "v4"}},
        "spec": {"role": "nodes", "amiFamily": "AL2023", "amiSelectorTerms": [{"id": IMAGE}],
            "subnetSelectorTerms": [{"tags": {"a": "b"}}], "securityGroupSelectorTerms": [{"tags": {"a": "b"}}]},
        "status": {
            "amis": [{"id": IMAGE, "name": "image", "requirements": [
                {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}],
            "subnets": subnets, "securityGroups": [{"id": group.id, "name": group.name}], "instanceProfile": "nodes",
            "conditions": conditions.map(condition)}});
    serde_json::from_value(class).unwrap()
}

struct OnEmulator {
    world: World,
    provider: Arc<AwsProvider>,
    made: AtomicU32,
}

impl OnEmulator {
    async fn new() -> Self {
        let world = world().await;
        world.account.change(json!({"prices": {"m5.large": 0.096}}));
        let clients = Clients {
            reads: world.clients.reads.clone(),
            writes: world.clients.writes.clone(),
            lookups: world.clients.lookups.clone(),
        };
        let settings = ProviderSettings {
            cluster: Cluster {
                name: "shop".to_owned(),
                endpoint: "https://example.com".to_owned(),
                ca_bundle: None,
                service_cidr: Some("10.100.0.0/16".to_owned()),
                dns: None,
            },
            sizing: Sizing { region: REGION.to_owned(), vm_memory_overhead_percent: 0.075, reserved_enis: 0 },
            isolated_vpc: false,
            reserved_capacity: true,
            subnet_refresh_interval: SignedDuration::from_mins(1),
            reboot_reasons: Vec::new(),
        };
        let class = Arc::new(OneClass(Arc::new(class(&world).await)));
        let provider = AwsProvider::new(clients, settings, Arc::new(SystemClock), class, Arc::new(NoReports)).unwrap();
        provider.discover().await.unwrap();
        Self { world, provider: Arc::new(provider), made: AtomicU32::new(0) }
    }

    fn instance_id(claim: &ClaimView) -> &str {
        claim.provider_id.as_deref().and_then(|id| id.rsplit('/').next()).unwrap_or_default()
    }
}

#[async_trait]
impl Subject for OnEmulator {
    fn provider(&self) -> Arc<dyn CloudProvider> {
        self.provider.clone()
    }

    fn pool(&self) -> PoolView {
        let pool = build::node_pool("default").class(class_ref()).build();
        convert::pool(&pool, self.provider.label_rules()).view
    }

    async fn new_claim(&self) -> ClaimView {
        let name = format!("claim-{}", self.made.fetch_add(1, Ordering::Relaxed));
        let claim = build::node_claim(&name)
            .class(class_ref())
            .label("karpenter.sh/nodepool", "default")
            .request("cpu", "1")
            .requirement("node.kubernetes.io/instance-type", "In", &["m5.large", "m5.xlarge"])
            .requirement("karpenter.sh/capacity-type", "In", &["on-demand"])
            .build();
        let view = convert::claim(&claim, self.provider.label_rules()).view;
        ClaimView { uid: format!("uid-of-{name}"), has_finalizer: true, ..view }
    }

    async fn joined(&self, claim: &ClaimView, instance: &Instance) -> ClaimView {
        let mut joined = claim.clone();
        joined.labels.extend(instance.labels.clone());
        ClaimView { provider_id: Some(instance.provider_id.clone()), node_name: Some("node".to_owned()), ..joined }
    }

    /// Those that user data says.
    async fn taints(&self, claim: &ClaimView) -> Vec<Taint> {
        let launched = self.world.account.launched();
        let text = launched[Self::instance_id(claim)]["user_data"].as_str().unwrap_or_default().to_owned();
        let text = String::from_utf8(STANDARD.decode(text).unwrap()).unwrap();
        let guard = text.contains("effect: NoExecute\n        key: karpenter.sh/unregistered");
        guard.then(Taint::unregistered).into_iter().collect()
    }

    /// The emulator has no machines; what it was asked for is as good.
    async fn boot_id(&self, _: &ClaimView) -> Option<String> {
        Some(self.world.account.count("RebootInstances").to_string())
    }

    async fn pause(&self, _: Duration) {
        // What was done is there for the next who asks.
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// API-237 … API-247, V15-72: the suite of all providers.
#[tokio::test]
async fn the_provider_keeps_the_contract() {
    let subject = OnEmulator::new().await;
    assert_eq!(contract::violations(&subject).await, Vec::<String>::new());
}
