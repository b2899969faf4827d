//! One suite for the embedded API and for a real kube-apiserver: where the two differ, the embedded one is wrong.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "the settings for tests do not reach helper functions of test binaries"
)]

mod backend;
mod objects;
mod watching;
mod wire;

mod admission;
mod apply;
mod create;
mod custom;
mod definitions;
mod delete;
mod discovery;
mod list;
mod owners;
mod patch;
mod requests;
mod selectors;
mod smoke;
mod strategic;
mod subresources;
mod tables;
mod update;
mod watch;

/// Bodies that hold on the real server and not yet on the embedded one. Every entry is a defect; the list has to be empty.
const NOT_YET: &[&str] = &[
    "admission::jobs_get_their_defaults",
    "admission::pods_are_gated",
    "admission::pods_get_their_defaults",
    "admission::services_get_an_address",
    "apply::apply_takes_yaml",
    "apply::apply_with_a_stale_version_is_a_conflict",
    "apply::clearing_managed_fields",
    "apply::custom_atomic_list_is_replaced",
    "apply::custom_list_map_is_merged_by_its_key",
    "apply::custom_set_is_merged",
    "create::client_cannot_choose_identity",
    "create::label_keys_are_checked",
    "create::long_labels_and_names_are_refused",
    "create::status_is_dropped_on_create",
    "custom::additional_properties_are_checked",
    "custom::bounds_are_checked",
    "custom::changed_bad_values_do_not_pass",
    "custom::defaults_are_filled_in",
    "custom::defaults_are_not_filled_below_absent_objects",
    "custom::duplicate_fields_are_told",
    "custom::embedded_resources_keep_their_metadata",
    "custom::enums_and_patterns_are_checked",
    "custom::formats_are_checked",
    "custom::int_or_string_takes_both",
    "custom::lengths_are_checked",
    "custom::list_map_keys_must_differ",
    "custom::metadata_is_pruned_and_checked",
    "custom::null_takes_the_default",
    "custom::nullable_null_stays",
    "custom::optional_old_self_is_seen_on_create",
    "custom::required_fields_are_checked",
    "custom::rules_are_checked",
    "custom::rules_of_list_elements_name_the_index",
    "custom::rules_see_quantities_and_durations",
    "custom::rules_with_their_own_message_and_reason",
    "custom::several_errors_are_all_told",
    "custom::status_schema_is_checked_apart",
    "custom::strict_requests_are_refused",
    "custom::transition_rules_are_checked_on_update",
    "custom::types_are_checked",
    "custom::unchanged_bad_values_pass",
    "custom::unknown_fields_are_pruned",
    "custom::unknown_fields_can_be_preserved",
    "custom::warnings_about_unknown_fields",
    "definitions::bad_defaults_are_refused",
    "definitions::bad_rules_are_refused",
    "definitions::definition_gets_defaults",
    "definitions::definition_is_deleted_with_its_objects",
    "definitions::definition_is_established",
    "definitions::definition_needs_a_schema",
    "definitions::definition_waits_for_finalizers_of_objects",
    "definitions::kind_of_the_wrong_group_is_refused",
    "definitions::new_fields_are_served_after_an_update",
    "definitions::objects_are_served_in_every_version",
    "definitions::schema_must_be_structural",
    "definitions::scope_cannot_change",
    "definitions::second_definition_of_a_kind_is_not_accepted",
    "definitions::version_that_is_not_served_is_not_found",
    "delete::terminating_pod_stays_in_lists",
    "discovery::access_reviews_are_answered",
    "discovery::aggregated_discovery_of_custom_kinds",
    "discovery::custom_kinds_are_discovered",
    "discovery::schemas_of_custom_kinds",
    "list::items_of_a_list_carry_no_kind",
    "owners::events_are_checked",
    "owners::finalize_is_a_subresource",
    "owners::namespace_names_are_labels",
    "patch::merge_patch_cannot_change_identity",
    "patch::merge_patch_with_a_stale_version_is_a_conflict",
    "patch::patch_may_not_change_kind",
    "patch::patch_of_a_custom_resource_has_no_strategic_form",
    "patch::patch_of_finalizers_and_owners",
    "patch::patch_that_breaks_the_schema_is_refused",
    "requests::answers_are_json",
    "requests::body_that_is_no_object_is_refused",
    "requests::deep_nesting_is_survived",
    "requests::field_manager_is_checked",
    "requests::head_is_not_allowed",
    "requests::large_object_is_refused",
    "requests::malformed_json_is_refused",
    "requests::trailing_data_is_refused",
    "requests::unknown_content_type_is_refused",
    "requests::wrong_type_of_a_map_value",
    "requests::wrong_types_are_named",
    "requests::yaml_is_understood",
    "selectors::custom_resources_are_selected_by_declared_fields",
    "selectors::unknown_field_labels_are_refused",
    "strategic::bad_directive_is_refused",
    "strategic::merge_key_is_required",
    "strategic::new_containers_are_put_first",
    "subresources::binding_copies_topology_labels",
    "subresources::binding_through_the_collection",
    "subresources::budget_with_room_is_used_up",
    "subresources::scale_of_a_custom_resource",
    "subresources::scale_that_is_not_declared_is_not_found",
    "tables::table_of_a_custom_kind",
    "tables::table_of_a_kind_without_columns",
    "update::generate_name_conflict_does_not_matter_on_update",
    "update::generation_of_a_custom_resource_counts_changes",
    "update::status_update_of_a_custom_resource",
    "update::update_creates_where_a_kind_allows_it",
    "update::update_of_a_custom_resource_needs_a_version",
    "watch::deleted_event_has_the_last_state_and_a_new_version",
    "watch::old_watch_path_works",
    "watch::watch_ends_with_its_definition",
    "watch::watch_from_a_forgotten_version_is_gone",
    "watch::watch_of_a_custom_resource",
    "watch::watch_sends_a_bookmark_before_it_ends",
];
