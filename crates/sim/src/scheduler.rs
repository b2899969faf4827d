//! Places pods on nodes by the filters of kube-scheduler 1.35.
