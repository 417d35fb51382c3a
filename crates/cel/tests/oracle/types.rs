//! Types of generated expressions, and the letters they have in templates.

use rand::prelude::*;

/// The type of a generated expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Null,
    Timestamp,
    Duration,
    Ip,
    Cidr,
    Url,
    Quantity,
    Semver,
    Format,
    Dyn,
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Optional(Box<Type>),
    /// An object at a place in the schema: its path from the root.
    Object(String),
    /// Text that means something: a letter of [`super::texts::special`].
    Special(char),
}

/// The type that a template's `T` stands for.
pub(crate) type Binding = Option<Type>;

impl Type {
    pub(crate) fn list(element: Type) -> Type {
        Type::List(Box::new(element))
    }

    /// The type that a template writes: letters, of which `L`, `M` and `O` are followed by other types. `T` is the
    /// binding, which is chosen here if there is none yet.
    pub(crate) fn parse(code: &str, binding: &mut Binding, random: &mut StdRng) -> Type {
        Type::parse_next(&mut code.chars(), binding, random)
    }

    fn parse_next(code: &mut std::str::Chars<'_>, binding: &mut Binding, random: &mut StdRng) -> Type {
        match code.next().unwrap_or('D') {
            'b' => Type::Bool,
            'i' => Type::Int,
            'u' => Type::Uint,
            'd' => Type::Double,
            's' => Type::String,
            'y' => Type::Bytes,
            'n' => Type::Null,
            't' => Type::Timestamp,
            'r' => Type::Duration,
            'p' => Type::Ip,
            'c' => Type::Cidr,
            'l' => Type::Url,
            'q' => Type::Quantity,
            'v' => Type::Semver,
            'f' => Type::Format,
            'D' => Type::Dyn,
            'L' => Type::list(Type::parse_next(code, binding, random)),
            'M' => {
                let key = Type::parse_next(code, binding, random);
                Type::Map(Box::new(key), Box::new(Type::parse_next(code, binding, random)))
            }
            'O' => Type::Optional(Box::new(Type::parse_next(code, binding, random))),
            'T' => binding.get_or_insert_with(|| Type::scalar(random)).clone(),
            // A type whose values have an order.
            'C' => binding.get_or_insert_with(|| Type::comparable(random)).clone(),
            // A type that can be added up.
            'N' => binding
                .get_or_insert_with(|| pick(&[Type::Int, Type::Uint, Type::Double, Type::Duration], random))
                .clone(),
            special => Type::Special(special),
        }
    }

    /// Whether a template that returns `code` can make this type; its binding then.
    pub(crate) fn matches(&self, code: &str) -> Option<Binding> {
        let mut binding = None;
        self.matches_next(&mut code.chars(), &mut binding).then_some(binding)
    }

    fn matches_next(&self, code: &mut std::str::Chars<'_>, binding: &mut Binding) -> bool {
        let letter = code.next().unwrap_or('D');
        match (letter, self) {
            ('T', wanted) => bind(wanted, binding),
            ('C', wanted) => wanted.is_comparable() && bind(wanted, binding),
            ('N', wanted) => {
                matches!(wanted, Type::Int | Type::Uint | Type::Double | Type::Duration)
                    && bind(wanted, binding)
            }
            ('L', Type::List(element)) => element.matches_next(code, binding),
            ('O', Type::Optional(inner)) => inner.matches_next(code, binding),
            ('M', Type::Map(key, value)) => {
                key.matches_next(code, binding) && value.matches_next(code, binding)
            }
            ('L' | 'O' | 'M', _) => false,
            (letter, wanted) => wanted.letter() == Some(letter),
        }
    }

    fn letter(&self) -> Option<char> {
        Some(match self {
            Type::Bool => 'b',
            Type::Int => 'i',
            Type::Uint => 'u',
            Type::Double => 'd',
            Type::String => 's',
            Type::Bytes => 'y',
            Type::Null => 'n',
            Type::Timestamp => 't',
            Type::Duration => 'r',
            Type::Ip => 'p',
            Type::Cidr => 'c',
            Type::Url => 'l',
            Type::Quantity => 'q',
            Type::Semver => 'v',
            Type::Format => 'f',
            Type::Dyn => 'D',
            _ => return None,
        })
    }

    pub(crate) fn is_comparable(&self) -> bool {
        matches!(
            self,
            Type::Bool
                | Type::Int
                | Type::Uint
                | Type::Double
                | Type::String
                | Type::Bytes
                | Type::Timestamp
                | Type::Duration
        )
    }

    pub(crate) fn comparable(random: &mut StdRng) -> Type {
        pick(
            &[
                Type::Int,
                Type::String,
                Type::Int,
                Type::String,
                Type::Bool,
                Type::Uint,
                Type::Double,
                Type::Bytes,
                Type::Timestamp,
                Type::Duration,
            ],
            random,
        )
    }

    /// A type without parts.
    pub(crate) fn scalar(random: &mut StdRng) -> Type {
        if random.random_bool(0.9) {
            return Type::comparable(random);
        }
        pick(
            &[
                Type::Ip,
                Type::Cidr,
                Type::Quantity,
                Type::Semver,
                Type::Url,
                Type::Dyn,
                Type::Format,
                Type::Null,
            ],
            random,
        )
    }

    /// Any type.
    pub(crate) fn any(random: &mut StdRng) -> Type {
        match random.random_range(0..20) {
            0..3 => Type::list(Type::scalar(random)),
            3 => Type::list(Type::list(Type::scalar(random))),
            4..6 => Type::Map(Box::new(Type::String), Box::new(Type::scalar(random))),
            6 => Type::Optional(Box::new(Type::scalar(random))),
            7..13 => Type::Bool,
            _ => Type::scalar(random),
        }
    }
}

fn bind(wanted: &Type, binding: &mut Binding) -> bool {
    if matches!(wanted, Type::Object(_)) {
        return false;
    }
    binding.get_or_insert_with(|| wanted.clone()) == wanted
}

/// One of the items.
pub(crate) fn pick<T: Clone>(items: &[T], random: &mut StdRng) -> T {
    items.choose(random).expect("there are items").clone()
}
