//! Launch templates in EC2: made when first needed, deleted a minute after their last use (AWS-160 … AWS-162).

use karpenter_platform::{CallError, CreateError};
use tracing::{info, warn};

use super::AwsProvider;
use crate::cloud::{ApiError, Filter, TemplateRef};
use crate::launch::failures::{FailedCall, failed_call};
use crate::launch::tags;
use crate::launch::template_cache::{Ensure, ensure};
use crate::launch::templates::Template;
use crate::user_data::{SIZE_LIMIT, SIZE_WARNING};

impl AwsProvider {
    /// All of them exist when this is through.
    pub(super) async fn ensure_templates(&self, class: &str, templates: &[Template]) -> Result<(), CreateError> {
        for template in templates {
            let ensured = self.ensure_template(class, template).await;
            ensured.map_err(|error| failed_call(FailedCall::Templates, &error))?;
        }
        Ok(())
    }

    /// It exists when this is through; a launch of the same shape uses it.
    pub async fn ensure_template(&self, class: &str, template: &Template) -> Result<(), ApiError> {
        let name = template.request.name.as_str();
        let mut cache = self.templates.lock().await;
        if cache.hit(name, self.now()) {
            return Ok(());
        }
        let found = match ensure(self.clients.reads.launch_template(name).await) {
            Ensure::Adopt(found) => found,
            Ensure::Create => self.create_template(class, template).await?,
            Ensure::Failed(error) => return Err(error),
            Ensure::Ambiguous(count) => {
                return Err(ApiError::new("", &format!("{count} launch templates are named {name}")));
            }
        };
        cache.exists(found, self.now());
        Ok(())
    }

    async fn create_template(&self, class: &str, template: &Template) -> Result<TemplateRef, ApiError> {
        let bytes = template.user_data_bytes;
        self.reports.user_data_rendered(class, bytes);
        if bytes >= SIZE_WARNING {
            warn!(nodeclass = class, bytes, limit = SIZE_LIMIT, "user data is nearly as long as EC2 takes");
        }
        if !template.dropped_settings.is_empty() {
            warn!(nodeclass = class, settings = ?template.dropped_settings, "settings in user data are not known, left out");
        }
        let made = self.clients.writes.create_launch_template(&template.request).await?;
        info!(nodeclass = class, name = %made.name, id = %made.id, "created launch template");
        Ok(made)
    }

    /// EC2 does not know these any more (AWS-162).
    pub(super) async fn forget_templates(&self, templates: &[Template]) {
        let mut cache = self.templates.lock().await;
        for template in templates {
            cache.forget(&template.request.name);
        }
    }

    /// This process leads from now on: templates of its predecessor count as just used, so they go if nobody needs them
    /// (AWS-161).
    pub async fn lead(&self) -> Result<(), CallError> {
        let now = self.now();
        self.facts().leading_since = Some(now);
        let own = [Filter::new(format!("tag:{}", tags::CLUSTER), [self.settings.cluster.name.as_str()])];
        let found = self.clients.reads.launch_templates(&own).await;
        let found = found.map_err(|error| CallError::new("DescribeLaunchTemplates", error))?;
        let mut cache = self.templates.lock().await;
        for template in found {
            if !cache.hit(&template.name, now) {
                cache.exists(template, now);
            }
        }
        Ok(())
    }

    /// Deletes what nobody used for a minute. One that cannot be deleted is tried again.
    pub async fn delete_unused_templates(&self) -> Result<(), CallError> {
        let expired = self.templates.lock().await.expired(self.now());
        let mut failed = None;
        for template in expired {
            // Held while it goes, so that nobody adopts it; who did so before keeps it. Launches get their turn in between.
            let mut cache = self.templates.lock().await;
            if cache.hit(&template.name, self.now()) {
                continue;
            }
            match self.clients.writes.delete_launch_template(&template.id).await {
                Ok(()) => info!(name = %template.name, id = %template.id, "deleted launch template"),
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    cache.exists(template, self.now());
                    failed = Some(CallError::new("DeleteLaunchTemplate", error));
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Deletes all templates of a class that goes (AWS-41, AWS-289).
    pub async fn delete_class_templates(&self, class: &str) -> Result<(), CallError> {
        let own = [
            Filter::new(format!("tag:{}", tags::CLUSTER), [self.settings.cluster.name.as_str()]),
            Filter::new(format!("tag:{}", tags::NODE_CLASS), [class]),
        ];
        let mut cache = self.templates.lock().await;
        let found = self.clients.reads.launch_templates(&own).await;
        for template in found.map_err(|error| CallError::new("DescribeLaunchTemplates", error))? {
            match self.clients.writes.delete_launch_template(&template.id).await {
                Err(error) if !error.is_not_found() => return Err(CallError::new("DeleteLaunchTemplate", error)),
                _ => cache.forget(&template.name),
            }
        }
        self.reports.class_gone(class);
        Ok(())
    }
}
