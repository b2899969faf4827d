//! Images: queries, which of several is taken, and their order in the status (§2.3).

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_api::kinds::SelectorRequirement;
use karpenter_api::kinds::ec2nodeclass::{Ami, AmiSelectorTerm};
use karpenter_model::labels;

use super::aliases::{AliasParameter, Variant};
use super::tag_filters;
use crate::cloud::{Filter, ImageInfo, ImageQuery};

/// Queries of all terms that are not aliases; `parameters` are the ids that the terms' own parameters hold.
pub fn image_queries(terms: &[AmiSelectorTerm], parameters: &[String]) -> Vec<ImageQuery> {
    let ids: Vec<&str> =
        terms.iter().filter_map(|term| term.id.as_deref()).chain(parameters.iter().map(String::as_str)).collect();
    let mut queries: Vec<ImageQuery> = Vec::new();
    if !ids.is_empty() {
        queries.push(query(vec![Filter::new("image-id", ids)], Vec::new()));
    }
    // An id beats all else of its term, and so does a parameter (AWS-9).
    for term in terms.iter().filter(|term| term.id.is_none() && term.ssm_parameter.is_none() && term.alias.is_none()) {
        let mut filters = term.tags.as_ref().map(tag_filters).unwrap_or_default();
        filters.extend(term.name.as_deref().map(|name| Filter::new("name", [name])));
        let owners = match (&term.owner, &term.name) {
            (Some(owner), _) => vec![owner.clone()],
            // A name alone could be anybody's.
            (None, Some(_)) => ["self", "amazon"].map(str::to_owned).to_vec(),
            (None, None) => Vec::new(),
        };
        queries.push(query(filters, owners));
    }
    queries
}

fn query(mut filters: Vec<Filter>, owners: Vec<String>) -> ImageQuery {
    filters.push(Filter::new("state", ["available"]));
    ImageQuery { filters, owners }
}

/// The parameters that terms name. An id or an alias in the same term beats it (AWS-9).
pub fn term_parameters(terms: &[AmiSelectorTerm]) -> Vec<&str> {
    let plain = terms.iter().filter(|term| term.id.is_none() && term.alias.is_none());
    plain.filter_map(|term| term.ssm_parameter.as_deref()).collect()
}

/// What the parameter of a term holds, if that is an image (AWS-50).
pub fn image_of_parameter(value: &str) -> Option<&str> {
    value.starts_with("ami-").then_some(value)
}

/// One query for the images of an alias, and what each is for: an image that several parameters hold is for all of that
/// (AWS-46, AWS-48). `None` when no parameter could be read.
pub fn alias_query(resolved: &[(AliasParameter, String)]) -> Option<(ImageQuery, BTreeMap<String, Vec<Variant>>)> {
    let mut purposes: BTreeMap<String, Vec<Variant>> = BTreeMap::new();
    for (parameter, id) in resolved {
        let own = purposes.entry(id.clone()).or_default();
        let new: Vec<Variant> = parameter.variants.iter().filter(|variant| !own.contains(variant)).copied().collect();
        own.extend(new);
    }
    let ids: Vec<String> = purposes.keys().cloned().collect();
    (!ids.is_empty()).then(|| (query(vec![Filter::new("image-id", ids)], Vec::new()), purposes))
}

/// The status: one image for each distinct set of requirements, newest first (AWS-53 … AWS-55). `purposes` is empty for
/// terms that are not aliases.
pub fn image_status(found: &[ImageInfo], purposes: &BTreeMap<String, Vec<Variant>>, now: Timestamp) -> Vec<Ami> {
    let mut best: BTreeMap<String, (&ImageInfo, Vec<SelectorRequirement>)> = BTreeMap::new();
    for image in found {
        let Some(architecture) = architecture(image) else { continue };
        let sets: Vec<Vec<SelectorRequirement>> = match purposes.get(&image.id) {
            Some(variants) => variants.iter().map(|variant| variant.requirements()).collect(),
            None => vec![Vec::new()],
        };
        for mut set in sets {
            set.push(SelectorRequirement {
                key: labels::ARCH.to_owned(),
                operator: "In".to_owned(),
                values: Some(vec![architecture.to_owned()]),
            });
            set.sort_by(|a, b| (a.key.len(), &a.key).cmp(&(b.key.len(), &b.key)));
            let text = format!("{set:?}");
            match best.get(&text) {
                Some((other, _)) if rank(other, now) >= rank(image, now) => {}
                _ => drop(best.insert(text, (image, set))),
            }
        }
    }
    // By the text of the requirements already, which decides among entries of one image.
    let mut entries: Vec<_> = best.into_values().collect();
    entries.sort_by(|(a, _), (b, _)| (seconds(b.created), &a.id).cmp(&(seconds(a.created), &b.id)));
    let entry = |(image, requirements): (&ImageInfo, Vec<SelectorRequirement>)| Ami {
        id: image.id.clone(),
        name: Some(image.name.clone()).filter(|name| !name.is_empty()),
        deprecated: is_deprecated(image, now).then_some(true),
        requirements,
    };
    entries.into_iter().map(entry).collect()
}

/// What is better: not deprecated, newer, the larger name.
fn rank(image: &ImageInfo, now: Timestamp) -> (bool, i64, &str) {
    (!is_deprecated(image, now), seconds(image.created), &image.name)
}

pub fn is_deprecated(image: &ImageInfo, now: Timestamp) -> bool {
    image.deprecated.is_some_and(|at| at.as_second() <= now.as_second())
}

/// One without a date counts as the oldest.
fn seconds(time: Option<Timestamp>) -> i64 {
    time.map_or(i64::MIN, Timestamp::as_second)
}

fn architecture(image: &ImageInfo) -> Option<&'static str> {
    match image.architecture.as_str() {
        "x86_64" => Some("amd64"),
        "arm64" => Some("arm64"),
        _ => None,
    }
}
