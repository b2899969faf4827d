//! Text in, text out: manifests as YAML, findings as lines.

mod beta;
mod live;
mod provisioners;
mod templates;
mod workloads;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// The documents of a YAML text.
fn documents(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"))
}

fn convert_yaml(yaml: &str) -> Outcome {
    convert(&documents(yaml), &Options { role: Some("NodeRole".to_owned()), ..Options::default() })
}

fn findings(outcome: &Outcome, severity: Severity) -> Vec<String> {
    let wanted = outcome.findings.iter().filter(|finding| finding.severity == severity);
    wanted.map(|finding| format!("{} {}: {}", finding.object, finding.field, finding.message)).collect()
}

/// Errors, each `kind/name field: message`.
fn errors(yaml: &str) -> Vec<String> {
    findings(&convert_yaml(yaml), Severity::Error)
}

fn warnings(yaml: &str) -> Vec<String> {
    findings(&convert_yaml(yaml), Severity::Warning)
}

/// The one object of a kind in the output, which must be free of errors and valid for the API server's schema.
fn only(outcome: &Outcome, kind: &str) -> Value {
    assert_eq!(findings(outcome, Severity::Error), [""; 0]);
    let mut found = outcome.documents.iter().filter(|converted| converted.object["kind"] == kind);
    let first = found.next().unwrap_or_else(|| panic!("no {kind} in {:?}", outcome.documents));
    assert!(found.next().is_none(), "more than one {kind}");
    first.object.clone()
}

/// Objects that are already v1, or nobody's, come out as they went in; lists of them in single documents.
#[test]
fn other_documents_pass_unchanged() {
    let pool = json!({ "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "a", "uid": "u" },
        "spec": { "anything": [1, null] }, "status": {} });
    let claim =
        json!({ "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": { "name": "a" }, "spec": {} });
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "data": { "a": "b" } });
    let odd = [json!(null), json!([1]), json!("text"), json!({ "kind": 1 }), json!({})];
    let all: Vec<Value> = [pool, claim, secret].into_iter().chain(odd).collect();
    let outcome = convert(&all, &Options::default());
    let objects: Vec<Value> = outcome.documents.into_iter().map(|converted| converted.object).collect();
    assert_eq!(objects, all);
    assert_eq!(outcome.findings, []);
}

/// API-309: items of a list are converted one by one, each told about under its own name.
#[test]
fn lists_are_taken_apart() {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" } },
        { "apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": { "name": "p" }, "spec": { "providerRef": { "name": "t" } } },
    ] });
    let outcome = convert(&[list], &Options::default());
    let kinds: Vec<_> =
        outcome.documents.iter().map(|converted| (converted.document, converted.object["kind"].clone())).collect();
    assert_eq!(kinds, [(0, json!("Secret")), (0, json!("NodePool"))]);
    let typed = json!({ "apiVersion": "karpenter.sh/v1alpha5", "kind": "ProvisionerList", "items": [
        { "metadata": { "name": "p" }, "spec": { "providerRef": { "name": "t" } } } ] });
    assert_eq!(convert(&[typed], &Options::default()).documents[0].object["kind"], "NodePool");
}

/// API-309, API-311: a Machine cannot be converted; the others still are.
#[test]
fn one_bad_object_does_not_stop_the_others() {
    let yaml = "
apiVersion: karpenter.sh/v1alpha5
kind: Machine
metadata: { name: m }
---
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: { name: broken }
spec: { ttlSecondsAfterEmpty: soon }
---
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
spec: { providerRef: { name: t } }
---
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: { name: fine }
spec: { providerRef: { name: t } }
";
    let outcome = convert_yaml(yaml);
    assert!(outcome.has_errors());
    assert_eq!(outcome.documents.len(), 1);
    assert_eq!(outcome.documents[0].object["metadata"]["name"], "fine");
    let errors = findings(&outcome, Severity::Error);
    assert_eq!(errors.len(), 4, "{errors:?}");
    assert!(errors[0].starts_with("Machine/m : machines belong"));
    assert!(
        errors[1]
            .starts_with("Provisioner/broken spec.ttlSecondsAfterEmpty: invalid type: string \"soon\", expected i64"),
        "{errors:?}"
    );
    // Also what is wrong beside that.
    assert!(errors[2].starts_with("Provisioner/broken spec.providerRef: is required"), "{errors:?}");
    assert!(errors[3].starts_with("Provisioner/? metadata.name: is missing"), "{errors:?}");
}

/// API-343: the settings of old are explained.
#[test]
fn global_settings_are_explained() {
    let yaml = "
apiVersion: v1
kind: ConfigMap
metadata: { name: karpenter-global-settings }
data: { batchMaxDuration: 10s, aws.clusterName: c, featureGates.driftEnabled: 'true' }
";
    assert_eq!(
        warnings(yaml),
        [
            "ConfigMap/karpenter-global-settings data[aws.clusterName]: is not read in v1; set CLUSTER_NAME on the controller",
            "ConfigMap/karpenter-global-settings data[batchMaxDuration]: is not read in v1; set BATCH_MAX_DURATION on the controller",
            "ConfigMap/karpenter-global-settings data[featureGates.driftEnabled]: is not read in v1 and has no successor",
        ]
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from)
    ];
    let key = prop_oneof![
        proptest::sample::select(vec![
            "labels",
            "taints",
            "requirements",
            "key",
            "values",
            "operator",
            "provider",
            "providerRef",
            "name",
            "kind",
            "effect",
            "kubeletConfiguration",
            "systemReserved",
            "cpu",
            "limits",
            "resources",
            "subnetSelector",
            "aws-ids",
            "template",
            "spec",
            "metadata",
            "annotations",
            "disruption",
            "consolidateAfter",
            "blockDeviceMappings",
            "ebs",
            "volumeSize",
            "amiFamily",
            "tolerations",
            "affinity",
            "nodeAffinity",
            "karpenter.sh/do-not-evict",
            "nodeClassRef",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map(key.clone(), inner, 0..5).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    /// Whatever stands in a manifest: an answer, and no v1 object without a name.
    #[test]
    fn any_manifest_gets_an_answer(spec in any_json(), metadata in any_json(), which in 0..7_usize) {
        let (version, kind) = [
            ("karpenter.sh/v1alpha5", "Provisioner"), ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"), ("karpenter.sh/v1beta1", "NodePool"),
            ("karpenter.sh/v1beta1", "NodeClaim"), ("karpenter.k8s.aws/v1beta1", "EC2NodeClass"), ("v1", "Pod"), ("apps/v1", "Deployment"),
        ][which];
        let named = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "n" }, "spec": spec });
        let odd = json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec });
        let outcome = convert(&[named, odd], &Options::default());
        for converted in outcome.documents.iter().filter(|_| which < 5) {
            prop_assert!(converted.object["metadata"]["name"].as_str().is_some_and(|name| !name.is_empty()));
        }
    }
}
