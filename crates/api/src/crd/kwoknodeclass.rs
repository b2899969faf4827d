//! `karpenter.kwok.sh/v1alpha1` KWOKNodeClass.

use super::fragments;
use super::manifest::{Crd, Resource, root};
use super::patterns;
use super::schema::{object, string};

pub(super) fn crd() -> Crd {
    Resource {
        group: "karpenter.kwok.sh",
        version: "v1alpha1",
        kind: "KWOKNodeClass",
        plural: "kwoknodeclasses",
        short_names: &["kwoknc", "kwokncs"],
        category: "karpenter",
        namespaced: false,
        legacy: false,
        scale: None,
        columns: vec![],
    }
    .with_schema(
        root("KWOKNodeClass holds the settings of fake nodes that the kwok provider registers.")
            .field(
                "spec",
                object("Settings of the fake nodes.").field(
                    "nodeRegistrationDelay",
                    string(
                        "Time between a launch and the appearance of its Node object, as in `10s`. Unset means none.",
                    )
                    .pattern(patterns::DURATION),
                ),
            )
            .field(
                "status",
                // Nothing maintains this status: objects are ready from birth by this default.
                object("State of the class.")
                    .field("conditions", fragments::plain_conditions())
                    .default(fragments::born_ready()),
            ),
    )
}
