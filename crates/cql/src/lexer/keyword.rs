//! The keywords of CQL, in any case, and which of them may serve as names.
//!
//! Cassandra's lexer knows a word by its rule (`K_SELECT`), which shows in its error messages; a few rules
//! have several spellings (`TABLE` and `COLUMNFAMILY`).

/// Where a keyword may stand as a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeywordClass {
    /// Nowhere, unless quoted.
    Reserved,
    /// Everywhere, user types and functions included.
    Basic,
    /// A native type's name: everywhere except as the name of a user type.
    Native,
    /// Everywhere except as the name of a user type or of a function (`ttl`, `count`, `key`, ...).
    Special,
}

macro_rules! keywords {
    ($($variant:ident $token:literal $class:ident,)*) => {
        /// A keyword.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "each is the word of that name")]
        pub enum Keyword { $($variant,)* }

        impl Keyword {
            /// The name of Cassandra's lexer rule for this word, as its error messages print it.
            pub fn token_name(self) -> &'static str {
                match self { $(Keyword::$variant => $token,)* }
            }

            /// Where it may stand as a name.
            pub fn class(self) -> KeywordClass {
                match self { $(Keyword::$variant => KeywordClass::$class,)* }
            }
        }
    };
}

keywords! {
    Access "K_ACCESS" Basic,
    Add "K_ADD" Reserved,
    Aggregate "K_AGGREGATE" Basic,
    Aggregates "K_AGGREGATES" Basic,
    All "K_ALL" Basic,
    Allow "K_ALLOW" Reserved,
    Alter "K_ALTER" Reserved,
    And "K_AND" Reserved,
    Ann "K_ANN" Basic,
    Apply "K_APPLY" Reserved,
    As "K_AS" Basic,
    Asc "K_ASC" Reserved,
    Ascii "K_ASCII" Native,
    Authorize "K_AUTHORIZE" Reserved,
    Batch "K_BATCH" Reserved,
    Begin "K_BEGIN" Reserved,
    Bigint "K_BIGINT" Native,
    Blob "K_BLOB" Native,
    Boolean "K_BOOLEAN" Native,
    By "K_BY" Reserved,
    Called "K_CALLED" Basic,
    Cast "K_CAST" Special,
    Cidrs "K_CIDRS" Basic,
    Cluster "K_CLUSTER" Basic,
    Clustering "K_CLUSTERING" Basic,
    Columnfamily "K_COLUMNFAMILY" Reserved,
    Compact "K_COMPACT" Basic,
    Contains "K_CONTAINS" Basic,
    Count "K_COUNT" Special,
    Counter "K_COUNTER" Native,
    Create "K_CREATE" Reserved,
    Custom "K_CUSTOM" Basic,
    Datacenters "K_DATACENTERS" Basic,
    Date "K_DATE" Native,
    Decimal "K_DECIMAL" Native,
    Default "K_DEFAULT" Basic,
    Delete "K_DELETE" Reserved,
    Desc "K_DESC" Reserved,
    Describe "K_DESCRIBE" Reserved,
    Distinct "K_DISTINCT" Special,
    Double "K_DOUBLE" Native,
    Drop "K_DROP" Reserved,
    Duration "K_DURATION" Native,
    Entries "K_ENTRIES" Reserved,
    Execute "K_EXECUTE" Reserved,
    Exists "K_EXISTS" Basic,
    Filtering "K_FILTERING" Basic,
    Finalfunc "K_FINALFUNC" Basic,
    Float "K_FLOAT" Native,
    From "K_FROM" Reserved,
    Frozen "K_FROZEN" Basic,
    Full "K_FULL" Reserved,
    Function "K_FUNCTION" Basic,
    Functions "K_FUNCTIONS" Basic,
    Grant "K_GRANT" Reserved,
    Group "K_GROUP" Basic,
    Hashed "K_HASHED" Basic,
    Identity "K_IDENTITY" Basic,
    If "K_IF" Reserved,
    In "K_IN" Reserved,
    Index "K_INDEX" Reserved,
    Inet "K_INET" Native,
    Initcond "K_INITCOND" Basic,
    Input "K_INPUT" Basic,
    Insert "K_INSERT" Reserved,
    Int "K_INT" Native,
    Internals "K_INTERNALS" Basic,
    Into "K_INTO" Reserved,
    Is "K_IS" Reserved,
    Json "K_JSON" Special,
    Key "K_KEY" Special,
    Keys "K_KEYS" Basic,
    Keyspace "K_KEYSPACE" Reserved,
    Keyspaces "K_KEYSPACES" Basic,
    Language "K_LANGUAGE" Basic,
    Like "K_LIKE" Basic,
    Limit "K_LIMIT" Reserved,
    List "K_LIST" Basic,
    Login "K_LOGIN" Basic,
    Map "K_MAP" Basic,
    Masked "K_MASKED" Basic,
    Materialized "K_MATERIALIZED" Reserved,
    Maxwritetime "K_MAXWRITETIME" Special,
    Mbean "K_MBEAN" Basic,
    Mbeans "K_MBEANS" Basic,
    Modify "K_MODIFY" Reserved,
    Nologin "K_NOLOGIN" Basic,
    Norecursive "K_NORECURSIVE" Reserved,
    Nosuperuser "K_NOSUPERUSER" Basic,
    Not "K_NOT" Reserved,
    Null "K_NULL" Reserved,
    Of "K_OF" Reserved,
    On "K_ON" Reserved,
    Only "K_ONLY" Basic,
    Options "K_OPTIONS" Basic,
    Or "K_OR" Reserved,
    Order "K_ORDER" Reserved,
    Partition "K_PARTITION" Basic,
    Password "K_PASSWORD" Basic,
    Per "K_PER" Basic,
    Permission "K_PERMISSION" Basic,
    Permissions "K_PERMISSIONS" Basic,
    PositiveInfinity "K_POSITIVE_INFINITY" Reserved,
    PositiveNan "K_POSITIVE_NAN" Reserved,
    Primary "K_PRIMARY" Reserved,
    Rename "K_RENAME" Reserved,
    Replace "K_REPLACE" Basic,
    Returns "K_RETURNS" Basic,
    Revoke "K_REVOKE" Reserved,
    Role "K_ROLE" Basic,
    Roles "K_ROLES" Basic,
    Schema "K_SCHEMA" Reserved,
    Select "K_SELECT" Reserved,
    SelectMasked "K_SELECT_MASKED" Basic,
    Set "K_SET" Reserved,
    Sfunc "K_SFUNC" Basic,
    Smallint "K_SMALLINT" Native,
    Static "K_STATIC" Basic,
    Storage "K_STORAGE" Basic,
    Stype "K_STYPE" Basic,
    Superuser "K_SUPERUSER" Basic,
    Tables "K_TABLES" Basic,
    Text "K_TEXT" Native,
    Time "K_TIME" Native,
    Timestamp "K_TIMESTAMP" Native,
    Timeuuid "K_TIMEUUID" Native,
    Tinyint "K_TINYINT" Native,
    To "K_TO" Reserved,
    Token "K_TOKEN" Reserved,
    Trigger "K_TRIGGER" Basic,
    Truncate "K_TRUNCATE" Reserved,
    Ttl "K_TTL" Special,
    Tuple "K_TUPLE" Basic,
    Type "K_TYPE" Basic,
    Types "K_TYPES" Basic,
    Unlogged "K_UNLOGGED" Reserved,
    Unmask "K_UNMASK" Basic,
    Unset "K_UNSET" Basic,
    Update "K_UPDATE" Reserved,
    Use "K_USE" Reserved,
    User "K_USER" Basic,
    Users "K_USERS" Basic,
    Using "K_USING" Reserved,
    Uuid "K_UUID" Native,
    Values "K_VALUES" Basic,
    Varchar "K_VARCHAR" Native,
    Varint "K_VARINT" Native,
    Vector "K_VECTOR" Basic,
    View "K_VIEW" Reserved,
    Where "K_WHERE" Reserved,
    With "K_WITH" Reserved,
    Writetime "K_WRITETIME" Special,
}

/// The spellings in lower case, in byte order, for binary search.
const SPELLINGS: &[(&str, Keyword)] = &[
    ("access", Keyword::Access),
    ("add", Keyword::Add),
    ("aggregate", Keyword::Aggregate),
    ("aggregates", Keyword::Aggregates),
    ("all", Keyword::All),
    ("allow", Keyword::Allow),
    ("alter", Keyword::Alter),
    ("and", Keyword::And),
    ("ann", Keyword::Ann),
    ("apply", Keyword::Apply),
    ("as", Keyword::As),
    ("asc", Keyword::Asc),
    ("ascii", Keyword::Ascii),
    ("authorize", Keyword::Authorize),
    ("batch", Keyword::Batch),
    ("begin", Keyword::Begin),
    ("bigint", Keyword::Bigint),
    ("blob", Keyword::Blob),
    ("boolean", Keyword::Boolean),
    ("by", Keyword::By),
    ("called", Keyword::Called),
    ("cast", Keyword::Cast),
    ("cidrs", Keyword::Cidrs),
    ("cluster", Keyword::Cluster),
    ("clustering", Keyword::Clustering),
    ("columnfamilies", Keyword::Tables),
    ("columnfamily", Keyword::Columnfamily),
    ("compact", Keyword::Compact),
    ("contains", Keyword::Contains),
    ("count", Keyword::Count),
    ("counter", Keyword::Counter),
    ("create", Keyword::Create),
    ("custom", Keyword::Custom),
    ("datacenters", Keyword::Datacenters),
    ("date", Keyword::Date),
    ("decimal", Keyword::Decimal),
    ("default", Keyword::Default),
    ("delete", Keyword::Delete),
    ("desc", Keyword::Desc),
    ("describe", Keyword::Describe),
    ("distinct", Keyword::Distinct),
    ("double", Keyword::Double),
    ("drop", Keyword::Drop),
    ("duration", Keyword::Duration),
    ("entries", Keyword::Entries),
    ("execute", Keyword::Execute),
    ("exists", Keyword::Exists),
    ("filtering", Keyword::Filtering),
    ("finalfunc", Keyword::Finalfunc),
    ("float", Keyword::Float),
    ("from", Keyword::From),
    ("frozen", Keyword::Frozen),
    ("full", Keyword::Full),
    ("function", Keyword::Function),
    ("functions", Keyword::Functions),
    ("grant", Keyword::Grant),
    ("group", Keyword::Group),
    ("hashed", Keyword::Hashed),
    ("identity", Keyword::Identity),
    ("if", Keyword::If),
    ("in", Keyword::In),
    ("index", Keyword::Index),
    ("inet", Keyword::Inet),
    ("infinity", Keyword::PositiveInfinity),
    ("initcond", Keyword::Initcond),
    ("input", Keyword::Input),
    ("insert", Keyword::Insert),
    ("int", Keyword::Int),
    ("internals", Keyword::Internals),
    ("into", Keyword::Into),
    ("is", Keyword::Is),
    ("json", Keyword::Json),
    ("key", Keyword::Key),
    ("keys", Keyword::Keys),
    ("keyspace", Keyword::Keyspace),
    ("keyspaces", Keyword::Keyspaces),
    ("language", Keyword::Language),
    ("like", Keyword::Like),
    ("limit", Keyword::Limit),
    ("list", Keyword::List),
    ("login", Keyword::Login),
    ("map", Keyword::Map),
    ("masked", Keyword::Masked),
    ("materialized", Keyword::Materialized),
    ("maxwritetime", Keyword::Maxwritetime),
    ("mbean", Keyword::Mbean),
    ("mbeans", Keyword::Mbeans),
    ("modify", Keyword::Modify),
    ("nan", Keyword::PositiveNan),
    ("nologin", Keyword::Nologin),
    ("norecursive", Keyword::Norecursive),
    ("nosuperuser", Keyword::Nosuperuser),
    ("not", Keyword::Not),
    ("null", Keyword::Null),
    ("of", Keyword::Of),
    ("on", Keyword::On),
    ("only", Keyword::Only),
    ("options", Keyword::Options),
    ("or", Keyword::Or),
    ("order", Keyword::Order),
    ("partition", Keyword::Partition),
    ("password", Keyword::Password),
    ("per", Keyword::Per),
    ("permission", Keyword::Permission),
    ("permissions", Keyword::Permissions),
    ("primary", Keyword::Primary),
    ("rename", Keyword::Rename),
    ("replace", Keyword::Replace),
    ("returns", Keyword::Returns),
    ("revoke", Keyword::Revoke),
    ("role", Keyword::Role),
    ("roles", Keyword::Roles),
    ("schema", Keyword::Schema),
    ("select", Keyword::Select),
    ("select_masked", Keyword::SelectMasked),
    ("set", Keyword::Set),
    ("sfunc", Keyword::Sfunc),
    ("smallint", Keyword::Smallint),
    ("static", Keyword::Static),
    ("storage", Keyword::Storage),
    ("stype", Keyword::Stype),
    ("superuser", Keyword::Superuser),
    ("table", Keyword::Columnfamily),
    ("tables", Keyword::Tables),
    ("text", Keyword::Text),
    ("time", Keyword::Time),
    ("timestamp", Keyword::Timestamp),
    ("timeuuid", Keyword::Timeuuid),
    ("tinyint", Keyword::Tinyint),
    ("to", Keyword::To),
    ("token", Keyword::Token),
    ("trigger", Keyword::Trigger),
    ("truncate", Keyword::Truncate),
    ("ttl", Keyword::Ttl),
    ("tuple", Keyword::Tuple),
    ("type", Keyword::Type),
    ("types", Keyword::Types),
    ("unlogged", Keyword::Unlogged),
    ("unmask", Keyword::Unmask),
    ("unset", Keyword::Unset),
    ("update", Keyword::Update),
    ("use", Keyword::Use),
    ("user", Keyword::User),
    ("users", Keyword::Users),
    ("using", Keyword::Using),
    ("uuid", Keyword::Uuid),
    ("values", Keyword::Values),
    ("varchar", Keyword::Varchar),
    ("varint", Keyword::Varint),
    ("vector", Keyword::Vector),
    ("view", Keyword::View),
    ("where", Keyword::Where),
    ("with", Keyword::With),
    ("writetime", Keyword::Writetime),
];

/// The length in bytes of the longest keyword.
const LONGEST: usize = 14;

/// The keyword that a bare word is, whatever its case.
pub fn keyword(word: &str) -> Option<Keyword> {
    let mut folded = [0u8; LONGEST];
    let folded = folded.get_mut(..word.len())?;
    folded.copy_from_slice(word.as_bytes());
    folded.make_ascii_lowercase();
    let found = SPELLINGS.binary_search_by(|(spelling, _)| spelling.as_bytes().cmp(folded)).ok()?;
    SPELLINGS.get(found).map(|(_, keyword)| *keyword)
}

/// Whether a word in lower case must be quoted to be a name. Cassandra's list, which spares `true` and
/// `false` although they do not read back as names either.
pub fn is_reserved_word(word: &str) -> bool {
    keyword(word).is_some_and(|keyword| keyword.class() == KeywordClass::Reserved) && word != "columnfamilies"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_are_sorted_and_found_in_any_case() {
        assert!(SPELLINGS.is_sorted_by(|a, b| a.0 < b.0));
        for (spelling, expected) in SPELLINGS {
            assert_eq!(keyword(spelling), Some(*expected));
            assert_eq!(keyword(&spelling.to_uppercase()), Some(*expected));
            assert!(spelling.len() <= LONGEST);
        }
        assert_eq!(keyword("selects"), None);
        assert_eq!(keyword(""), None);
        assert_eq!(keyword(&"x".repeat(1000)), None);
    }

    #[test]
    fn names_of_user_types_are_quoted_where_the_bare_word_is_none() {
        for (spelling, keyword) in SPELLINGS {
            let is_name = keyword.class() == KeywordClass::Basic || *keyword == Keyword::Key;
            assert_eq!(model::types::is_quoted_in_types(spelling), !is_name, "{spelling}");
        }
        assert!(model::types::is_quoted_in_types("true") && model::types::is_quoted_in_types("empty"));
        assert!(!model::types::is_quoted_in_types("ty"));
    }

    #[test]
    fn names_need_quotes_only_where_the_word_is_reserved() {
        assert!(is_reserved_word("table") && is_reserved_word("nan") && is_reserved_word("token"));
        assert!(!is_reserved_word("key") && !is_reserved_word("int") && !is_reserved_word("columnfamilies"));
    }
}
