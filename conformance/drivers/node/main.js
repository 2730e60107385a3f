'use strict';
// What an application does with the Node driver, once for each protocol version, against ADDRESS PORT. Prints a line for
// each part that holds; an error ends it with status 1.

const assert = require('assert');
const cassandra = require('cassandra-driver');

const { types } = cassandra;
const KEYSPACE = 'drivers_node';
const [address, port] = process.argv.slice(2);

function connect(version, options = {}) {
  return new cassandra.Client({
    contactPoints: [address],
    localDataCenter: 'datacenter1',
    protocolOptions: { port: Number(port), maxVersion: version },
    socketOptions: { connectTimeout: 60000, readTimeout: 60000 },
    policies: { retry: new cassandra.policies.retry.FallthroughRetryPolicy() },
    encoding: { set: Set, map: Map, useBigIntAsLong: true, useBigIntAsVarint: true },
    ...options,
  });
}

const prepare = { prepare: true };

async function allTypes(client) {
  const values = {
    ascii: 'ascii', bigint: 2n ** 63n - 1n, blob: Buffer.from([0, 255]), boolean: true,
    date: types.LocalDate.fromString('2024-02-29'), decimal: types.BigDecimal.fromString('1.50'), double: -1.5e300,
    float: 0.5, inet: types.InetAddress.fromString('::1'), int: -(2 ** 31), smallint: -(2 ** 15), text: 'žluť 🦀',
    time: types.LocalTime.fromString('23:59:59.999999999'), timestamp: new Date(1709208000123),
    timeuuid: types.TimeUuid.fromString('50554d6e-29bb-11e5-b345-feff819cdc9f'), tinyint: -128,
    uuid: types.Uuid.fromString('ffffffff-ffff-4fff-8fff-ffffffffffff'), varint: -(10n ** 40n),
    duration: new types.Duration(1, 2, 3),
  };
  if (client.controlConnection.protocolVersion < 4) {
    for (const newer of ['date', 'time', 'smallint', 'tinyint', 'duration']) delete values[newer];
  }
  const names = Object.keys(values);
  await client.execute(`CREATE TYPE point (x int, y text)`);
  await client.execute(`CREATE TABLE types (k int PRIMARY KEY, ${names.map((t) => `c_${t} ${t}`).join(', ')},
    l list<int>, s set<text>, m map<text, int>, p frozen<point>, t tuple<int, text>)`);
  await client.execute(
    `INSERT INTO types (k, ${names.map((t) => `c_${t}`).join(', ')}) VALUES (1, ${names.map(() => '?').join(', ')})`,
    names.map((t) => values[t]), prepare);
  const row = (await client.execute('SELECT * FROM types WHERE k = 1')).first();
  for (const name of names) {
    const got = row[`c_${name}`];
    assert.ok(got !== null && (got.equals ? got.equals(values[name]) : true), name);
    assert.deepStrictEqual(String(got), String(values[name]), name);
  }
  await client.execute('INSERT INTO types (k, l, s, m, p, t) VALUES (2, ?, ?, ?, ?, ?)',
    [[3, 1, 2], new Set(['b', 'a']), new Map([['x', 1]]), { x: 1, y: 'y' }, new types.Tuple(1, 'one')], prepare);
  const other = (await client.execute('SELECT l, s, m, p, t FROM types WHERE k = 2')).first();
  assert.deepStrictEqual(other.l, [3, 1, 2]);
  assert.deepStrictEqual([...other.s], ['a', 'b']);
  assert.deepStrictEqual([...other.m], [['x', 1]]);
  assert.deepStrictEqual({ ...other.p }, { x: 1, y: 'y' });
  assert.deepStrictEqual(other.t.values(), [1, 'one']);
}

async function paging(client) {
  await client.execute('CREATE TABLE pages (k int, c int, PRIMARY KEY (k, c))');
  for (let c = 0; c < 100; c++) await client.execute('INSERT INTO pages (k, c) VALUES (?, ?)', [c % 3, c], prepare);
  for (const fetchSize of [7, 100, 1000]) {
    const seen = new Set();
    for await (const row of await client.execute('SELECT c FROM pages', [], { ...prepare, fetchSize })) seen.add(row.c);
    assert.strictEqual(seen.size, 100);
  }
  const first = await client.execute('SELECT c FROM pages WHERE k = 1', [], { ...prepare, fetchSize: 10 });
  assert.strictEqual(first.rows.length, 10);
  const rest = await client.execute('SELECT c FROM pages WHERE k = 1', [],
    { ...prepare, fetchSize: 1000, pageState: first.pageState });
  assert.strictEqual(rest.rows[0].c, 31);
}

async function batches(client) {
  await client.execute('CREATE TABLE batches (k int PRIMARY KEY, v int)');
  await client.execute('CREATE TABLE counts (k int PRIMARY KEY, c counter)');
  const query = 'INSERT INTO batches (k, v) VALUES (?, ?)';
  for (const logged of [true, false]) {
    await client.batch([{ query, params: [1, 1] }, { query, params: [2, 2] }], { ...prepare, logged });
  }
  assert.strictEqual((await client.execute('SELECT * FROM batches')).rowLength, 2);
  await client.batch(['UPDATE counts SET c = c + 1 WHERE k = 1', 'UPDATE counts SET c = c + 1 WHERE k = 1'],
    { counter: true });
  assert.strictEqual((await client.execute('SELECT c FROM counts')).first().c, 2n);
}

async function lightweightTransactions(client) {
  await client.execute('CREATE TABLE lwt (k int PRIMARY KEY, v int)');
  const insert = 'INSERT INTO lwt (k, v) VALUES (?, ?) IF NOT EXISTS';
  assert.ok((await client.execute(insert, [1, 1], prepare)).wasApplied());
  const refused = await client.execute(insert, [1, 2], prepare);
  assert.ok(!refused.wasApplied());
  assert.strictEqual(refused.first().v, 1);
}

async function schemaMetadata(client) {
  await client.execute(`CREATE TABLE meta (a int, b text, c int, d text, s int STATIC, v frozen<point>,
    PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) AND comment = 'seen'`);
  const table = await client.metadata.getTable(KEYSPACE, 'meta');
  assert.deepStrictEqual(table.partitionKeys.map((c) => c.name), ['a', 'b']);
  assert.deepStrictEqual(table.clusteringKeys.map((c) => c.name), ['c', 'd']);
  assert.deepStrictEqual(table.clusteringOrder, ['DESC', 'ASC']);
  assert.strictEqual(table.comment, 'seen');
  assert.ok(table.columnsByName.s.isStatic);
  assert.strictEqual((await client.metadata.getUdt(KEYSPACE, 'point')).fields.length, 2);
  assert.ok(KEYSPACE in client.metadata.keyspaces);
  assert.ok(await client.metadata.checkSchemaAgreement());
}

async function schemaEvents(client, version) {
  const other = connect(version);
  await other.connect();
  try {
    await client.execute(`CREATE KEYSPACE ${KEYSPACE}_2 WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`);
    await waitFor(() => `${KEYSPACE}_2` in other.metadata.keyspaces);
    await client.execute(`DROP KEYSPACE ${KEYSPACE}_2`);
    await waitFor(() => !(`${KEYSPACE}_2` in other.metadata.keyspaces));
  } finally {
    await other.shutdown();
  }
}

async function waitFor(holds) {
  for (let i = 0; i < 600; i++) {
    if (holds()) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error('a schema change was not seen');
}

async function tracing(client) {
  await client.execute('CREATE TABLE traced (k int PRIMARY KEY)');
  const result = await client.execute('INSERT INTO traced (k) VALUES (1)', [], { traceQuery: true });
  const trace = await client.metadata.getTrace(result.info.traceId);
  assert.ok(trace.events.length > 0);
  assert.strictEqual(trace.parameters.query || trace.parameters.get('query'), 'INSERT INTO traced (k) VALUES (1)');
}

async function errors(client) {
  const codes = types.responseErrorCodes;
  await assert.rejects(client.execute('SELEC'), { code: codes.syntaxError });
  await assert.rejects(client.execute('SELECT * FROM nope'), { code: codes.invalid, message: 'table nope does not exist' });
  await assert.rejects(client.execute('CREATE TABLE traced (k int PRIMARY KEY)'),
    { code: codes.alreadyExists, keyspace: KEYSPACE, table: 'traced' });
  await assert.rejects(client.execute('INSERT INTO traced (k) VALUES (1)', [], { consistency: types.consistencies.two }),
    { code: codes.unavailableException, required: 2, alive: 1 });
}

async function concurrency(client) {
  await client.execute('CREATE TABLE flight (k int PRIMARY KEY, v int)');
  const keys = [...Array(1000).keys()];
  await Promise.all(keys.map((k) => client.execute('INSERT INTO flight (k, v) VALUES (?, ?)', [k, k * k], prepare)));
  const rows = await Promise.all(keys.map((k) => client.execute('SELECT v FROM flight WHERE k = ?', [k], prepare)));
  assert.deepStrictEqual(rows.map((r) => r.first().v), keys.map((k) => k * k));
}

async function main() {
  for (const version of [3, 4]) {
    const client = connect(version);
    await client.connect();
    assert.strictEqual(client.controlConnection.protocolVersion, version);
    await client.execute(`DROP KEYSPACE IF EXISTS ${KEYSPACE}`);
    await client.execute(`CREATE KEYSPACE ${KEYSPACE} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`);
    await client.execute(`USE ${KEYSPACE}`);
    for (const part of [allTypes, paging, batches, lightweightTransactions, schemaMetadata, schemaEvents, tracing, errors,
      concurrency]) {
      await part(client, version);
      console.log(`v${version} ${part.name}`);
    }
    await client.execute(`DROP KEYSPACE ${KEYSPACE}`);
    await client.shutdown();
  }
  console.log('done');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
