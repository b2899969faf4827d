//! The CloudProvider itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use k8s_openapi::serde::Deserialize;
use k8s_openapi::serde::de::{DeserializeOwned, IgnoredAny};
use karpenter_api::convert;
use karpenter_api::instance_types::Catalogue;
use karpenter_api::kinds::{ConditionStatus, KWOKNodeClass, NodeClaim};
use karpenter_api::names::{LabelPolicy, conditions, kwok};
use karpenter_model::claim::{ClaimView, Status};
use karpenter_model::instance_type::{InstanceType, Offering};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pool::PoolView;
use karpenter_platform::{
    CallError, CloudProvider, CreateError, Instance, InstanceError, InstanceTypesError, NodeClassKind, RebootError,
    RepairAction, RepairPolicy,
};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Api, Client, Resource as _};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::node::{PROVIDER_PREFIX, draw, fake_node, node_name, resolved_labels};

/// Nodes of one answer: less than a megabyte, or what a large cluster needs at its peak would be such an answer.
const PAGE: u32 = 50;
/// A class that was read this long ago is as it was: hundreds of claims are launched at a time, and each reading costs the API
/// server as much as a node does.
const STILL_TRUE: Duration = Duration::from_secs(1);

/// Fake nodes through the Kubernetes API itself.
#[derive(Clone)]
pub struct KwokProvider {
    client: Client,
    types: Arc<Vec<InstanceType>>,
    policy: LabelPolicy,
    classes: [NodeClassKind; 1],
    /// What classes lately said, and when. Held while one is read, so that whoever comes meanwhile hears the same answer.
    delays: Arc<Mutex<BTreeMap<String, (Instant, Duration)>>>,
}

impl std::fmt::Debug for KwokProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KwokProvider").field("types", &self.types.len()).finish_non_exhaustive()
    }
}

/// What says whether a node is there. All else, images before all, is skipped where it stands.
#[derive(Deserialize)]
#[serde(crate = "k8s_openapi::serde")]
struct Presence {
    metadata: Ending,
    #[serde(default)]
    spec: Identity,
}

#[derive(Deserialize)]
#[serde(crate = "k8s_openapi::serde", rename_all = "camelCase")]
struct Ending {
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(crate = "k8s_openapi::serde")]
struct Identity {
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(crate = "k8s_openapi::serde")]
struct Page<N> {
    #[serde(default)]
    metadata: ListMeta,
    items: Vec<N>,
}

impl KwokProvider {
    /// What is wanted of each node. Page by page: ten thousand nodes as an API server sends them are hundreds of megabytes, and little
    /// of it is kept.
    async fn list_nodes<N, T>(&self, wanted: impl Fn(N) -> Option<T> + Send + Sync) -> Result<Vec<T>, CallError>
    where
        N: DeserializeOwned + Send,
        T: Send,
    {
        let mut found = Vec::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let request = Request::new(Node::url_path(&(), None)).list(&page);
            let request = request.map_err(|error| CallError::new("list Nodes", error))?;
            let nodes: Page<N> = match self.client.request(request).await {
                Ok(nodes) => nodes,
                // The list has become too old to be continued: from the start, in one piece.
                Err(kube::Error::Api(status)) if status.code == 410 && page.continue_token.is_some() => {
                    found.clear();
                    page = ListParams::default();
                    continue;
                }
                Err(error) => return Err(CallError::new("list Nodes", error)),
            };
            found.extend(nodes.items.into_iter().filter_map(&wanted));
            match nodes.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page.continue_token = Some(token),
                None => return Ok(found),
            }
        }
    }

    pub fn new(client: Client, catalogue: Catalogue) -> Self {
        Self {
            client,
            types: Arc::new(catalogue.types),
            policy: catalogue.policy,
            classes: [NodeClassKind {
                group: kwok::GROUP.to_owned(),
                version: "v1alpha1".to_owned(),
                kind: "KWOKNodeClass".to_owned(),
                plural: "kwoknodeclasses".to_owned(),
            }],
            delays: Arc::default(),
        }
    }

    /// What manifests may say about labels on this provider.
    pub fn label_policy(&self) -> LabelPolicy {
        self.policy.clone()
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// The cheapest type and offering among those the claim names (API-280); among equal ones chance decides, as the claim
    /// draws it. Types without a usable offering, or too small for the claim, are passed over; resources that a type says nothing about are laid over it (SCH-179), and the
    /// node gets them (API-283).
    fn choose(&self, claim: &ClaimView) -> Result<(&InstanceType, &Offering), CreateError> {
        let explained = |message: String| CreateError::Explained { reason: "LaunchFailed".to_owned(), message };
        let named = claim.requirements.get(labels::INSTANCE_TYPE);
        let named = named.ok_or_else(|| explained(format!("nodeclaim {} names no instance type", claim.name)))?;
        if let Some(unknown) = named.values().find(|name| !self.types.iter().any(|known| known.name == **name)) {
            return Err(explained(format!("instance type {unknown:?} is unknown")));
        }
        let cheapest = self
            .types
            .iter()
            .filter(|known| {
                named.has(&known.name) && claim.requests.named_in(&known.capacity).fits(&known.allocatable())
            })
            .filter_map(|known| {
                let offerings = known.launchable_offerings(&claim.requirements, self.policy.rules());
                let cheapest = offerings.first()?.price;
                let equal = offerings.iter().take_while(|offering| offering.price == cheapest).count();
                Some((known, offerings[draw(claim, equal)]))
            })
            .min_by(|(a, x), (b, y)| (x.price, &a.name).cmp(&(y.price, &b.name)));
        cheapest.ok_or_else(|| {
            CreateError::InsufficientCapacity(format!("no instance type has an offering for nodeclaim {}", claim.name))
        })
    }

    /// How long to wait before the node joins.
    async fn registration_delay(&self, class: &str) -> Result<Duration, CreateError> {
        let mut known = self.delays.lock().await;
        if let Some((_, delay)) = known.get(class).filter(|(read, _)| read.elapsed() < STILL_TRUE) {
            return Ok(*delay);
        }
        known.remove(class);
        let delay = self.read_delay(class).await?;
        known.insert(class.to_owned(), (Instant::now(), delay));
        Ok(delay)
    }

    /// As the class says now. A missing class is a lack of capacity (API-282).
    async fn read_delay(&self, class: &str) -> Result<Duration, CreateError> {
        let api: Api<KWOKNodeClass> = Api::all(self.client.clone());
        let found = api.get_opt(class).await.map_err(|error| CallError::new("get KWOKNodeClass", error))?;
        let found = found
            .ok_or_else(|| CreateError::InsufficientCapacity(format!("KWOKNodeClass {class:?} does not exist")))?;
        let ready = found.status.iter().flat_map(|status| status.conditions.iter().flatten());
        if ready.clone().any(|c| c.type_ == conditions::READY && c.status == ConditionStatus::False) {
            return Err(CreateError::NodeClassNotReady(format!("KWOKNodeClass {class:?} is not ready")));
        }
        let Some(text) = found.spec.node_registration_delay else { return Ok(Duration::ZERO) };
        let delay = text.parse().map_err(|error| CreateError::Explained {
            reason: "LaunchFailed".to_owned(),
            message: format!("KWOKNodeClass {class:?} spec.nodeRegistrationDelay: {error}"),
        })?;
        Ok(delay.as_signed().try_into().unwrap_or(Duration::ZERO))
    }
}

#[async_trait]
impl CloudProvider for KwokProvider {
    fn name(&self) -> &'static str {
        "kwok"
    }

    fn node_classes(&self) -> &[NodeClassKind] {
        &self.classes
    }

    fn label_rules(&self) -> &LabelRules {
        self.policy.rules()
    }

    async fn create(&self, claim: &ClaimView) -> Result<Instance, CreateError> {
        let (instance_type, offering) = self.choose(claim)?;
        let delay = self.registration_delay(&claim.node_class.name).await?;
        let node = fake_node(claim, instance_type, offering);
        if delay.is_zero() {
            join(&self.nodes(), &node).await.map_err(|error| CallError::new("create Node", error))?;
        } else {
            tokio::spawn(join_later(self.client.clone(), claim.name.clone(), node, delay));
        }
        Ok(Instance {
            provider_id: format!("{PROVIDER_PREFIX}{}", node_name(claim)),
            image_id: None,
            labels: resolved_labels(claim, instance_type, offering),
            annotations: std::collections::BTreeMap::new(),
            capacity: instance_type.capacity.clone(),
            allocatable: instance_type.allocatable(),
            terminating: false,
        })
    }

    async fn delete(&self, claim: &ClaimView) -> Result<(), InstanceError> {
        let id = claim.provider_id.clone().unwrap_or_default();
        if let Some(name) = id.strip_prefix(PROVIDER_PREFIX) {
            match self.nodes().delete(name, &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(CallError::new("delete Node", error).into()),
            }
        }
        // There is nothing behind the Node that could still be running (API-285).
        Err(InstanceError::NotFound(id))
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, InstanceError> {
        let not_found = || InstanceError::NotFound(provider_id.to_owned());
        let name = provider_id.strip_prefix(PROVIDER_PREFIX).ok_or_else(not_found)?;
        let node = self.nodes().get_opt(name).await.map_err(|error| CallError::new("get Node", error))?;
        let living = node.filter(|node| node.metadata.deletion_timestamp.is_none());
        living.as_ref().map(instance).ok_or_else(not_found)
    }

    /// The name follows from the claim, so the node is found without the claim knowing it.
    async fn find(&self, claim: &ClaimView) -> Result<Option<Instance>, CallError> {
        let node = self.nodes().get_opt(&node_name(claim)).await.map_err(|error| CallError::new("get Node", error))?;
        Ok(node.as_ref().map(instance))
    }

    async fn list(&self) -> Result<Vec<Instance>, CallError> {
        self.list_nodes(|node: Node| provider_id(&node).is_some_and(|id| is_ours(id)).then(|| instance(&node))).await
    }

    async fn running(&self) -> Result<BTreeSet<String>, CallError> {
        let id = |Presence { metadata, spec }| match metadata {
            Ending { deletion_timestamp: None } => spec.provider_id.filter(|id| is_ours(id)),
            Ending { deletion_timestamp: Some(_) } => None,
        };
        Ok(self.list_nodes(id).await?.into_iter().collect())
    }

    async fn instance_types(&self, _pool: &PoolView) -> Result<Arc<Vec<InstanceType>>, InstanceTypesError> {
        Ok(self.types.clone())
    }

    /// V15-120.
    fn repair_policies(&self) -> Vec<RepairPolicy> {
        let policy = |condition: (&str, Status), expression: &str, toleration, grace, action| RepairPolicy {
            condition_type: condition.0.to_owned(),
            condition_status: condition.1,
            reason_expression: expression.to_owned(),
            toleration,
            termination_grace_period: Some(grace),
            priority: 0,
            action,
        };
        let (seconds, minutes) = (Duration::from_secs, Duration::from_mins);
        let (replace, reboot) = (RepairAction::ReplaceNode, RepairAction::RebootNode);
        vec![
            policy(("Ready", Status::False), "", minutes(10), Duration::ZERO, replace),
            policy(("Ready", Status::Unknown), ".*", minutes(10), Duration::ZERO, replace),
            policy(("KWOKUnhealthy", Status::True), ".*", seconds(30), seconds(45), replace),
            policy(("KWOKRebootRequired", Status::True), ".*", seconds(30), minutes(1), reboot),
        ]
    }

    /// There is no machine: a new boot ID is all there is to see of a reboot, and it follows from the operation, so that
    /// one operation reboots once (V15-121).
    async fn reboot(&self, claim: &ClaimView, operation_id: &str) -> Result<(), RebootError> {
        let unnamed = || CallError::new("reboot", format!("nodeclaim {} has no node yet", claim.name));
        let name = claim.node_name.as_deref().ok_or_else(unnamed)?;
        let patch = serde_json::json!({"status": {"nodeInfo": {"bootID": format!("kwok-{operation_id}")}}});
        let patched = self.nodes().patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map_err(|error| CallError::new("patch Node", error))?;
        Ok(())
    }
}

fn is_ours(provider_id: &str) -> bool {
    provider_id.starts_with(PROVIDER_PREFIX)
}

fn provider_id(node: &Node) -> Option<&String> {
    node.spec.as_ref()?.provider_id.as_ref()
}

fn instance(node: &Node) -> Instance {
    let view = convert::node(node).view;
    Instance {
        provider_id: view.provider_id.unwrap_or_default(),
        image_id: None,
        labels: view.labels.to_map(),
        annotations: node.metadata.annotations.clone().unwrap_or_default(),
        capacity: view.capacity.into_inner(),
        allocatable: view.allocatable.into_inner(),
        terminating: view.deleting_since.is_some(),
    }
}

/// Creates the node; one that is there already is the one we wanted.
async fn join(nodes: &Api<Node>, node: &Node) -> Result<(), kube::Error> {
    match nodes.create(&PostParams::default(), node).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(error) => Err(error),
    }
}

/// A claim that went away meanwhile gets no node.
async fn join_later(client: Client, claim: String, node: Node, delay: Duration) {
    tokio::time::sleep(delay).await;
    let claims: Api<NodeClaim> = Api::all(client.clone());
    let wanted = match claims.get_opt(&claim).await {
        Ok(found) => found.is_some_and(|found| found.metadata.deletion_timestamp.is_none()),
        Err(error) => {
            tracing::warn!(nodeclaim = %claim, %error, "could not look the nodeclaim up before its node joins");
            true
        }
    };
    if wanted && let Err(error) = join(&Api::all(client), &node).await {
        tracing::error!(nodeclaim = %claim, %error, "could not create the node");
    }
}
