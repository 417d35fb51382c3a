//! Event.

use crate::kind::{At, Kind, SelectableField, UnknownField, path};

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.Event", "events")
        .short_names(&["ev"])
        .creates_on_update()
        .expires()
        .uncached()
        .selectable(fields(), UnknownField::NotSupported)
}

fn fields() -> Vec<SelectableField> {
    let source = At::Either(vec![path("source.component"), path("reportingComponent")]);
    vec![
        SelectableField::namespace(),
        SelectableField::new("involvedObject.kind"),
        SelectableField::new("involvedObject.namespace"),
        SelectableField::new("involvedObject.name"),
        SelectableField::new("involvedObject.uid"),
        SelectableField::new("involvedObject.apiVersion"),
        SelectableField::new("involvedObject.resourceVersion"),
        SelectableField::new("involvedObject.fieldPath"),
        SelectableField::new("reason"),
        SelectableField::new("reportingComponent"),
        SelectableField::new("source").at(source),
        SelectableField::new("type"),
    ]
}
