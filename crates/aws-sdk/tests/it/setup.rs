//! An account of the emulator, our clients for it, and the SDK itself for what only tests do.

use std::sync::Arc;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_ec2::config::Credentials;
use karpenter_aws::cloud::{
    BlockDeviceSpec, CallObserver, EbsSpec, Filter, FleetConfig, FleetOverride, FleetRequest, InterfaceSpec,
    LaunchTemplateData, LaunchTemplateRequest, MetadataSpec, PlacementSpec, SubnetInfo, TagSpecification, Tags,
    Unobserved,
};
use karpenter_aws_sdk::{Clients, Fixed, connect_to};
use karpenter_testkit::aws::{Account, REGION, SECRET};

pub(crate) struct World {
    pub(crate) account: Account,
    pub(crate) clients: Clients,
    /// Of the SDK, for what only tests do.
    pub(crate) sdk: SdkConfig,
}

pub(crate) const IMAGE: &str = "ami-12c6146b";
pub(crate) const USER_DATA: &str = "Y2xhc3NpZmllZCB1c2VyIGRhdGE=";

pub(crate) fn fixed(account: &Account) -> Fixed {
    Fixed {
        endpoint: account.endpoint(),
        region: REGION.to_owned(),
        access_key: account.access_key(),
        secret_key: SECRET.to_owned(),
    }
}

pub(crate) async fn world() -> World {
    observed_world(Arc::new(Unobserved)).await
}

pub(crate) async fn observed_world(observer: Arc<dyn CallObserver>) -> World {
    let account = Account::new();
    let clients = connect_to(&fixed(&account), "1.15.0", observer).await.unwrap();
    let client = aws_smithy_http_client::Builder::new().build_http();
    let sdk = aws_config::defaults(BehaviorVersion::latest())
        .http_client(client)
        .region(Region::new(REGION))
        .credentials_provider(Credentials::new(account.access_key(), SECRET, None, None, "tests"))
        .endpoint_url(account.endpoint());
    World { clients, sdk: sdk.load().await, account }
}

impl World {
    /// The account's subnets, by zone.
    pub(crate) async fn subnets(&self) -> Vec<SubnetInfo> {
        let mut subnets = self.clients.reads.subnets(&[Filter::new("default-for-az", ["true"])]).await.unwrap();
        subnets.sort_by(|a, b| a.zone.cmp(&b.zone));
        subnets
    }

    /// One instance of a new template.
    pub(crate) async fn launch(&self, tags: &[(&str, &str)]) -> String {
        self.clients.writes.create_launch_template(&template("karpenter.k8s.aws/1")).await.unwrap();
        let request = FleetRequest { tags: tagged(&["instance"], tags), ..fleet(&self.subnets().await) };
        let run = karpenter_aws::cloud::Run::Real;
        let answer = self.clients.writes.create_fleet(&request, "token-1", run).await.unwrap();
        answer.instances[0].id.clone()
    }
}

pub(crate) fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn tagged(kinds: &[&'static str], pairs: &[(&str, &str)]) -> Vec<TagSpecification> {
    kinds.iter().map(|kind| TagSpecification { resource_type: kind, tags: tags(pairs) }).collect()
}

/// As small as templates are.
pub(crate) fn template(name: &str) -> LaunchTemplateRequest {
    let data = LaunchTemplateData {
        image_id: IMAGE.to_owned(),
        instance_profile: "nodes".to_owned(),
        block_devices: vec![BlockDeviceSpec {
            device_name: Some("/dev/xvda".to_owned()),
            ebs: Some(EbsSpec { volume_type: Some("gp3".to_owned()), size_gib: Some(20), ..EbsSpec::default() }),
        }],
        user_data: USER_DATA.to_owned(),
        detailed_monitoring: false,
        metadata: MetadataSpec {
            endpoint: "enabled".to_owned(),
            ipv6: Some("disabled".to_owned()),
            hop_limit: 1,
            tokens: "required".to_owned(),
            instance_tags: "disabled",
        },
        interfaces: vec![InterfaceSpec::default()],
        placement: PlacementSpec { tenancy: "default".to_owned(), group_id: None, partition: None },
        enclave: false,
        nested_virtualization: None,
        reservation: None,
        market: None,
        tags: tagged(&["network-interface"], &[("karpenter.sh/nodepool", "default")]),
    };
    LaunchTemplateRequest { name: name.to_owned(), data, tags: tags(&[("eks:eks-cluster-name", "shop")]) }
}

/// One `m5.large` of the template above, on demand, wherever there is one.
pub(crate) fn fleet(subnets: &[SubnetInfo]) -> FleetRequest {
    let overrides = subnets.iter().map(|subnet| FleetOverride {
        instance_type: "m5.large".to_owned(),
        subnet_id: subnet.id.clone(),
        image_id: IMAGE.to_owned(),
        zone: subnet.zone.clone(),
        priority: 0.096,
    });
    FleetRequest {
        target_capacity: 1,
        default_capacity_type: "on-demand",
        on_demand_strategy: Some("lowest-price"),
        spot_strategy: None,
        reservation_types: None,
        configs: vec![FleetConfig {
            template_name: "karpenter.k8s.aws/1".to_owned(),
            version: "$Latest",
            overrides: overrides.collect(),
        }],
        context: None,
        tags: tagged(&["instance"], &[("karpenter.sh/nodepool", "default")]),
    }
}
