//! Settings: flags, environment and defaults become one validated value (API-153 … API-168, AWS-229, V15-13 … V15-16).
//!
//! Pure: arguments and environment come in as values. The rows in [`rows`] are the one source of flag, environment name,
//! default and help; parsing, `--help` and the reference documentation read them.

mod gates;
mod help;
mod reader;
mod reboot_reasons;
pub mod rows;
mod scheduler;

use std::fmt;

use karpenter_model::duration::GoDuration;

pub use gates::{AwsFeatureGates, FeatureGates};
pub use help::help;
pub use reboot_reasons::{REBOOT_CONDITIONS, RebootReason};
pub use scheduler::{DefaultConstraint, SchedulerConfig, SchedulerConfigError};

use reader::Reader;

/// Everything the controller can be told at start-up.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub cloud_provider: CloudProvider,
    /// Accepted and unused: the name of a webhook service of old.
    pub karpenter_service: String,
    pub metrics_port: u16,
    pub health_probe_port: u16,
    pub kube_client_qps: i64,
    pub kube_client_burst: i64,
    pub enable_profiling: bool,
    pub disable_controller_warmup: bool,
    pub disable_leader_election: bool,
    pub disable_cluster_state_observability: bool,
    pub leader_election_name: String,
    /// Empty = the namespace of the pod's service account.
    pub leader_election_namespace: String,
    /// Not positive = no limit known.
    pub memory_limit_bytes: i64,
    /// Always positive.
    pub cpu_requests_millicores: i64,
    pub log_level: LogLevel,
    pub log_format: LogFormat,
    pub log_output_paths: Vec<String>,
    pub log_error_output_paths: Vec<String>,
    /// Empty = traces go nowhere.
    pub otel_exporter_otlp_endpoint: String,
    pub batch_max_duration: GoDuration,
    pub batch_idle_duration: GoDuration,
    pub batch_siblings: bool,
    pub preference_policy: PreferencePolicy,
    pub min_values_policy: MinValuesPolicy,
    pub planner: Planner,
    pub consolidation_search: ConsolidationSearch,
    pub ignore_dra_requests: bool,
    pub legacy_node_repair: bool,
    pub feature_gates: FeatureGates,
    pub scheduler: SchedulerConfig,
    pub kwok: KwokSettings,
    pub aws: AwsSettings,
}

/// Settings of the KWOK provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KwokSettings {
    /// Empty = the built-in list.
    pub instance_types_file_path: String,
}

/// Settings of the AWS provider. Checked only when it is the one in use.
#[derive(Debug, Clone, PartialEq)]
pub struct AwsSettings {
    pub cluster_name: String,
    /// Empty = ask EKS.
    pub cluster_endpoint: String,
    /// In base64; empty = the CA of the API client.
    pub cluster_ca_bundle: String,
    pub isolated_vpc: bool,
    pub eks_control_plane: bool,
    pub vm_memory_overhead_percent: f64,
    /// Empty = no interruption handling.
    pub interruption_queue: String,
    pub reserved_enis: i64,
    pub disable_dry_run: bool,
    /// Of nodes of Provisioners that name none; empty = there is no such profile.
    pub default_instance_profile: String,
    pub enable_zonal_shift: bool,
    pub ami_refresh_interval: GoDuration,
    pub subnet_refresh_interval: GoDuration,
    pub reboot_reasons: Vec<RebootReason>,
    pub feature_gates: AwsFeatureGates,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloudProvider {
    Aws,
    Kwok,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    Debug,
    Info,
    Error,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Json,
    /// The columns of v0.5, and its lines about instances and nodes.
    Legacy,
}

/// What to do with preferred affinities of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreferencePolicy {
    Respect,
    Ignore,
}

/// What to do when `minValues` cannot be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MinValuesPolicy {
    Strict,
    BestEffort,
}

/// Who plans for pods that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planner {
    /// Whatever is cheapest, and never dearer than the other.
    Best,
    /// The order of the target.
    Reference,
}

/// How nodes that can go together are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsolidationSearch {
    ByValue,
    /// Within the limits of the target.
    Prefix,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// `--help` was asked for; the text to print.
    #[error("{0}")]
    Help(String),
    /// Everything that is wrong, not only the first thing.
    #[error("{}", list(.0))]
    Invalid(Vec<SettingProblem>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingProblem {
    /// The flag, `--metrics-port`.
    pub setting: String,
    pub message: String,
}

impl fmt::Display for SettingProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.setting, self.message)
    }
}

fn list(problems: &[SettingProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Reads the settings from the arguments (without the program's name) and the environment.
pub fn parse(
    args: impl Iterator<Item = String>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Settings, SettingsError> {
    let mut reader = Reader::new(args, env);
    if reader.help_wanted() {
        return Err(SettingsError::Help(help()));
    }
    let settings = read(&mut reader);
    check(&settings, &mut reader);
    let problems = reader.into_problems();
    if problems.is_empty() { Ok(settings) } else { Err(SettingsError::Invalid(problems)) }
}

fn read(reader: &mut Reader<'_>) -> Settings {
    Settings {
        cloud_provider: reader
            .choice(&rows::CLOUD_PROVIDER, &[("aws", CloudProvider::Aws), ("kwok", CloudProvider::Kwok)]),
        karpenter_service: reader.text(&rows::KARPENTER_SERVICE),
        metrics_port: reader.port(&rows::METRICS_PORT),
        health_probe_port: reader.port(&rows::HEALTH_PROBE_PORT),
        kube_client_qps: reader.int(&rows::KUBE_CLIENT_QPS),
        kube_client_burst: reader.int(&rows::KUBE_CLIENT_BURST),
        enable_profiling: reader.boolean(&rows::ENABLE_PROFILING),
        disable_controller_warmup: reader.boolean(&rows::DISABLE_CONTROLLER_WARMUP),
        disable_leader_election: reader.boolean(&rows::DISABLE_LEADER_ELECTION),
        disable_cluster_state_observability: reader.boolean(&rows::DISABLE_CLUSTER_STATE_OBSERVABILITY),
        leader_election_name: reader.text(&rows::LEADER_ELECTION_NAME),
        leader_election_namespace: reader.text(&rows::LEADER_ELECTION_NAMESPACE),
        memory_limit_bytes: reader.int(&rows::MEMORY_LIMIT),
        cpu_requests_millicores: Some(reader.int(&rows::CPU_REQUESTS)).filter(|cpu| *cpu > 0).unwrap_or(1000),
        log_level: reader.choice(
            &rows::LOG_LEVEL,
            &[("info", LogLevel::Info), ("debug", LogLevel::Debug), ("error", LogLevel::Error), ("", LogLevel::Info)],
        ),
        log_format: reader.choice(
            &rows::LOG_FORMAT,
            &[("json", LogFormat::Json), ("legacy", LogFormat::Legacy), ("", LogFormat::Json)],
        ),
        log_output_paths: paths(&reader.text(&rows::LOG_OUTPUT_PATHS)),
        log_error_output_paths: paths(&reader.text(&rows::LOG_ERROR_OUTPUT_PATHS)),
        otel_exporter_otlp_endpoint: reader.parsed(&rows::OTEL_EXPORTER_OTLP_ENDPOINT, collector_url),
        batch_max_duration: reader.duration(&rows::BATCH_MAX_DURATION),
        batch_idle_duration: reader.duration(&rows::BATCH_IDLE_DURATION),
        batch_siblings: reader.boolean(&rows::BATCH_SIBLINGS),
        preference_policy: reader.choice(
            &rows::PREFERENCE_POLICY,
            &[("Respect", PreferencePolicy::Respect), ("Ignore", PreferencePolicy::Ignore)],
        ),
        min_values_policy: reader.choice(
            &rows::MIN_VALUES_POLICY,
            &[("Strict", MinValuesPolicy::Strict), ("BestEffort", MinValuesPolicy::BestEffort)],
        ),
        planner: reader.choice(&rows::PLANNER, &[("Best", Planner::Best), ("Reference", Planner::Reference)]),
        consolidation_search: reader.choice(
            &rows::CONSOLIDATION_SEARCH,
            &[("ByValue", ConsolidationSearch::ByValue), ("Prefix", ConsolidationSearch::Prefix)],
        ),
        ignore_dra_requests: reader.boolean(&rows::IGNORE_DRA_REQUESTS),
        legacy_node_repair: reader.boolean(&rows::LEGACY_NODE_REPAIR),
        feature_gates: reader.parsed(&rows::FEATURE_GATES, FeatureGates::parse),
        scheduler: reader.parsed(&rows::SCHEDULER_CONFIG, SchedulerConfig::parse),
        kwok: KwokSettings { instance_types_file_path: reader.text(&rows::INSTANCE_TYPES_FILE_PATH) },
        aws: read_aws(reader),
    }
}

fn read_aws(reader: &mut Reader<'_>) -> AwsSettings {
    AwsSettings {
        cluster_name: reader.text(&rows::CLUSTER_NAME),
        cluster_endpoint: reader.text(&rows::CLUSTER_ENDPOINT),
        cluster_ca_bundle: reader.text(&rows::CLUSTER_CA_BUNDLE),
        isolated_vpc: reader.boolean(&rows::ISOLATED_VPC),
        eks_control_plane: reader.boolean(&rows::EKS_CONTROL_PLANE),
        vm_memory_overhead_percent: reader.float(&rows::VM_MEMORY_OVERHEAD_PERCENT),
        interruption_queue: reader.text(&rows::INTERRUPTION_QUEUE),
        reserved_enis: reader.int(&rows::RESERVED_ENIS),
        disable_dry_run: reader.boolean(&rows::DISABLE_DRY_RUN),
        default_instance_profile: reader.text(&rows::DEFAULT_INSTANCE_PROFILE),
        enable_zonal_shift: reader.boolean(&rows::ENABLE_ZONAL_SHIFT),
        ami_refresh_interval: reader.duration(&rows::AMI_REFRESH_INTERVAL),
        subnet_refresh_interval: reader.duration(&rows::SUBNET_REFRESH_INTERVAL),
        reboot_reasons: reader.parsed(&rows::REPAIR_REBOOT_REASONS, reboot_reasons::parse),
        feature_gates: reader.parsed(&rows::AWS_FEATURE_GATES, AwsFeatureGates::parse),
    }
}

fn paths(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|path| !path.is_empty()).map(str::to_owned).collect()
}

/// Where a collector is: nowhere, or a server that speaks HTTP.
fn collector_url(text: &str) -> Result<String, String> {
    let known_scheme = text.starts_with("http://") || text.starts_with("https://");
    if text.is_empty() || known_scheme && is_absolute_url(text) && !text.contains(['?', '#']) {
        return Ok(text.trim_end_matches('/').to_owned());
    }
    Err(format!("{text:?} is not the URL of a collector for OTLP over HTTP, such as http://collector:4318"))
}

/// Checks of AWS-229, for the provider in use only.
fn check(settings: &Settings, reader: &mut Reader<'_>) {
    if settings.cloud_provider != CloudProvider::Aws {
        return;
    }
    let aws = &settings.aws;
    let minute = GoDuration::from_secs(60);
    if aws.cluster_name.is_empty() {
        reader.problem(&rows::CLUSTER_NAME, "is required");
    }
    if !aws.cluster_endpoint.is_empty() && !is_absolute_url(&aws.cluster_endpoint) {
        let message = format!("{:?} is not an absolute URL with a host, such as https://host", aws.cluster_endpoint);
        reader.problem(&rows::CLUSTER_ENDPOINT, message);
    }
    if aws.vm_memory_overhead_percent < 0.0 {
        reader.problem(&rows::VM_MEMORY_OVERHEAD_PERCENT, "must not be negative");
    }
    if aws.reserved_enis < 0 {
        reader.problem(&rows::RESERVED_ENIS, "must not be negative");
    }
    if let Err(wrong) = reboot_reasons::check(&aws.reboot_reasons) {
        reader.problem(&rows::REPAIR_REBOOT_REASONS, wrong);
    }
    for (row, interval) in [
        (&rows::AMI_REFRESH_INTERVAL, aws.ami_refresh_interval),
        (&rows::SUBNET_REFRESH_INTERVAL, aws.subnet_refresh_interval),
    ] {
        if interval < minute {
            reader.problem(row, format!("must be at least 1m, is {interval}"));
        }
    }
}

fn is_absolute_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let mut letters = scheme.bytes();
    let scheme_ok = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    scheme_ok && !name.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

impl Settings {
    /// How long a node stays nominated for a pod (API-160).
    pub fn nomination_window(&self) -> GoDuration {
        let twice = GoDuration::from_nanos(self.batch_max_duration.as_nanos().saturating_mul(2));
        twice.max(GoDuration::from_secs(10))
    }

    /// Soft memory target in bytes: 90 % of the limit, when there is one (API-156).
    pub fn memory_target_bytes(&self) -> Option<i64> {
        (self.memory_limit_bytes > 0).then(|| self.memory_limit_bytes / 10 * 9 + self.memory_limit_bytes % 10 * 9 / 10)
    }

    /// Whether start-up must fail unless the provider lists valid repair policies (V15-16).
    pub fn needs_repair_policies(&self) -> bool {
        self.feature_gates.node_repair && !self.legacy_node_repair
    }
}

#[cfg(test)]
mod tests;
