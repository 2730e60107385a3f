//! Room for answers: bytes that a connection, its address and the node may have for those that are made or
//! not sent.
//!
//! 1. A read takes room when a thread begins with it, more as its answer grows ([`AnswerRoom::reach`]), and
//!    hands the room over with the answer; it is given back as the socket takes the bytes
//!    ([`Connection::settle`]).
//! 2. A read that finds no room ends, gives all of it back, and waits on no thread
//!    ([`AnswerRoom::wait_for_turn`], [`AnswerRoom::wait_for_room`]). Of those that the connection has no
//!    room for, one at a time goes on regardless, in the order in which they came.
//! 3. Of those that the address or the node has no room for, one at a time goes on, until its answer is sent.
//!    So any answer gets through, however large, and all take at most what is set and one answer more.
//! 4. While somebody waits so, a client that hardly takes what waits for it is disconnected
//!    ([`super::pace`]).
//!
//! The exception: short answers, which are made on the network thread, take no room. What the socket does not
//! take of them counts, and while there is no room their connections are not read.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::Connection;

/// Room for one answer, given back when it is dropped.
#[derive(Debug)]
pub struct AnswerRoom {
    connection: Arc<Connection>,
    bytes: u64,
    /// Goes on where the connection has no room.
    turn: Option<OwnedSemaphorePermit>,
    /// Goes on where the address or the node has none.
    pass: Option<OwnedSemaphorePermit>,
}

/// There is no room for so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// Bytes of the answer.
    wanted: u64,
    /// Whether the connection would have had it.
    is_shared: bool,
}

impl AnswerRoom {
    /// No room yet.
    pub fn new(connection: &Arc<Connection>) -> AnswerRoom {
        AnswerRoom { connection: Arc::clone(connection), bytes: 0, turn: None, pass: None }
    }

    /// Bytes that it has.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes room until it has `bytes`. What it had it keeps in any case.
    ///
    /// # Errors
    /// When there is none.
    pub fn reach(&mut self, bytes: u64) -> Result<(), NoRoom> {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else { return Ok(()) };
        let no_room = |is_shared| NoRoom { wanted: bytes, is_shared };
        let [own, shared @ ..] = self.connection.answer_budgets();
        if self.turn.is_some() {
            own.take(more);
        } else if !own.try_take_more(self.bytes, more) {
            return Err(no_room(false));
        }
        for (at, budget) in shared.iter().enumerate() {
            if self.pass.is_some() {
                budget.take(more);
            } else if !budget.try_take_more(self.bytes, more) {
                shared.iter().take(at).for_each(|taken| taken.give_back(more));
                own.give_back(more);
                return Err(no_room(true));
            }
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Gives back all but `bytes`.
    pub fn shrink(&mut self, bytes: u64) {
        let Some(less) = self.bytes.checked_sub(bytes).filter(|less| *less > 0) else { return };
        self.connection.answer_budgets().iter().for_each(|budget| budget.give_back(less));
        self.bytes = bytes;
    }

    /// Gives all back and waits until it is this answer's turn to go on without room of the connection, and
    /// until the client has read most of its earlier answers; `false` when the client is gone.
    pub async fn wait_for_turn(&mut self) -> bool {
        self.shrink(0);
        if self.turn.is_none() {
            self.turn = Arc::clone(&self.connection.answer_turn).acquire_owned().await.ok();
        }
        self.connection.room().await
    }

    /// Waits until the address and the node have room, or it is this answer's turn to go on without.
    pub async fn wait_for_room(&mut self, NoRoom { wanted, is_shared }: NoRoom) {
        if !is_shared || self.pass.is_some() {
            return;
        }
        let connection = Arc::clone(&self.connection);
        let [address, node] = connection.shared_budgets().map(|budgets| &budgets.answers);
        let pass = Arc::clone(&connection.node().answers_pass).acquire_owned();
        tokio::pin!(pass);
        loop {
            let (address_freed, node_freed) = (address.freed(), node.freed());
            let has_room = [address, node].map(|budget| budget.has_room(wanted));
            if has_room == [true, true] {
                return;
            }
            let _held_up =
                ((!has_room[0]).then(|| address.hold_up()), (!has_room[1]).then(|| node.hold_up()));
            tokio::select! {
                pass = &mut pass => {
                    self.pass = pass.ok();
                    return;
                }
                () = address_freed => {}
                () = node_freed => {}
            }
        }
    }

    /// What of it goes with the answer: its bytes, and what is held until all is sent.
    pub(super) fn hand_over(&mut self) -> (u64, Option<OwnedSemaphorePermit>) {
        (std::mem::take(&mut self.bytes), self.pass.take())
    }
}

impl Drop for AnswerRoom {
    fn drop(&mut self) {
        self.shrink(0);
    }
}
