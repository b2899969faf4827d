//! Tables, which `kubectl get` prints.
