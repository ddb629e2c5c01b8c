//! Flags of `selvedge simulate` for the hardware.

use clap::{Args, ValueEnum};
use selvedge_dataplane::{
    Buffers, BuildError, LinkRate, LongHaul, Operation, QpSettings, Queueing, Settings, SlChoice, Transport, VlArb,
};
use selvedge_fabric::Fabric;
use selvedge_types::Mtu;

use crate::exit::CliError;
use crate::simulate::{change, time_ns};

/// What the hardware is like.
#[derive(Args, Debug)]
pub struct HardwareArgs {
    /// Largest payload of a packet: 256, 512, 1024, 2048 or 4096 bytes
    #[arg(long, value_name = "BYTES", default_value_t = 2_048)]
    pub mtu: u16,
    /// Rate of every link, as 4x-hdr; default: the rates of the fabric
    #[arg(long, value_name = "RATE")]
    link: Option<String>,
    /// Data lanes in use
    #[arg(long, value_name = "1-15", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=15))]
    pub vls: u8,
    /// Where service levels come from
    #[arg(long, value_enum, value_name = "HOW", default_value_t = SlArg::Routing)]
    pub sl: SlArg,
    /// How packets wait at the inputs of switches
    #[arg(long, value_enum, value_name = "HOW", default_value_t = QueueArg::Fifo)]
    queue: QueueArg,
    /// Packets that an input may send into the crossbar at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    speedup: u8,
    /// Blocks of 64 bytes that each lane of an input has; default: 128, or four packets
    #[arg(long, value_name = "BLOCKS")]
    buffer: Option<u32>,
    /// Blocks of 64 bytes in the pool that all lanes of an input share
    #[arg(long, value_name = "BLOCKS", default_value_t = 0)]
    shared_buffer: u32,
    /// Largest number of blocks of this pool that one lane may hold; default: all
    #[arg(long, value_name = "BLOCKS", requires = "shared_buffer")]
    shared_buffer_per_vl: Option<u32>,
    /// Time of a packet in a cable, one way
    #[arg(long, value_name = "TIME", default_value = "25ns", value_parser = time_ns)]
    cable_delay: u64,
    /// A cable of kilometres, as `"S-A"[9] 50us 16384`: one end, delay one way (5us a kilometre), and the blocks of 64
    /// bytes that each lane has at each end, at most 65535
    #[arg(long, value_name = "PORT TIME BLOCKS")]
    long_haul: Vec<String>,
    /// Delay of an idle switch, from first byte in to first byte out
    #[arg(long, value_name = "TIME", default_value = "100ns", value_parser = time_ns)]
    switch_delay: u64,
    /// From the end of a packet in a buffer to its credits on their way back
    #[arg(long, value_name = "TIME", default_value = "0ns", value_parser = time_ns)]
    credit_delay: u64,
    /// Every packet has a global route header, 40 bytes
    #[arg(long)]
    grh: bool,
    /// Arbitration of low priority, lanes and weights in units of 64 bytes, as 0:33,1:99; default: lanes take turns
    #[arg(long, value_name = "VL:WEIGHT,…", value_parser = weights)]
    vlarb_low: Option<Weights>,
    /// Arbitration of high priority, as 1:255
    #[arg(long, value_name = "VL:WEIGHT,…", value_parser = weights)]
    vlarb_high: Option<Weights>,
    /// Units of 4,096 bytes of high priority before a low packet may go; 0: one packet; 255: unlimited
    #[arg(long, value_name = "0-255", default_value_t = 0)]
    vlarb_limit: u8,
    /// Messages that may wait on a lane of a host; more are missed, and counted
    #[arg(long, value_name = "MESSAGES", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    source_queue: u32,
    /// Head-of-queue lifetime: 4.096 us times 2 to the power of this; 20: infinite
    #[arg(long, value_name = "0-20", default_value_t = 18)]
    hoq_life: u8,
    /// Switch lifetime, coded alike
    #[arg(long, value_name = "0-20", default_value_t = 18)]
    switch_life: u8,
}

/// What carries messages.
#[derive(Args, Debug)]
pub struct TransportArgs {
    /// Packets as they are, or queue pairs between all hosts that talk to each other
    #[arg(long, value_enum, value_name = "HOW", default_value_t = TransportArg::None)]
    transport: TransportArg,
    /// Local ACK time-out of reliable connections: 4.096 us times 2 to the power of this; 0: never
    #[arg(long, value_name = "0-31", default_value_t = 14, value_parser = clap::value_parser!(u8).range(0..=31))]
    ack_timeout: u8,
    /// Times that a packet is sent again before the pair goes to ERROR
    #[arg(long, value_name = "0-7", default_value_t = 7, value_parser = clap::value_parser!(u8).range(0..=7))]
    retries: u8,
    /// Packets of a reliable connection that may be in flight before it waits for an acknowledgement
    #[arg(long, value_name = "PACKETS", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    qp_window: u32,
    /// Number of packets after which an acknowledgement is requested; also requested for the last packet of a message
    #[arg(long, value_name = "PACKETS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    ack_every: u32,
    /// Time in which a host answers a packet with an acknowledgement
    #[arg(long, value_name = "TIME", default_value = "200ns", value_parser = time_ns)]
    ack_delay: u64,
    /// Operation of the messages of connections; a write has 16 bytes more in its first packet
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OperationArg::Send)]
    operation: OperationArg,
}

/// [`Operation`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OperationArg {
    /// SEND
    Send,
    /// RDMA WRITE
    Write,
}

/// [`Transport`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TransportArg {
    /// Packets without connections
    None,
    /// Unreliable connections
    Uc,
    /// Reliable connections
    Rc,
}

/// [`SlChoice`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SlArg {
    /// The engine's level for the destination
    Routing,
    /// A hash of the destination, over all lanes
    DestHash,
    /// Any level, drawn for each message
    Random,
    /// A hash of source and destination
    Flow,
}

/// [`Queueing`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum QueueArg {
    /// One queue per lane
    Fifo,
    /// One queue per output and lane
    Voq,
}

/// A table of arbitration.
#[derive(Clone, Debug)]
struct Weights(Vec<(u8, u8)>);

fn weights(text: &str) -> Result<Weights, String> {
    let entry = |entry: &str| {
        let (vl, weight) = entry.split_once(':')?;
        Some((vl.trim().parse().ok()?, weight.trim().parse().ok()?))
    };
    let entries: Option<Vec<_>> = text.split(',').map(entry).collect();
    let wrong = || format!("'{text}' is no table; want lanes and weights (0-255), as 0:33,1:99");
    entries
        .filter(|entries| entries.len() <= 64)
        .map(Weights)
        .ok_or_else(wrong)
}

impl HardwareArgs {
    /// Returns the settings of these flags; all other settings have defaults.
    pub fn settings(&self) -> Result<Settings, CliError> {
        let usage = |what| CliError::Usage { what };
        let table = |weights: &Option<Weights>| weights.clone().map(|weights| weights.0).unwrap_or_default();
        Ok(Settings {
            link: self.link.as_deref().map(str::parse::<LinkRate>).transpose()?,
            mtu: Mtu::try_from(self.mtu).map_err(|what| usage(format!("--mtu: {what}")))?,
            grh: self.grh,
            vls: self.vls,
            buffers: Buffers {
                per_vl_blocks: self.buffer,
                shared_blocks: self.shared_buffer,
                shared_per_vl_blocks: self.shared_buffer_per_vl,
            },
            queueing: match self.queue {
                QueueArg::Fifo => Queueing::Fifo,
                QueueArg::Voq => Queueing::Voq,
            },
            speedup: self.speedup,
            cable_delay_ns: self.cable_delay,
            switch_delay_ns: self.switch_delay,
            credit_delay_ns: self.credit_delay,
            vl_arb: VlArb {
                high: table(&self.vlarb_high),
                low: table(&self.vlarb_low),
                high_limit: self.vlarb_limit,
            },
            sl: match self.sl {
                SlArg::Routing => SlChoice::Routing,
                SlArg::DestHash => SlChoice::DestHash,
                SlArg::Random => SlChoice::Random,
                SlArg::Flow => SlChoice::Flow,
            },
            hoq_life: self.hoq_life,
            switch_life: self.switch_life,
            source_queue: self.source_queue,
            ..Settings::default()
        })
    }
}

impl HardwareArgs {
    /// Adds the long cables of a fabric, and checks the settings.
    pub fn with_cables(&self, settings: Settings, fabric: &Fabric) -> Result<Settings, CliError> {
        let cables: Result<Vec<_>, _> = self.long_haul.iter().map(|text| long_haul(text, fabric)).collect();
        let settings = Settings {
            long_haul: cables?,
            ..settings
        };
        settings.check().map_err(BuildError::from)?;
        Ok(settings)
    }
}

/// Reads a long cable: `"S-A"[9] 50us 16384`.
fn long_haul(text: &str, fabric: &Fabric) -> Result<LongHaul, CliError> {
    let wrong = |what: &str| CliError::Usage {
        what: format!("--long-haul '{text}': {what}; want a port, a delay and blocks, as \"S-A\"[9] 50us 16384"),
    };
    let mut words = text.trim().rsplitn(3, ' ');
    let (Some(blocks), Some(delay), Some(name)) = (words.next(), words.next(), words.next()) else {
        return Err(wrong("a part is missing"));
    };
    Ok(LongHaul {
        at: change::port(name.trim(), fabric).ok_or_else(|| wrong("there is no such port"))?,
        delay_ns: time_ns(delay).map_err(|what| wrong(&what))?,
        per_vl_blocks: blocks.parse().map_err(|_| wrong("the blocks are no number"))?,
    })
}

impl TransportArgs {
    /// Adds the settings of these flags.
    pub fn settings(&self, settings: Settings) -> Settings {
        Settings {
            transport: match self.transport {
                TransportArg::None => Transport::None,
                TransportArg::Uc => Transport::Uc,
                TransportArg::Rc => Transport::Rc,
            },
            qp: QpSettings {
                ack_timeout: self.ack_timeout,
                retry_count: self.retries,
                window_packets: self.qp_window,
                ack_every: self.ack_every,
                ack_delay_ns: self.ack_delay,
                operation: match self.operation {
                    OperationArg::Send => Operation::Send,
                    OperationArg::Write => Operation::Write,
                },
            },
            ..settings
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    #[test]
    fn a_long_cable_is_read_and_mistakes_are_named() {
        let fabric = load::fabric("clusters:hosts=8").unwrap();
        let read = |text: &str| long_haul(text, &fabric);
        let long = read("\"S-A\"[9] 50us 16384").unwrap();
        assert_eq!(
            (long.at.port.get(), long.delay_ns, long.per_vl_blocks),
            (9, 50_000, 16_384)
        );
        let check = |text: &str, want: &str| {
            let error = read(text).unwrap_err().to_string();
            assert!(
                error.contains(want) && error.contains("as \"S-A\"[9] 50us 16384"),
                "{error}"
            );
        };
        check("\"S-A\"[9] 50us", "a part is missing");
        check("\"S-C\"[9] 50us 16384", "there is no such port");
        check("\"S-A\"[9] 50 16384", "is no time");
        check("\"S-A\"[9] 50us many", "the blocks are no number");
    }

    #[test]
    fn tables_of_arbitration() {
        let check = |text: &str, want: Option<&[(u8, u8)]>| {
            let found = weights(text).ok().map(|weights| weights.0);
            assert_eq!(found.as_deref(), want, "{text}");
        };
        check("0:33,1:99", Some(&[(0, 33), (1, 99)]));
        check("3: 255", Some(&[(3, 255)]));
        check("0:256", None);
        check("0", None);
        check("", None);
        check(&["0:1"; 65].join(","), None);
    }
}
