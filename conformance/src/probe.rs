//! A client of our own, for requests that no diagnostic sends: for example, to change an entry of a forwarding table.

use std::time::Duration;

use selvedge_transport::ibsim::IbsimPort;
use selvedge_types::{Lid, Sl, TransactionId};
use selvedge_wire::{Address, Arrival, AttributeId, Class, Datagram, Mad, MadPort, Method, PortInfo, SmInfo, SmpData};

use crate::LabError;

/// Limit for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Limit for an answer from a node that may be absent.
const SOON: Duration = Duration::from_secs(1);
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

    /// Reads the block of a switch's table that has the entry for `lid`. `switch` is the LID of the switch.
    pub fn block(&mut self, switch: u16, lid: u16) -> Result<SmpData, LabError> {
        self.ask(Method::Get, (switch, lid / BLOCK), &[0; BLOCK as usize])
    }

    /// Writes one entry into a switch's table without the knowledge of the manager.
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

    /// Returns SMInfo of the manager at a LID, or `None` if there is no manager.
    pub fn sm_info(&mut self, lid: u16) -> Result<Option<SmInfo>, LabError> {
        let mad = Mad::request(Class::SubnLid, Method::Get, AttributeId::SM_INFO, 0);
        let answer = self.exchange(lid, mad)?;
        let is_ok = answer.is_some_and(|mad| mad.status().0 == 0);
        Ok(answer.filter(|_| is_ok).and_then(|mad| mad.read().ok()))
    }

    /// Returns PortInfo of the channel adapter's port at a LID, or `None` if the port does not answer.
    pub fn port_info(&mut self, lid: u16) -> Result<Option<PortInfo>, LabError> {
        let mad = Mad::request(Class::SubnLid, Method::Get, AttributeId::PORT_INFO, 0);
        Ok(self.exchange(lid, mad)?.and_then(|mad| mad.read().ok()))
    }

    /// Sends a MAD of subnet administration to the administrator at a LID. Returns the answer, or `None` if there is
    /// none.
    pub fn administration(&mut self, lid: u16, mad: Mad) -> Result<Option<Mad>, LabError> {
        self.exchange_with(Address::gsi(Lid(lid), Sl::default()), mad)
    }

    /// Sends a MAD to the subnet management agent, or manager, at a LID. Returns the answer, or `None` if there is
    /// none.
    fn exchange(&mut self, lid: u16, mad: Mad) -> Result<Option<Mad>, LabError> {
        self.exchange_with(Address::smi(Lid(lid)), mad)
    }

    /// Sends a request and waits for the answer. Returns `None` if there is no answer in time.
    fn exchange_with(&mut self, address: Address, mut mad: Mad) -> Result<Option<Mad>, LabError> {
        let failed = |error: selvedge_wire::PortError| LabError::Probe {
            cause: error.to_string(),
        };
        self.transaction += 1;
        let id = TransactionId(self.transaction);
        mad.set_transaction(id);
        self.port.send(&Datagram { address, mad }, SOON).map_err(failed)?;
        loop {
            match self.port.receive(SOON).map_err(failed)? {
                Some(Arrival::Received(answer)) if answer.mad.transaction() == id => return Ok(Some(answer.mad)),
                Some(Arrival::Received(_)) => {}
                Some(Arrival::Returned(_)) | None => return Ok(None),
            }
        }
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
