//! A thread that looks around when it is nudged, and now and then besides.

use crate::engine::Engine;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the thread looks when nobody nudges it.
const TICK: Duration = Duration::from_secs(60);

/// The thread, if it was started.
#[derive(Default)]
pub(crate) struct Patrol {
    nudged: Mutex<bool>,
    changed: Condvar,
    stopping: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Patrol {
    /// Starts the thread, and makes it look. It holds the engine only while it does.
    pub(crate) fn start(
        self: &Arc<Self>,
        name: &str,
        engine: &Arc<Engine>,
        look: impl Fn(&Engine) + Send + 'static,
    ) -> io::Result<()> {
        let (this, weak) = (Arc::clone(self), Arc::downgrade(engine));
        let builder = std::thread::Builder::new().name(name.to_owned());
        *self.thread.lock() = Some(builder.spawn(move || this.work(&weak, look))?);
        self.nudge();
        Ok(())
    }

    /// Whether there is a thread.
    pub(crate) fn is_started(&self) -> bool {
        self.thread.lock().is_some()
    }

    /// Makes the thread look.
    pub(crate) fn nudge(&self) {
        *self.nudged.lock() = true;
        self.changed.notify_all();
    }

    /// Ends the thread; what it waits for besides has to be stopped before.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.nudge();
        let thread = self.thread.lock().take();
        if let Some(handle) = thread.filter(|handle| handle.thread().id() != std::thread::current().id()) {
            let _ = handle.join();
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn work(&self, engine: &Weak<Engine>, look: impl Fn(&Engine)) {
        loop {
            {
                let mut nudged = self.nudged.lock();
                if !*nudged && !self.is_stopping() {
                    self.changed.wait_for(&mut nudged, TICK);
                }
                *nudged = false;
            }
            if self.is_stopping() {
                return;
            }
            let Some(engine) = engine.upgrade() else { return };
            look(&engine);
        }
    }
}
