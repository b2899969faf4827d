//! The provider on a real API server, and on the embedded one where time matters.

#![allow(clippy::unwrap_used, reason = "a test crate")]

mod contract;
mod nodes;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::instance_types::Catalogue;
use karpenter_api::kinds::KWOKNodeClass;
use karpenter_api::{convert, crd};
use karpenter_apiserver::{Api as Embedded, Options};
use karpenter_kwok::KwokProvider;
use karpenter_model::claim::ClaimView;
use karpenter_platform::{Clock as _, CloudProvider as _, TokioClock};
use karpenter_testkit::build::ClaimBuilder;
use karpenter_testkit::{ControlPlane, build};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};

/// A provider of the built-in types on a cluster of its own (Nodes are counted), with the class `default`.
pub(crate) struct Kwok {
    pub(crate) client: Client,
    pub(crate) provider: Arc<KwokProvider>,
    claims: AtomicUsize,
}

impl Kwok {
    pub(crate) async fn real() -> Self {
        let control_plane = Box::leak(Box::new(ControlPlane::builder().start().await.unwrap()));
        control_plane.apply_crds(crd::all().into_iter().map(|crd| serde_json::from_value(crd).unwrap())).await.unwrap();
        Self::on(control_plane.client()).await
    }

    /// On paused time.
    pub(crate) async fn embedded() -> Self {
        let clock = TokioClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let api = Embedded::new(Options { clock: Arc::new(move || clock.now()), ..Options::default() });
        let client = Client::new(api, "default");
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in crd::all() {
            let definition = serde_json::from_value(definition).unwrap();
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        Self::on(client).await
    }

    async fn on(client: Client) -> Self {
        let classes: Api<KWOKNodeClass> = Api::all(client.clone());
        classes.create(&PostParams::default(), &build::kwok_class("default")).await.unwrap();
        let provider = KwokProvider::new(client.clone(), Catalogue::built_in().unwrap());
        Self { client, provider: Arc::new(provider), claims: AtomicUsize::new(0) }
    }

    /// As the controller sees the claim; UIDs are told apart by their number.
    pub(crate) fn claim(&self, build: impl FnOnce(ClaimBuilder) -> ClaimBuilder) -> ClaimView {
        let number = self.claims.fetch_add(1, Ordering::Relaxed);
        let mut claim = build(build::node_claim(&format!("claim-{number}"))).build();
        claim.metadata.uid = Some(format!("uid-{number}"));
        convert::claim(&claim, self.provider.label_rules()).view
    }

    pub(crate) async fn nodes(&self) -> Vec<Node> {
        Api::all(self.client.clone()).list(&ListParams::default()).await.unwrap().items
    }
}
