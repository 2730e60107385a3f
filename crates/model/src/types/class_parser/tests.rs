use super::*;

/// Short class names of the headers that a real node wrote, with the CQL type each stands for.
const REAL: &[(&str, &str)] = &[
    ("VectorType(FloatType , 3)", "vector<float, 3>"),
    (
        "TupleType(Int32Type,ListType(SetType(Int32Type)))",
        "frozen<tuple<int, frozen<list<frozen<set<int>>>>>>",
    ),
    (
        "TupleType(UserType(model_t,7531,61:Int32Type),MapType(Int32Type,ListType(Int32Type)))",
        "frozen<tuple<frozen<u1>, frozen<map<int, frozen<list<int>>>>>>",
    ),
    ("VectorType(FrozenType(ListType(UTF8Type)) , 2)", "vector<frozen<list<text>>, 2>"),
    ("FrozenType(ListType(VectorType(SetType(Int32Type) , 2)))", "frozen<list<vector<frozen<set<int>>, 2>>>"),
    (
        "VectorType(TupleType(Int32Type,ListType(Int32Type)) , 2)",
        "vector<frozen<tuple<int, frozen<list<int>>>>, 2>",
    ),
    ("ListType(TupleType(Int32Type,ListType(Int32Type)))", "list<frozen<tuple<int, frozen<list<int>>>>>"),
    ("ListType(VectorType(FrozenType(ListType(Int32Type)) , 2))", "list<vector<frozen<list<int>>, 2>>"),
    ("MapType(UTF8Type,FrozenType(ListType(Int32Type)))", "map<text, frozen<list<int>>>"),
    (
        "MapType(FrozenType(ListType(Int32Type)),FrozenType(MapType(Int32Type,SetType(Int32Type))))",
        "map<frozen<list<int>>, frozen<map<int, frozen<set<int>>>>>",
    ),
    (
        "UserType(model_t,7531,61:Int32Type,6c:FrozenType(ListType(UTF8Type)),5175:FrozenType(MapType(UTF8Type,SetType(Int32Type))))",
        "u1",
    ),
    (
        "UserType(model_t,7532,78:FrozenType(UserType(model_t,7531,61:Int32Type,6c:ListType(UTF8Type))),74:TupleType(Int32Type,ListType(Int32Type)),76:VectorType(FloatType , 3))",
        "u2",
    ),
    ("FrozenType(UserType(model_t,7531,61:Int32Type,6c:ListType(UTF8Type)))", "frozen<u1>"),
    (
        "CompositeType(ReversedType(Int32Type),ListType(Int32Type),FrozenType(SetType(ListType(Int32Type))))",
        "'CompositeType(ReversedType(Int32Type),ListType(Int32Type),FrozenType(SetType(ListType(Int32Type))))'",
    ),
    (
        "FrozenType(ListType(CompositeType(ListType(Int32Type),MapType(Int32Type,FrozenType(SetType(Int32Type))))))",
        "frozen<list<'CompositeType(ListType(Int32Type),MapType(Int32Type,FrozenType(SetType(Int32Type))))'>>",
    ),
    ("CompositeType()", "'CompositeType()'"),
    ("DynamicCompositeType()", "'DynamicCompositeType()'"),
    (
        "DynamicCompositeType(s=>UTF8Type,S=>ReversedType(UTF8Type),i=>CompositeType(Int32Type))",
        "'DynamicCompositeType(s=>UTF8Type,S=>ReversedType(UTF8Type),i=>CompositeType(Int32Type))'",
    ),
    ("SimpleDateType", "date"),
    ("CounterColumnType", "counter"),
    ("EmptyType", "empty"),
];

/// Puts the package before every class name.
fn full(short: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in short.chars().chain([' ']) {
        if c.is_ascii_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        if word.ends_with("Type") {
            out.push_str(MARSHAL);
        }
        out.push_str(&std::mem::take(&mut word));
        out.push(c);
    }
    out.trim_end().to_owned()
}

#[test]
fn real_headers_are_understood_and_written_alike() {
    for (short, cql) in REAL {
        let class = full(short);
        let parsed = CqlType::parse_class(&class).unwrap();
        assert_eq!(parsed.ty.to_string().replace(MARSHAL, ""), *cql);
        assert_eq!(parsed.ty.class_name(), class);
        assert!(!parsed.reversed);
        let reversed = CqlType::parse_class(&format!("{MARSHAL}ReversedType({class})")).unwrap();
        assert_eq!(reversed, ParsedType { ty: parsed.ty, reversed: true });
    }
}

#[test]
fn blanks_and_short_names_are_tolerated() {
    let ty = CqlType::parse_class(" MapType ( Int32Type ,\tFrozenType( SetType(UTF8Type ) ) ) ").unwrap().ty;
    assert_eq!(ty.to_string(), "map<int, frozen<set<text>>>");
    assert_eq!(CqlType::parse_class("DateType").unwrap().ty, CqlType::Timestamp);
    assert_eq!(CqlType::parse_class("LexicalUUIDType").unwrap().ty, CqlType::LexicalUuid);
}

#[test]
fn components_are_read_as_cassandra_reads_them() {
    for (text, class) in [
        ("CompositeType", "CompositeType()"),
        ("CompositeType(,Int32Type UTF8Type,)", "CompositeType(Int32Type,UTF8Type)"),
        (
            "CompositeType(Int32Type(reversed=true),AsciiType(reversed=false),UTF8Type(reversed),LongType(x=y))",
            "CompositeType(ReversedType(Int32Type),AsciiType,ReversedType(UTF8Type),LongType)",
        ),
        (
            "DynamicCompositeType ( a => Int32Type , b=>FrozenType(CompositeType(Int32Type)) )",
            "DynamicCompositeType(a=>Int32Type,b=>CompositeType(Int32Type))",
        ),
        (
            "CompositeType(LexicalUUIDType(reversed=true),ReversedType(DateType),LegacyTimeUUIDType,UUIDType)",
            "CompositeType(ReversedType(LexicalUUIDType),ReversedType(DateType),LegacyTimeUUIDType,UUIDType)",
        ),
        ("DynamicCompositeType(a=>Int32Type,a=>UTF8Type)", "DynamicCompositeType(a=>UTF8Type)"),
    ] {
        assert_eq!(CqlType::parse_class(text).unwrap().ty.class_name(), full(class), "{text}");
    }
    for text in [
        "CompositeType(Int32Type",
        "CompositeType(Int32Type,,UTF8Type)",
        "CompositeType(a=>Int32Type)",
        "CompositeType(VectorType(FloatType,0))",
        "DynamicCompositeType(ab=>Int32Type)",
        "DynamicCompositeType($=>Int32Type)",
        "DynamicCompositeType(a=Int32Type)",
        "DynamicCompositeType(a=>)",
        "DynamicCompositeType(Int32Type)",
        "ListType(Int32Type(reversed=true))",
    ] {
        assert!(CqlType::parse_class(text).is_err(), "{text}");
    }
}

#[test]
fn partition_keys_are_composites_of_their_columns() {
    let class = full("CompositeType(Int32Type,UTF8Type)");
    let types = CqlType::parse_key_class(&class).unwrap();
    assert_eq!(types, [CqlType::Int, CqlType::Text]);
    assert_eq!(CqlType::key_class_name(&types), class);
    assert_eq!(CqlType::parse_key_class(&full("LongType")).unwrap(), [CqlType::BigInt]);
}

#[test]
fn unknown_classes_keep_their_text() {
    for text in [
        "com.example.Mine",
        "com.example.Mine(a=>b, (c))",
        "org.apache.cassandra.db.marshal.PartitionerDefinedOrder(org.apache.cassandra.dht.Murmur3Partitioner)",
    ] {
        let parsed = CqlType::parse_class(text).unwrap();
        assert_eq!(parsed.ty, CqlType::Custom(text.into()));
        assert_eq!(parsed.ty.class_name(), text);
    }
}

#[test]
fn broken_text_is_an_error() {
    for text in [
        "",
        "(",
        "ListType",
        "ListType(",
        "ListType(Int32Type",
        "ListType(Int32Type))",
        "MapType(Int32Type)",
        "VectorType(FloatType , x)",
        "VectorType(FloatType , 0)",
        "UserType(ks,zz,61:Int32Type)",
        "UserType(ks,7531,61=Int32Type)",
        "com.example.Mine(",
        "Int32Type é",
    ] {
        assert!(CqlType::parse_class(text).is_err(), "{text}");
    }
    let deep = format!("{}Int32Type{}", "ListType(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(CqlType::parse_class(&deep).unwrap_err().reason, "nested too deeply");
}
