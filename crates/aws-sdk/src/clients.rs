//! Who calls, where, and how patiently (AWS-110, AWS-252).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, ConfigLoader, Region, SdkConfig};
use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::config::{Credentials, ProvideCredentials, SharedHttpClient};
use aws_smithy_http_client::tls;
use karpenter_aws::cloud::{ApiError, CallObserver, Ec2Reads, Ec2Writes, Iam, Lookups, Queue};
use karpenter_aws::pricing::pricing_endpoint_region;

use crate::ec2_reads::Reads;
use crate::ec2_writes::Writes;
use crate::failures::{chain, failure};
use crate::iam::Profiles;
use crate::lookups::Looker;
use crate::observing::Observing;
use crate::queue::Messages;

/// Of one HTTP exchange (AWS-252). A long poll takes 20 s of it.
const ANSWERED_WITHIN: Duration = Duration::from_mins(4);

/// Why there is nobody to ask.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("no AWS region: set AWS_REGION, or run where instance metadata can be asked for it")]
    NoRegion,
    #[error(
        "no AWS credentials: give the service account a role (EKS Pod Identity or IRSA), or set AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY: {0}"
    )]
    NoCredentials(String),
    #[error("the version {0:?} cannot be part of a user agent")]
    Version(String),
}

/// A place and an identity that are given and not looked for.
#[derive(Clone)]
pub struct Fixed {
    pub endpoint: String,
    pub region: String,
    pub access_key: String,
    pub secret_key: String,
}

impl fmt::Debug for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fixed").field("endpoint", &self.endpoint).field("region", &self.region).finish_non_exhaustive()
    }
}

/// One of each. They share a pool of connections and the credentials, which are refreshed before they expire.
#[derive(Debug, Clone)]
pub struct Clients {
    pub region: String,
    pub reads: Arc<dyn Ec2Reads>,
    pub writes: Arc<dyn Ec2Writes>,
    pub iam: Arc<dyn Iam>,
    pub lookups: Arc<dyn Lookups>,
    check: Check,
    sqs: Sqs,
}

#[derive(Clone)]
struct Check(aws_sdk_ec2::Client);

#[derive(Clone)]
struct Sqs(aws_sdk_sqs::Client);

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Check")
    }
}

impl fmt::Debug for Sqs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sqs")
    }
}

impl Clients {
    /// Whether EC2 is within reach and lets us in: DescribeInstanceTypes, dry (AWS-110).
    pub async fn check(&self) -> Result<(), ApiError> {
        match self.check.0.describe_instance_types().dry_run(true).send().await.map_err(failure) {
            Err(error) if !error.is_dry_run_success() => Err(error),
            _ => Ok(()),
        }
    }

    /// The queue of this name; it is looked up when it is first used (AWS-214).
    pub fn queue(&self, name: &str) -> Arc<dyn Queue> {
        Arc::new(Messages::new(self.sqs.0.clone(), name))
    }
}

/// As the environment, profiles, the pod's identity or the instance say, in the order of the SDK's default chain (AWS-245). Fails
/// when there are no credentials, which else every single call would say.
pub async fn connect(version: &str, observer: Arc<dyn CallObserver>) -> Result<Clients, ConnectError> {
    let config = loader(version)?.load().await;
    let region = config.region().ok_or(ConnectError::NoRegion)?.to_string();
    let provider = config.credentials_provider();
    let found = match &provider {
        Some(provider) => provider.provide_credentials().await.map(|_| ()).map_err(|error| chain(&error)),
        None => Err("nobody provides them".to_owned()),
    };
    found.map_err(ConnectError::NoCredentials)?;
    Ok(clients(&config, region, observer))
}

/// To one endpoint for all services.
pub async fn connect_to(
    fixed: &Fixed,
    version: &str,
    observer: Arc<dyn CallObserver>,
) -> Result<Clients, ConnectError> {
    let credentials = Credentials::new(&fixed.access_key, &fixed.secret_key, None, None, "fixed");
    let loader = loader(version)?.region(Region::new(fixed.region.clone())).credentials_provider(credentials);
    Ok(clients(&loader.endpoint_url(&fixed.endpoint).load().await, fixed.region.clone(), observer))
}

fn loader(version: &str) -> Result<ConfigLoader, ConnectError> {
    let name = AppName::new(format!("karpenter.sh-{version}"));
    let name = name.map_err(|_| ConnectError::Version(version.to_owned()))?;
    let patience = TimeoutConfig::builder().operation_attempt_timeout(ANSWERED_WITHIN).build();
    Ok(aws_config::defaults(BehaviorVersion::latest())
        .http_client(http_client())
        .app_name(name)
        .timeout_config(patience))
}

/// The cryptography that the Kubernetes client uses, too.
fn http_client() -> SharedHttpClient {
    let rustls = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring);
    aws_smithy_http_client::Builder::new().tls_provider(rustls).build_https()
}

fn clients(config: &SdkConfig, region: String, observer: Arc<dyn CallObserver>) -> Clients {
    let observing = Observing(observer);
    let of_ec2 = || aws_sdk_ec2::config::Builder::from(config).interceptor(observing.clone());
    let ec2 = aws_sdk_ec2::Client::from_conf(of_ec2().build());
    // Dry runs ask whether something is allowed; no is an answer and not a reason to ask again (AWS-252).
    let once = aws_sdk_ec2::Client::from_conf(of_ec2().retry_config(RetryConfig::disabled()).build());
    let prices = Region::new(pricing_endpoint_region(&region));
    let prices = aws_sdk_pricing::config::Builder::from(config).region(prices).interceptor(observing.clone()).build();
    let iam = aws_sdk_iam::config::Builder::from(config).interceptor(observing.clone()).build();
    let ssm = aws_sdk_ssm::config::Builder::from(config).interceptor(observing.clone()).build();
    let eks = aws_sdk_eks::config::Builder::from(config).interceptor(observing.clone()).build();
    let shifts = aws_sdk_arczonalshift::config::Builder::from(config).interceptor(observing.clone()).build();
    let sqs = aws_sdk_sqs::config::Builder::from(config).interceptor(observing).build();
    Clients {
        region,
        reads: Arc::new(Reads(ec2.clone())),
        writes: Arc::new(Writes { client: ec2.clone(), once }),
        iam: Arc::new(Profiles(aws_sdk_iam::Client::from_conf(iam))),
        lookups: Arc::new(Looker {
            parameters: aws_sdk_ssm::Client::from_conf(ssm),
            prices: aws_sdk_pricing::Client::from_conf(prices),
            clusters: aws_sdk_eks::Client::from_conf(eks),
            shifts: aws_sdk_arczonalshift::Client::from_conf(shifts),
        }),
        check: Check(ec2),
        sqs: Sqs(aws_sdk_sqs::Client::from_conf(sqs)),
    }
}
