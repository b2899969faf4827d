//! Images (§2.2, §2.3).

use std::collections::BTreeMap;

use jiff::SignedDuration;
use karpenter_api::kinds::EC2NodeClass;
use karpenter_api::names::aws::conditions::AMIS_READY;
use karpenter_aws::cloud::{ApiError, Filter, ImageInfo, ImageQuery};
use karpenter_aws::selection::aliases::{AliasError, AliasParameter, Variant, alias_parameters, is_mutable};
use karpenter_aws::selection::images::{
    alias_query, image_of_parameter, image_queries, image_status, is_deprecated, term_parameters,
};
use karpenter_controllers::queue::ReconcileError;
use kube::ResourceExt as _;

use super::{Again, MINUTE, Part, conditions, listed, shape, status};
use crate::Aws;

/// AWS-50.
const ALIASES_KEPT: SignedDuration = SignedDuration::from_hours(24);
const PARAMETERS_KEPT: SignedDuration = SignedDuration::from_mins(5);

type Queries = (Vec<ImageQuery>, BTreeMap<String, Vec<Variant>>);

#[derive(Debug, thiserror::Error)]
enum ImageError {
    #[error(transparent)]
    Alias(#[from] AliasError),
    #[error("no parameter of alias {alias:?} could be read; the last one, {name:?}")]
    NoParameter {
        alias: String,
        name: String,
        #[source]
        source: ApiError,
    },
    #[error("parameter {name:?} could not be read")]
    Parameter {
        name: String,
        #[source]
        source: ApiError,
    },
    #[error("ec2:DescribeImages failed")]
    Images(#[source] ApiError),
}

pub(super) async fn reconcile(aws: &Aws, class: &mut EC2NodeClass) -> Part {
    let (queries, purposes) = match queries(aws, class).await {
        Ok(queries) => queries,
        // Trying again does not help; the images that are known stay (AWS-19, AWS-47).
        Err(ImageError::Alias(error)) => {
            conditions(aws, class).set_false(AMIS_READY, "UnsupportedAlias", &error.to_string());
            return Ok(Again::OnChange);
        }
        Err(error) => return Err(error.into()),
    };
    let found = found(aws, class, queries).await?;
    let images = image_status(&found, &purposes, aws.now());
    let again = if images.is_empty() {
        conditions(aws, class).set_false(AMIS_READY, "AMINotFound", "AMISelector did not match any AMIs");
        MINUTE
    } else {
        conditions(aws, class).set_true(AMIS_READY);
        MINUTE * 5
    };
    status(class).amis = listed(images);
    Ok(Again::After(again))
}

/// Parameters are read first; what they hold is kept on its own (AWS-57).
async fn queries(aws: &Aws, class: &EC2NodeClass) -> Result<Queries, ImageError> {
    let terms = &class.spec.ami_selector_terms;
    if let Some(alias) = terms.iter().find_map(|term| term.alias.as_deref()) {
        return of_alias(aws, alias).await;
    }
    let mut ids = Vec::new();
    for name in term_parameters(terms) {
        ids.extend(of_parameter(aws, &class.name_any(), name).await?);
    }
    Ok((image_queries(terms, &ids), BTreeMap::new()))
}

/// Parameters that cannot be read are left out, as long as there is one that can (AWS-46).
async fn of_alias(aws: &Aws, alias: &str) -> Result<Queries, ImageError> {
    let mut resolved: Vec<(AliasParameter, String)> = Vec::new();
    let mut last = None;
    for parameter in alias_parameters(alias, &aws.kubernetes_version())? {
        match parameter_value(aws, &parameter.name, ALIASES_KEPT).await {
            Ok(value) => resolved.push((parameter, value)),
            Err(error) => {
                tracing::debug!(alias, parameter = parameter.name, %error, "left out a parameter of an alias");
                last = Some((parameter.name, error));
            }
        }
    }
    match (alias_query(&resolved), last) {
        (Some((query, purposes)), _) => Ok((vec![query], purposes)),
        (None, Some((name, source))) => Err(ImageError::NoParameter { alias: alias.to_owned(), name, source }),
        // Every alias has parameters.
        (None, None) => Err(AliasError::Malformed(alias.to_owned()).into()),
    }
}

async fn of_parameter(aws: &Aws, class: &str, name: &str) -> Result<Option<String>, ImageError> {
    let skipped = |why: &str| tracing::info!(nodeclass = class, parameter = name, why, "left out a selector term");
    match parameter_value(aws, name, PARAMETERS_KEPT).await {
        Ok(value) => {
            let image = image_of_parameter(&value).map(ToOwned::to_owned);
            if image.is_none() {
                skipped("it does not hold the id of an image");
            }
            Ok(image)
        }
        Err(error) if error.is_not_found() => {
            skipped("it does not exist");
            Ok(None)
        }
        Err(source) => Err(ImageError::Parameter { name: name.to_owned(), source }),
    }
}

async fn parameter_value(aws: &Aws, name: &str, kept: SignedDuration) -> Result<String, ApiError> {
    let parameters = &aws.classes.parameters;
    if let Some(value) = parameters.get(&name.to_owned(), aws.now()) {
        return Ok(value);
    }
    let value = aws.services.lookups.parameter(name).await?;
    parameters.put(name.to_owned(), value.clone(), aws.now(), kept);
    Ok(value)
}

async fn found(aws: &Aws, class: &EC2NodeClass, queries: Vec<ImageQuery>) -> Result<Vec<ImageInfo>, ImageError> {
    let (shape, kept) = (shape(class), &aws.classes.images);
    if let Some((known, found)) = kept.get(&shape, aws.now())
        && known == queries
    {
        return Ok(found);
    }
    let mut found = Vec::new();
    for query in &queries {
        found.extend(aws.services.reads.images(query).await.map_err(ImageError::Images)?);
    }
    kept.put(shape, (queries, found.clone()), aws.now(), aws.options.ami_refresh_interval);
    Ok(found)
}

/// Parameters whose image is deprecated by now are read again (AWS-59).
pub(crate) async fn invalidate_parameters(aws: &Aws) -> Result<(), ReconcileError> {
    let now = aws.now();
    let mutable: Vec<(String, String)> =
        aws.classes.parameters.all(now).into_iter().filter(|(name, _)| is_mutable(name)).collect();
    if mutable.is_empty() {
        return Ok(());
    }
    let ids = mutable.iter().map(|(_, id)| id.as_str());
    let query = ImageQuery { filters: vec![Filter::new("image-id", ids)], owners: Vec::new() };
    let images = aws.services.reads.images(&query).await.map_err(ImageError::Images)?;
    for (name, id) in mutable {
        if images.iter().any(|image| image.id == id && is_deprecated(image, now)) {
            tracing::info!(parameter = name, image = id, "image is deprecated, its parameter is read again");
            aws.classes.parameters.forget(&name);
        }
    }
    Ok(())
}
