//! Waits for events that meet conditions.

use crate::{
    informer::{Event, Informer, Stopped},
    object::Object,
};
use futures::StreamExt;

/// Waits until an event meets the first condition, then until a later one meets the next, and so on. Returns the
/// event that met the last condition. The existing objects come first, as `Added` events. It subscribes when it is
/// called, not when it is first polled, and misses no event between two conditions, across relists too.
///
/// ```no_run
/// # use keepwatch_informer::{Event, Informer, until};
/// # use k8s_openapi::api::core::v1::Pod;
/// # async fn example(pods: Informer<Pod>) -> Result<(), keepwatch_informer::Stopped> {
/// let is_running = |event: &Event<Pod>| {
///     let status = event.object().status.as_ref();
///     status.and_then(|status| status.phase.as_deref()) == Some("Running")
/// };
/// let is_gone = |event: &Event<Pod>| matches!(event, Event::Deleted { .. });
/// until(&pods, [&is_running as &(dyn Fn(&Event<Pod>) -> bool + Sync), &is_gone]).await?;
/// # Ok(())
/// # }
/// ```
pub fn until<O, C, I>(
    informer: &Informer<O>,
    conditions: I,
) -> impl Future<Output = Result<Option<Event<O>>, Stopped>> + use<O, C, I>
where
    O: Object,
    C: Fn(&Event<O>) -> bool,
    I: IntoIterator<Item = C>,
{
    let mut events = informer.subscribe();
    async move {
        let mut last = None;
        for condition in conditions {
            loop {
                let event = events.next().await.ok_or(Stopped)?;
                if condition(&event) {
                    last = Some(event);
                    break;
                }
            }
        }
        Ok(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{informer::script::scripted, testing::Thing};

    type Condition = fn(&Event<Thing>) -> bool;

    #[tokio::test(start_paused = true)]
    async fn conditions_are_met_in_order_across_a_relist() {
        let scripted =
            scripted(&["10 a@1", "watch: 5s; ~a@11; 5s; !expired", "20", "watch:"]).run_for(1).await;
        let is_there: Condition = |event| matches!(event, Event::Added { .. });
        let has_changed: Condition = |event| matches!(event, Event::Updated { .. });
        let is_gone: Condition = |event| matches!(event, Event::Deleted { .. });
        let last = until(&scripted.informer, [is_there, has_changed, is_gone]).await.unwrap().unwrap();
        assert_eq!(crate::testing::describe(&[last]), "missed a@11");
        let never: Condition = |_| false;
        let stopping = async {
            tokio::time::sleep(std::time::Duration::from_secs(5)).await;
            scripted.stop.cancel();
        };
        let (waited, ()) = futures::join!(until(&scripted.informer, [never]), stopping);
        assert_eq!(waited.unwrap_err(), Stopped);
    }
}
