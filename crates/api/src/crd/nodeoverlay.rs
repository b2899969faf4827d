//! `karpenter.sh/v1alpha1` NodeOverlay.

use super::fragments::{self, Holder};
use super::manifest::{AGE, Crd, READY, Resource, column, root, wide};
use super::patterns;
use super::schema::{Schema, int32, object, string};

pub(super) fn crd() -> Crd {
    Resource {
        group: "karpenter.sh",
        version: "v1alpha1",
        kind: "NodeOverlay",
        plural: "nodeoverlays",
        short_names: &["overlays"],
        category: "karpenter",
        namespaced: false,
        legacy: false,
        scale: None,
        columns: vec![column("Ready", "string", READY), AGE, wide("Weight", "integer", ".spec.weight")],
    }
    .with_schema(
        root(
            "NodeOverlay changes what is assumed about instance types before they are chosen: their price, or extended \
             resources that the provider does not know of. Alpha; needs the NodeOverlay feature gate.",
        )
        .required("spec", spec())
        .field("status", object("What was last observed of the overlay.").field("conditions", fragments::conditions())),
    )
}

fn spec() -> Schema {
    object("Which instance types to change, and how.")
        .field(
            "capacity",
            fragments::resources("Extended resources that the selected instance types have in addition.").rule(
                "invalid resource restricted",
                "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
            ),
        )
        .field(
            "price",
            string("Price per hour that replaces the provider's, as in `0.27`.").pattern(patterns::PRICE),
        )
        .field(
            "priceAdjustment",
            string(
                "Change to the provider's price: an amount with a sign, as in `-0.1`, or a percentage with a sign, as in \
                 `+15%`, down to `-100%`. A price never falls below 0.",
            )
            .pattern(patterns::PRICE_ADJUSTMENT),
        )
        .required(
            "requirements",
            fragments::requirements(
                Holder::Overlay,
                "Selects the combinations of pool, instance type and offering that the overlay changes. An empty list selects \
                 all of them.",
            ),
        )
        .field(
            "weight",
            int32("Which overlay wins where several set the same thing: the heaviest. Unset counts as 0.").min(1).max(10000),
        )
        .rule("cannot set both 'price' and 'priceAdjustment'", "!has(self.price) || !has(self.priceAdjustment)")
}
