//! What is wrong with AWS at the start is said in one line, and the process ends.

use std::process::{Command, Output};

use karpenter_testkit::aws::{Account, REGION};
use serde_json::{Value, json};

/// Without a cluster: AWS is asked first.
fn controller(environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_karpenter-controller"))
        .env_clear()
        .envs([("METRICS_PORT", "0"), ("HEALTH_PROBE_PORT", "0"), ("CLUSTER_NAME", "shop")])
        .env("KUBECONFIG", kubeconfig())
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

/// Of a cluster that is not there.
fn kubeconfig() -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("karpenter-no-cluster-{}", std::process::id()));
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}], "users": [{"name": "x", "user": {"token": "t"}}]});
    std::fs::write(&path, text.to_string()).unwrap();
    path
}

/// The one line that says why it ended.
fn complaint(out: &Output) -> String {
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(1), "{text} {}", String::from_utf8_lossy(&out.stderr));
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let errors: Vec<Value> = lines.filter(|line| line["level"] == "ERROR").collect();
    assert_eq!(errors.len(), 1, "{text}");
    errors[0]["error"].as_str().unwrap().to_owned()
}

/// AWS-110, AWS-225, AWS-245: no region, no credentials, a denied call, a cluster that EKS or ARC does not know.
#[test]
fn what_is_wrong_with_aws_is_said() {
    let no_metadata = ("AWS_EC2_METADATA_DISABLED", "true");
    let said = complaint(&controller(&[no_metadata]));
    assert!(said.contains("no AWS region") && said.contains("AWS_REGION"), "{said}");
    let said = complaint(&controller(&[no_metadata, ("AWS_REGION", REGION)]));
    assert!(said.contains("no AWS credentials") && said.contains("Pod Identity"), "{said}");

    let account = Account::new();
    let environment = account.environment();
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let said = complaint(&controller(&environment));
    assert!(said.contains("cluster shop") && said.contains("CLUSTER_ENDPOINT"), "{said}");
    let role = format!("arn:aws:iam::{}:role/cluster", account.id());
    account.call("eks", "create_cluster", json!({"name": "shop", "roleArn": role, "resourcesVpcConfig": {}}));
    let shifting: Vec<(&str, &str)> = environment.iter().copied().chain([("ENABLE_ZONAL_SHIFT", "true")]).collect();
    let said = complaint(&controller(&shifting));
    assert!(
        said.contains("ENABLE_ZONAL_SHIFT") && said.contains("is the cluster registered for zonal shifts"),
        "{said}"
    );
    account.change(json!({"policy": []}));
    let said = complaint(&controller(&environment));
    assert!(said.contains("cannot call EC2 in us-west-2") && said.contains("ec2:DescribeInstanceTypes"), "{said}");
    assert!(!said.contains("secret-of-tests"), "{said}");
    let denied = account.denials();
    assert_eq!(denied.iter().map(|one| &one["operation"]).collect::<Vec<_>>(), ["DescribeInstanceTypes"], "{denied:?}");
}

/// AWS-110, AWS-245: credentials of EKS Pod Identity and of a web identity, the region of the instance. All of them get as far
/// as the API server, which is not there.
#[test]
fn identities_of_pods_and_regions_of_instances() {
    let account = Account::new();
    let endpoint = account.endpoint();
    let token = std::env::temp_dir().join(format!("karpenter-token-{}", std::process::id()));
    std::fs::write(&token, "token-of-the-pod").unwrap();
    let (token, uri) = (token.display().to_string(), format!("{endpoint}/_test/{}/credentials", account.id()));
    let common = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", &endpoint),
        ("CLUSTER_ENDPOINT", "https://example.com"),
    ];
    let pod =
        [("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri.as_str()), ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &token)];
    let said = complaint(&controller(&[&common[..], &pod].concat()));
    assert!(said.contains("the version of Kubernetes is not known"), "{said}");
    let calls = account.calls();
    assert!(calls.iter().any(|call| call["token"] == "token-of-the-pod"), "{calls:?}");
    assert!(
        calls.iter().any(|call| call["operation"] == "DescribeInstanceTypes" && call["region"] == REGION),
        "{calls:?}"
    );

    let role = format!("arn:aws:iam::{}:role/controller", account.id());
    let web = [
        ("AWS_ROLE_ARN", role.as_str()),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", &token),
        ("AWS_ROLE_SESSION_NAME", "karpenter"),
        ("AWS_REGION", REGION),
    ];
    let said = complaint(&controller(&[&common[..], &web].concat()));
    assert!(said.contains("the version of Kubernetes is not known"), "{said}");
}
