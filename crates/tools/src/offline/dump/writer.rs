//! JSON laid out as sstabledump lays it out: objects and arrays are spread over lines or stand on one, as the
//! caller says before each.

use super::super::output::Output;
use model::types::json::write_json_string;
use std::io;

const FLUSH_BYTES: usize = 64 << 10;

/// A document in the making.
pub(super) struct JsonWriter<'o> {
    out: &'o mut Output,
    buffer: String,
    /// Values so far in each open object or array.
    open: Vec<usize>,
    after_name: bool,
    /// Without any blanks, each document on a line of its own.
    is_dense: bool,
    /// Whether entries of objects stay on the line.
    pub(super) compact_objects: bool,
    /// Whether entries of arrays stay on the line.
    pub(super) compact_arrays: bool,
}

impl<'o> JsonWriter<'o> {
    pub(super) fn new(out: &'o mut Output, is_dense: bool) -> JsonWriter<'o> {
        JsonWriter {
            out,
            buffer: String::new(),
            open: Vec::new(),
            after_name: false,
            is_dense,
            compact_objects: false,
            compact_arrays: false,
        }
    }

    fn indent(&mut self, is_compact: bool) {
        if self.is_dense {
            return;
        }
        if is_compact {
            self.buffer.push(' ');
            return;
        }
        self.buffer.push('\n');
        (0..self.open.len()).for_each(|_| self.buffer.push_str("  "));
    }

    /// Counts an entry of the innermost object or array and writes what stands before it.
    fn entry(&mut self, is_compact: bool) {
        let Some(count) = self.open.last_mut() else { return };
        *count += 1;
        if *count > 1 {
            self.buffer.push(',');
        }
        self.indent(is_compact);
    }

    fn before_value(&mut self) {
        if !std::mem::take(&mut self.after_name) {
            self.entry(self.compact_arrays);
        }
    }

    fn start(&mut self, bracket: char) {
        self.before_value();
        self.buffer.push(bracket);
        self.open.push(0);
    }

    fn end(&mut self, bracket: char, is_compact: bool) {
        match self.open.pop() {
            Some(0) if !self.is_dense => self.buffer.push(' '),
            Some(0) | None => {}
            Some(_) => self.indent(is_compact),
        }
        self.buffer.push(bracket);
    }

    pub(super) fn start_object(&mut self) {
        self.start('{');
    }

    pub(super) fn end_object(&mut self) {
        self.end('}', self.compact_objects);
    }

    pub(super) fn start_array(&mut self) {
        self.start('[');
    }

    pub(super) fn end_array(&mut self) {
        self.end(']', self.compact_arrays);
    }

    pub(super) fn name(&mut self, name: &str) {
        self.entry(self.compact_objects);
        write_json_string(name, &mut self.buffer);
        self.buffer.push_str(if self.is_dense { ":" } else { " : " });
        self.after_name = true;
    }

    pub(super) fn string(&mut self, text: &str) {
        self.before_value();
        write_json_string(text, &mut self.buffer);
    }

    /// A value that is JSON already: a number, a boolean, the text of a CQL value.
    pub(super) fn raw(&mut self, json: &str) {
        self.before_value();
        self.buffer.push_str(json);
    }

    /// A name and a value that is JSON already.
    pub(super) fn field(&mut self, name: &str, json: impl std::fmt::Display) {
        self.name(name);
        self.raw(&json.to_string());
    }

    /// Text between two documents.
    pub(super) fn between(&mut self, text: &str) {
        self.buffer.push_str(text);
    }

    /// Hands on what has come together.
    pub(super) fn flush_if_large(&mut self) -> io::Result<()> {
        if self.buffer.len() >= FLUSH_BYTES { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.text(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}
