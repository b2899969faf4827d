use karpenter_api::names::LabelPolicy;
use karpenter_model::requirements::Requirement;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{class_with, sold};

fn object(conditions: &[(&str, &str)], tags: &Value) -> EC2NodeClass {
    let condition = |(kind, status): &(&str, &str)| json!({"type": kind, "status": status, "reason": "x", "message": "", "lastTransitionTime": "2026-11-16T04:00:00Z"});
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": [], "securityGroupSelectorTerms": [],
            "role": "r", "tags": tags,
        },
        "status": {"conditions": conditions},
    }))
    .unwrap()
}

fn early(conditions: &[(&str, &str)], tags: &Value) -> Option<Verdict> {
    let object = object(conditions, tags);
    dependencies_verdict(&object).or_else(|| tags_verdict(&NodeClass::read(&object).unwrap()))
}

const READY: [(&str, &str); 4] = [
    ("AMIsReady", "True"),
    ("InstanceProfileReady", "True"),
    ("SecurityGroupsReady", "True"),
    ("SubnetsReady", "True"),
];

/// AWS-102, AWS-287, AC-87, AC-288: dependencies before tags, False before Unknown.
#[test]
fn verdicts_without_calls() {
    assert_eq!(early(&READY, &json!({})), None);
    let bad = json!({"kubernetes.io/cluster/foo": "x"});
    let Some(Verdict::Failed { reason, message }) = early(&READY, &bad) else { panic!() };
    assert_eq!(reason, "TagValidationFailed");
    assert!(message.contains("kubernetes.io/cluster/foo"), "{message}");
    let mut unready = READY;
    unready[3].1 = "Unknown";
    assert!(matches!(early(&unready, &bad), Some(Verdict::Unknown { reason: NOT_READY, .. })));
    unready[0].1 = "False";
    let Some(Verdict::Failed { reason, message }) = early(&unready, &bad) else { panic!() };
    assert_eq!((reason, message.as_str()), (NOT_READY, AWAITING));
    assert!(matches!(early(&READY[..3], &json!({})), Some(Verdict::Unknown { .. })), "never judged is not known");
    let with_group: Vec<_> = READY.into_iter().chain([("PlacementGroupReady", "False")]).collect();
    assert_eq!(early(&with_group, &json!({})), None, "not a dependency");
}

/// AWS-107, AWS-287, AC-102, AC-103, AC-105, AC-106, AC-107, AC-111.
#[test]
fn outcomes() {
    let of = |check, code: &str, message: &str| outcome(check, Err(ApiError::new(code, message)));
    assert_eq!(outcome(Check::CreateFleet, Ok(())), Outcome::Allowed);
    assert_eq!(of(Check::CreateFleet, "DryRunOperation", "would have succeeded"), Outcome::Allowed);
    for (check, reason, action) in [
        (Check::CreateLaunchTemplate, "CreateLaunchTemplateAuthCheckFailed", "ec2:CreateLaunchTemplate"),
        (Check::CreateFleet, "CreateFleetAuthCheckFailed", "ec2:CreateFleet"),
        (Check::RunInstances, "RunInstancesAuthCheckFailed", "ec2:RunInstances"),
    ] {
        let text = "x with an explicit deny in a service control policy";
        let Outcome::Refused { reason: found, message } = of(check, "UnauthorizedOperation", text) else { panic!() };
        assert_eq!(found, reason);
        let begins = format!("Controller isn't authorized to call {action}: ");
        assert!(message.starts_with(&begins) && message.ends_with("due to a service control policy"), "{message}");
        assert_eq!(of(check, "RequestLimitExceeded", ""), Outcome::AskAgain);
        let fault = ApiError { server_fault: true, ..ApiError::new("Odd", "") };
        assert_eq!(outcome(check, Err(fault)), Outcome::AskAgain);
        assert!(matches!(of(check, "Odd", ""), Outcome::Error(_)));
    }
    let large = "User data is limited to 16384 bytes";
    let Outcome::Refused { reason, message } = of(Check::CreateLaunchTemplate, "InvalidUserData.Malformed", large)
    else {
        panic!()
    };
    assert_eq!(reason, "UserDataSizeLimitExceeded");
    assert!(
        message.starts_with("ec2:CreateLaunchTemplate rejected the rendered user data as too large: "),
        "{message}"
    );
    let profile = "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name";
    assert_eq!(of(Check::RunInstances, "InvalidParameterValue", profile), Outcome::AskAgain);
    assert!(matches!(of(Check::CreateFleet, "InvalidParameterValue", profile), Outcome::Error(_)));
}

/// AWS-106, AC-104: one subnet is enough; else the first one's error counts.
#[test]
fn run_instances_in_any_subnet() {
    let error = |code: &str| Err(ApiError::new(code, ""));
    assert_eq!(run_instances_answer(vec![error("InternalError"), error("DryRunOperation")]), Ok(()));
    assert_eq!(
        run_instances_answer(vec![error("UnauthorizedOperation"), error("Other")]),
        error("UnauthorizedOperation")
    );
    assert_eq!(run_instances_answer(Vec::new()), Ok(()));
}

/// AWS-104, AC-109.
#[test]
fn tenancy_of_the_checks() {
    let pool = |values: &[&str]| -> Requirements {
        [Requirement::any_of(aws::INSTANCE_TENANCY, values.iter().copied())].into_iter().collect()
    };
    assert_eq!(checked_tenancy([&pool(&["default", "dedicated"])]), "dedicated");
    assert_eq!(checked_tenancy([&pool(&["default"]), &Requirements::new()]), "default");
    assert_eq!(checked_tenancy([]), "default");
}

/// AWS-105, AC-108: what pools could use, then the usual types, then any; plain ones before those with accelerators.
#[test]
fn type_of_the_checks() {
    let image = |id: &str, arch: &str| json!({"id": id, "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": [arch]}]});
    let class = |images: Value| class_with(&json!({}), &json!({"amis": images}));
    let (amd, arm) = (class(json!([image("ami-1", "amd64")])), class(json!([image("ami-2", "arm64")])));
    let rules = LabelPolicy::aws();
    let types = |names: &[&str]| sold(names, &amd, &[]);
    let all = types(&["c5.large", "g4dn.xlarge", "m5.large", "m6g.large"]);
    let chosen = |class: &NodeClass, usable: &[InstanceType], all: &[InstanceType]| {
        checked_type(class, usable, all, rules.rules()).map(|known| known.name.clone())
    };
    let name = |name: &str| Some(name.to_owned());
    assert_eq!(chosen(&amd, &[], &all), name("m5.large"));
    assert_eq!(chosen(&arm, &[], &all), name("m6g.large"));
    assert_eq!(chosen(&amd, &types(&["g4dn.xlarge"]), &all), name("g4dn.xlarge"));
    assert_eq!(chosen(&amd, &types(&["g4dn.xlarge", "c5.large"]), &all), name("c5.large"));
    assert_eq!(chosen(&amd, &[], &types(&["c5.large"])), name("c5.large"));
    assert_eq!(chosen(&arm, &[], &types(&["c5.large"])), None, "an error, not a crash");
}

/// AWS-103, AWS-280: an annotation asks again; other selectors that find the same do not.
#[test]
fn keys_of_verdicts() {
    let plain = class_with(&json!({}), &json!({}));
    let tags = crate::cloud::Tags::new();
    let key = |class: &NodeClass, hash| verdict_key(class, hash, &tags);
    let other_selector = class_with(&json!({"subnetSelectorTerms": [{"id": "subnet-test1"}]}), &json!({}));
    assert_eq!(key(&plain, 1), key(&other_selector, 1));
    let mut annotated = plain.clone();
    annotated.annotations.insert("try".to_owned(), "again".to_owned());
    let profile = class_with(&json!({}), &json!({"instanceProfile": "other"}));
    let tagged = verdict_key(&plain, 1, &crate::cloud::Tags::from([("a".to_owned(), "b".to_owned())]));
    let mut keys = vec![key(&plain, 1), key(&plain, 2), key(&annotated, 1), key(&profile, 1), tagged];
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 5);
}
