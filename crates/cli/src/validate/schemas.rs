//! The compiled schemas of our kinds.

use std::cell::OnceCell;

use anyhow::{Context, Result};
use karpenter_api::crd::{self, Crd};
use karpenter_schema::Schema;

/// One kind with its schema, compiled when first needed: most runs meet two or three kinds.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) crd: &'static Crd,
    schema: OnceCell<Schema>,
}

impl Kind {
    pub(super) fn schema(&self) -> Result<&Schema> {
        if self.schema.get().is_none() {
            let schema = Schema::compile(self.crd.schema())
                .with_context(|| format!("the schema of {} cannot be compiled", self.crd.name()))?;
            // Nobody else can have set it meanwhile.
            let _ = self.schema.set(schema);
        }
        self.schema.get().context("a schema that was just set is there")
    }
}

#[derive(Debug)]
pub(super) struct Kinds(Vec<Kind>);

impl Kinds {
    pub(super) fn new() -> Self {
        Self(crd::definitions().iter().map(|crd| Kind { crd, schema: OnceCell::new() }).collect())
    }

    /// What to do about `api_version` and `kind`.
    pub(super) fn find(&self, api_version: &str, kind: &str) -> Lookup<'_> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let of_kind = |k: &&Kind| k.crd.group == group && k.crd.kind == kind;
        if let Some(found) = self.0.iter().filter(of_kind).find(|k| k.crd.version == version) {
            return Lookup::Known(found);
        }
        if let Some(other) = self.0.iter().find(of_kind) {
            return Lookup::WrongVersion(other.crd);
        }
        // The autoscaling group is shared with other projects, whose kinds are none of our business.
        let ours = self.0.iter().any(|k| k.crd.group == group) && group.starts_with("karpenter.");
        if ours { Lookup::NoSuchKind } else { Lookup::Foreign }
    }
}

#[derive(Debug)]
pub(super) enum Lookup<'a> {
    Known(&'a Kind),
    /// The kind is there in another version.
    WrongVersion(&'static Crd),
    /// The group is ours but the kind is not.
    NoSuchKind,
    Foreign,
}
