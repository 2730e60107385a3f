"""Guardrails: what cassandra.yaml lets ordinary roles do, by scripts that a Cassandra with the same settings recorded.

`cql/guarded/*.cqltest` are recorded by `cqltest.py record --login cassandra:cassandra` from a node of `conformance/cassandra` with the
settings of `LOGINS` and those of the script.
"""
import pathlib

import pytest

from cqltest import Runner
from harness.node import Ilion

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent / "cql" / "guarded"
LOGINS = {"authenticator": "PasswordAuthenticator", "authorizer": "CassandraAuthorizer", "role_manager": "CassandraRoleManager",
          "permissions_validity": "0ms", "roles_validity": "0ms", "credentials_validity": "0ms"}
THRESHOLDS = {
    "keyspaces_warn_threshold": "1", "keyspaces_fail_threshold": "2", "tables_warn_threshold": "6", "tables_fail_threshold": "8",
    "columns_per_table_warn_threshold": "4", "columns_per_table_fail_threshold": "6",
    "fields_per_udt_warn_threshold": "2", "fields_per_udt_fail_threshold": "4",
    "vector_dimensions_warn_threshold": "2", "vector_dimensions_fail_threshold": "4",
    "minimum_replication_factor_warn_threshold": "2",
    "maximum_replication_factor_warn_threshold": "2", "maximum_replication_factor_fail_threshold": "3",
    "table_properties_warned": "[comment]", "table_properties_ignored": "[bloom_filter_fp_chance]",
    "table_properties_disallowed": "[cdc]",
    "page_size_warn_threshold": "2", "page_size_fail_threshold": "4",
    "partition_keys_in_select_warn_threshold": "2", "partition_keys_in_select_fail_threshold": "3",
    "in_select_cartesian_product_warn_threshold": "4", "in_select_cartesian_product_fail_threshold": "8",
    "read_consistency_levels_warned": "[QUORUM, LOCAL_QUORUM]", "read_consistency_levels_disallowed": "[ALL, EACH_QUORUM]",
    "write_consistency_levels_warned": "[QUORUM, LOCAL_QUORUM]",
    "write_consistency_levels_disallowed": "[ALL, EACH_QUORUM, LOCAL_SERIAL]",
    "column_value_size_warn_threshold": "20B", "column_value_size_fail_threshold": "40B",
    "collection_size_warn_threshold": "100B", "collection_size_fail_threshold": "200B",
    "items_per_collection_warn_threshold": "2", "items_per_collection_fail_threshold": "4",
    "maximum_timestamp_warn_threshold": "1d", "maximum_timestamp_fail_threshold": "10d", "minimum_timestamp_fail_threshold": "36500d"}
SWITCHES = {f"{name}_enabled": "false" for name in (
    "alter_table", "drop_keyspace", "drop_truncate_table", "uncompressed_tables", "compact_tables", "simplestrategy", "vector_type",
    "zero_ttl_on_twcs", "group_by", "allow_filtering", "intersect_filtering_query", "user_timestamps", "read_before_write_list_operations")}
# Whoever runs a script makes its keyspace.
SETTINGS = {"thresholds": THRESHOLDS, "switches": SWITCHES}
ROOT = ("cassandra", "cassandra")


@pytest.mark.parametrize("name", SETTINGS)
def test_script(name, request, tmp_path):
    if request.config.getoption("--target") != "ilion":
        pytest.skip("needs an Ilion of its own")
    settings = {**LOGINS, "auth_bcrypt_gensalt_log2_rounds": "4", **SETTINGS[name]}
    with Ilion(tmp_path, settings=settings) as ilion:
        count, complaints = Runner(SCRIPTS / f"{name}.cqltest", ilion, login=ROOT).replay(True)
    assert not complaints, f"{len(complaints)} of {count} statements\n\n" + "\n\n".join(complaints)
