//! Types that are written as classes of Cassandra: `'Int32Type'`,
//! `'org.apache.cassandra.db.marshal.ListType(UTF8Type)'`.

use model::types::CqlType;

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// Classes that are made of their parameters.
const FACTORIES: [&str; 10] = [
    "CompositeType",
    "DynamicCompositeType",
    "FrozenType",
    "ListType",
    "MapType",
    "ReversedType",
    "SetType",
    "TupleType",
    "UserType",
    "VectorType",
];

/// The type that a class stands for; blanks alone are bytes (`TypeParser.parse`).
///
/// # Errors
/// Why there is no such type, in the words that Cassandra's parser has for it.
pub(crate) fn parse(class: &str) -> Result<CqlType, String> {
    if class.trim_matches([' ', '\t', '\n']).is_empty() {
        return Ok(CqlType::Blob);
    }
    let error = |reason: String| Err(format!("Error setting type {class}: {reason}"));
    // A class with parameters is made by a factory, which fails for whatever is wrong with them.
    let name = class.trim_start().strip_prefix(PACKAGE).unwrap_or(class.trim_start());
    let factory = FACTORIES
        .iter()
        .find(|known| name.strip_prefix(**known).is_some_and(|rest| rest.trim_start().starts_with('(')));
    let refused = factory.map(|class| format!("Invalid definition for comparator {PACKAGE}{class}."));
    match (CqlType::parse_class(class), refused) {
        (Ok(parsed), None) => match parsed.ty {
            CqlType::Custom(unknown) => {
                let name = unknown.split('(').next().unwrap_or_default().trim_end();
                let package = if name.contains('.') { "" } else { PACKAGE };
                error(format!("Unable to find abstract-type class '{package}{name}'"))
            }
            known => Ok(known),
        },
        (Ok(parsed), Some(refused)) => {
            let is_unknown = |ty: &CqlType| matches!(ty, CqlType::Custom(_));
            if parsed.ty.any(&is_unknown) { error(refused) } else { Ok(parsed.ty) }
        }
        // Which Cassandra does not look at.
        (Err(e), _) if e.reason == model::types::TEXT_AFTER => error(e.reason.to_owned()),
        (Err(_), Some(refused)) => error(refused),
        (Err(reason), None) => error(reason.reason.to_owned()),
    }
}
