//! What becomes of instances.

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_model::claim::ClaimView;
use karpenter_model::labels;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirement, Requirements, Undefined};
use karpenter_model::resources::CPU;
use karpenter_model::taints::Taint;

use super::{Broken, Subject, ensure};
use crate::{CreateError, Instance, InstanceError, RebootError, Remedy};

/// As often as the controller asks (API-242).
const POLL: Duration = Duration::from_secs(5);

async fn create(subject: &dyn Subject, claim: &ClaimView) -> Result<Instance, Broken> {
    subject.provider().create(claim).await.map_err(|error| format!("create: {error:?}"))
}

/// Launches an instance and the claim as it is after that.
async fn launched(subject: &dyn Subject) -> Result<(ClaimView, Instance), Broken> {
    let mut claim = subject.new_claim().await;
    let instance = create(subject, &claim).await?;
    claim.provider_id = Some(instance.provider_id.clone());
    Ok((claim, instance))
}

/// Asks for the end until it has come.
async fn end(subject: &dyn Subject, claim: &ClaimView) -> Result<(), Broken> {
    let mut waited = Duration::ZERO;
    loop {
        match subject.provider().delete(claim).await {
            Err(InstanceError::NotFound(_)) => return Ok(()),
            Ok(()) if waited > subject.patience() => return Err(format!("not gone after {waited:?}")),
            Ok(()) => {}
            Err(error) => return Err(format!("delete: {error:?}")),
        }
        subject.pause(POLL).await;
        waited += POLL;
    }
}

pub(super) async fn create_resolves(subject: &dyn Subject) -> Result<(), Broken> {
    let (claim, instance) = launched(subject).await?;
    ensure(!instance.provider_id.is_empty(), || "no provider id".to_owned())?;
    ensure(!instance.terminating, || "born terminating".to_owned())?;
    for key in [labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE, labels::ARCH, labels::OS] {
        let value = instance.labels.get(key).filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| format!("{key} is not resolved"))?;
        let allowed = claim.requirements.get(key).is_none_or(|asked| asked.has(value));
        ensure(allowed, || format!("{key} is {value}, which was not asked for"))?;
    }
    ensure(claim.requests.fits(&instance.allocatable), || {
        format!("{} do not fit {}", claim.requests, instance.allocatable)
    })?;
    ensure(instance.allocatable.fits(&instance.capacity), || "allocatable exceeds the capacity".to_owned())?;

    let provider = subject.provider();
    let types = provider.instance_types(&subject.pool()).await.map_err(|error| error.to_string())?;
    let chosen = types.iter().find(|t| Some(&t.name) == instance.labels.get(labels::INSTANCE_TYPE));
    let chosen = chosen.ok_or("the type is not on offer")?;
    let resolved = Requirements::from_labels(provider.label_rules(), &instance.labels);
    let undefined = Undefined::WellKnownAllowed(provider.label_rules());
    let offered = chosen.offerings.iter().any(|offering| resolved.is_compatible(&offering.requirements, undefined));
    ensure(offered, || format!("{resolved} is not on offer"))?;
    end(subject, &claim).await
}

pub(super) async fn joins_guarded(subject: &dyn Subject) -> Result<(), Broken> {
    let (claim, instance) = launched(subject).await?;
    let claim = subject.joined(&claim, &instance).await;
    let taints = subject.taints(&claim).await;
    ensure(taints.contains(&Taint::unregistered()), || format!("taints {taints:?}"))?;
    end(subject, &claim).await
}

pub(super) async fn create_repeats(subject: &dyn Subject) -> Result<(), Broken> {
    // The claim as it was before the answer came: the process died before it wrote the answer down.
    let claim = subject.new_claim().await;
    let first = create(subject, &claim).await?;
    let second = create(subject, &claim).await?;
    ensure(first.provider_id == second.provider_id && first.labels == second.labels, || {
        format!("{} then {}", first.provider_id, second.provider_id)
    })?;
    let (other_claim, other) = launched(subject).await?;
    ensure(other.provider_id != first.provider_id, || "two claims share an instance".to_owned())?;
    for claim in [ClaimView { provider_id: Some(first.provider_id), ..claim }, other_claim] {
        end(subject, &claim).await?;
    }
    Ok(())
}

pub(super) async fn create_refuses(subject: &dyn Subject) -> Result<(), Broken> {
    let mut elsewhere = subject.new_claim().await;
    elsewhere.requirements.replace(Requirement::any_of(labels::ZONE, ["zone-of-nowhere"]));
    match subject.provider().create(&elsewhere).await {
        Err(CreateError::InsufficientCapacity(_)) => {}
        other => return Err(format!("in a zone that is none: {other:?}")),
    }
    let mut huge = subject.new_claim().await;
    huge.requests.set(CPU, Quantity::units(1_000_000));
    match subject.provider().create(&huge).await {
        Err(error) if error.remedy() == Remedy::DeleteClaim => Ok(()),
        other => Err(format!("a million CPUs: {other:?}")),
    }
}

pub(super) async fn get_and_list(subject: &dyn Subject) -> Result<(), Broken> {
    let (claim, instance) = launched(subject).await?;
    let claim = subject.joined(&claim, &instance).await;
    subject.pause(subject.patience()).await;
    let found = subject.provider().get(&instance.provider_id).await.map_err(|error| format!("get: {error:?}"))?;
    let listed = subject.provider().list().await.map_err(|error| format!("list: {error:?}"))?;
    let mut same: Vec<&Instance> = listed.iter().filter(|known| known.provider_id == instance.provider_id).collect();
    ensure(same.len() == 1, || format!("{} times in the list", same.len()))?;
    let running = running(subject).await?;
    ensure(running.contains(&instance.provider_id), || "not among those that run".to_owned())?;
    same.push(&found);
    for known in same {
        for key in [labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE] {
            let (was, is) = (instance.labels.get(key), known.labels.get(key));
            ensure(was == is, || format!("{key} was {was:?} and is {is:?}"))?;
        }
        ensure(!known.terminating, || "known as terminating".to_owned())?;
    }
    end(subject, &claim).await
}

/// The claim as it was before the launch: nobody wrote the provider id down.
pub(super) async fn find(subject: &dyn Subject) -> Result<(), Broken> {
    let claim = subject.new_claim().await;
    let ask =
        async |claim: &ClaimView| subject.provider().find(claim).await.map_err(|error| format!("find: {error:?}"));
    let early = ask(&claim).await?;
    ensure(early.is_none(), || format!("before the launch: {early:?}"))?;
    let instance = create(subject, &claim).await?;
    let found = ask(&claim).await?.map(|found| found.provider_id);
    let launched = ClaimView { provider_id: Some(instance.provider_id.clone()), ..claim.clone() };
    // A provider that cannot tell never does.
    if let Some(found) = found {
        ensure(found == instance.provider_id, || format!("{found} instead of {}", instance.provider_id))?;
        let other = ask(&subject.new_claim().await).await?;
        ensure(other.is_none(), || format!("for another claim: {other:?}"))?;
    }
    let known = subject.joined(&launched, &instance).await;
    end(subject, &known).await?;
    subject.pause(subject.patience()).await;
    let late = ask(&claim).await?.filter(|found| !found.terminating);
    ensure(late.is_none(), || format!("after its end: {late:?}"))
}

pub(super) async fn unknown(subject: &dyn Subject) -> Result<(), Broken> {
    let claim = subject.new_claim().await;
    let instance = create(subject, &claim).await?;
    // Of the provider's own form, so that it has to look.
    let id = format!("{}-never", instance.provider_id);
    match subject.provider().get(&id).await {
        Err(InstanceError::NotFound(_)) => {}
        other => return Err(format!("get: {other:?}")),
    }
    match subject.provider().delete(&ClaimView { provider_id: Some(id), ..claim.clone() }).await {
        Err(InstanceError::NotFound(_)) => {}
        other => return Err(format!("delete: {other:?}")),
    }
    end(subject, &ClaimView { provider_id: Some(instance.provider_id), ..claim }).await
}

pub(super) async fn delete(subject: &dyn Subject) -> Result<(), Broken> {
    let (claim, instance) = launched(subject).await?;
    let claim = subject.joined(&claim, &instance).await;
    end(subject, &claim).await?;
    match subject.provider().get(&instance.provider_id).await {
        Err(InstanceError::NotFound(_)) => {}
        other => return Err(format!("get finds it again: {other:?}")),
    }
    end(subject, &claim).await.map_err(|error| format!("asked again: {error}"))?;
    subject.pause(subject.patience()).await;
    let listed = subject.provider().list().await.map_err(|error| format!("list: {error:?}"))?;
    let left = listed.iter().any(|known| known.provider_id == instance.provider_id && !known.terminating);
    ensure(!left, || "the list keeps it".to_owned())?;
    let runs = running(subject).await?.contains(&instance.provider_id);
    ensure(!runs, || "it is among those that run".to_owned())
}

async fn running(subject: &dyn Subject) -> Result<BTreeSet<String>, Broken> {
    subject.provider().running().await.map_err(|error| format!("running: {error:?}"))
}

pub(super) async fn drift(subject: &dyn Subject) -> Result<(), Broken> {
    let (claim, instance) = launched(subject).await?;
    let claim = subject.joined(&claim, &instance).await;
    match subject.provider().drift(&claim).await {
        Ok(None) => {}
        other => return Err(format!("{other:?}")),
    }
    end(subject, &claim).await?;
    match subject.provider().drift(&claim).await {
        Ok(None) | Err(InstanceError::NotFound(_)) => Ok(()),
        other => Err(format!("of what is gone: {other:?}")),
    }
}

pub(super) async fn reboot(subject: &dyn Subject) -> Result<(), Broken> {
    let (claim, instance) = launched(subject).await?;
    let claim = subject.joined(&claim, &instance).await;
    let mut boots = vec![subject.boot_id(&claim).await];
    // One operation asked twice, as after a crash, and then another.
    for operation in ["op-1", "op-1", "op-2"] {
        match subject.provider().reboot(&claim, operation).await {
            Ok(()) => {}
            Err(RebootError::NotImplemented) if boots.len() == 1 => return end(subject, &claim).await,
            Err(error) => return Err(format!("{operation}: {error:?}")),
        }
        subject.pause(subject.patience()).await;
        boots.push(subject.boot_id(&claim).await);
    }
    let as_told = boots[0] != boots[1] && boots[1] == boots[2] && boots[2] != boots[3];
    ensure(as_told, || format!("boot ids {boots:?}"))?;
    end(subject, &claim).await?;
    match subject.provider().reboot(&claim, "op-3").await {
        Err(_) => Ok(()),
        Ok(()) => Err("rebooted what is gone".to_owned()),
    }
}
