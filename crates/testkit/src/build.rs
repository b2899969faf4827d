//! Small builders for the objects that tests put into a cluster.
