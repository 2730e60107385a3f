//! Standard output, in large pieces.

use std::io::{self, BufWriter, Write};

const BUFFER_BYTES: usize = 128 << 10;

/// Where verbs write. A closed pipe is an error of kind `BrokenPipe`, which ends the verb.
pub(super) struct Output(Box<dyn Write>);

impl Output {
    pub(super) fn stdout() -> Output {
        Output(Box::new(BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock())))
    }

    /// For tests that look at files only.
    #[cfg(test)]
    pub(super) fn none() -> Output {
        Output(Box::new(BufWriter::new(io::sink())))
    }

    /// Text as it is.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        self.0.write_all(text.as_bytes())
    }

    /// Text and the end of its line.
    pub(super) fn line(&mut self, text: &str) -> io::Result<()> {
        self.text(text)?;
        self.text("\n")
    }

    /// A value as indented JSON.
    pub(super) fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.0, value).map_err(io::Error::from)?;
        self.text("\n")
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
