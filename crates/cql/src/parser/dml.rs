//! INSERT, UPDATE, DELETE, BATCH.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::cursor::{Parsed, Parser, is_name};
use crate::ast::{
    Assignment, Batch, BatchKind, ColumnCondition, ConditionTarget, ConditionTest, Delete, Deletion,
    DeletionTarget, Identifier, Insert, InsertJson, JsonValue, Literal, LiteralKind, Modification,
    ModificationCondition, QualifiedName, Term, Update, UpdateOperation, Using,
};
use crate::lexer::{Keyword, TokenKind};

impl Parser<'_> {
    /// An INSERT statement, whose keyword is next.
    pub(super) fn insert(&mut self) -> Parsed<Modification> {
        self.expect_words(&[Keyword::Insert, Keyword::Into])?;
        let table = self.table_name()?;
        if self.accept_word(Keyword::Json) {
            return self.insert_json(table);
        }
        if !self.at(TokenKind::LeftParen) {
            return Err(self.no_viable(0));
        }
        let columns = self.list_in_parens(Self::column_name)?;
        self.expect_word(Keyword::Values)?;
        let values = self.list_in_parens(Self::term)?;
        let if_not_exists = self.if_not_exists()?;
        let using = self.using_clause()?;
        Ok(Modification::Insert(Box::new(Insert { table, columns, values, if_not_exists, using })))
    }

    fn insert_json(&mut self, table: QualifiedName) -> Parsed<Modification> {
        let token = self.ahead(0);
        let value = if matches!(token.kind, TokenKind::String | TokenKind::DollarString) {
            self.advance();
            JsonValue::Literal(token.text().into_owned())
        } else {
            match self.accept_marker()? {
                Some(marker) => JsonValue::Marker(marker),
                None => return Err(self.no_viable(0)),
            }
        };
        let mut default_unset = false;
        if self.accept_word(Keyword::Default) {
            default_unset = self.accept_word(Keyword::Unset);
            if !default_unset && !self.accept_word(Keyword::Null) {
                return Err(self.no_viable(0));
            }
        }
        let if_not_exists = self.if_not_exists()?;
        let using = self.using_clause()?;
        Ok(Modification::InsertJson(Box::new(InsertJson {
            table,
            value,
            default_unset,
            if_not_exists,
            using,
        })))
    }

    /// `USING ...`, if it is there.
    fn using_clause(&mut self) -> Parsed<Using> {
        let mut using = Using::default();
        if !self.accept_word(Keyword::Using) {
            return Ok(using);
        }
        loop {
            if self.accept_word(Keyword::Timestamp) {
                using.timestamp = Some(self.integer_or_marker()?);
            } else if self.accept_word(Keyword::Ttl) {
                using.ttl = Some(self.integer_or_marker()?);
            } else {
                return Err(self.no_viable(0));
            }
            if !self.accept_word(Keyword::And) {
                return Ok(using);
            }
        }
    }

    /// An UPDATE statement, whose keyword is next.
    pub(super) fn update(&mut self) -> Parsed<Update> {
        self.expect_word(Keyword::Update)?;
        let table = self.table_name()?;
        let using = self.using_clause()?;
        self.expect_word(Keyword::Set)?;
        let mut assignments = Vec::new();
        // Nothing goes with a plain assignment to the same column.
        let mut plainly_set: HashMap<Identifier, bool> = HashMap::new();
        loop {
            let assignment = self.assignment()?;
            let plain = matches!(assignment.operation, UpdateOperation::Set(_));
            let clash = match plainly_set.entry(assignment.column.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert(plain);
                    false
                }
                Entry::Occupied(entry) => plain || *entry.get(),
            };
            if clash {
                self.complain(format!("Multiple incompatible setting of column {}", assignment.column));
            }
            assignments.push(assignment);
            if !self.accept(TokenKind::Comma) {
                break;
            }
        }
        self.expect_word(Keyword::Where)?;
        let filter = self.where_clause()?;
        let condition = self.condition_clause()?;
        Ok(Update { table, using, assignments, filter, condition })
    }

    fn assignment(&mut self) -> Parsed<Assignment> {
        let column = self.column_name()?;
        let operation = match self.kind(0) {
            TokenKind::Equal => {
                self.advance();
                self.assigned(&column)?
            }
            TokenKind::PlusEqual => {
                self.advance();
                UpdateOperation::Add(self.term()?)
            }
            TokenKind::MinusEqual => {
                self.advance();
                UpdateOperation::Subtract(self.term()?)
            }
            TokenKind::LeftBracket => {
                self.advance();
                let key = self.term()?;
                self.expect(TokenKind::RightBracket)?;
                self.expect(TokenKind::Equal)?;
                UpdateOperation::SetElement { key, value: self.term()? }
            }
            TokenKind::Dot => {
                self.advance();
                let field = self.name()?;
                self.expect(TokenKind::Equal)?;
                UpdateOperation::SetField { field, value: self.term()? }
            }
            _ => return Err(self.no_viable(0)),
        };
        Ok(Assignment { column, operation })
    }

    /// What comes after `column =`.
    fn assigned(&mut self, column: &Identifier) -> Parsed<UpdateOperation> {
        let names = is_name(self.kind(0)) || self.at(TokenKind::EmptyQuotedName);
        if !names {
            return self.assigned_term(column);
        }
        match self.kind(1) {
            sign @ (TokenKind::Plus | TokenKind::Minus) => {
                let other = self.column_name()?;
                self.advance();
                let term = self.term()?;
                let plus = sign == TokenKind::Plus;
                if other != *column {
                    let sign = if plus { '+' } else { '-' };
                    self.complain(format!("Only expressions of the form X = X {sign}<value> are supported."));
                }
                Ok(if plus { UpdateOperation::Add(term) } else { UpdateOperation::Subtract(term) })
            }
            TokenKind::Integer => {
                let other = self.column_name()?;
                let text = self.advance().raw.to_owned();
                if other != *column {
                    let sign = if text.starts_with('-') { '-' } else { '+' };
                    self.complain(format!(
                        "Only expressions of the form X = X {sign} <value> are supported."
                    ));
                }
                Ok(UpdateOperation::Add(Term::Literal(Literal { kind: LiteralKind::Integer, text })))
            }
            _ => self.assigned_term(column),
        }
    }

    /// `term` or `term + column`.
    fn assigned_term(&mut self, column: &Identifier) -> Parsed<UpdateOperation> {
        let term = self.term()?;
        if !self.accept(TokenKind::Plus) {
            return Ok(UpdateOperation::Set(term));
        }
        if self.column_name()? != *column {
            self.complain("Only expressions of the form X = <value> + X are supported.");
        }
        Ok(UpdateOperation::Prepend(term))
    }

    /// A DELETE statement, whose keyword is next.
    pub(super) fn delete(&mut self) -> Parsed<Delete> {
        self.expect_word(Keyword::Delete)?;
        let some = is_name(self.kind(0)) || self.at(TokenKind::EmptyQuotedName);
        let deletions = if some { self.list(Self::deletion)? } else { Vec::new() };
        self.expect_word(Keyword::From)?;
        let table = self.table_name()?;
        let mut timestamp = None;
        if self.accept_word(Keyword::Using) {
            self.expect_word(Keyword::Timestamp)?;
            timestamp = Some(self.integer_or_marker()?);
        }
        self.expect_word(Keyword::Where)?;
        let filter = self.where_clause()?;
        let condition = self.condition_clause()?;
        Ok(Delete { deletions, table, timestamp, filter, condition })
    }

    fn deletion(&mut self) -> Parsed<Deletion> {
        let first = self.kind(0);
        if is_name(first) || first == TokenKind::EmptyQuotedName {
            let goes_on = matches!(
                self.kind(1),
                TokenKind::Comma
                    | TokenKind::LeftBracket
                    | TokenKind::Dot
                    | TokenKind::Keyword(Keyword::From)
            );
            if !goes_on {
                return Err(self.no_viable(1));
            }
        }
        let column = self.column_name()?;
        let target = if self.accept(TokenKind::LeftBracket) {
            let key = self.term()?;
            self.expect(TokenKind::RightBracket)?;
            DeletionTarget::Element(key)
        } else if self.accept(TokenKind::Dot) {
            DeletionTarget::Field(self.name()?)
        } else {
            DeletionTarget::Column
        };
        Ok(Deletion { column, target })
    }

    /// `IF ...`, if it is there.
    fn condition_clause(&mut self) -> Parsed<ModificationCondition> {
        if !self.accept_word(Keyword::If) {
            return Ok(ModificationCondition::None);
        }
        let exists = self.at_word(Keyword::Exists)
            && matches!(
                self.kind(1),
                TokenKind::Eof
                    | TokenKind::Semicolon
                    | TokenKind::Keyword(
                        Keyword::Apply | Keyword::Insert | Keyword::Update | Keyword::Delete
                    )
            );
        if exists {
            self.advance();
            return Ok(ModificationCondition::Exists);
        }
        let mut conditions = vec![self.condition()?];
        while self.accept_word(Keyword::And) {
            conditions.push(self.condition()?);
        }
        Ok(ModificationCondition::Columns(conditions))
    }

    fn condition(&mut self) -> Parsed<ColumnCondition> {
        let column = self.column_name()?;
        let target = if self.accept(TokenKind::LeftBracket) {
            let key = self.term()?;
            self.expect(TokenKind::RightBracket)?;
            ConditionTarget::Element(key)
        } else if self.accept(TokenKind::Dot) {
            ConditionTarget::Field(self.name()?)
        } else {
            ConditionTarget::Column
        };
        let test = match self.kind(0) {
            TokenKind::Keyword(Keyword::In) => {
                self.advance();
                ConditionTest::In(self.in_values()?)
            }
            TokenKind::Keyword(Keyword::Contains) if target == ConditionTarget::Column => {
                let operator = self.contains();
                ConditionTest::Compare(operator, self.term()?)
            }
            _ => {
                let operator = self.comparison()?;
                ConditionTest::Compare(operator, self.term()?)
            }
        };
        Ok(ColumnCondition { column, target, test })
    }

    /// A BATCH statement, whose BEGIN is next.
    pub(super) fn batch(&mut self) -> Parsed<Batch> {
        self.expect_word(Keyword::Begin)?;
        let kind = if self.accept_word(Keyword::Unlogged) {
            BatchKind::Unlogged
        } else if self.accept_word(Keyword::Counter) {
            BatchKind::Counter
        } else {
            BatchKind::Logged
        };
        self.expect_word(Keyword::Batch)?;
        let using = self.using_clause()?;
        let mut statements = Vec::new();
        loop {
            let statement = match self.kind(0) {
                TokenKind::Keyword(Keyword::Insert) => self.insert()?,
                TokenKind::Keyword(Keyword::Update) => Modification::Update(Box::new(self.update()?)),
                TokenKind::Keyword(Keyword::Delete) => Modification::Delete(Box::new(self.delete()?)),
                _ => break,
            };
            statements.push(statement);
            self.accept(TokenKind::Semicolon);
        }
        self.expect_words(&[Keyword::Apply, Keyword::Batch])?;
        Ok(Batch { kind, using, statements })
    }
}
