//! The built-in kinds, as discovery of kube-apiserver 1.35 lists them.

use std::sync::Arc;

use super::{ResourceType, Subresource};

/// One line per group and version, then one per kind: plural, singular, kind, `ns` or `-` for cluster scope, short names,
/// categories, subresources. Groups come in the order of the server's discovery, kinds in that of the alphabet.
const TABLE: &str = "
/v1
bindings binding Binding ns - - -
configmaps configmap ConfigMap ns cm - -
endpoints endpoints Endpoints ns ep - -
events event Event ns ev - -
limitranges limitrange LimitRange ns limits - -
namespaces namespace Namespace - ns - finalize,status
nodes node Node - no - status
persistentvolumeclaims persistentvolumeclaim PersistentVolumeClaim ns pvc - status
persistentvolumes persistentvolume PersistentVolume - pv - status
pods pod Pod ns po all binding,ephemeralcontainers,eviction,log,resize,status
podtemplates podtemplate PodTemplate ns - - -
replicationcontrollers replicationcontroller ReplicationController ns rc all scale,status
resourcequotas resourcequota ResourceQuota ns quota - status
secrets secret Secret ns - - -
serviceaccounts serviceaccount ServiceAccount ns sa - token
services service Service ns svc all status
apps/v1
controllerrevisions controllerrevision ControllerRevision ns - - -
daemonsets daemonset DaemonSet ns ds all status
deployments deployment Deployment ns deploy all scale,status
replicasets replicaset ReplicaSet ns rs all scale,status
statefulsets statefulset StatefulSet ns sts all scale,status
events.k8s.io/v1
events event Event ns ev - -
authentication.k8s.io/v1
selfsubjectreviews selfsubjectreview SelfSubjectReview - - - -
authorization.k8s.io/v1
localsubjectaccessreviews localsubjectaccessreview LocalSubjectAccessReview ns - - -
selfsubjectaccessreviews selfsubjectaccessreview SelfSubjectAccessReview - - - -
selfsubjectrulesreviews selfsubjectrulesreview SelfSubjectRulesReview - - - -
subjectaccessreviews subjectaccessreview SubjectAccessReview - - - -
autoscaling/v2
horizontalpodautoscalers horizontalpodautoscaler HorizontalPodAutoscaler ns hpa all status
batch/v1
cronjobs cronjob CronJob ns cj all status
jobs job Job ns - all status
networking.k8s.io/v1
ingressclasses ingressclass IngressClass - - - -
ingresses ingress Ingress ns ing - status
networkpolicies networkpolicy NetworkPolicy ns netpol - -
policy/v1
poddisruptionbudgets poddisruptionbudget PodDisruptionBudget ns pdb - status
rbac.authorization.k8s.io/v1
clusterrolebindings clusterrolebinding ClusterRoleBinding - - - -
clusterroles clusterrole ClusterRole - - - -
rolebindings rolebinding RoleBinding ns - - -
roles role Role ns - - -
storage.k8s.io/v1
csidrivers csidriver CSIDriver - - - -
csinodes csinode CSINode - - - -
csistoragecapacities csistoragecapacity CSIStorageCapacity ns - - -
storageclasses storageclass StorageClass - sc - -
volumeattachments volumeattachment VolumeAttachment - - - status
volumeattributesclasses volumeattributesclass VolumeAttributesClass - vac - -
admissionregistration.k8s.io/v1
mutatingwebhookconfigurations mutatingwebhookconfiguration MutatingWebhookConfiguration - - api-extensions -
validatingadmissionpolicies validatingadmissionpolicy ValidatingAdmissionPolicy - - api-extensions status
validatingadmissionpolicybindings validatingadmissionpolicybinding ValidatingAdmissionPolicyBinding - - api-extensions -
validatingwebhookconfigurations validatingwebhookconfiguration ValidatingWebhookConfiguration - - api-extensions -
apiextensions.k8s.io/v1
customresourcedefinitions customresourcedefinition CustomResourceDefinition - crd,crds api-extensions status
scheduling.k8s.io/v1
priorityclasses priorityclass PriorityClass - pc - -
coordination.k8s.io/v1
leases lease Lease ns - - -
node.k8s.io/v1
runtimeclasses runtimeclass RuntimeClass - - - -
discovery.k8s.io/v1
endpointslices endpointslice EndpointSlice ns - - -
resource.k8s.io/v1
deviceclasses deviceclass DeviceClass - - - -
resourceclaims resourceclaim ResourceClaim ns - - status
resourceclaimtemplates resourceclaimtemplate ResourceClaimTemplate ns - - -
resourceslices resourceslice ResourceSlice - - - -
";

pub(super) const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

pub(super) fn types() -> Vec<Arc<ResourceType>> {
    let (mut group, mut version) = ("", "");
    let mut types = Vec::new();
    for line in TABLE.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            [plural, singular, kind, scope, shorts, categories, subresources] => {
                types.push(Arc::new(ResourceType {
                    group: group.to_owned(),
                    version: version.to_owned(),
                    kind: kind.to_owned(),
                    list_kind: format!("{kind}List"),
                    plural: plural.to_owned(),
                    singular: singular.to_owned(),
                    short_names: words(shorts),
                    categories: words(categories),
                    namespaced: scope == "ns",
                    verbs: verbs_of(kind),
                    subresources: words(subresources).into_iter().map(|name| subresource(name, kind)).collect(),
                    crd: false,
                    printer_columns: Vec::new(),
                }));
            }
            [group_version] => (group, version) = group_version.split_once('/').unwrap_or_default(),
            _ => {}
        }
    }
    types
}

fn words(list: &str) -> Vec<String> {
    list.split(',').filter(|word| *word != "-").map(str::to_owned).collect()
}

fn verbs_of(kind: &str) -> Vec<String> {
    VERBS
        .into_iter()
        .filter(|verb| match kind {
            "Namespace" => *verb != "deletecollection",
            _ if kind.ends_with("Review") || kind == "Binding" => *verb == "create",
            _ => true,
        })
        .map(str::to_owned)
        .collect()
}

fn subresource(name: String, parent: &str) -> Subresource {
    let own = |group: &str, version: &str| Some((group.to_owned(), version.to_owned()));
    let (group_version, kind, verbs): (_, _, &[&str]) = match name.as_str() {
        "scale" => (own("autoscaling", "v1"), "Scale", &["get", "patch", "update"]),
        "eviction" => (own("policy", "v1"), "Eviction", &["create"]),
        "token" => (own("authentication.k8s.io", "v1"), "TokenRequest", &["create"]),
        "binding" => (None, "Binding", &["create"]),
        "log" => (None, parent, &["get"]),
        "finalize" => (None, parent, &["update"]),
        _ => (None, parent, &["get", "patch", "update"]),
    };
    Subresource {
        name,
        group_version,
        kind: kind.to_owned(),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Registry;

    #[test]
    fn the_table_reads_back() {
        let registry = Registry::builtin();
        let eviction = registry.by_plural("", "v1", "pods").unwrap().subresource("eviction").unwrap().clone();
        assert_eq!(eviction.group_version, Some(("policy".to_owned(), "v1".to_owned())));
        let deployment = registry.by_kind("apps", "v1", "Deployment").unwrap();
        assert!(deployment.namespaced && deployment.has_status());
        assert_eq!(deployment.short_names, ["deploy"]);
        assert_eq!(deployment.qualified(), "deployments.apps");
        let namespace = registry.by_plural("", "v1", "namespaces").unwrap();
        assert!(!namespace.namespaced && !namespace.verbs.contains(&"deletecollection".to_owned()));
        assert_eq!(registry.iter().filter(|t| t.kind.is_empty()).count(), 0);
    }
}
