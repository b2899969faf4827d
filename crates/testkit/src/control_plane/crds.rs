//! Custom resource definitions, installed and served.

use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::Request;
use kube::{Api, Client, ResourceExt as _};
use tokio::time::sleep;

use super::{ControlPlane, POLL, START_LIMIT};

impl ControlPlane {
    /// Applies the definitions and waits until each is Established and every served version answers.
    pub async fn apply_crds(&self, crds: impl IntoIterator<Item = CustomResourceDefinition>) -> Result<()> {
        let client = self.client();
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let crds: Vec<_> = crds.into_iter().collect();
        for crd in &crds {
            let apply = PatchParams::apply("testkit").force();
            let name = crd.name_any();
            api.patch(&name, &apply, &Patch::Apply(crd)).await.with_context(|| format!("cannot install {name}"))?;
        }
        for crd in &crds {
            established(&client, &api, crd).await?;
        }
        Ok(())
    }
}

/// The condition is set a moment before the endpoint is there, so both are asked for.
async fn established(
    client: &Client,
    api: &Api<CustomResourceDefinition>,
    crd: &CustomResourceDefinition,
) -> Result<()> {
    let since = Instant::now();
    let name = crd.name_any();
    loop {
        let now = api.get(&name).await?;
        let conditions = now.status.and_then(|s| s.conditions).unwrap_or_default();
        if conditions.iter().any(|c| c.type_ == "Established" && c.status == "True") && served(client, crd).await? {
            return Ok(());
        }
        if since.elapsed() > START_LIMIT {
            let said: Vec<_> = conditions.iter().filter_map(|c| c.message.as_deref()).collect();
            bail!("{name} is not served after {} s: {}", START_LIMIT.as_secs(), said.join("; "));
        }
        sleep(POLL).await;
    }
}

async fn served(client: &Client, crd: &CustomResourceDefinition) -> Result<bool> {
    for version in crd.spec.versions.iter().filter(|v| v.served) {
        let path = format!("/apis/{}/{}/{}", crd.spec.group, version.name, crd.spec.names.plural);
        match client.request_text(Request::new(path).list(&ListParams::default().limit(1))?).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(false),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(true)
}
