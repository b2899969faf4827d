use std::process::{Command, Output};

fn controller(args: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_karpenter-controller"))
        .args(args)
        .env_clear()
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

#[test]
fn help_and_version_need_no_cluster() {
    let help = controller(&["--help"], &[]);
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.status.success() && text.contains("--batch-max-duration") && text.contains("BATCH_MAX_DURATION"));
    let version = controller(&["--version"], &[]);
    assert!(version.status.success());
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("karpenter-controller "));
}

/// API-154, API-165: a malformed flag or gate ends the start, and everything that is wrong is listed.
#[test]
fn malformed_settings_end_the_start() {
    let out = controller(
        &["--metrics-port=many", "--cloud-provider=kwok"],
        &[("FEATURE_GATES", "NodeOverlay=maybe"), ("PREFERENCE_POLICY", "")],
    );
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{text}");
    for named in ["--metrics-port", "--feature-gates", "--preference-policy", "--help"] {
        assert!(text.contains(named), "{named} is missing in: {text}");
    }
}

#[test]
fn without_a_cluster_it_says_what_to_do() {
    let arguments = ["--cloud-provider=kwok", "--metrics-port=0", "--health-probe-port=0"];
    let out = controller(&arguments, &[("HOME", "/nonexistent")]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(1), "{text}");
    assert!(text.contains("KUBECONFIG"), "{text}");
}
