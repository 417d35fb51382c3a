//! Selects objects by their labels.

use crate::object::Object;
use kube_core::{Expression, Selector, SelectorExt};

/// A label selector.
///
/// ```
/// use keepwatch_informer::Select;
/// use kube_core::Expression;
///
/// let web: Select = Expression::Equal("tier".into(), "web".into()).into();
/// assert_ne!(web, Select::Everything);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Select {
    /// All objects.
    #[default]
    Everything,
    /// No object: the meaning of an absent selector where Kubernetes requires one.
    Nothing,
    /// Objects that match this selector.
    Matching(Selector),
}

impl Select {
    pub(crate) fn takes(&self, object: &impl Object) -> bool {
        match self {
            Select::Everything => true,
            Select::Nothing => false,
            Select::Matching(selector) => selector.matches(&object.label_map()),
        }
    }
}

impl From<Selector> for Select {
    fn from(selector: Selector) -> Self {
        if selector.selects_all() { Select::Everything } else { Select::Matching(selector) }
    }
}

impl From<&Selector> for Select {
    fn from(selector: &Selector) -> Self {
        selector.clone().into()
    }
}

impl From<Expression> for Select {
    fn from(expression: Expression) -> Self {
        Select::Matching(expression.into())
    }
}

impl From<&Select> for Select {
    fn from(select: &Select) -> Self {
        select.clone()
    }
}
