"""What a data engineer does with Spark's connector, against the table `t` of a keyspace: program.py JARS ADDRESS KEYSPACE.

The last line of the output is a JSON object with what came of it. The table is (k int, c int, v text, PRIMARY KEY (k, c)).
"""
import json
import pathlib
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

FORMAT = "org.apache.spark.sql.cassandra"
CATALOG = "com.datastax.spark.connector.datasource.CassandraCatalog"


def session(jars, address):
    settings = {
        "spark.jars": ",".join(map(str, sorted(pathlib.Path(jars).glob("*.jar")))), "spark.driver.memory": "1g",
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "4",
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
        "spark.cassandra.connection.host": address, "spark.cassandra.input.split.sizeInMB": "1",
        "spark.sql.extensions": "com.datastax.spark.connector.CassandraSparkExtensions", "spark.sql.catalog.node": CATALOG,
    }
    builder = SparkSession.builder.master("local[2]").appName("conformance")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def pushed(frame):
    """The restrictions that the connector leaves to the node."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return "Cassandra Filters: [[]" not in plan and "Cassandra Filters: [" in plan


def main():
    jars, address, keyspace = sys.argv[1:]
    spark = session(jars, address)
    spark.sparkContext.setLogLevel("ERROR")
    table = spark.read.format(FORMAT).options(table="t", keyspace=keyspace).load()
    of_key = table.filter(col("k") == 7)
    found = {
        "partitions": table.rdd.getNumPartitions(),
        "rows": table.count(),
        "sum": table.groupBy().sum("c").collect()[0][0],
        "of_key": sorted([row.k, row.c, row.v] for row in of_key.collect()),
        "of_key_pushed": pushed(of_key),
        "slice": sorted(row.c for row in table.filter((col("k") == 7) & (col("c") > 15)).select("c").collect()),
        "of_value": table.filter(col("v") == "no such").count(),
    }
    spark.sql(f"CREATE TABLE node.{keyspace}.sums (k INT, total BIGINT) USING cassandra PARTITIONED BY (k)")
    sums = table.groupBy("k").sum("c").withColumnRenamed("sum(c)", "total").filter(col("k") < 500)
    sums.write.format(FORMAT).options(table="sums", keyspace=keyspace).mode("append").save()
    written = spark.table(f"node.{keyspace}.sums")
    found["written"] = [written.count(), written.groupBy().sum("total").collect()[0][0]]
    joined = written.join(table, "k").filter(col("k").isin(1, 2, 499))
    found["joined"] = [joined.count(), joined.groupBy().sum("c").collect()[0][0]]
    found["tables"] = sorted(row.tableName for row in spark.sql(f"SHOW TABLES IN node.{keyspace}").collect())
    spark.sql(f"DROP TABLE node.{keyspace}.sums")
    found["after_drop"] = sorted(row.tableName for row in spark.sql(f"SHOW TABLES IN node.{keyspace}").collect())
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
