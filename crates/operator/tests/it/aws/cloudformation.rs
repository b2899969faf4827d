//! The stack of `deploy/cloudformation`, deployed, and the controller on exactly what it makes.

use std::path::Path;

use karpenter_testkit::aws::Account;
use serde_json::{Value, json};

use super::life::{interruption, spec, the_end};
use super::{OnAws, Place};
use crate::live::installed::wait;
use crate::live::scene::{Scene, workload};

/// The variables of the guide (SEED-0-13).
const PLACE: Place = Place {
    region: "ap-south-1",
    namespace: "kube-system",
    cluster: "eks-cluster",
    role: "KarpenterNodeRole-eks-cluster",
};

struct Stack(Vec<(String, String)>);

impl Stack {
    fn deploy(account: &Account) -> Self {
        let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/cloudformation/karpenter.yaml");
        let parameter = |name: &str, value: &str| json!({"ParameterKey": name, "ParameterValue": value});
        account.call(
            "cloudformation",
            "create_stack",
            json!({"StackName": PLACE.cluster, "TemplateBody": std::fs::read_to_string(template).unwrap(),
                "Capabilities": ["CAPABILITY_NAMED_IAM"],
                "Parameters": [parameter("ClusterName", PLACE.cluster), parameter("OldNames", "false")]}),
        );
        let answer = account.call("cloudformation", "describe_stacks", json!({"StackName": PLACE.cluster}));
        let stack = &answer["Stacks"][0];
        assert_eq!(stack["StackStatus"], "CREATE_COMPLETE", "{stack}");
        let outputs = stack["Outputs"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self(outputs.map(|one| (text(&one["OutputKey"]), text(&one["OutputValue"]))).collect())
    }

    fn output(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map_or_else(|| panic!("no {name} in {:?}", self.0), |(_, value)| value.as_str())
    }

    /// What the controller may do: the statements of its six policies, as IAM has them.
    fn statements(&self, account: &Account) -> Vec<Value> {
        let policies: Vec<&String> =
            self.0.iter().filter(|(key, _)| key.ends_with("PolicyArn")).map(|(_, arn)| arn).collect();
        assert_eq!(policies.len(), 6, "{:?}", self.0);
        let statements = policies.into_iter().flat_map(|arn| {
            let policy = account.call("iam", "get_policy", json!({"PolicyArn": arn}));
            let version = json!({"PolicyArn": arn, "VersionId": policy["Policy"]["DefaultVersionId"]});
            let answer = account.call("iam", "get_policy_version", version);
            answer["PolicyVersion"]["Document"]["Statement"].as_array().unwrap().clone()
        });
        statements.collect()
    }
}

/// SEED-0-13, SEED-0-48, AWS-205, AWS-239, AWS-240, AWS-243, AWS-244, AC-281: in another region and namespace than usual, nodes come and go with the
/// role of the stack and no rights but those of its policies; an interruption that its rules bring to its queue replaces an instance.
#[tokio::test]
async fn a_controller_on_the_stack() {
    let account = Account::in_region(PLACE.region);
    let stack = Stack::deploy(&account);
    let role = stack.output("NodeRoleArn").rsplit('/').next().unwrap();
    assert_eq!(role, PLACE.role);
    account.change(json!({"policy": stack.statements(&account)}));
    let queue = format!("settings.interruptionQueue={}", stack.output("QueueName"));
    let aws = OnAws::at(PLACE, account, &["settings.clusterName=eks-cluster", &queue]).await;
    let replica = aws.start("karpenter-stack");
    let scene = Scene::new(&aws.installed, "stack").await;
    scene.create(aws.class("default")).await;
    scene.create(scene.pool("", spec("default", "spot"))).await;
    scene.create(workload("Deployment", "web", 3, scene.pod("web", "1500m", json!({})))).await;
    scene.all_run(3).await;
    wait("the lease is held in the controller's namespace", async || aws.installed.holder().await).await;

    let launched = aws.account.launched();
    for instance in aws.instances().await {
        assert!(instance.zone.starts_with(PLACE.region), "{instance:?}");
        let profile = json!({"InstanceProfileName": launched[&instance.id]["instance_profile"]});
        let profile = aws.account.call("iam", "get_instance_profile", profile);
        assert_eq!(profile["InstanceProfile"]["Roles"][0]["RoleName"], role, "{profile}");
    }
    interruption(&aws, &scene).await;
    the_end(&aws, &scene).await;

    let calls = aws.calls();
    for call in &calls {
        assert_eq!(call["region"], PLACE.region, "{call}");
    }
    for service in ["ec2", "eks", "iam", "pricing", "sqs"] {
        assert!(calls.iter().any(|call| call["service"] == service), "{service}");
    }
    aws.nothing_was_denied();
    drop(replica);
}
