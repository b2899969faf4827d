//! Security groups (§2.5).

use std::collections::BTreeMap;

use karpenter_api::kinds::ec2nodeclass::{SecurityGroup, SecurityGroupSelectorTerm};

use super::tag_filters;
use crate::cloud::{Filter, SecurityGroupInfo};

/// One query per term of tags, one for all ids, one for all names (AWS-67). Of a mixed term the id counts, then the name.
pub fn security_group_queries(terms: &[SecurityGroupSelectorTerm]) -> Vec<Vec<Filter>> {
    let ids: Vec<&str> = terms.iter().filter_map(|term| term.id.as_deref()).collect();
    let named = terms.iter().filter(|term| term.id.is_none());
    let names: Vec<&str> = named.filter_map(|term| term.name.as_deref()).collect();
    let combined = |name: &str, values: Vec<&str>| (!values.is_empty()).then(|| vec![Filter::new(name, values)]);
    let tags = terms.iter().filter(|term| term.id.is_none() && term.name.is_none());
    let tags = tags.filter_map(|term| term.tags.as_ref()).map(tag_filters);
    tags.chain(combined("group-id", ids)).chain(combined("group-name", names)).collect()
}

/// Each once, by id.
pub fn security_group_status(found: impl IntoIterator<Item = SecurityGroupInfo>) -> Vec<SecurityGroup> {
    let by_id: BTreeMap<String, Option<String>> = found.into_iter().map(|one| (one.id, one.name)).collect();
    by_id.into_iter().map(|(id, name)| SecurityGroup { id, name }).collect()
}
