//! Everything that a reconciler needs, and nothing that runs by itself but the watches.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use karpenter_api::instance_types::Catalogue;
use karpenter_api::kinds::{KWOKNodeClass, NodeClaim, NodePool};
use karpenter_api::names::LabelPolicy;
use karpenter_apiserver::{Api as Embedded, Fault, Options as ApiOptions, Rule, Verb};
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pool::PoolView;
use karpenter_platform::{
    CallError, Clock, CloudProvider, CreateError, Instance, InstanceError, InstanceTypesError, NodeClassKind,
    RebootError, RegistrationHook, RepairPolicy, TokioClock,
};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::queue::{ReconcileError, Requeue};
use crate::{Batching, Context, Features, Observability, Options, PlanningOptions};

/// A cloud that does as it is told, and else what a good one would.
#[derive(Debug)]
pub(super) struct Shop {
    classes: Vec<NodeClassKind>,
    rules: LabelRules,
    hooks: Vec<Arc<dyn RegistrationHook>>,
    policies: Vec<RepairPolicy>,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) types: Arc<Vec<InstanceType>>,
    /// Answers to the next calls.
    pub(super) creates: VecDeque<Result<Instance, CreateError>>,
    pub(super) deletes: VecDeque<Result<(), InstanceError>>,
    pub(super) gets: VecDeque<Result<Instance, InstanceError>>,
    /// By provider ID.
    pub(super) machines: BTreeMap<String, Instance>,
    /// Provider ID by claim UID.
    pub(super) launched: BTreeMap<String, String>,
    pub(super) created: usize,
    pub(super) deleted: Vec<String>,
    /// Answers to the next reboots.
    pub(super) reboot_answers: VecDeque<Result<(), RebootError>>,
    /// Operation ids.
    pub(super) reboots: Vec<String>,
    /// Pools whose claims cannot be launched; the empty one stands for claims without.
    pub(super) down: BTreeSet<String>,
    /// Pools whose types cannot be listed.
    pub(super) unlisted: BTreeSet<String>,
}

impl Shop {
    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }
}

pub(super) fn instance(provider_id: &str) -> Instance {
    Instance {
        provider_id: provider_id.to_owned(),
        image_id: Some("image-1".to_owned()),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        capacity: [("cpu".to_owned(), karpenter_model::quantity::Quantity::units(4))].into_iter().collect(),
        allocatable: [("cpu".to_owned(), karpenter_model::quantity::Quantity::units(4))].into_iter().collect(),
        terminating: false,
    }
}

#[async_trait]
impl CloudProvider for Shop {
    fn name(&self) -> &'static str {
        "shop"
    }

    fn node_classes(&self) -> &[NodeClassKind] {
        &self.classes
    }

    fn label_rules(&self) -> &LabelRules {
        &self.rules
    }

    async fn create(&self, claim: &ClaimView) -> Result<Instance, CreateError> {
        let mut book = self.book();
        book.created += 1;
        if book.down.contains(claim.pool.as_deref().unwrap_or_default()) {
            return Err(CreateError::Call(CallError::new("CreateFleet", "down")));
        }
        if let Some(told) = book.creates.pop_front() {
            if let Ok(machine) = &told {
                book.machines.insert(machine.provider_id.clone(), machine.clone());
                book.launched.insert(claim.uid.clone(), machine.provider_id.clone());
            }
            return told;
        }
        if let Some(machine) = book.launched.get(&claim.uid).and_then(|id| book.machines.get(id)) {
            return Ok(machine.clone());
        }
        let types = book.types.clone();
        let fits = |known: &&InstanceType| {
            !known.launchable_offerings(&claim.requirements, &self.rules).is_empty()
                && claim.requests.fits(&known.allocatable())
        };
        let chosen = types.iter().find(fits).ok_or_else(|| CreateError::InsufficientCapacity("sold out".to_owned()))?;
        let offering = chosen.launchable_offerings(&claim.requirements, &self.rules)[0];
        let mut machine = instance(&format!("shop://{}", claim.name));
        (machine.capacity, machine.allocatable) = (chosen.capacity.clone(), chosen.allocatable());
        for (key, value) in [
            (labels::INSTANCE_TYPE, chosen.name.as_str()),
            (labels::ZONE, offering.zone().unwrap_or_default()),
            (labels::CAPACITY_TYPE, offering.capacity_type().unwrap_or_default()),
        ] {
            machine.labels.insert(key.to_owned(), value.to_owned());
        }
        book.machines.insert(machine.provider_id.clone(), machine.clone());
        book.launched.insert(claim.uid.clone(), machine.provider_id.clone());
        Ok(machine)
    }

    async fn delete(&self, claim: &ClaimView) -> Result<(), InstanceError> {
        let id = claim.provider_id.clone().unwrap_or_default();
        let mut book = self.book();
        book.deleted.push(id.clone());
        if let Some(told) = book.deletes.pop_front() {
            return told;
        }
        book.machines.remove(&id).map(|_| ()).ok_or(InstanceError::NotFound(id))
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, InstanceError> {
        let mut book = self.book();
        if let Some(told) = book.gets.pop_front() {
            return told;
        }
        book.machines.get(provider_id).cloned().ok_or_else(|| InstanceError::NotFound(provider_id.to_owned()))
    }

    async fn find(&self, claim: &ClaimView) -> Result<Option<Instance>, CallError> {
        let book = self.book();
        Ok(book.launched.get(&claim.uid).and_then(|id| book.machines.get(id)).cloned())
    }

    async fn list(&self) -> Result<Vec<Instance>, CallError> {
        Ok(self.book().machines.values().cloned().collect())
    }

    async fn instance_types(&self, pool: &PoolView) -> Result<Arc<Vec<InstanceType>>, InstanceTypesError> {
        let book = self.book();
        if book.unlisted.contains(&pool.name) {
            return Err(CallError::new("DescribeInstanceTypes", "try later").into());
        }
        Ok(book.types.clone())
    }

    fn registration_hooks(&self) -> &[Arc<dyn RegistrationHook>] {
        &self.hooks
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        self.policies.clone()
    }

    async fn reboot(&self, _: &ClaimView, operation_id: &str) -> Result<(), RebootError> {
        let mut book = self.book();
        book.reboots.push(operation_id.to_owned());
        book.reboot_answers.pop_front().unwrap_or(Ok(()))
    }
}

/// What is not said is as usual.
#[derive(Debug, Default)]
pub(super) struct Setup {
    pub(super) hooks: Vec<Arc<dyn RegistrationHook>>,
    pub(super) policies: Vec<RepairPolicy>,
    pub(super) features: Features,
}

pub(super) struct Desk {
    pub(super) api: Embedded,
    pub(super) client: Client,
    pub(super) clock: Arc<TokioClock>,
    pub(super) shop: Arc<Shop>,
    pub(super) ctx: Arc<Context>,
    pub(super) features: Features,
    running: JoinHandle<()>,
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Desk {
    /// The kinds, a class `default` that is ready, and the watches; no controller runs.
    pub(super) async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    pub(super) async fn with(setup: Setup) -> Self {
        let clock = Arc::new(TokioClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        let of_api = clock.clone();
        let api = Embedded::new(ApiOptions { clock: Arc::new(move || of_api.now()), ..ApiOptions::default() });
        let client = Client::new(api.clone(), "default");
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in karpenter_api::crd::all() {
            let definition = serde_json::from_value(definition).unwrap();
            crds.create(&PostParams::default(), &definition).await.unwrap();
        }
        let [group, version, kind, plural] =
            ["karpenter.kwok.sh", "v1alpha1", "KWOKNodeClass", "kwoknodeclasses"].map(ToOwned::to_owned);
        let book = Book { types: Arc::new(Catalogue::built_in().unwrap().types), ..Book::default() };
        let shop = Arc::new(Shop {
            classes: vec![NodeClassKind { group, version, kind, plural }],
            rules: LabelPolicy::kwok([]).rules().clone(),
            hooks: setup.hooks,
            policies: setup.policies,
            book: Mutex::new(book),
        });
        let ctx = context(&client, &shop, &clock, setup.features.clone());
        let running = tokio::spawn(crate::watches::run(ctx.clone()));
        let desk = Self { api, client, clock, shop, ctx, features: setup.features, running };
        desk.add::<KWOKNodeClass>(json!({ "metadata": { "name": "default" }, "spec": {} })).await;
        desk.set_status::<KWOKNodeClass>("default", json!({ "conditions": [desk.condition("Ready", "True")] })).await;
        desk.look().await;
        desk
    }

    /// Another process takes over: it knows nothing but what is in the API.
    pub(super) async fn restart(&mut self) {
        self.running.abort();
        self.ctx = context(&self.client, &self.shop, &self.clock, self.features.clone());
        self.running = tokio::spawn(crate::watches::run(self.ctx.clone()));
        self.look().await;
    }

    /// All controllers work for a while.
    pub(super) async fn work(&mut self, seconds: u64) {
        self.running.abort();
        self.ctx = context(&self.client, &self.shop, &self.clock, self.features.clone());
        self.running = tokio::spawn(crate::run(self.ctx.clone()));
        self.wait(seconds).await;
    }

    pub(super) async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Until the watches have brought everything.
    pub(super) async fn look(&self) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn condition(&self, type_: &str, status: &str) -> Value {
        json!({
            "type": type_, "status": status, "reason": type_, "message": "", "lastTransitionTime": self.now(),
            "observedGeneration": 1,
        })
    }

    pub(super) async fn add<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Clone + Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    /// In the namespace `default`.
    pub(super) async fn put<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Serialize + Clone + Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), "default");
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    pub(super) async fn change<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let changed = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        self.look().await;
        changed
    }

    pub(super) async fn set_status<K>(&self, name: &str, status: Value) -> K
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({ "status": status }));
        let changed = api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
        self.look().await;
        changed
    }

    pub(super) async fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        api.delete(name, &DeleteParams::default()).await.unwrap();
        self.look().await;
    }

    pub(super) async fn get<K>(&self, name: &str) -> Option<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
    {
        Api::all(self.client.clone()).get_opt(name).await.unwrap()
    }

    pub(super) async fn all<K>(&self) -> Vec<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
    {
        Api::all(self.client.clone()).list(&ListParams::default()).await.unwrap().items
    }

    pub(super) async fn claim(&self, name: &str) -> NodeClaim {
        self.get(name).await.unwrap()
    }

    /// A claim of the class `default`, with what is said of it merged in.
    pub(super) async fn add_claim(&self, name: &str, more: Value) -> NodeClaim {
        let class = json!({ "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" });
        let mut claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": { "name": name },
            "spec": { "nodeClassRef": class, "requirements": [] },
        });
        merge(&mut claim, more);
        let claim = self.add(claim).await;
        self.look().await;
        claim
    }

    /// A claim that has an instance `shop://NAME` and, if so said, a node of its name that is registered.
    pub(super) async fn add_launched(&self, name: &str, registered: bool, more: Value) -> NodeClaim {
        let id = format!("shop://{name}");
        let mut metadata = json!({ "metadata": { "finalizers": ["karpenter.sh/termination"] } });
        merge(&mut metadata, more);
        let claim = self.add_claim(name, metadata).await;
        let machine = instance(&id);
        self.shop.book().machines.insert(id.clone(), machine);
        self.shop.book().launched.insert(claim.uid().unwrap(), id.clone());
        let mut conditions = vec![self.condition("Launched", "True")];
        if registered {
            conditions.extend(["Registered", "Initialized", "Ready"].map(|type_| self.condition(type_, "True")));
            self.add_node(name, &id).await;
        }
        self.set_status(name, json!({ "providerID": id, "conditions": conditions, "capacity": { "cpu": "4" } })).await
    }

    /// A ready node of ours.
    pub(super) async fn add_node(&self, name: &str, provider_id: &str) -> Node {
        let labels = json!({
            "karpenter.kwok.sh/kwoknodeclass": "default", "karpenter.sh/registered": "true",
            "karpenter.sh/initialized": "true", "kubernetes.io/hostname": name,
        });
        let node = self
            .add(json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": { "name": name, "labels": labels, "finalizers": ["karpenter.sh/termination"] },
                "spec": { "providerID": provider_id },
            }))
            .await;
        self.set_ready(name, "True").await;
        node
    }

    pub(super) async fn set_ready(&self, node: &str, status: &str) {
        let ready = json!({ "type": "Ready", "status": status, "reason": "r", "message": "m" });
        let amounts = json!({ "cpu": "4", "memory": "8Gi", "pods": "110" });
        let status = json!({ "conditions": [ready], "capacity": amounts, "allocatable": amounts });
        self.set_status::<Node>(node, status).await;
    }

    /// A pod with one container, with what is said of it merged in.
    pub(super) async fn add_pod(&self, name: &str, more: Value) -> Pod {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": name } },
            "spec": { "containers": [{ "name": "main", "image": "none", "resources": { "requests": { "cpu": "1" } } }] },
        });
        merge(&mut pod, more);
        let pod = self.put(pod).await;
        self.look().await;
        pod
    }

    /// A pod that the scheduler found no place for.
    pub(super) async fn add_pending(&self, name: &str, more: Value) -> Pod {
        self.add_pod(name, more).await;
        let condition = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" });
        let api: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        let patch = Patch::Merge(json!({ "status": { "conditions": [condition] } }));
        let pod = api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
        self.look().await;
        pod
    }

    pub(super) async fn add_pool(&self, name: &str, more: Value) -> NodePool {
        let class = json!({ "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" });
        let mut pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": name },
            "spec": { "template": { "spec": { "nodeClassRef": class, "requirements": [] } } },
        });
        merge(&mut pool, more);
        let pool = self.add(pool).await;
        self.look().await;
        pool
    }

    /// A pool that may be used.
    pub(super) async fn add_ready_pool(&self, name: &str, more: Value) -> NodePool {
        self.add_pool(name, more).await;
        let conditions = ["ValidationSucceeded", "NodeClassReady", "Ready"].map(|type_| self.condition(type_, "True"));
        self.set_status(name, json!({ "conditions": conditions })).await
    }

    /// The next write to the status of an object of the kind gets lost on its way.
    pub(super) fn lose_status_write(&self, kind: &str) {
        let rule = Rule::new(Fault::RequestLost).kind(kind).verb(Verb::Patch).subresource("status").times(1);
        self.api.add_fault(rule);
    }

    /// The next writes of this kind meet somebody else's.
    pub(super) fn conflict(&self, kind: &str, subresource: &str, times: u64) {
        let rule = Rule::new(Fault::Conflict).kind(kind).verb(Verb::Patch).subresource(subresource).times(times);
        self.api.add_fault(rule);
    }

    /// Events that were said since the last look: reason and message.
    pub(super) fn events(&self) -> Vec<(String, String)> {
        self.ctx.report.events.take().into_iter().map(|(_, event)| (event.reason, event.message)).collect()
    }

    /// Events that were written: kind, name, reason and message.
    pub(super) async fn all_events(&self) -> Vec<(String, String, String, String)> {
        let written = self.all::<k8s_openapi::api::core::v1::Event>().await.into_iter().map(|event| {
            let about = event.involved_object;
            let text = |text: Option<String>| text.unwrap_or_default();
            (text(about.kind), text(about.name), text(event.reason), text(event.message))
        });
        written.collect()
    }

    pub(super) fn reasons(&self) -> Vec<String> {
        // What conditions say of themselves is told too; tests are about the rest.
        let told = self.events().into_iter().filter(|(_, message)| !message.starts_with("Status condition"));
        told.map(|(reason, _)| reason).filter(|reason| reason != "Finalized").collect()
    }

    pub(super) async fn lifecycle(&self, name: &str) -> Result<Requeue, ReconcileError> {
        let outcome = crate::nodeclaim_lifecycle::reconcile(self.ctx.clone(), name.to_owned()).await;
        self.look().await;
        outcome
    }

    pub(super) async fn terminate(&self, node: &str) -> Result<Requeue, ReconcileError> {
        let outcome = crate::node_termination::reconcile(self.ctx.clone(), node.to_owned()).await;
        self.look().await;
        outcome
    }
}

fn context(client: &Client, shop: &Arc<Shop>, clock: &Arc<TokioClock>, features: Features) -> Arc<Context> {
    let options = Options {
        policy: LabelPolicy::kwok([]),
        batching: Batching { idle: Duration::from_secs(1), longest: Duration::from_secs(10), siblings: true },
        planning: PlanningOptions::default(),
        cores: 1,
        observability: Observability::On,
        features,
    };
    Arc::new(Context::new(client.clone(), shop.clone(), clock.clone(), options))
}

/// Of a process that has seen nothing yet.
pub(super) fn context_of(desk: &Desk) -> Arc<Context> {
    context(&desk.client, &desk.shop, &desk.clock, desk.features.clone())
}

/// The same, with another way to the API.
pub(super) fn context_through(desk: &Desk, client: &Client) -> Arc<Context> {
    context(client, &desk.shop, &desk.clock, desk.features.clone())
}

/// Members of the second replace those of the first, objects member by member.
pub(super) fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

/// Status and reason of a condition.
pub(super) fn says<'a>(conditions: &'a [karpenter_api::kinds::Condition], type_: &str) -> (&'a str, &'a str) {
    let found = conditions.iter().find(|condition| condition.type_ == type_);
    found.map_or(("", ""), |condition| (condition.status.as_str(), condition.reason.as_str()))
}
