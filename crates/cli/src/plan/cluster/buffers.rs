//! CapacityBuffers: room that is kept free, planned for as if pods asked for it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use karpenter_api::convert;
use karpenter_api::kinds::CapacityBuffer;
use karpenter_model::buffer::{BufferReference, Found, MOST_VIRTUAL_PODS, Resolution, Shape};

use super::{Cluster, Given, fields, name, namespace, text};

impl Cluster<'_> {
    /// The pods that keep room free, like those of a workload or of a template.
    pub(super) fn add_buffer(&mut self, given: &Given<'_>, all: &[Given<'_>]) {
        if text(&given.object, &["apiVersion"]) != "autoscaling.x-k8s.io/v1beta1" {
            return;
        }
        let Some(buffer) = self.parse::<CapacityBuffer>(given) else { return };
        let converted = convert::buffer(&buffer);
        self.note_problems(given, &converted, "");
        if !converted.problems.is_empty() {
            return;
        }
        let mut view = converted.view;
        view.id.namespace = namespace(&given.object).into();
        view.uid = format!("{}/{}", view.id.namespace, view.id.name);
        let mut shape = None;
        let resolution = view.resolve(|reference| {
            let found = self.shape(namespace(&given.object), reference, all);
            if let Found::Shape(found) = &found {
                shape = Some(found.clone());
            }
            found
        });
        match (resolution, shape) {
            (Resolution::Resolved { replicas, .. }, Some(shape)) => {
                if replicas > MOST_VIRTUAL_PODS {
                    self.notes.push(format!("{}: only {MOST_VIRTUAL_PODS} of {replicas} are planned", given.title()));
                }
                // Nobody has judged the buffer yet; it can be used.
                view.ready = true;
                view.desired = Some(replicas.min(MOST_VIRTUAL_PODS));
                self.virtual_pods.extend(view.virtual_pods(&shape, Timestamp::UNIX_EPOCH));
                self.buffers.push(view);
            }
            (Resolution::Unresolved { message, .. } | Resolution::Retry { message }, _) => {
                let field = reference_field(view.reference.as_ref());
                self.problem(given, &fields::path(field), field, message);
            }
            (Resolution::Resolved { .. }, None) => {}
        }
    }

    fn shape(&self, space: &str, reference: &BufferReference, all: &[Given<'_>]) -> Found {
        let points_to = |one: &&Given<'_>| {
            namespace(&one.object) == space && reference.points_to(text(&one.object, &["kind"]), name(&one.object))
        };
        let Some(found) = all.iter().find(points_to) else { return Found::Missing };
        let own = matches!(reference, BufferReference::PodTemplate { .. });
        let template = if own { &found.object["template"] } else { &found.object["spec"]["template"] };
        // What is wrong with it was told where it is given.
        let Ok(template) = fields::read::<PodTemplateSpec>(template) else {
            return Found::Failed(format!("{} cannot be read", found.title()));
        };
        let replicas = found.object["spec"]["replicas"].as_u64().unwrap_or(1);
        Found::Shape(Box::new(Shape {
            pod: convert::buffer_shape(space, &template, self.rules()).view,
            workload_replicas: (!own).then(|| u32::try_from(replicas).unwrap_or(u32::MAX)),
            generation: None,
        }))
    }
}

fn reference_field(reference: Option<&BufferReference>) -> &'static str {
    match reference {
        Some(BufferReference::PodTemplate { .. }) => "spec.podTemplateRef",
        Some(BufferReference::Scalable { .. }) => "spec.scalableRef",
        None => "spec",
    }
}
