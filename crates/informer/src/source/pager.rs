//! Lists in pages.
//!
//! Invariants: the version of a list is that of its first page; further pages are requested by continue token alone.
//! If a token has expired, the whole list is requested once in one page.

use crate::{
    error::{ApiError, Class},
    reflector::PAGE_SIZE,
    source::{ListPage, ListWatch, Page, Source, Unreadable},
};
use std::sync::Arc;

/// A complete list.
#[derive(Debug)]
pub struct ListResult<O> {
    /// The objects.
    pub objects: Vec<Arc<O>>,
    /// Objects that could not be decoded.
    pub unreadable: Vec<Unreadable>,
    /// The resource version of the list.
    pub version: String,
    /// Whether the list came in several pages.
    pub is_paginated: bool,
}

/// Fetches lists in pages.
#[derive(Clone, Debug)]
pub struct Pager<S> {
    source: S,
    page_size: u32,
}

/// The number of pages that are fetched ahead.
const PREFETCH_PAGES_MAX: usize = 10;

impl<S> Pager<S> {
    /// A pager of this source, with pages of [`PAGE_SIZE`].
    pub fn new(source: S) -> Self {
        Pager { source, page_size: PAGE_SIZE }
    }

    /// Sets the page size; 0 means one page.
    pub fn page_size(mut self, page_size: u32) -> Self {
        self.page_size = page_size;
        self
    }

    fn first(&self, page: ListPage) -> ListPage {
        let limit = if page.limit == 0 { self.page_size } else { page.limit };
        ListPage { limit, ..page }
    }

    /// Fetches a complete list.
    pub async fn list<O: 'static>(&self, page: ListPage) -> Result<ListResult<O>, ApiError>
    where
        S: ListWatch<O>,
    {
        list_all(&self.source, self.first(page), |object| object).await
    }

    /// Calls a function with each object while further pages are fetched. It ends with the first error of the source
    /// or of the function. An expired token is an error here, because some objects were visited already.
    pub async fn each<O: Send + 'static, E: From<ApiError>>(
        &self,
        page: ListPage,
        mut visit: impl FnMut(Arc<O>) -> Result<(), E>,
    ) -> Result<(), E>
    where
        S: ListWatch<O>,
    {
        let (pages, mut fetched) =
            tokio::sync::mpsc::channel::<Result<Page<O>, ApiError>>(PREFETCH_PAGES_MAX);
        let fetch = async move {
            let mut next = Some(self.first(page));
            while let Some(page) = next.take() {
                let limit = page.limit;
                let answer = ListWatch::list(&self.source, page).await;
                if let Ok(Page { next: Some(token), .. }) = &answer {
                    next = Some(next_page(limit, token.clone()));
                }
                if pages.send(answer).await.is_err() {
                    return;
                }
            }
        };
        let consume = async {
            while let Some(page) = fetched.recv().await {
                for object in page?.objects {
                    visit(object)?;
                }
            }
            Ok(())
        };
        tokio::pin!(fetch, consume);
        tokio::select! {
            result = &mut consume => return result,
            () = &mut fetch => {}
        }
        consume.await
    }
}

fn next_page(limit: u32, token: String) -> ListPage {
    ListPage { limit, token: Some(token), ..ListPage::default() }
}

/// Fetches a complete list. `keep` may replace each object before the next page is requested.
pub(crate) async fn list_all<O: 'static>(
    source: &dyn Source<O>,
    first: ListPage,
    keep: impl Fn(Arc<O>) -> Arc<O>,
) -> Result<ListResult<O>, ApiError> {
    let limit = first.limit;
    let page = source.list(first.clone()).await?;
    let mut next = page.next.clone();
    let mut listed = ListResult {
        objects: Vec::new(),
        unreadable: Vec::new(),
        version: page.version.clone(),
        is_paginated: false,
    };
    listed.add(page, &keep);
    while let Some(token) = next {
        listed.is_paginated = true;
        let page = match source.list(next_page(limit, token)).await {
            Err(error) if error.class == Class::Expired => {
                return list_in_one_page(source, first, keep).await;
            }
            answer => answer?,
        };
        next = page.next.clone();
        listed.add(page, &keep);
    }
    Ok(listed)
}

/// Requests the list again, in one page.
async fn list_in_one_page<O: 'static>(
    source: &dyn Source<O>,
    first: ListPage,
    keep: impl Fn(Arc<O>) -> Arc<O>,
) -> Result<ListResult<O>, ApiError> {
    let page = source.list(ListPage { limit: 0, token: None, ..first }).await?;
    let version = page.version.clone();
    let mut listed = ListResult { objects: Vec::new(), unreadable: Vec::new(), version, is_paginated: true };
    listed.add(page, &keep);
    Ok(listed)
}

impl<O> ListResult<O> {
    fn add(&mut self, page: Page<O>, keep: &impl Fn(Arc<O>) -> Arc<O>) {
        self.objects.extend(page.objects.into_iter().map(keep));
        self.unreadable.extend(page.unreadable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        informer::script::{Scripted, scripted},
        testing::{Thing, name},
    };

    async fn list(scripted: &Scripted, page: ListPage) -> Result<ListResult<Thing>, ApiError> {
        Pager::new(scripted.source()).page_size(4).list(page).await
    }

    fn at(version: &str) -> ListPage {
        ListPage { version: Some(version.to_owned()), ..ListPage::default() }
    }

    /// Case 8.
    #[tokio::test]
    async fn further_pages_are_requested_by_token_alone() {
        let scripted = scripted(&["10 a@1 >x", "11 b@2 >y", "12 c@3"]);
        let listed = list(&scripted, at("7")).await.unwrap();
        assert_eq!(scripted.requests(), "LIST 7 limit=4, LIST >x limit=4, LIST >y limit=4");
        assert_eq!((listed.version.as_str(), listed.objects.len(), listed.is_paginated), ("10", 3, true));
        let scripted = super::tests::scripted(&["10 a@1"]);
        assert!(!list(&scripted, at("7")).await.unwrap().is_paginated);
    }

    /// Case 9.
    #[tokio::test]
    async fn a_first_page_that_has_expired_is_an_error() {
        let scripted = scripted(&["!expired", "10"]);
        assert_eq!(list(&scripted, at("7")).await.unwrap_err().class, Class::Expired);
        assert_eq!(scripted.requests(), "LIST 7 limit=4");
    }

    #[tokio::test]
    async fn any_other_error_on_any_page_is_an_error() {
        let scripted = scripted(&["10 a@1 >x", "!500"]);
        assert_eq!(list(&scripted, at("7")).await.unwrap_err().class, Class::Internal);
    }

    /// PG-5.
    #[tokio::test]
    async fn objects_can_be_visited_one_by_one_until_the_function_fails() {
        let scripted = scripted(&["10 a@1 b@2 >x", "10 c@3 >y", "!expired"]);
        let pager = Pager::new(scripted.source()).page_size(2);
        let mut seen = Vec::new();
        let all = pager.each(at("7"), |object: Arc<Thing>| {
            seen.push(name(&object));
            Ok::<_, ApiError>(())
        });
        assert_eq!(
            all.await.unwrap_err().class,
            Class::Expired,
            "objects were visited already, so the list cannot start again"
        );
        assert_eq!(seen, ["a@1", "b@2", "c@3"]);

        let scripted = super::tests::scripted(&["10 a@1 b@2 >x", "10 c@3"]);
        let pager = Pager::new(scripted.source());
        let enough = pager.each(at("7"), |_: Arc<Thing>| Err(ApiError::new(Class::Client, "enough"))).await;
        assert_eq!(enough.unwrap_err().to_string(), "enough");
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_pages_are_fetched_ahead_than_the_limit() {
        let answers: Vec<_> = std::iter::repeat_n("10 a@1 >x", 100).collect();
        let scripted = scripted(&answers);
        let pager = Pager::new(scripted.source());
        let visits = std::cell::Cell::new(0);
        let visit = |_: Arc<Thing>| {
            visits.set(visits.get() + 1);
            assert!(scripted.requests().matches("LIST").count() <= visits.get() + PREFETCH_PAGES_MAX + 2);
            if visits.get() == 50 { Err(ApiError::new(Class::Client, "enough")) } else { Ok(()) }
        };
        assert!(pager.each(at("7"), visit).await.is_err());
    }
}
