//! The traits, filled.

use async_trait::async_trait;
use jiff::Timestamp;

use super::fleets::{allowed, owned};
use super::matching::matches;
use super::{Account, State};
use crate::cloud::{
    ApiError, ClusterInfo, Ec2Reads, Ec2Writes, Filter, FleetAnswer, FleetRequest, Iam, ImageInfo, ImageQuery,
    InstanceInfo, InstanceProfileInfo, InstanceTypeInfo, LaunchTemplateRequest, Lookups, PlacementGroupInfo, Queue,
    QueueMessage, ReservationInfo, ReservationQuery, Run, SecurityGroupInfo, SubnetInfo, Tags, TemplateRef,
    TypeOffering,
};
use crate::interruption::status::InstanceStatusInfo;
use crate::pricing::{ProductQuery, SpotPrice};
use crate::zonal_shift::ShiftInfo;

type Answer<T> = Result<T, ApiError>;

fn not_found(code: &str, what: &str) -> ApiError {
    ApiError::new(code, &format!("{what} does not exist"))
}

impl State {
    fn shown(&self, id: &str, now: Timestamp) -> Answer<InstanceInfo> {
        let machine = self.machines.get(id).filter(|machine| machine.shown_at <= now);
        machine.map(|machine| machine.info(now)).ok_or_else(|| not_found("InvalidInstanceID.NotFound", id))
    }
}

#[async_trait]
impl Ec2Reads for Account {
    async fn instance_types(&self) -> Answer<Vec<InstanceTypeInfo>> {
        self.call("DescribeInstanceTypes", |state, _| Ok(state.types.clone()))
    }

    async fn type_offerings(&self) -> Answer<Vec<TypeOffering>> {
        self.call("DescribeInstanceTypeOfferings", |state, _| Ok(state.offerings.clone()))
    }

    async fn spot_prices(&self, since: Timestamp) -> Answer<Vec<SpotPrice>> {
        self.call("DescribeSpotPriceHistory", |state, _| {
            state.spot_prices_since.push(since);
            Ok(state.spot_prices.clone())
        })
    }

    async fn images(&self, query: &ImageQuery) -> Answer<Vec<ImageInfo>> {
        self.call("DescribeImages", |state, _| {
            let fits = |(info, tags): &&(ImageInfo, Tags)| {
                let fields = [("image-id", info.id.as_str()), ("name", &info.name), ("state", "available")];
                matches(&query.filters, tags, &fields)
            };
            Ok(state.images.iter().filter(fits).map(|(info, _)| info.clone()).collect())
        })
    }

    async fn subnets(&self, filters: &[Filter]) -> Answer<Vec<SubnetInfo>> {
        self.call("DescribeSubnets", |state, _| {
            let fits = |(info, tags): &&(SubnetInfo, Tags)| matches(filters, tags, &[("subnet-id", &info.id)]);
            Ok(state.subnets.iter().filter(fits).map(|(info, _)| info.clone()).collect())
        })
    }

    async fn security_groups(&self, filters: &[Filter]) -> Answer<Vec<SecurityGroupInfo>> {
        self.call("DescribeSecurityGroups", |state, _| {
            let fits = |(info, tags): &&(SecurityGroupInfo, Tags)| {
                let name = info.name.as_deref().unwrap_or_default();
                matches(filters, tags, &[("group-id", info.id.as_str()), ("group-name", name)])
            };
            Ok(state.security_groups.iter().filter(fits).map(|(info, _)| info.clone()).collect())
        })
    }

    async fn capacity_reservations(&self, query: &ReservationQuery) -> Answer<Vec<ReservationInfo>> {
        self.call("DescribeCapacityReservations", |state, _| {
            let fits = |(info, tags): &&(ReservationInfo, Tags)| {
                let criteria = info.match_criteria.as_str();
                let fields = [("state", "active"), ("owner-id", &info.owner_id), ("instance-match-criteria", criteria)];
                query.id.as_ref().is_none_or(|id| info.id == *id) && matches(&query.filters, tags, &fields)
            };
            let found: Vec<_> = state.reservations.iter().filter(fits).map(|(info, _)| info.clone()).collect();
            match &query.id {
                Some(id) if found.is_empty() => Err(not_found("InvalidCapacityReservationId.NotFound", id)),
                _ => Ok(found),
            }
        })
    }

    async fn placement_groups(&self, filters: &[Filter]) -> Answer<Vec<PlacementGroupInfo>> {
        self.call("DescribePlacementGroups", |state, _| {
            let fits = |info: &&PlacementGroupInfo| {
                let fields = [("state", "available"), ("group-id", info.id.as_str()), ("group-name", &info.name)];
                matches(filters, &Tags::new(), &fields)
            };
            Ok(state.placement_groups.iter().filter(fits).cloned().collect())
        })
    }

    async fn instances(&self, filters: &[Filter]) -> Answer<Vec<InstanceInfo>> {
        self.call("DescribeInstances", |state, now| {
            let shown = state.machines.values().filter(|machine| machine.shown_at <= now);
            let infos = shown.map(|machine| machine.info(now));
            let fits = |info: &InstanceInfo| {
                matches(filters, &info.tags, &[("instance-state-name", &info.state), ("instance-id", &info.id)])
            };
            Ok(infos.filter(fits).collect())
        })
    }

    async fn instances_by_id(&self, ids: &[String]) -> Answer<Vec<InstanceInfo>> {
        self.call("DescribeInstances by id", |state, now| ids.iter().map(|id| state.shown(id, now)).collect())
    }

    async fn instance_status(&self, _: &[Filter]) -> Answer<Vec<InstanceStatusInfo>> {
        self.call("DescribeInstanceStatus", |state, _| Ok(state.statuses.clone()))
    }

    async fn launch_templates(&self, filters: &[Filter]) -> Answer<Vec<TemplateRef>> {
        self.call("DescribeLaunchTemplates", |state, _| {
            let fits = |(_, request): &&(TemplateRef, LaunchTemplateRequest)| matches(filters, &request.tags, &[]);
            Ok(state.templates.values().filter(fits).map(|(found, _)| found.clone()).collect())
        })
    }

    async fn launch_template(&self, name: &str) -> Answer<Vec<TemplateRef>> {
        self.call("DescribeLaunchTemplates by name", |state, _| {
            let found = state.templates.get(name).map(|(found, _)| vec![found.clone()]);
            found.ok_or_else(|| not_found("InvalidLaunchTemplateName.NotFoundException", name))
        })
    }
}

#[async_trait]
impl Ec2Writes for Account {
    async fn create_launch_template(&self, request: &LaunchTemplateRequest) -> Answer<TemplateRef> {
        self.call("CreateLaunchTemplate", |state, _| {
            allowed(&request.tags, &state.cluster_name)?;
            if state.templates.contains_key(&request.name) {
                return Err(ApiError::new("InvalidLaunchTemplateName.AlreadyExistsException", &request.name));
            }
            let made = TemplateRef { id: state.next("lt"), name: request.name.clone() };
            state.templates.insert(request.name.clone(), (made.clone(), request.clone()));
            Ok(made)
        })
    }

    async fn delete_launch_template(&self, id: &str) -> Answer<()> {
        self.call("DeleteLaunchTemplate", |state, _| {
            let found = state.templates.iter().find(|(_, (known, _))| known.id == id);
            let (name, (_, request)) = found.ok_or_else(|| not_found("InvalidLaunchTemplateId.NotFound", id))?;
            owned(&request.tags, &state.cluster_name)?;
            let name = name.clone();
            state.templates.remove(&name);
            Ok(())
        })
    }

    async fn create_fleet(&self, request: &FleetRequest, token: &str, run: Run) -> Answer<FleetAnswer> {
        self.call("CreateFleet", |state, now| match run {
            Run::Dry => Err(ApiError::new("DryRunOperation", "it would have succeeded")),
            Run::Real => state.fleet(request, token, now),
        })
    }

    async fn run_instances(&self, _: &LaunchTemplateRequest, _: &str, _: &str) -> Answer<()> {
        self.call("RunInstances", |_, _| Err(ApiError::new("DryRunOperation", "it would have succeeded")))
    }

    async fn create_tags(&self, instance_id: &str, tags: &Tags) -> Answer<()> {
        self.call("CreateTags", |state, now| {
            let info = state.shown(instance_id, now)?;
            owned(&info.tags, &state.cluster_name)?;
            let may = |key: &String| ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"].contains(&key.as_str());
            if !tags.keys().all(may) {
                return Err(ApiError::new("UnauthorizedOperation", "no identity-based policy allows it"));
            }
            if let Some(machine) = state.machines.get_mut(instance_id) {
                machine.change(|info| info.tags.extend(tags.clone()));
            }
            Ok(())
        })
    }

    async fn terminate_instances(&self, ids: &[String]) -> Answer<Vec<String>> {
        self.call("TerminateInstances", |state, now| {
            for id in ids {
                let info = state.shown(id, now)?;
                owned(&info.tags, &state.cluster_name)?;
            }
            let ends = now.saturating_add(state.pace.ended_after).unwrap_or(Timestamp::MAX);
            for id in ids {
                if let Some(machine) = state.machines.get_mut(id) {
                    machine.ending_since.get_or_insert(now);
                    machine.ended_at.get_or_insert(ends);
                }
            }
            Ok(ids.to_vec())
        })
    }

    async fn reboot_instance(&self, id: &str) -> Answer<()> {
        self.call("RebootInstances", |state, now| {
            state.shown(id, now)?;
            if let Some(machine) = state.machines.get_mut(id) {
                machine.boots += 1;
            }
            Ok(())
        })
    }
}

#[async_trait]
impl Iam for Account {
    async fn instance_profile(&self, name: &str) -> Answer<InstanceProfileInfo> {
        self.call("GetInstanceProfile", |state, _| {
            let found = state.profiles.get(name).map(|(info, ..)| info.clone());
            found.ok_or_else(|| not_found("NoSuchEntity", &format!("Instance Profile {name}")))
        })
    }

    async fn create_instance_profile(&self, name: &str, path: &str, tags: &Tags) -> Answer<()> {
        self.call("CreateInstanceProfile", |state, _| {
            if state.profiles.contains_key(name) {
                return Err(ApiError::new("EntityAlreadyExists", name));
            }
            let info = InstanceProfileInfo { name: name.to_owned(), roles: Vec::new() };
            state.profiles.insert(name.to_owned(), (info, path.to_owned(), tags.clone()));
            Ok(())
        })
    }

    async fn add_role(&self, profile: &str, role: &str) -> Answer<()> {
        self.call("AddRoleToInstanceProfile", |state, _| {
            if !state.roles.is_empty() && !state.roles.iter().any(|known| known == role) {
                return Err(not_found("NoSuchEntity", &format!("The role with name {role}")));
            }
            let found = state.profiles.get_mut(profile);
            let (info, ..) = found.ok_or_else(|| not_found("NoSuchEntity", &format!("Instance Profile {profile}")))?;
            if !info.roles.is_empty() {
                return Err(ApiError::new("LimitExceeded", "the profile has a role"));
            }
            info.roles.push(role.to_owned());
            Ok(())
        })
    }

    async fn remove_role(&self, profile: &str, role: &str) -> Answer<()> {
        self.call("RemoveRoleFromInstanceProfile", |state, _| {
            let found = state.profiles.get_mut(profile);
            let (info, ..) = found.ok_or_else(|| not_found("NoSuchEntity", &format!("Instance Profile {profile}")))?;
            info.roles.retain(|known| known != role);
            Ok(())
        })
    }

    async fn delete_instance_profile(&self, name: &str) -> Answer<()> {
        self.call("DeleteInstanceProfile", |state, _| {
            let found = state.profiles.get(name);
            let (info, ..) = found.ok_or_else(|| not_found("NoSuchEntity", &format!("Instance Profile {name}")))?;
            if !info.roles.is_empty() {
                return Err(ApiError::new("DeleteConflict", "the profile has a role"));
            }
            state.profiles.remove(name);
            Ok(())
        })
    }

    async fn instance_profiles(&self, path_prefix: &str) -> Answer<Vec<InstanceProfileInfo>> {
        self.call("ListInstanceProfiles", |state, _| {
            let own = state.profiles.values().filter(|(_, path, _)| path.starts_with(path_prefix));
            Ok(own.map(|(info, ..)| info.clone()).collect())
        })
    }
}

#[async_trait]
impl Lookups for Account {
    async fn parameter(&self, name: &str) -> Answer<String> {
        self.call("GetParameter", |state, _| {
            state.parameters.get(name).cloned().ok_or_else(|| not_found("ParameterNotFound", name))
        })
    }

    async fn products(&self, query: &ProductQuery) -> Answer<Vec<String>> {
        self.call("GetProducts", |state, _| {
            let metal = query.filters.iter().any(|(_, value)| value.contains("bare metal"));
            Ok(if metal { state.metal_products.clone() } else { state.products.clone() })
        })
    }

    async fn cluster(&self, name: &str) -> Answer<ClusterInfo> {
        self.call("DescribeCluster", |state, _| {
            state.cluster.clone().ok_or_else(|| not_found("ResourceNotFoundException", name))
        })
    }

    async fn zonal_shifts(&self, _: &str) -> Answer<Vec<ShiftInfo>> {
        self.call("GetManagedResource", |state, _| Ok(state.shifts.clone()))
    }
}

#[async_trait]
impl Queue for Account {
    async fn receive(&self) -> Answer<Vec<QueueMessage>> {
        self.call("ReceiveMessage", |state, _| {
            let count = state.queue.len().min(10);
            let taken: Vec<QueueMessage> = state.queue.drain(..count).collect();
            state.in_flight.extend(taken.clone());
            Ok(taken)
        })
    }

    async fn delete(&self, message: &QueueMessage) -> Answer<()> {
        self.call("DeleteMessage", |state, _| {
            state.in_flight.retain(|known| known.receipt != message.receipt);
            Ok(())
        })
    }
}
