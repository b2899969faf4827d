//! Whether the class could launch anything: the cheap checks, then the calls themselves, dry where EC2 allows that (§2.11).

use jiff::SignedDuration;
use karpenter_api::convert;
use karpenter_api::hash::{ami_family, ec2_node_class_hash};
use karpenter_api::kinds::{EC2NodeClass, NodeClaim};
use karpenter_api::names::conditions::VALIDATION_SUCCEEDED;
use karpenter_aws::class::NodeClass;
use karpenter_aws::cloud::{ApiError, FleetConfig, FleetOverride, FleetRequest, LaunchTemplateRequest, Run};
use karpenter_aws::family::AmiFamily;
use karpenter_aws::kubelet_checks::{evaluation_failed, family_verdict, verdict};
use karpenter_aws::launch::tags::{effective_tags, fleet_tags};
use karpenter_aws::launch::templates::{LaunchFacts, Template, templates};
use karpenter_aws::user_data::Cluster;
use karpenter_aws::validation::{
    Check, Outcome, Verdict, checked_tenancy, checked_type, dependencies_verdict, outcome, run_instances_answer,
    tags_verdict, verdict_key,
};
use karpenter_controllers::queue::ReconcileError;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels;
use karpenter_model::requirements::Requirements;

use super::{Again, MINUTE, Part, conditions};
use crate::Aws;

const VERDICTS_KEPT: SignedDuration = SignedDuration::from_mins(30);
const FINE: Again = Again::After(MINUTE.saturating_mul(10));

#[derive(Debug, thiserror::Error)]
enum ValidationError {
    #[error("eks:DescribeCluster says nothing of the range of service addresses of cluster {0:?}")]
    NoCidr(String),
    #[error("eks:DescribeCluster failed")]
    Cluster(#[source] ApiError),
    #[error("no instance type of the region boots any image of the class")]
    NoType,
    #[error("the check of {check:?} failed")]
    Call {
        check: Check,
        #[source]
        source: ApiError,
    },
}

pub(super) async fn reconcile(aws: &Aws, object: &mut EC2NodeClass) -> Part {
    let mut cluster = aws.options.cluster.clone();
    if AmiFamily::parse(ami_family(&object.spec)) == Some(AmiFamily::Al2023) {
        match service_cidr(aws).await {
            Ok(cidr) => cluster.service_cidr = Some(cidr),
            Err(ValidationError::Cluster(error)) if error.server_fault => return Ok(Again::Soon),
            Err(error) => {
                let message = "Failed to detect the cluster CIDR";
                conditions(aws, object).set_false(VALIDATION_SUCCEEDED, "ClusterCIDRResolutionFailed", message);
                return Err(error.into());
            }
        }
    }
    if let Some(verdict) = kubelet_verdict(aws, object) {
        apply(aws, object, &verdict);
        return Ok(Again::OnChange);
    }
    let class = NodeClass::read(object)?;
    if let Some(verdict) = dependencies_verdict(object) {
        apply(aws, object, &verdict);
        return Ok(FINE);
    }
    if class.kubelet.has_expressions() {
        let Some(hold) = aws.shared.expressions_hold(&class) else { return Ok(Again::Soon) };
        if let Err(message) = hold {
            apply(aws, object, &evaluation_failed(message));
            return Ok(Again::OnChange);
        }
    }
    if let Some(verdict) = tags_verdict(&class) {
        apply(aws, object, &verdict);
        return Ok(Again::OnChange);
    }
    let tags = effective_tags(&class, aws.cluster_name(), "");
    let hash = ec2_node_class_hash(&class.spec, aws.ca_bundle())?;
    let key = (class.name.clone(), verdict_key(&class, hash, &tags));
    let verdict = match aws.classes.verdicts.get(&key, aws.now()) {
        Some(known) => Some(known),
        None if aws.options.disable_dry_run => Some(Verdict::Succeeded),
        None => checked(aws, &class, &cluster, key.1).await?,
    };
    // Nothing was said: the condition stays as it is (AWS-107).
    let Some(verdict) = verdict else { return Ok(Again::Soon) };
    apply(aws, object, &verdict);
    if aws.classes.verdicts.get(&key, aws.now()).is_none() {
        aws.classes.verdicts.put(key, verdict, aws.now(), VERDICTS_KEPT);
    }
    Ok(FINE)
}

/// What of the kubelet's settings is wrong whatever the types are; the class has to change (AWS-102).
fn kubelet_verdict(aws: &Aws, object: &EC2NodeClass) -> Option<Verdict> {
    let (kubelet, definition) = (object.spec.kubelet.as_ref()?, aws.options.definition);
    verdict(kubelet, definition, aws.options.kubelet_expressions).or_else(|| {
        let family = AmiFamily::parse(ami_family(&object.spec))?;
        family_verdict(kubelet, family, definition)
    })
}

fn apply(aws: &Aws, object: &mut EC2NodeClass, verdict: &Verdict) {
    let mut all = conditions(aws, object);
    match verdict {
        Verdict::Succeeded => all.set_true(VALIDATION_SUCCEEDED),
        Verdict::Failed { reason, message } => all.set_false(VALIDATION_SUCCEEDED, reason, message),
        Verdict::Unknown { reason, message } => all.set_unknown(VALIDATION_SUCCEEDED, reason, message),
    };
}

async fn service_cidr(aws: &Aws) -> Result<String, ValidationError> {
    let cidr = aws.shared.service_cidr().await.map_err(ValidationError::Cluster)?;
    cidr.ok_or_else(|| ValidationError::NoCidr(aws.cluster_name().to_owned()))
}

/// The calls, one after the other; the first that is refused decides. `None` when nothing can be said.
async fn checked(aws: &Aws, class: &NodeClass, cluster: &Cluster, key: u64) -> Result<Option<Verdict>, ReconcileError> {
    let template = template(aws, class, cluster).await?;
    aws.ctx.report.metrics.all.userdata_bytes.set([&class.name], bytes(template.user_data_bytes));
    let Some(known) = template.types.first().cloned() else { return Err(ValidationError::NoType.into()) };
    for check in [Check::CreateLaunchTemplate, Check::CreateFleet, Check::RunInstances] {
        let answer = match check {
            Check::CreateLaunchTemplate => aws.shared.ensure_template(&class.name, &template).await,
            Check::CreateFleet => {
                let (request, token) = (fleet(aws, class, &template), format!("validation-{key:016x}"));
                aws.services.writes.create_fleet(&request, &token, Run::Dry).await.map(|_| ())
            }
            Check::RunInstances => run_instances(aws, class, &template.request, &known.name).await,
        };
        match outcome(check, answer) {
            Outcome::Allowed => {}
            Outcome::Refused { reason, message } => return Ok(Some(Verdict::Failed { reason, message })),
            Outcome::AskAgain => return Ok(None),
            Outcome::Error(source) => return Err(ValidationError::Call { check, source }.into()),
        }
    }
    Ok(Some(Verdict::Succeeded))
}

fn bytes(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// What pools of the class ask for.
fn pools(aws: &Aws, class: &NodeClass) -> Vec<Requirements> {
    let state = aws.ctx.state();
    let own = state.pools().into_iter().filter(|pool| pool.node_class.name == class.name);
    own.map(|pool| pool.requirements.clone()).collect()
}

async fn template(aws: &Aws, class: &NodeClass, cluster: &Cluster) -> Result<Template, ReconcileError> {
    let rules = aws.ctx.provider.label_rules();
    let (pools, all) = (pools(aws, class), aws.shared.instance_types(class).await?);
    let suits = |known: &&InstanceType| {
        let wanted = |pool: &Requirements| known.requirements.intersects(pool);
        known.offerings.iter().any(|offering| offering.available) && pools.iter().any(wanted)
    };
    let usable: Vec<InstanceType> = all.iter().filter(suits).cloned().collect();
    let chosen = checked_type(class, &usable, &all, rules).ok_or(ValidationError::NoType)?;
    // A launch for nobody: no labels, no taints, no requests.
    let claim =
        convert::claim(&NodeClaim::new(&class.name, karpenter_api::kinds::NodeClaimSpec::default()), rules).view;
    let evaluated = aws.shared.evaluated(class, std::slice::from_ref(chosen));
    let facts = LaunchFacts {
        class,
        cluster,
        region: &aws.options.region,
        claim: &claim,
        capacity_type: labels::CAPACITY_TYPE_ON_DEMAND,
        tenancy: checked_tenancy(&pools),
        placement_group: None,
        reserved_capacity: aws.options.reserved_capacity,
        evaluated: &evaluated,
        rules,
    };
    let made = templates(std::slice::from_ref(chosen), &facts)?;
    Ok(made.into_iter().next().ok_or(ValidationError::NoType)?)
}

/// Every subnet of the class, whether or not its zone sells the type (AWS-106).
fn fleet(aws: &Aws, class: &NodeClass, template: &Template) -> FleetRequest {
    let overrides = template.types.iter().flat_map(|known| {
        class.subnets().iter().map(|subnet| FleetOverride {
            instance_type: known.name.clone(),
            subnet_id: subnet.id.clone(),
            image_id: template.request.data.image_id.clone(),
            zone: subnet.zone.clone(),
            priority: 0.0,
        })
    });
    FleetRequest {
        target_capacity: 1,
        default_capacity_type: "on-demand",
        on_demand_strategy: Some("lowest-price"),
        spot_strategy: None,
        reservation_types: None,
        configs: vec![FleetConfig {
            template_name: template.request.name.clone(),
            version: "$Latest",
            overrides: overrides.collect(),
        }],
        context: class.spec.context.clone(),
        tags: fleet_tags(&effective_tags(class, aws.cluster_name(), "")),
    }
}

/// In one subnet after the other, until one is fine.
async fn run_instances(
    aws: &Aws,
    class: &NodeClass,
    template: &LaunchTemplateRequest,
    instance_type: &str,
) -> Result<(), ApiError> {
    let mut answers = Vec::new();
    for subnet in class.subnets() {
        let answer = aws.services.writes.run_instances(template, instance_type, &subnet.id).await;
        let fine = answer.as_ref().map_or_else(ApiError::is_dry_run_success, |()| true);
        answers.push(answer);
        if fine {
            break;
        }
    }
    run_instances_answer(answers)
}
