//! The controller with `CLOUD_PROVIDER=aws`: a real control plane, the chart's environment and rights, and the AWS emulator.
//!
//! [`kubelets`] stands in for the machines: each running instance gets a Node, on which KWOK runs pods.

mod deaths;
mod faults;
mod kubelets;
mod life;
mod starting;

use std::sync::Arc;

use karpenter_aws::cloud::{Filter, InstanceInfo, Unobserved};
use karpenter_aws_sdk::{Clients, Fixed, connect_to};
use karpenter_testkit::aws::{Account, REGION, SECRET};
use serde_json::{Value, json};

use crate::live::installed::{Installed, Replica};
use kubelets::Kubelets;

const CLUSTER: &str = "shop";
const DISCOVERY: &str = "karpenter.sh/discovery";

/// A cluster and an account that belong together.
pub(crate) struct OnAws {
    pub(crate) installed: Installed,
    pub(crate) account: Account,
    pub(crate) clients: Clients,
    /// Of the account; the first one is what classes select.
    pub(crate) images: [String; 2],
    _kubelets: Kubelets,
}

impl OnAws {
    pub(crate) async fn new() -> Self {
        Self::with(&["settings.clusterName=shop", "settings.interruptionQueue=shop"]).await
    }

    /// With these values of the chart.
    pub(crate) async fn with(values: &[&str]) -> Self {
        let account = Account::new();
        let images = prepare(&account);
        let installed = Installed::new(values).await;
        let clients = connect_to(&fixed(&account), "tests", Arc::new(Unobserved)).await.unwrap();
        let kubelets = Kubelets::start(installed.client(), clients.clone());
        Self { installed, account, clients, images, _kubelets: kubelets }
    }

    pub(crate) fn start(&self, name: &str) -> Replica {
        self.start_with(name, &[])
    }

    /// One that says all it has to say.
    pub(crate) fn start_talkative(&self, name: &str) -> Replica {
        self.start_with(name, &[("LOG_LEVEL", "debug")])
    }

    /// One that leads at once. Its predecessor was killed, and its lease would be waited for.
    pub(crate) fn start_alone(&self, name: &str) -> Replica {
        self.start_with(name, &[("DISABLE_LEADER_ELECTION", "true")])
    }

    fn start_with(&self, name: &str, more: &[(&str, &str)]) -> Replica {
        let environment = self.account.environment();
        let own = environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        self.installed.start_with(name, &own.chain(more.iter().copied()).collect::<Vec<_>>())
    }

    /// Those of the cluster that have not been ended.
    pub(crate) async fn instances(&self) -> Vec<InstanceInfo> {
        let ours = Filter::new("tag:eks:eks-cluster-name", [CLUSTER]);
        let states = Filter::new("instance-state-name", ["pending", "running"]);
        self.clients.reads.instances(&[ours, states]).await.unwrap()
    }

    /// A class of AL2023 nodes with the first image.
    pub(crate) fn class(&self, name: &str) -> Value {
        let tagged = json!([{"tags": {DISCOVERY: CLUSTER}}]);
        json!({"kind": "EC2NodeClass", "metadata": {"name": name}, "spec": {
            "role": "nodes", "amiFamily": "AL2023", "amiSelectorTerms": [{"id": self.images[0]}],
            "subnetSelectorTerms": tagged, "securityGroupSelectorTerms": tagged, "tags": {"team": "shop"}}})
    }
}

pub(crate) fn fixed(account: &Account) -> Fixed {
    Fixed {
        endpoint: account.endpoint(),
        region: REGION.to_owned(),
        access_key: account.access_key(),
        secret_key: SECRET.to_owned(),
    }
}

/// What a user has in the account before the chart is installed.
fn prepare(account: &Account) -> [String; 2] {
    let ids = |answer: &Value, list: &str, id: &str| -> Vec<Value> {
        answer[list].as_array().unwrap().iter().map(|one| one[id].clone()).collect()
    };
    let mut tagged = ids(&account.call("ec2", "describe_subnets", json!({})), "Subnets", "SubnetId");
    tagged.extend(ids(&account.call("ec2", "describe_security_groups", json!({})), "SecurityGroups", "GroupId"));
    account.call("ec2", "create_tags", json!({"Resources": tagged, "Tags": [{"Key": DISCOVERY, "Value": CLUSTER}]}));
    account.call("iam", "create_role", json!({"RoleName": "nodes", "AssumeRolePolicyDocument": "{}"}));
    let role = format!("arn:aws:iam::{}:role/cluster", account.id());
    account.call(
        "eks",
        "create_cluster",
        json!({"name": CLUSTER, "version": "1.35", "roleArn": role, "resourcesVpcConfig": {}}),
    );
    prepare_queue(account);
    let types = ["m5.large", "m5.xlarge", "m5.2xlarge"];
    let zones = ["us-west-2a", "us-west-2b", "us-west-2c"];
    let spot: Vec<Value> = types
        .iter()
        .zip(["0.03", "0.06", "0.12"])
        .flat_map(|(name, price)| {
            zones.map(|zone| json!({"InstanceType": name, "AvailabilityZone": zone, "SpotPrice": price}))
        })
        .collect();
    account
        .change(json!({"prices": {"m5.large": 0.096, "m5.xlarge": 0.192, "m5.2xlarge": 0.384}, "spot_prices": spot}));
    ["one", "two"].map(|name| {
        let image = json!({"Name": name, "Architecture": "x86_64", "RootDeviceName": "/dev/xvda"});
        account.call("ec2", "register_image", image)["ImageId"].as_str().unwrap().to_owned()
    })
}

/// Events of EC2 go to the queue (AWS-243, AWS-244).
fn prepare_queue(account: &Account) {
    account.call("sqs", "create_queue", json!({"QueueName": CLUSTER}));
    let pattern = json!({"source": ["aws.ec2"]}).to_string();
    account.call("events", "put_rule", json!({"Name": "ec2", "EventPattern": pattern}));
    let arn = format!("arn:aws:sqs:{REGION}:{}:{CLUSTER}", account.id());
    account.call("events", "put_targets", json!({"Rule": "ec2", "Targets": [{"Id": "queue", "Arn": arn}]}));
}
