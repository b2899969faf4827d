use std::collections::BTreeMap;

use karpenter_api::names::{LabelPolicy, aws};
use karpenter_model::claim::ClaimView;
use karpenter_model::example;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::requirements::Requirement;
use serde_json::{Value, json};

use super::fleet::{client_token, fleet_request};
use super::tags::{effective_tags, fleet_tags, restricted_tag, template_tags};
use super::templates::{LaunchFacts, Template, TemplateError, templates};
use crate::class::NodeClass;
use crate::cloud::{FleetRequest, LaunchTemplateRequest};
use crate::fixtures::{class_with, sold};
use crate::instance_types::{Evaluated, PlacementGroup};
use crate::user_data::Cluster;

/// A launch to be changed by a test: two images, a claim of pool `default`.
struct Launch {
    class: NodeClass,
    cluster: Cluster,
    region: &'static str,
    claim: ClaimView,
    capacity_type: &'static str,
    tenancy: &'static str,
    group: Option<PlacementGroup>,
    gate: bool,
    evaluated: BTreeMap<String, Evaluated>,
    rules: LabelRules,
    types: Vec<&'static str>,
    left: Vec<(&'static str, u32)>,
}

fn image(id: &str, arch: &str, more: &[(&str, &str)]) -> Value {
    let requirement = |key: &str, operator: &str| json!({"key": key, "operator": operator});
    let mut all = vec![json!({"key": labels::ARCH, "operator": "In", "values": [arch]})];
    all.extend(more.iter().map(|(key, operator)| requirement(key, operator)));
    json!({"id": id, "requirements": all})
}

fn images() -> Value {
    let standard = [(aws::INSTANCE_GPU_COUNT, "DoesNotExist"), (aws::INSTANCE_ACCELERATOR_COUNT, "DoesNotExist")];
    json!([
        image("ami-amd", "amd64", &standard),
        image("ami-arm", "arm64", &standard),
        image("ami-gpu", "amd64", &[(aws::INSTANCE_GPU_COUNT, "Exists")]),
    ])
}

fn launch(spec: &Value) -> Launch {
    launch_with(spec, &json!({}))
}

fn launch_with(spec: &Value, status: &Value) -> Launch {
    let mut status = status.clone();
    status["amis"] = images();
    let mut claim = example::claim("default-abcde");
    claim.pool = Some("default".to_owned());
    claim.labels.insert(labels::NODEPOOL.to_owned(), "default".to_owned());
    Launch {
        class: class_with(spec, &status),
        cluster: Cluster {
            name: "test-cluster".to_owned(),
            endpoint: "https://test-cluster".to_owned(),
            ca_bundle: Some("Y2E=".to_owned()),
            service_cidr: Some("10.100.0.0/16".to_owned()),
            dns: Some("10.100.0.10".parse().unwrap()),
        },
        region: "us-west-2",
        claim,
        capacity_type: labels::CAPACITY_TYPE_ON_DEMAND,
        tenancy: "default",
        group: None,
        gate: true,
        evaluated: BTreeMap::new(),
        rules: LabelPolicy::aws().rules().clone(),
        types: vec!["m5.large"],
        left: Vec::new(),
    }
}

impl Launch {
    fn facts(&self) -> LaunchFacts<'_> {
        LaunchFacts {
            class: &self.class,
            cluster: &self.cluster,
            region: self.region,
            claim: &self.claim,
            capacity_type: self.capacity_type,
            tenancy: self.tenancy,
            placement_group: self.group.as_ref(),
            reserved_capacity: self.gate,
            evaluated: &self.evaluated,
            rules: &self.rules,
        }
    }

    fn types(&self) -> Vec<InstanceType> {
        sold(&self.types, &self.class, &self.left)
    }

    fn templates(&self) -> Vec<Template> {
        templates(&self.types(), &self.facts()).unwrap()
    }

    fn template(&self) -> Template {
        let mut all = self.templates();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    fn fleet(&self) -> FleetRequest {
        let zones = crate::fixtures::ZONES;
        let subnets: BTreeMap<String, String> =
            (0..3).map(|at| (zones[at].0.to_owned(), format!("subnet-test{}", at + 1))).collect();
        fleet_request(&self.templates(), &subnets, &self.facts()).unwrap()
    }

    fn requiring(mut self, key: &str, values: &[&str]) -> Self {
        self.claim.requirements.add(Requirement::any_of(key, values.iter().copied()));
        self
    }

    fn requesting(mut self, name: &str) -> Self {
        self.claim.requests.set(name, karpenter_model::quantity::Quantity::units(1));
        self
    }
}

/// A request with nothing in it but a name.
pub(crate) fn request(name: &str) -> LaunchTemplateRequest {
    LaunchTemplateRequest { name: name.to_owned(), ..launch(&json!({})).template().request }
}

fn default_metadata() -> Value {
    json!({"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1, "httpTokens": "required"})
}

mod fleets;
mod launch_templates;
mod wiring;

/// AWS-155, AWS-156, AWS-241, AC-196, AC-195: whose tags count, and where they go.
#[test]
fn tags() {
    let own = json!({"tags": {"Name": "x", "team": "y", "karpenter.sh/nodepool": "z"}});
    let launch = launch(&own);
    let tags = effective_tags(&launch.class, "my.cluster", "default");
    let text: Vec<String> = tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(
        text,
        [
            "Name=x",
            "eks:eks-cluster-name=my.cluster",
            "karpenter.k8s.aws/ec2nodeclass=default",
            "karpenter.sh/nodepool=default",
            "kubernetes.io/cluster/my.cluster=owned",
            "team=y",
        ]
    );
    assert_eq!(effective_tags(&launch.class, "c", "")["karpenter.sh/nodepool"], "", "dry runs");
    let kinds = |all: Vec<crate::cloud::TagSpecification>| all.iter().map(|one| one.resource_type).collect::<Vec<_>>();
    assert_eq!(kinds(fleet_tags(&tags)), ["instance", "volume", "fleet"]);
    assert!(fleet_tags(&tags).iter().all(|one| one.tags == tags));
    assert_eq!(kinds(template_tags(&tags, false)), ["network-interface"]);
    assert_eq!(kinds(template_tags(&tags, true)), ["network-interface", "spot-instances-request"]);
}

/// AC-87, AWS-102: tags that rights go by are not the user's to set.
#[test]
fn restricted_tags() {
    for (key, restricted) in [
        ("Name", false),
        ("kubernetes.io/cluster/foo", true),
        ("kubernetes.io/clusters", true),
        ("eks:eks-cluster-name", true),
        ("karpenter.sh/nodepool", true),
        ("karpenter.sh/nodeclaim", true),
        ("karpenter.k8s.aws/ec2nodeclass", true),
        ("kubernetes.io/role", false),
    ] {
        let launch = launch(&json!({"tags": {key: "x"}}));
        assert_eq!(restricted_tag(&launch.class), restricted.then_some(key), "{key}");
    }
}
