//! Whether a class could launch anything.

use karpenter_api::conditions::Conditioned as _;
use karpenter_api::kinds::EC2NodeClass;
use karpenter_aws::cloud::ApiError;
use karpenter_aws::kubelet_checks::Definition;
use serde_json::{Value, json};

use crate::desk::{Desk, options, says};

const CHECKS: [&str; 3] = ["CreateLaunchTemplate", "CreateFleet", "RunInstances"];

fn unauthorized() -> ApiError {
    let text = "You are not authorized to perform this operation. x with an explicit deny in a permissions boundary";
    ApiError::new("UnauthorizedOperation", text)
}

fn verdict(class: &EC2NodeClass) -> (&str, &str) {
    says(class.conditions(), "ValidationSucceeded")
}

async fn annotate(desk: &Desk, value: &str) {
    let patch = json!({ "metadata": { "annotations": { "try": value } } });
    desk.change::<EC2NodeClass>("default", patch).await;
}

/// AWS-102, AWS-105, AWS-106, AWS-108, AC-108: the three calls, dry but for the template, for a usual type.
#[tokio::test(start_paused = true)]
async fn the_calls_are_tried() {
    let desk = Desk::start().await;
    let class = desk.add_class("default", json!({})).await;
    assert_eq!(verdict(&class).0, "True");
    let fleets = desk.account.take("CreateFleet");
    assert_eq!(fleets[0], "Dry m5.large/subnet-1 m5.large/subnet-2 m5.large/subnet-3");
    assert_eq!(desk.account.take("RunInstances")[0], "m5.large/subnet-1 default", "one subnet is enough");
    let arm = json!({ "amiFamily": "AL2023", "amiSelectorTerms": [{ "id": "ami-arm" }] });
    desk.add_class("arm", arm).await;
    assert!(desk.account.take("CreateFleet")[0].contains("m6g.large"));
}

/// AC-108, AC-109: what pools of the class ask for decides.
#[tokio::test(start_paused = true)]
async fn pools_decide_what_is_tried() {
    let desk = Desk::start().await;
    let requirement = |key: &str, values: Value| json!({ "key": key, "operator": "In", "values": values });
    let requirements = json!([
        requirement("node.kubernetes.io/instance-type", json!(["c5.large"])),
        requirement("karpenter.k8s.aws/instance-tenancy", json!(["default", "dedicated"])),
    ]);
    desk.add_pool("pool", requirements).await;
    desk.add_class("default", json!({})).await;
    assert_eq!(desk.account.take("RunInstances")[0], "c5.large/subnet-1 dedicated");
}

/// AWS-103, AWS-107, AWS-280, AWS-287, AC-102, AC-103, AC-105: refusals are told and kept; an annotation asks again.
#[tokio::test(start_paused = true)]
async fn refusals_are_told_and_kept() {
    for (at, (call, reason, action)) in [
        ("CreateLaunchTemplate", "CreateLaunchTemplateAuthCheckFailed", "ec2:CreateLaunchTemplate"),
        ("CreateFleet", "CreateFleetAuthCheckFailed", "ec2:CreateFleet"),
        ("RunInstances", "RunInstancesAuthCheckFailed", "ec2:RunInstances"),
    ]
    .into_iter()
    .enumerate()
    {
        let desk = Desk::start().await;
        desk.account.break_call(call, unauthorized());
        let class = desk.add_class("default", json!({})).await;
        let condition = class.condition("ValidationSucceeded").unwrap();
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", reason));
        let begins = format!("Controller isn't authorized to call {action}: ");
        assert!(
            condition.message.starts_with(&begins) && condition.message.contains("permission boundary"),
            "{condition:?}"
        );
        assert_eq!(says(class.conditions(), "Ready").0, "False");
        for later in &CHECKS[at + 1..] {
            assert!(desk.account.take(later).is_empty(), "{later} after {call}");
        }
        desk.account.take(call);
        desk.wait(25 * 60).await;
        assert!(desk.account.take(call).is_empty(), "{call}: kept for half an hour");
        desk.account.mend(call);
        annotate(&desk, "again").await;
        assert_eq!(verdict(&desk.class("default").await).0, "True", "{call}");
    }
}

/// AC-111: user data that EC2 finds too long.
#[tokio::test(start_paused = true)]
async fn user_data_that_is_too_long() {
    let desk = Desk::start().await;
    let error = ApiError::new("InvalidUserData.Malformed", "User data is limited to 16384 bytes");
    desk.account.break_call("CreateLaunchTemplate", error);
    let class = desk.add_class("default", json!({})).await;
    assert_eq!(verdict(&class), ("False", "UserDataSizeLimitExceeded"));
    desk.account.take("CreateLaunchTemplate");
    desk.wait(20 * 60).await;
    assert!(desk.account.take("CreateLaunchTemplate").is_empty());
}

/// AC-106, AC-107: what says nothing changes nothing.
#[tokio::test(start_paused = true)]
async fn answers_that_say_nothing() {
    let profile = ApiError::new("InvalidParameterValue", "Value (x) is invalid. Invalid IAM Instance Profile name");
    let slow = ApiError::new("RequestLimitExceeded", "slow down");
    for (call, error) in [("RunInstances", profile), ("CreateFleet", slow.clone()), ("CreateLaunchTemplate", slow)] {
        let desk = Desk::start().await;
        desk.account.break_call(call, error);
        let class = desk.add_class("default", json!({})).await;
        assert_eq!(verdict(&class), ("Unknown", "AwaitingReconciliation"), "{call}");
        desk.account.mend(call);
        desk.wait(60).await;
        assert_eq!(verdict(&desk.class("default").await).0, "True", "{call}");
    }
}

/// AC-104: the second subnet is as good as the first.
#[tokio::test(start_paused = true)]
async fn one_subnet_is_enough() {
    let desk = Desk::start().await;
    let fault = ApiError { server_fault: true, ..ApiError::new("InternalError", "") };
    desk.account.state().errors.entry("RunInstances").or_default().push_back(fault);
    let class = desk.add_class("default", json!({})).await;
    assert_eq!(verdict(&class).0, "True");
    assert_eq!(desk.account.take("RunInstances")[..2], ["m5.large/subnet-1 default", "m5.large/subnet-2 default"]);
}

/// AC-110: without dry runs nothing is written; what needs no call is judged all the same.
#[tokio::test(start_paused = true)]
async fn without_dry_runs() {
    let mut options = options();
    options.disable_dry_run = true;
    let desk = Desk::with(options).await;
    let class = desk.add_class("default", json!({})).await;
    assert_eq!(verdict(&class).0, "True");
    let class = desk.add_class("bad", json!({ "subnetSelectorTerms": [{ "id": "subnet-9" }] })).await;
    assert_eq!(verdict(&class), ("False", "DependenciesNotReady"));
    for call in CHECKS {
        assert!(desk.account.take(call).is_empty(), "{call}");
    }
}

/// AC-86, AC-112: only AL2023 needs the range of service addresses.
#[tokio::test(start_paused = true)]
async fn the_range_of_services() {
    let desk = Desk::start().await;
    desk.account.break_call("DescribeCluster", ApiError::new("AccessDeniedException", "no"));
    let class = desk.add_class("default", json!({})).await;
    let condition = class.condition("ValidationSucceeded").unwrap();
    assert_eq!(
        (condition.reason.as_str(), condition.message.as_str()),
        ("ClusterCIDRResolutionFailed", "Failed to detect the cluster CIDR")
    );
    let custom = json!({ "amiFamily": "Custom", "amiSelectorTerms": [{ "id": "ami-amd" }] });
    assert_eq!(verdict(&desk.add_class("custom", custom).await).0, "True");
    let fault = ApiError { server_fault: true, ..ApiError::new("ServerException", "") };
    desk.account.break_call("DescribeCluster", fault);
    assert_eq!(verdict(&desk.add_class("later", json!({})).await), ("Unknown", "AwaitingReconciliation"));
    desk.account.mend("DescribeCluster");
    desk.wait(65).await;
    assert_eq!(verdict(&desk.class("default").await).0, "True");
}

/// AWS-102, AC-91, AC-94, AC-95, AC-96: what of open settings is wrong, in the order of the steps, until the class changes.
#[tokio::test(start_paused = true)]
async fn open_settings_of_the_kubelet() {
    let mut open = options();
    (open.definition, open.kubelet_expressions) = (Definition::OpenKubelet, true);
    let desk = Desk::with(open).await;
    let class = desk.add_class("default", json!({ "kubelet": { "maxPods": "vcpus * 10" } })).await;
    assert_eq!(verdict(&class).0, "True", "{:?}", class.conditions());
    let spec = |kubelet: Value| json!({ "spec": { "kubelet": kubelet } });
    for (kubelet, want) in [
        (json!({ "maxPods": null, "speed": 1 }), ("False", "InvalidKubeletConfiguration")),
        (json!({ "speed": null, "podsPerCore": "x" }), ("False", "InvalidKubeletConfiguration")),
        (json!({ "podsPerCore": null, "maxPods": "vcpus *" }), ("False", "KubeletExpressionInvalid")),
        (json!({ "maxPods": "vcpus - 100" }), ("False", "KubeletExpressionEvaluationFailed")),
        (
            json!({ "maxPods": null, "kubeReserved": { "cpu": "0 - vcpus" } }),
            ("False", "KubeletExpressionEvaluationFailed"),
        ),
        (json!({ "kubeReserved": null, "topologyManagerPolicy": "best-effort" }), ("True", "ValidationSucceeded")),
    ] {
        desk.change::<EC2NodeClass>("default", spec(kubelet.clone())).await;
        assert_eq!(verdict(&desk.class("default").await), want, "{kubelet}");
    }
    let bottlerocket = json!({ "amiFamily": "Bottlerocket", "amiSelectorTerms": [{ "id": "ami-amd" }],
        "kubelet": { "topologyManagerPolicy": "best-effort" } });
    let class = desk.add_class("rocket", bottlerocket).await;
    assert_eq!(verdict(&class), ("False", "UnsupportedKubeletConfiguration"));

    // Judged before what the class depends on, and the types after that.
    let nowhere = |kubelet: Value| json!({ "subnetSelectorTerms": [{ "id": "subnet-9" }], "kubelet": kubelet });
    let class = desk.add_class("a", nowhere(json!({ "maxPods": "vcpus *" }))).await;
    assert_eq!(verdict(&class), ("False", "KubeletExpressionInvalid"));
    let class = desk.add_class("b", nowhere(json!({ "maxPods": "vcpus - 100" }))).await;
    assert_eq!(verdict(&class), ("False", "DependenciesNotReady"));
}

/// AWS-94, AC-94: without the gate.
#[tokio::test(start_paused = true)]
async fn expressions_without_the_gate() {
    let mut open = options();
    open.definition = Definition::OpenKubelet;
    let desk = Desk::with(open).await;
    let class = desk.add_class("default", json!({ "kubelet": { "maxPods": "vcpus * 10" } })).await;
    assert_eq!(verdict(&class), ("False", "KubeletExpressionsDisabled"));
    desk.change::<EC2NodeClass>("default", json!({ "spec": { "kubelet": { "maxPods": 110 } } })).await;
    assert_eq!(verdict(&desk.class("default").await).0, "True");
}
