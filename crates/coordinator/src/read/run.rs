//! Carrying a read out: where, and what follows when it has to wait.
//!
//! A read is work that asks for pages and can be begun anew ([`ReadWork`]). It begins on the thread that
//! asks:
//!
//! 1. A page that this node answers alone is read as it is pulled, so the work moves to a thread that may
//!    wait for the disk. It is interrupted where it would have to wait for something else; then it waits
//!    here, on no thread, and all is begun anew.
//! 2. While others answer a page the work has no thread. It goes on when the page was gathered: where it was,
//!    if the page is short, else on a thread that may take its time.

use super::gather::Limits;
use super::legs::{Leg, Legs, rows_wanted};
use super::page::Cause;
use super::{Interruption, Page, PullError, ReadRequest};
use crate::Coordinator;
use crate::error::CoordinatorError;
use crate::local::{LocalReplica, ReadObserver, ReaderError, short};
use crate::replica::ReplicaError;
use env::sync::Mutex;
use model::Consistency;
use partition::{BoxedStream, Cut, Deadline, LiveRows, ReadContext, concat};
use smallvec::SmallVec;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// What is made of the pages of a read. It may be carried out on any thread.
pub trait ReadWork: Send + Sized + 'static {
    /// What comes of it.
    type Output: Send + 'static;
    /// Why nothing does. It takes an interruption and hands it back.
    type Error: From<PullError> + Send + 'static;

    /// Begins, perhaps anew: what accompanies the read.
    fn begin(&mut self) -> ReadContext;

    /// Opens pages and makes of them what is wanted. It waits for nothing but pages.
    fn carry_out(
        self,
        context: ReadContext,
        pages: Pages,
    ) -> impl Future<Output = (Self, Result<Self::Output, Self::Error>)> + Send + 'static;

    /// The interruption that an error is.
    ///
    /// # Errors
    /// The error itself, if it is none.
    fn interruption(error: Self::Error) -> Result<Interruption, Self::Error>;
}

/// The work, unless it was lost with its thread, and what came of it.
pub type Worked<W> = (Option<W>, Result<<W as ReadWork>::Output, <W as ReadWork>::Error>);

/// Where work gets its pages.
#[derive(Clone)]
pub struct Pages {
    coordinator: Arc<Coordinator>,
    state: Arc<Mutex<Wanted>>,
    /// Where pages that have to be whole would end before their end.
    cuts: Arc<Mutex<Vec<Cut>>>,
}

/// What the work waits for.
#[derive(Default)]
enum Wanted {
    #[default]
    Nothing,
    /// A thread that may wait for the disk. With `true` it has one.
    Thread(bool),
    /// A page that has to be gathered.
    Page(Box<(ReadRequest, Legs)>),
    /// Which is there.
    Gathered(Result<Page, CoordinatorError>),
}

impl Pages {
    fn new(coordinator: &Arc<Coordinator>) -> Pages {
        let coordinator = Arc::clone(coordinator);
        Pages { coordinator, state: Arc::default(), cuts: Arc::default() }
    }

    /// Whether a page ended too early.
    fn is_cut(&self) -> bool {
        self.cuts.lock().iter().any(|cut| cut.get().is_some())
    }

    /// The page of a request.
    ///
    /// # Errors
    /// Those of [`Coordinator::read`]; an interruption where the read has to wait.
    pub async fn open(&self, request: ReadRequest) -> Result<Page, PullError> {
        let legs = self.coordinator.legs(&request)?;
        if let Some(local) = legs.local(request.consistency) {
            poll_fn(|_| self.has_thread()).await;
            return open(local, &legs, request);
        }
        *self.state.lock() = Wanted::Page(Box::new((request, legs)));
        poll_fn(|_| {
            let mut wanted = self.state.lock();
            match std::mem::take(&mut *wanted) {
                Wanted::Gathered(page) => Poll::Ready(page.map_err(PullError::Failed)),
                other => {
                    *wanted = other;
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Waits for a thread that may wait for the disk.
    fn has_thread(&self) -> Poll<()> {
        let mut wanted = self.state.lock();
        if matches!(*wanted, Wanted::Thread(true)) {
            return Poll::Ready(());
        }
        *wanted = Wanted::Thread(false);
        Poll::Pending
    }
}

impl Coordinator {
    /// Opens a page on this thread, if this node answers it alone; `None` where others have to be asked.
    ///
    /// # Errors
    /// Those of [`Coordinator::read`]; an interruption where the read has to wait.
    pub fn open_local(&self, request: ReadRequest) -> Result<Option<Page>, PullError> {
        let legs = self.legs(&request)?;
        match legs.local(request.consistency) {
            Some(local) => open(local, &legs, request).map(Some),
            None => Ok(None),
        }
    }

    /// Carries work on a read out where it may wait. `observer` is told what it waits for.
    ///
    /// # Errors
    /// The work's own; `Invalid` for a consistency level that reads do not have or a paging state of another
    /// query, `Unavailable`, `ReadFailure`, `ReadTimeout`, `Overloaded`.
    pub async fn read<W: ReadWork>(
        self: &Arc<Self>,
        mut work: W,
        consistency: Consistency,
        deadline: Option<&Deadline>,
        observer: &mut dyn ReadObserver,
    ) -> Worked<W> {
        loop {
            let (back, error) = match self.read_once(work, consistency, deadline, observer).await {
                (Some(back), Err(error)) => (back, error),
                over => return over,
            };
            let interruption = match W::interruption(error) {
                Ok(interruption) => interruption,
                Err(error) => return (Some(back), Err(error)),
            };
            if let Err(error) = self.resumed(interruption, deadline, observer).await {
                return (Some(back), Err(PullError::Failed(error).into()));
            }
            work = back;
        }
    }

    /// As [`Coordinator::read`], once: what interrupts it is handed out.
    async fn read_once<W: ReadWork>(
        self: &Arc<Self>,
        mut work: W,
        consistency: Consistency,
        deadline: Option<&Deadline>,
        observer: &mut dyn ReadObserver,
    ) -> Worked<W> {
        let mut limits = Limits::default();
        loop {
            let (back, outcome, is_cut) = self.read_with(limits, work, consistency, deadline, observer).await;
            match (back, limits) {
                (Some(back), Limits::Kept) if is_cut => (work, limits) = (back, Limits::Lifted),
                (Some(back), Limits::Lifted) if is_cut => {
                    let refusal =
                        "The result is larger than what replicas may answer at once; read it in pages";
                    let error = CoordinatorError::Invalid(refusal.to_owned());
                    return (Some(back), Err(PullError::Failed(error).into()));
                }
                (back, _) => return (back, outcome),
            }
        }
    }

    /// As [`Coordinator::read_once`]; says, too, whether replicas stopped before there was enough.
    async fn read_with<W: ReadWork>(
        self: &Arc<Self>,
        limits: Limits,
        mut work: W,
        consistency: Consistency,
        deadline: Option<&Deadline>,
        observer: &mut dyn ReadObserver,
    ) -> (Option<W>, Result<W::Output, W::Error>, bool) {
        let context = work.begin();
        observer.begins(&context);
        let pages = Pages::new(self);
        let mut working = Box::pin(work.carry_out(context, pages.clone()));
        let mut has_thread = false;
        loop {
            let job = move |_| {
                let polled = working.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                (working, polled)
            };
            let polled;
            (working, polled) = if has_thread {
                match self.local.readers().run_observed(deadline, observer, job).await {
                    Ok(polled) => polled,
                    Err(error) => {
                        return (None, Err(PullError::Failed(of_readers(error, consistency)).into()), false);
                    }
                }
            } else {
                job(0)
            };
            if let Poll::Ready((work, outcome)) = polled {
                return (Some(work), outcome, pages.is_cut());
            }
            let wanted = std::mem::take(&mut *pages.state.lock());
            let page = match wanted {
                Wanted::Thread(_) => {
                    *pages.state.lock() = Wanted::Thread(true);
                    has_thread = true;
                    continue;
                }
                Wanted::Page(asked) => {
                    let (request, legs) = *asked;
                    let is_whole = request.is_whole();
                    // Room for other nodes' answers is made when they are asked.
                    let page = match self.settled(&request, &legs, deadline).await {
                        Ok(()) => Box::pin(self.gather(request, &legs, limits, deadline)).await,
                        Err(error) => Err(error),
                    };
                    let cut = page.as_ref().ok().and_then(Page::cut).filter(|_| is_whole);
                    pages.cuts.lock().extend(cut.cloned());
                    page
                }
                // Nothing else is waited for.
                _ => Err(CoordinatorError::Internal("a read waits for nothing".to_owned())),
            };
            has_thread = page.as_ref().is_ok_and(|page| !page.is_short());
            *pages.state.lock() = Wanted::Gathered(page);
        }
    }

    /// Waits until what interrupted a read is over.
    ///
    /// # Errors
    /// When it never is, or not in time.
    pub(crate) async fn resumed(
        &self,
        Interruption { cause, consistency }: Interruption,
        deadline: Option<&Deadline>,
        observer: &mut dyn ReadObserver,
    ) -> Result<(), CoordinatorError> {
        match cause {
            // Who may wait for the disk is not interrupted by that.
            Cause::WouldBlock => {
                Err(CoordinatorError::Internal("a read that may block would block".to_owned()))
            }
            Cause::Unproven(name) => {
                let proven = self.local.proven(name, deadline, observer).await;
                proven.map_err(|error| CoordinatorError::of_read(consistency, 0, 1, 1, error.into()))
            }
        }
    }

    /// All rows of a command, as `take` makes something of them: in place if that goes without waiting, else
    /// by a thread that may wait for the disk.
    ///
    /// # Errors
    /// Those of [`Coordinator::read`].
    pub async fn collect<T: Send + 'static>(
        self: &Arc<Self>,
        request: &ReadRequest,
        take: impl Fn(&mut Page) -> Result<T, PullError> + Clone + Send + 'static,
        deadline: Option<&Deadline>,
        observer: &mut dyn ReadObserver,
    ) -> Result<T, CoordinatorError> {
        loop {
            match self.collect_once(request, take.clone(), deadline, observer).await {
                Ok(collected) => return Ok(collected),
                Err(PullError::Failed(error)) => return Err(error),
                Err(PullError::Interrupted(interruption)) => {
                    self.resumed(interruption, deadline, observer).await?;
                }
            }
        }
    }

    /// As [`Coordinator::collect`], for who holds locks: what the read has to wait for is handed out, unless
    /// that is the disk.
    pub(crate) async fn collect_once<T: Send + 'static>(
        self: &Arc<Self>,
        request: &ReadRequest,
        take: impl Fn(&mut Page) -> Result<T, PullError> + Send + 'static,
        deadline: Option<&Deadline>,
        observer: &mut dyn ReadObserver,
    ) -> Result<T, PullError> {
        let in_place = ReadRequest { context: short(request.context.clone()), ..request.clone() };
        match self.open_local(in_place).and_then(|page| page.map(|mut page| take(&mut page)).transpose()) {
            Ok(None) | Err(PullError::Interrupted(Interruption { cause: Cause::WouldBlock, .. })) => {}
            Ok(Some(collected)) => return Ok(collected),
            Err(error) => return Err(error),
        }
        let work = Collecting { request: request.clone(), take };
        // Most find all in place, and have no room for this.
        Box::pin(self.read_once(work, request.consistency, deadline, observer)).await.1
    }
}

/// A read of all rows, of which a closure makes something.
struct Collecting<F> {
    request: ReadRequest,
    take: F,
}

impl<T, F> ReadWork for Collecting<F>
where
    T: Send + 'static,
    F: Fn(&mut Page) -> Result<T, PullError> + Send + 'static,
{
    type Output = T;
    type Error = PullError;

    fn begin(&mut self) -> ReadContext {
        self.request.context.clone()
    }

    async fn carry_out(self, context: ReadContext, pages: Pages) -> (Self, Result<T, PullError>) {
        let request = ReadRequest { context, ..self.request.clone() };
        let collected = match pages.open(request).await {
            Ok(mut page) => (self.take)(&mut page),
            Err(error) => Err(error),
        };
        (self, collected)
    }

    fn interruption(error: PullError) -> Result<Interruption, PullError> {
        match error {
            PullError::Interrupted(interruption) => Ok(interruption),
            failed => Err(failed),
        }
    }
}

/// A read that the pool did not carry out.
pub(super) fn of_readers(error: ReaderError, consistency: Consistency) -> CoordinatorError {
    match error {
        ReaderError::TimedOut => CoordinatorError::of_read(consistency, 0, 1, 0, ReplicaError::TimedOut),
        ReaderError::Overloaded => CoordinatorError::Overloaded(error.to_string()),
        ReaderError::Abandoned => CoordinatorError::Internal(error.to_string()),
    }
}

/// Opens a page of this node's data.
fn open(local: &LocalReplica, legs: &Legs, request: ReadRequest) -> Result<Page, PullError> {
    let ReadRequest { command, consistency, page, context, .. } = request;
    let context = ReadContext { rows_wanted: rows_wanted(&command, &page), ..context };
    let stream = |leg: &Leg| {
        let opened = match &leg.scan {
            None => local.stream(&leg.command, &context),
            Some(scan) => {
                let context = ReadContext { scan: Some(Arc::clone(scan)), ..context.clone() };
                local.stream(&leg.command, &context)
            }
        };
        opened.map_err(|error| PullError::of_one(consistency, error))
    };
    let stream: BoxedStream = match legs.legs.as_slice() {
        [only] => stream(only)?,
        several => {
            let streams = several.iter().map(stream).collect::<Result<SmallVec<[BoxedStream; 2]>, _>>()?;
            let mut streams = streams.into_iter();
            Box::new(concat(move || Ok(streams.next())))
        }
    };
    Ok(Page::local(legs.resume(LiveRows::new(stream, command, context, page)), consistency))
}
