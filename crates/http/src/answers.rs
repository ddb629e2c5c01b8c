//! Builds answers: a few at a time, and one answer for all clients with the same request.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::body::Bytes;
use selvedge_api::{Body, Document, Error, ErrorKind, Fabric};
use selvedge_daemon::{GiveBack, Pages, Service};
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore};

use crate::limits::{KEPT, MADE_AT_ONCE, UNREAD_KIB_MAX};

/// A request that many clients may send, and that may have a large answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Counts of the fabric.
    Fabric,
    /// Every node.
    Nodes,
    /// Every port.
    Ports,
    /// Every link.
    Links,
    /// The plan in force.
    Plan,
    /// The judge's findings on the plan.
    Findings,
    /// The partitions and their members.
    Partitions,
    /// Events after the one with this number.
    Events(u64),
}

impl Question {
    /// Number of kinds of requests.
    const KINDS: usize = 8;

    const fn kind(self) -> usize {
        match self {
            Self::Fabric => 0,
            Self::Nodes => 1,
            Self::Ports => 2,
            Self::Links => 3,
            Self::Plan => 4,
            Self::Findings => 5,
            Self::Partitions => 6,
            Self::Events(_) => 7,
        }
    }

    /// Returns the number of the state behind the answer; `None` if every answer may differ.
    fn state(self, service: &dyn Service) -> Option<u64> {
        match self {
            Self::Events(_) => None,
            _ => service.state_number(),
        }
    }

    fn answer(self, service: &dyn Service) -> Result<String, Error> {
        fn json<T: Body>(body: Result<T, Error>) -> Result<String, Error> {
            Ok(Document::new(body?).to_json())
        }
        match self {
            Self::Fabric => json(service.fabric().map(|fabric| Fabric::of(&fabric))),
            Self::Nodes => json(service.nodes()),
            Self::Ports => json(service.ports()),
            Self::Links => json(service.links()),
            Self::Plan => json(service.plan()),
            Self::Findings => json(service.findings()),
            Self::Partitions => json(service.partitions()),
            Self::Events(since) => json(Ok(service.events(since))),
        }
    }
}

/// The bytes of an answer, which several clients may be reading.
struct Shared {
    bytes: Stored,
    /// The answer's share of the bytes that clients may leave unread.
    _unread: OwnedSemaphorePermit,
}

/// The memory of an answer. Large answers have memory pages of their own, which are returned to the system after the
/// last client has read the answer.
enum Stored {
    Small(Vec<u8>),
    Large(Pages),
}

/// Size in bytes from which an answer has its own pages.
const LARGE: usize = 64 << 10;

struct Reader(Arc<Shared>);

impl AsRef<[u8]> for Reader {
    fn as_ref(&self) -> &[u8] {
        match &self.0.bytes {
            Stored::Small(bytes) => bytes,
            Stored::Large(pages) => pages.as_ref(),
        }
    }
}

/// The last answer to a kind of request.
struct Kept {
    question: Question,
    state: Option<u64>,
    /// Start of its construction. The answer is fresh enough for every request that arrived earlier.
    begun: Instant,
    asked_at: Instant,
    shared: Arc<Shared>,
}

impl Kept {
    fn answers(&self, question: Question, asked: Instant, state: Option<u64>) -> bool {
        self.question == question && (self.begun >= asked || state.is_some() && self.state == state)
    }
}

/// Builds and shares answers.
pub(crate) struct Answers {
    service: Arc<dyn Service>,
    /// One lock for each kind: one answer of a kind is built at a time, and waiting requests share it.
    turns: [AsyncMutex<()>; Question::KINDS],
    kept: [Mutex<Option<Kept>>; Question::KINDS],
    /// Limits concurrent construction of large answers of all kinds.
    makers: Arc<Semaphore>,
    /// KiB that clients may leave unread.
    unread: Arc<Semaphore>,
}

impl Answers {
    pub(crate) fn new(service: Arc<dyn Service>) -> Self {
        Self {
            service,
            turns: Default::default(),
            kept: Default::default(),
            makers: Arc::new(Semaphore::new(MADE_AT_ONCE)),
            unread: Arc::new(Semaphore::new(UNREAD_KIB_MAX)),
        }
    }

    /// Returns the answer to a request as JSON. Clients that wait for the same answer get the same bytes.
    pub(crate) async fn of(&self, question: Question) -> Result<Bytes, Error> {
        let asked = Instant::now();
        if let Some(bytes) = self.again(question, asked) {
            return Ok(bytes);
        }
        let _turn = self.turns[question.kind()].lock().await;
        if let Some(bytes) = self.again(question, asked) {
            return Ok(bytes);
        }
        let (state, begun) = (question.state(&*self.service), Instant::now());
        let made = self.make(move |service| question.answer(service).map(String::into_bytes));
        let shared = Arc::new(made.await?);
        let bytes = Bytes::from_owner(Reader(Arc::clone(&shared)));
        *self.lock(question) = Some(Kept {
            question,
            state,
            begun,
            asked_at: Instant::now(),
            shared,
        });
        Ok(bytes)
    }

    /// Returns the answer to a request that takes little work.
    pub(crate) async fn small<T: Body>(
        &self,
        question: impl FnOnce(&dyn Service) -> Result<T, Error> + Send + 'static,
    ) -> Result<Bytes, Error> {
        let answer = self.ask(move |service| Ok(Document::new(question(service)?).to_json()));
        Ok(answer.await?.into())
    }

    /// Returns the answer to a request that only this client sends. Few of these are built at a time.
    pub(crate) async fn alone<T: Body>(
        &self,
        question: impl FnOnce(&dyn Service) -> Result<T, Error> + Send + 'static,
    ) -> Result<Bytes, Error> {
        self.made(move |service| Ok(Document::new(question(service)?).to_json().into_bytes()))
            .await
    }

    /// Returns bytes that only this client asks for. Few of these are built at a time.
    pub(crate) async fn made(
        &self,
        answer: impl FnOnce(&dyn Service) -> Result<Vec<u8>, Error> + Send + 'static,
    ) -> Result<Bytes, Error> {
        Ok(Bytes::from_owner(Reader(Arc::new(self.make(answer).await?))))
    }

    /// Runs `request` on a thread where it may block.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(&dyn Service) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let service = Arc::clone(&self.service);
        match tokio::task::spawn_blocking(move || request(&*service)).await {
            Ok(result) => result,
            Err(_) => Err(ErrorKind::Stopping.error("the request was given up")),
        }
    }

    /// Drops answers that no client has requested again.
    pub(crate) fn forget_old(&self) {
        for kept in &self.kept {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            // The pages of a large answer return to the system here.
            drop(kept.take_if(|kept| kept.asked_at.elapsed() >= KEPT));
        }
    }

    fn lock(&self, question: Question) -> std::sync::MutexGuard<'_, Option<Kept>> {
        self.kept[question.kind()]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the kept answer, if it is fresh enough for this request.
    fn again(&self, question: Question, asked: Instant) -> Option<Bytes> {
        let state = question.state(&*self.service);
        let mut kept = self.lock(question);
        let kept = kept.as_mut().filter(|kept| kept.answers(question, asked, state))?;
        kept.asked_at = Instant::now();
        Some(Bytes::from_owner(Reader(Arc::clone(&kept.shared))))
    }

    async fn make(
        &self,
        answer: impl FnOnce(&dyn Service) -> Result<Vec<u8>, Error> + Send + 'static,
    ) -> Result<Shared, Error> {
        // The semaphore is never closed.
        let _maker = self.makers.acquire().await;
        let unread = Arc::clone(&self.unread);
        self.ask(move |service| {
            // Building an answer briefly takes several times its size.
            let _given_back = GiveBack::begin();
            let made = answer(service)?;
            let kib = u32::try_from(made.len().div_ceil(1_024).min(UNREAD_KIB_MAX)).unwrap_or(u32::MAX);
            let unread = unread.try_acquire_many_owned(kib);
            let unread = unread.map_err(|_| ErrorKind::Busy.error("too many answers are still unread"))?;
            let bytes = match made.len() {
                LARGE.. => Pages::copy_of(&made).map_or(Stored::Small(made), Stored::Large),
                _ => Stored::Small(made),
            };
            Ok(Shared { bytes, _unread: unread })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_answer_is_shared_while_it_is_fresh() {
        let unread = Arc::new(Semaphore::new(1)).try_acquire_many_owned(1).unwrap();
        let begun = Instant::now();
        let kept = Kept {
            question: Question::Ports,
            state: Some(7),
            begun,
            asked_at: begun,
            shared: Arc::new(Shared {
                bytes: Stored::Small(b"{}".to_vec()),
                _unread: unread,
            }),
        };
        let (before, after) = (
            begun.checked_sub(Duration::from_secs(1)).unwrap(),
            begun + Duration::from_secs(1),
        );
        let check = |question, asked, state, want| {
            assert_eq!(kept.answers(question, asked, state), want, "{question:?} {state:?}");
        };
        // A request that arrived before construction began gets the answer, even if the state has changed since.
        check(Question::Ports, before, Some(8), true);
        check(Question::Ports, before, None, true);
        // A later request gets it only if the state is the same.
        check(Question::Ports, after, Some(7), true);
        check(Question::Ports, after, Some(8), false);
        check(Question::Ports, after, None, false);
        check(Question::Nodes, before, Some(7), false);
    }

    #[test]
    fn events_are_shared_by_clients_with_the_same_number_only() {
        assert_eq!(Question::Events(1).kind(), Question::Events(2).kind());
        assert_ne!(Question::Events(1), Question::Events(2));
        let all = [
            Question::Fabric,
            Question::Nodes,
            Question::Ports,
            Question::Links,
            Question::Plan,
            Question::Findings,
            Question::Partitions,
            Question::Events(0),
        ];
        let kinds: Vec<usize> = all.map(Question::kind).into();
        assert_eq!(kinds, (0..Question::KINDS).collect::<Vec<_>>());
    }
}
