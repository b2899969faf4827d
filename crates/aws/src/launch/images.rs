//! Which image a type boots (AWS-58).

use karpenter_api::kinds::SelectorRequirement;
use karpenter_api::kinds::ec2nodeclass::Ami;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::LabelRules;
use karpenter_model::requirements::{Operator, Requirement, Requirements, Undefined};

/// What an image asks of a type. An entry that means nothing asks for what no type has.
pub fn image_requirements(image: &Ami, rules: &LabelRules) -> Requirements {
    let read = |SelectorRequirement { key, operator, values }: &SelectorRequirement| {
        let values = values.as_deref().unwrap_or_default();
        let parsed = Operator::parse(operator).and_then(|op| Requirement::new(rules, key, op, values, None).ok());
        parsed.unwrap_or_else(|| Requirement::any_of(key, ["\u{0}"]))
    };
    image.requirements.iter().map(read).collect()
}

/// The first of the class's images that suits the type.
pub fn image_for<'a>(known: &InstanceType, images: &'a [Ami], rules: &LabelRules) -> Option<&'a Ami> {
    images.iter().find(|image| {
        let asked = image_requirements(image, rules);
        known.requirements.is_compatible(&asked, Undefined::WellKnownAllowed(rules))
    })
}
