#!/usr/bin/env python3
"""Captures what OpenSM answers to saquery about every record, on ibsim; see README.md.

usage: capture_administration.py [UMAD2SIM_LIBRARY] > administration.txt
"""

import pathlib
import struct
import sys
import tempfile

from capture import SIGNS, Bench, Joiner, wait


class Client(Joiner):
    """Registers a service and a subscription: no program of the peers does that and stays."""

    def register(self, attribute, mask, record):
        header = struct.pack(">BBBBHHQHHI", 1, 0x03, 2, 2, 0, 0, attribute, attribute, 0, 0)
        return self.ask(struct.unpack("=H", self.manager)[0], 1, header + bytes(24) + struct.pack(">Q", mask) + record)

    def prepare(self):
        header = struct.pack(">BBBBHBBQHHI", 1, 0x81, 1, 1, 0, 0, 0, 7, 0x0011, 0, 0)
        self.guid = self.ask(0xFFFF, 0, header + bytes(8) + b"\xff\xff\xff\xff")[64 + 20 : 64 + 28]
        header = struct.pack(">BBBBHBBQHHI", 1, 0x81, 1, 1, 0, 0, 0, 8, 0x0015, 0, 0)
        self.manager = self.ask(0xFFFF, 0, header + bytes(8) + b"\xff\xff\xff\xff")[64 + 18 : 64 + 20]

    def service(self):
        gid = bytes.fromhex("fe80000000000000") + self.guid
        record = struct.pack(">Q16sHHI", 0x1122334455667788, gid, 0xFFFF, 0, 0xFFFFFFFF)
        record += bytes(range(16)) + b"a service".ljust(64, b"\0") + bytes(range(16)) + bytes(range(16, 64))
        return self.register(0x0031, (1 << 37) - 1 - 8, record)

    def subscribe(self):
        record = bytes(16) + struct.pack(">HHHBBHHI", 0xFFFF, 0, 0, 1, 1, 0xFFFF, 64, 0x00000112) + b"\0\xff\xff\xff"
        return self.register(0x0003, 0, record)


def scenario(bench):
    folder = bench.folder
    (folder / "partitions.conf").write_text("Default=0x7fff,ipoib:ALL=full;\nBlue=0x8001:ALL=full;\n")
    (folder / "opensm.conf").write_text("force_log_flush TRUE\nqos_max_vls 4\nqos_sl2vl 0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,3\n")
    bench.peer("H-host-1", "opensm", "-F", "opensm.conf", "-P", "partitions.conf", "-Q", "-f", "first.log")
    log = folder / "first.log"
    wait(lambda: log.exists() and "SUBNET UP" in log.read_text(errors="replace"))
    for node in ("H-host-2", "H-host-3"):
        client = Client(bench.front, node)
        client.join()
        if node == "H-host-2":
            client.prepare()
            client.service()
            client.subscribe()
    # The multicast table is written after the join is answered.
    wait(lambda: sum(1 for _, _, m in bench.proxy.records if (m[3], m[17]) == (0x02, 0x1B)) > 0)
    for words in ["CPI", "NR 2", "PIR 2", "SL2VL 1/1/2", "--smkey 1 PKTR 2", "VLAR 1/1/1", "IIR", "LR 1/1", "SR",
                  "PR --src-to-dst 2:3", "PR --slid 2 --dlid 3 --mtu 132 --rate 131", "MCMR --mgid ff12:401b:ffff::ffff:ffff",
                  "LFTR 1", "MFTR 0xc000/0/0", "MFTR", "GIR 2", "SWIR 1", "SMIR", "NR 999", "SMIR 2"]:
        bench.run("H-host-4", "saquery", *words.split())


def main():
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
        bench = Bench(pathlib.Path(scratch))
        try:
            scenario(bench)
        finally:
            bench.end()
        last = None
        for command, direction, mad in list(bench.proxy.records):
            if mad[1] != 0x03 or not command.startswith(("saquery", "join")):
                continue
            if command != last:
                print(f"# {command}")
            last = command
            print(SIGNS[direction], mad.hex())


if __name__ == "__main__":
    main()
