//! What no statement can make: types and names that are too large, and classes that spell out other user
//! types than the keyspace's own.

use super::*;
use model::types::TypeBounds;

fn answer(session: &mut Session, cql: &str) -> String {
    session.answer(cql).unwrap_or_else(|| panic!("no statement: {cql:.100}")).join("\n")
}

fn accepted(session: &mut Session, cql: &str) {
    let answer = answer(session, cql);
    assert!(answer.starts_with("ok schema"), "{cql:.100}: {answer}");
}

fn refused(session: &mut Session, cql: &str, words: &str) {
    let before = Arc::clone(&session.schema);
    let answer = answer(session, cql);
    assert!(answer.starts_with("error 0x2200") && answer.contains(words), "{cql:.100}: {answer}");
    assert_eq!(session.schema, before);
}

#[test]
fn a_class_has_the_user_types_of_its_keyspace_and_no_others() {
    let mut session = Session::new();
    accepted(&mut session, "CREATE TYPE u (a int, l list<int>)");
    accepted(&mut session, "CREATE TYPE w (u frozen<u>)");
    let own = format!("UserType({KEYSPACE},75,61:Int32Type,6c:ListType(Int32Type))");
    for (class, words) in [
        ("UserType(other,616263,61:Int32Type)".to_owned(), "cannot refer to a user type in keyspace other"),
        (format!("UserType({KEYSPACE},616263,61:Int32Type)"), "Unknown type $ks.abc"),
        (format!("UserType({KEYSPACE},75,61:Int32Type)"), "is not what the class says"),
        (format!("UserType({KEYSPACE},75,61:LongType,6c:ListType(Int32Type))"), "is not what the class says"),
        (format!("ListType(MapType(Int32Type,UserType({KEYSPACE},616263)))"), "Unknown type $ks.abc"),
        (format!("VectorType(UserType({KEYSPACE},616263),2)"), "Unknown type $ks.abc"),
        (format!("UserType({KEYSPACE},77,75:UserType({KEYSPACE},75,61:Int32Type))"), "is not what the class"),
    ] {
        refused(&mut session, &format!("CREATE TABLE c (k int PRIMARY KEY, v '{class}')"), words);
        refused(&mut session, &format!("CREATE TYPE c (v '{class}')"), words);
    }
    accepted(
        &mut session,
        &format!(
            "CREATE TABLE c (k int PRIMARY KEY, a 'FrozenType({own})', b list<'{own}'>, c 'TupleType({own})')"
        ),
    );
    let keyspace = session.schema.keyspace(KEYSPACE).unwrap();
    let shown = |column: &str| keyspace.tables["c"].column(column).unwrap().ty.to_string();
    assert_eq!(
        [shown("a"), shown("b"), shown("c")],
        ["frozen<u>", "list<frozen<u>>", "frozen<tuple<frozen<u>>>"]
    );
    let CqlType::Udt { definition, .. } = &keyspace.tables["c"].column("a").unwrap().ty else { panic!() };
    assert!(Arc::ptr_eq(definition, &keyspace.types["u"]), "frozen or not inside, it is the keyspace's");
    refused(&mut session, "CREATE TYPE x (v list<'CounterColumnType'>)", "Counters are not allowed");
}

#[test]
fn a_type_is_as_deep_as_it_is_spelled_out_whether_or_not_it_says_frozen() {
    let max = TypeBounds::CREATED.depth_max;
    let mut session = Session::new();
    let nested = |levels: usize, open: &str, close: &str| {
        format!("{}int{}", open.repeat(levels - 1), close.repeat(levels - 1))
    };
    let table = |name: &str, ty: &str| format!("CREATE TABLE {name} (k int PRIMARY KEY, v {ty})");
    accepted(&mut session, &table("a", &nested(max, "frozen<list<", ">>")));
    let deeper = nested(max + 1, "frozen<list<", ">>");
    refused(&mut session, &table("b", &deeper), "it nests deeper than 64 levels");
    accepted(&mut session, &table("b", &nested(max, "vector<", ",1>")));
    refused(&mut session, &table("c", &nested(max + 1, "vector<", ",1>")), "deeper than 64 levels");
    // A class can be deeper than what the parser of statements reads.
    let class = format!("{}Int32Type{}", "ListType(".repeat(max), ")".repeat(max));
    refused(&mut session, &table("c", &format!("'{class}'")), "deeper than 64 levels");
    refused(&mut session, &format!("ALTER TABLE a ADD w {deeper}"), "deeper than 64 levels");
    refused(&mut session, &format!("CREATE TYPE u (v {})", nested(max, "frozen<list<", ">>")), "deeper than");
}

#[test]
fn a_chain_of_types_grows_as_far_as_the_bounds_go() {
    let mut session = Session::new();
    accepted(&mut session, "CREATE TYPE t0 (a int)");
    let mut chain = 0;
    loop {
        let next = chain + 1;
        let cql = format!("CREATE TYPE t{next} (a frozen<t{chain}>)");
        if !answer(&mut session, &cql).starts_with("ok") {
            refused(&mut session, &cql, "The type t63 is too large: it nests deeper than 64 levels");
            break;
        }
        chain = next;
    }
    assert_eq!(chain, 62);
    let last = "CREATE TABLE t (k int PRIMARY KEY, v t62)";
    accepted(&mut session, last);
    refused(&mut session, "CREATE TABLE w (k int PRIMARY KEY, v list<frozen<t62>>)", "deeper than 64 levels");
    refused(&mut session, "ALTER TYPE t0 ADD b frozen<list<int>>", "deeper than 64 levels");
    accepted(&mut session, "ALTER TYPE t0 ADD b int");
}

#[test]
fn types_that_double_are_refused_when_they_have_too_many_parts() {
    let mut session = Session::new();
    accepted(&mut session, "CREATE TYPE t0 (a int, b int)");
    for level in 1..11 {
        let inner = level - 1;
        accepted(&mut session, &format!("CREATE TYPE t{level} (a frozen<t{inner}>, b frozen<t{inner}>)"));
    }
    let words = "it is made of more than 4096 types";
    refused(&mut session, "CREATE TYPE t11 (a frozen<t10>, b frozen<t10>)", words);
    accepted(&mut session, "CREATE TABLE t (k int PRIMARY KEY, v t10)");
    refused(&mut session, "ALTER TYPE t0 ADD c int", words);
    let columns: String = (0..17).map(|n| format!(", c{n} frozen<t10>")).collect();
    refused(&mut session, &format!("CREATE TABLE w (k int PRIMARY KEY{columns})"), "more than 65536 types");
    refused(&mut session, &format!("ALTER TABLE t ADD ({})", &columns[2..]), "more than 65536 types");
}

#[test]
fn a_type_that_grows_does_not_make_a_table_too_large() {
    let mut session = Session::new();
    accepted(&mut session, "CREATE TYPE u (a int)");
    let of = "tuple<u,u,u,u,u,u,u,u,u,u,u,u,u,u,u,u>";
    let columns: String = (0..100).map(|n| format!(", c{n} tuple<{of},{of},{of},{of},{of}>")).collect();
    accepted(&mut session, &format!("CREATE TABLE t (k int PRIMARY KEY{columns})"));
    for field in 0..6 {
        accepted(&mut session, &format!("ALTER TYPE u ADD f{field} int"));
    }
    refused(&mut session, "ALTER TYPE u ADD f6 int", "more than 65536 types");
}

#[test]
fn names_are_no_longer_than_the_protocol_can_tell() {
    let mut session = Session::new();
    let (name, longer) = ("n".repeat(65_535), "n".repeat(65_536));
    let words = "has at most 65535 bytes; given nnnnnnnnnnnnnnnnnnnn... of 65536";
    accepted(&mut session, "CREATE TYPE u (a int)");
    accepted(&mut session, &format!("CREATE TYPE {name} ({name} int)"));
    refused(&mut session, &format!("CREATE TYPE {longer} (a int)"), words);
    refused(&mut session, &format!("CREATE TYPE w ({longer} int)"), words);
    refused(&mut session, &format!("ALTER TYPE u ADD {longer} int"), words);
    refused(&mut session, &format!("ALTER TYPE u RENAME a TO {longer}"), words);
    accepted(&mut session, &format!("CREATE TABLE t (k int PRIMARY KEY, {name} int)"));
    refused(&mut session, &format!("CREATE TABLE w (k int PRIMARY KEY, {longer} int)"), words);
    refused(&mut session, &format!("ALTER TABLE t ADD {longer} int"), words);
    refused(&mut session, &format!("ALTER TABLE t RENAME k TO {longer}"), words);
    refused(
        &mut session,
        &format!("CREATE TABLE w (k int PRIMARY KEY, v vector<frozen<{name}>, 2>)"),
        "its name has more than 65535 bytes",
    );
    let fields: Vec<String> = (0..4_096).map(|n| format!("f{n} int")).collect();
    refused(&mut session, &format!("CREATE TYPE w ({})", fields.join(",")), "more than 4096 types");
}

#[test]
fn names_that_are_words_of_types_are_written_so_that_they_are_read_back() {
    let mut session = Session::new();
    for name in ["int", "list", "frozen", "Foo", "a \"\" b", "a'b", "empty", "select", "byte", "true", "INT"]
    {
        accepted(&mut session, &format!("CREATE TYPE \"{name}\" (a int)"));
        let columns = format!("k int PRIMARY KEY, v \"{name}\", w map<int, frozen<\"{name}\">>");
        let table = format!("CREATE TABLE t{} ({columns})", session.tables_made);
        accepted(&mut session, &table);
    }
    let keyspace = session.schema.keyspace(KEYSPACE).unwrap();
    for table in keyspace.tables.values() {
        for column in table.all_columns() {
            let text = column.ty.to_string();
            let read = CqlType::parse_cql(&text, &|name| keyspace.types.get(name).cloned()).unwrap();
            assert_eq!(read, column.ty, "{text}");
            let cql = format!("CREATE TABLE {KEYSPACE}.x (k int PRIMARY KEY, v {text})");
            assert!(parse_statement(&cql).is_ok(), "DESCRIBE shows what can be run: {cql}");
        }
    }
    assert_eq!(keyspace.types.len(), 11);
}
