//! The kinds that are served, as clients ask for them.
