//! What changes the account.

mod fleet;
mod template;

use std::fmt;

use async_trait::async_trait;
use aws_sdk_ec2::Client;
use aws_sdk_ec2::types::{InstanceStateName, ResourceType, Tag, TagSpecification as SdkTagSpecification};
use karpenter_aws::cloud::{
    ApiError, Ec2Writes, FleetAnswer, FleetRequest, LaunchTemplateRequest, Run, TagSpecification, Tags, TemplateRef,
};

use crate::ec2_reads;
use crate::failures::{failure, incomplete};

pub(crate) struct Writes {
    pub(crate) client: Client,
    /// Without retries.
    pub(crate) once: Client,
}

impl fmt::Debug for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writes")
    }
}

#[async_trait]
impl Ec2Writes for Writes {
    async fn create_launch_template(&self, request: &LaunchTemplateRequest) -> Result<TemplateRef, ApiError> {
        let call = self.client.create_launch_template().launch_template_name(&request.name);
        let call = call.launch_template_data(template::data(&request.data));
        let call = call.tag_specifications(tag_specification("launch-template", &request.tags));
        let answer = call.send().await.map_err(failure)?;
        answer.launch_template.map(ec2_reads::template).ok_or_else(|| incomplete("launch template"))
    }

    async fn delete_launch_template(&self, id: &str) -> Result<(), ApiError> {
        self.client.delete_launch_template().launch_template_id(id).send().await.map(|_| ()).map_err(failure)
    }

    async fn create_fleet(&self, request: &FleetRequest, token: &str, run: Run) -> Result<FleetAnswer, ApiError> {
        let answer = match run {
            Run::Real => fleet::call(&self.client, request).client_token(token).send().await,
            Run::Dry => fleet::call(&self.once, request).dry_run(true).send().await,
        };
        answer.map(fleet::answer).map_err(failure)
    }

    async fn run_instances(
        &self,
        template: &LaunchTemplateRequest,
        instance_type: &str,
        subnet: &str,
    ) -> Result<(), ApiError> {
        let call = template::run(&self.once, template, instance_type, subnet);
        call.dry_run(true).send().await.map(|_| ()).map_err(failure)
    }

    async fn create_tags(&self, instance_id: &str, tags: &Tags) -> Result<(), ApiError> {
        let call = self.client.create_tags().resources(instance_id).set_tags(Some(tags_of(tags)));
        call.send().await.map(|_| ()).map_err(failure)
    }

    async fn terminate_instances(&self, ids: &[String]) -> Result<Vec<String>, ApiError> {
        let call = self.client.terminate_instances().set_instance_ids(Some(ids.to_vec()));
        let answer = call.send().await.map_err(failure)?;
        let leaving = answer.terminating_instances.unwrap_or_default().into_iter().filter_map(|change| {
            let state = change.current_state?.name?;
            [InstanceStateName::ShuttingDown, InstanceStateName::Terminated]
                .contains(&state)
                .then_some(change.instance_id?)
        });
        Ok(leaving.collect())
    }

    async fn reboot_instance(&self, id: &str) -> Result<(), ApiError> {
        self.client.reboot_instances().instance_ids(id).send().await.map(|_| ()).map_err(failure)
    }
}

fn tags_of(tags: &Tags) -> Vec<Tag> {
    tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect()
}

fn tag_specification(resource_type: &str, tags: &Tags) -> SdkTagSpecification {
    let specification = SdkTagSpecification::builder().resource_type(ResourceType::from(resource_type));
    specification.set_tags(Some(tags_of(tags))).build()
}

fn tag_specifications(specifications: &[TagSpecification]) -> Vec<SdkTagSpecification> {
    specifications.iter().map(|one| tag_specification(one.resource_type, &one.tags)).collect()
}
