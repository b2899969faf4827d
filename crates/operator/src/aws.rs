//! The AWS provider's start: who calls AWS, and what has to be known before anything is done (AWS-110).

mod calls;
mod cluster_objects;
mod reports;

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::crd;
use karpenter_api::settings::{self, AwsSettings, Settings};
use karpenter_aws::cloud::{CallObserver, Lookups};
use karpenter_aws::instance_types::Sizing;
use karpenter_aws::kubelet_checks::Definition;
use karpenter_aws::provider::{self, AwsProvider, ProviderSettings};
use karpenter_aws::repair::RebootReason;
use karpenter_aws::user_data::Cluster;
use karpenter_aws_controllers::{Aws, Options, Services, kubernetes_version, zonal_shift_arn};
use karpenter_aws_sdk::Clients;
use karpenter_controllers::Context;
use karpenter_platform::Clock;
use kube::api::ListParams;
use kube::{Api, Client, Config};

use calls::Calls;
use cluster_objects::ClusterObjects;

/// The provider and what its controllers need beside it.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) provider: Arc<AwsProvider>,
    account: Account,
    /// To be told of the context, once there is one.
    objects: Arc<ClusterObjects>,
    calls: Arc<Calls>,
}

impl Started {
    /// The controllers of AWS, beside those of the core; made before any of them starts.
    pub(crate) fn controllers(&self, context: &Arc<Context>, settings: &Settings) -> Arc<Aws> {
        self.objects.meet(context);
        self.calls.count_in(context.report.metrics.clone());
        let Clients { region, reads, writes, iam, lookups, .. } = self.account.clients.clone();
        let queue = &settings.aws.interruption_queue;
        let queue = (!queue.is_empty()).then(|| self.account.clients.queue(queue));
        let services = Services { reads, writes, iam, lookups, queue };
        let options = Options {
            region,
            cluster: self.account.cluster.clone(),
            kubernetes_version: self.account.kubernetes_version.clone(),
            isolated_vpc: settings.aws.isolated_vpc,
            disable_dry_run: settings.aws.disable_dry_run,
            reserved_capacity: settings.feature_gates.reserved_capacity,
            eks_control_plane: settings.aws.eks_control_plane,
            zonal_shift: self.account.zonal_shift.clone(),
            ami_refresh_interval: settings.aws.ami_refresh_interval.as_signed(),
            subnet_refresh_interval: settings.aws.subnet_refresh_interval.as_signed(),
            definition: self.account.definition,
            kubelet_expressions: settings.aws.feature_gates.node_class_cel,
        };
        Aws::new(context.clone(), services, self.provider.clone(), options)
    }
}

/// Connects, and learns what EC2 sells.
pub(crate) async fn start(
    settings: &Settings,
    client: &Client,
    config: &Config,
    clock: Arc<dyn Clock>,
) -> Result<Started> {
    let (objects, calls) = (Arc::new(ClusterObjects::default()), Arc::new(Calls::default()));
    let account = connect(&settings.aws, client, config, calls.clone()).await?;
    let clients = provider::Clients {
        reads: account.clients.reads.clone(),
        writes: account.clients.writes.clone(),
        lookups: account.clients.lookups.clone(),
    };
    let given = provider_settings(settings, &account);
    let provider = AwsProvider::new(clients, given, clock, objects.clone(), objects.clone())?;
    let provider = Arc::new(provider.with_claim_labels(objects.clone()));
    provider.discover().await.context("cannot learn what EC2 sells")?;
    Ok(Started { provider, account, objects, calls })
}

fn provider_settings(settings: &Settings, account: &Account) -> ProviderSettings {
    ProviderSettings {
        cluster: account.cluster.clone(),
        sizing: Sizing {
            region: account.clients.region.clone(),
            vm_memory_overhead_percent: settings.aws.vm_memory_overhead_percent,
            reserved_enis: settings.aws.reserved_enis,
        },
        isolated_vpc: settings.aws.isolated_vpc,
        reserved_capacity: settings.feature_gates.reserved_capacity,
        subnet_refresh_interval: settings.aws.subnet_refresh_interval.as_signed(),
        reboot_reasons: settings.aws.reboot_reasons.iter().map(reboot_reason).collect(),
        kubelet_expressions: settings.aws.feature_gates.node_class_cel,
    }
}

fn reboot_reason(given: &settings::RebootReason) -> RebootReason {
    RebootReason { condition_type: given.condition_type.clone(), reason_expression: given.reason_expression.clone() }
}

/// AWS answers, and this is the cluster that it knows.
#[derive(Debug)]
struct Account {
    clients: Clients,
    cluster: Cluster,
    /// Such as `1.35`.
    kubernetes_version: String,
    /// The cluster's ARN, if zonal shifts are followed.
    zonal_shift: Option<String>,
    definition: Definition,
}

/// Whatever is missing ends the start, in one line.
async fn connect(
    settings: &AwsSettings,
    client: &Client,
    config: &Config,
    observer: Arc<dyn CallObserver>,
) -> Result<Account> {
    let clients = karpenter_aws_sdk::connect(env!("CARGO_PKG_VERSION"), observer).await?;
    clients.check().await.with_context(|| format!("cannot call EC2 in {}", clients.region))?;
    let endpoint = endpoint(settings, clients.lookups.as_ref()).await?;
    let dns = dns_address(client).await;
    let (name, lookups) = (&settings.cluster_name, clients.lookups.as_ref());
    let zonal_shift = if settings.enable_zonal_shift {
        let arn = zonal_shift_arn(lookups, name).await;
        Some(arn.with_context(|| format!("ENABLE_ZONAL_SHIFT is on, but cluster {name} cannot take part in it"))?)
    } else {
        None
    };
    let kubernetes_version = kubernetes_version(client, lookups, settings.eks_control_plane, name).await;
    let kubernetes_version = kubernetes_version.context("the version of Kubernetes is not known")?;
    let ca_bundle =
        Some(settings.cluster_ca_bundle.clone()).filter(|given| !given.is_empty()).or_else(|| bundle(config));
    let cluster = Cluster { name: settings.cluster_name.clone(), endpoint, ca_bundle, service_cidr: None, dns };
    tracing::info!(region = clients.region, cluster = cluster.name, endpoint = cluster.endpoint, "connected to AWS");
    let definition = definition(client).await;
    Ok(Account { clients, cluster, kubernetes_version, zonal_shift, definition })
}

/// What the cluster's definition of EC2NodeClass lets classes say. One that cannot be read is taken for the usual one: it then only
/// refuses less, since nothing that was not written is missed.
async fn definition(client: &Client) -> Definition {
    let name = "ec2nodeclasses.karpenter.k8s.aws";
    let all: Api<CustomResourceDefinition> = Api::all(client.clone());
    let found = all.list(&ListParams::default().fields(&format!("metadata.name={name}"))).await;
    let open = found.map(|list| {
        let mut definitions = list.items.iter().filter_map(|found| serde_json::to_value(found).ok());
        definitions.any(|found| crd::has_open_kubelet(&found))
    });
    match open {
        Ok(true) => {
            tracing::info!(definition = name, "spec.kubelet of node classes is open, the controller checks it");
            Definition::OpenKubelet
        }
        Ok(false) => Definition::Usual,
        Err(error) => {
            tracing::warn!(definition = name, %error, "the definition cannot be read, taken for the usual one");
            Definition::Usual
        }
    }
}

async fn endpoint(settings: &AwsSettings, lookups: &dyn Lookups) -> Result<String> {
    if !settings.cluster_endpoint.is_empty() {
        return Ok(settings.cluster_endpoint.clone());
    }
    let name = &settings.cluster_name;
    let found = lookups.cluster(name).await.with_context(|| {
        format!("cannot look up the endpoint of cluster {name}: allow eks:DescribeCluster, or set CLUSTER_ENDPOINT")
    });
    let endpoint = found?.endpoint;
    anyhow::ensure!(!endpoint.is_empty(), "cluster {name} has no endpoint yet: wait until EKS has made it");
    Ok(endpoint)
}

/// Nodes work without it in most clusters, hence only a line in the log.
async fn dns_address(client: &Client) -> Option<IpAddr> {
    let services: Api<Service> = Api::namespaced(client.clone(), "kube-system");
    let found = match services.get_opt("kube-dns").await {
        Ok(service) => service,
        Err(error) => {
            tracing::warn!(%error, "the address of the cluster's DNS is not known");
            return None;
        }
    };
    let address = found.and_then(|service| service.spec?.cluster_ip).and_then(|address| address.parse().ok());
    if address.is_none() {
        tracing::info!(
            "the address of the cluster's DNS is not known: there is no service kube-system/kube-dns with one"
        );
    }
    address
}

/// The certificates that the API client trusts, as text in base64.
fn bundle(config: &Config) -> Option<String> {
    if let Some(path) = &config.root_cert_file {
        let text = std::fs::read(path).ok()?;
        return Some(STANDARD.encode(text));
    }
    let certificates = config.root_cert.as_ref()?;
    let text: String = certificates.iter().map(|certificate| pem(certificate)).collect();
    Some(STANDARD.encode(text))
}

/// Lines of 64 characters, as such files have.
fn pem(certificate: &[u8]) -> String {
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for (at, character) in STANDARD.encode(certificate).chars().enumerate() {
        if at > 0 && at % 64 == 0 {
            text.push('\n');
        }
        text.push(character);
    }
    text.push_str("\n-----END CERTIFICATE-----\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS-110: what nodes are told to trust is what we trust ourselves.
    #[test]
    fn certificates_are_written_as_text() {
        let mut config = Config::new("https://example.com".parse().unwrap());
        assert_eq!(bundle(&config), None);
        config.root_cert = Some(vec![vec![1; 60], vec![2]]);
        let text = String::from_utf8(STANDARD.decode(bundle(&config).unwrap()).unwrap()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.iter().map(|line| line.len()).collect::<Vec<_>>(), [27, 64, 16, 25, 27, 4, 25]);
        assert_eq!((lines[0], lines[5]), ("-----BEGIN CERTIFICATE-----", "Ag=="));
    }
}
