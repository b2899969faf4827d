//! What a buffer refers to, as it is now.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{PodTemplate, PodTemplateSpec};
use k8s_openapi::serde::de::DeserializeOwned;
use karpenter_api::convert;
use karpenter_model::buffer::{BufferReference, Found, Shape};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};

use crate::context::Context;
use crate::report::chain;

/// A template, with the number of pods that a workload wants of it.
type Template = (PodTemplateSpec, Option<u32>, Option<i64>);

/// `reference` is one that is supported.
pub(super) async fn look_up(ctx: &Context, namespace: &str, reference: &BufferReference) -> Found {
    let found = match reference {
        BufferReference::PodTemplate { name } => get::<PodTemplate>(ctx, namespace, name)
            .await
            .map(|found| found.map(|found| (found.template.unwrap_or_default(), None, found.metadata.generation))),
        BufferReference::Scalable { kind, name, .. } => match kind.as_str() {
            "StatefulSet" => get::<StatefulSet>(ctx, namespace, name).await.map(|found| {
                let spec = found.and_then(|found| found.spec);
                spec.map(|spec| scalable(spec.template, spec.replicas))
            }),
            "ReplicaSet" => get::<ReplicaSet>(ctx, namespace, name).await.map(|found| {
                let spec = found.and_then(|found| found.spec);
                spec.map(|spec| scalable(spec.template.unwrap_or_default(), spec.replicas))
            }),
            _ => get::<Deployment>(ctx, namespace, name).await.map(|found| {
                let spec = found.and_then(|found| found.spec);
                spec.map(|spec| scalable(spec.template, spec.replicas))
            }),
        },
    };
    match found {
        Ok(Some((template, workload_replicas, generation))) => {
            let converted = convert::buffer_shape(namespace, &template, ctx.provider.label_rules());
            match converted.view.unplannable.clone() {
                // Pods of it could be planned nowhere.
                Some(why) => Found::Failed(why),
                None => Found::Shape(Box::new(Shape { pod: converted.view, workload_replicas, generation })),
            }
        }
        Ok(None) => Found::Missing,
        Err(error) => Found::Failed(chain(&error)),
    }
}

/// A workload that says nothing wants one pod (API-103).
fn scalable(template: PodTemplateSpec, replicas: Option<i32>) -> Template {
    (template, Some(replicas.map_or(1, |replicas| u32::try_from(replicas).unwrap_or(0))), None)
}

async fn get<K>(ctx: &Context, namespace: &str, name: &str) -> Result<Option<K>, kube::Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    Api::namespaced(ctx.client.clone(), namespace).get_opt(name).await
}
