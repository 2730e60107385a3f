"""docs/READING.md is true: every read in it, carried out, costs what stands there."""
import difflib

import reading


def test_the_reads_of_the_document_cost_what_it_says(needs_ilion, tmp_path):
    written, found = reading.document_of(tmp_path)
    assert written.count("> EXPLAIN ANALYZE") > 10
    difference = "".join(difflib.unified_diff(written.splitlines(True), found.splitlines(True), "docs/READING.md", "found"))
    assert not difference, "run conformance/reading.py --rewrite and read what it changes:\n" + difference
