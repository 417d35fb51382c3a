//! Makes an expression with a difference smaller for as long as it keeps the difference.

use super::generate::{Expression, Piece};
use super::outcome::{self, Difference};
use super::process::{Oracle, Question};

/// The largest number of expressions that are tried.
const ATTEMPTS_MAX: usize = 400;

/// The smallest question found that still has the same kind of difference.
pub(crate) fn minimise(
    question: &Question,
    expression: &Expression,
    kind: Difference,
    oracle: &mut Oracle,
) -> Question {
    let mut best = (question.clone(), expression.clone());
    let mut attempts = 0;
    loop {
        let mut smaller = None;
        for candidate in candidates(&best.1) {
            let source = candidate.source();
            if source.len() >= best.0.expression.len() {
                continue;
            }
            attempts += 1;
            if attempts > ATTEMPTS_MAX {
                return best.0;
            }
            let question = Question { expression: source, ..best.0.clone() };
            if differs(&question, oracle) == Some(kind) {
                smaller = Some((question, candidate));
                break;
            }
        }
        match smaller {
            Some(found) => best = found,
            None => return best.0,
        }
    }
}

/// The kind of difference of a question; `None` also when the oracle does not answer the same each time.
pub(crate) fn differs(question: &Question, oracle: &mut Oracle) -> Option<Difference> {
    let ours = outcome::ours(question);
    let answers = oracle.ask(&[question, question, question]);
    let kinds: Vec<Option<Difference>> = answers
        .iter()
        .map(|answer| outcome::theirs(answer).and_then(|theirs| outcome::difference(&ours, &theirs)))
        .collect();
    if kinds.iter().all(|kind| *kind == kinds[0]) { kinds[0] } else { None }
}

/// Expressions with one part replaced by one of its own parts, the smallest first.
fn candidates(expression: &Expression) -> Vec<Expression> {
    let mut found: Vec<Expression> = parts(expression).into_iter().cloned().collect();
    for (index, piece) in expression.0.iter().enumerate() {
        let Piece::Part(part) = piece else { continue };
        for smaller in candidates(part) {
            let mut pieces = expression.0.clone();
            pieces[index] = Piece::Part(smaller);
            found.push(Expression(pieces));
        }
    }
    found.sort_by_cached_key(|candidate| candidate.source().len());
    found
}

fn parts(expression: &Expression) -> Vec<&Expression> {
    let direct = expression.0.iter().filter_map(|piece| match piece {
        Piece::Part(part) => Some(part),
        Piece::Text(_) => None,
    });
    direct.flat_map(|part| std::iter::once(part).chain(parts(part))).collect()
}
