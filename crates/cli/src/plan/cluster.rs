//! The cluster that manifests describe.

mod buffers;
mod consolidation;
mod overlays;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, ReplicaSetSpec, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    Namespace, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use karpenter_api::convert::{self, Converted};
use karpenter_api::instance_types::Catalogue;
use karpenter_api::kinds::{EC2NodeClass, KWOKNodeClass, NodeClaim, NodePool};
use karpenter_api::settings::DefaultConstraint;
use karpenter_model::buffer::BufferView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::LabelRules;
use karpenter_model::pod::PodView;
use karpenter_model::snapshot::{PoolOffer, Snapshot};
use karpenter_model::workloads::WorkloadView;
use karpenter_schema::FieldPath;
use karpenter_state::{Change, ClusterState, VolumeChange, WorkloadChange};
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::overlays::Overlays;
use super::fields;
use super::workloads::{self, Expanded, Running, name, namespace, text};
use crate::manifests::Document;

/// The annotation of the storage class that claims without one get.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// What the manifests say, and what could not be understood.
pub(super) struct Cluster<'d> {
    state: ClusterState,
    catalogue: &'d Catalogue,
    instance_types: Arc<Vec<InstanceType>>,
    running: Running,
    /// The newest that says so, as the API server picks it.
    default_class: Option<String>,
    /// Volume claims that are given or made.
    claims: BTreeSet<(String, String)>,
    /// Where each object was first given.
    seen: BTreeMap<(String, String, String), String>,
    overlays: Overlays,
    /// Instance types of pools that overlays say something about.
    overlaid: BTreeMap<String, Arc<Vec<InstanceType>>>,
    buffers: Vec<BufferView>,
    /// PodDisruptionBudgets that nobody has judged yet.
    unjudged: Vec<PodDisruptionBudget>,
    /// Pods that stand for room that buffers keep.
    virtual_pods: Vec<Arc<PodView>>,
    /// What is wrong: `file:line kind/name field: message`.
    pub(super) problems: Vec<String>,
    /// What is good to know.
    pub(super) notes: Vec<String>,
    /// How many objects of other kinds there were.
    pub(super) skipped: BTreeMap<String, usize>,
}

/// One object and where it is from.
struct Given<'d> {
    document: &'d Document,
    object: Value,
}

impl Given<'_> {
    fn place(&self, path: &FieldPath) -> String {
        format!("{}:{}", self.document.file, self.document.tree.line_of(path))
    }

    /// `Pod/default/web` or `NodePool/default`.
    fn title(&self) -> String {
        let kind = text(&self.object, &["kind"]);
        match text(&self.object, &["metadata", "namespace"]) {
            "" => format!("{kind}/{}", name(&self.object)),
            space => format!("{kind}/{space}/{}", name(&self.object)),
        }
    }
}

impl<'d> Cluster<'d> {
    /// `spread` is what pods without constraints of their own are spread by.
    pub(super) fn read(documents: &'d [Document], catalogue: &'d Catalogue, spread: &[DefaultConstraint]) -> Self {
        let spread = convert::default_spread(spread, catalogue.policy.rules());
        let mut cluster = Self {
            state: ClusterState::default().with_default_spread(spread),
            catalogue,
            instance_types: Arc::new(catalogue.types.clone()),
            running: Running::default(),
            default_class: None,
            claims: BTreeSet::new(),
            seen: BTreeMap::new(),
            overlays: Overlays::default(),
            overlaid: BTreeMap::new(),
            buffers: Vec::new(),
            unjudged: Vec::new(),
            virtual_pods: Vec::new(),
            problems: Vec::new(),
            notes: Vec::new(),
            skipped: BTreeMap::new(),
        };
        let given = documents.iter().map(|document| Given { document, object: document.tree.to_value() });
        let mut given: Vec<Given<'_>> = given.collect();
        given.retain(|one| cluster.is_object(one));
        // What workloads and claims are made of depends on objects that may be given later.
        cluster.default_class = default_class(&given);
        for one in &given {
            cluster.running.note(&one.object);
            if text(&one.object, &["kind"]) == "PersistentVolumeClaim" {
                cluster.claims.insert((namespace(&one.object).to_owned(), name(&one.object).to_owned()));
            }
        }
        for one in &given {
            cluster.add(one);
        }
        // What these are about may be given after them.
        for one in given.iter().filter(|one| text(&one.object, &["kind"]) == "CapacityBuffer") {
            cluster.add_buffer(one, &given);
        }
        cluster.lay_overlays();
        cluster
    }

    /// Whether it has a kind and a name, and is given for the first time.
    fn is_object(&mut self, given: &Given<'_>) -> bool {
        if !given.object.is_object() {
            self.problems.push(format!("{}: this is no object", given.place(&FieldPath::root())));
            return false;
        }
        let kind = text(&given.object, &["kind"]);
        let missing =
            [("apiVersion", &["apiVersion"][..]), ("kind", &["kind"]), ("metadata.name", &["metadata", "name"])]
                .into_iter()
                .filter(|(_, path)| text(&given.object, path).is_empty());
        let missing: Vec<&str> = missing.map(|(field, _)| field).collect();
        for field in &missing {
            self.problem(given, &FieldPath::root(), field, "is missing or no text");
        }
        if !missing.is_empty() {
            return false;
        }
        let space = text(&given.object, &["metadata", "namespace"]).to_owned();
        let key = (kind.to_owned(), space, name(&given.object).to_owned());
        if let Some(first) = self.seen.get(&key) {
            let message = format!("is given twice, first in {first}");
            self.problem(given, &FieldPath::root(), "metadata.name", message);
            return false;
        }
        self.seen.insert(key, given.place(&FieldPath::root()));
        true
    }

    fn rules(&self) -> &'d LabelRules {
        self.catalogue.policy.rules()
    }

    fn add(&mut self, given: &Given<'_>) {
        let (version, kind) = (text(&given.object, &["apiVersion"]), text(&given.object, &["kind"]));
        match (version, kind) {
            ("karpenter.sh/v1", "NodePool") => self.add_pool(given),
            ("karpenter.sh/v1", "NodeClaim") => {
                let rules = self.rules();
                self.apply(
                    given,
                    |claim: &NodeClaim| convert::claim(claim, rules),
                    |view| Change::Claim(Arc::new(view)),
                );
            }
            ("karpenter.sh/v1alpha1", "NodeOverlay") => self.add_overlay(given),
            // They are added when everything that they may refer to is known.
            ("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer") => {}
            ("v1", "PodTemplate") => drop(self.parse::<PodTemplate>(given)),
            ("v1", "Service") => {
                if let Some(mut service) = self.parse::<Service>(given) {
                    service.metadata.namespace = Some(namespace(&given.object).to_owned());
                    let view = Arc::new(convert::service(&service));
                    self.state.apply(Change::Workload(WorkloadChange::Service(view)));
                }
            }
            ("v1", "Node") => self.apply(given, convert::node, |view| Change::Node(Arc::new(view))),
            ("apps/v1", "DaemonSet") => {
                let rules = self.rules();
                let view = |daemon: &DaemonSet| convert::daemon_set(&in_namespace(daemon), rules);
                self.apply(given, view, |view| Change::Daemon(Arc::new(view)));
            }
            ("v1", "Namespace") => {
                if let Some(space) = self.parse::<Namespace>(given) {
                    let labels = space.metadata.labels.unwrap_or_default();
                    self.state.apply(Change::Namespace(name(&given.object).to_owned(), labels));
                }
            }
            ("v1", "PersistentVolumeClaim") => {
                if let Some(claim) = self.parse::<PersistentVolumeClaim>(given) {
                    self.add_claim(&claim, namespace(&given.object));
                }
            }
            ("v1", "PersistentVolume") => {
                let rules = self.rules();
                let view = |volume: &PersistentVolume| convert::volume(volume, rules);
                self.apply(given, view, |view| Change::Volume(VolumeChange::Volume(Arc::new(view))));
            }
            ("storage.k8s.io/v1", "StorageClass") => {
                let class = self.parse::<StorageClass>(given);
                let view = class.map(|class| convert::storage_class(&class, self.rules()));
                self.change_volumes(view.map(|view| VolumeChange::Class(Arc::new(view))));
            }
            ("storage.k8s.io/v1", "CSINode") => {
                let node = self.parse::<CSINode>(given);
                self.change_volumes(node.map(|node| VolumeChange::CsiNode(Arc::new(convert::csi_node(&node)))));
            }
            ("storage.k8s.io/v1", "VolumeAttachment") => {
                let known = self.parse::<VolumeAttachment>(given);
                let view = known.map(|attachment| Arc::new(convert::attachment(&attachment)));
                self.change_volumes(view.map(VolumeChange::Attachment));
            }
            // A plan takes every class as ready; what is wrong with them is told all the same.
            ("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass") => drop(self.parse::<KWOKNodeClass>(given)),
            ("karpenter.k8s.aws/v1", "EC2NodeClass") => drop(self.parse::<EC2NodeClass>(given)),
            ("policy/v1", "PodDisruptionBudget") => self.add_budget(given),
            (old, "NodeOverlay" | "CapacityBuffer") => {
                let message = format!(
                    "{old} is not known; NodeOverlays are karpenter.sh/v1alpha1, CapacityBuffers autoscaling.x-k8s.io/v1beta1"
                );
                self.problem(given, &FieldPath::root().field("apiVersion"), "apiVersion", message);
            }
            (old, "NodePool" | "NodeClaim" | "Provisioner" | "AWSNodeTemplate" | "EC2NodeClass" | "KWOKNodeClass") => {
                let message = format!("{old} is not planned with; karpenter convert makes v1 of older versions");
                self.problem(given, &FieldPath::root().field("apiVersion"), "apiVersion", message);
            }
            _ => self.add_workload(given),
        }
    }

    /// Reads the object, notes what is wrong with it, and applies what it says.
    fn apply<K: DeserializeOwned, V>(
        &mut self,
        given: &Given<'_>,
        view: impl FnOnce(&K) -> Converted<V>,
        change: impl FnOnce(V) -> Change,
    ) {
        let Some(kind) = self.parse::<K>(given) else { return };
        let converted = view(&kind);
        self.note_problems(given, &converted, "");
        self.state.apply(change(converted.view));
    }

    fn change_volumes(&mut self, change: Option<VolumeChange>) {
        if let Some(change) = change {
            self.state.apply(Change::Volume(change));
        }
    }

    fn add_pool(&mut self, given: &Given<'_>) {
        let Some(pool) = self.parse::<NodePool>(given) else { return };
        let converted = convert::pool(&pool, self.rules());
        self.note_problems(given, &converted, "");
        let mut view = converted.view;
        // Nobody has judged the pool yet; one that was read completely can be used.
        view.ready = view.hash.is_some();
        if view.replicas.is_some() {
            self.notes.push(format!("{} has a fixed number of nodes, so no pods are planned onto it", given.title()));
        }
        self.state.apply(Change::Pool(Arc::new(view)));
    }

    fn add_claim(&mut self, claim: &PersistentVolumeClaim, space: &str) {
        let mut view = convert::volume_claim(claim);
        view.id.namespace = space.into();
        if view.class.is_none() && view.volume.is_none() {
            view.class.clone_from(&self.default_class);
        }
        self.state.apply(Change::Volume(VolumeChange::Claim(Arc::new(view))));
    }

    fn add_workload(&mut self, given: &Given<'_>) {
        let kind = text(&given.object, &["kind"]);
        match workloads::pods(&given.object, &mut self.running) {
            None => *self.skipped.entry(kind.to_owned()).or_default() += 1,
            Some(Err(wrong)) => {
                self.problem(given, &fields::path(wrong.field), wrong.field, wrong.message);
            }
            Some(Ok(expanded)) => {
                if self.is_readable(given) {
                    self.add_pods(given, &expanded);
                }
            }
        }
    }

    /// Whether the workload itself is what it should be; its template is read as a pod.
    fn is_readable(&mut self, given: &Given<'_>) -> bool {
        match text(&given.object, &["kind"]) {
            // Its pods count as those of a ReplicaSet of the same name.
            "Deployment" => self.parse::<Deployment>(given).is_some_and(|known| {
                let spec = known.spec.map(|spec| ReplicaSetSpec { selector: spec.selector, ..Default::default() });
                let set = ReplicaSet { metadata: known.metadata, spec, ..Default::default() };
                self.note_workload(given, convert::replica_set(&set))
            }),
            "ReplicaSet" => self
                .parse::<ReplicaSet>(given)
                .is_some_and(|known| self.note_workload(given, convert::replica_set(&known))),
            "StatefulSet" => self
                .parse::<StatefulSet>(given)
                .is_some_and(|known| self.note_workload(given, convert::stateful_set(&known))),
            "ReplicationController" => self.parse::<ReplicationController>(given).is_some_and(|known| {
                let view = convert::replication_controller(&known);
                self.note_workload(given, Converted { view, problems: Vec::new() })
            }),
            "Job" => self.parse::<Job>(given).is_some(),
            _ => self.parse::<Pod>(given).is_some(),
        }
    }

    /// Whom the pods of the workload are spread with when there are default constraints.
    fn note_workload(&mut self, given: &Given<'_>, converted: Converted<WorkloadView>) -> bool {
        self.note_problems(given, &converted, "");
        let mut view = converted.view;
        view.id.namespace = namespace(&given.object).into();
        self.state.apply(Change::Workload(WorkloadChange::Workload(Arc::new(view))));
        true
    }

    fn add_pods(&mut self, given: &Given<'_>, expanded: &Expanded) {
        if workloads::is_gated(&expanded.template) && !expanded.names.is_empty() {
            self.notes.push(format!("{} waits for its scheduling gates and is not planned", given.title()));
        }
        let prefix = if text(&given.object, &["kind"]) == "Pod" { "" } else { "spec.template." };
        if expanded.is_uniform() {
            // The template is read once, however many pods there are of it.
            let Ok(pod) = fields::read::<Pod>(&expanded.template) else { return };
            let converted = convert::pod(&pod, self.rules());
            self.note_problems(given, &converted, prefix);
            for pod_name in &expanded.names {
                let mut one = converted.view.clone();
                one.id.name = pod_name.into();
                one.uid = format!("{}/{pod_name}", one.id.namespace).into();
                self.state.apply(Change::Pod(Arc::new(one)));
            }
            return;
        }
        for (index, pod_name) in expanded.names.iter().enumerate() {
            let (pod, claims) = expanded.pod(pod_name);
            for claim in claims {
                let key = (namespace(&claim).to_owned(), name(&claim).to_owned());
                if self.claims.insert(key)
                    && let Ok(claim) = fields::read::<PersistentVolumeClaim>(&claim)
                {
                    self.add_claim(&claim, namespace(&given.object));
                }
            }
            let Ok(pod) = fields::read::<Pod>(&pod) else { return };
            let converted = convert::pod(&pod, self.rules());
            if index == 0 {
                self.note_problems(given, &converted, prefix);
            }
            let mut one = converted.view;
            one.uid = format!("{}/{pod_name}", one.id.namespace).into();
            self.state.apply(Change::Pod(Arc::new(one)));
        }
    }

    fn parse<K: DeserializeOwned>(&mut self, given: &Given<'_>) -> Option<K> {
        match fields::read(&given.object) {
            Ok(kind) => Some(kind),
            Err(wrong) => {
                for one in wrong {
                    let field = one.path.to_string();
                    self.problem(given, &one.path, &field, one.message);
                }
                None
            }
        }
    }

    fn problem(&mut self, given: &Given<'_>, path: &FieldPath, field: &str, message: impl Display) {
        self.problems.push(format!("{} {} {field}: {message}", given.place(path), given.title()));
    }

    fn note_problems<T>(&mut self, given: &Given<'_>, converted: &Converted<T>, prefix: &str) {
        for problem in &converted.problems {
            let field = format!("{prefix}{}", problem.field);
            self.problem(given, &fields::path(&field), &field, &problem.message);
        }
    }

    /// Those that could be resolved.
    pub(super) fn buffers(&self) -> &[BufferView] {
        &self.buffers
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let offers = self.state.pools().into_iter().filter(|pool| pool.is_schedulable()).map(|pool| PoolOffer {
            usage: self.state.usage(&pool.name),
            instance_types: self.overlaid.get(&pool.name).unwrap_or(&self.instance_types).clone(),
            pool,
        });
        let mut pending = self.state.pending_pods();
        pending.extend(self.virtual_pods.iter().map(|pod| (pod.id.clone(), self.state.planned(pod))));
        Snapshot {
            pools: offers.collect(),
            nodes: self.state.nodes(),
            pending,
            daemons: self.state.daemons(),
            namespaces: self.state.namespaces().clone(),
            ..Snapshot::default()
        }
    }
}

/// The newest class that is marked as the default; equally old ones by name.
fn default_class(given: &[Given<'_>]) -> Option<String> {
    let marked = given.iter().map(|one| &one.object).filter(|object| {
        text(object, &["kind"]) == "StorageClass" && text(object, &["metadata", "annotations", DEFAULT_CLASS]) == "true"
    });
    let newest =
        marked.max_by_key(|object| (text(object, &["metadata", "creationTimestamp"]), std::cmp::Reverse(name(object))));
    newest.map(|object| name(object).to_owned())
}

fn in_namespace(daemon: &DaemonSet) -> DaemonSet {
    let mut daemon = daemon.clone();
    let written = daemon.metadata.namespace.take().filter(|name| !name.is_empty());
    daemon.metadata.namespace = Some(written.unwrap_or_else(|| "default".to_owned()));
    daemon
}
