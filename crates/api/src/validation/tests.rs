#![expect(clippy::needless_pass_by_value, reason = "`json!` values are given inline")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn pool_with(template_spec: Value, labels: Value) -> NodePoolSpec {
    let mut spec = json!({ "requirements": [], "nodeClassRef": { "group": "g", "kind": "k", "name": "n" } });
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, template_spec) {
        spec.extend(more);
    }
    serde_json::from_value(json!({ "template": { "metadata": { "labels": labels }, "spec": spec } })).unwrap()
}

/// Errors as text, one per line, without the common path.
fn pool_errors(template_spec: Value, labels: Value) -> Vec<String> {
    let found = node_pool(&pool_with(template_spec, labels), &LabelPolicy::aws());
    found.errors.iter().map(|problem| problem.to_string().replace("spec.template.", "")).collect()
}

fn requirement_errors(requirement: Value) -> Vec<String> {
    let errors = pool_errors(json!({ "requirements": [requirement] }), json!({}));
    errors.iter().map(|error| error.replace("spec.requirements[0].", "")).collect()
}

/// API-64, API-132, API-133, API-134, LIF-91
#[test]
fn template_labels() {
    for (key, value, want) in [
        ("team", "web", ""),
        ("karpenter.sh/capacity-type", "spot", ""),
        ("karpenter.k8s.aws/instance-family", "m5", ""),
        ("kubernetes.io/other", "x", ""),
        ("karpenter.sh/nodepool", "x", "label \"karpenter.sh/nodepool\" is restricted"),
        ("karpenter.sh/other", "x", "label domain \"karpenter.sh\" is restricted"),
        ("sub.karpenter.k8s.aws/x", "x", "label domain \"karpenter.k8s.aws\" is restricted"),
        ("kubernetes.io/hostname", "x", "label \"kubernetes.io/hostname\" is restricted"),
        ("a b", "x", "key \"a b\" must have a name of letters"),
        ("team", "a b", "value \"a b\" must consist of letters"),
    ] {
        let errors = pool_errors(json!({}), json!({ key: value }));
        match want {
            "" => assert_eq!(errors, [""; 0], "{key}={value}"),
            want => {
                assert_eq!(errors.len(), 1, "{errors:?}");
                assert!(errors[0].starts_with(&format!("metadata.labels[{key}]: {want}")), "{errors:?}");
            }
        }
    }
}

/// API-15, API-65, API-317, LIF-91, LC-94: keys, values, effects, and duplicates over both lists.
#[test]
fn taints_of_both_lists() {
    let taint = |key: &str, value: &str, effect: &str| json!({ "key": key, "value": value, "effect": effect });
    for (name, taints, startup, want) in [
        ("fine", vec![taint("a", "", "NoSchedule"), taint("a", "x", "NoExecute")], vec![], ""),
        ("effect may be empty", vec![taint("a", "", "")], vec![], ""),
        ("no key", vec![taint("", "", "NoSchedule")], vec![], "spec.taints[0].key: key is missing"),
        (
            "bad key",
            vec![taint("a/b/c", "", "NoSchedule")],
            vec![],
            "spec.taints[0].key: key \"a/b/c\" must have a name",
        ),
        ("long key", vec![taint(&"a".repeat(64), "", "NoSchedule")], vec![], "spec.taints[0].key: key"),
        ("bad value", vec![taint("a", "b c", "NoSchedule")], vec![], "spec.taints[0].value: value \"b c\" must"),
        ("bad effect", vec![taint("a", "", "Never")], vec![], "spec.taints[0].effect: effect \"Never\" is not one of"),
        (
            "duplicate in one list",
            vec![taint("a", "", "NoSchedule"), taint("a", "x", "NoSchedule")],
            vec![],
            "spec.taints[1]: taint a:NoSchedule is given twice",
        ),
        (
            "duplicate across lists",
            vec![taint("a", "", "NoSchedule")],
            vec![taint("a", "", "NoSchedule")],
            "spec.startupTaints[0]: taint a:NoSchedule is given twice",
        ),
    ] {
        let errors = pool_errors(json!({ "taints": taints, "startupTaints": startup }), json!({}));
        match want {
            "" => assert_eq!(errors, [""; 0], "{name}"),
            want => assert!(errors.len() == 1 && errors[0].starts_with(want), "{name}: {errors:?}"),
        }
    }
}

/// API-17, API-66, API-67, API-132, API-137, AC-22, AWS-22, AWS-23, AWS-24, LIF-91: one requirement at a time.
#[test]
fn requirements_of_a_pool() {
    let many = |count: usize| (0..count).map(|i| format!("v{i}")).collect::<Vec<_>>();
    for (requirement, want) in [
        (json!({ "key": "team", "operator": "In", "values": ["a"] }), vec![]),
        (json!({ "key": "team", "operator": "Exists" }), vec![]),
        (json!({ "key": "team", "operator": "NotIn", "values": [] }), vec![]),
        (json!({ "key": "team", "operator": "DoesNotExist", "minValues": 9 }), vec![]),
        (json!({ "key": "team", "operator": "In" }), vec!["values: operator \"In\" needs a value"]),
        (
            json!({ "key": "team", "operator": "Near", "values": ["a"] }),
            vec![
                "operator: operator \"Near\" is not supported; use In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte",
            ],
        ),
        (
            json!({ "key": "team", "operator": "In", "values": many(2), "minValues": 3 }),
            vec!["minValues: minValues is 3, but only 2 values are listed"],
        ),
        (json!({ "key": "team", "operator": "In", "values": many(3), "minValues": 3 }), vec![]),
        (json!({ "key": "n", "operator": "Gt", "values": ["0"] }), vec![]),
        (json!({ "key": "n", "operator": "Lte", "values": ["7"] }), vec![]),
        (
            json!({ "key": "n", "operator": "Gt", "values": ["-1"] }),
            vec![
                "values: value \"-1\" must consist of letters, digits, '-', '_' and '.', beginning and ending with a letter or digit",
                "values: operator \"Gt\" needs exactly one integer value of 0 or more, got [\"-1\"]",
            ],
        ),
        (
            json!({ "key": "n", "operator": "Lt", "values": ["x"] }),
            vec!["values: operator \"Lt\" needs exactly one integer value of 0 or more, got [\"x\"]"],
        ),
        (
            json!({ "key": "n", "operator": "Gte", "values": ["1", "2"] }),
            vec!["values: operator \"Gte\" needs exactly one integer value of 0 or more, got [\"1\", \"2\"]"],
        ),
        (
            json!({ "key": "n", "operator": "Gt" }),
            vec!["values: operator \"Gt\" needs exactly one integer value of 0 or more, got []"],
        ),
        (
            json!({ "key": "karpenter.sh/nodepool", "operator": "Exists" }),
            vec!["key: label \"karpenter.sh/nodepool\" is restricted"],
        ),
        (
            json!({ "key": "karpenter.sh/x", "operator": "Exists" }),
            vec!["key: label domain \"karpenter.sh\" is restricted"],
        ),
        (
            json!({ "key": "kubernetes.io/hostname", "operator": "Exists" }),
            vec!["key: label \"kubernetes.io/hostname\" is restricted"],
        ),
        (
            json!({ "key": "karpenter.k8s.aws/ec2nodeclass", "operator": "Exists" }),
            vec!["key: label domain \"karpenter.k8s.aws\" is restricted"],
        ),
        (json!({ "key": "beta.kubernetes.io/arch", "operator": "In", "values": ["amd64"] }), vec![]),
        (json!({ "key": "topology.ebs.csi.aws.com/zone", "operator": "Exists" }), vec![]),
        (
            json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["nonsense"] }),
            vec![
                "values: none of the values [\"nonsense\"] of karpenter.sh/capacity-type is known; use [\"on-demand\", \"spot\", \"reserved\"]",
            ],
        ),
        (json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["nonsense", "spot"] }), vec![]),
        (json!({ "key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["nonsense"] }), vec![]),
        (
            json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["nonsense", "spot"], "minValues": 2 }),
            vec!["minValues: minValues is 2, but only 1 known values of karpenter.sh/capacity-type are listed"],
        ),
        (
            json!({ "key": "karpenter.k8s.aws/instance-tenancy", "operator": "In", "values": ["host"] }),
            vec![
                "values: none of the values [\"host\"] of karpenter.k8s.aws/instance-tenancy is known; use [\"default\", \"dedicated\"]",
            ],
        ),
        (
            json!({ "key": "karpenter.k8s.aws/instance-tenancy", "operator": "In", "values": ["host", "dedicated"] }),
            vec![],
        ),
    ] {
        assert_eq!(requirement_errors(requirement.clone()), want, "{requirement}");
    }
}

/// API-67, LIF-91, LC-94: unknown values among known ones are said but do no harm. API-347: so is a budget that can never limit.
#[test]
fn oddities_are_warnings() {
    let mut spec = pool_with(
        json!({ "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["cheap", "spot"] }] }),
        json!({}),
    );
    spec.disruption =
        serde_json::from_value(json!({ "budgets": [{ "nodes": "1" }, { "nodes": "0", "reasons": [] }] })).unwrap();
    let found = node_pool(&spec, &LabelPolicy::core());
    assert!(found.is_ok());
    let warnings: Vec<_> = found.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "spec.template.spec.requirements[0].values: values [\"cheap\"] of karpenter.sh/capacity-type are not known and ignored",
            "spec.disruption.budgets[1].reasons: an empty list of reasons is read as all of them, other readers may take it for none; leave it out to mean all",
        ]
    );
}

/// API-66, API-22: claims may name their pool; the class label passes the CRD and is refused here.
#[test]
fn claims_and_kwok() {
    let claim = |key: &str| {
        let requirements = json!([{ "key": key, "operator": "Exists" }]);
        let spec = json!({ "requirements": requirements, "nodeClassRef": { "group": "g", "kind": "k", "name": "n" },
            "taints": [{ "key": "", "effect": "NoSchedule" }] });
        node_claim(&serde_json::from_value(spec).unwrap(), &LabelPolicy::kwok([])).message()
    };
    assert_eq!(claim("karpenter.sh/nodepool"), "spec.taints[0].key: key is missing");
    assert_eq!(
        claim("karpenter.kwok.sh/kwoknodeclass"),
        "spec.taints[0].key: key is missing; spec.requirements[0].key: label domain \"karpenter.kwok.sh\" is restricted"
    );
}

/// API-88
#[test]
fn overlays() {
    let errors = |spec: Value| {
        let found = node_overlay(&serde_json::from_value(spec).unwrap(), &LabelPolicy::core());
        found.errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let requirement = |operator: &str, values: Value| json!([{ "key": "karpenter.sh/nodepool", "operator": operator, "values": values }]);
    assert_eq!(
        errors(json!({ "requirements": requirement("In", json!(["a"])), "capacity": { "example.com/x": 1 } })),
        [""; 0]
    );
    assert_eq!(
        errors(
            json!({ "requirements": requirement("NotIn", json!([])), "capacity": { "cpu": 1, "memory": 1, "pods": 1, "ephemeral-storage": 1 } })
        ),
        [
            "spec.requirements[0].values: operator \"NotIn\" needs a value",
            "spec.capacity[cpu]: resource \"cpu\" cannot be overlaid",
            "spec.capacity[ephemeral-storage]: resource \"ephemeral-storage\" cannot be overlaid",
            "spec.capacity[memory]: resource \"memory\" cannot be overlaid",
            "spec.capacity[pods]: resource \"pods\" cannot be overlaid",
        ]
    );
    assert_eq!(
        errors(json!({ "requirements": [{ "key": "karpenter.sh/x", "operator": "In", "values": ["a"] }] })),
        ["spec.requirements[0].key: label domain \"karpenter.sh\" is restricted"]
    );
}

proptest! {
    #[test]
    fn any_requirement_gets_an_answer(key in any::<String>(), operator in any::<String>(), values in any::<Vec<String>>(), min in any::<Option<i64>>()) {
        let given = Requirement { key, operator, values: Some(values), min_values: min };
        for operator in ["In", "Gt", &given.operator] {
            let given = Requirement { operator: operator.to_owned(), ..given.clone() };
            requirement(&mut Validation::default(), "r", &given, &LabelPolicy::aws(), PoolKey::Forbidden);
        }
    }
}
