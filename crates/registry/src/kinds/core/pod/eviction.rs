//! Eviction: the deletion of a pod within the disruption budgets.

use crate::{
    deletion::check_preconditions,
    document::{Edit, Fields},
    error::Error,
    kinds::known,
    options::DeleteOptions,
    rest::{Registry, Target, document_of},
    schema::{self, Timestamp},
    selector,
};
use keepwatch_apimachinery::list_options::{ListAt, Position};
use keepwatch_storage::ListRequest;
use serde_json::{Value, json};

impl Registry {
    /// Evicts a pod if its disruption budget allows it.
    pub async fn evict(
        &self,
        target: Target<'_>,
        options: &DeleteOptions,
        dry_run: bool,
    ) -> Result<(), Error> {
        self.must_take_new_content(target, target.name, Position::Any).await?;
        let mut options = DeleteOptions { dry_run: dry_run || options.dry_run, ..options.clone() };
        let object = self.get(target, Position::MostRecent).await?;
        let pod = document_of(&object.value, Some(object.revision));
        check_preconditions(target, &options, &pod)?;
        let phase = pod.text("status.phase");
        let counted = !matches!(phase, "Succeeded" | "Failed" | "Pending") && !pod.is_deleting();
        if counted {
            self.spend_budget(target, &pod, options.dry_run).await?;
        }
        if !options.dry_run {
            let updated = self.change_stored(target, false, |pod| {
                check_preconditions(target, &options, pod)?;
                let condition = json!({
                    "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
                    "lastTransitionTime": schema::time(Timestamp::now()), "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                });
                pod.set_condition(condition);
                Ok(())
            });
            let updated = updated.await?.revision.to_string();
            // The server itself has just changed the version that the client meant.
            options.resource_version = options.resource_version.map(|_| updated);
        }
        self.delete(target, &options).await?;
        Ok(())
    }

    async fn spend_budget(&self, target: Target<'_>, pod: &Value, dry_run: bool) -> Result<(), Error> {
        let kind = known("policy", "poddisruptionbudgets");
        let all = Target { kind, namespace: target.namespace, name: "" };
        let Some(storage) = self.storage(kind) else { return Ok(()) };
        let request = ListRequest { at: ListAt::MostRecent, ..ListRequest::all() };
        let budgets =
            storage.get_list(&all.key(), request).await.map_err(|error| all.failed("list", error))?;
        let labels = pod.field("metadata.labels").cloned().unwrap_or_default();
        let covering: Vec<Value> = budgets
            .items
            .iter()
            .map(|object| document_of(&object.value, None))
            .filter(|budget| selector::selects(budget.field("spec.selector"), &labels))
            .collect();
        let budget = match covering.as_slice() {
            [] => return Ok(()),
            [budget] => budget,
            _ => {
                let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(Error::unexplained(message));
            }
        };
        if !is_ready(pod) && may_evict_unhealthy(budget) {
            return Ok(());
        }
        let own = Target { kind, namespace: target.namespace, name: budget.name() };
        let spent = self.change_stored(own, dry_run, |budget| spend(budget, target.name)).await;
        spent.map(drop)
    }
}

fn is_ready(pod: &Value) -> bool {
    let ready = |condition: &Value| condition.text("type") == "Ready" && condition.text("status") == "True";
    pod.list("status.conditions").iter().any(ready)
}

/// Whether unhealthy pods may be evicted although the budget is spent.
fn may_evict_unhealthy(budget: &Value) -> bool {
    if budget.text("spec.unhealthyPodEvictionPolicy") == "AlwaysAllow" {
        return true;
    }
    let (healthy, desired) =
        (budget.number_if_set("status.currentHealthy"), budget.number_if_set("status.desiredHealthy"));
    healthy.unwrap_or(0) >= desired.unwrap_or(0) && desired.unwrap_or(0) > 0
}

/// The number of seconds after which a client tries again, if a budget's controller has yet to observe it.
const BUDGET_RETRY_SECONDS: u32 = 10;
/// The maximum number of evicted pods in the status of a budget.
const DISRUPTED_PODS_MAX: usize = 2000;

fn spend(budget: &mut Value, pod: &str) -> Result<(), Error> {
    let own = budget.name().to_owned();
    let refused =
        |message: String, retry: u32| Err(Error::OverBudget { why: message, retry_after_seconds: retry });
    let generation = budget.number("metadata.generation");
    if budget.number("status.observedGeneration") < generation {
        let message = format!("The disruption budget {own} is still being processed by the server.");
        return refused(message, BUDGET_RETRY_SECONDS);
    }
    let allowed = budget.number("status.disruptionsAllowed");
    if allowed <= 0 {
        let count = |field| budget.field("status").number(field);
        let message = format!(
            "The disruption budget {own} needs {} healthy pods and has {} currently",
            count("desiredHealthy"),
            count("currentHealthy")
        );
        return refused(message, 0);
    }
    let status = budget.object_or_new("status");
    status.insert("disruptionsAllowed".to_owned(), (allowed - 1).into());
    let disrupted = budget.object_or_new("status.disruptedPods");
    if disrupted.len() >= DISRUPTED_PODS_MAX {
        return refused(format!("The disruption budget {own} has too many evictions under way."), 0);
    }
    disrupted.insert(pod.to_owned(), schema::time(Timestamp::now()).into());
    Ok(())
}
