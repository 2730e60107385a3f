//! From text to tokens.

mod keyword;

pub use keyword::{Keyword, KeywordClass, is_reserved_word, keyword};
