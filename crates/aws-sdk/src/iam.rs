//! Instance profiles.

use std::fmt;

use async_trait::async_trait;
use aws_sdk_iam::Client;
use aws_sdk_iam::types::{InstanceProfile, Tag};
use karpenter_aws::cloud::{ApiError, Iam, InstanceProfileInfo, Tags};

use crate::failures::{chain, failure, incomplete};

pub(crate) struct Profiles(pub(crate) Client);

impl fmt::Debug for Profiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Profiles")
    }
}

#[async_trait]
impl Iam for Profiles {
    async fn instance_profile(&self, name: &str) -> Result<InstanceProfileInfo, ApiError> {
        let answer = self.0.get_instance_profile().instance_profile_name(name).send().await.map_err(failure)?;
        answer.instance_profile.map(info).ok_or_else(|| incomplete("instance profile"))
    }

    async fn create_instance_profile(&self, name: &str, path: &str, tags: &Tags) -> Result<(), ApiError> {
        let tags: Result<Vec<Tag>, _> =
            tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect();
        // Both are given; the SDK cannot know that.
        let tags = tags.map_err(|error| ApiError::new("", &chain(&error)))?;
        let call = self.0.create_instance_profile().instance_profile_name(name).path(path);
        call.set_tags(Some(tags)).send().await.map(|_| ()).map_err(failure)
    }

    async fn add_role(&self, profile: &str, role: &str) -> Result<(), ApiError> {
        let call = self.0.add_role_to_instance_profile().instance_profile_name(profile).role_name(role);
        call.send().await.map(|_| ()).map_err(failure)
    }

    async fn remove_role(&self, profile: &str, role: &str) -> Result<(), ApiError> {
        let call = self.0.remove_role_from_instance_profile().instance_profile_name(profile).role_name(role);
        call.send().await.map(|_| ()).map_err(failure)
    }

    async fn delete_instance_profile(&self, name: &str) -> Result<(), ApiError> {
        self.0.delete_instance_profile().instance_profile_name(name).send().await.map(|_| ()).map_err(failure)
    }

    async fn instance_profiles(&self, path_prefix: &str) -> Result<Vec<InstanceProfileInfo>, ApiError> {
        let pages = self.0.list_instance_profiles().path_prefix(path_prefix).into_paginator();
        let found: Result<Vec<_>, _> = pages.items().send().collect().await;
        Ok(found.map_err(failure)?.into_iter().map(info).collect())
    }
}

fn info(profile: InstanceProfile) -> InstanceProfileInfo {
    InstanceProfileInfo {
        name: profile.instance_profile_name,
        roles: profile.roles.into_iter().map(|role| role.role_name).collect(),
    }
}
