//! libibumad, loaded at run time: its functions, its structures, and safe calls.
//!
//! Source: rdma-core `libibumad/umad.h` (ABI of `libibumad.so.3`).

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::io;
use std::sync::OnceLock;

use libloading::Library;
use selvedge_types::{Guid, PortNum};
use selvedge_wire::{MAD_LEN, PortError};

/// Name of the library; `.3` is its ABI version.
const LIBRARY: &str = "libibumad.so.3";
const ADVICE_INSTALL: &str = "install libibumad3 (Debian) or libibumad (Fedora), or use a simulated fabric";
const ADVICE_PORT: &str = "see 'ibstat' for the ports of this machine; is the kernel module ib_umad loaded?";

const NAME_LEN: usize = 20;
const PORTS_MAX: usize = 10;
const CAS_MAX: usize = 32;
/// Length of the header that the library puts before a MAD: 64 bytes, 56 with kernels before 2.6.24.
const HEADER_MAX: usize = 64;
/// Words of a method mask.
const MASK_WORDS: usize = 16 / size_of::<c_long>();

#[repr(C)]
struct RawPort {
    ca_name: [c_char; NAME_LEN],
    number: c_int,
    base_lid: u32,
    lmc: u32,
    sm_lid: u32,
    sm_sl: u32,
    state: u32,
    phys_state: u32,
    rate: u32,
    capability_be: u32,
    gid_prefix_be: u64,
    port_guid_be: u64,
    pkeys_size: u32,
    pkeys: *mut u16,
    link_layer: [c_char; NAME_LEN],
}

#[repr(C)]
struct RawCa {
    ca_name: [c_char; NAME_LEN],
    node_type: u32,
    ports_count: c_int,
    firmware: [c_char; 20],
    kind: [c_char; 40],
    hardware: [c_char; 20],
    node_guid_be: u64,
    system_guid_be: u64,
    ports: [*mut RawPort; PORTS_MAX],
}

/// Source and destination in the form of the library, in network order.
#[repr(C)]
struct RawAddress {
    qp_be: u32,
    qkey_be: u32,
    lid_be: u16,
    sl: u8,
}

type GetCasNames = unsafe extern "C" fn(*mut [c_char; NAME_LEN], c_int) -> c_int;
type GetCa = unsafe extern "C" fn(*const c_char, *mut RawCa) -> c_int;
type ReleaseCa = unsafe extern "C" fn(*mut RawCa) -> c_int;
type GetIssmPath = unsafe extern "C" fn(*const c_char, c_int, *mut c_char, c_int) -> c_int;
type OpenPort = unsafe extern "C" fn(*const c_char, c_int) -> c_int;
type ClosePort = unsafe extern "C" fn(c_int) -> c_int;
type Register = unsafe extern "C" fn(c_int, c_int, c_int, u8, *mut c_long) -> c_int;
type Unregister = unsafe extern "C" fn(c_int, c_int) -> c_int;
type SetAddress = unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int, c_int) -> c_int;
type GetPart = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Size = unsafe extern "C" fn() -> usize;
type Status = unsafe extern "C" fn(*mut c_void) -> c_int;
type Send = unsafe extern "C" fn(c_int, c_int, *mut c_void, c_int, c_int, c_int) -> c_int;
type Receive = unsafe extern "C" fn(c_int, *mut c_void, *mut c_int, c_int) -> c_int;
type Poll = unsafe extern "C" fn(c_int, c_int) -> c_int;

/// The library's functions; they stay valid because the library is never unloaded.
pub struct Umad {
    get_cas_names: GetCasNames,
    get_ca: GetCa,
    release_ca: ReleaseCa,
    get_issm_path: GetIssmPath,
    open_port: OpenPort,
    close_port: ClosePort,
    register: Register,
    unregister: Unregister,
    set_address: SetAddress,
    get_mad: GetPart,
    get_address: GetPart,
    size: Size,
    status: Status,
    send: Send,
    receive: Receive,
    poll: Poll,
}

/// A channel adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaInfo {
    /// Name of the adapter, such as `mlx5_0`.
    pub name: String,
    /// GUID of the node.
    pub node_guid: Guid,
    /// Ports of the adapter.
    pub ports: Vec<CaPort>,
}

/// A port of a channel adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaPort {
    /// Number of the port; 0 on switches.
    pub number: PortNum,
    /// GUID of the port.
    pub guid: Guid,
    /// Port state as in PortInfo: 1 down, 2 init, 3 armed, 4 active.
    pub state: u8,
    /// True for an InfiniBand port; HCAs can have Ethernet ports too.
    pub is_infiniband: bool,
}

/// A datagram in the form of the library.
pub(super) struct Buffer([u64; (HEADER_MAX + MAD_LEN) / 8]);

impl Buffer {
    /// Returns a buffer of zeros.
    pub(super) const fn new() -> Self {
        Self([0; (HEADER_MAX + MAD_LEN) / 8])
    }

    fn as_mut_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }
}

/// A datagram with its address, as the library reports it.
pub(super) struct Envelope {
    /// 0, or an errno: 110 if no response came.
    pub(super) status: i32,
    /// LID of the other end.
    pub(super) lid: u16,
    /// Queue pair of the other end.
    pub(super) qp: u32,
    /// Service level.
    pub(super) sl: u8,
    /// The datagram; zeros after the bytes that the library returned.
    pub(super) mad: [u8; MAD_LEN],
}

impl Umad {
    /// Returns the library, which the first call loads.
    pub fn load() -> Result<&'static Self, PortError> {
        static LOADED: OnceLock<Result<Umad, String>> = OnceLock::new();
        LOADED
            .get_or_init(Self::load_now)
            .as_ref()
            .map_err(|cause| PortError::Open {
                port: LIBRARY.to_owned(),
                cause: cause.clone(),
                advice: ADVICE_INSTALL,
            })
    }

    fn load_now() -> Result<Self, String> {
        let text = |error: libloading::Error| error.to_string();
        // SAFETY: loading runs the library's initialisers; libibumad has none, and its needs are libc only.
        let library = unsafe { Library::new(LIBRARY) }.map_err(text)?;
        // Kept for ever: function pointers into it live in a static.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: every type above is the prototype of the function of that name in umad.h, ABI 3, which the
        // library's file name fixes.
        unsafe {
            Ok(Self {
                get_cas_names: *library.get(c"umad_get_cas_names").map_err(text)?,
                get_ca: *library.get(c"umad_get_ca").map_err(text)?,
                release_ca: *library.get(c"umad_release_ca").map_err(text)?,
                get_issm_path: *library.get(c"umad_get_issm_path").map_err(text)?,
                open_port: *library.get(c"umad_open_port").map_err(text)?,
                close_port: *library.get(c"umad_close_port").map_err(text)?,
                register: *library.get(c"umad_register").map_err(text)?,
                unregister: *library.get(c"umad_unregister").map_err(text)?,
                set_address: *library.get(c"umad_set_addr").map_err(text)?,
                get_mad: *library.get(c"umad_get_mad").map_err(text)?,
                get_address: *library.get(c"umad_get_mad_addr").map_err(text)?,
                size: *library.get(c"umad_size").map_err(text)?,
                status: *library.get(c"umad_status").map_err(text)?,
                send: *library.get(c"umad_send").map_err(text)?,
                receive: *library.get(c"umad_recv").map_err(text)?,
                poll: *library.get(c"umad_poll").map_err(text)?,
            })
        }
    }

    /// Returns the channel adapters of this machine.
    #[must_use]
    pub fn list(&self) -> Vec<CaInfo> {
        let mut names = [[0; NAME_LEN]; CAS_MAX];
        // SAFETY: `names` has room for CAS_MAX names; the library terminates each.
        let count = unsafe { (self.get_cas_names)(names.as_mut_ptr(), CAS_MAX as c_int) };
        let count = usize::try_from(count).unwrap_or(0).min(CAS_MAX);
        names[..count]
            .iter()
            .filter_map(|name| self.ca(&text_of(name)))
            .collect()
    }

    /// Returns one adapter by name; `None` if there is none. Without any hardware the library makes up a name, so a
    /// name alone does not prove that the adapter exists.
    fn ca(&self, name: &str) -> Option<CaInfo> {
        let name = CString::new(name).ok()?;
        // SAFETY: all-zero is a valid RawCa: integers, characters and null pointers.
        let mut raw: RawCa = unsafe { std::mem::zeroed() };
        // SAFETY: `name` is terminated, `raw` has the layout of umad_ca_t and outlives the call.
        if unsafe { (self.get_ca)(name.as_ptr(), &raw mut raw) } < 0 {
            return None;
        }
        let ports = raw.ports.iter().filter_map(|&port| {
            // SAFETY: after success each entry is null or points to a umad_port_t that lives until release_ca.
            let port = unsafe { port.as_ref() }?;
            Some(CaPort {
                number: PortNum::new(u8::try_from(port.number).ok()?)?,
                guid: Guid(u64::from_be(port.port_guid_be)),
                state: u8::try_from(port.state).unwrap_or(0),
                is_infiniband: text_of(&port.link_layer) != "Ethernet",
            })
        });
        let info = CaInfo {
            name: text_of(&raw.ca_name),
            node_guid: Guid(u64::from_be(raw.node_guid_be)),
            ports: ports.collect(),
        };
        // SAFETY: `raw` was filled by get_ca and is released once.
        unsafe { (self.release_ca)(&raw mut raw) };
        Some(info)
    }

    /// Opens a port's device. The descriptor may only be used with libibumad, `poll` and `close`.
    pub(super) fn open(&self, ca: &str, port: PortNum) -> Result<c_int, PortError> {
        let failed = |cause: String| PortError::Open {
            port: format!("{ca}/{port}"),
            cause,
            advice: ADVICE_PORT,
        };
        let name = CString::new(ca).map_err(|error| failed(error.to_string()))?;
        // SAFETY: `name` is a terminated string that outlives the call.
        let fd = unsafe { (self.open_port)(name.as_ptr(), c_int::from(port.get())) };
        if fd < 0 {
            // libibumad returns -EIO for every error of open(2); errno has the real one.
            return Err(failed(io::Error::last_os_error().to_string()));
        }
        Ok(fd)
    }

    /// Closes a port's device.
    pub(super) fn close(&self, fd: c_int) {
        // SAFETY: only closes a descriptor; the caller owns it and does not use it again.
        unsafe { (self.close_port)(fd) };
    }

    /// Registers an agent for `class` that receives unsolicited datagrams of `methods`.
    pub(super) fn register(&self, fd: c_int, class: u8, version: u8, methods: &[u8]) -> io::Result<c_int> {
        let mut mask = [0; MASK_WORDS];
        let bits = c_long::BITS as usize;
        for &method in methods {
            if let Some(word) = mask.get_mut(usize::from(method) / bits) {
                *word |= 1 << (usize::from(method) % bits);
            }
        }
        // SAFETY: `mask` has the 16 bytes that the library copies.
        let agent = unsafe { (self.register)(fd, class.into(), version.into(), 0, mask.as_mut_ptr()) };
        if agent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(agent)
        }
    }

    /// Unregisters an agent.
    pub(super) fn unregister(&self, fd: c_int, agent: c_int) {
        // SAFETY: two integers; the error for a stale agent is ignored.
        unsafe { (self.unregister)(fd, agent) };
    }

    /// Returns the path of the device that sets IsSM while it is open.
    pub(super) fn issm_path(&self, ca: &str, port: PortNum) -> io::Result<CString> {
        let name = CString::new(ca).map_err(io::Error::other)?;
        let mut path = [0; 256];
        let (room, number) = (path.len() as c_int, c_int::from(port.get()));
        // SAFETY: `name` is terminated; `path` has `room` bytes, which the library terminates (snprintf).
        if unsafe { (self.get_issm_path)(name.as_ptr(), number, path.as_mut_ptr(), room) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(CString::new(text_of(&path)).unwrap_or_default())
    }

    /// Sends `envelope.mad` to the address in `envelope`; its status is ignored.
    pub(super) fn send(&self, fd: c_int, agent: c_int, envelope: &Envelope, timeout_ms: c_int) -> io::Result<()> {
        // Source: IBA vol 1 §3.5.3: QP1 has this well-known Q_Key; QP0 has none.
        const GSI_QKEY: u32 = 0x8001_0000;
        let qkey = if envelope.qp == 0 { 0 } else { GSI_QKEY };
        let mut buffer = Buffer::new();
        let raw = buffer.as_mut_ptr();
        let (lid, qp, sl) = (envelope.lid.into(), envelope.qp.cast_signed(), envelope.sl.into());
        // SAFETY: `buffer` holds the largest header and a MAD behind it, so `get_mad` points at MAD_LEN bytes in it.
        let result = unsafe {
            (self.set_address)(raw, lid, qp, sl, qkey.cast_signed());
            (self.get_mad)(raw).cast::<[u8; MAD_LEN]>().write(envelope.mad);
            (self.send)(fd, agent, raw, MAD_LEN as c_int, timeout_ms, 0)
        };
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Reads one datagram without waiting; `None` if there is none.
    pub(super) fn receive(&self, fd: c_int) -> io::Result<Option<Envelope>> {
        let mut buffer = Buffer::new();
        let raw = buffer.as_mut_ptr();
        let mut length = MAD_LEN as c_int;
        // SAFETY: the library writes at most its header and `length` bytes, for which `buffer` has room.
        let result = unsafe { (self.receive)(fd, raw, &raw mut length, 0) };
        if result < 0 {
            let error = io::Error::last_os_error();
            return if is_nothing(result, &error) {
                Ok(None)
            } else {
                Err(error)
            };
        }
        // SAFETY: all three read inside `buffer`: a header was written, and a MAD has room behind it. The address is
        // the library's ib_mad_addr_t, and RawAddress has the same first fields; it is 4-byte aligned in an 8-byte
        // aligned buffer; the MAD is bytes.
        let (status, address, mad) = unsafe {
            (
                (self.status)(raw),
                (self.get_address)(raw).cast::<RawAddress>().read_unaligned(),
                (self.get_mad)(raw).cast::<[u8; MAD_LEN]>().read_unaligned(),
            )
        };
        Ok(Some(Envelope {
            status,
            lid: u16::from_be(address.lid_be),
            qp: u32::from_be(address.qp_be),
            sl: address.sl,
            mad,
        }))
    }

    /// Waits at most `timeout_ms` for a datagram. Returns true if there is one.
    pub(super) fn poll(&self, fd: c_int, timeout_ms: c_int) -> io::Result<bool> {
        // SAFETY: two integers.
        let result = unsafe { (self.poll)(fd, timeout_ms) };
        if result == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        if result == -libc::ETIMEDOUT || is_nothing(result, &error) {
            return Ok(false);
        }
        Err(error)
    }

    /// Returns the length of the library's header before a MAD, in bytes.
    pub(super) fn header_len(&self) -> usize {
        // SAFETY: no arguments, returns a size.
        unsafe { (self.size)() }
    }
}

/// True for the results that mean "no datagram" or "interrupted by a signal".
fn is_nothing(result: c_int, error: &io::Error) -> bool {
    result == -libc::EAGAIN
        || matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::TimedOut
        )
}

/// Returns a NUL-terminated text from a fixed array.
fn text_of(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|&c| c.cast_unsigned()).chain([0]).collect();
    CStr::from_bytes_until_nul(&bytes).map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_the_librarys() {
        // Source: sizeof in a C program with umad.h on x86-64.
        assert_eq!(size_of::<RawPort>(), 112);
        assert_eq!(size_of::<RawCa>(), 208);
        assert_eq!(std::mem::offset_of!(RawAddress, lid_be), 8);
        assert_eq!(std::mem::offset_of!(RawAddress, sl), 10);
    }

    #[test]
    fn texts_end_at_nul_or_at_the_end() {
        let chars = |text: &str| text.bytes().map(|b| b.cast_signed()).collect::<Vec<c_char>>();
        assert_eq!(text_of(&chars("mlx5_0\0junk")), "mlx5_0");
        assert_eq!(text_of(&chars("full")), "full");
        assert_eq!(text_of(&[]), "");
    }
}
