//! A small JSON parser for INSERT JSON and `from_json`: numbers keep their text, objects their order.

use std::collections::HashMap;
use std::fmt;

/// Levels that may be nested.
const DEPTH_MAX: usize = 128;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// As written.
    Integer(String),
    /// As written.
    Float(String),
    Text(String),
    Array(Vec<Json>),
    /// Where a name is used twice, the last value stays.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses a whole text; the error says what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Json, String> {
        let mut parser = Parser { text, at: 0 };
        let value = parser.value(0)?;
        parser.blanks();
        match parser.peek() {
            None => Ok(value),
            Some(c) => Err(parser.unexpected(c, "end of input")),
        }
    }

    /// The Java class that Cassandra's messages name.
    pub(crate) fn java_class(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "Boolean",
            Json::Integer(text) => match text.parse::<i64>() {
                Ok(v) if i32::try_from(v).is_ok() => "Integer",
                Ok(_) => "Long",
                Err(_) => "BigInteger",
            },
            Json::Float(_) => "Double",
            Json::Text(_) => "String",
            Json::Array(_) => "ArrayList",
            Json::Object(_) => "LinkedHashMap",
        }
    }
}

/// As Java prints the value.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(v) => write!(f, "{v}"),
            Json::Integer(text) | Json::Text(text) => f.write_str(text),
            Json::Float(text) => match text.parse::<f64>() {
                Ok(v) => {
                    let mut out = String::new();
                    model::types::numbers::write_double(&mut out, v);
                    f.write_str(&out)
                }
                Err(_) => f.write_str(text),
            },
            Json::Array(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Json::Object(entries) => {
                f.write_str("{")?;
                for (i, (name, value)) in entries.iter().enumerate() {
                    write!(f, "{}{name}={value}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Each name once, where it stood first, with the last of its values.
fn last_values(entries: Vec<(String, Json)>) -> Vec<(String, Json)> {
    let mut first = HashMap::with_capacity(entries.len());
    let mut places = Vec::with_capacity(entries.len());
    for (name, _) in &entries {
        let next = first.len();
        places.push(*first.entry(name.as_str()).or_insert(next));
    }
    if first.len() == entries.len() {
        return entries;
    }
    let mut out: Vec<(String, Json)> = Vec::with_capacity(first.len());
    for (entry, place) in entries.into_iter().zip(places) {
        match out.get_mut(place) {
            Some((_, slot)) => *slot = entry.1,
            None => out.push(entry),
        }
    }
    out
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|c| matches!(c, ' ' | '\t' | '\n' | '\r')) {
            self.at += 1;
        }
    }

    fn unexpected(&self, c: char, wanted: &str) -> String {
        format!("Unexpected character ('{c}' (code {})) at {}: was expecting {wanted}", c as u32, self.at)
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        self.blanks();
        match self.peek() {
            Some(c) if c == wanted => {
                self.at += c.len_utf8();
                Ok(())
            }
            Some(c) => Err(self.unexpected(c, &format!("'{wanted}'"))),
            None => Err("Unexpected end-of-input".to_owned()),
        }
    }

    fn accept(&mut self, wanted: char) -> bool {
        self.blanks();
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > DEPTH_MAX {
            return Err("Too many levels are nested".to_owned());
        }
        self.blanks();
        match self.peek() {
            None => Err("Unexpected end-of-input".to_owned()),
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some('"') => self.string().map(Json::Text),
            Some('-' | '0'..='9') => self.number(),
            Some(c) => {
                for (word, value) in
                    [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))]
                {
                    if self.rest().starts_with(word) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                Err(self.unexpected(c, "a value"))
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        self.expect('{')?;
        let mut entries: Vec<(String, Json)> = Vec::new();
        if self.accept('}') {
            return Ok(Json::Object(entries));
        }
        loop {
            self.blanks();
            match self.peek() {
                Some('"') => {}
                Some(c) => return Err(self.unexpected(c, "double-quote to start field name")),
                None => return Err("Unexpected end-of-input".to_owned()),
            }
            let name = self.string()?;
            self.expect(':')?;
            let value = self.value(depth + 1)?;
            entries.push((name, value));
            if !self.accept(',') {
                break;
            }
        }
        self.expect('}')?;
        Ok(Json::Object(last_values(entries)))
    }

    fn array(&mut self, depth: usize) -> Result<Json, String> {
        self.expect('[')?;
        let mut items = Vec::new();
        if self.accept(']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if !self.accept(',') {
                break;
            }
        }
        self.expect(']')?;
        Ok(Json::Array(items))
    }

    fn number(&mut self) -> Result<Json, String> {
        let rest = self.rest();
        let len =
            rest.find(|c: char| !matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9')).unwrap_or(rest.len());
        let text = rest.get(..len).unwrap_or_default();
        let digits = text.strip_prefix('-').unwrap_or(text);
        self.at += len;
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(Json::Integer(text.to_owned()));
        }
        match text.parse::<f64>() {
            Ok(_) => Ok(Json::Float(text.to_owned())),
            Err(_) => Err(format!("Invalid numeric value {text}")),
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let end = || "Unexpected end-of-input in a string".to_owned();
        self.expect('"')?;
        let mut out = String::new();
        loop {
            match self.next().ok_or_else(end)? {
                '"' => return Ok(out),
                '\\' => {
                    let c = match self.next().ok_or_else(end)? {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        'b' => '\u{8}',
                        'f' => '\u{c}',
                        'u' => self.unicode()?,
                        c @ ('"' | '\\' | '/') => c,
                        c => return Err(format!("Unrecognized character escape '{c}' (code {})", c as u32)),
                    };
                    out.push(c);
                }
                c if (c as u32) < 0x20 => {
                    return Err(format!("Illegal unquoted character ((CTRL-CHAR, code {}))", c as u32));
                }
                c => out.push(c),
            }
        }
    }

    fn hex4(&mut self) -> Result<u32, String> {
        let digits = self.rest().get(..4).ok_or("Unexpected end-of-input in a character escape")?;
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|_| format!("Invalid character escape \\u{digits}"))
    }

    fn unicode(&mut self) -> Result<char, String> {
        let first = self.hex4()?;
        let code = if (0xd800..0xdc00).contains(&first) && self.rest().starts_with("\\u") {
            self.at += 2;
            let second = self.hex4()?;
            0x10000 + ((first - 0xd800) << 10) + second.wrapping_sub(0xdc00) % 0x400
        } else {
            first
        };
        Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}
