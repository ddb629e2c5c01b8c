#!/usr/bin/env python3
"""Asks DuckDB what `measure` asks, of the same files: ask_duckdb.py FOLDER. Run it with scripts/setup's Python.

Times are those of the CPU, of one thread.
"""

import sys
import time

import duckdb

folder = sys.argv[1]
db = duckdb.connect(config={"threads": 1})
db.execute("SET TimeZone = 'UTC'")
files = f"'{folder}/PortCountersExtended-*.parquet'"
hour = f"'{folder}/PortCountersExtended-20261129T06.parquet'"
node, port = db.execute(f"SELECT node, port FROM {hour} ORDER BY node DESC LIMIT 1").fetchone()
questions = {
    "one port": f"SELECT time, offset_us, how, PortXmitData FROM {files} WHERE node = {node} AND port = {port} ORDER BY time",
    "all ports, one slot": f"SELECT node, port, time, offset_us, PortXmitData FROM {hour} "
    "WHERE time = TIMESTAMPTZ '2026-11-29 06:30:00+00' ORDER BY node, port",
    "top 10 of an hour": "SELECT node, port, (last_total - first_total) / (last_us - first_us) AS rate FROM (SELECT node, port, "
    "arg_min(PortXmitData, time) AS first_total, arg_max(PortXmitData, time) AS last_total, "
    "arg_min(epoch_us(time) + offset_us, time) AS first_us, arg_max(epoch_us(time) + offset_us, time) AS last_us "
    f"FROM {hour} GROUP BY node, port) WHERE last_us > first_us ORDER BY rate DESC LIMIT 10",
}
for _ in range(3):
    for name, query in questions.items():
        begin = time.process_time()
        rows = db.execute(query).fetchall()
        print(f"{name}: {1000 * (time.process_time() - begin):.1f} ms, {len(rows)} rows")
