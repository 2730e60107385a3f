//! Which statement it is.

use super::cursor::{Parsed, Parser, word};
use crate::ast::{Modification, ParsedStatement, Statement};
use crate::lexer::{Keyword, TokenKind};

impl Parser<'_> {
    /// The whole text: one statement and any number of semicolons.
    pub(super) fn whole(&mut self) -> Parsed<ParsedStatement> {
        let statement = self.statement()?;
        while self.accept(TokenKind::Semicolon) {}
        self.expect(TokenKind::Eof)?;
        Ok(ParsedStatement { statement, markers: std::mem::take(&mut self.markers) })
    }

    fn statement(&mut self) -> Parsed<Statement> {
        if let Some(analyze) = self.explain_words() {
            if !self.at_word(Keyword::Select) {
                return Err(self.not_explained());
            }
            return Ok(Statement::Explain { analyze, select: Box::new(self.select()?) });
        }
        let TokenKind::Keyword(keyword) = self.kind(0) else { return Err(self.no_viable(0)) };
        match keyword {
            Keyword::Select => Ok(Statement::Select(Box::new(self.select()?))),
            Keyword::Insert => Ok(match self.insert()? {
                Modification::Insert(insert) => Statement::Insert(insert),
                Modification::InsertJson(insert) => Statement::InsertJson(insert),
                Modification::Update(update) => Statement::Update(update),
                Modification::Delete(delete) => Statement::Delete(delete),
            }),
            Keyword::Update => Ok(Statement::Update(Box::new(self.update()?))),
            Keyword::Delete => Ok(Statement::Delete(Box::new(self.delete()?))),
            Keyword::Begin => Ok(Statement::Batch(Box::new(self.batch()?))),
            Keyword::Use => {
                self.advance();
                Ok(Statement::Use(self.keyspace_name()?))
            }
            Keyword::Truncate => {
                self.advance();
                self.accept_word(Keyword::Columnfamily);
                Ok(Statement::Truncate(self.table_name()?))
            }
            Keyword::Create => self.create(),
            Keyword::Alter => self.alter(),
            Keyword::Drop => self.drop_statement(),
            Keyword::Grant => self.grant(),
            Keyword::Revoke => self.revoke(),
            Keyword::List => self.list_statement(),
            Keyword::Add => self.add_identity(),
            Keyword::Describe | Keyword::Desc => Ok(Statement::Describe(Box::new(self.describe()?))),
            _ => Err(self.no_viable(0)),
        }
    }

    /// Consumes `EXPLAIN` or `EXPLAIN ANALYZE`, and says which. They are names, not keywords: no statement of
    /// Cassandra's begins with a name, so whatever was valid without them means the same.
    fn explain_words(&mut self) -> Option<bool> {
        let words = self.peek(|parser| {
            let explain = parser.is_bare_word(0, "explain");
            explain.then(|| if parser.is_bare_word(1, "analyze") { 2 } else { 1 })
        })?;
        self.skip(words);
        Some(words == 2)
    }

    /// Whether `BYPASS CACHE` stands at a place. These are names, too, and stand where no statement of
    /// Cassandra's has one.
    pub(super) fn is_bypass_cache(&mut self, n: usize) -> bool {
        self.peek(|parser| parser.is_bare_word(n, "bypass") && parser.is_bare_word(n + 1, "cache"))
    }

    /// Whether a word that is no keyword stands at a place, unquoted.
    fn is_bare_word(&mut self, n: usize, word: &str) -> bool {
        let token = self.ahead(n);
        token.kind == TokenKind::Ident && token.raw.eq_ignore_ascii_case(word)
    }

    /// The keyword in second place, if it is one: Cassandra tells the CREATEs, ALTERs and DROPs apart by it.
    fn second_word(&mut self) -> Option<Keyword> {
        match self.kind(1) {
            TokenKind::Keyword(keyword) => Some(keyword),
            _ => None,
        }
    }

    /// Consumes so many tokens.
    pub(super) fn skip(&mut self, tokens: usize) {
        for _ in 0..tokens {
            self.advance();
        }
    }

    fn create(&mut self) -> Parsed<Statement> {
        let Some(second) = self.second_word() else { return Err(self.no_viable(1)) };
        Ok(match second {
            Keyword::Keyspace => {
                self.skip(2);
                Statement::CreateKeyspace(Box::new(self.create_keyspace()?))
            }
            Keyword::Columnfamily => {
                self.skip(2);
                Statement::CreateTable(Box::new(self.create_table()?))
            }
            Keyword::Type => {
                self.skip(2);
                Statement::CreateType(Box::new(self.create_type()?))
            }
            Keyword::Index => {
                self.skip(2);
                Statement::CreateIndex(Box::new(self.create_index(false)?))
            }
            Keyword::Custom => {
                self.skip(2);
                self.expect_word(Keyword::Index)?;
                Statement::CreateIndex(Box::new(self.create_index(true)?))
            }
            Keyword::Materialized => {
                self.skip(2);
                self.expect_word(Keyword::View)?;
                Statement::CreateMaterializedView(Box::new(self.create_view()?))
            }
            Keyword::Function | Keyword::Aggregate => {
                self.skip(1);
                self.create_function_or_aggregate(false)?
            }
            Keyword::Or => {
                if self.kind(2) != word(Keyword::Replace) {
                    return Err(self.no_viable(2));
                }
                if !matches!(self.kind(3), TokenKind::Keyword(Keyword::Function | Keyword::Aggregate)) {
                    return Err(self.no_viable(3));
                }
                self.skip(3);
                self.create_function_or_aggregate(true)?
            }
            Keyword::Trigger => {
                self.skip(2);
                Statement::CreateTrigger(Box::new(self.create_trigger()?))
            }
            Keyword::Role => {
                self.skip(2);
                Statement::CreateRole(Box::new(self.create_role()?))
            }
            Keyword::User => {
                self.skip(2);
                Statement::CreateRole(Box::new(self.create_user()?))
            }
            _ => return Err(self.no_viable(1)),
        })
    }

    fn create_function_or_aggregate(&mut self, or_replace: bool) -> Parsed<Statement> {
        if self.accept_word(Keyword::Function) {
            return Ok(Statement::CreateFunction(Box::new(self.create_function(or_replace)?)));
        }
        self.expect_word(Keyword::Aggregate)?;
        Ok(Statement::CreateAggregate(Box::new(self.create_aggregate(or_replace)?)))
    }

    fn alter(&mut self) -> Parsed<Statement> {
        let Some(second) = self.second_word() else { return Err(self.no_viable(1)) };
        Ok(match second {
            Keyword::Keyspace => {
                self.skip(2);
                Statement::AlterKeyspace(Box::new(self.alter_keyspace()?))
            }
            Keyword::Columnfamily => {
                self.skip(2);
                Statement::AlterTable(Box::new(self.alter_table()?))
            }
            Keyword::Type => {
                self.skip(2);
                Statement::AlterType(Box::new(self.alter_type()?))
            }
            Keyword::Materialized => {
                self.skip(2);
                self.expect_word(Keyword::View)?;
                Statement::AlterMaterializedView(Box::new(self.alter_view()?))
            }
            Keyword::Role => {
                self.skip(2);
                Statement::AlterRole(Box::new(self.alter_role()?))
            }
            Keyword::User => {
                self.skip(2);
                Statement::AlterRole(Box::new(self.alter_user()?))
            }
            _ => return Err(self.no_viable(1)),
        })
    }

    fn drop_statement(&mut self) -> Parsed<Statement> {
        let Some(second) = self.second_word() else { return Err(self.no_viable(1)) };
        let known = matches!(
            second,
            Keyword::Keyspace
                | Keyword::Columnfamily
                | Keyword::Type
                | Keyword::Index
                | Keyword::Materialized
                | Keyword::Function
                | Keyword::Aggregate
                | Keyword::Trigger
                | Keyword::Role
                | Keyword::User
                | Keyword::Identity
        );
        if !known {
            return Err(self.no_viable(1));
        }
        self.skip(2);
        if second == Keyword::Materialized {
            self.expect_word(Keyword::View)?;
        }
        match second {
            Keyword::Function => return Ok(Statement::DropFunction(Box::new(self.function_signature()?))),
            Keyword::Aggregate => return Ok(Statement::DropAggregate(Box::new(self.function_signature()?))),
            _ => {}
        }
        let if_exists = self.if_exists()?;
        Ok(match second {
            Keyword::Keyspace => Statement::DropKeyspace { keyspace: self.keyspace_name()?, if_exists },
            Keyword::Columnfamily => Statement::DropTable { table: self.table_name()?, if_exists },
            Keyword::Type => Statement::DropType { name: self.user_type_name()?, if_exists },
            Keyword::Index => Statement::DropIndex { index: self.index_name()?, if_exists },
            Keyword::Materialized => Statement::DropMaterializedView { view: self.table_name()?, if_exists },
            Keyword::Trigger => {
                let name = self.name()?;
                self.expect_word(Keyword::On)?;
                Statement::DropTrigger { name, table: self.table_name()?, if_exists }
            }
            Keyword::User => {
                let role = crate::ast::RoleName(self.user_name()?);
                Statement::DropRole { role, if_exists }
            }
            Keyword::Identity => Statement::DropIdentity { identity: self.identity()?, if_exists },
            _ => Statement::DropRole { role: self.role_name()?, if_exists },
        })
    }
}
