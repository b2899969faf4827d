//! An API in the process, an account in memory, and the controllers of AWS between them. Time is paused.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use karpenter_api::kinds::{Condition, EC2NodeClass, NodeClaim, NodePool};
use karpenter_api::names::LabelPolicy;
use karpenter_apiserver::{Api as Embedded, Options as ApiOptions};
use karpenter_aws::cloud::{ClusterInfo, ImageInfo, SecurityGroupInfo, SubnetInfo, Tags};
use karpenter_aws::kubelet_checks::Definition;
use karpenter_aws::user_data::Cluster;
use karpenter_aws_controllers::{Aws, Options, Services, act};
use karpenter_controllers::{Batching, Context, Features, Observability, PlanningOptions};
use karpenter_platform::{Clock as _, TokioClock};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::account::Account;
use super::mortal::Mortal;
use super::provider::{Names, Provider, ZONES};

pub(crate) struct Desk {
    pub(crate) api: Embedded,
    pub(crate) client: Client,
    pub(crate) clock: Arc<TokioClock>,
    pub(crate) account: Arc<Account>,
    pub(crate) provider: Arc<Provider>,
    pub(crate) aws: Arc<Aws>,
    options: Options,
    features: Features,
    running: JoinHandle<()>,
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.running.abort();
    }
}

pub(crate) fn options() -> Options {
    Options {
        region: "us-west-2".to_owned(),
        cluster: Cluster {
            name: "cluster".to_owned(),
            endpoint: "https://cluster.example.com".to_owned(),
            ca_bundle: Some("Y2E=".to_owned()),
            service_cidr: None,
            dns: "10.0.100.10".parse().ok(),
        },
        kubernetes_version: "1.32".to_owned(),
        isolated_vpc: false,
        disable_dry_run: false,
        reserved_capacity: true,
        eks_control_plane: true,
        zonal_shift: None,
        ami_refresh_interval: SignedDuration::from_mins(1),
        subnet_refresh_interval: SignedDuration::from_mins(1),
        definition: Definition::Usual,
        kubelet_expressions: false,
    }
}

pub(crate) fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn image(id: &str, architecture: &str, created: i64) -> ImageInfo {
    ImageInfo {
        id: id.to_owned(),
        name: format!("name-{id}"),
        architecture: architecture.to_owned(),
        created: jiff::Timestamp::from_second(created).ok(),
        deprecated: None,
    }
}

/// An account with a subnet in each zone, a group, two images and a role.
fn account() -> Account {
    let account = Account::default();
    {
        let mut state = account.state();
        let discovery = tags(&[("karpenter.sh/discovery", "cluster")]);
        for (at, (zone, id)) in ZONES.iter().enumerate() {
            let subnet = SubnetInfo {
                id: format!("subnet-{}", at + 1),
                zone: (*zone).to_owned(),
                zone_id: Some((*id).to_owned()),
                free_addresses: 100,
            };
            state.subnets.push((subnet, discovery.clone()));
        }
        let group = SecurityGroupInfo { id: "sg-1".to_owned(), name: Some("nodes".to_owned()) };
        state.groups.push((group, discovery));
        state.images = vec![image("ami-amd", "x86_64", 100), image("ami-arm", "arm64", 200)];
        for (arch, id) in [("x86_64", "ami-amd"), ("arm64", "ami-arm")] {
            let name =
                format!("/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/{arch}/standard/recommended/image_id");
            state.parameters.insert(name, id.to_owned());
        }
        state.roles = vec!["node-role".to_owned(), "other-role".to_owned()];
        state.cluster = ClusterInfo {
            arn: "arn:aws:eks:us-west-2:123456789012:cluster/cluster".to_owned(),
            version: "1.32".to_owned(),
            service_cidr: Some("10.100.0.0/16".to_owned()),
            ..ClusterInfo::default()
        };
    }
    account
}

impl Desk {
    pub(crate) async fn start() -> Self {
        Self::with(options()).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        Self::with_features(options, Features::default()).await
    }

    pub(crate) async fn with_features(options: Options, features: Features) -> Self {
        let clock = Arc::new(TokioClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        let of_api = clock.clone();
        let api = Embedded::new(ApiOptions { clock: Arc::new(move || of_api.now()), ..ApiOptions::default() });
        let client = Client::new(api.clone(), "default");
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        for mut definition in karpenter_api::crd::all() {
            let open = options.definition == Definition::OpenKubelet;
            if open && definition["spec"]["names"]["kind"] == "EC2NodeClass" {
                definition = karpenter_api::crd::ec2_node_class_with_open_kubelet();
            }
            let definition = serde_json::from_value(definition).unwrap();
            crds.create(&PostParams::default(), &definition).await.unwrap();
        }
        let account = Arc::new(account());
        let provider = Arc::new(Provider::new(account.clone(), clock.clone()));
        let (aws, running) = process(&client, &clock, &account, &provider, &options, &features);
        let desk = Self { api, client, clock, account, provider, aws, options, features, running };
        desk.look().await;
        desk
    }

    /// Another process takes over: it knows nothing but what is in the API and in the account.
    pub(crate) async fn restart(&mut self) {
        self.running.abort();
        self.provider = Arc::new(Provider::new(self.account.clone(), self.clock.clone()));
        (self.aws, self.running) =
            process(&self.client, &self.clock, &self.account, &self.provider, &self.options, &self.features);
        self.look().await;
    }

    /// The process dies.
    pub(crate) fn kill(&self) {
        self.running.abort();
    }

    pub(crate) async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Until the watches have brought everything and the controllers have done what follows from it.
    pub(crate) async fn look(&self) {
        self.wait(2).await;
    }

    pub(crate) async fn add<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Clone + Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let added = api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        self.look().await;
        added
    }

    pub(crate) async fn change<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let changed = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        self.look().await;
        changed
    }

    pub(crate) async fn set_status<K>(&self, name: &str, status: Value) -> K
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({ "status": status }));
        let changed = api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
        self.look().await;
        changed
    }

    pub(crate) async fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        api.delete(name, &DeleteParams::default()).await.unwrap();
        self.look().await;
    }

    pub(crate) async fn get<K>(&self, name: &str) -> Option<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
    {
        Api::all(self.client.clone()).get_opt(name).await.unwrap()
    }

    /// A class with the usual selectors; members of `spec` replace its own.
    pub(crate) async fn add_class(&self, name: &str, spec: Value) -> EC2NodeClass {
        let discovery = json!([{ "tags": { "karpenter.sh/discovery": "cluster" } }]);
        let mut class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": { "name": name },
            "spec": {
                "amiSelectorTerms": [{ "alias": "al2023@latest" }], "role": "node-role",
                "subnetSelectorTerms": discovery, "securityGroupSelectorTerms": discovery,
            },
        });
        merge(&mut class["spec"], spec);
        self.add::<EC2NodeClass>(class).await;
        self.class(name).await
    }

    pub(crate) async fn class(&self, name: &str) -> EC2NodeClass {
        self.get(name).await.unwrap()
    }

    pub(crate) async fn add_pool(&self, name: &str, requirements: Value) -> NodePool {
        let class = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" });
        self.add(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": name },
            "spec": { "template": { "spec": { "nodeClassRef": class, "requirements": requirements } } },
        }))
        .await
    }

    /// A claim of the class `default`, with what is said of its metadata merged in.
    pub(crate) async fn add_claim(&self, name: &str, metadata: Value) -> NodeClaim {
        let class = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" });
        let mut claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": { "name": name, "finalizers": ["karpenter.sh/termination"] },
            "spec": { "nodeClassRef": class, "requirements": [] },
        });
        merge(&mut claim["metadata"], metadata);
        self.add(claim).await
    }

    /// A claim with an instance `i-NAME` in the first zone, and a registered node of its name.
    pub(crate) async fn add_running(&self, name: &str, labels: &[(&str, &str)]) -> NodeClaim {
        let mut all = json!({
            "karpenter.sh/nodepool": "pool", "karpenter.sh/capacity-type": "spot",
            "node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "test-zone-1a",
            "karpenter.k8s.aws/ec2nodeclass": "default",
        });
        for (key, value) in labels {
            all[*key] = json!(value);
        }
        let id = format!("aws:///test-zone-1a/i-{name}");
        self.add_claim(name, json!({ "labels": all })).await;
        all["karpenter.sh/registered"] = json!("true");
        self.add::<Node>(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": all },
            "spec": { "providerID": id },
        }))
        .await;
        let condition = |type_: &str| {
            json!({ "type": type_, "status": "True", "reason": type_, "message": "",
                "lastTransitionTime": self.clock.now(), "observedGeneration": 1 })
        };
        let conditions = ["Launched", "Registered", "Initialized", "Ready"].map(condition);
        let status = json!({ "providerID": id, "nodeName": name, "conditions": conditions, "imageID": "ami-amd" });
        self.set_status(name, status).await
    }

    pub(crate) async fn claim(&self, name: &str) -> NodeClaim {
        self.get(name).await.unwrap()
    }

    pub(crate) async fn is_going(&self, claim: &str) -> bool {
        self.claim(claim).await.metadata.deletion_timestamp.is_some()
    }

    /// Events that were said since the last look: kind, name, reason and message; conditions speak for themselves.
    pub(crate) fn events(&self) -> Vec<String> {
        let told = self.aws.ctx.report.events.take().into_iter().map(|(_, event)| event);
        let told = told.filter(|event| !event.message.starts_with("Status condition") && event.reason != "Finalized");
        told.map(|event| {
            format!(
                "{} {}/{}: {}: {}",
                event.type_, event.subject.kind, event.subject.name, event.reason, event.message
            )
        })
        .collect()
    }
}

fn process(
    client: &Client,
    clock: &Arc<TokioClock>,
    account: &Arc<Account>,
    provider: &Arc<Provider>,
    options: &Options,
    features: &Features,
) -> (Arc<Aws>, JoinHandle<()>) {
    let of_core = karpenter_controllers::Options {
        policy: LabelPolicy::aws(),
        batching: Batching { idle: Duration::from_secs(1), longest: Duration::from_secs(10), siblings: true },
        planning: PlanningOptions::default(),
        cores: 1,
        observability: Observability::On,
        features: features.clone(),
    };
    let ctx = Arc::new(Context::new(client.clone(), Arc::new(Names(provider.clone())), clock.clone(), of_core));
    let services = Services {
        reads: account.clone(),
        writes: account.clone(),
        iam: Arc::new(Mortal(account.clone())),
        lookups: account.clone(),
        queue: Some(account.clone()),
    };
    let aws = Aws::new(ctx.clone(), services, provider.clone(), options.clone());
    let acting = act(aws.clone());
    let running = tokio::spawn(async move {
        tokio::join!(karpenter_controllers::watch(ctx), acting);
    });
    (aws, running)
}

/// Members of the second replace those of the first, objects member by member; null removes.
pub(crate) fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                if value.is_null() {
                    into.remove(&key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, more) => *into = more,
    }
}

/// Status and reason of a condition.
pub(crate) fn says<'a>(conditions: &'a [Condition], type_: &str) -> (&'a str, &'a str) {
    let found = conditions.iter().find(|condition| condition.type_ == type_);
    found.map_or(("", ""), |condition| (condition.status.as_str(), condition.reason.as_str()))
}
