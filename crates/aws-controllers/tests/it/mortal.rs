//! A process that dies at a chosen call to IAM, carried out or not: the answer never comes, nor does one to any later call.

use std::future::pending;
use std::sync::Arc;

use async_trait::async_trait;
use karpenter_aws::cloud::{ApiError, Iam, InstanceProfileInfo, Tags};

use super::account::Account;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    Before,
    After,
}

/// Of the process that uses the account.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    /// Names of calls since it was decided.
    calls: Vec<&'static str>,
    /// At the call of this number.
    death: Option<(usize, Death)>,
    dead: bool,
}

impl Account {
    /// From now on calls are counted, from zero.
    pub(crate) fn lives(&self) {
        self.state().fate = Fate::default();
    }

    pub(crate) fn dies(&self, at: usize, death: Death) {
        self.state().fate = Fate { death: Some((at, death)), ..Fate::default() };
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state().fate.dead
    }

    pub(crate) fn calls_to_iam(&self) -> Vec<&'static str> {
        self.state().fate.calls.clone()
    }

    /// What happens at a call of this name.
    fn moment(&self, name: &'static str) -> Option<Death> {
        let fate = &mut self.state().fate;
        if fate.dead {
            return Some(Death::Before);
        }
        let number = fate.calls.len();
        fate.calls.push(name);
        let (_, death) = fate.death.filter(|(at, _)| *at == number)?;
        fate.dead = true;
        Some(death)
    }
}

#[derive(Debug)]
pub(crate) struct Mortal(pub(crate) Arc<Account>);

type Answer<T> = Result<T, ApiError>;

impl Mortal {
    async fn call<T>(&self, name: &'static str, work: impl Future<Output = Answer<T>>) -> Answer<T> {
        match self.0.moment(name) {
            None => work.await,
            Some(Death::Before) => pending().await,
            Some(Death::After) => {
                drop(work.await);
                pending().await
            }
        }
    }
}

#[async_trait]
impl Iam for Mortal {
    async fn instance_profile(&self, name: &str) -> Answer<InstanceProfileInfo> {
        self.call("GetInstanceProfile", self.0.instance_profile(name)).await
    }

    async fn create_instance_profile(&self, name: &str, path: &str, tags: &Tags) -> Answer<()> {
        self.call("CreateInstanceProfile", self.0.create_instance_profile(name, path, tags)).await
    }

    async fn add_role(&self, profile: &str, role: &str) -> Answer<()> {
        self.call("AddRoleToInstanceProfile", self.0.add_role(profile, role)).await
    }

    async fn remove_role(&self, profile: &str, role: &str) -> Answer<()> {
        self.call("RemoveRoleFromInstanceProfile", self.0.remove_role(profile, role)).await
    }

    async fn delete_instance_profile(&self, name: &str) -> Answer<()> {
        self.call("DeleteInstanceProfile", self.0.delete_instance_profile(name)).await
    }

    async fn instance_profiles(&self, path_prefix: &str) -> Answer<Vec<InstanceProfileInfo>> {
        self.call("ListInstanceProfiles", self.0.instance_profiles(path_prefix)).await
    }
}
