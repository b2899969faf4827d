use karpenter_api::names::LabelPolicy;
use karpenter_model::example;
use karpenter_model::pool::TemplateHash;
use karpenter_model::requirements::Operator;
use karpenter_model::taints::Effect;

use super::*;

fn rules() -> LabelRules {
    LabelPolicy::kwok([]).rules().clone()
}

fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
    Requirement::new(&rules(), key, operator, &values, None).unwrap()
}

fn pool() -> PoolView {
    PoolView {
        labels: BTreeMap::from([
            ("k1".into(), "v1".into()),
            (labels::NODEPOOL.into(), "blue".into()),
            ("example.com/exampleclass".into(), "default".into()),
        ]),
        annotations: BTreeMap::from([("karpenter.sh/do-not-disrupt".into(), "true".into())]),
        hash: Some(TemplateHash { value: 42, version: "v3".into() }),
        ..example::pool("blue")
    }
}

fn order(pool: PoolView, requirements: impl IntoIterator<Item = Requirement>) -> ClaimOrder {
    ClaimOrder {
        pool: Arc::new(pool),
        requirements: requirements.into_iter().collect(),
        requests: Resources::new().with("cpu", Quantity::units(1)),
        min_values_relaxed: false,
        drivers: Vec::new(),
        replaces: None,
    }
}

/// SCH-215, SC-339: the drivers that pods of this node need, and no other's.
#[test]
fn drivers_are_named() {
    let key = "karpenter.sh/requested-dra-drivers";
    let with = ClaimOrder { drivers: vec!["a.example.com".into(), "b.example.com".into()], ..order(pool(), []) };
    assert_eq!(node_claim(&with, &rules(), None).annotations()[key], "a.example.com,b.example.com");
    assert!(!node_claim(&order(pool(), []), &rules(), None).annotations().contains_key(key));
}

/// SCH-219, SCH-223, SC-328, SC-329, SC-330, SC-332, SC-338, LIF-4, API-72, API-230.
#[test]
fn a_claim_knows_where_it_comes_from() {
    let relaxed = ClaimOrder { min_values_relaxed: true, ..order(pool(), []) };
    let claim = node_claim(&relaxed, &rules(), None);
    assert_eq!(claim.metadata.generate_name.as_deref(), Some("blue-"));
    let [owner] = claim.owner_references() else { panic!("one owner") };
    assert_eq!((&*owner.kind, &*owner.name, &*owner.uid), ("NodePool", "blue", "uid-of-blue"));
    assert_eq!((owner.block_owner_deletion, owner.controller), (Some(true), None));
    let annotations = claim.annotations();
    assert_eq!(annotations["karpenter.sh/nodepool-hash"], "42");
    assert_eq!(annotations["karpenter.sh/nodepool-hash-version"], "v3");
    assert_eq!(annotations["karpenter.sh/nodeclaim-min-values-relaxed"], "true");
    assert_eq!(annotations["karpenter.sh/do-not-disrupt"], "true");
    assert_eq!(claim.labels()["example.com/exampleclass"], "default");
    let class = &claim.spec.node_class_ref;
    assert_eq!((&*class.group, &*class.kind, &*class.name), ("example.com", "ExampleClass", "default"));
}

/// Taints of the pool, and no list where it has none.
#[test]
fn taints_are_written_where_there_are_any() {
    let tainted = |list: &[Taint], startup: &[Taint]| {
        let pool = PoolView { taints: list.to_vec(), startup_taints: startup.to_vec(), ..pool() };
        let spec = serde_json::to_value(&node_claim(&order(pool, []), &rules(), None).spec).unwrap();
        (spec.get("taints").cloned(), spec.get("startupTaints").cloned())
    };
    let taint = Taint::new("team", "", Effect::NoSchedule);
    let written = Some(serde_json::json!([{"key": "team", "effect": "NoSchedule"}]));
    assert_eq!(tainted(&[], &[]), (None, None));
    assert_eq!(tainted(std::slice::from_ref(&taint), &[]), (written.clone(), None));
    assert_eq!(tainted(&[], &[taint]), (None, written));
}

/// SCH-220, SC-323, SC-325, SC-326, SC-14, API-75: one label per custom requirement, none for what the provider resolves.
#[test]
fn requirements_become_labels() {
    let wanted = [
        requirement("k2", Operator::In, &["v2"]),
        requirement("k3", Operator::NotIn, &["v3"]),
        requirement("k4", Operator::Lt, &["4"]),
        requirement("k5", Operator::Gt, &["5"]),
        requirement("k6", Operator::Exists, &[]),
        requirement("k7", Operator::DoesNotExist, &[]),
        requirement("subdomain.kubernetes.io/test", Operator::In, &["v"]),
        requirement(labels::WINDOWS_BUILD, Operator::NotIn, &["x"]),
        requirement(labels::ZONE, Operator::In, &["z1"]),
    ];
    let claim = node_claim(&order(pool(), wanted), &rules(), None);
    let got = claim.labels();
    assert_eq!((&*got["k1"], &*got["k2"], &*got["subdomain.kubernetes.io/test"]), ("v1", "v2", "v"));
    assert_ne!(got["k3"], "v3");
    assert!(got["k4"].parse::<i64>().unwrap() < 4 && got["k5"].parse::<i64>().unwrap() > 5);
    assert!(got.contains_key("k6") && !got.contains_key("k7"));
    assert!(!got.contains_key(labels::WINDOWS_BUILD) && !got.contains_key(labels::ZONE));
    assert_eq!(got[labels::NODEPOOL], "blue");
}

/// SCH-221, SCH-225, LC-107, API-74: what only a pass pretends is not asked for; a static pool asks for its template.
#[test]
fn requirements_are_rendered() {
    let wanted = [
        requirement(labels::REGISTERED, Operator::In, &["true"]),
        requirement("k", Operator::In, &["b", "a"]),
        requirement("n", Operator::Gt, &["2"]),
    ];
    let entries = |order: &ClaimOrder| {
        let claim = node_claim(order, &rules(), None);
        let all = claim.spec.requirements.iter();
        all.map(|r| format!("{} {} {}", r.key, r.operator, r.values.clone().unwrap_or_default().join(","))).collect()
    };
    let got: Vec<String> = entries(&order(pool(), wanted.clone()));
    assert_eq!(got, ["k In a,b", "n Gte 3"]);
    let template = PoolView { requirements: wanted.into_iter().collect(), ..pool() };
    let order = ClaimOrder::from_template(&Arc::new(template));
    assert_eq!(entries(&order), got);
    assert_eq!(node_claim(&order, &rules(), None).spec.resources, None);
}

/// SCH-224, SC-331.
#[test]
fn grace_periods_have_a_default() {
    let hours = |hours: i64| GoDuration::from_secs(hours * 3600);
    for (own, default, want) in [
        (None, None, None),
        (None, Some(hours(98)), Some("98h0m0s")),
        (Some(hours(223)), Some(hours(47)), Some("223h0m0s")),
    ] {
        let pool = PoolView { termination_grace_period: own, ..pool() };
        let claim = node_claim(&order(pool, []), &rules(), default);
        assert_eq!(claim.spec.termination_grace_period.map(|text| text.0).as_deref(), want);
    }
}

/// SCH-218, SC-334, API-51: usage above the limit is refused, at the limit it is not.
#[test]
fn limits_are_checked_once_more() {
    let cpu = |units| Resources::new().with("cpu", Quantity::units(units));
    let limited = PoolView { limits: cpu(20), ..pool() };
    assert!(check_limits(&limited, &cpu(20)).is_ok());
    let error = check_limits(&limited, &cpu(100)).unwrap_err();
    assert_eq!(error.to_string(), "nodepool blue has 100 of cpu, its limit is 20");
    assert!(check_limits(&pool(), &cpu(100)).is_ok());
}
