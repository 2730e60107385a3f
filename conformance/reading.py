#!/usr/bin/env python3
"""The reads of docs/READING.md, carried out, and the document as it would have to be.

    conformance/reading.py             says where the document is not true, and ends with an error if it is not
    conformance/reading.py --rewrite   writes the counts of this build into it

The binary is $ILION, target/release or target/debug. A node is filled with the sample data, flushed, compacted and started anew; then every
line of the document that begins with `> ` is carried out in turn, by a client that asks for pages of 100 rows, as cqlsh does.

What stands below an EXPLAIN ANALYZE in the document is made of the answer alone:

    operation detail         a line for each of the operations that the document names there, in the order of the answer; sources
                             (memtable, sstable) and steps with their figures if the document has figures on such lines
    total     detail
              figure=n ...   those of SHOWN that are not 0, and others that the document names there

The prose between them is not looked at: it should not repeat counts that depend on how files are laid out.
"""
import argparse
import difflib
import pathlib
import re
import sys
import tempfile

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import WhiteListRoundRobinPolicy

from harness.node import ROOT, Ilion

DOCUMENT = ROOT / "docs" / "READING.md"
PAGE_ROWS = 100
# As a read goes.
ORDER = ("row_cache_hits", "row_cache_misses", "memtables", "sstables_considered", "skipped_by_range", "skipped_by_clustering", "skipped_by_bloom", "skipped_by_timestamp",
         "sstables_read", "index_lookups", "index_page_hits", "index_page_misses", "chunk_hits", "chunk_misses", "ios", "disk_bytes",
         "decompressed_bytes", "rows_scanned", "cells_scanned", "tombstones_scanned", "rows_live", "rows_filtered", "tombstones_left", "rows_returned",
         "returned_bytes")
# Figures that every `total` shows.
SHOWN = ("row_cache_hits", "row_cache_misses", "memtables", "skipped_by_range", "skipped_by_clustering", "skipped_by_bloom", "skipped_by_timestamp", "index_page_hits",
         "index_page_misses", "chunk_hits", "chunk_misses", "ios", "disk_bytes", "rows_scanned", "rows_filtered", "tombstones_scanned")
BLOCK = re.compile(r"^```\n(> .*?)^```\n", re.MULTILINE | re.DOTALL)
INDENT = 9


def carried_out(text, node):
    """The document with what the node answers."""
    profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([node.address]), request_timeout=120)
    cluster = Cluster([node.address], port=node.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
    session = cluster.connect()
    session.default_fetch_size = PAGE_ROWS
    try:
        return BLOCK.sub(lambda block: "```\n" + "".join(answered(block[1], session)) + "```\n", text)
    finally:
        cluster.shutdown()


def answered(block, session):
    """A block's statements, each with its answer."""
    for part in re.split(r"^(?=> )", block, flags=re.MULTILINE)[1:]:
        statement, _, said = part.partition("\n")
        yield statement + "\n"
        rows = list(session.execute(statement.removeprefix("> ").rstrip(";")))
        if statement.startswith("> EXPLAIN ANALYZE"):
            yield from told(said, rows)


def told(said, rows):
    """The answer as the document tells it; `said` is how it tells it now."""
    lines = [line for line in said.splitlines() if not line.startswith(" ")]
    operations = {line.split()[0] for line in lines} | {"total"}
    has_figures = {line.split()[0] for line in lines if re.search(r"\w=\d", line)}
    named = set(re.findall(r"(\w+)=\d", said))
    for row in rows:
        if row.operation not in operations:
            continue
        line = f"{row.operation:<{INDENT}}{row.detail}"
        if row.operation != "total":
            shown = figures_of(row, named) if row.operation in has_figures else ""
            yield f"{line}  {shown}".rstrip() + "\n"
            continue
        yield line + "\n"
        yield " " * INDENT + figures_of(row, named) + "\n"


def figures_of(row, named):
    """The figures of a row, in the order of a read."""
    figures = dict(row.figures or {})
    order = [*ORDER, *sorted(set(figures) - set(ORDER))]
    return " ".join(f"{name}={figures[name]}" for name in order if figures.get(name) and (name in SHOWN or name in named))


def document_of(directory):
    """The document as it is, and as this build would have it."""
    node = Ilion(directory, settings={"row_cache_size": "64MiB"}, ready_timeout_s=600)
    node.start("--sample")
    node.compact("sample")
    node.stop()
    with node:
        text = DOCUMENT.read_text()
        return text, carried_out(text, node)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewrite", action="store_true", help="write the document anew")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reading-") as directory:
        before, now = document_of(directory)
    if given.rewrite:
        DOCUMENT.write_text(now)
    sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), now.splitlines(True), "docs/READING.md", "as it is"))
    if before != now and not given.rewrite:
        sys.exit("docs/READING.md is not what this build answers: see above; --rewrite writes it anew")


if __name__ == "__main__":
    main()
