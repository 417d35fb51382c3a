//! The accepted names of a definition, and its conditions.
//!
//! Names of a group belong to the definition that had them first. Kept true: a definition loses no name to another; a
//! definition that requests a name in use gets all its other names, and is examined again when names become free.

use super::definition::Names;
use crate::{
    document::{Edit, Fields},
    schema::{self, Timestamp},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A condition to be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) kind: &'static str,
    pub(super) is_true: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The names that are in use in a group.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// The names of resources.
    resources: BTreeSet<String>,
    /// The names of kinds.
    kinds: BTreeSet<String>,
}

impl Taken {
    /// Adds the names that a definition has.
    pub(super) fn add(&mut self, accepted: &Names) {
        let Names { plural, singular, short_names, kind, list_kind, .. } = accepted;
        self.resources.extend([plural, singular].into_iter().chain(short_names).cloned());
        self.kinds.extend([kind, list_kind].map(String::clone));
    }
}

/// The names that are accepted for a definition, given those it requests and has, and the condition `NamesAccepted`.
pub(super) fn accept(wanted: &Names, accepted: &Names, taken: &Taken) -> (Names, Condition) {
    let mut names = accepted.clone();
    let mut conflict: Option<(&'static str, String)> = None;
    let is_free =
        |wanted: &str, own: &str, taken: &BTreeSet<String>| match wanted == own || !taken.contains(wanted) {
            true => Ok(()),
            false => Err(format!("{wanted:?} is already in use")),
        };
    let mut take = |reason, free: Result<(), String>, take: &mut dyn FnMut()| match free {
        Ok(()) => take(),
        Err(message) => conflict = Some((reason, message)),
    };
    let (resources, kinds) = (&taken.resources, &taken.kinds);
    let free = is_free(&wanted.plural, &accepted.plural, resources);
    take("PluralConflict", free, &mut || names.plural.clone_from(&wanted.plural));
    let free = is_free(&wanted.singular, &accepted.singular, resources);
    take("SingularConflict", free, &mut || names.singular.clone_from(&wanted.singular));
    let new = wanted.short_names.iter().filter(|name| !accepted.short_names.contains(name));
    let refused: Vec<String> = new.filter_map(|name| is_free(name, "", resources).err()).collect();
    let free = match refused.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        all => Err(format!("[{}]", all.join(", "))),
    };
    take("ShortNamesConflict", free, &mut || names.short_names.clone_from(&wanted.short_names));
    let free = is_free(&wanted.kind, &accepted.kind, kinds);
    take("KindConflict", free, &mut || names.kind.clone_from(&wanted.kind));
    let free = is_free(&wanted.list_kind, &accepted.list_kind, kinds);
    take("ListKindConflict", free, &mut || names.list_kind.clone_from(&wanted.list_kind));
    names.categories.clone_from(&wanted.categories);
    let (is_true, reason, message) = match conflict {
        None => (true, "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, message)) => (false, reason, message),
    };
    (names, Condition { kind: "NamesAccepted", is_true, reason, message })
}

/// Whether a definition is served, once it is known whether it has its names. One that was served stays so.
pub(super) fn established(was: bool, names_accepted: bool) -> Option<Condition> {
    let kind = "Established";
    match (was, names_accepted) {
        (true, _) => None,
        (false, true) => {
            let message = "the initial names have been accepted".to_owned();
            Some(Condition { kind, is_true: true, reason: "InitialNamesAccepted", message })
        }
        (false, false) => {
            let message = "not all names are accepted".to_owned();
            Some(Condition { kind, is_true: false, reason: "NotAccepted", message })
        }
    }
}

/// The annotation by which a definition claims that Kubernetes approved its API.
pub(super) const APPROVED: &str = "api-approved.kubernetes.io";

/// Whether only Kubernetes may define APIs in a group.
pub(super) fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .into_iter()
        .any(|own| group.strip_suffix(own).is_some_and(|before| before.is_empty() || before.ends_with('.')))
}

/// The meaning of the approval annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Approval {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

/// The meaning of the annotation, and the reason.
pub(super) fn approval(annotation: &str) -> (Approval, String) {
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let has_host = annotation.split_once("://").is_some_and(|(scheme, rest)| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        !host.is_empty()
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
            && !annotation.contains(|c: char| c.is_control() || c == ' ')
    });
    match annotation {
        "" => {
            (Approval::Missing, format!("protected groups must have approval annotation {APPROVED:?}, {see}"))
        }
        text if text.starts_with("unapproved") => (Approval::Bypassed, format!("not approved: {text:?}")),
        text if has_host => (Approval::Approved, format!("approved in {text}")),
        _ => (
            Approval::Invalid,
            format!(
                "protected groups must have approval annotation {APPROVED:?} with either a URL or a reason starting with \
                 \"unapproved\", {see}"
            ),
        ),
    }
}

/// The condition about the approval, of a definition in a group that needs one.
pub(super) fn conformant(group: &str, annotation: &str) -> Option<Condition> {
    if !is_protected(group) {
        return None;
    }
    let (approval, message) = approval(annotation);
    let reason = match approval {
        Approval::Missing => "MissingAnnotation",
        Approval::Bypassed => "UnapprovedAnnotation",
        Approval::Approved => "ApprovedAnnotation",
        Approval::Invalid => "InvalidAnnotation",
    };
    let is_true = approval == Approval::Approved;
    Some(Condition { kind: "KubernetesAPIApprovalPolicyConformant", is_true, reason, message })
}

/// The names in a part of a document.
pub(super) fn names_in(document: &Value, path: &str) -> Names {
    document.field(path).and_then(|names| Names::deserialize(names).ok()).unwrap_or_default()
}

/// Writes the names that a definition has.
pub(super) fn set_accepted(document: &mut Value, names: &Names) {
    let accepted = document.object_or_new("status.acceptedNames");
    accepted.clear();
    for (field, name) in [("plural", &names.plural), ("kind", &names.kind)] {
        accepted.insert(field.to_owned(), name.as_str().into());
    }
    for (field, name) in [("singular", &names.singular), ("listKind", &names.list_kind)] {
        accepted.set(field, (!name.is_empty()).then(|| name.as_str().into()));
    }
    for (field, all) in [("shortNames", &names.short_names), ("categories", &names.categories)] {
        accepted.set(field, (!all.is_empty()).then(|| json!(all)));
    }
}

/// Writes a condition if it has changed. Its time changes with its status alone.
pub(super) fn set_condition(document: &mut Value, condition: &Condition, now: Timestamp) -> bool {
    let status = if condition.is_true { "True" } else { "False" };
    let known = document.list("status.conditions");
    let old = known.iter().find(|own| own.text("type") == condition.kind);
    let (mut since, mut observed) = (Value::from(schema::time(now)), None);
    if let Some(old) = old {
        let is_same = old.text("status") == status;
        if is_same && old.text("reason") == condition.reason && old.text("message") == condition.message {
            return false;
        }
        if is_same && let Some(time) = old.field("lastTransitionTime") {
            since = time.clone();
        }
        observed = old.field("observedGeneration").cloned();
    }
    let mut written = json!({
        "type": condition.kind, "status": status, "lastTransitionTime": since,
        "reason": condition.reason, "message": condition.message,
    });
    if let (Some(observed), Some(fields)) = (observed, written.as_object_mut()) {
        fields.insert("observedGeneration".to_owned(), observed);
    }
    document.set_condition(written);
    true
}

/// Whether a condition is true.
pub(super) fn is_true(document: &Value, kind: &str) -> bool {
    let mut all = document.list("status.conditions").iter();
    all.any(|own| own.text("type") == kind && own.text("status") == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(plural: &str, singular: &str, short: &[&str], kind: &str) -> Names {
        Names {
            plural: plural.to_owned(),
            singular: singular.to_owned(),
            short_names: short.iter().map(|name| (*name).to_owned()).collect(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            categories: Vec::new(),
        }
    }

    #[test]
    fn a_name_belongs_to_the_definition_that_had_it_first() {
        let mut taken = Taken::default();
        taken.add(&names("widgets", "widget", &["w", "wd"], "Widget"));
        let none = Names::default();
        for (wanted, reason, message) in [
            (names("gadgets", "gadget", &["g"], "Gadget"), "NoConflicts", "no conflicts found"),
            (names("widgets", "x", &[], "X"), "PluralConflict", "\"widgets\" is already in use"),
            (names("xs", "w", &[], "X"), "SingularConflict", "\"w\" is already in use"),
            (names("xs", "x", &["x1", "wd"], "X"), "ShortNamesConflict", "\"wd\" is already in use"),
            (
                names("xs", "x", &["w", "wd"], "X"),
                "ShortNamesConflict",
                "[\"w\" is already in use, \"wd\" is already in use]",
            ),
            (names("xs", "x", &[], "Widget"), "ListKindConflict", "\"WidgetList\" is already in use"),
        ] {
            let (accepted, condition) = accept(&wanted, &none, &taken);
            assert_eq!((condition.reason, condition.message.as_str()), (reason, message));
            assert_eq!(condition.is_true, accepted == wanted);
        }
    }

    #[test]
    fn what_was_accepted_stays_and_what_is_free_is_given() {
        let own = names("xs", "x", &["x1"], "X");
        let mut taken = Taken::default();
        taken.add(&own);
        taken.add(&names("widgets", "widget", &["w"], "Widget"));
        let (accepted, condition) = accept(&names("xs", "x", &["x1", "w"], "Y"), &own, &taken);
        assert_eq!((accepted.kind.as_str(), accepted.short_names), ("Y", vec!["x1".to_owned()]));
        assert_eq!(condition.reason, "ShortNamesConflict");
    }

    #[test]
    fn groups_of_kubernetes_need_an_approval() {
        for (group, protected) in [
            ("k8s.io", true),
            ("a.k8s.io", true),
            ("ak8s.io", false),
            ("x.kubernetes.io", true),
            ("k8s.io.example.com", false),
        ] {
            assert_eq!(is_protected(group), protected, "{group}");
        }
        for (annotation, expected) in [
            ("", Approval::Missing),
            ("unapproved, for tests", Approval::Bypassed),
            ("https://github.com/kubernetes/kubernetes/pull/1", Approval::Approved),
            ("https://", Approval::Invalid),
            ("yes", Approval::Invalid),
        ] {
            assert_eq!(approval(annotation).0, expected, "{annotation}");
        }
    }
}
