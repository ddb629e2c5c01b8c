"""Prints MADs of the vendor class of this project, laid out here and not by its Rust code: python3 vendor.py > vendor.txt

Offsets are those of the drawings in src/attribute/port_ber.rs and src/attribute/cable_info.rs.
"""

import struct


def mad(title, method, attribute, data):
    header = struct.pack(">BBBBHHQHHI", 1, 0x4C, 1, method, 0, 0, 0x1122334455667788, attribute, 0, 0)
    rmpp, oui = bytes(12), b"\0\x02\x53\x4c"
    whole = header + rmpp + oui + bytes(24) + data
    print("#", title)
    print("<" if method & 0x80 else ">", (whole + bytes(256 - len(whole))).hex())


mad("PortBer, a request for port 36", 0x01, 0x10, struct.pack(">BB", 0, 36))
mad(
    "PortBer, raw 2e-5, effective 15e-13, errors 2^40 + 1 and 77",
    0x81,
    0x10,
    struct.pack(">BBHHBxHBxxxxxQQ", 0, 36, 0, 2, 5, 15, 13, 2**40 + 1, 77),
)
mad(
    "CableInfo, active optical, 10 m, -0.5 C, 3.3 V, lanes 5001 and up, 6001 and up",
    0x81,
    0x11,
    struct.pack(">BBBBHhHH", 0, 36, 3, 4, 100, -128, 33000, 0)
    + struct.pack(">16s16s16s4s", b"Acme", b"AOC-10M", b"SN0000000000001X", b"A1")
    + struct.pack(">8H", *range(5001, 5009))
    + struct.pack(">8H", *range(6001, 6009)),
)
