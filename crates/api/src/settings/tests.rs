use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn parse_with(args: &[&str], env: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    let env: BTreeMap<String, String> =
        env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    parse(args.iter().map(|arg| (*arg).to_owned()), &|name| env.get(name).cloned())
}

/// With the kwok provider, which requires nothing.
fn kwok(args: &[&str], env: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    let args: Vec<&str> = ["--cloud-provider=kwok"].iter().chain(args).copied().collect();
    parse_with(&args, env)
}

fn aws(args: &[&str], env: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    let args: Vec<&str> = ["--cluster-name=c"].iter().chain(args).copied().collect();
    parse_with(&args, env)
}

fn message(result: Result<Settings, SettingsError>) -> String {
    result.unwrap_err().to_string()
}

/// API-156, API-157, API-164, API-168, V15-13, V15-14, AWS-229: every default.
#[test]
fn defaults() {
    let settings = kwok(&[], &[]).unwrap();
    let seconds = GoDuration::from_secs;
    let want = Settings {
        cloud_provider: CloudProvider::Kwok,
        karpenter_service: String::new(),
        metrics_port: 8080,
        health_probe_port: 8081,
        kube_client_qps: 200,
        kube_client_burst: 300,
        enable_profiling: false,
        disable_controller_warmup: true,
        disable_leader_election: false,
        disable_cluster_state_observability: false,
        leader_election_name: "karpenter-leader-election".to_owned(),
        leader_election_namespace: String::new(),
        memory_limit_bytes: -1,
        cpu_requests_millicores: 1000,
        log_level: LogLevel::Info,
        log_format: LogFormat::Json,
        log_output_paths: vec!["stdout".to_owned()],
        log_error_output_paths: vec!["stderr".to_owned()],
        otel_exporter_otlp_endpoint: String::new(),
        batch_max_duration: seconds(10),
        batch_idle_duration: seconds(1),
        batch_siblings: true,
        preference_policy: PreferencePolicy::Respect,
        min_values_policy: MinValuesPolicy::Strict,
        planner: Planner::Best,
        consolidation_search: ConsolidationSearch::ByValue,
        ignore_dra_requests: true,
        legacy_node_repair: false,
        feature_gates: FeatureGates {
            node_repair: false,
            reserved_capacity: true,
            spot_to_spot_consolidation: false,
            node_overlay: false,
            static_capacity: false,
            capacity_buffer: false,
            terminate_first_drift: false,
            terminate_first_repair: false,
            pod_deletion_cost_management: false,
        },
        scheduler: SchedulerConfig::default(),
        kwok: KwokSettings { instance_types_file_path: String::new() },
        aws: AwsSettings {
            cluster_name: String::new(),
            cluster_endpoint: String::new(),
            cluster_ca_bundle: String::new(),
            isolated_vpc: false,
            eks_control_plane: false,
            vm_memory_overhead_percent: 0.075,
            interruption_queue: String::new(),
            reserved_enis: 0,
            disable_dry_run: false,
            default_instance_profile: String::new(),
            enable_zonal_shift: false,
            ami_refresh_interval: seconds(60),
            subnet_refresh_interval: seconds(60),
            reboot_reasons: Vec::new(),
            feature_gates: AwsFeatureGates { node_class_cel: false },
        },
    };
    assert_eq!(settings, want);
    assert_eq!(aws(&[], &[]).unwrap().cloud_provider, CloudProvider::Aws);
}

/// API-153, API-156, API-157: flag before environment before default, for every kind and every way to write a flag.
#[test]
fn flag_wins_over_environment() {
    let env = [
        ("METRICS_PORT", "1"),
        ("LEADER_ELECTION_NAME", "env"),
        ("BATCH_MAX_DURATION", "2s"),
        ("ENABLE_PROFILING", "true"),
    ];
    let settings = kwok(&[], &env).unwrap();
    assert_eq!((settings.metrics_port, settings.leader_election_name.as_str()), (1, "env"));
    assert_eq!((settings.batch_max_duration, settings.enable_profiling), (GoDuration::from_secs(2), true));
    for args in [
        ["--metrics-port=7", "--leader-election-name=flag", "--batch-max-duration=1.5h", "--enable-profiling=false"]
            .as_slice(),
        &[
            "-metrics-port",
            "7",
            "--leader-election-name",
            "flag",
            "-batch-max-duration",
            "1.5h",
            "-enable-profiling=false",
        ],
    ] {
        let settings = kwok(args, &env).unwrap();
        assert_eq!((settings.metrics_port, settings.leader_election_name.as_str()), (7, "flag"));
        assert_eq!((settings.batch_max_duration, settings.enable_profiling), (GoDuration::from_secs(5400), false));
    }
    let settings = kwok(&["--instance-types-file-path", "/types.json"], &[]).unwrap();
    assert_eq!(settings.kwok.instance_types_file_path, "/types.json");
}

/// API-6, API-154: a malformed environment value is ignored, a malformed flag aborts.
#[test]
fn malformed_environment_is_ignored() {
    let names = [
        "METRICS_PORT",
        "KUBE_CLIENT_QPS",
        "MEMORY_LIMIT",
        "ENABLE_PROFILING",
        "BATCH_IDLE_DURATION",
        "RESERVED_ENIS",
        "VM_MEMORY_OVERHEAD_PERCENT",
    ];
    for bad in ["abc", "", "yes", "1x", " 1", "NaN"] {
        let env: Vec<_> = names.iter().map(|name| (*name, bad)).collect();
        assert_eq!(kwok(&[], &env).unwrap(), kwok(&[], &[]).unwrap(), "{bad:?}");
    }
    for (flag, want) in [
        ("--metrics-port=abc", "--metrics-port: \"abc\" is not an integer"),
        ("--metrics-port=70000", "--metrics-port: 70000 is not a port; use 0 to 65535"),
        ("--memory-limit=1.5", "--memory-limit: \"1.5\" is not an integer"),
        ("--batch-idle-duration=10", "--batch-idle-duration: \"10\" is not a duration such as 10s or 1m30s"),
        ("--vm-memory-overhead-percent=lots", "--vm-memory-overhead-percent: \"lots\" is not a number"),
        ("--enable-profiling=1", "--enable-profiling: \"1\" is not true or false"),
        ("--metrics-port", "--metrics-port: needs a value"),
        ("--unheard-of", "--unheard-of: unknown flag"),
        ("run", "run: unexpected argument; settings are given as flags"),
    ] {
        assert_eq!(message(kwok(&[flag], &[])), want);
    }
    assert_eq!(
        kwok(&[], &[("BATCH_MAX_DURATION", "1500ms")]).unwrap().batch_max_duration,
        GoDuration::from_nanos(1_500_000_000)
    );
}

/// API-155, VC-4, V15-14: spellings of booleans.
#[test]
fn booleans() {
    for (text, want) in [
        ("1", true),
        ("t", true),
        ("T", true),
        ("TRUE", true),
        ("true", true),
        ("True", true),
        ("0", false),
        ("f", false),
        ("F", false),
        ("FALSE", false),
        ("false", false),
        ("False", false),
        ("tRUE", true),
        ("yes", true),
    ] {
        // The last two are no booleans, so the default (true) stays.
        assert_eq!(kwok(&[], &[("IGNORE_DRA_REQUESTS", text)]).unwrap().ignore_dra_requests, want, "{text}");
    }
    assert!(!kwok(&[], &[]).unwrap().legacy_node_repair);
    assert!(kwok(&["--legacy-node-repair"], &[]).unwrap().legacy_node_repair);
    assert!(kwok(&[], &[("LEGACY_NODE_REPAIR", "true")]).unwrap().legacy_node_repair);
    for text in ["1", "t", "TRUE", "True", ""] {
        let flag = format!("--ignore-dra-requests={text}");
        assert_eq!(message(kwok(&[&flag], &[])), format!("--ignore-dra-requests: {text:?} is not true or false"));
    }
}

/// API-156: choices, and a variable that is set but empty.
#[test]
fn choices() {
    for (env, want) in
        [("", LogLevel::Info), ("debug", LogLevel::Debug), ("info", LogLevel::Info), ("error", LogLevel::Error)]
    {
        assert_eq!(kwok(&[], &[("LOG_LEVEL", env)]).unwrap().log_level, want);
    }
    let settings = kwok(
        &["--preference-policy=Ignore", "--min-values-policy=BestEffort"],
        &[("CONSOLIDATION_SEARCH", "Prefix"), ("PLANNER", "Reference")],
    )
    .unwrap();
    assert_eq!(settings.consolidation_search, ConsolidationSearch::Prefix);
    assert_eq!(settings.planner, Planner::Reference);
    assert_eq!(settings.preference_policy, PreferencePolicy::Ignore);
    assert_eq!(settings.min_values_policy, MinValuesPolicy::BestEffort);
    for (name, value, want) in [
        ("LOG_LEVEL", "warn", "--log-level: \"warn\" is not one of info, debug, error"),
        ("LOG_FORMAT", "text", "--log-format: \"text\" is not one of json, legacy"),
        ("PREFERENCE_POLICY", "", "--preference-policy: \"\" is not one of Respect, Ignore"),
        ("MIN_VALUES_POLICY", "", "--min-values-policy: \"\" is not one of Strict, BestEffort"),
        ("PLANNER", "best", "--planner: \"best\" is not one of Best, Reference"),
        ("CONSOLIDATION_SEARCH", "value", "--consolidation-search: \"value\" is not one of ByValue, Prefix"),
        ("MIN_VALUES_POLICY", "strict", "--min-values-policy: \"strict\" is not one of Strict, BestEffort"),
    ] {
        assert_eq!(message(kwok(&[], &[(name, value)])), want);
    }
    assert_eq!(
        message(parse_with(&[], &[("CLOUD_PROVIDER", "azure"), ("CLUSTER_NAME", "c")])),
        "--cloud-provider: \"azure\" is not one of aws, kwok"
    );
    assert_eq!(kwok(&[], &[("LEADER_ELECTION_NAME", "")]).unwrap().leader_election_name, "");
    assert_eq!(kwok(&["--log-output-paths=stdout, /tmp/log"], &[]).unwrap().log_output_paths, ["stdout", "/tmp/log"]);
}

/// Where traces go: nowhere, or to a server that speaks HTTP.
#[test]
fn collectors_are_servers() {
    for (text, want) in [
        ("", Ok("")),
        ("http://collector:4318", Ok("http://collector:4318")),
        ("https://[::1]:4318/otlp/", Ok("https://[::1]:4318/otlp")),
        ("collector:4318", Err(())),
        ("grpc://collector:4317", Err(())),
        ("http://", Err(())),
        ("http://a b", Err(())),
        ("http://collector/?key=1", Err(())),
    ] {
        let read = kwok(&[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", text)]);
        if let Ok(want) = want {
            assert_eq!(read.unwrap().otel_exporter_otlp_endpoint, want);
        } else {
            let said = message(read);
            assert!(said.contains(&format!("--otel-exporter-otlp-endpoint: {text:?} is not")), "{said}");
        }
    }
}

/// API-156, API-160: values derived from settings.
#[test]
fn derived_values() {
    for (text, want) in [("0", 1000), ("-5", 1000), ("250", 250)] {
        assert_eq!(kwok(&[], &[("CPU_REQUESTS", text)]).unwrap().cpu_requests_millicores, want);
    }
    for (text, want) in [
        ("-1", None),
        ("0", None),
        ("1000", Some(900)),
        ("1005", Some(904)),
        ("9223372036854775807", Some(8_301_034_833_169_298_226)),
    ] {
        assert_eq!(kwok(&[], &[("MEMORY_LIMIT", text)]).unwrap().memory_target_bytes(), want);
    }
    for (text, seconds) in [("1s", 10), ("10s", 20), ("5s", 10)] {
        assert_eq!(
            kwok(&[], &[("BATCH_MAX_DURATION", text)]).unwrap().nomination_window(),
            GoDuration::from_secs(seconds)
        );
    }
}

/// API-158: variables that charts set for others are no business of ours.
#[test]
fn foreign_variables_are_tolerated() {
    let env = [("KUBERNETES_MIN_VERSION", "1.19.0-0"), ("SYSTEM_NAMESPACE", "kube-system")];
    assert_eq!(kwok(&[], &env).unwrap(), kwok(&[], &[]).unwrap());
}

/// API-164, API-165, API-166, API-167, V15-13, VC-3: gates.
#[test]
fn gates() {
    let listed: Vec<_> = FeatureGates::ALL.iter().map(|(name, _)| *name).collect();
    let order = "NodeRepair, ReservedCapacity, SpotToSpotConsolidation, NodeOverlay, StaticCapacity, CapacityBuffer, TerminateFirstDrift, TerminateFirstRepair, PodDeletionCostManagement";
    assert_eq!(listed.join(", "), order);
    let defaults = FeatureGates::default();
    for (name, default) in FeatureGates::ALL {
        let gates = FeatureGates::parse(&format!("{name}={}", !default)).unwrap();
        let debug = |gates: FeatureGates| format!("{gates:?}").matches("true").count();
        assert_ne!(gates, defaults, "{name}");
        assert_eq!(debug(gates).abs_diff(debug(defaults)), 1, "{name} alone follows");
    }
    let inverse: Vec<_> = FeatureGates::ALL.iter().map(|(name, default)| format!("{name}={}", !default)).collect();
    let gates = kwok(&[], &[("FEATURE_GATES", &inverse.join(","))]).unwrap().feature_gates;
    assert!(
        gates.node_repair
            && gates.terminate_first_drift
            && gates.terminate_first_repair
            && gates.pod_deletion_cost_management
    );
    assert!(gates.spot_to_spot_consolidation && gates.node_overlay && gates.static_capacity && gates.capacity_buffer);
    assert!(!gates.reserved_capacity);
    for (text, want) in [
        ("", Ok(false)),
        (" NodeOverlay = true , ,", Ok(true)),
        ("Drift=false,NodeOverlay=T", Ok(true)),
        ("nodeOverlay=true", Ok(false)),
        ("NodeOverlay=true,NodeOverlay=false", Ok(false)),
        ("NodeOverlay", Err("\"NodeOverlay\" is not of the form Name=true or Name=false")),
        ("Unknown=maybe", Err("gate Unknown must be true or false, is \"maybe\"")),
    ] {
        let gates = FeatureGates::parse(text).map(|gates| gates.node_overlay).map_err(|error| error.to_string());
        assert_eq!(gates, want.map_err(str::to_owned), "{text}");
    }
    assert_eq!(
        message(kwok(&["--feature-gates=X"], &[])),
        "--feature-gates: \"X\" is not of the form Name=true or Name=false"
    );
}

/// V15-16, VC-6: when the provider's repair policies are asked for.
#[test]
fn repair_policies_are_needed_for_new_repair_only() {
    for (gates, legacy, want) in
        [("NodeRepair=true", "false", true), ("NodeRepair=true", "true", false), ("", "false", false)]
    {
        let settings = kwok(&[], &[("FEATURE_GATES", gates), ("LEGACY_NODE_REPAIR", legacy)]).unwrap();
        assert_eq!(settings.needs_repair_policies(), want);
    }
}

/// API-161, API-162, V15-15, VC-5: the scheduler configuration, in the order of the case.
#[test]
fn scheduler_configuration() {
    let constraint = |text: &str| format!("podTopologySpread: {{ defaultConstraints: [{text}] }}");
    let good = "{ maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule }";
    let other =
        "{ maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 2 }";
    let json = r#"{"podTopologySpread":{"defaultConstraints":[{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule"}]}}"#;
    assert_eq!(SchedulerConfig::parse("").unwrap(), SchedulerConfig::default());
    assert_eq!(SchedulerConfig::parse("{}").unwrap(), SchedulerConfig::default());
    assert_eq!(SchedulerConfig::parse("podTopologySpread:\n").unwrap(), SchedulerConfig::default());
    let parsed = SchedulerConfig::parse(&constraint(good)).unwrap();
    assert_eq!(parsed.default_constraints[0].max_skew, 1);
    assert_eq!(SchedulerConfig::parse(json).unwrap(), parsed);
    for (name, text, want) in [
        ("unknown field", "podTopologySpreads: {}".to_owned(), "not a scheduler configuration: "),
        ("unknown inner field", constraint("{ maxSkew: 1, skew: 2 }"), "not a scheduler configuration: "),
        ("malformed", "podTopologySpread: [".to_owned(), "not a scheduler configuration: "),
        ("a list", "[]".to_owned(), "not a scheduler configuration: "),
        ("maxSkew 0", constraint(&good.replace('1', "0")), "podTopologySpread.defaultConstraints[0].maxSkew must be"),
        (
            "no topologyKey",
            constraint("{ maxSkew: 1, whenUnsatisfiable: DoNotSchedule }"),
            "podTopologySpread.defaultConstraints[0].topologyKey is missing",
        ),
        (
            "bad topologyKey",
            constraint(&good.replace("topology.kubernetes.io/zone", "a/b/c")),
            "podTopologySpread.defaultConstraints[0].topologyKey \"a/b/c\"",
        ),
        (
            "labelSelector",
            constraint(&good.replace(" }", ", labelSelector: {} }")),
            "podTopologySpread.defaultConstraints[0].labelSelector must",
        ),
        (
            "matchLabelKeys",
            constraint(&good.replace(" }", ", matchLabelKeys: [a] }")),
            "podTopologySpread.defaultConstraints[0].matchLabelKeys must",
        ),
        (
            "bad mode",
            constraint(&good.replace("DoNotSchedule", "Sometimes")),
            "podTopologySpread.defaultConstraints[0].whenUnsatisfiable must",
        ),
        (
            "duplicate",
            constraint(&format!("{good}, {good}")),
            "podTopologySpread.defaultConstraints[1] repeats topology.kubernetes.io/zone with DoNotSchedule",
        ),
    ] {
        let error = SchedulerConfig::parse(&text).unwrap_err().to_string();
        assert!(error.starts_with(want), "{name}: {error}");
        assert!(
            message(kwok(&[&format!("--scheduler-config={text}")], &[])).starts_with("--scheduler-config: "),
            "{name}"
        );
    }
    assert_eq!(SchedulerConfig::parse(&constraint(&format!("{good}, {other}"))).unwrap().default_constraints.len(), 2);
}

/// AWS-229, AC-274, AC-275, AC-276: checks of the AWS provider.
#[test]
fn aws_checks() {
    assert_eq!(message(parse_with(&[], &[])), "--cluster-name: is required");
    assert_eq!(parse_with(&[], &[("CLUSTER_NAME", "c")]).unwrap().aws.cluster_name, "c");
    for (flag, want) in [
        (
            "--cluster-endpoint=00000000000000000000000.gr7.us-west-2.eks.amazonaws.com",
            "--cluster-endpoint: \"00000000000000000000000.gr7.us-west-2.eks.amazonaws.com\" is not an absolute URL with a host, such as https://host",
        ),
        (
            "--cluster-endpoint=https://",
            "--cluster-endpoint: \"https://\" is not an absolute URL with a host, such as https://host",
        ),
        (
            "--cluster-endpoint=https://:443",
            "--cluster-endpoint: \"https://:443\" is not an absolute URL with a host, such as https://host",
        ),
        (
            "--cluster-endpoint=https://a b",
            "--cluster-endpoint: \"https://a b\" is not an absolute URL with a host, such as https://host",
        ),
        ("--vm-memory-overhead-percent=-0.01", "--vm-memory-overhead-percent: must not be negative"),
        ("--reserved-enis=-1", "--reserved-enis: must not be negative"),
        (
            r#"--repair-reboot-reasons=[{"conditionType": "KernelReady", "reasonExpression": "["}]"#,
            "--repair-reboot-reasons: [0].reasonExpression \"[\" is not a regular expression: unclosed character class",
        ),
        ("--ami-refresh-interval=30s", "--ami-refresh-interval: must be at least 1m, is 30s"),
        ("--subnet-refresh-interval=30s", "--subnet-refresh-interval: must be at least 1m, is 30s"),
    ] {
        assert_eq!(message(aws(&[flag], &[])), want);
        assert!(kwok(&[flag], &[]).is_ok(), "another provider does not care: {flag}");
    }
    for endpoint in ["https://x.y", "https://[::1]:443/", "http://user@host:80/path?q#f"] {
        assert!(aws(&[&format!("--cluster-endpoint={endpoint}")], &[]).is_ok(), "{endpoint}");
    }
}

/// AC-277, AWS-229: sources of AWS settings.
#[test]
fn aws_sources() {
    assert_eq!(aws(&["--reserved-enis=2"], &[("RESERVED_ENIS", "1")]).unwrap().aws.reserved_enis, 2);
    assert_eq!(aws(&[], &[("RESERVED_ENIS", "1")]).unwrap().aws.reserved_enis, 1);
    assert_eq!(aws(&[], &[("RESERVED_ENIS", "abc")]).unwrap().aws.reserved_enis, 0);
    assert_eq!(message(aws(&["--isolated-vpc=1"], &[])), "--isolated-vpc: \"1\" is not true or false");
    let gates = aws(&[], &[("AWS_FEATURE_GATES", "NodeClassCEL=true,Foo=true")]).unwrap().aws.feature_gates;
    assert!(gates.node_class_cel);
}

/// AWS-229: all problems are listed together.
#[test]
fn all_problems_at_once() {
    let result = parse_with(
        &["--metrics-port=x", "--nope", "--reserved-enis=-1"],
        &[("PREFERENCE_POLICY", "Maybe"), ("FEATURE_GATES", "A")],
    );
    insta::assert_snapshot!(message(result), @r#"
    --nope: unknown flag
    --metrics-port: "x" is not an integer
    --preference-policy: "Maybe" is not one of Respect, Ignore
    --feature-gates: "A" is not of the form Name=true or Name=false
    --cluster-name: is required
    --reserved-enis: must not be negative
    "#);
}

/// API-156: the rows themselves: unique, environment name follows the flag, defaults parse, and each is in the help.
#[test]
fn rows_are_consistent() {
    let text = match parse_with(&["--help"], &[]) {
        Err(SettingsError::Help(text)) => text,
        other => panic!("{other:?}"),
    };
    for (at, row) in rows::ALL.iter().enumerate() {
        assert_eq!(row.env, row.flag.to_uppercase().replace('-', "_"));
        assert!(rows::ALL[..at].iter().all(|other| other.flag != row.flag), "{} twice", row.flag);
        assert!(text.contains(&format!("  --{} (", row.flag)) && text.contains(row.env) && text.contains(row.help));
        let given = if row.kind == rows::Kind::Text { "x".to_owned() } else { row.default.to_owned() };
        if !matches!(
            row.flag,
            "cloud-provider"
                | "log-level"
                | "log-format"
                | "preference-policy"
                | "min-values-policy"
                | "planner"
                | "consolidation-search"
                | "feature-gates"
                | "aws-feature-gates"
                | "scheduler-config"
                | "otel-exporter-otlp-endpoint"
                | "repair-reboot-reasons"
        ) {
            assert!(kwok(&[&format!("--{}={given}", row.flag)], &[]).is_ok(), "{}", row.flag);
        }
    }
    insta::assert_snapshot!(help());
}

proptest! {
    #[test]
    fn any_argument_and_variable_get_an_answer(args in any::<Vec<String>>(), value in any::<String>(), row in 0..rows::ALL.len()) {
        let row = rows::ALL[row];
        let _ = parse(args.into_iter(), &|name| (name == row.env).then(|| value.clone()));
        let _ = parse([format!("--{}={value}", row.flag)].into_iter(), &|_| None);
    }
}
