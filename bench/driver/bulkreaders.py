"""Programs that read and write tables beside Ilion, each in a process of its own: `python bulkreaders.py VERB ARGUMENT...`.

| verb | arguments | what it does |
|---|---|---|
| parquet-read | folder | reads Parquet files with one thread, row group by row group |
| parquet-write | folder, file | writes the batches of Parquet files, which are in memory then, as `ilion export` writes them |
| parquet-same | folder, folder | whether two exports have the same rows |
| flight-read | place, statement | takes all endpoints of a statement one after the other, with pyarrow |
| adbc-read | place, statement | takes the answer of a statement batch by batch, with the ADBC driver |
| flight-loop | place, statement, rows | does flight-read again and again until its standard input ends |
| cql-scan | address, version, table, parts, share | reads a share of the ring's token ranges, spread over it |

Each prints a line of JSON with what it found: rows, seconds, and CPU seconds of its own. The first pass of `parquet-read` is not
counted: it has the process get its memory.
"""
import json
import os
import pathlib
import struct
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "conformance"))

PAGE_ROWS = 5000
RING = 2**64


def tell(rows, seconds, cpu_s, **more):
    print(json.dumps({"rows": rows, "seconds": seconds, "cpu_s": cpu_s, **more}), flush=True)


def timed(work):
    """What the work returns, its seconds and its CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    return found, time.perf_counter() - wall, time.process_time() - cpu


def one_thread():
    import pyarrow

    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)


def parquet_files(folder):
    import pyarrow.parquet as parquet

    return [parquet.ParquetFile(path) for path in sorted(pathlib.Path(folder).glob("*.parquet"))]


def parquet_read(folder):
    one_thread()

    def read():
        return sum(file.read_row_group(group, use_threads=False).num_rows
                   for file in parquet_files(folder) for group in range(file.num_row_groups))

    read()
    tell(*timed(read))


def parquet_write(folder, out):
    import pyarrow.parquet as parquet

    one_thread()
    files = parquet_files(folder)
    group_rows = max(file.metadata.row_group(0).num_rows for file in files)
    batches = [batch for file in files for batch in file.iter_batches(use_threads=False)]

    def write():
        with parquet.ParquetWriter(out, batches[0].schema, compression="zstd", compression_level=1, write_statistics=True,
                                   write_page_index=True) as writer:
            held, rows = [], 0
            for batch in batches:
                held.append(batch)
                rows += batch.num_rows
                if rows >= group_rows:
                    write_group(writer, held, rows)
                    held, rows = [], 0
            if held:
                write_group(writer, held, rows)
        return sum(batch.num_rows for batch in batches)

    found = timed(write)
    tell(*found, bytes=os.path.getsize(out))


def write_group(writer, batches, rows):
    import pyarrow

    writer.write_table(pyarrow.Table.from_batches(batches), row_group_size=rows)


def parquet_same(one, other):
    import pyarrow.parquet as parquet

    ours, theirs = (parquet.read_table(folder).combine_chunks() for folder in (one, other))
    tell(ours.num_rows, 0, 0, same=ours.equals(theirs))


def flight_client(place, statement):
    """A client that is connected, and the descriptor of a statement."""
    import pyarrow.flight
    from harness.flight import statement_descriptor

    client = pyarrow.flight.connect(f"grpc://{place}")
    flight_rows(client, statement_descriptor("SELECT 1"))
    return client, statement_descriptor(statement)


def flight_rows(client, descriptor):
    rows = size = 0
    for endpoint in client.get_flight_info(descriptor).endpoints:
        for chunk in client.do_get(endpoint.ticket):
            rows += chunk.data.num_rows
            size += chunk.data.nbytes
    return rows, size


def flight_read(place, statement):
    client, descriptor = flight_client(place, statement)
    (rows, size), seconds, cpu_s = timed(lambda: flight_rows(client, descriptor))
    tell(rows, seconds, cpu_s, bytes=size)


def adbc_read(place, statement):
    import adbc_driver_flightsql.dbapi as flightsql

    def read():
        cursor.execute(statement)
        return sum(batch.num_rows for batch in cursor.fetch_record_batch())

    with flightsql.connect(f"grpc://{place}") as session, session.cursor() as cursor:
        tell(*timed(read))


def flight_loop(place, statement, expected):
    """Says when it begins. When its standard input ends it tells how many rows came, those of a pass that has not ended too."""
    client, descriptor = flight_client(place, statement)
    came = 0

    def end():
        sys.stdin.read()
        print(json.dumps({"rows": came}), flush=True)
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()
    print("begins", flush=True)
    while True:
        before = came
        for endpoint in client.get_flight_info(descriptor).endpoints:
            for chunk in client.do_get(endpoint.ticket):
                came += chunk.data.num_rows
        if came - before != int(expected):
            sys.exit(f"{came - before:,} rows came, {expected} are there")


def cql_scan(address, version, table, parts, share):
    from harness.wire import Wire

    wire, parts, share = Wire(address, version=int(version)), int(parts), float(share)
    select = wire.prepare(f"SELECT * FROM {table} WHERE token(k) > ? AND token(k) <= ?")
    if select.kind == "error":
        sys.exit(f"{table}: {select.error}")

    def scan():
        rows = 0
        for part in range(parts):
            start = -RING // 2 + RING * part // parts
            bounds = [struct.pack(">q", bound) for bound in (start, start + int(RING // parts * share))]
            rows += len(wire.pages(lambda state: answered(wire.execute(select, bounds, fetch_size=PAGE_ROWS, paging_state=state))).rows)
        return rows

    tell(*timed(scan))


def answered(reply):
    if reply.kind == "error":
        sys.exit(f"CQL error {reply.code:#06x}: {reply.error}")
    return reply


VERBS = {"parquet-read": parquet_read, "parquet-write": parquet_write, "parquet-same": parquet_same, "flight-read": flight_read,
         "adbc-read": adbc_read, "flight-loop": flight_loop, "cql-scan": cql_scan}

if __name__ == "__main__":
    VERBS[sys.argv[1]](*sys.argv[2:])
