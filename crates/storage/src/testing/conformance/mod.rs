//! Every rule of the storage contract as a case whose name says it.
//!
//! A crate that implements `Backend` or wraps a `Storage` runs all of them, each with a fresh [`Fixture`]:
//!
//! ```
//! // tests/conformance.rs
//! use keepwatch_storage::testing::{Fixture, reference::Reference};
//!
//! async fn fresh() -> Fixture {
//!     Fixture::new(std::sync::Arc::new(Reference::default()))
//! }
//!
//! keepwatch_storage::testing::conformance!(fresh().await);
//! # fn main() {}
//! ```
//!
//! The macro takes an expression that may await, and makes one multi-threaded `#[tokio::test]` per case in a
//! module per group, so that a test is called `watch::a_resumed_watch_repeats_nothing_and_skips_nothing`.

pub mod compaction;
pub mod create;
pub mod delete;
pub mod get;
pub mod keys;
pub mod lag;
pub mod list;
pub mod transform;
pub mod ttl;
pub mod update;
pub mod view;
pub mod watch;

use super::{Fixture, QUIET, Watching, fields, guarantees, labels, meanwhile, names, pod, pods_prefix};
use crate::{Key, ListRequest, Rejection, StorageError, WatchRequest};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ContinueAt, ContinueToken, Position, WatchStart},
};

/// The revision `by` above another.
fn later(revision: ResourceVersion, by: u64) -> ResourceVersion {
    ResourceVersion::new(revision.get() + by).expect("above zero")
}

/// The error of a caller's callback that refuses.
fn rejection(text: &str) -> Rejection {
    text.into()
}

/// A watch of the state, its end marked.
fn marked_state() -> WatchRequest {
    marked_state_at(Position::MostRecent)
}

/// A watch of the state at a position, its end marked.
fn marked_state_at(position: Position) -> WatchRequest {
    WatchRequest::from(WatchStart::InitialEvents { position, end_bookmark: true })
}

/// The highest revision there can be, which no store ever reaches.
fn end_of_time() -> ResourceVersion {
    ResourceVersion::new(u64::MAX).expect("above zero")
}

/// The token that goes on right after `name` in a list of what is below `/pods/<below>`.
fn token_after(name: &str, below: &str, at: ContinueAt) -> ContinueToken {
    let prefix = format!("/registry/pods/{below}");
    ContinueToken::after(&format!("{prefix}{name}"), &prefix, at).expect("a key below the prefix")
}

#[track_caller]
fn no_such_object(error: StorageError, wanted: &Key) {
    assert!(matches!(&error, StorageError::NotFound { key } if key == wanted), "{error:?}");
    assert_eq!(
        error.to_string(),
        format!(
            "StorageError: key not found, Code: 1, Key: {wanted}, ResourceVersion: 0, AdditionalErrorMsg: "
        )
    );
}

#[track_caller]
fn precondition_failed(error: StorageError, wanted: &Key, text: &str) {
    assert!(matches!(&error, StorageError::InvalidObject { key, .. } if key == wanted), "{error:?}");
    assert_eq!(
        error.to_string(),
        format!(
            "StorageError: invalid object, Code: 4, Key: {wanted}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: {text}"
        )
    );
}

#[track_caller]
fn assert_corrupt(error: StorageError, wanted: &Key) {
    assert!(matches!(&error, StorageError::Corrupt { key, .. } if key == wanted), "{error:?}");
    assert_eq!(
        error.to_string(),
        format!(
            "StorageError: corrupt object, Code: 7, Key: {wanted}, ResourceVersion: 0, AdditionalErrorMsg: the \
             stored value cannot be read"
        )
    );
    assert!(std::error::Error::source(&error).is_some(), "the log learns why");
}

#[track_caller]
fn assert_too_large(fixture: &Fixture, error: StorageError, asked: ResourceVersion, have: ResourceVersion) {
    assert_eq!(error.to_string(), format!("Timeout: Too large resource version: {asked}, current: {have}"));
    match error {
        StorageError::TooLarge { requested, current, retry_after_seconds } => {
            assert_eq!((requested, current), (asked, have));
            assert!(fixture.capabilities.cached || retry_after_seconds.is_none(), "{retry_after_seconds:?}");
        }
        other => panic!("{other:?}"),
    }
}

/// The list of all cases, and what is made of it.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    (@tests [$fixture:expr] $($group:ident { $($case:ident)* })*) => {
        $(mod $group {
            #[allow(unused_imports)]
            use super::*;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let mut fixture: $crate::testing::Fixture = $fixture;
                $crate::testing::conformance::$group::$case(&mut fixture).await;
            })*
        })*
    };
    (@names [] $($group:ident { $($case:ident)* })*) => {
        &[$((stringify!($group), &[$(stringify!($case)),*] as &[&str])),*]
    };
    (@each $make:ident $argument:tt) => {
        $crate::conformance_cases! { @$make $argument
            keys {
                keys_that_name_nothing_or_climb_out_are_refused_by_every_operation
                recursive_reads_refuse_the_same_keys_but_take_the_bare_prefix
                dots_inside_a_name_are_fine
                a_recursive_read_never_takes_in_a_neighbour_with_a_longer_name
                a_recursive_read_takes_in_children_never_the_key_itself
                objects_are_listed_in_byte_order_of_the_key
                other_resources_raise_the_revision_and_stay_unseen
            }
            create {
                a_created_object_carries_the_revision_of_its_write
                every_write_raises_the_one_counter
                an_object_that_carries_a_version_is_refused_and_nothing_is_written
                a_value_that_is_no_object_of_the_kind_is_refused_and_nothing_is_written
                a_taken_key_is_refused_and_delivers_no_event
                a_deleted_key_can_be_created_again_and_is_delivered_as_added
                of_many_creates_of_one_key_exactly_one_wins
                a_creation_that_depends_on_another_object_needs_it_unchanged
                no_creation_comes_after_a_change_of_the_object_it_depends_on
                readers_see_their_own_writes
                the_current_revision_is_not_below_a_completed_write
            }
            get {
                a_missing_object_is_none
                a_read_shows_the_last_write_at_its_own_revision
                a_read_not_older_than_a_reached_revision_is_answered
                a_read_not_older_than_the_future_is_too_large
                a_read_not_older_than_the_end_of_time_is_too_large
                an_undecodable_value_fails_the_read
            }
            delete {
                a_deletion_returns_the_last_content_with_its_own_revision
                deleting_a_missing_object_is_not_found
                a_failed_precondition_keeps_the_object
                a_validation_that_refuses_keeps_the_object
                a_stale_hint_costs_a_retry_never_a_wrong_deletion
                a_stale_hint_is_validated_again_with_the_live_object
                a_refused_hint_of_a_deleted_object_is_not_found
                a_deletion_overtaken_by_an_update_checks_again
                of_many_deletions_exactly_one_wins
            }
            update {
                an_update_turns_the_stored_object_into_the_next
                updating_a_missing_object_is_not_found
                a_missing_object_is_created_if_the_caller_ignores_that
                a_missing_object_fails_preconditions_too
                an_undecodable_value_can_be_replaced_under_a_watch
                a_no_op_update_writes_nothing_and_delivers_no_event
                a_no_op_is_judged_by_the_store_not_by_a_hint
                a_stale_hint_costs_a_retry_never_a_wrong_result
                a_right_hint_is_asked_about_once
                a_refusal_of_a_stale_hint_is_not_final
                a_refusal_of_a_right_hint_is_final
                a_hint_of_a_deleted_object_is_not_found
                a_refused_hint_of_a_deleted_object_is_created_if_the_caller_ignores_that
                a_failed_precondition_writes_nothing
                an_update_to_a_value_with_a_version_is_refused
                an_update_overtaken_by_another_is_tried_again_on_the_newer_object
                an_update_overtaken_by_a_deletion_finds_nothing
                a_creation_overtaken_by_another_updates_it
                no_increment_is_lost_among_many_writers
                a_deletion_among_updates_returns_the_last_of_them
            }
            list {
                an_empty_list_has_no_items_and_a_revision
                a_list_carries_the_revision_it_was_read_at
                a_list_of_one_key_holds_that_object_or_nothing
                pages_cover_everything_once_at_one_revision
                a_token_names_the_place_right_after_the_last_key
                a_write_between_pages_is_not_seen
                a_token_without_a_revision_goes_on_in_the_newest_state
                a_list_with_a_selector_reads_on_until_the_limit_is_filled
                the_last_page_may_be_empty
                a_limit_of_zero_is_no_limit
                a_list_at_an_exact_revision_shows_that_state
                a_list_at_an_exact_revision_has_pages
                a_list_at_a_future_revision_is_too_large
                a_list_at_the_end_of_time_is_too_large
                a_list_not_older_than_a_reached_revision_is_answered
                label_selectors_choose_by_labels
                field_selectors_choose_by_fields
                an_undecodable_value_fails_the_whole_list
                concurrent_lists_are_states_that_were
                a_range_of_no_items_reports_whether_there_are_any
                a_range_past_its_scope_checks_its_revision
            }
            view {
                a_creation_in_view_is_added
                a_creation_out_of_view_is_not_delivered
                a_change_in_view_is_modified
                an_object_entering_the_selector_is_sent_as_added
                an_object_leaving_the_selector_is_sent_as_deleted_with_the_revision_of_that_update
                a_change_out_of_view_is_not_delivered
                a_deletion_in_view_is_delivered_with_the_last_content_and_its_own_revision
                a_deletion_out_of_view_is_not_delivered
                an_object_may_come_and_go_many_times
                a_selector_of_absence_sees_the_opposite
                a_pod_is_added_when_it_is_bound_to_the_node_that_is_watched
                the_initial_state_holds_only_objects_in_view
            }
            watch {
                a_watch_of_the_state_delivers_existing_objects_then_changes
                the_end_of_the_initial_state_is_marked_if_asked_for
                the_state_of_nothing_has_an_end_too
                a_watch_from_now_delivers_only_later_changes
                a_watch_from_any_point_delivers_later_changes
                a_watch_after_a_revision_does_not_repeat_it
                a_watch_of_a_state_that_is_reached_begins_with_the_newest
                a_watch_of_a_state_that_is_not_reached_ends_with_too_large
                a_watch_from_the_future_is_silent_until_its_revision_has_passed
                a_watch_from_the_future_reports_no_progress_of_the_present
                a_watch_from_the_end_of_time_is_silent_for_ever
                a_watch_of_one_key_follows_that_object_only
                a_state_of_many_pages_is_of_one_revision
                a_resumed_watch_repeats_nothing_and_skips_nothing
                a_state_goes_on_where_it_ends
                any_state_goes_on_where_it_ends
                watches_opened_among_many_writers_deliver_every_change_once_and_in_order
                a_watch_with_a_timeout_ends_by_itself_without_an_error
                a_watch_that_is_not_read_loses_nothing_and_delays_no_other
                progress_is_reported_on_request
                a_bookmark_comes_after_everything_up_to_it
                nothing_follows_an_error_on_a_watch
                an_undecodable_value_ends_a_watch_wherever_it_is_met
            }
            transform {
                values_at_rest_are_transformed_and_callers_never_notice
                a_transformer_that_calls_a_value_stale_makes_a_no_op_write
                a_value_that_cannot_be_decrypted_fails_every_reader
                a_stored_value_moved_to_another_key_cannot_be_read
                any_bytes_at_rest_survive_reopening
            }
            compaction {
                a_list_at_a_compacted_revision_is_expired
                the_compacted_revision_itself_can_be_read_and_watched_from
                the_newest_state_outlives_compaction
                a_page_whose_revision_is_compacted_names_a_token_that_goes_on
                a_watch_after_a_compacted_revision_is_expired
                a_watch_overtaken_by_compaction_skips_nothing_silently
                a_watch_that_is_up_to_date_goes_on_after_compaction
                compacting_again_to_the_same_revision_changes_nothing
                the_compacted_revision_is_known
                compaction_among_readers_never_makes_a_wrong_answer
            }
            lag {
                watches_from_every_revision_since_compaction_deliver_everything
                a_watch_that_is_read_again_after_long_delivers_everything
                a_state_that_is_read_slowly_is_the_one_it_began_with
                every_state_since_compaction_can_be_listed
                past_changes_are_those_between_two_revisions_with_the_objects_before
                past_changes_before_compaction_are_expired
            }
            ttl {
                expiry_is_an_ordinary_deletion
                an_update_applies_the_ttl_in_full_again
                an_update_without_a_ttl_keeps_the_object_for_ever
                a_new_object_does_not_inherit_the_ttl_of_a_deleted_one
                a_ttl_of_zero_is_for_ever
            }
        }
    };
    ($fixture:expr) => {
        $crate::conformance_cases! { @each tests [$fixture] }
    };
}

/// The names of all cases by group.
pub const CASES: &[(&str, &[&str])] = crate::conformance_cases! { @each names [] };

#[cfg(test)]
mod tests {
    use super::CASES;

    /// A case that is written and not listed would never run.
    #[test]
    fn every_case_that_is_written_is_listed() {
        for (group, source) in [
            ("keys", include_str!("keys.rs")),
            ("create", include_str!("create.rs")),
            ("get", include_str!("get.rs")),
            ("delete", include_str!("delete.rs")),
            ("update", include_str!("update.rs")),
            ("list", include_str!("list.rs")),
            ("view", include_str!("view.rs")),
            ("watch", include_str!("watch.rs")),
            ("transform", include_str!("transform.rs")),
            ("compaction", include_str!("compaction.rs")),
            ("lag", include_str!("lag.rs")),
            ("ttl", include_str!("ttl.rs")),
        ] {
            let written: Vec<&str> = source
                .lines()
                .filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next())
                .collect();
            let listed = CASES.iter().find(|(name, _)| *name == group).map(|(_, cases)| *cases);
            assert_eq!(listed, Some(written.as_slice()), "{group}");
        }
    }
}
