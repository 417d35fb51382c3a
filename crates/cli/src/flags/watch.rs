//! The arguments of `keepwatch watch`. Flags that kubectl has too have the same names and meanings.

use super::{Failure, readable, values};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// The resource to watch, and the form of the output.
#[derive(Clone, Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct Watch {
    /// The resource to watch, as kubectl names it: pods, po, deployments.apps, deployments.v1.apps, pods/web-0.
    #[arg(value_name = "RESOURCE")]
    pub(crate) resource: String,
    /// Only the object of this name.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Only this namespace, instead of the one that the kubeconfig names; can be given several times.
    #[arg(short, long = "namespace", value_name = "NAMESPACE", help_heading = "What", value_parser = values::namespace)]
    pub(crate) namespaces: Vec<String>,
    /// All namespaces.
    #[arg(short = 'A', long, help_heading = "What")]
    pub(crate) all_namespaces: bool,
    /// Only objects with such labels, as app=web,tier!=cache.
    #[arg(
        short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true,
        help_heading = "What", value_parser = values::label_selector
    )]
    pub(crate) selector: String,
    /// Only objects with such fields, as status.phase=Running.
    #[arg(
        long, value_name = "SELECTOR", default_value = "", hide_default_value = true,
        help_heading = "What", value_parser = values::field_selector
    )]
    pub(crate) field_selector: String,
    /// The kubeconfig; without it $KUBECONFIG, ~/.kube/config, or the cluster in which this runs.
    #[arg(long, value_name = "FILE", help_heading = "Where")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig, instead of its current one.
    #[arg(long, value_name = "NAME", help_heading = "Where")]
    pub(crate) context: Option<String>,
    /// A live table, a line for each change, or JSON for each; by default a table on a terminal, lines elsewhere.
    #[arg(
        short,
        long,
        value_name = "table|lines|json",
        hide_possible_values = true,
        help_heading = "Output"
    )]
    pub(crate) output: Option<Output>,
    /// Print this help.
    #[arg(short, long, action = clap::ArgAction::HelpShort, help_heading = "Help")]
    help: Option<bool>,
}

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A table of all objects, on a terminal.
    Table,
    /// A line for each change.
    Lines,
    /// JSON for each change.
    Json,
}

impl Watch {
    /// Takes `pods/web-0` apart, and refuses what does not go together.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        if let Some((resource, name)) = self.resource.clone().split_once('/') {
            if let Some(second) = self.name.replace(name.to_owned()) {
                return Err(Failure::usage(format!(
                    "{second:?} is not understood: {:?} names an object already",
                    self.resource
                )));
            }
            self.resource = resource.to_owned();
        }
        if self.resource.is_empty() || self.name.as_deref() == Some("") {
            return Err(Failure::usage("an empty name says nothing: try `keepwatch watch pods`"));
        }
        if self.all_namespaces && !self.namespaces.is_empty() {
            return Err(Failure::flag("--all-namespaces", "does not go with --namespace"));
        }
        readable("--kubeconfig", self.kubeconfig.as_deref())
    }

    /// The field selector, with the name if there is one.
    pub(crate) fn fields(&self) -> String {
        let name = self.name.as_deref().map(|name| format!("metadata.name={}", escaped(name)));
        let given = Some(self.field_selector.clone()).filter(|selector| !selector.is_empty());
        name.into_iter().chain(given).collect::<Vec<_>>().join(",")
    }
}

/// A value as field selectors write it.
fn escaped(value: &str) -> String {
    let special = |c: char| matches!(c, '\\' | ',' | '=');
    value.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Command, parse};
    use super::*;

    fn watch(words: &str) -> Result<Watch, Failure> {
        let words = ["keepwatch", "watch"].into_iter().chain(words.split_whitespace());
        parse(words).map(|command| match command {
            Command::Watch(watch) => *watch,
            other => unreachable!("the first word is `watch`: {other:?}"),
        })
    }

    #[test]
    fn a_resource_is_enough() {
        let given = watch("pods").unwrap();
        assert_eq!((given.resource.as_str(), given.name.as_deref(), given.output), ("pods", None, None));
        assert_eq!((given.fields().as_str(), given.selector.as_str()), ("", ""));
    }

    #[test]
    fn a_name_is_a_field_like_any_other() {
        for (words, resource, fields) in [
            ("pods web-0", "pods", "metadata.name=web-0"),
            ("pods/web-0", "pods", "metadata.name=web-0"),
            (
                "po web-0 --field-selector status.phase=Running",
                "po",
                "metadata.name=web-0,status.phase=Running",
            ),
            ("clusterroles a,b=c", "clusterroles", r"metadata.name=a\,b\=c"),
        ] {
            let given = watch(words).unwrap();
            assert_eq!((given.resource.as_str(), given.fields().as_str()), (resource, fields), "{words}");
        }
    }

    #[test]
    fn several_namespaces_can_be_given() {
        assert_eq!(watch("po -n a --namespace=b").unwrap().namespaces, ["a", "b"]);
        assert!(watch("po -A").unwrap().all_namespaces);
    }

    #[test]
    fn errors_are_one_line() {
        for (words, message) in [
            ("", "`keepwatch watch` needs <RESOURCE>; `keepwatch watch --help` says more"),
            ("pods a b", r#""b" is not understood: give one resource, and at most one name"#),
            ("pods/a b", r#""b" is not understood: "pods/a" names an object already"#),
            ("pods/", "an empty name says nothing: try `keepwatch watch pods`"),
            ("pods -A -n a", "--all-namespaces: does not go with --namespace"),
            (
                "pods -n a/b",
                r#"--namespace: "a/b" is not the name of a namespace: it has lower case letters, digits and dashes"#,
            ),
            ("pods -o yaml", r#"--output: "yaml" is not one of table, lines, json"#),
            ("pods --quux", "--quux: there is no such flag; `keepwatch watch --help` names all"),
            ("pods --contxt x", "--contxt: there is no such flag; did you mean --context?"),
            ("pods --kubeconfig /nowhere", "--kubeconfig: cannot read /nowhere: No such file or directory"),
        ] {
            let failure = watch(words).expect_err(words);
            assert_eq!((failure.text(), failure.code()), (message, 2), "{words}");
        }
        for words in ["pods -l a==b==c", "pods --field-selector a"] {
            let failure = watch(words).expect_err(words);
            assert_eq!(failure.code(), 2);
            assert!(failure.text().contains("selector: "), "{failure:?}");
        }
    }

    #[test]
    fn help_is_in_short_lines_and_ends_well() {
        let failure = watch("--help").unwrap_err();
        assert_eq!(failure.code(), 0);
        for line in failure.text().lines() {
            assert!(line.chars().count() <= 120, "{line}");
        }
        for heading in ["Arguments:", "What:", "Where:", "Output:", "Help:"] {
            assert!(failure.text().contains(&format!("\n{heading}\n")), "{heading}");
        }
    }
}
