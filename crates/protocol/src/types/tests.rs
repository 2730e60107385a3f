use std::sync::Arc;

use bytes::Bytes;

use super::*;

fn encoded(version: ProtocolVersion, kind: &CqlType) -> Bytes {
    let mut out = BytesMut::new();
    put_type(&mut out, version, kind);
    out.freeze()
}

fn custom(class: &str) -> Vec<u8> {
    let mut out = BytesMut::new();
    out.put_u16(0);
    put_string(&mut out, &format!("org.apache.cassandra.db.marshal.{class}"));
    out.to_vec()
}

#[test]
fn a_type_that_a_version_lacks_is_custom() {
    for (kind, class, since, id) in [
        (CqlType::Date, "SimpleDateType", ProtocolVersion::V4, 0x11),
        (CqlType::Time, "TimeType", ProtocolVersion::V4, 0x12),
        (CqlType::SmallInt, "ShortType", ProtocolVersion::V4, 0x13),
        (CqlType::TinyInt, "ByteType", ProtocolVersion::V4, 0x14),
        (CqlType::Duration, "DurationType", ProtocolVersion::V5, 0x15),
    ] {
        for version in ProtocolVersion::ALL {
            let bytes = encoded(version, &kind);
            if version >= since {
                assert_eq!(bytes, vec![0, id]);
            } else {
                assert_eq!(bytes, custom(class));
            }
        }
    }
}

#[test]
fn a_vector_is_custom_everywhere() {
    let vector = CqlType::Vector { element: Arc::new(CqlType::Float), dimension: 3 };
    for version in ProtocolVersion::ALL {
        let class = "VectorType(org.apache.cassandra.db.marshal.FloatType , 3)";
        assert_eq!(encoded(version, &vector), custom(class));
    }
}

#[test]
fn nested_types_round_trip() {
    let point = UserType {
        keyspace: "ks".into(),
        name: "point".into(),
        fields: vec![("x".into(), CqlType::Int), ("tags".into(), CqlType::set(CqlType::Text, false))],
    };
    let point = CqlType::Udt { definition: Arc::new(point), multi_cell: false };
    let tuple = CqlType::Tuple(vec![CqlType::Inet, point].into());
    let kind = CqlType::map(CqlType::TimeUuid, CqlType::list(tuple, false), false);
    for version in ProtocolVersion::ALL {
        let mut reader = Reader::new(encoded(version, &kind));
        assert_eq!(read_type(&mut reader), Ok(kind.clone()));
        assert_eq!(reader.remaining(), 0);
    }
}

#[test]
fn bottomless_nesting_is_refused() {
    let bytes = Bytes::from([0, 0x20].repeat(10_000));
    assert!(matches!(read_type(&mut Reader::new(bytes)), Err(BodyError::Tag { what: "type", .. })));
}

#[test]
fn unknown_ids_are_refused() {
    assert!(read_type(&mut Reader::new(Bytes::from_static(&[0, 0x40]))).is_err());
}
