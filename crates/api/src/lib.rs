//! The Kubernetes form of everything we read and write: kinds, CRDs, names, hash, settings, conversions to the model.
