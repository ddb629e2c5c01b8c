"""Asks DuckDB what the benchmark asks, of the same files: FOLDER NEWEST_FILE LAST_SLOT_S REPEATS.

Prints a line per question: the median CPU time of one thread, in milliseconds.
"""

import statistics
import sys
import time

import duckdb

folder, newest, last, repeats = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
db = duckdb.connect(config={"threads": 1})
db.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
files, hour = f"'{folder}/PortCountersExtended-*.parquet'", f"'{folder}/{newest}'"
node, port = db.execute(f"SELECT node, port FROM {hour} ORDER BY node DESC LIMIT 1").fetchone()
for query in (
    f"SELECT node, port, time, offset_us, PortXmitData FROM {hour} WHERE time = to_timestamp({last}) ORDER BY node, port",
    f"SELECT time, offset_us, how, PortXmitData FROM {files} WHERE node = {node} AND port = {port} ORDER BY time",
    "SELECT node, port, (last_total - first_total) / (last_us - first_us) AS rate FROM (SELECT node, port, "
    "arg_min(PortXmitData, time) AS first_total, arg_max(PortXmitData, time) AS last_total, "
    "arg_min(epoch_us(time) + offset_us, time) AS first_us, arg_max(epoch_us(time) + offset_us, time) AS last_us "
    f"FROM {hour} GROUP BY node, port) WHERE last_us > first_us ORDER BY rate DESC LIMIT 10",
):
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        db.execute(query).fetchall()
        times.append(1000 * (time.process_time() - begin))
    print(statistics.median(times))
