//! CREATE and ALTER of tables and types.

use super::cursor::{Parsed, Parser, is_name};
use super::property::Properties;
use crate::ast::{
    AlterTable, AlterTableAction, AlterType, AlterTypeAction, ColumnDefinition, ColumnMask, CreateTable,
    CreateType, FunctionName, Identifier, PrimaryKey, Property, RawType,
};
use crate::lexer::{Keyword, TokenKind};

/// What WITH may say of a new table or view.
#[derive(Default)]
pub(super) struct TableProperties {
    pub(super) clustering_order: Vec<(Identifier, bool)>,
    pub(super) compact_storage: bool,
    pub(super) properties: Vec<Property>,
}

impl Parser<'_> {
    /// CREATE TABLE after its two keywords.
    pub(super) fn create_table(&mut self) -> Parsed<CreateTable> {
        let if_not_exists = self.if_not_exists()?;
        let table = self.table_name()?;
        let mut columns = Vec::new();
        let mut primary_keys = Vec::new();
        self.expect(TokenKind::LeftParen)?;
        self.table_column(&mut columns, &mut primary_keys)?;
        while self.accept(TokenKind::Comma) {
            // A comma too many does no harm.
            if is_name(self.kind(0)) || self.at_word(Keyword::Primary) {
                self.table_column(&mut columns, &mut primary_keys)?;
            }
        }
        self.expect(TokenKind::RightParen)?;
        let TableProperties { clustering_order, compact_storage, properties } = self.table_properties()?;
        Ok(CreateTable {
            table,
            if_not_exists,
            columns,
            primary_keys,
            clustering_order,
            compact_storage,
            properties,
        })
    }

    fn table_column(
        &mut self,
        columns: &mut Vec<ColumnDefinition>,
        primary_keys: &mut Vec<PrimaryKey>,
    ) -> Parsed<()> {
        if self.at_word(Keyword::Primary) {
            primary_keys.push(self.primary_key()?);
            return Ok(());
        }
        let column = self.column_definition()?;
        if self.accept_word(Keyword::Primary) {
            self.expect_word(Keyword::Key)?;
            primary_keys
                .push(PrimaryKey { partition_key: vec![column.name.clone()], clustering: Vec::new() });
        }
        columns.push(column);
        Ok(())
    }

    /// `name type [STATIC] [MASKED WITH ...]`.
    fn column_definition(&mut self) -> Parsed<ColumnDefinition> {
        let name = self.name()?;
        let column_type = self.data_type()?;
        let is_static = self.accept_word(Keyword::Static);
        let mask = if self.at_word(Keyword::Masked) { Some(self.column_mask()?) } else { None };
        Ok(ColumnDefinition { name, column_type, is_static, mask })
    }

    /// `MASKED WITH ...`, which is next.
    fn column_mask(&mut self) -> Parsed<ColumnMask> {
        self.expect_words(&[Keyword::Masked, Keyword::With])?;
        if self.at_word(Keyword::Default) && !matches!(self.kind(1), TokenKind::LeftParen | TokenKind::Dot) {
            self.advance();
            return Ok(ColumnMask { function: FunctionName::native("mask_default"), arguments: Vec::new() });
        }
        let function = self.function_name()?;
        self.expect(TokenKind::LeftParen)?;
        let arguments = self.terms_until(TokenKind::RightParen)?;
        Ok(ColumnMask { function, arguments })
    }

    /// `PRIMARY KEY ((a, b), c, d)`, which is next.
    pub(super) fn primary_key(&mut self) -> Parsed<PrimaryKey> {
        self.expect_words(&[Keyword::Primary, Keyword::Key])?;
        self.expect(TokenKind::LeftParen)?;
        let partition_key = self.name_or_names()?;
        let mut clustering = Vec::new();
        while self.accept(TokenKind::Comma) {
            clustering.push(self.name()?);
        }
        self.expect(TokenKind::RightParen)?;
        Ok(PrimaryKey { partition_key, clustering })
    }

    /// `WITH ...` of a table or view, if it is there.
    pub(super) fn table_properties(&mut self) -> Parsed<TableProperties> {
        let mut result = TableProperties::default();
        let mut properties = Properties::default();
        if !self.accept_word(Keyword::With) {
            return Ok(result);
        }
        loop {
            if self.at_word(Keyword::Compact) && self.kind(1) != TokenKind::Equal {
                self.advance();
                self.expect_word(Keyword::Storage)?;
                result.compact_storage = true;
            } else if self.at_word(Keyword::Clustering) && self.kind(1) != TokenKind::Equal {
                self.advance();
                self.expect_words(&[Keyword::Order, Keyword::By])?;
                let orders = self.list_in_parens(Self::clustering_order)?;
                result.clustering_order.extend(orders);
            } else {
                self.property(&mut properties)?;
            }
            if !self.accept_word(Keyword::And) {
                result.properties = properties.list;
                return Ok(result);
            }
        }
    }

    fn clustering_order(&mut self) -> Parsed<(Identifier, bool)> {
        let column = self.name()?;
        if self.accept_word(Keyword::Asc) {
            return Ok((column, false));
        }
        if self.accept_word(Keyword::Desc) {
            return Ok((column, true));
        }
        Err(self.no_viable(0))
    }

    /// ALTER TABLE after its two keywords.
    pub(super) fn alter_table(&mut self) -> Parsed<AlterTable> {
        let if_exists = self.if_exists()?;
        let table = self.table_name()?;
        let action = match self.kind(0) {
            TokenKind::Keyword(Keyword::Alter) => {
                self.advance();
                self.alter_column()?
            }
            TokenKind::Keyword(Keyword::Add) => {
                self.advance();
                let if_not_exists = self.if_not_exists()?;
                let columns = self.one_or_in_parens(Self::column_definition)?;
                AlterTableAction::Add { if_not_exists, columns }
            }
            TokenKind::Keyword(Keyword::Drop) => {
                self.advance();
                self.drop_columns()?
            }
            TokenKind::Keyword(Keyword::Rename) => {
                self.advance();
                let if_exists = self.if_exists()?;
                AlterTableAction::Rename { if_exists, renames: self.renames()? }
            }
            TokenKind::Keyword(Keyword::With) => {
                self.advance();
                AlterTableAction::With(self.properties()?)
            }
            _ => return Err(self.no_viable(0)),
        };
        Ok(AlterTable { table, if_exists, action })
    }

    fn alter_column(&mut self) -> Parsed<AlterTableAction> {
        let if_exists = self.if_exists()?;
        let column = self.column_name()?;
        match self.kind(0) {
            TokenKind::Keyword(Keyword::Type) if !if_exists => {
                self.advance();
                Ok(AlterTableAction::AlterType { column, column_type: self.data_type()? })
            }
            TokenKind::Keyword(Keyword::Masked) => {
                let mask = Some(self.column_mask()?);
                Ok(AlterTableAction::Mask { column, if_exists, mask })
            }
            TokenKind::Keyword(Keyword::Drop) => {
                self.advance();
                self.expect_word(Keyword::Masked)?;
                Ok(AlterTableAction::Mask { column, if_exists, mask: None })
            }
            _ => Err(self.no_viable(0)),
        }
    }

    fn drop_columns(&mut self) -> Parsed<AlterTableAction> {
        if self.at_word(Keyword::Compact) && self.kind(1) == TokenKind::Keyword(Keyword::Storage) {
            self.advance();
            self.advance();
            return Ok(AlterTableAction::DropCompactStorage);
        }
        let if_exists = self.if_exists()?;
        let columns = self.one_or_in_parens(Self::name)?;
        let mut timestamp = None;
        if self.accept_word(Keyword::Using) {
            self.expect_word(Keyword::Timestamp)?;
            let written = self.expect(TokenKind::Integer)?.raw;
            timestamp = written.parse().ok();
            if timestamp.is_none() {
                self.complain(format!("For input string: \"{written}\""));
            }
        }
        Ok(AlterTableAction::Drop { if_exists, columns, timestamp })
    }

    /// `item` or `'(' item (',' item)* ')'`.
    fn one_or_in_parens<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        if self.at(TokenKind::LeftParen) { self.list_in_parens(item) } else { Ok(vec![item(self)?]) }
    }

    /// `a TO b AND c TO d`.
    fn renames(&mut self) -> Parsed<Vec<(Identifier, Identifier)>> {
        let mut renames = Vec::new();
        loop {
            let from = self.name()?;
            self.expect_word(Keyword::To)?;
            renames.push((from, self.name()?));
            if !self.accept_word(Keyword::And) {
                return Ok(renames);
            }
        }
    }

    /// CREATE TYPE after its two keywords.
    pub(super) fn create_type(&mut self) -> Parsed<CreateType> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.user_type_name()?;
        self.expect(TokenKind::LeftParen)?;
        let mut fields = vec![self.field_definition()?];
        while self.accept(TokenKind::Comma) {
            if is_name(self.kind(0)) {
                fields.push(self.field_definition()?);
            }
        }
        self.expect(TokenKind::RightParen)?;
        Ok(CreateType { name, if_not_exists, fields })
    }

    fn field_definition(&mut self) -> Parsed<(Identifier, RawType)> {
        let name = self.name()?;
        Ok((name, self.data_type()?))
    }

    /// ALTER TYPE after its two keywords.
    pub(super) fn alter_type(&mut self) -> Parsed<AlterType> {
        let if_exists = self.if_exists()?;
        let name = self.user_type_name()?;
        let action = match self.kind(0) {
            TokenKind::Keyword(Keyword::Alter) => {
                self.advance();
                let field = self.name()?;
                self.expect_word(Keyword::Type)?;
                AlterTypeAction::AlterField { field, field_type: self.data_type()? }
            }
            TokenKind::Keyword(Keyword::Add) => {
                self.advance();
                let if_not_exists = self.if_not_exists()?;
                let (field, field_type) = self.field_definition()?;
                AlterTypeAction::Add { if_not_exists, field, field_type }
            }
            TokenKind::Keyword(Keyword::Rename) => {
                self.advance();
                let if_exists = self.if_exists()?;
                AlterTypeAction::Rename { if_exists, renames: self.renames()? }
            }
            _ => return Err(self.no_viable(0)),
        };
        Ok(AlterType { name, if_exists, action })
    }
}
