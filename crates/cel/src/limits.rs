//! Limits the work that one evaluation does inside of functions that walk over whole values.
//!
//! Costs are those of Kubernetes, where comparing, flattening and formatting a value costs as much as its outermost level.
//! A value whose parts are shared, as `.map(a, [a, a])` makes one, can have billions of elements on its way to the
//! innermost level. So each walk counts its visits, and fails once the evaluation has visited too much.
//!
//! Kept true: the count belongs to the evaluation that runs on this thread; it never decreases before the next one begins.

use std::cell::Cell;

use crate::declarations::Failure;

/// The largest number of values, and of bytes of text made of them, that the functions of one evaluation may visit.
const VISITED_MAX: u64 = 1 << 22;

/// The largest number of elements in a list that an expression makes. Concatenation costs as good as nothing, so a rule
/// that doubles a list again and again would otherwise take all memory.
const LIST_ELEMENTS_MAX: usize = 1 << 18;

thread_local! {
    static VISITED: Cell<u64> = const { Cell::new(0) };
}

/// Begins an evaluation on this thread.
pub(crate) fn begin_evaluation() {
    VISITED.set(0);
}

/// Counts a visit of so many values or bytes. Functions that pass over the errors of elements visit none at the end, so that
/// this error is not passed over.
pub(crate) fn visit(count: usize) -> Result<(), Failure> {
    let visited = VISITED.get().saturating_add(count as u64);
    VISITED.set(visited);
    if visited > VISITED_MAX {
        return Err(Failure::Error(format!("more than {VISITED_MAX} values are compared or made")));
    }
    Ok(())
}

/// Refuses to make a list of so many elements.
pub(crate) fn list_may_have(elements: usize) -> Result<(), Failure> {
    if elements > LIST_ELEMENTS_MAX {
        return Err(Failure::Error(format!("list has more than {LIST_ELEMENTS_MAX} elements")));
    }
    Ok(())
}
