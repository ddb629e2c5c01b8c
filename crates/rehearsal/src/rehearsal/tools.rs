//! Clients that are no managers: they send requests as a diagnostic tool would.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_emulator::{ClientId, Delivery};
use selvedge_types::TransactionId;
use selvedge_wire::{Datagram, Method};

use super::Rehearsal;
use crate::RehearsalError;

/// Tools that wait for answers.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    answers: BTreeMap<ClientId, Vec<Datagram>>,
    requests: u64,
    /// True while a tool waits for the answer to a Set.
    is_setting: bool,
}

impl Tools {
    /// True if one of the tools sends Sets.
    pub const fn is_setting(&self) -> bool {
        self.is_setting
    }

    /// Records a request of a tool, and returns its number.
    fn open(&mut self, client: ClientId) -> u64 {
        self.answers.insert(client, Vec::new());
        self.requests += 1;
        self.requests
    }

    /// Handles a datagram that arrives at a tool. Returns false if the receiver is no tool.
    pub(super) fn take(&mut self, delivery: &Delivery) -> bool {
        let answers = self.answers.get_mut(&delivery.client);
        let is_tool = answers.is_some();
        let is_answer = delivery.datagram.mad.method() == Method::GetResp;
        if let Some(answers) = answers.filter(|_| is_answer) {
            answers.push(delivery.datagram);
        }
        is_tool
    }

    fn is_answered(&self, client: ClientId) -> bool {
        self.answers.get(&client).is_some_and(|answers| !answers.is_empty())
    }

    fn close(&mut self, client: ClientId) -> Option<Datagram> {
        self.answers.remove(&client)?.first().copied()
    }
}

impl Rehearsal {
    /// Sends a request from an end port as a diagnostic tool would, and returns its answer, or `None` if there is none
    /// within a second. Changes by a tool's Set do not count as violations of a manager.
    pub fn ask(&mut self, from: &str, request: &Datagram) -> Result<Option<Datagram>, RehearsalError> {
        let client = self.emulator.attach_named(from)?;
        let number = self.tools.open(client);
        let mut request = *request;
        // Apart from the managers' transaction ids, which fit into 32 bits.
        request.mad.set_transaction(TransactionId(number << 32 | 0x7001));
        self.emulator.send(self.now, client, &request);
        self.tools.is_setting = request.mad.method() == Method::Set;
        let waited = self.run_until(Duration::from_secs(1), "an answer comes", |r| {
            r.tools.is_answered(client)
        });
        self.tools.is_setting = false;
        match waited {
            Ok(()) | Err(RehearsalError::Bound { .. }) => {}
            Err(other) => return Err(other),
        }
        self.emulator.detach(self.now, client);
        Ok(self.tools.close(client))
    }
}
