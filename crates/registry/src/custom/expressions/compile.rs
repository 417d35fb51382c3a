//! Rules that are ready to be evaluated.

use super::super::schema::{Node, Rule, Schema, definition::resolve_field_path};
use keepwatch_cel::{
    rules::{Compiled, Place},
    schema::Declared,
};

/// The rules of a schema.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(super) root: Site,
}

/// The rules at one place of a schema, and at the places below that have any.
#[derive(Debug)]
pub(super) struct Site {
    /// None if there are no rules here.
    pub(super) place: Option<Place>,
    pub(super) rules: Box<[SiteRule]>,
    /// The key is the index of the property in the schema.
    pub(super) properties: Box<[(usize, Site)]>,
    pub(super) additional: Option<Box<Site>>,
    pub(super) items: Option<Box<Site>>,
}

/// A rule, and the message for values that break it.
#[derive(Debug)]
pub(super) struct SiteRule {
    /// The detail of the error if it does not compile, although it was stored.
    pub(super) compiled: Result<Compiled, String>,
    pub(super) optional_old_self: bool,
    /// The message, or the rule.
    pub(super) shown: Box<str>,
    pub(super) message: Box<str>,
    pub(super) message_expression: Option<(Box<str>, Compiled)>,
    pub(super) reason: Box<str>,
    /// The path that is appended to that of the value.
    pub(super) field_path: Option<String>,
}

impl Rules {
    /// The rules of a schema of whole objects, if it has any.
    pub(crate) fn of_schema(schema: &Schema) -> Option<Rules> {
        schema.has_rules().then(|| Rules { root: site(schema.root(), true) })
    }

    /// The rules at a place and below it.
    pub(super) fn at(node: &Node) -> Rules {
        Rules { root: site(node, false) }
    }
}

fn site(node: &Node, is_root: bool) -> Site {
    let below = |node: &Node| node.has_rules().then(|| Box::new(site(node, false)));
    let properties = node.properties.iter().enumerate().filter(|(_, (_, property))| property.has_rules());
    let declared = (!node.rules.is_empty()).then(|| Declared::from_schema(node, is_root)).flatten();
    let place = declared.map(Place::new);
    Site {
        rules: node.rules.iter().map(|rule| compiled(rule, node, place.as_ref())).collect(),
        place,
        properties: properties.map(|(at, (_, property))| (at, site(property, false))).collect(),
        additional: node.additional_schema().and_then(below),
        items: node.items.as_deref().and_then(below),
    }
}

fn compiled(rule: &Rule, node: &Node, place: Option<&Place>) -> SiteRule {
    let optional_old_self = rule.optional_old_self == Some(true);
    let compiled = match place {
        Some(place) => place.rule(&rule.rule, optional_old_self).map_err(|error| error.to_string()),
        None => Err("unable to convert structural schema to CEL declarations".to_owned()),
    };
    let message_expression = place.filter(|_| !rule.message_expression.is_empty()).and_then(|place| {
        let compiled = place.message_expression(&rule.message_expression, optional_old_self).ok()?;
        Some((rule.message_expression.clone(), compiled))
    });
    let (message, text) = (rule.message.trim(), rule.rule.trim());
    SiteRule {
        compiled,
        optional_old_self,
        shown: if message.is_empty() { text } else { message }.into(),
        message: if message.is_empty() { format!("failed rule: {text}").into() } else { message.into() },
        message_expression,
        reason: rule.reason.clone(),
        field_path: Some(&*rule.field_path)
            .filter(|path| !path.is_empty())
            .and_then(|path| resolve_field_path(node, path)),
    }
}
