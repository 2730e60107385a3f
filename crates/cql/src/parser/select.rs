//! SELECT.

use super::cursor::{Parsed, Parser};
use crate::ast::{OrderBy, OrderByExpression, Select, Selectable, Selection};
use crate::lexer::{Keyword, TokenKind};

/// Whether the last token of a selection is that of a column or a constant.
fn ends_in_column_or_constant(selection: &Selection) -> bool {
    let Selection::Selectors(selectors) = selection else { return false };
    let Some(last) = selectors.last().filter(|selector| selector.alias.is_none()) else { return false };
    let mut selectable = &last.selectable;
    loop {
        selectable = match selectable {
            Selectable::Operation { right, .. } => right,
            Selectable::Negation(inner) | Selectable::TypeHint { selectable: inner, .. } => inner,
            Selectable::Column(_) | Selectable::Term(_) => return true,
            _ => return false,
        }
    }
}

impl Parser<'_> {
    /// A SELECT statement, whose keyword is next.
    pub(super) fn select(&mut self) -> Parsed<Select> {
        self.expect_word(Keyword::Select)?;
        let json = self.accept_modifier(Keyword::Json);
        let distinct = self.accept_modifier(Keyword::Distinct);
        let selection = self.selection()?;
        if !self.at_word(Keyword::From) && ends_in_column_or_constant(&selection) {
            // Cassandra's parser has looked one token further by now, which shows in the snippet.
            self.ahead(1);
        }
        self.expect_word(Keyword::From)?;
        let table = self.table_name()?;
        let filter = if self.accept_word(Keyword::Where) { self.where_clause()? } else { Vec::new() };
        let mut select = Select {
            json,
            distinct,
            selection,
            table,
            filter,
            group_by: Vec::new(),
            order_by: Vec::new(),
            per_partition_limit: None,
            limit: None,
            allow_filtering: false,
            bypass_cache: false,
        };
        if self.accept_word(Keyword::Group) {
            self.expect_word(Keyword::By)?;
            select.group_by = self.list(Self::selectable)?;
        }
        if self.accept_word(Keyword::Order) {
            self.expect_word(Keyword::By)?;
            select.order_by = self.list(Self::ordering)?;
        }
        if self.accept_word(Keyword::Per) {
            self.expect_words(&[Keyword::Partition, Keyword::Limit])?;
            select.per_partition_limit = Some(self.integer_or_marker()?);
        }
        if self.accept_word(Keyword::Limit) {
            select.limit = Some(self.integer_or_marker()?);
        }
        if self.accept_word(Keyword::Allow) {
            self.expect_word(Keyword::Filtering)?;
            select.allow_filtering = true;
        }
        if self.is_bypass_cache(0) {
            self.skip(2);
            select.bypass_cache = true;
        }
        Ok(select)
    }

    /// JSON or DISTINCT, if it is that and not a column of that name: then a selection follows it.
    fn accept_modifier(&mut self, keyword: Keyword) -> bool {
        if !self.at_word(keyword) {
            return false;
        }
        let modifies = matches!(self.kind(1), TokenKind::Star | TokenKind::Minus) || self.selectable_ahead(1);
        if modifies {
            self.advance();
        }
        modifies
    }

    fn ordering(&mut self) -> Parsed<OrderBy> {
        let column = self.column_name()?;
        let expression = if self.accept_word(Keyword::Ann) {
            self.expect_word(Keyword::Of)?;
            OrderByExpression::Ann { column, target: self.term()? }
        } else {
            OrderByExpression::Column(column)
        };
        let descending = !self.accept_word(Keyword::Asc) && self.accept_word(Keyword::Desc);
        Ok(OrderBy { expression, descending })
    }
}
