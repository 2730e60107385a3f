//! How text is cut.

use super::*;

fn cut(text: &str) -> Vec<(TokenKind, String)> {
    let mut lexer = Lexer::new(text);
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next().unwrap();
        match token.kind {
            TokenKind::Eof => return tokens,
            TokenKind::Hidden => {}
            kind => tokens.push((kind, token.text().into_owned())),
        }
    }
}

#[test]
fn each_kind_of_token_is_recognised() {
    for (text, kind, inner) in [
        ("Abc_1", TokenKind::Ident, "Abc_1"),
        ("sElEcT", TokenKind::Keyword(Keyword::Select), "sElEcT"),
        ("table", TokenKind::Keyword(Keyword::Columnfamily), "table"),
        ("\"a\"\"b\"", TokenKind::QuotedName, "a\"b"),
        ("\"\"", TokenKind::EmptyQuotedName, "\"\""),
        ("'it''s'", TokenKind::String, "it's"),
        ("''", TokenKind::String, ""),
        ("$$it's$$", TokenKind::DollarString, "it's"),
        ("-12", TokenKind::Integer, "-12"),
        ("1.", TokenKind::Float, "1."),
        ("-1.5E+10", TokenKind::Float, "-1.5E+10"),
        ("5e3", TokenKind::Float, "5e3"),
        ("TRUE", TokenKind::Boolean, "TRUE"),
        ("0xCAFE", TokenKind::Hex, "0xCAFE"),
        ("0x", TokenKind::Hex, "0x"),
        ("1y2mo3w4d5h6m7s8ms9us10ns", TokenKind::Duration, "1y2mo3w4d5h6m7s8ms9us10ns"),
        ("-1µs", TokenKind::Duration, "-1µs"),
        ("P1Y2M3DT4H5M6S", TokenKind::Duration, "P1Y2M3DT4H5M6S"),
        ("-PT5M", TokenKind::Duration, "-PT5M"),
        ("P2W", TokenKind::Duration, "P2W"),
        ("P0001-02-03T04:05:06", TokenKind::Duration, "P0001-02-03T04:05:06"),
        ("P1Dx", TokenKind::Ident, "P1Dx"),
        ("p1d", TokenKind::Ident, "p1d"),
        ("-nan", TokenKind::NegativeNan, "-nan"),
        ("-Infinity", TokenKind::NegativeInfinity, "-Infinity"),
        ("expr(", TokenKind::ExprParen, "expr("),
        ("+=", TokenKind::PlusEqual, "+="),
        ("..", TokenKind::Range, ".."),
        ("550e8400-e29b-41d4-a716-446655440000", TokenKind::Uuid, "550e8400-e29b-41d4-a716-446655440000"),
        ("e29b8400-e29b-41d4-a716-44665544000F", TokenKind::Uuid, "e29b8400-e29b-41d4-a716-44665544000F"),
    ] {
        assert_eq!(cut(text), vec![(kind, inner.to_owned())], "{text}");
    }
}

#[test]
fn numbers_stop_before_a_range() {
    use TokenKind::{Float, Integer, Range};
    let kinds = |text| cut(text).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>();
    assert_eq!(kinds("1..2"), [Integer, Range, Integer]);
    assert_eq!(kinds("1...2"), [Float, Range, Integer]);
    assert_eq!(kinds("1.0..2"), [Float, Range, Integer]);
}

#[test]
fn comments_and_blanks_are_hidden() {
    let text = "a -- b\n c // d\r e /* f * / */ g/**/h";
    let names: Vec<_> = cut(text).into_iter().map(|(_, text)| text).collect();
    assert_eq!(names, ["a", "c", "e", "g", "h"]);
}

#[test]
fn a_token_that_breaks_off_says_where() {
    use LexProblem::{EmptyLoop, Expected, ExpectedSet, NoViableAlternative};
    for (text, offset, problem) in [
        ("'abc", 4, Expected('\'')),
        ("\"abc", 4, Expected('"')),
        ("\"", 1, NoViableAlternative),
        ("$a", 1, Expected('$')),
        ("$$abc", 4, Expected('$')),
        ("-- a", 4, ExpectedSet),
        ("/* a", 4, Expected('*')),
        ("! a", 1, Expected('=')),
        ("#", 0, NoViableAlternative),
        ("é", 0, NoViableAlternative),
        ("1e", 2, NoViableAlternative),
        ("1e+", 3, EmptyLoop),
        ("1d2", 3, NoViableAlternative),
        ("12ab", 4, ExpectedSet),
        ("12345678-1 ", 10, ExpectedSet),
        ("-inf", 4, ExpectedSet),
    ] {
        assert_eq!(Lexer::new(text).next(), Err(LexError { offset, problem }), "{text}");
    }
}
