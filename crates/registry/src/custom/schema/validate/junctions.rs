//! Validation of values by several schemas: all of them, any, one, or none.

use keepwatch_apimachinery::go::Quoted;
use serde_json::Value;

use super::{
    super::{
        node::{Junctions, Node},
        path::Path,
        ratchet::Old,
    },
    Check, Faults, Matches,
};

impl Check<'_> {
    /// Validates the value by one of several schemas, and returns the errors separately.
    fn apart(&mut self, node: &Node, value: &Value, path: &Path<'_>) -> (Matches, Faults) {
        let own = std::mem::take(&mut self.faults);
        let matches = self.value(node, value, path, Old::default());
        (matches, std::mem::replace(&mut self.faults, own))
    }

    fn merge(&mut self, faults: Faults) {
        faults.list.into_iter().for_each(|fault| self.faults.push(fault));
    }

    pub(super) fn junctions(&mut self, junctions: &Junctions, value: &Value, path: &Path<'_>) -> Matches {
        let mut matches = self.any_of(&junctions.any_of, value, path);
        matches += self.one_of(&junctions.one_of, value, path);
        matches += self.all_of(&junctions.all_of, value, path);
        if let Some(not) = &junctions.not {
            let (_, faults) = self.apart(not, value, path);
            if faults.list.is_empty() {
                self.of_whole(format!("{} must not validate the schema (not)", Quoted(&path.to_string())));
            }
        }
        matches
    }

    fn any_of(&mut self, nodes: &[Node], value: &Value, path: &Path<'_>) -> Matches {
        let mut closest: Option<(Matches, Faults)> = None;
        for node in nodes {
            let (matches, faults) = self.apart(node, value, path);
            if faults.list.is_empty() {
                return matches;
            }
            if closest.as_ref().is_none_or(|(most, _)| matches > *most) {
                closest = Some((matches, faults));
            }
        }
        let Some((matches, faults)) = closest else { return 0 };
        self.of_whole(format!("{} must validate at least one schema (anyOf)", Quoted(&path.to_string())));
        self.merge(faults);
        matches
    }

    fn one_of(&mut self, nodes: &[Node], value: &Value, path: &Path<'_>) -> Matches {
        let (mut valid, mut first) = (0, 0);
        let mut closest: Option<(Matches, Faults)> = None;
        for node in nodes {
            let (matches, faults) = self.apart(node, value, path);
            if faults.list.is_empty() {
                valid += 1;
                first = if valid == 1 { matches } else { first };
                closest = None;
            } else if valid == 0 && closest.as_ref().is_none_or(|(most, _)| matches > *most) {
                closest = Some((matches, faults));
            }
        }
        if nodes.is_empty() || valid == 1 {
            return first;
        }
        let why = if valid == 0 {
            "Found none valid".to_owned()
        } else {
            format!("Found {valid} valid alternatives")
        };
        let path = path.to_string();
        self.of_whole(format!("{} must validate one and only one schema (oneOf). {why}", Quoted(&path)));
        closest.map_or(0, |(matches, faults)| {
            self.merge(faults);
            matches
        })
    }

    fn all_of(&mut self, nodes: &[Node], value: &Value, path: &Path<'_>) -> Matches {
        let (mut valid, mut sum) = (0, 0);
        for node in nodes {
            let (matches, faults) = self.apart(node, value, path);
            valid += usize::from(faults.list.is_empty());
            sum += matches;
            self.merge(faults);
        }
        if valid < nodes.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            let path = path.to_string();
            self.of_whole(format!("{} must validate all the schemas (allOf){none}", Quoted(&path)));
        }
        sum
    }
}
