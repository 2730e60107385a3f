//! `SELECT JSON`: a row as one text.

use super::RowSink;
use super::shape::JsonShape;
use model::types::json::write_json_name;

/// Takes the values of a row and hands on one text.
pub(super) struct JsonSink<'s, S: RowSink + ?Sized> {
    shape: &'s JsonShape,
    index: usize,
    text: String,
    sink: &'s mut S,
}

impl<'s, S: RowSink + ?Sized> JsonSink<'s, S> {
    pub(super) fn new(shape: &'s JsonShape, sink: &'s mut S) -> Self {
        JsonSink { shape, index: 0, text: String::new(), sink }
    }
}

impl<S: RowSink + ?Sized> RowSink for JsonSink<'_, S> {
    fn begin_row(&mut self) {
        self.index = 0;
        self.text.clear();
        self.text.push('{');
    }

    fn value(&mut self, value: Option<&[u8]>) {
        let Some((name, ty)) = self.shape.fields.get(self.index) else { return };
        if self.index > 0 {
            self.text.push_str(", ");
        }
        write_json_name(name, &mut self.text);
        self.text.push_str(": ");
        ty.write_json(value, &mut self.text);
        self.index += 1;
    }

    fn end_row(&mut self) {
        self.text.push('}');
        self.sink.begin_row();
        self.sink.value(Some(self.text.as_bytes()));
        self.sink.end_row();
    }
}
