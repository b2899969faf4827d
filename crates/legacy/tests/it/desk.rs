//! An API in the process, a cloud in memory, and all controllers between them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::instance_types::Catalogue;
use karpenter_api::legacy::Installation;
use karpenter_api::names::LabelPolicy;
use karpenter_apiserver::{Api as Embedded, Options as ApiOptions};
use karpenter_controllers::{Batching, Context, Features, Observability, Options, PlanningOptions};
use karpenter_legacy::Legacy;
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pool::PoolView;
use karpenter_platform::{
    CallError, Clock as _, CloudProvider, CreateError, Instance, InstanceError, InstanceTypesError, NodeClassKind,
    TokioClock,
};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Sells everything at once.
#[derive(Debug)]
struct Cloud {
    classes: [NodeClassKind; 1],
    policy: LabelPolicy,
    types: Arc<Vec<InstanceType>>,
    machines: Mutex<BTreeMap<String, Instance>>,
}

#[async_trait]
impl CloudProvider for Cloud {
    fn name(&self) -> &'static str {
        "cloud"
    }

    fn node_classes(&self) -> &[NodeClassKind] {
        &self.classes
    }

    fn label_rules(&self) -> &LabelRules {
        self.policy.rules()
    }

    async fn create(&self, claim: &ClaimView) -> Result<Instance, CreateError> {
        let fits = |known: &&InstanceType| {
            !known.launchable_offerings(&claim.requirements, self.label_rules()).is_empty()
                && claim.requests.fits(&known.allocatable())
        };
        let sold = self.types.iter().find(fits);
        let sold = sold.ok_or_else(|| CreateError::InsufficientCapacity("sold out".to_owned()))?;
        let offering = sold.launchable_offerings(&claim.requirements, self.label_rules())[0];
        let labels = [
            (labels::INSTANCE_TYPE, sold.name.as_str()),
            (labels::ZONE, offering.zone().unwrap_or_default()),
            (labels::CAPACITY_TYPE, offering.capacity_type().unwrap_or_default()),
        ];
        let machine = Instance {
            provider_id: format!("cloud://{}", claim.name),
            image_id: None,
            labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            annotations: BTreeMap::new(),
            capacity: sold.capacity.clone(),
            allocatable: sold.allocatable(),
            terminating: false,
        };
        self.machines.lock().unwrap().insert(machine.provider_id.clone(), machine.clone());
        Ok(machine)
    }

    async fn delete(&self, claim: &ClaimView) -> Result<(), InstanceError> {
        let id = claim.provider_id.clone().unwrap_or_default();
        self.machines.lock().unwrap().remove(&id).map(|_| ()).ok_or(InstanceError::NotFound(id))
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, InstanceError> {
        let found = self.machines.lock().unwrap().get(provider_id).cloned();
        found.ok_or_else(|| InstanceError::NotFound(provider_id.to_owned()))
    }

    async fn find(&self, claim: &ClaimView) -> Result<Option<Instance>, CallError> {
        Ok(self.machines.lock().unwrap().get(&format!("cloud://{}", claim.name)).cloned())
    }

    async fn list(&self) -> Result<Vec<Instance>, CallError> {
        Ok(self.machines.lock().unwrap().values().cloned().collect())
    }

    async fn instance_types(&self, _: &PoolView) -> Result<Arc<Vec<InstanceType>>, InstanceTypesError> {
        Ok(self.types.clone())
    }
}

/// Which definitions there are at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Definitions {
    All,
    OfToday,
}

pub(crate) struct Desk {
    pub(crate) client: Client,
    clock: Arc<TokioClock>,
    cloud: Arc<Cloud>,
    running: JoinHandle<()>,
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Desk {
    pub(crate) async fn start() -> Self {
        Self::with(Definitions::All).await
    }

    pub(crate) async fn with(definitions: Definitions) -> Self {
        let clock = Arc::new(TokioClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        let of_api = clock.clone();
        let api = Embedded::new(ApiOptions { clock: Arc::new(move || of_api.now()), ..ApiOptions::default() });
        let client = Client::new(api.clone(), "default");
        let [group, version, kind, plural] =
            ["karpenter.k8s.aws", "v1", "EC2NodeClass", "ec2nodeclasses"].map(ToOwned::to_owned);
        let cloud = Arc::new(Cloud {
            classes: [NodeClassKind { group, version, kind, plural }],
            policy: LabelPolicy::aws(),
            types: Arc::new(Catalogue::built_in().unwrap().types),
            machines: Mutex::default(),
        });
        let desk = Self { running: tokio::spawn(async {}), client, clock, cloud };
        for definition in karpenter_api::crd::definitions() {
            if definitions == Definitions::All || !definition.legacy {
                desk.define(definition.manifest.clone()).await;
            }
        }
        let mut desk = desk;
        desk.restart().await;
        desk
    }

    pub(crate) async fn define(&self, definition: Value) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        crds.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
    }

    /// Another process takes over: it knows nothing but what is in the API.
    pub(crate) async fn restart(&mut self) {
        self.running.abort();
        let options = Options {
            policy: LabelPolicy::aws(),
            batching: Batching { idle: Duration::from_secs(1), longest: Duration::from_secs(10), siblings: true },
            planning: PlanningOptions::default(),
            cores: 1,
            observability: Observability::On,
            features: Features::default(),
        };
        let ctx = Arc::new(Context::new(self.client.clone(), self.cloud.clone(), self.clock.clone(), options));
        let installation = || Installation {
            default_instance_profile: Some("usual".to_owned()),
            kubernetes_version: "1.35".to_owned(),
        };
        let legacy = Legacy::new(ctx.clone(), Box::new(installation));
        self.running = tokio::spawn(async move {
            tokio::join!(karpenter_controllers::run(ctx), karpenter_legacy::act(legacy));
        });
        self.look().await;
    }

    /// Until the watches have brought everything and the controllers have done what follows from it.
    pub(crate) async fn look(&self) {
        self.wait(5).await;
    }

    pub(crate) async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub(crate) fn clock_now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    fn resource(kind: &str) -> ApiResource {
        let (group, version, plural) = match kind {
            "Provisioner" => ("karpenter.sh", "v1alpha5", "provisioners"),
            "AWSNodeTemplate" => ("karpenter.k8s.aws", "v1alpha1", "awsnodetemplates"),
            "NodePool" => ("karpenter.sh", "v1", "nodepools"),
            "NodeClaim" => ("karpenter.sh", "v1", "nodeclaims"),
            "EC2NodeClass" => ("karpenter.k8s.aws", "v1", "ec2nodeclasses"),
            "Pod" => ("", "v1", "pods"),
            "Node" => ("", "v1", "nodes"),
            other => panic!("unknown kind {other}"),
        };
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") },
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        }
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let resource = Self::resource(kind);
        if kind == "Pod" {
            Api::namespaced_with(self.client.clone(), "default", &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }

    /// The object is created and looked at.
    pub(crate) async fn add(&self, kind: &str, name: &str, rest: Value) -> Value {
        let api = self.api(kind);
        let mut object = rest;
        object["metadata"]["name"] = json!(name);
        object["apiVersion"] = json!(Self::resource(kind).api_version);
        object["kind"] = json!(kind);
        let created = api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        self.look().await;
        serde_json::to_value(created).unwrap()
    }

    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) {
        self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        self.look().await;
    }

    pub(crate) async fn set_status(&self, kind: &str, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api(kind).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
        self.look().await;
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.api(kind).delete(name, &DeleteParams::default()).await.unwrap();
        self.look().await;
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let found = self.api(kind).get_opt(name).await.unwrap();
        found.map(|object| serde_json::to_value(object).unwrap())
    }

    pub(crate) async fn all(&self, kind: &str) -> Vec<Value> {
        let found = self.api(kind).list(&ListParams::default()).await.unwrap();
        found.items.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    pub(crate) async fn names(&self, kind: &str) -> Vec<String> {
        let found = self.api(kind).list(&ListParams::default()).await.unwrap();
        found.items.iter().map(kube::ResourceExt::name_any).collect()
    }

    /// Status, reason and message.
    pub(crate) async fn condition(&self, kind: &str, name: &str, type_: &str) -> [String; 3] {
        let object = self.get(kind, name).await.unwrap();
        let listed = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = listed.into_iter().find(|one| one["type"] == type_).unwrap_or_default();
        ["status", "reason", "message"].map(|member| found[member].as_str().unwrap_or_default().to_owned())
    }

    /// What the controllers of AWS would find.
    pub(crate) async fn class_is_ready(&self, name: &str) {
        let now = self.clock.now();
        self.set_status(
            "EC2NodeClass",
            name,
            json!({
                "conditions": [{ "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": now }],
                "subnets": [{ "id": "subnet-1", "zone": "z", "zoneID": "z1" }],
                "securityGroups": [{ "id": "sg-1", "name": "nodes" }],
                "amis": [{ "id": "ami-1", "name": "image", "requirements": [{ "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] }] }],
            }),
        )
        .await;
    }
}
