//! CREATE and ALTER of keyspaces, indexes, views, functions, aggregates and triggers.

use super::cursor::{Parsed, Parser, is_name};
use super::table::TableProperties;
use super::types::begins_type;
use crate::ast::{
    AlterKeyspace, AlterMaterializedView, CreateAggregate, CreateFunction, CreateIndex, CreateKeyspace,
    CreateMaterializedView, CreateTrigger, FunctionSignature, Identifier, IndexTarget, IndexTargetKind,
    RawType,
};
use crate::lexer::{Keyword, TokenKind};

impl Parser<'_> {
    /// CREATE KEYSPACE after its two keywords.
    pub(super) fn create_keyspace(&mut self) -> Parsed<CreateKeyspace> {
        let if_not_exists = self.if_not_exists()?;
        let keyspace = self.keyspace_name()?;
        self.expect_word(Keyword::With)?;
        Ok(CreateKeyspace { keyspace, if_not_exists, properties: self.properties()? })
    }

    /// ALTER KEYSPACE after its two keywords.
    pub(super) fn alter_keyspace(&mut self) -> Parsed<AlterKeyspace> {
        let if_exists = self.if_exists()?;
        let keyspace = self.keyspace_name()?;
        self.expect_word(Keyword::With)?;
        Ok(AlterKeyspace { keyspace, if_exists, properties: self.properties()? })
    }

    /// CREATE [CUSTOM] INDEX after its keywords.
    pub(super) fn create_index(&mut self, custom: bool) -> Parsed<CreateIndex> {
        let if_not_exists = self.if_not_exists()?;
        let name = if self.at_word(Keyword::On) { None } else { Some(self.bare_index_name()?) };
        self.expect_word(Keyword::On)?;
        let table = self.table_name()?;
        self.expect(TokenKind::LeftParen)?;
        let some = is_name(self.kind(0))
            || matches!(
                self.kind(0),
                TokenKind::EmptyQuotedName | TokenKind::Keyword(Keyword::Entries | Keyword::Full)
            );
        let targets = if some { self.list(Self::index_target)? } else { Vec::new() };
        self.expect(TokenKind::RightParen)?;
        let using = if self.accept_word(Keyword::Using) { Some(self.string()?) } else { None };
        let properties = self.with_properties()?;
        Ok(CreateIndex { custom, if_not_exists, name, table, targets, using, properties })
    }

    fn index_target(&mut self) -> Parsed<IndexTarget> {
        let kind = match self.kind(0) {
            TokenKind::Keyword(Keyword::Values) => IndexTargetKind::Values,
            TokenKind::Keyword(Keyword::Keys) => IndexTargetKind::Keys,
            TokenKind::Keyword(Keyword::Entries) => IndexTargetKind::Entries,
            TokenKind::Keyword(Keyword::Full) => IndexTargetKind::Full,
            _ => IndexTargetKind::Simple,
        };
        let reserved = matches!(kind, IndexTargetKind::Entries | IndexTargetKind::Full);
        if kind == IndexTargetKind::Simple || (!reserved && self.kind(1) != TokenKind::LeftParen) {
            return Ok(IndexTarget { column: self.column_name()?, kind: IndexTargetKind::Simple });
        }
        self.advance();
        self.expect(TokenKind::LeftParen)?;
        let column = self.column_name()?;
        self.expect(TokenKind::RightParen)?;
        Ok(IndexTarget { column, kind })
    }

    /// CREATE MATERIALIZED VIEW after its three keywords.
    pub(super) fn create_view(&mut self) -> Parsed<CreateMaterializedView> {
        let if_not_exists = self.if_not_exists()?;
        let view = self.table_name()?;
        self.expect_words(&[Keyword::As, Keyword::Select])?;
        let selection = self.selection()?;
        self.expect_word(Keyword::From)?;
        let base = self.table_name()?;
        let filter = if self.accept_word(Keyword::Where) { self.where_clause()? } else { Vec::new() };
        let primary_key = self.primary_key()?;
        let TableProperties { clustering_order, compact_storage, properties } = self.table_properties()?;
        if compact_storage {
            self.complain("COMPACT STORAGE tables are not allowed starting with version 4.0");
        }
        Ok(CreateMaterializedView {
            view,
            if_not_exists,
            selection,
            base,
            filter,
            primary_key,
            clustering_order,
            properties,
        })
    }

    /// ALTER MATERIALIZED VIEW after its three keywords.
    pub(super) fn alter_view(&mut self) -> Parsed<AlterMaterializedView> {
        let if_exists = self.if_exists()?;
        let view = self.table_name()?;
        self.expect_word(Keyword::With)?;
        Ok(AlterMaterializedView { view, if_exists, properties: self.properties()? })
    }

    /// CREATE FUNCTION after its keywords.
    pub(super) fn create_function(&mut self, or_replace: bool) -> Parsed<CreateFunction> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.function_name()?;
        self.expect(TokenKind::LeftParen)?;
        let arguments = if is_name(self.kind(0)) { self.list(Self::function_argument)? } else { Vec::new() };
        self.expect(TokenKind::RightParen)?;
        let called_on_null_input = self.accept_word(Keyword::Called);
        if !called_on_null_input {
            if !self.at_word(Keyword::Returns) {
                return Err(self.no_viable(0));
            }
            self.expect_words(&[Keyword::Returns, Keyword::Null])?;
        }
        self.expect_words(&[Keyword::On, Keyword::Null, Keyword::Input, Keyword::Returns])?;
        let return_type = self.data_type()?;
        self.expect_word(Keyword::Language)?;
        let language = self.expect(TokenKind::Ident)?.raw.to_ascii_lowercase();
        self.expect_word(Keyword::As)?;
        let body = self.string()?;
        Ok(CreateFunction {
            or_replace,
            if_not_exists,
            name,
            arguments,
            called_on_null_input,
            return_type,
            language,
            body,
        })
    }

    fn function_argument(&mut self) -> Parsed<(Identifier, RawType)> {
        let name = self.name()?;
        Ok((name, self.data_type()?))
    }

    /// CREATE AGGREGATE after its keywords.
    pub(super) fn create_aggregate(&mut self, or_replace: bool) -> Parsed<CreateAggregate> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.function_name()?;
        let argument_types = self.argument_types()?;
        self.expect_word(Keyword::Sfunc)?;
        let state_function = self.bare_function_name()?;
        self.expect_word(Keyword::Stype)?;
        let state_type = self.data_type()?;
        let final_function =
            if self.accept_word(Keyword::Finalfunc) { Some(self.bare_function_name()?) } else { None };
        let initial_condition = if self.accept_word(Keyword::Initcond) { Some(self.term()?) } else { None };
        Ok(CreateAggregate {
            or_replace,
            if_not_exists,
            name,
            argument_types,
            state_function,
            state_type,
            final_function,
            initial_condition,
        })
    }

    /// `(type, type)`, perhaps empty.
    pub(super) fn argument_types(&mut self) -> Parsed<Vec<RawType>> {
        self.expect(TokenKind::LeftParen)?;
        let types = if begins_type(self.kind(0)) { self.list(Self::data_type)? } else { Vec::new() };
        self.expect(TokenKind::RightParen)?;
        Ok(types)
    }

    /// DROP FUNCTION or AGGREGATE after its two keywords.
    pub(super) fn function_signature(&mut self) -> Parsed<FunctionSignature> {
        let if_exists = self.if_exists()?;
        let name = self.function_name()?;
        let argument_types = if self.at(TokenKind::LeftParen) { Some(self.argument_types()?) } else { None };
        Ok(FunctionSignature { if_exists, name, argument_types })
    }

    /// CREATE TRIGGER after its two keywords.
    pub(super) fn create_trigger(&mut self) -> Parsed<CreateTrigger> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name()?;
        self.expect_word(Keyword::On)?;
        let table = self.table_name()?;
        self.expect_word(Keyword::Using)?;
        Ok(CreateTrigger { if_not_exists, name, table, class: self.string()? })
    }
}
