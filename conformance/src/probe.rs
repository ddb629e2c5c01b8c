//! A client of our own that reads and writes forwarding tables, for what no diagnostic does.

use std::time::Duration;

use selvedge_transport::ibsim::IbsimPort;
use selvedge_types::{Lid, TransactionId};
use selvedge_wire::{Address, Arrival, AttributeId, Class, Datagram, Mad, MadPort, Method, SmpData};

use crate::LabError;

/// For one answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Entries of a block. Source: IBA vol 1 §14.2.5.10.
pub(crate) const BLOCK: u16 = 64;

/// A client at a node of a simulator.
pub struct Probe {
    port: IbsimPort,
    transaction: u64,
}

impl Probe {
    /// Attaches to a node of the simulator, or relay, named `base`.
    pub fn open(base: &str, node: &str) -> Result<Self, LabError> {
        let port = IbsimPort::open(base, node).map_err(|error| LabError::Probe {
            cause: error.to_string(),
        })?;
        Ok(Self { port, transaction: 0 })
    }

    /// Reads the block of a switch's table that has the entry for `lid`; asked by LID.
    pub fn block(&mut self, switch: u16, lid: u16) -> Result<SmpData, LabError> {
        self.ask(Method::Get, (switch, lid / BLOCK), &[0; BLOCK as usize])
    }

    /// Writes one entry into a switch's table, behind its manager's back.
    pub fn corrupt(&mut self, switch: u16, lid: u16, exit: u8) -> Result<(), LabError> {
        let mut block = self.block(switch, lid)?;
        block[usize::from(lid % BLOCK)] = exit;
        let taken = self.ask(Method::Set, (switch, lid / BLOCK), &block)?;
        if taken == block {
            return Ok(());
        }
        Err(LabError::Probe {
            cause: format!("switch {switch} does not take exit {exit} for LID {lid}"),
        })
    }

    fn ask(&mut self, method: Method, (switch, block): (u16, u16), data: &SmpData) -> Result<SmpData, LabError> {
        let failed = |cause: String| LabError::Probe { cause };
        self.transaction += 1;
        let mut mad = Mad::request(Class::SubnLid, method, AttributeId::LINEAR_FORWARDING, block.into());
        mad.set_transaction(TransactionId(self.transaction));
        mad.set_smp_data(data);
        let address = Address::smi(Lid(switch));
        let sent = self.port.send(&Datagram { address, mad }, PATIENCE);
        sent.map_err(|error| failed(error.to_string()))?;
        match self.port.receive(PATIENCE).map_err(|error| failed(error.to_string()))? {
            Some(Arrival::Received(answer)) => Ok(*answer.mad.smp_data()),
            other => Err(failed(format!(
                "switch {switch} does not answer {method:?} of block {block}: {other:?}"
            ))),
        }
    }
}
