//! Round trips and kind metadata. The shape of each type comes from its derived schema, so a new field is covered by
//! itself.

mod agreement;
mod any_object;
mod fixtures;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::{CustomResourceExt, Resource};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

/// Schema of [`Time`], which has none of its own without a further feature of its crate.
pub(crate) struct DateTime;

impl schemars::JsonSchema for DateTime {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DateTime".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time" })
    }
}

fn schema_of<T: schemars::JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::openapi3().with(|s| s.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

fn through<T: Serialize + DeserializeOwned>(written: &Value) -> Value {
    let typed: T = serde_json::from_value(written.clone()).unwrap_or_else(|error| panic!("{error}: {written}"));
    serde_json::to_value(typed).unwrap()
}

macro_rules! round_trips {
    ($($name:ident: $type:ty),+ $(,)?) => { proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        $(#[test] fn $name(written in any_object::of(&schema_of::<$type>())) {
            prop_assert_eq!(through::<$type>(&written), written);
        })+
    } };
}

round_trips! {
    nodepool_specs_survive: NodePoolSpec,
    nodepool_statuses_survive: NodePoolStatus,
    nodeclaim_specs_survive: NodeClaimSpec,
    nodeclaim_statuses_survive: NodeClaimStatus,
    nodeoverlay_specs_survive: NodeOverlaySpec,
    nodeoverlay_statuses_survive: NodeOverlayStatus,
    capacitybuffer_specs_survive: CapacityBufferSpec,
    capacitybuffer_statuses_survive: CapacityBufferStatus,
    ec2nodeclass_specs_survive: EC2NodeClassSpec,
    ec2nodeclass_statuses_survive: EC2NodeClassStatus,
    kwoknodeclass_specs_survive: KWOKNodeClassSpec,
    kwoknodeclass_statuses_survive: KWOKNodeClassStatus,
    provisioner_specs_survive: ProvisionerSpec,
    provisioner_statuses_survive: provisioner::ProvisionerStatus,
    awsnodetemplate_specs_survive: AWSNodeTemplateSpec,
    awsnodetemplate_statuses_survive: awsnodetemplate::AWSNodeTemplateStatus,
}

/// API-11, API-12, API-34, API-310, AWS-1, AWS-256: names, scope and subresources of each kind.
#[test]
fn kinds_have_their_published_names() {
    fn row<K: Resource<DynamicType = ()> + CustomResourceExt>() -> String {
        let spec = K::crd().spec;
        let version = &spec.versions[0];
        let sub = version.subresources.clone().unwrap_or_default();
        let scale = sub.scale.map(|s| format!(" {}->{}", s.spec_replicas_path, s.status_replicas_path));
        format!(
            "{}/{} {} {} short={} in={} {} status={}{}",
            K::group(&()),
            K::version(&()),
            K::kind(&()),
            K::plural(&()),
            spec.names.short_names.unwrap_or_default().join(","),
            spec.names.categories.unwrap_or_default().join(","),
            spec.scope,
            sub.status.is_some(),
            scale.unwrap_or_default(),
        )
    }
    let table = [
        row::<NodePool>(),
        row::<NodeClaim>(),
        row::<NodeOverlay>(),
        row::<CapacityBuffer>(),
        row::<KWOKNodeClass>(),
        row::<EC2NodeClass>(),
        row::<Provisioner>(),
        row::<AWSNodeTemplate>(),
    ];
    insta::assert_snapshot!(table.join("\n"), @r"
    karpenter.sh/v1 NodePool nodepools short= in=karpenter Cluster status=true .spec.replicas->.status.nodes
    karpenter.sh/v1 NodeClaim nodeclaims short= in=karpenter Cluster status=true
    karpenter.sh/v1alpha1 NodeOverlay nodeoverlays short=overlays in=karpenter Cluster status=true
    autoscaling.x-k8s.io/v1beta1 CapacityBuffer capacitybuffers short=cb in=autoscaling Namespaced status=true
    karpenter.kwok.sh/v1alpha1 KWOKNodeClass kwoknodeclasses short=kwoknc,kwokncs in=karpenter Cluster status=true
    karpenter.k8s.aws/v1 EC2NodeClass ec2nodeclasses short=ec2nc,ec2ncs in=karpenter Cluster status=true
    karpenter.sh/v1alpha5 Provisioner provisioners short= in=karpenter Cluster status=true
    karpenter.k8s.aws/v1alpha1 AWSNodeTemplate awsnodetemplates short= in=karpenter Cluster status=true
    ");
}

/// API-223, AWS-28, API-46, API-47: absent and explicitly empty stay different.
#[test]
fn empty_is_not_absent() {
    let reference = json!({ "group": "g", "kind": "k", "name": "n" });
    for spec in [
        json!({ "requirements": [], "nodeClassRef": reference }),
        json!({ "requirements": [], "nodeClassRef": reference, "taints": [] }),
        json!({ "requirements": [], "nodeClassRef": reference, "taints": [], "startupTaints": [] }),
    ] {
        assert_eq!(through::<nodepool::NodeClaimTemplateSpec>(&spec), spec);
    }
    for metadata in [json!({}), json!({ "labels": {} }), json!({ "annotations": {}, "labels": {} })] {
        assert_eq!(through::<nodepool::TemplateMetadata>(&metadata), metadata);
    }
    for disruption in [json!({}), json!({ "budgets": [] }), json!({ "budgets": [{ "nodes": "1", "reasons": [] }] })] {
        assert_eq!(through::<nodepool::Disruption>(&disruption), disruption);
    }
    for kubelet in [json!({}), json!({ "clusterDNS": [], "systemReserved": {} })] {
        assert_eq!(through::<ec2nodeclass::KubeletConfiguration>(&kubelet), kubelet);
    }
}

/// API-10: text with a grammar of its own never makes an object unreadable.
#[test]
fn malformed_text_is_read_and_kept() {
    let spec = json!({
        "template": { "spec": {
            "requirements": [{ "key": "k", "operator": "Near", "values": ["x"], "minValues": -3 }],
            "nodeClassRef": { "group": "g/v1", "kind": "", "name": "n" },
            "taints": [{ "key": "", "effect": "Sometimes" }],
            "expireAfter": "never", "terminationGracePeriod": "-1x",
        } },
        "disruption": { "consolidateAfter": "5 min", "consolidationPolicy": "Odd",
            "budgets": [{ "nodes": "101%", "schedule": "@dailyx", "duration": "1d", "reasons": ["Foo"] }] },
        "limits": { "cpu": "1 000", "memory": "1gb" },
    });
    assert_eq!(through::<NodePoolSpec>(&spec), spec);
    assert!(serde_json::from_value::<NodePoolSpec>(spec).unwrap().limits.unwrap()["cpu"].parse().is_err());
}

/// API-30, API-31: conditions of older NodeClaims lack reason and message; an unheard-of status means unknown.
#[test]
fn sparse_conditions_are_readable() {
    let condition: Condition = serde_json::from_value(
        json!({ "type": "Launched", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z" }),
    )
    .unwrap();
    assert_eq!((condition.reason.as_str(), condition.message.as_str()), ("", ""));
    assert_eq!(condition.observed_generation, None);
    assert_eq!(condition.last_transition_time, Time("2024-01-01T00:00:00Z".parse().unwrap()));
    assert!(condition.is_true() && !condition.is_false());
    for (text, want) in
        [("True", ConditionStatus::True), ("False", ConditionStatus::False), ("Maybe", ConditionStatus::Unknown)]
    {
        assert_eq!(serde_json::from_value::<ConditionStatus>(json!(text)).unwrap(), want);
        assert_eq!(serde_saphyr::from_str::<ConditionStatus>(text).unwrap(), want);
    }
    assert_eq!(json!(ConditionStatus::Unknown), json!("Unknown"));
}

/// API-312: unknown members of the free-form `provider` are kept, nested ones too.
#[test]
fn free_form_provider_keeps_unknown_members() {
    let spec =
        json!({ "provider": { "apiVersion": "extensions.karpenter.sh/v1alpha1", "future": { "a": [1, null, {}] } } });
    assert_eq!(through::<ProvisionerSpec>(&spec), spec);
}

/// API-112: kinds whose CRD does not require a spec are read without one; the others are not.
#[test]
fn a_spec_may_be_missing_where_the_crd_says_so() {
    fn reads<K: DeserializeOwned + Resource<DynamicType = ()>>() -> bool {
        let crd = crate::crd::find(&K::group(&()), &K::version(&()), &K::kind(&())).unwrap();
        let schema = &crd.manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let required = schema["required"].as_array().is_some_and(|names| names.contains(&json!("spec")));
        let object = json!({"apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": {"name": "bare"}});
        let read = serde_json::from_value::<K>(object).is_ok();
        assert_eq!(read, !required, "{}", K::kind(&()));
        read
    }
    assert!(reads::<KWOKNodeClass>() && reads::<CapacityBuffer>());
    assert!(reads::<Provisioner>() && reads::<AWSNodeTemplate>());
    assert!(!reads::<NodePool>() && !reads::<NodeClaim>() && !reads::<NodeOverlay>() && !reads::<EC2NodeClass>());
}
