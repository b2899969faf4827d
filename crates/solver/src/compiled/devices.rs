//! Devices of resource claims, where claims and nodes are tried.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::devices::TypeDevices;
use karpenter_model::labels;
use karpenter_model::requirements::{Requirement, Requirements};

use super::Compiled;
use super::algebra::ReqId;
use super::bits::{self, Bits};
use super::catalogue::Catalogue;
use super::evaluation::{Evaluation, Host, Miss};
use super::groups::placeholder;
use super::nodes::node_requirements;
use super::pass::{Pass, Trial};
use super::pods::KindId;
use crate::devices::{Attempt, Candidate, DeviceRefusal, Taken, TypeOption, claims_of};
use crate::plan::Refusal;

/// What a node is known by among the candidates of a pass; claims have their placeholders.
fn node_candidate(name: &str) -> String {
    format!("node/{name}")
}

fn options<'a>(catalogue: &'a Catalogue, rows: &'a [u64]) -> Vec<TypeOption<'a>> {
    catalogue.types_of(rows).map(|known| TypeOption { name: &known.name, devices: &known.devices }).collect()
}

fn with_host(mut requirements: Requirements, host: &str) -> Requirements {
    requirements.replace(Requirement::any_of(labels::HOSTNAME, [host]));
    requirements
}

impl Evaluation<'_> {
    /// What the pod's resource claims leave of the requirements and the types, and what they would get (SCH-103). Comes after
    /// topology, which is tried again with other domains if the devices are elsewhere; before minimums (Q32).
    pub(crate) fn allocated(
        &mut self,
        trial: Trial,
        host: &Host<'_>,
        req: ReqId,
        rows: &mut [u64],
    ) -> Result<(ReqId, Option<Attempt>), Miss> {
        let Some(devices) = self.devices else { return Ok((req, None)) };
        let Compiled { algebra, catalogues, pools, pods, .. } = &mut *self.compiled;
        let pod = &pods.all[trial.pod];
        if pod.resource_claims.is_empty() {
            return Ok((req, None));
        }
        let catalogue = &mut catalogues[pools[host.pool].catalogue];
        let name = placeholder(host.at);
        let requirements = with_host(algebra.requirements(req), &name);
        let attempt = {
            let types = options(catalogue, rows);
            let candidate = Candidate { name: &name, node: None, requirements: &requirements, types };
            devices.allocate(&candidate, &claims_of(pod)).map_err(|_| Miss::Other)?
        };
        let narrowed = algebra.intern(&attempt.requirements).req;
        let offered = catalogue.masks(narrowed, algebra).offered.words().to_vec();
        rows.iter_mut().zip(offered).for_each(|(row, mask)| *row &= mask);
        keep_given(catalogue, rows, &attempt);
        if rows.iter().all(|word| *word == 0) { Err(Miss::Other) } else { Ok((narrowed, Some(attempt))) }
    }
}

/// Types that cannot satisfy the claims are out.
fn keep_given(catalogue: &Catalogue, rows: &mut [u64], attempt: &Attempt) {
    for row in 0..catalogue.rows.len() {
        if bits::has(rows, row) && !attempt.by_type.contains_key(&catalogue.known(row).name) {
            rows[row / 64] &= !(1 << (row % 64));
        }
    }
}

impl Pass<'_> {
    /// Why pods of this kind cannot be planned at all. Whoever made the snapshot should have left out what is not readable;
    /// it must not be planned without what it asks for (Q7).
    pub(crate) fn unplannable(&self, kind: KindId) -> Option<Refusal> {
        let pod = &self.compiled.pods.kinds[kind as usize].example;
        let unreadable = pod.unplannable.as_ref().map(|why| Refusal::Unreadable(why.clone()));
        unreadable.or_else(|| (pod.uses_devices && self.devices.is_none()).then_some(Refusal::DevicesIgnored))
    }

    /// What the node becomes with the devices of the pod's claims (SCH-99, SCH-201).
    pub(crate) fn allocated_on_node(
        &mut self,
        trial: Trial,
        at: usize,
        req: ReqId,
    ) -> Option<(ReqId, Option<Attempt>)> {
        let devices = self.devices.as_ref()?;
        let Compiled { algebra, catalogues, pools, pods, nodes, .. } = &mut *self.compiled;
        let node = &nodes[self.slots[at].node];
        // Slices may select by labels that nobody else asks about.
        let mut known = node_requirements(&node.source, algebra.rules());
        known.add_all(&algebra.requirements(req));
        let label = |key: &str| node.source.labels().get(key).map(String::as_str);
        let own = label(labels::NODEPOOL).zip(label(labels::INSTANCE_TYPE)).filter(|_| !node.initialized);
        let to_come = own.and_then(|(pool, name)| {
            let pool = pools.iter().find(|known| known.view.name == pool)?;
            catalogues[pool.catalogue].types.iter().find(|known| known.name == name)
        });
        let nothing = TypeDevices::default();
        let option = to_come.map_or(TypeOption { name: "", devices: &nothing }, |known| TypeOption {
            name: &known.name,
            devices: &known.devices,
        });
        let candidate = Candidate {
            name: &node_candidate(&node.name),
            node: node.source.node.as_ref().map(|node| node.name.as_str()),
            requirements: &known,
            types: vec![option],
        };
        let attempt = devices.allocate(&candidate, &claims_of(&pods.all[trial.pod])).ok()?;
        // The node keeps what the devices ask for beyond its labels.
        let added = attempt.requirements.iter().filter(|one| known.get(one.key()) != Some(one));
        let added: Requirements = added.cloned().collect();
        let added = algebra.intern(&added).req;
        Some((algebra.narrowed(req, added), Some(attempt)))
    }

    /// The claim has won its devices; types that it has lost, for whatever reason, give theirs back (SCH-212, Q45).
    pub(crate) fn commit_devices(&mut self, at: usize, attempt: Option<Attempt>) {
        let Some(devices) = &mut self.devices else { return };
        if let Some(attempt) = attempt {
            devices.commit(attempt);
        }
        let name = placeholder(at);
        if devices.given(&name).is_some() {
            let claim = &self.claims[at];
            let catalogue = &self.compiled.catalogues[self.compiled.pools[claim.pool].catalogue];
            let kept: BTreeSet<&str> = catalogue.types_of(&claim.rows).map(|known| known.name.as_str()).collect();
            devices.keep_types(&name, &kept);
        }
    }

    /// By the types that the claim names in the end (SCH-215).
    pub(crate) fn devices_of_claim(&self, at: usize, names: &[String]) -> BTreeMap<String, Vec<Taken>> {
        let given = self.devices.as_ref().and_then(|devices| devices.given(&placeholder(at)));
        let named = given.into_iter().flatten().filter(|(name, _)| names.contains(name));
        named.map(|(name, taken)| (name.clone(), taken.clone())).collect()
    }

    pub(crate) fn devices_of_nodes(&self) -> BTreeMap<String, Vec<Taken>> {
        let Some(devices) = &self.devices else { return BTreeMap::new() };
        let nodes = self.slots.iter().map(|slot| &self.compiled.nodes[slot.node].name);
        let given = nodes.filter_map(|name| Some((name.clone(), devices.given(&node_candidate(name))?)));
        given.map(|(name, given)| (name, given.values().flatten().cloned().collect())).collect()
    }

    /// What the types of a new claim would get, or why none of them has the devices; `None` for a pod without claims.
    pub(super) fn devices_on_types(
        &self,
        trial: Trial,
        requirements: &Requirements,
        catalogue: &Catalogue,
        left: &Bits,
    ) -> Result<Option<Attempt>, DeviceRefusal> {
        let pod = &self.compiled.pods.all[trial.pod];
        let Some(devices) = self.devices.as_ref().filter(|_| !pod.resource_claims.is_empty()) else { return Ok(None) };
        let name = placeholder(self.claims.len());
        let types = options(catalogue, left.words());
        let candidate = Candidate { name: &name, node: None, requirements, types };
        devices.allocate(&candidate, &claims_of(pod)).map(Some)
    }
}
