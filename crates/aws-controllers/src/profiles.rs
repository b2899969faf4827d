//! Instance profiles in IAM: read, made, deleted, and collected when nothing refers to them any more (§2.6).

use std::collections::BTreeSet;

use jiff::SignedDuration;
use karpenter_api::names::aws::INSTANCE_PROFILE_ANNOTATION;
use karpenter_aws::class::NodeClass;
use karpenter_aws::cloud::{ApiError, InstanceProfileInfo};
use karpenter_aws::profiles::{
    class_path, cluster_path, collectable, is_role_missing, legacy_profile_name, profile_name, profile_tags, role_name,
};
use karpenter_controllers::queue::ReconcileError;
use tokio::sync::Mutex;

use crate::Aws;
use crate::kept::Kept;

const READ_KEPT: SignedDuration = SignedDuration::from_mins(15);
const MADE_KEPT: SignedDuration = SignedDuration::from_mins(1);
const MISSING_ROLE_KEPT: SignedDuration = SignedDuration::from_mins(1);
const PROTECTED: SignedDuration = SignedDuration::from_hours(1);

/// What is remembered of profiles.
#[derive(Debug, Default)]
pub(crate) struct Profiles {
    read: Kept<String, InstanceProfileInfo>,
    /// By role and UID of the class, in case the write of its status is lost.
    made: Kept<(String, String), String>,
    missing_roles: Kept<String, String>,
    /// Claims that are being launched may use them although nothing says so yet.
    protected: Kept<String, ()>,
    /// Held by whoever makes a profile, and by whoever collects one: what is made may have been there already, with nobody to need it.
    making: Mutex<()>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProfileError {
    #[error("{call} failed for instance profile {profile:?}")]
    Call {
        call: &'static str,
        profile: String,
        #[source]
        source: ApiError,
    },
    #[error("role {role:?} of spec.role does not exist: {message}")]
    RoleMissing { role: String, message: String },
    #[error("iam:ListInstanceProfiles failed")]
    List(#[source] ApiError),
}

fn failed(call: &'static str, profile: &str) -> impl FnOnce(ApiError) -> ProfileError {
    let profile = profile.to_owned();
    move |source| ProfileError::Call { call, profile, source }
}

impl Aws {
    /// The profile that was made for the class and this role a moment ago (AWS-70).
    pub(crate) fn profile_made(&self, class: &NodeClass, role: &str) -> Option<String> {
        self.profiles.made.get(&(role.to_owned(), class.uid.clone()), self.now())
    }

    pub(crate) fn protect_profile(&self, name: &str) {
        self.profiles.protected.put(name.to_owned(), (), self.now(), PROTECTED);
    }

    /// AWS-73.
    pub(crate) async fn read_profile(&self, name: &str) -> Result<InstanceProfileInfo, ApiError> {
        if let Some(known) = self.profiles.read.get(&name.to_owned(), self.now()) {
            return Ok(known);
        }
        let found = self.services.iam.instance_profile(name).await?;
        self.profiles.read.put(name.to_owned(), found.clone(), self.now(), READ_KEPT);
        Ok(found)
    }

    /// A profile with the class's role to take the place of `current`; what was begun and cannot be finished is taken back (AWS-70 …
    /// AWS-72).
    ///
    /// Its name is the same at every attempt and another one for each `current`: a process that died half-way has left what the next one
    /// finishes, and nothing else.
    pub(crate) async fn make_profile(&self, class: &NodeClass, current: Option<&str>) -> Result<String, ProfileError> {
        let (memory, role) = (&self.profiles, role_name(class.spec.role.as_deref().unwrap_or_default()));
        if let Some(message) = memory.missing_roles.get(&role.to_owned(), self.now()) {
            return Err(ProfileError::RoleMissing { role: role.to_owned(), message });
        }
        let (region, cluster) = (&self.options.region, self.cluster_name());
        let unique = format!("{}/{role}/{}", class.uid, current.unwrap_or_default());
        let name = profile_name(cluster, region, &class.name, &unique);
        let _making = memory.making.lock().await;
        let left = self.begin_profile(class, &name).await?;
        self.protect_profile(&name);
        if let Err(error) = self.give_role(&name, role, &left).await {
            let missing = is_role_missing(&error);
            if let Err(error) = self.delete_profile(&name).await {
                tracing::warn!(profile = name, %error, "could not delete a half-made instance profile");
            }
            if missing {
                memory.missing_roles.put(role.to_owned(), error.message.clone(), self.now(), MISSING_ROLE_KEPT);
                return Err(ProfileError::RoleMissing { role: role.to_owned(), message: error.message });
            }
            return Err(failed("iam:AddRoleToInstanceProfile", &name)(error));
        }
        tracing::info!(nodeclass = class.name, profile = name, role, "created instance profile");
        let made = InstanceProfileInfo { name: name.clone(), roles: vec![role.to_owned()] };
        memory.read.put(name.clone(), made, self.now(), READ_KEPT);
        memory.made.put((role.to_owned(), class.uid.clone()), name.clone(), self.now(), MADE_KEPT);
        Ok(name)
    }

    /// The roles that an earlier attempt has given it.
    async fn begin_profile(&self, class: &NodeClass, name: &str) -> Result<Vec<String>, ProfileError> {
        let (iam, region, cluster) = (&self.services.iam, &self.options.region, self.cluster_name());
        let (path, tags) = (class_path(region, cluster, class), profile_tags(class, cluster, region));
        match iam.create_instance_profile(name, &path, &tags).await {
            Ok(()) => Ok(Vec::new()),
            Err(error) if error.is_already_exists() => {
                let found = iam.instance_profile(name).await.map_err(failed("iam:GetInstanceProfile", name))?;
                tracing::info!(
                    nodeclass = class.name,
                    profile = name,
                    "an instance profile was begun before, going on with it"
                );
                Ok(found.roles)
            }
            Err(error) => Err(failed("iam:CreateInstanceProfile", name)(error)),
        }
    }

    /// A profile has one role at most (AWS-71).
    async fn give_role(&self, name: &str, role: &str, present: &[String]) -> Result<(), ApiError> {
        let iam = &self.services.iam;
        for other in present.iter().filter(|present| *present != role) {
            unless_gone(iam.remove_role(name, other).await)?;
        }
        if present.iter().any(|present| present == role) {
            return Ok(());
        }
        iam.add_role(name, role).await
    }

    /// Gone already is what was wanted (AWS-74).
    pub(crate) async fn delete_profile(&self, name: &str) -> Result<(), ProfileError> {
        let iam = &self.services.iam;
        match iam.instance_profile(name).await {
            Ok(found) => {
                for role in &found.roles {
                    unless_gone(iam.remove_role(name, role).await)
                        .map_err(failed("iam:RemoveRoleFromInstanceProfile", name))?;
                }
                unless_gone(iam.delete_instance_profile(name).await)
                    .map_err(failed("iam:DeleteInstanceProfile", name))?;
                tracing::info!(profile = name, "deleted instance profile");
            }
            Err(error) => unless_gone(Err(error)).map_err(failed("iam:GetInstanceProfile", name))?,
        }
        self.profiles.read.forget(&name.to_owned());
        self.profiles.protected.forget(&name.to_owned());
        self.profiles.made.forget_values(&name.to_owned());
        Ok(())
    }

    /// Everything that was ever made for the class, also by former versions (AWS-40). The user's own is never among it.
    pub(crate) async fn delete_profiles_of(&self, class: &NodeClass) -> Result<(), ProfileError> {
        let (region, cluster) = (&self.options.region, self.cluster_name());
        let path = class_path(region, cluster, class);
        for profile in self.services.iam.instance_profiles(&path).await.map_err(ProfileError::List)? {
            self.delete_profile(&profile.name).await?;
        }
        if let Some(name) = legacy_profile_name(cluster, region, &class.name) {
            self.delete_profile(&name).await?;
        } else {
            tracing::debug!(nodeclass = class.name, "no legacy instance profile can have the class's name");
        }
        self.profiles.made.forget_where(|(_, uid)| *uid == class.uid);
        Ok(())
    }
}

fn unless_gone(answer: Result<(), ApiError>) -> Result<(), ApiError> {
    match answer {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}

/// Deletes what nothing refers to any more (AWS-75).
pub(crate) async fn collect(aws: &Aws) -> Result<(), ReconcileError> {
    // A claim that is not known yet may need any of them.
    if aws.ctx.state().unlisted().is_some() {
        return Ok(());
    }
    let path = cluster_path(&aws.options.region, aws.cluster_name());
    let profiles = aws.services.iam.instance_profiles(&path).await.map_err(ProfileError::List)?;
    let classes = aws.all_classes();
    let of_classes: BTreeSet<String> =
        classes.into_iter().filter_map(|class| class.status.and_then(|status| status.instance_profile)).collect();
    let protected: BTreeSet<String> =
        aws.profiles.protected.all(aws.now()).into_iter().map(|(name, ())| name).collect();
    let of_claims: BTreeSet<String> = {
        let state = aws.ctx.state();
        state.claims().filter_map(|claim| claim.annotations.get(INSTANCE_PROFILE_ANNOTATION).cloned()).collect()
    };
    let mut failure = None;
    for name in collectable(&profiles, &of_classes, &protected, &of_claims) {
        let _making = aws.profiles.making.lock().await;
        // Somebody may have found a use for it since.
        if aws.profiles.protected.get(&name.to_owned(), aws.now()).is_some() {
            continue;
        }
        if let Err(error) = aws.delete_profile(name).await {
            failure = Some(error);
        }
    }
    failure.map_or(Ok(()), |error| Err(error.into()))
}
