//! An account in memory: does as a small one would, unless told otherwise.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_aws::cloud::{
    ApiError, ClusterInfo, Ec2Reads, Ec2Writes, Filter, FleetAnswer, FleetRequest, Iam, ImageInfo, ImageQuery,
    InstanceInfo, InstanceProfileInfo, InstanceTypeInfo, LaunchTemplateRequest, Lookups, PlacementGroupInfo, Queue,
    QueueMessage, ReservationInfo, ReservationQuery, Run, SecurityGroupInfo, SubnetInfo, Tags, TemplateRef,
    TypeOffering,
};
use karpenter_aws::interruption::status::InstanceStatusInfo;
use karpenter_aws::pricing::{ProductQuery, SpotPrice};
use karpenter_aws::zonal_shift::ShiftInfo;

use super::mortal::Fate;

type Answer<T> = Result<T, ApiError>;

#[derive(Debug, Clone, Default)]
pub(crate) struct Profile {
    pub(crate) path: String,
    pub(crate) tags: Tags,
    pub(crate) roles: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// With their tags.
    pub(crate) subnets: Vec<(SubnetInfo, Tags)>,
    pub(crate) groups: Vec<(SecurityGroupInfo, Tags)>,
    pub(crate) images: Vec<ImageInfo>,
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) placement_groups: Vec<PlacementGroupInfo>,
    pub(crate) reservations: Vec<ReservationInfo>,
    pub(crate) instances: Vec<InstanceInfo>,
    pub(crate) statuses: Vec<InstanceStatusInfo>,
    pub(crate) shifts: Vec<ShiftInfo>,
    pub(crate) profiles: BTreeMap<String, Profile>,
    pub(crate) roles: Vec<String>,
    pub(crate) templates: Vec<(TemplateRef, Tags)>,
    pub(crate) cluster: ClusterInfo,
    /// The next answers to a call of this name are these errors; a last one that repeats for ever is in `broken`.
    pub(crate) errors: BTreeMap<&'static str, VecDeque<ApiError>>,
    pub(crate) broken: BTreeMap<&'static str, ApiError>,
    /// Every call by name, with what it was about.
    pub(crate) calls: Vec<(&'static str, String)>,
    pub(crate) messages: VecDeque<QueueMessage>,
    /// Received and not deleted: they come again.
    pub(crate) hidden: Vec<QueueMessage>,
    pub(crate) deleted: Vec<QueueMessage>,
    pub(crate) fate: Fate,
}

#[derive(Debug, Default)]
pub(crate) struct Account(Mutex<State>);

impl Account {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn break_call(&self, call: &'static str, error: ApiError) {
        self.state().broken.insert(call, error);
    }

    pub(crate) fn mend(&self, call: &'static str) {
        self.state().broken.remove(call);
    }

    /// What calls of this name were about, since the last look.
    pub(crate) fn take(&self, call: &str) -> Vec<String> {
        let mut state = self.state();
        let (taken, rest) = std::mem::take(&mut state.calls).into_iter().partition(|(name, _)| *name == call);
        state.calls = rest;
        let taken: Vec<(&str, String)> = taken;
        taken.into_iter().map(|(_, about)| about).collect()
    }

    fn call(&self, name: &'static str, about: impl Into<String>) -> Answer<MutexGuard<'_, State>> {
        let mut state = self.state();
        state.calls.push((name, about.into()));
        if let Some(error) = state.errors.get_mut(name).and_then(VecDeque::pop_front) {
            return Err(error);
        }
        match state.broken.get(name) {
            Some(error) => Err(error.clone()),
            None => Ok(state),
        }
    }
}

fn text(filters: &[Filter]) -> String {
    filters.iter().map(|one| format!("{}={}", one.name, one.values.join(","))).collect::<Vec<_>>().join(" ")
}

/// Whether tags, ids and names are as the filters ask.
fn matches(filters: &[Filter], ids: &[(&str, &str)], tags: &Tags) -> bool {
    filters.iter().all(|filter| {
        let is = |value: &str| filter.values.iter().any(|wanted| wanted == value);
        if let Some((_, id)) = ids.iter().find(|(name, _)| *name == filter.name) {
            return is(id);
        }
        match filter.name.strip_prefix("tag:") {
            Some(key) => tags.get(key).is_some_and(|value| is(value)),
            None if filter.name == "tag-key" => tags.keys().any(|key| is(key)),
            None => true,
        }
    })
}

#[async_trait]
impl Ec2Reads for Account {
    async fn instance_types(&self) -> Answer<Vec<InstanceTypeInfo>> {
        Ok(Vec::new())
    }

    async fn type_offerings(&self) -> Answer<Vec<TypeOffering>> {
        Ok(Vec::new())
    }

    async fn spot_prices(&self, _: Timestamp) -> Answer<Vec<SpotPrice>> {
        Ok(Vec::new())
    }

    async fn images(&self, query: &ImageQuery) -> Answer<Vec<ImageInfo>> {
        let state =
            self.call("DescribeImages", format!("{} owners={}", text(&query.filters), query.owners.join(",")))?;
        let none = Tags::new();
        let found = |one: &&ImageInfo| matches(&query.filters, &[("image-id", &one.id), ("name", &one.name)], &none);
        Ok(state.images.iter().filter(found).cloned().collect())
    }

    async fn subnets(&self, filters: &[Filter]) -> Answer<Vec<SubnetInfo>> {
        let state = self.call("DescribeSubnets", text(filters))?;
        let found = |(one, tags): &&(SubnetInfo, Tags)| matches(filters, &[("subnet-id", &one.id)], tags);
        Ok(state.subnets.iter().filter(found).map(|(one, _)| one.clone()).collect())
    }

    async fn security_groups(&self, filters: &[Filter]) -> Answer<Vec<SecurityGroupInfo>> {
        let state = self.call("DescribeSecurityGroups", text(filters))?;
        let found = |(one, tags): &&(SecurityGroupInfo, Tags)| {
            let name = one.name.as_deref().unwrap_or_default();
            matches(filters, &[("group-id", &one.id), ("group-name", name)], tags)
        };
        Ok(state.groups.iter().filter(found).map(|(one, _)| one.clone()).collect())
    }

    async fn capacity_reservations(&self, query: &ReservationQuery) -> Answer<Vec<ReservationInfo>> {
        let about = query.id.clone().unwrap_or_else(|| text(&query.filters));
        let state = self.call("DescribeCapacityReservations", about)?;
        let asked = |one: &&ReservationInfo| query.id.as_ref().is_none_or(|id| *id == one.id);
        let found: Vec<_> = state.reservations.iter().filter(asked).cloned().collect();
        if found.is_empty() && query.id.is_some() {
            return Err(ApiError::new("InvalidCapacityReservationId.NotFound", "no such reservation"));
        }
        Ok(found)
    }

    async fn placement_groups(&self, filters: &[Filter]) -> Answer<Vec<PlacementGroupInfo>> {
        let state = self.call("DescribePlacementGroups", text(filters))?;
        let none = Tags::new();
        let found =
            |one: &&PlacementGroupInfo| matches(filters, &[("group-name", &one.name), ("group-id", &one.id)], &none);
        Ok(state.placement_groups.iter().filter(found).cloned().collect())
    }

    async fn instances(&self, filters: &[Filter]) -> Answer<Vec<InstanceInfo>> {
        Ok(self.call("DescribeInstances", text(filters))?.instances.clone())
    }

    async fn instances_by_id(&self, ids: &[String]) -> Answer<Vec<InstanceInfo>> {
        let state = self.call("DescribeInstances", ids.join(","))?;
        Ok(state.instances.iter().filter(|one| ids.contains(&one.id)).cloned().collect())
    }

    async fn instance_status(&self, filters: &[Filter]) -> Answer<Vec<InstanceStatusInfo>> {
        Ok(self.call("DescribeInstanceStatus", text(filters))?.statuses.clone())
    }

    async fn launch_templates(&self, filters: &[Filter]) -> Answer<Vec<TemplateRef>> {
        let state = self.call("DescribeLaunchTemplates", text(filters))?;
        let found = |(_, tags): &&(TemplateRef, Tags)| matches(filters, &[], tags);
        Ok(state.templates.iter().filter(found).map(|(one, _)| one.clone()).collect())
    }

    async fn launch_template(&self, name: &str) -> Answer<Vec<TemplateRef>> {
        let state = self.call("DescribeLaunchTemplates", name)?;
        let found: Vec<_> =
            state.templates.iter().map(|(one, _)| one).filter(|one| one.name == name).cloned().collect();
        if found.is_empty() {
            return Err(ApiError::new("InvalidLaunchTemplateName.NotFoundException", name));
        }
        Ok(found)
    }
}

#[async_trait]
impl Ec2Writes for Account {
    async fn create_launch_template(&self, request: &LaunchTemplateRequest) -> Answer<TemplateRef> {
        let mut state = self.call("CreateLaunchTemplate", request.name.as_str())?;
        let made = TemplateRef { id: format!("lt-{}", state.templates.len()), name: request.name.clone() };
        state.templates.push((made.clone(), request.tags.clone()));
        Ok(made)
    }

    async fn delete_launch_template(&self, id: &str) -> Answer<()> {
        self.call("DeleteLaunchTemplate", id)?.templates.retain(|(one, _)| one.id != id);
        Ok(())
    }

    async fn create_fleet(&self, request: &FleetRequest, _: &str, run: Run) -> Answer<FleetAnswer> {
        let overrides = request.configs.iter().flat_map(|config| &config.overrides);
        let about: Vec<String> = overrides.map(|one| format!("{}/{}", one.instance_type, one.subnet_id)).collect();
        drop(self.call("CreateFleet", format!("{run:?} {}", about.join(" ")))?);
        Err(ApiError::new("DryRunOperation", "would have succeeded"))
    }

    async fn run_instances(&self, template: &LaunchTemplateRequest, known: &str, subnet: &str) -> Answer<()> {
        let tenancy = &template.data.placement.tenancy;
        drop(self.call("RunInstances", format!("{known}/{subnet} {tenancy}"))?);
        Err(ApiError::new("DryRunOperation", "would have succeeded"))
    }

    async fn create_tags(&self, id: &str, tags: &Tags) -> Answer<()> {
        let mut state =
            self.call("CreateTags", format!("{id} {}", tags.keys().cloned().collect::<Vec<_>>().join(",")))?;
        let found = state.instances.iter_mut().find(|one| one.id == id);
        found.ok_or_else(|| ApiError::new("InvalidInstanceID.NotFound", id))?.tags.extend(tags.clone());
        Ok(())
    }

    async fn terminate_instances(&self, ids: &[String]) -> Answer<Vec<String>> {
        self.call("TerminateInstances", ids.join(","))?.instances.retain(|one| !ids.contains(&one.id));
        Ok(ids.to_vec())
    }

    async fn reboot_instance(&self, id: &str) -> Answer<()> {
        self.call("RebootInstances", id).map(|_| ())
    }
}

fn no_profile(name: &str) -> ApiError {
    ApiError::new("NoSuchEntity", &format!("Instance Profile {name} cannot be found."))
}

#[async_trait]
impl Iam for Account {
    async fn instance_profile(&self, name: &str) -> Answer<InstanceProfileInfo> {
        let state = self.call("GetInstanceProfile", name)?;
        let profile = state.profiles.get(name).ok_or_else(|| no_profile(name))?;
        Ok(InstanceProfileInfo { name: name.to_owned(), roles: profile.roles.clone() })
    }

    async fn create_instance_profile(&self, name: &str, path: &str, tags: &Tags) -> Answer<()> {
        let profile = Profile { path: path.to_owned(), tags: tags.clone(), roles: Vec::new() };
        let mut state = self.call("CreateInstanceProfile", name)?;
        if state.profiles.contains_key(name) {
            return Err(ApiError::new("EntityAlreadyExists", &format!("Instance Profile {name} already exists.")));
        }
        state.profiles.insert(name.to_owned(), profile);
        Ok(())
    }

    async fn add_role(&self, profile: &str, role: &str) -> Answer<()> {
        let mut state = self.call("AddRoleToInstanceProfile", role)?;
        if !state.roles.iter().any(|known| known == role) {
            return Err(ApiError::new("NoSuchEntity", &format!("The role with name {role} cannot be found.")));
        }
        let profile = state.profiles.get_mut(profile).ok_or_else(|| no_profile(profile))?;
        if !profile.roles.is_empty() {
            return Err(ApiError::new(
                "LimitExceeded",
                "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1",
            ));
        }
        profile.roles.push(role.to_owned());
        Ok(())
    }

    async fn remove_role(&self, profile: &str, role: &str) -> Answer<()> {
        let mut state = self.call("RemoveRoleFromInstanceProfile", format!("{profile} {role}"))?;
        state.profiles.get_mut(profile).ok_or_else(|| no_profile(profile))?.roles.retain(|one| one != role);
        Ok(())
    }

    async fn delete_instance_profile(&self, name: &str) -> Answer<()> {
        let mut state = self.call("DeleteInstanceProfile", name)?;
        let profile = state.profiles.get(name).ok_or_else(|| no_profile(name))?;
        if !profile.roles.is_empty() {
            return Err(ApiError::new("DeleteConflict", "Must remove roles first."));
        }
        state.profiles.remove(name);
        Ok(())
    }

    async fn instance_profiles(&self, path_prefix: &str) -> Answer<Vec<InstanceProfileInfo>> {
        let state = self.call("ListInstanceProfiles", path_prefix)?;
        let found = state.profiles.iter().filter(|(_, profile)| profile.path.starts_with(path_prefix));
        let info = |(name, profile): (&String, &Profile)| InstanceProfileInfo {
            name: name.clone(),
            roles: profile.roles.clone(),
        };
        Ok(found.map(info).collect())
    }
}

#[async_trait]
impl Lookups for Account {
    async fn parameter(&self, name: &str) -> Answer<String> {
        let state = self.call("GetParameter", name)?;
        state.parameters.get(name).cloned().ok_or_else(|| ApiError::new("ParameterNotFound", name))
    }

    async fn products(&self, _: &ProductQuery) -> Answer<Vec<String>> {
        Ok(Vec::new())
    }

    async fn cluster(&self, name: &str) -> Answer<ClusterInfo> {
        Ok(self.call("DescribeCluster", name)?.cluster.clone())
    }

    async fn zonal_shifts(&self, cluster_arn: &str) -> Answer<Vec<ShiftInfo>> {
        Ok(self.call("GetManagedResource", cluster_arn)?.shifts.clone())
    }
}

#[async_trait]
impl Queue for Account {
    /// What was not deleted within twenty seconds comes again.
    async fn receive(&self) -> Answer<Vec<QueueMessage>> {
        let some: Vec<QueueMessage> = {
            let mut state = self.call("ReceiveMessage", "")?;
            let count = state.messages.len().min(10);
            let some: Vec<_> = state.messages.drain(..count).collect();
            state.hidden.extend(some.clone());
            some
        };
        if some.is_empty() {
            tokio::time::sleep(std::time::Duration::from_secs(20)).await;
            let mut state = self.state();
            let again = std::mem::take(&mut state.hidden);
            state.messages.extend(again);
        }
        Ok(some)
    }

    async fn delete(&self, message: &QueueMessage) -> Answer<()> {
        let mut state = self.call("DeleteMessage", message.receipt.as_str())?;
        let hidden = state.hidden.len();
        state.hidden.retain(|one| one.receipt != message.receipt);
        if state.hidden.len() == hidden {
            state.messages.retain(|one| one.receipt != message.receipt);
        }
        state.deleted.push(message.clone());
        Ok(())
    }
}
