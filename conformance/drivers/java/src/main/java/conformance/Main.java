package conformance;

import com.datastax.oss.driver.api.core.AllNodesFailedException;
import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DefaultConsistencyLevel;
import com.datastax.oss.driver.api.core.DefaultProtocolVersion;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchType;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.BoundStatementBuilder;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.QueryTrace;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.data.CqlVector;
import com.datastax.oss.driver.api.core.data.TupleValue;
import com.datastax.oss.driver.api.core.data.UdtValue;
import com.datastax.oss.driver.api.core.metadata.schema.ClusteringOrder;
import com.datastax.oss.driver.api.core.metadata.schema.KeyspaceMetadata;
import com.datastax.oss.driver.api.core.metadata.schema.TableMetadata;
import com.datastax.oss.driver.api.core.servererrors.AlreadyExistsException;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.SyntaxError;
import com.datastax.oss.driver.api.core.servererrors.UnavailableException;
import com.datastax.oss.driver.api.core.ssl.ProgrammaticSslEngineFactory;
import com.datastax.oss.driver.api.core.type.TupleType;
import com.datastax.oss.driver.api.core.type.UserDefinedType;
import com.datastax.oss.driver.api.core.type.reflect.GenericType;
import java.io.InputStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.CompletionStage;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * What an application does with the Java driver, once for each protocol version, against ADDRESS PORT. With CA USER PASSWORD besides it
 * does so with TLS and a login, in version 5 alone. Prints a line for each part that holds; an exception ends it with status 1.
 */
public final class Main {
  private static final String KEYSPACE = "drivers_java";

  private final InetSocketAddress contact;
  private final String version;
  private final String[] access;
  private CqlSession session;

  private Main(InetSocketAddress contact, String[] access, String version) {
    this.contact = contact;
    this.access = access;
    this.version = version;
  }

  public static void main(String[] arguments) throws Exception {
    InetSocketAddress contact = new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1]));
    String[] access = Arrays.copyOfRange(arguments, 2, arguments.length);
    for (String version : access.length == 0 ? new String[] {"V3", "V4", "V5"} : new String[] {"V5"}) {
      new Main(contact, access, version).run();
    }
    System.out.println("done");
    System.exit(0);
  }

  /** Trusts the certificates of a file. The driver compares names itself. */
  private static SSLContext trusting(String file) throws Exception {
    KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
    trusted.load(null, null);
    try (InputStream bytes = Files.newInputStream(Path.of(file))) {
      for (Certificate certificate : CertificateFactory.getInstance("X.509").generateCertificates(bytes)) {
        trusted.setCertificateEntry("ca" + trusted.size(), certificate);
      }
    }
    TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    managers.init(trusted);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, managers.getTrustManagers(), null);
    return context;
  }

  private CqlSession connect(boolean metadata) throws Exception {
    var options =
        DriverConfigLoader.programmaticBuilder()
            .withString(DefaultDriverOption.PROTOCOL_VERSION, version)
            .withString(DefaultDriverOption.LOAD_BALANCING_LOCAL_DATACENTER, "datacenter1")
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(60))
            .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, Duration.ofSeconds(60))
            .withDuration(DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT, Duration.ofSeconds(60))
            .withDuration(DefaultDriverOption.METADATA_SCHEMA_REQUEST_TIMEOUT, Duration.ofSeconds(60))
            .withBoolean(DefaultDriverOption.METADATA_SCHEMA_ENABLED, metadata)
            .withString(DefaultDriverOption.PROTOCOL_COMPRESSION, "lz4")
            .build();
    var builder = CqlSession.builder().addContactPoint(contact).withConfigLoader(options);
    if (access.length > 0) {
      // With the context alone the driver does not ask whose the certificate is.
      builder.withSslEngineFactory(new ProgrammaticSslEngineFactory(trusting(access[0]), null, true));
      builder.withAuthCredentials(access[1], access[2]);
    }
    return builder.build();
  }

  private void run() throws Exception {
    session = connect(true);
    try {
      check(session.getContext().getProtocolVersion() == DefaultProtocolVersion.valueOf(version), "version");
      session.execute("DROP KEYSPACE IF EXISTS " + KEYSPACE);
      session.execute(
          "CREATE KEYSPACE " + KEYSPACE + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
      session.execute("USE " + KEYSPACE);
      allTypes();
      paging();
      batches();
      lightweightTransactions();
      schemaMetadata();
      schemaEvents();
      tracing();
      errors();
      concurrency();
      session.execute("DROP KEYSPACE " + KEYSPACE);
    } finally {
      session.close();
    }
  }

  private static void check(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  private static void same(Object wanted, Object got, String what) {
    check(wanted.equals(got), what + ": wanted " + wanted + ", got " + got);
  }

  private void holds(String what) {
    System.out.println(version + " " + what);
  }

  private void allTypes() throws Exception {
    Map<String, Object> columns = new LinkedHashMap<>();
    columns.put("ascii", "ascii");
    columns.put("bigint", Long.MAX_VALUE);
    columns.put("blob", ByteBuffer.wrap(new byte[] {0, -1}));
    columns.put("boolean", true);
    columns.put("date", LocalDate.of(2024, 2, 29));
    columns.put("decimal", new BigDecimal("1.50"));
    columns.put("double", -1.5e300);
    columns.put("float", 0.5f);
    columns.put("inet", InetAddress.getByName("::1"));
    columns.put("int", Integer.MIN_VALUE);
    columns.put("smallint", Short.MIN_VALUE);
    columns.put("text", "žluť 🦀");
    columns.put("time", LocalTime.of(23, 59, 59, 999999999));
    columns.put("timestamp", Instant.ofEpochMilli(1709208000123L));
    columns.put("timeuuid", UUID.fromString("50554d6e-29bb-11e5-b345-feff819cdc9f"));
    columns.put("tinyint", Byte.MIN_VALUE);
    columns.put("uuid", UUID.fromString("ffffffff-ffff-4fff-8fff-ffffffffffff"));
    columns.put("varint", BigInteger.TEN.pow(40).negate());
    if (version.equals("V3")) {
      // Newer than the version: the server names them by class, and the driver has no codec for that.
      columns.keySet().removeAll(Set.of("date", "time", "smallint", "tinyint"));
    }
    if (version.equals("V5")) {
      columns.put("duration", CqlDuration.newInstance(1, 2, 3));
    }
    StringBuilder table = new StringBuilder("CREATE TABLE types (k int PRIMARY KEY");
    StringBuilder names = new StringBuilder("k");
    StringBuilder marks = new StringBuilder("?");
    for (String type : columns.keySet()) {
      table.append(", c_").append(type).append(' ').append(type);
      names.append(", c_").append(type);
      marks.append(", ?");
    }
    session.execute("CREATE TYPE point (x int, y text)");
    session.execute(
        table + ", l list<int>, s set<text>, m map<text, int>, p frozen<point>, t tuple<int, text>, v vector<float, 3>)");
    PreparedStatement insert = session.prepare("INSERT INTO types (" + names + ") VALUES (" + marks + ")");
    BoundStatementBuilder bound = insert.boundStatementBuilder().setInt(0, 1);
    int i = 1;
    for (Object value : columns.values()) {
      bound = set(bound, i++, value);
    }
    session.execute(bound.build());
    Row row = session.execute("SELECT * FROM types WHERE k = 1").one();
    for (Map.Entry<String, Object> column : columns.entrySet()) {
      same(column.getValue(), row.getObject("c_" + column.getKey()), column.getKey());
    }
    PreparedStatement others =
        session.prepare("INSERT INTO types (k, l, s, m, p, t, v) VALUES (?, ?, ?, ?, ?, ?, ?)");
    UserDefinedType point = (UserDefinedType) others.getVariableDefinitions().get(4).getType();
    TupleType tuple = (TupleType) others.getVariableDefinitions().get(5).getType();
    UdtValue p = point.newValue(1, "y");
    TupleValue t = tuple.newValue(1, "one");
    CqlVector<Float> v = CqlVector.newInstance(1.0f, 2.5f, -3.0f);
    session.execute(
        others.boundStatementBuilder()
            .setInt(0, 2)
            .setList(1, List.of(3, 1, 2), Integer.class)
            .setSet(2, Set.of("a", "b"), String.class)
            .setMap(3, Map.of("x", 1), String.class, Integer.class)
            .setUdtValue(4, p)
            .setTupleValue(5, t)
            .set(6, v, GenericType.vectorOf(Float.class))
            .build());
    row = session.execute("SELECT l, s, m, p, t, v FROM types WHERE k = 2").one();
    same(List.of(3, 1, 2), row.getList("l", Integer.class), "list");
    same(Set.of("a", "b"), row.getSet("s", String.class), "set");
    same(Map.of("x", 1), row.getMap("m", String.class, Integer.class), "map");
    same(p.getFormattedContents(), row.getUdtValue("p").getFormattedContents(), "udt");
    same(t.getFormattedContents(), row.getTupleValue("t").getFormattedContents(), "tuple");
    same(v, row.getVector("v", Float.class), "vector");
    holds("types");
  }

  @SuppressWarnings("unchecked")
  private static BoundStatementBuilder set(BoundStatementBuilder bound, int i, Object value) {
    Class<Object> type = (Class<Object>) value.getClass();
    if (value instanceof ByteBuffer) {
      return bound.setByteBuffer(i, (ByteBuffer) value);
    }
    if (value instanceof InetAddress) {
      return bound.setInetAddress(i, (InetAddress) value);
    }
    return bound.set(i, value, type);
  }

  private void paging() {
    session.execute("CREATE TABLE pages (k int, c int, PRIMARY KEY (k, c))");
    PreparedStatement insert = session.prepare("INSERT INTO pages (k, c) VALUES (?, ?)");
    for (int c = 0; c < 100; c++) {
      session.execute(insert.bind(c % 3, c));
    }
    for (int size : new int[] {7, 100, 1000}) {
      TreeSet<Integer> seen = new TreeSet<>();
      for (Row row : session.execute(SimpleStatement.newInstance("SELECT c FROM pages").setPageSize(size))) {
        check(seen.add(row.getInt(0)), "a row twice");
      }
      same(100, seen.size(), "rows in pages of " + size);
    }
    ResultSet first = session.execute(SimpleStatement.newInstance("SELECT c FROM pages WHERE k = 1").setPageSize(10));
    same(10, first.getAvailableWithoutFetching(), "first page");
    ByteBuffer state = first.getExecutionInfo().getPagingState();
    ResultSet rest =
        session.execute(SimpleStatement.newInstance("SELECT c FROM pages WHERE k = 1").setPagingState(state));
    same(31, rest.one().getInt(0), "the row after the paging state");
    holds("paging");
  }

  private void batches() {
    session.execute("CREATE TABLE batches (k int PRIMARY KEY, v int)");
    session.execute("CREATE TABLE counts (k int PRIMARY KEY, c counter)");
    PreparedStatement insert = session.prepare("INSERT INTO batches (k, v) VALUES (?, ?)");
    for (BatchType type : new BatchType[] {BatchType.LOGGED, BatchType.UNLOGGED}) {
      session.execute(
          BatchStatement.newInstance(
              type, insert.bind(1, 1), insert.bind(2, 2),
              SimpleStatement.newInstance("INSERT INTO batches (k, v) VALUES (3, ?)", 3)));
    }
    same(3, session.execute("SELECT * FROM batches").all().size(), "batch");
    SimpleStatement one = SimpleStatement.newInstance("UPDATE counts SET c = c + 1 WHERE k = 1");
    session.execute(BatchStatement.newInstance(BatchType.COUNTER, one, one));
    same(2L, session.execute("SELECT c FROM counts").one().getLong(0), "counter");
    holds("batches");
  }

  private void lightweightTransactions() {
    session.execute("CREATE TABLE lwt (k int PRIMARY KEY, v int)");
    check(session.execute("INSERT INTO lwt (k, v) VALUES (1, 1) IF NOT EXISTS").wasApplied(), "applied");
    check(!session.execute("INSERT INTO lwt (k, v) VALUES (1, 2) IF NOT EXISTS").wasApplied(), "not applied");
    PreparedStatement update = session.prepare("UPDATE lwt SET v = ? WHERE k = ? IF v = ?");
    check(session.execute(update.bind(5, 1, 1)).wasApplied(), "update applied");
    Row refused = session.execute(update.bind(6, 1, 1)).one();
    check(!refused.getBoolean("[applied]") && refused.getInt("v") == 5, "update refused");
    holds("lightweight transactions");
  }

  private void schemaMetadata() {
    session.execute(
        "CREATE TABLE meta (a int, b text, c int, d text, s int STATIC, v map<int, frozen<point>>, PRIMARY KEY ((a, b), c, d))"
            + " WITH CLUSTERING ORDER BY (c DESC, d ASC) AND comment = 'seen'");
    KeyspaceMetadata keyspace = session.refreshSchema().getKeyspace(KEYSPACE).orElseThrow();
    TableMetadata table = keyspace.getTable("meta").orElseThrow();
    same(2, table.getPartitionKey().size(), "partition key");
    same(List.of(ClusteringOrder.DESC, ClusteringOrder.ASC), List.copyOf(table.getClusteringColumns().values()), "clustering");
    check(table.getColumn("s").orElseThrow().isStatic(), "static");
    same("map<int, frozen<" + KEYSPACE + ".point>>", table.getColumn("v").orElseThrow().getType().asCql(true, false)
        .replace("\"", ""), "type");
    same("seen", table.getOptions().get(CqlIdentifier.fromCql("comment")), "comment");
    check(keyspace.getUserDefinedType("point").isPresent(), "user type");
    check(session.getMetadata().getTokenMap().isPresent(), "token map");
    check(session.checkSchemaAgreement(), "schema agreement");
    holds("schema metadata");
  }

  private void schemaEvents() throws Exception {
    try (CqlSession other = connect(true)) {
      session.execute("CREATE TABLE pushed (k int PRIMARY KEY)");
      waitFor(() -> table(other, "pushed") != null, "a created table");
      session.execute("ALTER TABLE pushed ADD v int");
      waitFor(() -> table(other, "pushed").getColumn("v").isPresent(), "an added column");
      session.execute("DROP TABLE pushed");
      waitFor(() -> table(other, "pushed") == null, "a dropped table");
    }
    holds("schema events");
  }

  private static TableMetadata table(CqlSession session, String name) {
    return session.getMetadata().getKeyspace(KEYSPACE).flatMap(k -> k.getTable(name)).orElse(null);
  }

  private interface Condition {
    boolean holds();
  }

  private static void waitFor(Condition condition, String what) throws InterruptedException {
    for (int i = 0; i < 600; i++) {
      if (condition.holds()) {
        return;
      }
      Thread.sleep(100);
    }
    throw new AssertionError("not seen: " + what);
  }

  private void tracing() {
    session.execute("CREATE TABLE traced (k int PRIMARY KEY)");
    ResultSet result =
        session.execute(SimpleStatement.newInstance("INSERT INTO traced (k) VALUES (1)").setTracing(true));
    QueryTrace trace = result.getExecutionInfo().getQueryTrace();
    check(!trace.getEvents().isEmpty(), "events");
    same("INSERT INTO traced (k) VALUES (1)", trace.getParameters().get("query"), "traced query");
    holds("tracing");
  }

  private void errors() {
    fails(SyntaxError.class, "SELEC");
    fails(InvalidQueryException.class, "SELECT * FROM nope");
    fails(AlreadyExistsException.class, "CREATE TABLE traced (k int PRIMARY KEY)");
    try {
      session.execute(
          SimpleStatement.newInstance("INSERT INTO traced (k) VALUES (1)")
              .setConsistencyLevel(DefaultConsistencyLevel.TWO));
      throw new AssertionError("TWO on one replica");
    } catch (AllNodesFailedException failed) {
      // The driver tries the next node, and there is none.
      UnavailableException unavailable =
          (UnavailableException) failed.getAllErrors().values().iterator().next().get(0);
      same(2, unavailable.getRequired(), "required");
      same(1, unavailable.getAlive(), "alive");
    }
    holds("errors");
  }

  private void fails(Class<? extends RuntimeException> wanted, String statement) {
    try {
      session.execute(statement);
    } catch (RuntimeException error) {
      check(wanted.isInstance(error), statement + ": " + error);
      return;
    }
    throw new AssertionError("accepted: " + statement);
  }

  private void concurrency() throws Exception {
    session.execute("CREATE TABLE flight (k int PRIMARY KEY, v int)");
    PreparedStatement insert = session.prepare("INSERT INTO flight (k, v) VALUES (?, ?)");
    PreparedStatement select = session.prepare("SELECT v FROM flight WHERE k = ?");
    List<CompletionStage<?>> writes = new ArrayList<>();
    for (int i = 0; i < 1000; i++) {
      BoundStatement bound = insert.bind(i, i * i);
      writes.add(session.executeAsync(bound));
    }
    for (CompletionStage<?> write : writes) {
      write.toCompletableFuture().get();
    }
    for (int i = 0; i < 1000; i += 37) {
      same(i * i, session.execute(select.bind(i)).one().getInt(0), "value " + i);
    }
    holds("concurrency");
  }
}
