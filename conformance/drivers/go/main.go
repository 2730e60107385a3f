// What an application does with gocql, once for each protocol version, against ADDRESS PORT. With CA USER PASSWORD
// besides it does so with TLS and a login, in version 5 alone. Prints a line for each part that holds; an error ends
// it with status 1.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"math/big"
	"net"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
	"gopkg.in/inf.v0"
)

const keyspace = "drivers_go"

type program struct {
	*gocql.Session
	version int
}

func main() {
	log.SetFlags(0)
	port, err := strconv.Atoi(os.Args[2])
	must(err)
	versions := []int{3, 4, 5}
	if len(os.Args) > 3 {
		versions = []int{5}
	}
	for _, version := range versions {
		run(os.Args[1], port, version)
	}
	fmt.Println("done")
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func same(wanted, got any, what string) {
	if !reflect.DeepEqual(wanted, got) {
		panic(fmt.Sprintf("%s: wanted %#v, got %#v", what, wanted, got))
	}
}

func connect(address string, port, version int, keyspace string) *gocql.Session {
	cluster := gocql.NewCluster(address)
	cluster.Port = port
	cluster.ProtoVersion = version
	cluster.Keyspace = keyspace
	cluster.Compressor = lz4.LZ4Compressor{}
	cluster.Timeout = time.Minute
	cluster.ConnectTimeout = time.Minute
	cluster.Consistency = gocql.One
	if len(os.Args) > 3 {
		cluster.SslOpts = &gocql.SslOptions{CaPath: os.Args[3], EnableHostVerification: true}
		cluster.Authenticator = gocql.PasswordAuthenticator{Username: os.Args[4], Password: os.Args[5]}
	}
	session, err := cluster.CreateSession()
	must(err)
	return session
}

func run(address string, port, version int) {
	setup := connect(address, port, version, "")
	must(setup.Query("DROP KEYSPACE IF EXISTS " + keyspace).Exec())
	must(setup.Query("CREATE KEYSPACE " + keyspace +
		" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").Exec())
	setup.Close()
	session := connect(address, port, version, keyspace)
	defer session.Close()
	p := &program{session, version}
	for _, part := range []struct {
		name string
		run  func()
	}{
		{"types", p.allTypes}, {"paging", p.paging}, {"batches", p.batches},
		{"lightweight transactions", p.lightweightTransactions}, {"schema metadata", p.schemaMetadata},
		{"schema events", func() { p.schemaEvents(address, port) }}, {"tracing", p.tracing}, {"errors", p.errors},
		{"concurrency", p.concurrency},
	} {
		part.run()
		fmt.Printf("v%d %s\n", version, part.name)
	}
	must(p.Query("DROP KEYSPACE " + keyspace).Exec())
}

func (p *program) exec(statement string, values ...any) {
	must(p.Query(statement, values...).Exec())
}

func (p *program) allTypes() {
	timeuuid, err := gocql.ParseUUID("50554d6e-29bb-11e5-b345-feff819cdc9f")
	must(err)
	ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(40), nil)
	values := []struct {
		kind  string
		value any
	}{
		{"ascii", "ascii"}, {"bigint", int64(1<<63 - 1)}, {"blob", []byte{0, 255}}, {"boolean", true},
		{"date", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)}, {"double", -1.5e300}, {"float", float32(0.5)},
		{"inet", net.ParseIP("2001:db8::1")}, {"int", -1 << 31}, {"smallint", int16(-1 << 15)}, {"text", "žluť 🦀"},
		{"time", 24*time.Hour - 1}, {"timestamp", time.UnixMilli(1709208000123).UTC()}, {"timeuuid", timeuuid},
		{"tinyint", int8(-128)}, {"uuid", timeuuid}, {"duration", gocql.Duration{Months: 1, Days: 2, Nanoseconds: 3}},
		{"list<int>", []int{3, 1, 2}}, {"set<text>", []string{"a", "b"}}, {"map<text, int>", map[string]int{"x": 1}},
		{"frozen<list<frozen<set<int>>>>", [][]int{{1, 2}, {3}}}, {"vector<float, 3>", []float32{1, 2.5, -3}},
	}
	newer := map[string]bool{"date": true, "time": true, "smallint": true, "tinyint": true, "duration": true}
	for i, column := range values {
		if p.version < 5 && (column.kind == "duration" || p.version < 4 && newer[column.kind]) {
			continue
		}
		table := fmt.Sprintf("type_%d", i)
		p.exec(fmt.Sprintf("CREATE TABLE %s (k int PRIMARY KEY, v %s)", table, column.kind))
		p.exec(fmt.Sprintf("INSERT INTO %s (k, v) VALUES (?, ?)", table), 1, column.value)
		got := reflect.New(reflect.TypeOf(column.value))
		must(p.Query(fmt.Sprintf("SELECT v FROM %s WHERE k = ?", table), 1).Scan(got.Interface()))
		same(column.value, got.Elem().Interface(), column.kind)
	}
	p.exec("CREATE TYPE point (x int, y text)")
	p.exec("CREATE TABLE others (k int PRIMARY KEY, d decimal, v varint, p frozen<point>, t tuple<int, text>, n text)")
	p.exec("INSERT INTO others (k, d, v, p, t) VALUES (?, ?, ?, ?, (?, ?))", 1, inf.NewDec(150, 2), ten,
		map[string]any{"x": 1, "y": "y"}, 1, "one")
	var (
		decimal inf.Dec
		varint  big.Int
		point   map[string]any
		number  int
		text    string
		null    *string
	)
	must(p.Query("SELECT d, v, p, t, n FROM others WHERE k = 1").Scan(&decimal, &varint, &point, &number, &text, &null))
	same("1.50", decimal.String(), "decimal")
	same(ten.String(), varint.String(), "varint")
	same(1, number, "tuple")
	same("one", text, "tuple")
	same((*string)(nil), null, "null")
	same("y", fmt.Sprint(reflect.Indirect(reflect.ValueOf(point["y"])).Interface()), "user type")
}

func (p *program) paging() {
	p.exec("CREATE TABLE pages (k int, c int, PRIMARY KEY (k, c))")
	for c := 0; c < 100; c++ {
		p.exec("INSERT INTO pages (k, c) VALUES (?, ?)", c%3, c)
	}
	for _, size := range []int{7, 100, 1000} {
		seen := map[int]bool{}
		var c int
		rows := p.Query("SELECT c FROM pages").PageSize(size).Iter()
		for rows.Scan(&c) {
			seen[c] = true
		}
		must(rows.Close())
		same(100, len(seen), "rows")
	}
	first := p.Query("SELECT c FROM pages WHERE k = 1").PageSize(10).PageState(nil).Iter()
	same(10, first.NumRows(), "first page")
	state := first.PageState()
	must(first.Close())
	var c int
	rest := p.Query("SELECT c FROM pages WHERE k = 1").PageState(state).Iter()
	rest.Scan(&c)
	must(rest.Close())
	same(31, c, "the row after the paging state")
}

func (p *program) batches() {
	p.exec("CREATE TABLE batches (k int PRIMARY KEY, v int)")
	p.exec("CREATE TABLE counts (k int PRIMARY KEY, c counter)")
	for _, kind := range []gocql.BatchType{gocql.LoggedBatch, gocql.UnloggedBatch} {
		batch := p.Batch(kind)
		batch.Query("INSERT INTO batches (k, v) VALUES (?, ?)", 1, 1)
		batch.Query("INSERT INTO batches (k, v) VALUES (2, 2)")
		must(batch.Exec())
	}
	var rows int
	must(p.Query("SELECT count(*) FROM batches").Scan(&rows))
	same(2, rows, "rows")
	batch := p.Batch(gocql.CounterBatch)
	batch.Query("UPDATE counts SET c = c + ? WHERE k = ?", 1, 1)
	batch.Query("UPDATE counts SET c = c + ? WHERE k = ?", 2, 1)
	must(batch.Exec())
	must(p.Query("SELECT c FROM counts WHERE k = 1").Scan(&rows))
	same(3, rows, "counter")
}

func (p *program) lightweightTransactions() {
	p.exec("CREATE TABLE lwt (k int PRIMARY KEY, v int)")
	var k, v int
	applied, err := p.Query("INSERT INTO lwt (k, v) VALUES (?, ?) IF NOT EXISTS", 1, 1).ScanCAS(&k, &v)
	must(err)
	same(true, applied, "applied")
	applied, err = p.Query("INSERT INTO lwt (k, v) VALUES (?, ?) IF NOT EXISTS", 1, 2).ScanCAS(&k, &v)
	must(err)
	same([]any{false, 1, 1}, []any{applied, k, v}, "not applied")
	applied, err = p.Query("UPDATE lwt SET v = ? WHERE k = ? IF v = ?", 5, 1, 1).ScanCAS(&v)
	must(err)
	same(true, applied, "update")
}

func (p *program) schemaMetadata() {
	p.exec("CREATE TABLE meta (a int, b text, c int, d text, s int STATIC, v frozen<point>, PRIMARY KEY ((a, b), c, d))" +
		" WITH CLUSTERING ORDER BY (c DESC, d ASC)")
	var found *gocql.TableMetadata
	waitFor(func() bool {
		metadata, err := p.KeyspaceMetadata(keyspace)
		must(err)
		found = metadata.Tables["meta"]
		return found != nil
	}, "the table")
	same(2, len(found.PartitionKey), "partition key")
	same("c", found.ClusteringColumns[0].Name, "clustering")
	same(gocql.DESC, found.ClusteringColumns[0].Order, "order")
	same(gocql.ColumnStatic, found.Columns["s"].Kind, "static")
	must(p.AwaitSchemaAgreement(nil))
}

func (p *program) schemaEvents(address string, port int) {
	other := connect(address, port, p.version, keyspace)
	defer other.Close()
	has := func(column string) bool {
		metadata, err := other.KeyspaceMetadata(keyspace)
		if err != nil || metadata.Tables["pushed"] == nil {
			return false
		}
		return metadata.Tables["pushed"].Columns[column] != nil
	}
	p.exec("CREATE TABLE pushed (k int PRIMARY KEY)")
	waitFor(func() bool { return has("k") }, "a created table")
	p.exec("ALTER TABLE pushed ADD v int")
	waitFor(func() bool { return has("v") }, "an added column")
	p.exec("DROP TABLE pushed")
	waitFor(func() bool { return !has("k") }, "a dropped table")
}

func waitFor(holds func() bool, what string) {
	for i := 0; i < 600; i++ {
		if holds() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	panic("not seen: " + what)
}

func (p *program) tracing() {
	p.exec("CREATE TABLE traced (k int PRIMARY KEY)")
	var shown bytes.Buffer
	must(p.Query("INSERT INTO traced (k) VALUES (1)").Trace(gocql.NewTraceWriter(p.Session, &shown)).Exec())
	if !strings.Contains(shown.String(), "Tracing session") {
		panic("no trace: " + shown.String())
	}
}

func (p *program) errors() {
	var syntax *gocql.RequestErrSyntax
	var invalid *gocql.RequestErrInvalid
	var exists *gocql.RequestErrAlreadyExists
	var unavailable *gocql.RequestErrUnavailable
	err := p.Query("SELEC").Exec()
	same(true, errors.As(err, &syntax), fmt.Sprintf("%T", err))
	err = p.Query("SELECT * FROM nope").Exec()
	same(true, errors.As(err, &invalid), fmt.Sprintf("%T", err))
	same("table nope does not exist", invalid.Message(), "message")
	err = p.Query("CREATE TABLE traced (k int PRIMARY KEY)").Exec()
	same(true, errors.As(err, &exists), fmt.Sprintf("%T", err))
	same([]string{keyspace, "traced"}, []string{exists.Keyspace, exists.Table}, "names")
	err = p.Query("INSERT INTO traced (k) VALUES (1)").Consistency(gocql.Two).Exec()
	same(true, errors.As(err, &unavailable), fmt.Sprintf("%T %v", err, err))
	same([]int{2, 1}, []int{unavailable.Required, unavailable.Alive}, "replicas")
}

func (p *program) concurrency() {
	p.exec("CREATE TABLE flight (k int PRIMARY KEY, v int)")
	var all sync.WaitGroup
	for worker := 0; worker < 20; worker++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for k := worker; k < 1000; k += 20 {
				p.exec("INSERT INTO flight (k, v) VALUES (?, ?)", k, k*k)
				var v int
				must(p.Query("SELECT v FROM flight WHERE k = ?", k).Scan(&v))
				same(k*k, v, "value")
			}
		}()
	}
	all.Wait()
}
