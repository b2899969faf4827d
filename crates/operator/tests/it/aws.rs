//! The controller with `CLOUD_PROVIDER=aws`: a real control plane, the chart's environment and rights, and the AWS emulator.
//!
//! [`kubelets`] stands in for the machines: each running instance gets a Node, on which KWOK runs pods.

mod cloudformation;
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

/// Where the controller runs, for which cluster, and the role of its nodes.
#[derive(Debug, Clone, Copy)]
struct Place {
    region: &'static str,
    namespace: &'static str,
    cluster: &'static str,
    role: &'static str,
}

const USUAL: Place = Place { region: REGION, namespace: "karpenter", cluster: CLUSTER, role: "nodes" };

/// A cluster and an account that belong together.
pub(crate) struct OnAws {
    place: Place,
    pub(crate) installed: Installed,
    pub(crate) account: Account,
    /// Of the account's owner, whom no policy and no fault concerns.
    pub(crate) clients: Clients,
    /// Of the account; the first one is what classes select.
    pub(crate) images: [String; 2],
    _kubelets: Kubelets,
}

impl OnAws {
    pub(crate) async fn new() -> Self {
        Self::with(&["settings.clusterName=shop", "settings.interruptionQueue=shop"]).await
    }

    /// With these values of the chart, a role and a queue, and nothing allowed but what the guides allow.
    pub(crate) async fn with(values: &[&str]) -> Self {
        let aws = Self::at(USUAL, Account::new(), values).await;
        aws.account.call("iam", "create_role", json!({"RoleName": USUAL.role, "AssumeRolePolicyDocument": "{}"}));
        prepare_queue(&aws.account);
        aws.allow(USUAL.role, &[]);
        aws
    }

    /// With an account that has whatever a way of installing makes in it.
    async fn at(place: Place, account: Account, values: &[&str]) -> Self {
        let images = prepare(&account, place);
        let installed = Installed::in_namespace(place.namespace, values).await;
        let clients = connect_to(&owner(&account), "tests", Arc::new(Unobserved)).await.unwrap();
        let kubelets = Kubelets::start(installed.client(), clients.clone());
        Self { place, installed, account, clients, images, _kubelets: kubelets }
    }

    /// Lets the controller do what `deploy/iam` grants for nodes of this role, and what these statements say, and nothing else: AC-281,
    /// AWS-241.
    pub(crate) fn allow(&self, role: &str, more: &[Value]) {
        let Place { region, cluster, .. } = self.place;
        let policy = json!({"cluster": cluster, "account": self.account.id(), "region": region, "node_role": role});
        self.account.change(json!({"policy_of": policy, "policy": more}));
    }

    /// AC-281: no call of the controller was one that it has no right to.
    pub(crate) fn nothing_was_denied(&self) {
        let denials = self.account.denials();
        assert!(denials.is_empty(), "{denials:#?}");
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

    /// What the controller has called, oldest first, and not what tests and kubelets have.
    fn calls(&self) -> Vec<Value> {
        let own = concat!("karpenter.sh-", env!("CARGO_PKG_VERSION"));
        let mut calls = self.account.calls();
        calls.retain(|call| call["user_agent"].as_str().is_some_and(|agent| agent.contains(own)));
        calls
    }

    /// Those of the cluster that have not been ended.
    pub(crate) async fn instances(&self) -> Vec<InstanceInfo> {
        let ours = Filter::new("tag:eks:eks-cluster-name", [self.place.cluster]);
        let states = Filter::new("instance-state-name", ["pending", "running"]);
        self.clients.reads.instances(&[ours, states]).await.unwrap()
    }

    /// A class of AL2023 nodes with the first image.
    pub(crate) fn class(&self, name: &str) -> Value {
        let tagged = json!([{"tags": {DISCOVERY: self.place.cluster}}]);
        json!({"kind": "EC2NodeClass", "metadata": {"name": name}, "spec": {
            "role": self.place.role, "amiFamily": "AL2023", "amiSelectorTerms": [{"id": self.images[0]}],
            "subnetSelectorTerms": tagged, "securityGroupSelectorTerms": tagged, "tags": {"team": "shop"}}})
    }
}

fn owner(account: &Account) -> Fixed {
    Fixed {
        endpoint: account.endpoint(),
        region: account.region().to_owned(),
        access_key: account.owner_key(),
        secret_key: SECRET.to_owned(),
    }
}

/// What a user has in the account, whatever is made there for the controller.
fn prepare(account: &Account, place: Place) -> [String; 2] {
    let ids = |answer: &Value, list: &str, id: &str| -> Vec<Value> {
        answer[list].as_array().unwrap().iter().map(|one| one[id].clone()).collect()
    };
    let mut tagged = ids(&account.call("ec2", "describe_subnets", json!({})), "Subnets", "SubnetId");
    tagged.extend(ids(&account.call("ec2", "describe_security_groups", json!({})), "SecurityGroups", "GroupId"));
    let tag = json!([{"Key": DISCOVERY, "Value": place.cluster}]);
    account.call("ec2", "create_tags", json!({"Resources": tagged, "Tags": tag}));
    let role = format!("arn:aws:iam::{}:role/cluster", account.id());
    account.call(
        "eks",
        "create_cluster",
        json!({"name": place.cluster, "version": "1.35", "roleArn": role, "resourcesVpcConfig": {}}),
    );
    let types = ["m5.large", "m5.xlarge", "m5.2xlarge"];
    let zones = ["a", "b", "c"].map(|letter| format!("{}{letter}", place.region));
    let spot: Vec<Value> = types
        .iter()
        .zip(["0.03", "0.06", "0.12"])
        .flat_map(|(name, price)| {
            let row = move |zone| json!({"InstanceType": name, "AvailabilityZone": zone, "SpotPrice": price});
            zones.iter().map(row)
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
