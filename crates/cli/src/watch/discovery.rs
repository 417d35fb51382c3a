//! The resource that a word refers to, as for kubectl: its plural, singular, kind or a short name, and perhaps its
//! group or version and group behind a dot.

use super::cluster::Cluster;
use crate::flags::Failure;
use futures::future::try_join;
use kube_client::{
    Client,
    core::{
        ApiResource,
        discovery::v2::{APIGroupDiscoveryList, APIResourceDiscovery},
    },
};

/// The similarity from which one word is suggested for another; 1 is the same.
const SIMILARITY_MIN: f64 = 0.8;

/// A resource of a server.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) api: ApiResource,
    pub(super) is_namespaced: bool,
    singular: String,
    short_names: Vec<String>,
    verbs: Vec<String>,
}

impl Resource {
    /// As `deployments.apps`.
    pub(super) fn full_name(&self) -> String {
        match &*self.api.group {
            "" => self.api.plural.clone(),
            group => format!("{}.{group}", self.api.plural),
        }
    }

    /// As `1 pod` or `12 pods`.
    pub(super) fn counted(&self, count: usize) -> String {
        format!("{count} {}", if count == 1 { &self.singular } else { &self.api.plural })
    }

    fn is_named(&self, name: &str) -> bool {
        self.api.plural == name || self.singular == name || self.api.kind.to_lowercase() == name
    }

    fn is_called(&self, name: &str) -> bool {
        self.short_names.iter().any(|short| short == name)
    }

    fn can_be_watched(&self) -> bool {
        ["list", "watch"].iter().all(|needed| self.verbs.iter().any(|verb| verb == needed))
    }
}

/// Fetches the discovery documents, and finds the resource in them.
pub(super) async fn resolve(cluster: &Cluster, wanted: &str) -> Result<Resource, Failure> {
    let offered = offered(&cluster.client).await.map_err(|error| cluster.unanswered(&error))?;
    let found = find(&offered, wanted).ok_or_else(|| unknown(cluster, &offered, wanted))?;
    if !found.can_be_watched() {
        let verbs = if found.verbs.is_empty() { "nothing".to_owned() } else { found.verbs.join(", ") };
        let name = found.full_name();
        return Err(Failure::runtime_error(format!(
            "{name} cannot be watched: the server offers only {verbs} for it"
        )));
    }
    Ok(found.clone())
}

fn unknown(cluster: &Cluster, offered: &[Resource], wanted: &str) -> Failure {
    let hint = match most_similar(offered, wanted) {
        Some(name) => format!("did you mean {name}?"),
        None => "`kubectl api-resources` names all that it has".to_owned(),
    };
    Failure::runtime_error(format!("{} has no resource {wanted:?}: {hint}", cluster.url))
}

/// Every version of every resource, the preferred ones first.
async fn offered(client: &Client) -> Result<Vec<Resource>, kube_client::Error> {
    let (core, others) =
        try_join(client.list_core_api_versions_aggregated(), client.list_api_groups_aggregated()).await?;
    // A server without aggregated discovery answers in another form, of which nothing is left here.
    if core.items.is_empty() && others.items.is_empty() {
        return offered_one_by_one(client).await;
    }
    Ok(aggregated(core).chain(aggregated(others)).collect())
}

fn aggregated(list: APIGroupDiscoveryList) -> impl Iterator<Item = Resource> {
    list.items.into_iter().flat_map(|group| {
        let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
        group.versions.into_iter().flat_map(move |version| {
            let (group, number) = (name.clone(), version.version.unwrap_or_default());
            version.resources.into_iter().map(move |resource| from_aggregated(&group, &number, resource))
        })
    })
}

fn from_aggregated(group: &str, version: &str, resource: APIResourceDiscovery) -> Resource {
    let kind = resource.response_kind.and_then(|kind| kind.kind).unwrap_or_default();
    Resource {
        api: api_resource(group, version, kind, resource.resource.unwrap_or_default()),
        is_namespaced: resource.scope.as_deref() == Some("Namespaced"),
        singular: resource.singular_resource.unwrap_or_default(),
        short_names: resource.short_names,
        verbs: resource.verbs,
    }
    .completed()
}

/// Discovery of servers before 1.26. A group whose own server is down is left out.
async fn offered_one_by_one(client: &Client) -> Result<Vec<Resource>, kube_client::Error> {
    let (core, groups) = try_join(client.list_core_api_versions(), client.list_api_groups()).await?;
    let mut versions: Vec<String> = core.versions;
    for group in groups.groups {
        let preferred = group.preferred_version.map(|version| version.group_version);
        let all = group.versions.into_iter().map(|version| version.group_version);
        let others = all.filter(|version| Some(version) != preferred.as_ref()).collect::<Vec<_>>();
        versions.extend(preferred.into_iter().chain(others));
    }
    let asked = versions.iter().map(async |version| {
        let answer = match version.contains('/') {
            true => client.list_api_group_resources(version).await,
            false => client.list_core_api_resources(version).await,
        };
        answer.map(|list| list.resources).unwrap_or_default()
    });
    let answers = futures::future::join_all(asked).await;
    let pairs = versions.iter().zip(answers);
    let all = pairs.flat_map(|(group_version, resources)| {
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        let whole = resources.into_iter().filter(|resource| !resource.name.contains('/'));
        whole.map(move |resource| {
            Resource {
                api: api_resource(group, version, resource.kind, resource.name),
                is_namespaced: resource.namespaced,
                singular: resource.singular_name,
                short_names: resource.short_names.unwrap_or_default(),
                verbs: resource.verbs,
            }
            .completed()
        })
    });
    Ok(all.collect())
}

fn api_resource(group: &str, version: &str, kind: String, plural: String) -> ApiResource {
    let api_version = match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    ApiResource { group: group.to_owned(), version: version.to_owned(), api_version, kind, plural }
}

impl Resource {
    /// Completes the singular name, which not every server returns.
    fn completed(mut self) -> Resource {
        if self.singular.is_empty() {
            self.singular = self.api.kind.to_lowercase();
        }
        self
    }
}

/// Names have precedence over short names, and resources that can be watched over others.
fn find<'a>(offered: &'a [Resource], wanted: &str) -> Option<&'a Resource> {
    let wanted = wanted.to_lowercase();
    let (name, place) = wanted.split_once('.').unwrap_or((&wanted, ""));
    let versioned = place.split_once('.').filter(|_| !place.is_empty());
    let is_there = |resource: &Resource| match versioned {
        Some((version, group)) if resource.api.version == version && resource.api.group == group => true,
        _ => place.is_empty() || resource.api.group == place,
    };
    let places = || offered.iter().filter(|resource| is_there(resource));
    let named = || places().filter(|resource| resource.is_named(name));
    let called = || places().filter(|resource| resource.is_called(name));
    let watched = named().chain(called()).find(|resource| resource.can_be_watched());
    watched.or_else(|| named().chain(called()).next())
}

/// The name that is most similar to a word, if one is similar.
fn most_similar<'a>(offered: &'a [Resource], wanted: &str) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    let name = wanted.split('.').next().unwrap_or_default();
    let names =
        offered.iter().filter(|resource| resource.can_be_watched()).map(|resource| &*resource.api.plural);
    let scored = names.map(|own| (strsim::jaro_winkler(own, name), own));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(score, _)| *score > SIMILARITY_MIN).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, version: &str, kind: &str, plural: &str, short: &str) -> Resource {
        let verbs = if plural == "tokenreviews" { "create" } else { "get list watch" };
        Resource {
            api: api_resource(group, version, kind.to_owned(), plural.to_owned()),
            is_namespaced: true,
            singular: String::new(),
            short_names: short.split_whitespace().map(str::to_owned).collect(),
            verbs: verbs.split_whitespace().map(str::to_owned).collect(),
        }
        .completed()
    }

    fn offered() -> Vec<Resource> {
        vec![
            resource("", "v1", "Pod", "pods", "po"),
            resource("", "v1", "Event", "events", "ev"),
            resource("apps", "v1", "Deployment", "deployments", "deploy"),
            resource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa"),
            resource("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa"),
            resource("events.k8s.io", "v1", "Event", "events", "ev"),
            resource("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", ""),
            resource("example.com", "v1", "Thing", "po", ""),
        ]
    }

    #[test]
    fn a_resource_is_found_by_any_of_its_names() {
        for (wanted, expected) in [
            ("pods", "pods v1"),
            ("pod", "pods v1"),
            ("Pods", "pods v1"),
            ("pods.v1.", "pods v1"),
            ("deploy", "deployments.apps v1"),
            ("deployments.apps", "deployments.apps v1"),
            ("deploy.apps", "deployments.apps v1"),
            ("deployment.v1.apps", "deployments.apps v1"),
            ("hpa", "horizontalpodautoscalers.autoscaling v2"),
            ("hpa.v1.autoscaling", "horizontalpodautoscalers.autoscaling v1"),
            ("events", "events v1"),
            ("ev.events.k8s.io", "events.events.k8s.io v1"),
            ("events.v1.events.k8s.io", "events.events.k8s.io v1"),
            ("tokenreviews", "tokenreviews.authentication.k8s.io v1"),
        ] {
            let offered = offered();
            let found =
                find(&offered, wanted).map(|found| format!("{} {}", found.full_name(), found.api.version));
            assert_eq!(found.as_deref(), Some(expected), "{wanted}");
        }
        for wanted in ["podz", "pods.apps", "deployments.v2.apps", "", ".", "pods.v2."] {
            assert!(find(&offered(), wanted).is_none(), "{wanted}");
        }
    }

    #[test]
    fn a_name_is_stronger_than_a_short_name() {
        assert_eq!(find(&offered(), "po").unwrap().full_name(), "po.example.com");
    }

    #[test]
    fn a_word_that_is_nearly_right_is_corrected() {
        for (wanted, expected) in
            [("podz", Some("pods")), ("deployent.apps", Some("deployments")), ("xyzzy", None)]
        {
            assert_eq!(most_similar(&offered(), wanted), expected, "{wanted}");
        }
    }
}
