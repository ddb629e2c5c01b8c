#!/usr/bin/env python3
"""Captures the MADs of OpenSM and infiniband-diags on ibsim.

A proxy that speaks the ibsim client protocol stands between the peers' programs and ibsim and writes down every
256-byte MAD with its direction and the command line of the program. See README.md for what is kept.

usage: capture.py [UMAD2SIM_LIBRARY] > peers.txt
"""

import os
import pathlib
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
UMAD2SIM = sys.argv[1] if len(sys.argv) > 1 else "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"
CONTROL = struct.Struct("=IIII64s")
MAGIC = 0xDEADBEEF
CONNECT, DISCONNECT = 1, 2
DATA_LEN, MAD_AT = 288, 32
SIGNS = {"from": ">", "to": "<"}


def name(base, suffix):
    """Abstract socket name, with the terminating NUL that ibsim counts."""
    return b"\0" + f"{base}:{suffix}".encode() + b"\0"


def bound(base, suffix, peer=None):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(name(base, suffix))
    if peer:
        sock.connect(peer)
    return sock


class Proxy(threading.Thread):
    """Forwards between clients at base name `front` and ibsim at base name `back`, recording every MAD."""

    def __init__(self, front, back):
        super().__init__(daemon=True)
        self.front, self.back = front, back
        self.control = bound(front, "ctl")
        self.clients = {}
        self.records = []
        self.fake = os.getpid() * 100

    def run(self):
        while True:
            sockets = {self.control: None}
            for slot, client in self.clients.items():
                sockets[client["up"]] = (slot, "from")
                sockets[client["down"]] = (slot, "to")
            for sock in select.select(list(sockets), [], [], 1.0)[0]:
                if sock is self.control:
                    self.on_control()
                else:
                    self.on_data(sock, *sockets[sock])

    def on_control(self):
        message, sender = self.control.recvfrom(CONTROL.size)
        magic, slot, kind, length, data = CONTROL.unpack(message)
        if kind == CONNECT:
            pid = struct.unpack_from("=I", data)[0]
            self.fake += 1
            link = bound(self.back, f"ctl{self.fake}", name(self.back, "ctl"))
            down = bound(self.back, f"in{self.fake}")
            link.send(CONTROL.pack(magic, slot, kind, length, struct.pack("=I", self.fake) + data[4:]))
            reply = link.recv(CONTROL.size)
            _, _, result, _, answer = CONTROL.unpack(reply)
            if result == CONNECT:
                slot = struct.unpack_from("=I", answer)[0]
                down.connect(name(self.back, f"out{slot}"))
                up = bound(self.front, f"out{slot}", name(self.front, f"in{pid}"))
                self.clients[slot] = {"link": link, "up": up, "down": down, "command": command_of(pid)}
        else:
            link = self.clients[slot]["link"]
            link.send(message)
            reply = link.recv(CONTROL.size)
        if kind == DISCONNECT:
            for part in ("link", "up", "down"):
                self.clients[slot][part].close()
            del self.clients[slot]
        self.control.sendto(reply, sender)

    def on_data(self, sock, slot, direction):
        client = self.clients.get(slot)
        if client is None:
            return
        try:
            message = sock.recv(512)
            if len(message) == DATA_LEN:
                self.records.append((client["command"], direction, message[MAD_AT:]))
            client["down" if direction == "from" else "up"].send(message)
        except OSError:
            pass  # The client ended with this datagram under way.


# What the clients made here are called; all others by their command lines.
CLIENT_NAMES = {}


def command_of(pid):
    if pid in CLIENT_NAMES:
        return CLIENT_NAMES[pid]
    words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return " ".join([os.path.basename(words[0])] + words[1:]).strip()


class Joiner:
    """A client that joins the IPoIB broadcast group, because no program of the peers does it without IPoIB."""

    def __init__(self, base, node):
        pid = os.getpid() * 10 + int(node[-1])
        control = bound(base, f"ctl{os.getpid()}{node}", name(base, "ctl"))
        self.data = bound(base, f"in{pid}")
        request = struct.pack("=III32s", pid, 1, 0, node.encode())
        CLIENT_NAMES[pid] = "join request"
        control.send(CONTROL.pack(MAGIC, 0, CONNECT, len(request), request))
        slot = struct.unpack_from("=I", CONTROL.unpack(control.recv(CONTROL.size))[4])[0]
        self.data.connect(name(base, f"out{slot}"))
        self.data.settimeout(5)

    def ask(self, dlid, qp, mad):
        message = struct.pack("=IIIIII", dlid, 0, socket.htonl(qp), socket.htonl(qp), 0, 0)
        self.data.send(message + struct.pack(">Q", 256) + mad.ljust(256, b"\0"))
        return self.data.recv(512)[MAD_AT:]

    def join(self):
        # Get(NodeInfo) along the empty directed route, then Get(PortInfo): port GUID and LID of the manager.
        header = struct.pack(">BBBBHBBQHHI", 1, 0x81, 1, 1, 0, 0, 0, 7, 0x0011, 0, 0)
        info = self.ask(0xFFFF, 0, header + bytes(8) + b"\xff\xff\xff\xff")[64:]
        port_guid = info[20:28]
        header = struct.pack(">BBBBHBBQHHI", 1, 0x81, 1, 1, 0, 0, 0, 8, 0x0015, 0, 0)
        manager = self.ask(0xFFFF, 0, header + bytes(8) + b"\xff\xff\xff\xff")[64 + 18 : 64 + 20]
        group = bytes.fromhex("ff12401bffff000000000000ffffffff")
        record = group + bytes.fromhex("fe80000000000000") + port_guid + bytes(4 + 2 + 1 + 1 + 2 + 1 + 1 + 4) + b"\x01"
        header = struct.pack(">BBBBHHQHHI", 1, 0x03, 2, 2, 0, 0, 9, 0x0038, 0, 0)
        mask = struct.pack(">Q", 1 << 0 | 1 << 1 | 1 << 16)
        return self.ask(struct.unpack("=H", manager)[0], 1, header + bytes(12 + 8 + 4) + mask + record)


class Bench:
    """ibsim, the proxy, and a way to run peers' programs."""

    def __init__(self, folder):
        self.folder = folder
        self.front, self.back = f"cap{os.getpid()}f", f"cap{os.getpid()}b"
        self.children = []
        self.ibsim = self.start(
            ["ibsim", "-s", "-N", "16", "-S", "4", "-P", "64", str(HERE / "capture.net")],
            env=dict(os.environ, IBSIM_SOCKNAME=self.back),
            stdin=subprocess.PIPE,
        )
        wait(lambda: f"@{self.back}:ctl" in pathlib.Path("/proc/net/unix").read_text().replace("\0", ""))
        self.proxy = Proxy(self.front, self.back)
        self.proxy.start()

    def start(self, words, env, **more):
        log = open(self.folder / f"{len(self.children)}-{words[0]}.out", "wb")
        child = subprocess.Popen(words, cwd=self.folder, env=env, stdout=log, stderr=log, **more)
        self.children.append(child)
        return child

    def peer(self, host, *words):
        env = dict(
            os.environ,
            IBSIM_SOCKNAME=self.front,
            SIM_HOST=host,
            LD_PRELOAD=UMAD2SIM,
            OSM_TMP_DIR=str(self.folder),
            OSM_CACHE_DIR=str(self.folder),
        )
        return self.start(list(words), env)

    def run(self, host, *words):
        child = self.peer(host, *words)
        child.wait(timeout=20)

    def command(self, text):
        self.ibsim.stdin.write(text.encode() + b"\n")
        self.ibsim.stdin.flush()

    def end(self):
        for child in reversed(self.children):
            child.kill()
            child.wait()


def wait(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the peer did not get there; see the logs in the scratch folder")
        time.sleep(0.05)


def seen(bench, method, attribute, classes=(0x01, 0x81)):
    return sum(1 for _, _, m in bench.proxy.records if m[1] in classes and (m[3], m[17]) == (method, attribute))


def scenario(bench):
    folder = bench.folder
    (folder / "partitions.conf").write_text("Default=0x7fff,ipoib:ALL=full;\nBlue=0x8001:ALL=full;\n")
    (folder / "opensm.conf").write_text(
        "force_log_flush TRUE\nsm_key 0x1122334455667788\nm_key 0x00c0ffee00c0ffee\nm_key_lease_period 60\n"
        "qos_max_vls 4\nqos_high_limit 3\nqos_vlarb_high 0:64,1:32\nqos_vlarb_low 2:16,3:8\n"
        "qos_sl2vl 0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,3\n"
    )
    manager = ["opensm", "-F", "opensm.conf", "-P", "partitions.conf", "-Q", "-R", "updn"]
    first = bench.peer("H-host-1", *manager, "-f", "first.log", "-p", "3")
    log = folder / "first.log"
    wait(lambda: log.exists() and "SUBNET UP" in log.read_text(errors="replace"))
    # OpenSM writes multicast tables only for groups with members.
    for node in ("H-host-2", "H-host-3"):
        Joiner(bench.front, node).join()
    wait(lambda: seen(bench, 0x02, 0x1B) > 0)
    diags(bench)
    bench.command('Unlink "S-leaf-a"[8]')
    wait(lambda: seen(bench, 0x05, 0x02) > 0)
    wait(lambda: seen(bench, 0x07, 0x02) > 0)
    # A second manager with a higher priority: SMInfo both ways, trap 144, handover.
    bench.peer("H-host-4", *manager, "-f", "second.log", "-p", "14")
    wait(lambda: seen(bench, 0x02, 0x20) > 0)
    wait(lambda: any(mad[3] == 0x07 and mad[68:70] == b"\x00\x90" for _, _, mad in bench.proxy.records))
    assert first.poll() is None, "the first manager ended"


def diags(bench):
    key = ["-y", "0x00c0ffee00c0ffee"]
    for words in [
        ["smpquery", "-D", "NodeInfo", "0,1"],
        ["smpquery", "-D", "NodeDesc", "0,1,7"],
        ["smpquery", "NodeDesc", "1"],
        ["smpquery", "NodeInfo", "1"],
        ["smpquery", "-D", "SwitchInfo", "0,1"],
        ["smpquery", "-D", "GUIDInfo", "0"],
        ["smpquery", "-D", *key, "PortInfo", "0,1", "7"],
        ["smpquery", "-D", *key, "PortInfo", "0"],
        ["smpquery", "PortInfo", "1", "1"],
        ["smpquery", "-D", "PKeyTable", "0"],
        ["smpquery", "-D", "SL2VLTable", "0,1", "7"],
        ["smpquery", "-D", "VLArbitration", "0,1", "7"],
        ["ibroute", "-D", "0,1"],
        ["ibroute", "-M", "-D", "0,1"],
        ["sminfo"],
        ["perfquery"],
        ["perfquery", "-x"],
        ["perfquery", "-R", "1", "1", "0x0fff"],
        ["perfquery", "-x", "-R", "1", "1"],
        ["perfquery", "-a", "2"],
        ["saquery", "CPI"],
    ]:
        bench.run("H-host-2", *words)


def kept(records):
    """At most two MADs of a kind, the first and the one that says most, and what no kind has is left out.

    A kind is program, direction, class, method, attribute, and whether the modifier is 0. Subnet administration is
    kept for one program only: OpenSM leaves remains of its memory in these answers. Answers carry more than requests, so ties go to the earlier one. Returned as {command: [(direction, MAD)]}.
    """
    groups = {}
    for command, direction, mad in records:
        program = command.split()[0]
        if mad[1] == 0x03 and program != "saquery":
            continue
        key = (program, direction, mad[1], mad[3], mad[16:18], mad[20:24] == bytes(4))
        groups.setdefault(key, []).append((command, mad))
    result = {}
    for (_, direction, *_), members in groups.items():
        fullest = max(members, key=lambda member: sum(byte != 0 for byte in member[1][64:]))
        for command, mad in dict.fromkeys([members[0], fullest]):
            result.setdefault(command, []).append((direction, mad))
    return result


def main():
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
        bench = Bench(pathlib.Path(scratch))
        try:
            scenario(bench)
        except Exception:
            for log in sorted(bench.folder.glob("*.out")) + sorted(bench.folder.glob("*.log")):
                print(f"== {log.name}\n{log.read_text(errors='replace')[-1500:]}", file=sys.stderr)
            raise
        finally:
            bench.end()
        for command, mads in kept(list(bench.proxy.records)).items():
            print(f"# {command}")
            for direction, mad in mads:
                print(SIGNS[direction], mad.hex())


if __name__ == "__main__":
    main()
