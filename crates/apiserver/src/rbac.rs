//! Who may do what, from role objects.
