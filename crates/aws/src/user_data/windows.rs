//! Windows: a PowerShell script that calls the image's bootstrap script (AWS-182).

use super::kubelet_args::kubelet_args;
use super::{Bootstrap, UserDataError};

pub(super) fn render(bootstrap: &Bootstrap<'_>) -> Result<String, UserDataError> {
    let cluster = bootstrap.cluster;
    let ca = cluster.ca_bundle.as_ref().map(|ca| format!(" -Base64ClusterCA '{ca}'")).unwrap_or_default();
    let dns = bootstrap.cluster_dns().first().map(|dns| format!(" -DNSClusterIP '{dns}'")).unwrap_or_default();
    let custom = bootstrap.custom.filter(|custom| !custom.is_empty()).map(|custom| format!("{custom}\n"));
    let lines = [
        format!("<powershell>\n{}", custom.unwrap_or_default()),
        "[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n".to_owned(),
        format!("& $EKSBootstrapScriptFile -EKSClusterName '{}'", cluster.name),
        format!(" -APIServerEndpoint '{}'{ca}", cluster.endpoint),
        format!(" -KubeletExtraArgs '{}'{dns}\n</powershell>", kubelet_args(bootstrap)?),
    ];
    Ok(lines.concat())
}
