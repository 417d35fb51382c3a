//! Event.

use crate::kind::{Kind, SelectableField, UnknownField};

pub(super) fn kind() -> Kind {
    Kind::of_type("events.k8s.io", "events.v1.Event", "events")
        .short_names(&["ev"])
        .creates_on_update()
        .expires()
        .uncached()
        .stored_as("", "v1", "core.v1.Event")
        .selectable(fields(), UnknownField::NotSupported)
}

/// Those of events in the core group, under the names that this group has for them.
fn fields() -> Vec<SelectableField> {
    vec![
        SelectableField::namespace(),
        SelectableField::new("regarding.kind").indexed_as("involvedObject.kind"),
        SelectableField::new("regarding.namespace").indexed_as("involvedObject.namespace"),
        SelectableField::new("regarding.name").indexed_as("involvedObject.name"),
        SelectableField::new("regarding.uid").indexed_as("involvedObject.uid"),
        SelectableField::new("regarding.apiVersion").indexed_as("involvedObject.apiVersion"),
        SelectableField::new("regarding.resourceVersion").indexed_as("involvedObject.resourceVersion"),
        SelectableField::new("regarding.fieldPath").indexed_as("involvedObject.fieldPath"),
        SelectableField::new("reason"),
        SelectableField::new("reportingController").indexed_as("reportingComponent"),
        SelectableField::new("type"),
    ]
}
