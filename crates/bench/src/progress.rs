//! A progress bar on the terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{borrow::Cow, time::Duration};

/// The interval at which the bar is drawn though nothing has happened.
const REDRAW: Duration = Duration::from_millis(200);

/// A bar that shows the progress of a run.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar that is drawn only if `is_shown`.
    pub(crate) fn new(scenarios: usize, is_shown: bool) -> Self {
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(scenarios as u64), target);
        let style = ProgressStyle::with_template(
            "{bar:24.cyan/blue} {pos}/{len} {prefix:.bold} {wide_msg} {elapsed}",
        )
        .expect("the template is one");
        bar.set_style(style.progress_chars("━╸─"));
        if is_shown {
            bar.enable_steady_tick(REDRAW);
        }
        Progress { bar }
    }

    /// A hidden bar, for a part of another scenario.
    pub(crate) fn hidden() -> Self {
        Progress::new(0, false)
    }

    /// A scenario begins.
    pub(crate) fn begins(&self, scenario: &'static str) {
        self.bar.set_prefix(scenario);
        self.bar.set_message("");
    }

    /// The step that runs now.
    pub(crate) fn set_message(&self, what: impl Into<Cow<'static, str>>) {
        self.bar.set_message(what);
    }

    /// A scenario is over.
    pub(crate) fn ends(&self) {
        self.bar.inc(1);
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
