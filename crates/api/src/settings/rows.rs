//! The settings, one row each.

/// One setting. The environment name is the flag in capitals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Without dashes in front.
    pub flag: &'static str,
    pub env: &'static str,
    pub kind: Kind,
    /// As text, in the form in which a user would give it.
    pub default: &'static str,
    pub scope: Scope,
    /// The value of the Helm chart that sets it.
    pub helm: Option<&'static str>,
    pub help: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Int,
    Float,
    Bool,
    /// In Go's form, `1m30s`.
    Duration,
}

/// Who reads a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Core,
    Kwok,
    Aws,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Int => "integer",
            Self::Float => "number",
            Self::Bool => "true or false",
            Self::Duration => "duration",
        }
    }
}

/// The row of a flag.
pub fn find(flag: &str) -> Option<&'static Row> {
    ALL.iter().find(|row| row.flag == flag)
}

pub const CLOUD_PROVIDER: Row = Row {
    flag: "cloud-provider",
    env: "CLOUD_PROVIDER",
    kind: Kind::Text,
    default: "aws",
    scope: Scope::Core,
    helm: Some("settings.cloudProvider"),
    help: "The cloud that nodes come from: aws or kwok.",
};
pub const KARPENTER_SERVICE: Row = Row {
    flag: "karpenter-service",
    env: "KARPENTER_SERVICE",
    kind: Kind::Text,
    default: "",
    scope: Scope::Core,
    helm: None,
    help: "Accepted and unused; once the name of the webhook service.",
};
pub const METRICS_PORT: Row = Row {
    flag: "metrics-port",
    env: "METRICS_PORT",
    kind: Kind::Int,
    default: "8080",
    scope: Scope::Core,
    helm: Some("controller.metrics.port"),
    help: "Port that metrics are served on.",
};
pub const HEALTH_PROBE_PORT: Row = Row {
    flag: "health-probe-port",
    env: "HEALTH_PROBE_PORT",
    kind: Kind::Int,
    default: "8081",
    scope: Scope::Core,
    helm: Some("controller.healthProbe.port"),
    help: "Port that health probes are served on.",
};
pub const KUBE_CLIENT_QPS: Row = Row {
    flag: "kube-client-qps",
    env: "KUBE_CLIENT_QPS",
    kind: Kind::Int,
    default: "200",
    scope: Scope::Core,
    helm: None,
    help: "Requests per second that the client sends to the API server at most.",
};
pub const KUBE_CLIENT_BURST: Row = Row {
    flag: "kube-client-burst",
    env: "KUBE_CLIENT_BURST",
    kind: Kind::Int,
    default: "300",
    scope: Scope::Core,
    helm: None,
    help: "Requests that the client may send at once before the rate applies.",
};
pub const ENABLE_PROFILING: Row = Row {
    flag: "enable-profiling",
    env: "ENABLE_PROFILING",
    kind: Kind::Bool,
    default: "false",
    scope: Scope::Core,
    helm: None,
    help: "Serve profiles beside the metrics.",
};
pub const DISABLE_CONTROLLER_WARMUP: Row = Row {
    flag: "disable-controller-warmup",
    env: "DISABLE_CONTROLLER_WARMUP",
    kind: Kind::Bool,
    default: "true",
    scope: Scope::Core,
    helm: None,
    help: "Start watches only after becoming leader, instead of keeping standby replicas warm.",
};
pub const DISABLE_LEADER_ELECTION: Row = Row {
    flag: "disable-leader-election",
    env: "DISABLE_LEADER_ELECTION",
    kind: Kind::Bool,
    default: "false",
    scope: Scope::Core,
    helm: None,
    help: "Run without leader election; only for a single replica.",
};
pub const DISABLE_CLUSTER_STATE_OBSERVABILITY: Row = Row {
    flag: "disable-cluster-state-observability",
    env: "DISABLE_CLUSTER_STATE_OBSERVABILITY",
    kind: Kind::Bool,
    default: "false",
    scope: Scope::Core,
    helm: Some("settings.disableClusterStateObservability"),
    help: "Leave out the metrics and events about pods, nodes, pools and conditions.",
};
pub const LEADER_ELECTION_NAME: Row = Row {
    flag: "leader-election-name",
    env: "LEADER_ELECTION_NAME",
    kind: Kind::Text,
    default: "karpenter-leader-election",
    scope: Scope::Core,
    helm: None,
    help: "Name of the lease.",
};
pub const LEADER_ELECTION_NAMESPACE: Row = Row {
    flag: "leader-election-namespace",
    env: "LEADER_ELECTION_NAMESPACE",
    kind: Kind::Text,
    default: "",
    scope: Scope::Core,
    helm: None,
    help: "Namespace of the lease; empty means the namespace of the service account.",
};
pub const MEMORY_LIMIT: Row = Row {
    flag: "memory-limit",
    env: "MEMORY_LIMIT",
    kind: Kind::Int,
    default: "-1",
    scope: Scope::Core,
    helm: Some("controller.resources.limits.memory"),
    help: "Memory limit of the container in bytes; above 90 % of it nothing is kept that only saves time, and the log says so. Not positive means none.",
};
pub const CPU_REQUESTS: Row = Row {
    flag: "cpu-requests",
    env: "CPU_REQUESTS",
    kind: Kind::Int,
    default: "1000",
    scope: Scope::Core,
    helm: Some("controller.resources.requests.cpu"),
    help: "CPU request of the container in millicores; decides how many workers run.",
};
pub const LOG_LEVEL: Row = Row {
    flag: "log-level",
    env: "LOG_LEVEL",
    kind: Kind::Text,
    default: "info",
    scope: Scope::Core,
    helm: Some("logLevel"),
    help: "How much to log: debug, info or error.",
};
pub const LOG_FORMAT: Row = Row {
    flag: "log-format",
    env: "LOG_FORMAT",
    kind: Kind::Text,
    default: "json",
    scope: Scope::Core,
    helm: Some("logFormat"),
    help: "How log lines look: json, or legacy with the lines that v0.5 wrote about instances and nodes.",
};
pub const LOG_OUTPUT_PATHS: Row = Row {
    flag: "log-output-paths",
    env: "LOG_OUTPUT_PATHS",
    kind: Kind::Text,
    default: "stdout",
    scope: Scope::Core,
    helm: Some("logOutputPaths"),
    help: "Where logs go, separated by commas.",
};
pub const LOG_ERROR_OUTPUT_PATHS: Row = Row {
    flag: "log-error-output-paths",
    env: "LOG_ERROR_OUTPUT_PATHS",
    kind: Kind::Text,
    default: "stderr",
    scope: Scope::Core,
    helm: Some("logErrorOutputPaths"),
    help: "Where errors of the logger itself go, separated by commas.",
};
pub const OTEL_EXPORTER_OTLP_ENDPOINT: Row = Row {
    flag: "otel-exporter-otlp-endpoint",
    env: "OTEL_EXPORTER_OTLP_ENDPOINT",
    kind: Kind::Text,
    default: "",
    scope: Scope::Core,
    helm: None,
    help: "OpenTelemetry collector that traces go to, as OTLP over HTTP, such as http://collector:4318; empty means no traces.",
};
pub const BATCH_MAX_DURATION: Row = Row {
    flag: "batch-max-duration",
    env: "BATCH_MAX_DURATION",
    kind: Kind::Duration,
    default: "10s",
    scope: Scope::Core,
    helm: Some("settings.batchMaxDuration"),
    help: "The longest time that pending pods are collected before they are planned for.",
};
pub const BATCH_IDLE_DURATION: Row = Row {
    flag: "batch-idle-duration",
    env: "BATCH_IDLE_DURATION",
    kind: Kind::Duration,
    default: "1s",
    scope: Scope::Core,
    helm: Some("settings.batchIdleDuration"),
    help: "Time without a new pending pod after which collecting ends.",
};
pub const BATCH_SIBLINGS: Row = Row {
    flag: "batch-siblings",
    env: "BATCH_SIBLINGS",
    kind: Kind::Bool,
    default: "true",
    scope: Scope::Core,
    helm: Some("settings.batchSiblings"),
    help: "Plan for all pods of a workload once kube-scheduler has refused one of them, without waiting until it has \
           come to the others.",
};
pub const PREFERENCE_POLICY: Row = Row {
    flag: "preference-policy",
    env: "PREFERENCE_POLICY",
    kind: Kind::Text,
    default: "Respect",
    scope: Scope::Core,
    helm: Some("settings.preferencePolicy"),
    help: "Whether preferred affinities of pods count: Respect or Ignore.",
};
pub const MIN_VALUES_POLICY: Row = Row {
    flag: "min-values-policy",
    env: "MIN_VALUES_POLICY",
    kind: Kind::Text,
    default: "Strict",
    scope: Scope::Core,
    helm: Some("settings.minValuesPolicy"),
    help: "What happens when minValues cannot be met: Strict fails, BestEffort lowers it.",
};
pub const PLANNER: Row = Row {
    flag: "planner",
    env: "PLANNER",
    kind: Kind::Text,
    default: "Best",
    scope: Scope::Core,
    helm: Some("settings.planner"),
    help: "Who plans for pending pods: Best looks for cheaper plans than Karpenter's own and never takes a dearer one; Reference keeps to Karpenter's order.",
};
pub const CONSOLIDATION_SEARCH: Row = Row {
    flag: "consolidation-search",
    env: "CONSOLIDATION_SEARCH",
    kind: Kind::Text,
    default: "ByValue",
    scope: Scope::Core,
    helm: Some("settings.consolidationSearch"),
    help: "How nodes that can go together are found: ByValue weighs all of them, with several replacements and commands at \
           once; Prefix keeps to Karpenter's limits of 100 nodes, one replacement and one command.",
};
pub const IGNORE_DRA_REQUESTS: Row = Row {
    flag: "ignore-dra-requests",
    env: "IGNORE_DRA_REQUESTS",
    kind: Kind::Bool,
    default: "true",
    scope: Scope::Core,
    helm: Some("settings.ignoreDRARequests"),
    help: "Report pods with resource claims as unschedulable instead of planning for them.",
};
pub const LEGACY_NODE_REPAIR: Row = Row {
    flag: "legacy-node-repair",
    env: "LEGACY_NODE_REPAIR",
    kind: Kind::Bool,
    default: "false",
    scope: Scope::Core,
    helm: Some("settings.legacyNodeRepair"),
    help: "Repair nodes as v1.14 did: without replacements, budgets and reboots; a policy without an expression is no fallback.",
};
pub const FEATURE_GATES: Row = Row {
    flag: "feature-gates",
    env: "FEATURE_GATES",
    kind: Kind::Text,
    default: "",
    scope: Scope::Core,
    helm: Some("settings.featureGates"),
    help: "Gates to switch, as Name=bool separated by commas; others keep their default.",
};
pub const SCHEDULER_CONFIG: Row = Row {
    flag: "scheduler-config",
    env: "SCHEDULER_CONFIG",
    kind: Kind::Text,
    default: "",
    scope: Scope::Core,
    helm: Some("settings.schedulerConfig"),
    help: "Default topology spread constraints, as YAML or JSON.",
};
pub const INSTANCE_TYPES_FILE_PATH: Row = Row {
    flag: "instance-types-file-path",
    env: "INSTANCE_TYPES_FILE_PATH",
    kind: Kind::Text,
    default: "",
    scope: Scope::Kwok,
    helm: None,
    help: "File with instance types for the kwok provider; empty means the built-in list.",
};
pub const CLUSTER_NAME: Row = Row {
    flag: "cluster-name",
    env: "CLUSTER_NAME",
    kind: Kind::Text,
    default: "",
    scope: Scope::Aws,
    helm: Some("settings.clusterName"),
    help: "Name of the EKS cluster. Required.",
};
pub const CLUSTER_ENDPOINT: Row = Row {
    flag: "cluster-endpoint",
    env: "CLUSTER_ENDPOINT",
    kind: Kind::Text,
    default: "",
    scope: Scope::Aws,
    helm: Some("settings.clusterEndpoint"),
    help: "URL of the API server for nodes; empty means to ask EKS.",
};
pub const CLUSTER_CA_BUNDLE: Row = Row {
    flag: "cluster-ca-bundle",
    env: "CLUSTER_CA_BUNDLE",
    kind: Kind::Text,
    default: "",
    scope: Scope::Aws,
    helm: Some("settings.clusterCABundle"),
    help: "CA of the API server for nodes, in base64; empty means the one of our own connection.",
};
pub const ISOLATED_VPC: Row = Row {
    flag: "isolated-vpc",
    env: "ISOLATED_VPC",
    kind: Kind::Bool,
    default: "false",
    scope: Scope::Aws,
    helm: Some("settings.isolatedVPC"),
    help: "Do without the services that have no endpoint inside a VPC: no price updates, no cleaning of instance profiles.",
};
pub const EKS_CONTROL_PLANE: Row = Row {
    flag: "eks-control-plane",
    env: "EKS_CONTROL_PLANE",
    kind: Kind::Bool,
    default: "false",
    scope: Scope::Aws,
    helm: Some("settings.eksControlPlane"),
    help: "Ask EKS for the version of the cluster.",
};
pub const VM_MEMORY_OVERHEAD_PERCENT: Row = Row {
    flag: "vm-memory-overhead-percent",
    env: "VM_MEMORY_OVERHEAD_PERCENT",
    kind: Kind::Float,
    default: "0.075",
    scope: Scope::Aws,
    helm: Some("settings.vmMemoryOverheadPercent"),
    help: "Share of the memory that the hypervisor takes, as a fraction.",
};
pub const INTERRUPTION_QUEUE: Row = Row {
    flag: "interruption-queue",
    env: "INTERRUPTION_QUEUE",
    kind: Kind::Text,
    default: "",
    scope: Scope::Aws,
    helm: Some("settings.interruptionQueue"),
    help: "Name of the SQS queue with interruption events; empty means no interruption handling.",
};
pub const RESERVED_ENIS: Row = Row {
    flag: "reserved-enis",
    env: "RESERVED_ENIS",
    kind: Kind::Int,
    default: "0",
    scope: Scope::Aws,
    helm: Some("settings.reservedENIs"),
    help: "Network interfaces that do not count when the number of pods is computed.",
};
pub const DISABLE_DRY_RUN: Row = Row {
    flag: "disable-dry-run",
    env: "DISABLE_DRY_RUN",
    kind: Kind::Bool,
    default: "false",
    scope: Scope::Aws,
    helm: Some("settings.disableDryRun"),
    help: "Do not try out permissions with dry-run calls.",
};
pub const DEFAULT_INSTANCE_PROFILE: Row = Row {
    flag: "default-instance-profile",
    env: "DEFAULT_INSTANCE_PROFILE",
    kind: Kind::Text,
    default: "",
    scope: Scope::Aws,
    helm: Some("settings.defaultInstanceProfile"),
    help: "Instance profile of nodes of Provisioners that name none; EC2NodeClasses always name theirs.",
};
pub const ENABLE_ZONAL_SHIFT: Row = Row {
    flag: "enable-zonal-shift",
    env: "ENABLE_ZONAL_SHIFT",
    kind: Kind::Bool,
    default: "false",
    scope: Scope::Aws,
    helm: Some("settings.enableZonalShift"),
    help: "Leave out zones that are shifted away from.",
};
pub const AMI_REFRESH_INTERVAL: Row = Row {
    flag: "ami-refresh-interval",
    env: "AMI_REFRESH_INTERVAL",
    kind: Kind::Duration,
    default: "1m",
    scope: Scope::Aws,
    helm: Some("settings.amiRefreshInterval"),
    help: "How often machine images are looked up, at least 1m.",
};
pub const SUBNET_REFRESH_INTERVAL: Row = Row {
    flag: "subnet-refresh-interval",
    env: "SUBNET_REFRESH_INTERVAL",
    kind: Kind::Duration,
    default: "1m",
    scope: Scope::Aws,
    helm: Some("settings.subnetRefreshInterval"),
    help: "How often subnets are looked up, at least 1m.",
};
pub const REPAIR_REBOOT_REASONS: Row = Row {
    flag: "repair-reboot-reasons",
    env: "REPAIR_REBOOT_REASONS",
    kind: Kind::Text,
    default: "",
    scope: Scope::Aws,
    helm: Some("settings.repair.rebootReasons"),
    help: "Reasons to reboot sick nodes instead of replacing them, as YAML or JSON: a list of conditionType and reasonExpression.",
};
pub const AWS_FEATURE_GATES: Row = Row {
    flag: "aws-feature-gates",
    env: "AWS_FEATURE_GATES",
    kind: Kind::Text,
    default: "",
    scope: Scope::Aws,
    helm: Some("settings.awsFeatureGates"),
    help: "Gates of the AWS provider to switch, as Name=bool separated by commas.",
};

/// Every setting, in the order of the documentation.
pub const ALL: [Row; 46] = [
    CLOUD_PROVIDER,
    KARPENTER_SERVICE,
    METRICS_PORT,
    HEALTH_PROBE_PORT,
    KUBE_CLIENT_QPS,
    KUBE_CLIENT_BURST,
    ENABLE_PROFILING,
    DISABLE_CONTROLLER_WARMUP,
    DISABLE_LEADER_ELECTION,
    DISABLE_CLUSTER_STATE_OBSERVABILITY,
    LEADER_ELECTION_NAME,
    LEADER_ELECTION_NAMESPACE,
    MEMORY_LIMIT,
    CPU_REQUESTS,
    LOG_LEVEL,
    LOG_FORMAT,
    LOG_OUTPUT_PATHS,
    LOG_ERROR_OUTPUT_PATHS,
    OTEL_EXPORTER_OTLP_ENDPOINT,
    BATCH_MAX_DURATION,
    BATCH_IDLE_DURATION,
    BATCH_SIBLINGS,
    PREFERENCE_POLICY,
    MIN_VALUES_POLICY,
    PLANNER,
    CONSOLIDATION_SEARCH,
    IGNORE_DRA_REQUESTS,
    LEGACY_NODE_REPAIR,
    FEATURE_GATES,
    SCHEDULER_CONFIG,
    INSTANCE_TYPES_FILE_PATH,
    CLUSTER_NAME,
    CLUSTER_ENDPOINT,
    CLUSTER_CA_BUNDLE,
    ISOLATED_VPC,
    EKS_CONTROL_PLANE,
    VM_MEMORY_OVERHEAD_PERCENT,
    INTERRUPTION_QUEUE,
    RESERVED_ENIS,
    DISABLE_DRY_RUN,
    DEFAULT_INSTANCE_PROFILE,
    ENABLE_ZONAL_SHIFT,
    AMI_REFRESH_INTERVAL,
    SUBNET_REFRESH_INTERVAL,
    REPAIR_REBOOT_REASONS,
    AWS_FEATURE_GATES,
];
