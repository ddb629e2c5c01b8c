//! Datagrams that managers have sent.

use selvedge_sim::Time;
use selvedge_sm::Output;

use crate::digest::Digest;
use crate::manager::ManagerId;

/// The datagrams that managers have sent: as a digest, and as text with the events of managers if requested.
#[derive(Debug, Default)]
pub(crate) struct WireLog {
    pub digest: Digest,
    pub lines: Option<Vec<String>>,
}

impl WireLog {
    /// Adds an output, unless only people read it or it stays in the manager's process.
    pub fn take(&mut self, now: Time, id: ManagerId, output: &Output) {
        let digest = self.digest.number(now.0).number(id.0 as u64);
        let (digest, what) = match output {
            Output::Send { datagram, .. } => {
                let address = datagram.address;
                let to = u64::from(address.lid.0) << 40 | u64::from(address.qp) << 8 | u64::from(address.sl.get());
                let digest = digest.number(1).number(to).bytes(datagram.mad.as_bytes());
                let text = |digest: Digest| format!("sends to LID {}: {} {:016x}", address.lid, datagram.mad, digest.0);
                let bytes = || Digest::default().bytes(datagram.mad.as_bytes());
                (digest, self.lines.is_some().then(|| text(bytes())))
            }
            Output::Persist { state, .. } => {
                let text = || format!("stores {:016x}: {state:?}", Digest::default().state(state).0);
                (digest.number(2).state(state), self.lines.is_some().then(text))
            }
            Output::SetIsSm(is_sm) => {
                let text = || format!("sets IsSM {is_sm}");
                (
                    digest.number(3).number((*is_sm).into()),
                    self.lines.is_some().then(text),
                )
            }
            // Not part of the digest.
            Output::Event(event) => {
                let text = || format!("{} manager {} reports {} {event}", now.0, id.0, event.code());
                self.lines.iter_mut().for_each(|lines| lines.push(text()));
                return;
            }
            Output::Compute(_) | Output::Milestone(_) => return,
        };
        self.digest = digest;
        if let (Some(lines), Some(what)) = (&mut self.lines, what) {
            lines.push(format!("{} manager {} {what}", now.0, id.0));
        }
    }
}
