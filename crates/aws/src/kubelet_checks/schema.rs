//! The form of KubeletConfiguration, `kubelet.config.k8s.io/v1beta1`, as of Kubernetes 1.35 (AWS-86).

use serde_json::{Map, Value};

use karpenter_model::duration::GoDuration;
use karpenter_model::quantity::Quantity;

/// What values of a member look like.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Boolean,
    Int32,
    Int64,
    Number,
    Text,
    Duration,
    /// A number, or the text of an expression.
    Pods,
    /// A text that is a quantity, or a number.
    Quantity,
    List(&'static Kind),
    Map(&'static Kind),
    Object(Members),
}

type Members = &'static [(&'static str, Kind)];

use Kind::{Boolean, Duration, Int32, Int64, List, Number, Object, Pods, Text};

const TEXTS: Kind = List(&Text);
const TEXT_MAP: Kind = Kind::Map(&Text);

const WEBHOOK_AUTHENTICATION: Members = &[("enabled", Boolean), ("cacheTTL", Duration)];
const AUTHENTICATION: Members = &[
    ("x509", Object(&[("clientCAFile", Text)])),
    ("webhook", Object(WEBHOOK_AUTHENTICATION)),
    ("anonymous", Object(&[("enabled", Boolean)])),
];
const AUTHORIZATION: Members =
    &[("mode", Text), ("webhook", Object(&[("cacheAuthorizedTTL", Duration), ("cacheUnauthorizedTTL", Duration)]))];
const LOGGING: Members = &[
    ("format", Text),
    ("flushFrequency", Kind::Quantity),
    ("verbosity", Int64),
    ("vmodule", List(&Object(&[("filePattern", Text), ("verbosity", Int64)]))),
    (
        "options",
        Object(&[
            ("text", Object(&[("splitStream", Boolean), ("infoBufferSize", Kind::Quantity)])),
            ("json", Object(&[("splitStream", Boolean), ("infoBufferSize", Kind::Quantity)])),
        ]),
    ),
];
const TAINT: Members = &[("key", Text), ("value", Text), ("effect", Text), ("timeAdded", Text)];
const RESERVED_MEMORY: Members = &[("numaNode", Int32), ("limits", Kind::Map(&Kind::Quantity))];
const SHUTDOWN_BY_PRIORITY: Members = &[("priority", Int32), ("shutdownGracePeriodSeconds", Int64)];

const CONFIGURATION: Members = &[
    ("apiVersion", Text),
    ("kind", Text),
    ("address", Text),
    ("allowedUnsafeSysctls", TEXTS),
    ("authentication", Object(AUTHENTICATION)),
    ("authorization", Object(AUTHORIZATION)),
    ("cgroupDriver", Text),
    ("cgroupRoot", Text),
    ("cgroupsPerQOS", Boolean),
    ("clusterDNS", TEXTS),
    ("clusterDomain", Text),
    ("configMapAndSecretChangeDetectionStrategy", Text),
    ("containerLogMaxFiles", Int32),
    ("containerLogMaxSize", Text),
    ("containerLogMaxWorkers", Int32),
    ("containerLogMonitorInterval", Duration),
    ("containerRuntimeEndpoint", Text),
    ("contentType", Text),
    ("cpuCFSQuota", Boolean),
    ("cpuCFSQuotaPeriod", Duration),
    ("cpuManagerPolicy", Text),
    ("cpuManagerPolicyOptions", TEXT_MAP),
    ("cpuManagerReconcilePeriod", Duration),
    ("crashLoopBackOff", Object(&[("maxContainerRestartPeriod", Duration)])),
    ("enableContentionProfiling", Boolean),
    ("enableControllerAttachDetach", Boolean),
    ("enableDebugFlagsHandler", Boolean),
    ("enableDebuggingHandlers", Boolean),
    ("enableProfilingHandler", Boolean),
    ("enableServer", Boolean),
    ("enableSystemLogHandler", Boolean),
    ("enableSystemLogQuery", Boolean),
    ("enforceNodeAllocatable", TEXTS),
    ("eventBurst", Int32),
    ("eventRecordQPS", Int32),
    ("evictionHard", TEXT_MAP),
    ("evictionMaxPodGracePeriod", Int32),
    ("evictionMinimumReclaim", TEXT_MAP),
    ("evictionPressureTransitionPeriod", Duration),
    ("evictionSoft", TEXT_MAP),
    ("evictionSoftGracePeriod", TEXT_MAP),
    ("failCgroupV1", Boolean),
    ("failSwapOn", Boolean),
    ("featureGates", Kind::Map(&Boolean)),
    ("fileCheckFrequency", Duration),
    ("hairpinMode", Text),
    ("healthzBindAddress", Text),
    ("healthzPort", Int32),
    ("httpCheckFrequency", Duration),
    ("imageGCHighThresholdPercent", Int32),
    ("imageGCLowThresholdPercent", Int32),
    ("imageMaximumGCAge", Duration),
    ("imageMinimumGCAge", Duration),
    ("imagePullCredentialsVerificationPolicy", Text),
    ("imageServiceEndpoint", Text),
    ("iptablesDropBit", Int32),
    ("iptablesMasqueradeBit", Int32),
    ("kernelMemcgNotification", Boolean),
    ("kubeAPIBurst", Int32),
    ("kubeAPIQPS", Int32),
    ("kubeReserved", TEXT_MAP),
    ("kubeReservedCgroup", Text),
    ("kubeletCgroups", Text),
    ("localStorageCapacityIsolation", Boolean),
    ("logging", Object(LOGGING)),
    ("makeIPTablesUtilChains", Boolean),
    ("maxOpenFiles", Int64),
    ("maxParallelImagePulls", Int32),
    ("maxPods", Pods),
    ("memoryManagerPolicy", Text),
    ("memorySwap", Object(&[("swapBehavior", Text)])),
    ("memoryThrottlingFactor", Number),
    ("mergeDefaultEvictionSettings", Boolean),
    ("nodeLeaseDurationSeconds", Int32),
    ("nodeStatusMaxImages", Int32),
    ("nodeStatusReportFrequency", Duration),
    ("nodeStatusUpdateFrequency", Duration),
    ("oomScoreAdj", Int32),
    ("podCIDR", Text),
    ("podLogsDir", Text),
    ("podPidsLimit", Int64),
    ("podsPerCore", Int32),
    ("port", Int32),
    ("preloadedImagesVerificationAllowlist", TEXTS),
    ("protectKernelDefaults", Boolean),
    ("providerID", Text),
    ("qosReserved", TEXT_MAP),
    ("readOnlyPort", Int32),
    ("registerNode", Boolean),
    ("registerWithTaints", List(&Object(TAINT))),
    ("registryBurst", Int32),
    ("registryPullQPS", Int32),
    ("reservedMemory", List(&Object(RESERVED_MEMORY))),
    ("reservedSystemCPUs", Text),
    ("resolvConf", Text),
    ("rotateCertificates", Boolean),
    ("runOnce", Boolean),
    ("runtimeRequestTimeout", Duration),
    ("seccompDefault", Boolean),
    ("serializeImagePulls", Boolean),
    ("serverTLSBootstrap", Boolean),
    ("showHiddenMetricsForVersion", Text),
    ("shutdownGracePeriod", Duration),
    ("shutdownGracePeriodByPodPriority", List(&Object(SHUTDOWN_BY_PRIORITY))),
    ("shutdownGracePeriodCriticalPods", Duration),
    ("singleProcessOOMKill", Boolean),
    ("staticPodPath", Text),
    ("staticPodURL", Text),
    ("staticPodURLHeader", Kind::Map(&TEXTS)),
    ("streamingConnectionIdleTimeout", Duration),
    ("syncFrequency", Duration),
    ("systemCgroups", Text),
    ("systemReserved", TEXT_MAP),
    ("systemReservedCgroup", Text),
    ("tlsCertFile", Text),
    ("tlsCipherSuites", TEXTS),
    ("tlsMinVersion", Text),
    ("tlsPrivateKeyFile", Text),
    ("topologyManagerPolicy", Text),
    ("topologyManagerPolicyOptions", TEXT_MAP),
    ("topologyManagerScope", Text),
    ("tracing", Object(&[("endpoint", Text), ("samplingRatePerMillion", Int32)])),
    ("userNamespaces", Object(&[("idsPerPod", Int64)])),
    ("volumePluginDir", Text),
    ("volumeStatsAggPeriod", Duration),
];

/// What is wrong with the form, in the order of the members.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) types: Vec<String>,
    pub(super) unknown: Vec<String>,
}

pub(super) fn check(members: &Map<String, Value>) -> Checked {
    let mut checked = Checked::default();
    object("spec.kubelet", members, CONFIGURATION, &mut checked);
    checked
}

fn object(path: &str, members: &Map<String, Value>, known: Members, checked: &mut Checked) {
    for (name, value) in members {
        let path = format!("{path}.{name}");
        match known.iter().find(|(known, _)| known == name) {
            Some((_, kind)) => one(&path, value, *kind, checked),
            None => checked.unknown.push(format!("{path} is not a setting of the kubelet")),
        }
    }
}

fn one(path: &str, value: &Value, kind: Kind, checked: &mut Checked) {
    let fits =
        |number: &Value, low: i64, high: i64| number.as_i64().is_some_and(|number| (low..=high).contains(&number));
    let (small, text) = ((i64::from(i32::MIN), i64::from(i32::MAX)), value.as_str());
    let (fine, wanted) = match kind {
        // As a decoder takes it: not set.
        _ if value.is_null() => return,
        Boolean => (value.is_boolean(), "a boolean"),
        Int32 => (fits(value, small.0, small.1), "a whole number of 32 bits"),
        Int64 => (value.is_i64(), "a whole number"),
        Number => (value.is_number(), "a number"),
        Text => (value.is_string(), "a string"),
        Duration => (text.is_some_and(|text| text.parse::<GoDuration>().is_ok()), "a duration such as 1m30s"),
        Pods => (value.is_string() || fits(value, small.0, small.1), "a whole number or an expression"),
        Kind::Quantity => (value.is_number() || text.is_some_and(is_amount), "a quantity, a duration or a number"),
        List(item) => {
            let Some(items) = value.as_array() else { return checked.types.push(format!("{path} must be a list")) };
            for (at, value) in items.iter().enumerate() {
                one(&format!("{path}[{at}]"), value, *item, checked);
            }
            return;
        }
        Kind::Map(item) => {
            let Some(entries) = value.as_object() else {
                return checked.types.push(format!("{path} must be an object"));
            };
            for (key, value) in entries {
                one(&format!("{path}[{key}]"), value, *item, checked);
            }
            return;
        }
        Object(known) => {
            let Some(members) = value.as_object() else {
                return checked.types.push(format!("{path} must be an object"));
            };
            return object(path, members, known, checked);
        }
    };
    if !fine {
        checked.types.push(format!("{path} must be {wanted}"));
    }
}

fn is_amount(text: &str) -> bool {
    text.parse::<Quantity>().is_ok() || text.parse::<GoDuration>().is_ok()
}
