//! Roles, users, permissions, identities.

use std::collections::HashSet;

use super::cursor::{Parsed, Parser, is_name};
use crate::ast::{
    AlterRole, CreateRole, Grant, GrantRole, ListPermissions, ListRoles, Permission, Permissions, Resource,
    Revoke, RevokeRole, RoleName, RoleOption, Statement,
};
use crate::lexer::{Keyword, KeywordClass, TokenKind};

/// The permission that a token is.
fn permission(kind: TokenKind) -> Option<Permission> {
    match kind {
        TokenKind::Keyword(keyword) => match keyword {
            Keyword::Create => Some(Permission::Create),
            Keyword::Alter => Some(Permission::Alter),
            Keyword::Drop => Some(Permission::Drop),
            Keyword::Select => Some(Permission::Select),
            Keyword::Modify => Some(Permission::Modify),
            Keyword::Authorize => Some(Permission::Authorize),
            Keyword::Describe => Some(Permission::Describe),
            Keyword::Execute => Some(Permission::Execute),
            Keyword::Unmask => Some(Permission::Unmask),
            Keyword::SelectMasked => Some(Permission::SelectMasked),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a token may be the name of a role; a bind marker is refused later.
fn is_role_name(kind: TokenKind) -> bool {
    is_name(kind) || matches!(kind, TokenKind::String | TokenKind::DollarString | TokenKind::QuestionMark)
}

impl Parser<'_> {
    /// GRANT, which is next.
    pub(super) fn grant(&mut self) -> Parsed<Statement> {
        let next = self.kind(1);
        if !is_role_name(next) && permission(next).is_none() {
            return Err(self.no_viable(1));
        }
        self.expect_word(Keyword::Grant)?;
        if self.at_permissions(Keyword::To) {
            let permissions = self.permissions()?;
            self.expect_word(Keyword::On)?;
            let resource = self.resource()?;
            self.expect_word(Keyword::To)?;
            let grantee = self.role_name()?;
            return Ok(Statement::Grant(Box::new(Grant { permissions, resource, grantee })));
        }
        let role = self.role_name()?;
        self.expect_word(Keyword::To)?;
        let grantee = self.role_name()?;
        Ok(Statement::GrantRole(Box::new(GrantRole { role, grantee })))
    }

    /// REVOKE, which is next.
    pub(super) fn revoke(&mut self) -> Parsed<Statement> {
        let next = self.kind(1);
        if !is_role_name(next) && permission(next).is_none() {
            return Err(self.no_viable(1));
        }
        self.expect_word(Keyword::Revoke)?;
        if self.at_permissions(Keyword::From) {
            let permissions = self.permissions()?;
            self.expect_word(Keyword::On)?;
            let resource = self.resource()?;
            self.expect_word(Keyword::From)?;
            let revokee = self.role_name()?;
            return Ok(Statement::Revoke(Box::new(Revoke { permissions, resource, revokee })));
        }
        let role = self.role_name()?;
        self.expect_word(Keyword::From)?;
        let revokee = self.role_name()?;
        Ok(Statement::RevokeRole(Box::new(RevokeRole { role, revokee })))
    }

    /// Whether permissions follow, rather than a role that is called like one.
    fn at_permissions(&mut self, after_role: Keyword) -> bool {
        let next = self.kind(0);
        (permission(next).is_some() && !is_role_name(next))
            || ((permission(next).is_some() || next == TokenKind::Keyword(Keyword::All))
                && self.kind(1) != TokenKind::Keyword(after_role))
    }

    fn permissions(&mut self) -> Parsed<Permissions> {
        if self.accept_word(Keyword::All) {
            self.accept_word(Keyword::Permissions);
            return Ok(Permissions::All);
        }
        let permissions = self.list(|parser| match permission(parser.kind(0)) {
            Some(permission) => {
                parser.advance();
                parser.accept_word(Keyword::Permission);
                Ok(permission)
            }
            None => Err(parser.mismatched_set()),
        })?;
        Ok(Permissions::Some(permissions))
    }

    fn resource(&mut self) -> Parsed<Resource> {
        let next = match self.kind(0) {
            TokenKind::Keyword(keyword) => Some(keyword),
            _ => None,
        };
        if next.is_none_or(|keyword| keyword.class() == KeywordClass::Reserved)
            && !matches!(next, Some(Keyword::Keyspace | Keyword::Columnfamily))
        {
            return Ok(Resource::Table(self.table_name()?));
        }
        let second = self.kind(1);
        let qualifies = second == TokenKind::Dot
            || matches!(
                second,
                TokenKind::Keyword(Keyword::To | Keyword::From | Keyword::Of | Keyword::Norecursive)
            )
            || matches!(second, TokenKind::Eof | TokenKind::Semicolon);
        match next {
            Some(Keyword::All) if !qualifies => {
                self.advance();
                self.all_of_resource()
            }
            Some(Keyword::Keyspace) => {
                self.advance();
                Ok(Resource::Keyspace(self.keyspace_name()?))
            }
            Some(Keyword::Columnfamily) => {
                self.advance();
                Ok(Resource::Table(self.table_name()?))
            }
            Some(Keyword::Role) if !qualifies => {
                self.advance();
                Ok(Resource::Role(self.role_name()?))
            }
            Some(Keyword::Function) if !qualifies => {
                self.advance();
                let name = self.function_name()?;
                Ok(Resource::Function { name, argument_types: self.argument_types()? })
            }
            Some(Keyword::Mbean) if !qualifies => {
                self.advance();
                Ok(Resource::Mbean(self.string()?))
            }
            Some(Keyword::Mbeans) if !qualifies => {
                self.advance();
                Ok(Resource::Mbeans(self.string()?))
            }
            _ => Ok(Resource::Table(self.table_name()?)),
        }
    }

    /// A resource after ALL.
    fn all_of_resource(&mut self) -> Parsed<Resource> {
        let TokenKind::Keyword(keyword) = self.kind(0) else { return Err(self.no_viable(0)) };
        match keyword {
            Keyword::Keyspaces => {
                self.advance();
                Ok(Resource::AllKeyspaces)
            }
            Keyword::Tables => {
                self.advance();
                self.expect_words(&[Keyword::In, Keyword::Keyspace])?;
                Ok(Resource::AllTables(self.keyspace_name()?))
            }
            Keyword::Roles => {
                self.advance();
                Ok(Resource::AllRoles)
            }
            Keyword::Mbeans => {
                self.advance();
                Ok(Resource::AllMbeans)
            }
            Keyword::Functions => {
                self.advance();
                if !self.accept_word(Keyword::In) {
                    return Ok(Resource::AllFunctions);
                }
                self.expect_word(Keyword::Keyspace)?;
                Ok(Resource::AllFunctionsIn(self.keyspace_name()?))
            }
            _ => Err(self.no_viable(0)),
        }
    }

    /// LIST, which is next.
    pub(super) fn list_statement(&mut self) -> Parsed<Statement> {
        match self.kind(1) {
            TokenKind::Keyword(Keyword::Users) => {
                self.advance();
                self.advance();
                Ok(Statement::ListUsers)
            }
            TokenKind::Keyword(Keyword::Roles) => {
                self.advance();
                self.advance();
                let (role, recursive) = self.of_role()?;
                Ok(Statement::ListRoles(Box::new(ListRoles { role, recursive })))
            }
            kind if permission(kind).is_some() || kind == TokenKind::Keyword(Keyword::All) => {
                self.advance();
                let permissions = self.permissions()?;
                let resource = if self.accept_word(Keyword::On) { Some(self.resource()?) } else { None };
                let (role, recursive) = self.of_role()?;
                Ok(Statement::ListPermissions(Box::new(ListPermissions {
                    permissions,
                    resource,
                    role,
                    recursive,
                })))
            }
            _ => Err(self.no_viable(1)),
        }
    }

    /// `[OF role] [NORECURSIVE]`.
    fn of_role(&mut self) -> Parsed<(Option<RoleName>, bool)> {
        let role = if self.accept_word(Keyword::Of) { Some(self.role_name()?) } else { None };
        Ok((role, !self.accept_word(Keyword::Norecursive)))
    }

    /// CREATE ROLE after its two keywords.
    pub(super) fn create_role(&mut self) -> Parsed<CreateRole> {
        let if_not_exists = self.if_not_exists()?;
        let role = self.role_name()?;
        Ok(CreateRole { role, if_not_exists, is_user: false, options: self.role_options()? })
    }

    /// ALTER ROLE after its two keywords.
    pub(super) fn alter_role(&mut self) -> Parsed<AlterRole> {
        let if_exists = self.if_exists()?;
        let role = self.role_name()?;
        Ok(AlterRole { role, if_exists, is_user: false, options: self.role_options()? })
    }

    /// CREATE USER after its two keywords.
    pub(super) fn create_user(&mut self) -> Parsed<CreateRole> {
        let if_not_exists = self.if_not_exists()?;
        let role = RoleName(self.user_name()?);
        Ok(CreateRole { role, if_not_exists, is_user: true, options: self.user_options()? })
    }

    /// ALTER USER after its two keywords.
    pub(super) fn alter_user(&mut self) -> Parsed<AlterRole> {
        let if_exists = self.if_exists()?;
        let role = RoleName(self.user_name()?);
        Ok(AlterRole { role, if_exists, is_user: true, options: self.user_options()? })
    }

    /// `[WITH [HASHED] PASSWORD '...'] [SUPERUSER | NOSUPERUSER]`.
    fn user_options(&mut self) -> Parsed<Vec<RoleOption>> {
        let mut options = Vec::new();
        if self.accept_word(Keyword::With) {
            if self.accept_word(Keyword::Hashed) {
                self.expect_word(Keyword::Password)?;
                options.push(RoleOption::HashedPassword(self.string()?));
            } else if self.accept_word(Keyword::Password) {
                options.push(RoleOption::Password(self.string()?));
            } else {
                return Err(self.no_viable(0));
            }
        }
        if self.accept_word(Keyword::Superuser) {
            options.push(RoleOption::Superuser(true));
        } else if self.accept_word(Keyword::Nosuperuser) {
            options.push(RoleOption::Superuser(false));
        }
        Ok(options)
    }

    /// `WITH option AND option`, if it is there.
    fn role_options(&mut self) -> Parsed<Vec<RoleOption>> {
        let mut options: Vec<RoleOption> = Vec::new();
        let mut kinds = HashSet::new();
        if !self.accept_word(Keyword::With) {
            return Ok(options);
        }
        loop {
            let option = self.role_option()?;
            if !kinds.insert(std::mem::discriminant(&option)) {
                self.complain_of_repeated(&option);
            }
            options.push(option);
            if !self.accept_word(Keyword::And) {
                break;
            }
        }
        let has = |probe: fn(&RoleOption) -> bool| options.iter().any(probe);
        if has(|option| matches!(option, RoleOption::Password(_)))
            && has(|option| matches!(option, RoleOption::HashedPassword(_)))
        {
            self.complain("Options 'password' and 'hashed password' are mutually exclusive");
        }
        Ok(options)
    }

    fn complain_of_repeated(&mut self, option: &RoleOption) {
        let name = match option {
            RoleOption::Password(_) => "PASSWORD",
            RoleOption::HashedPassword(_) => "HASHED_PASSWORD",
            RoleOption::Options(_) => "OPTIONS",
            RoleOption::Superuser(_) => "SUPERUSER",
            RoleOption::Login(_) => "LOGIN",
            RoleOption::AccessToAllDatacenters
            | RoleOption::AccessToDatacenters(_)
            | RoleOption::AccessFromAllCidrs
            | RoleOption::AccessFromCidrs(_) => return,
        };
        self.complain(format!("Multiple definition for property '{name}'"));
    }

    fn role_option(&mut self) -> Parsed<RoleOption> {
        let TokenKind::Keyword(keyword) = self.kind(0) else { return Err(self.no_viable(0)) };
        match keyword {
            Keyword::Password => {
                self.advance();
                self.expect(TokenKind::Equal)?;
                Ok(RoleOption::Password(self.string()?))
            }
            Keyword::Hashed => {
                self.advance();
                self.expect_word(Keyword::Password)?;
                self.expect(TokenKind::Equal)?;
                Ok(RoleOption::HashedPassword(self.string()?))
            }
            Keyword::Options => {
                self.advance();
                self.expect(TokenKind::Equal)?;
                Ok(RoleOption::Options(self.property_map()?))
            }
            Keyword::Superuser => {
                self.advance();
                self.expect(TokenKind::Equal)?;
                Ok(RoleOption::Superuser(self.boolean()?))
            }
            Keyword::Login => {
                self.advance();
                self.expect(TokenKind::Equal)?;
                Ok(RoleOption::Login(self.boolean()?))
            }
            Keyword::Access => {
                self.advance();
                self.access_option()
            }
            _ => Err(self.no_viable(0)),
        }
    }

    fn access_option(&mut self) -> Parsed<RoleOption> {
        if self.accept_word(Keyword::To) {
            if self.accept_word(Keyword::All) {
                self.expect_word(Keyword::Datacenters)?;
                return Ok(RoleOption::AccessToAllDatacenters);
            }
            self.expect_word(Keyword::Datacenters)?;
            return Ok(RoleOption::AccessToDatacenters(self.strings_in_braces()?));
        }
        self.expect_word(Keyword::From)?;
        if self.accept_word(Keyword::All) {
            self.expect_word(Keyword::Cidrs)?;
            return Ok(RoleOption::AccessFromAllCidrs);
        }
        self.expect_word(Keyword::Cidrs)?;
        Ok(RoleOption::AccessFromCidrs(self.strings_in_braces()?))
    }

    fn strings_in_braces(&mut self) -> Parsed<Vec<String>> {
        self.expect(TokenKind::LeftBrace)?;
        let strings = self.list(Self::string)?;
        self.expect(TokenKind::RightBrace)?;
        Ok(strings)
    }

    fn boolean(&mut self) -> Parsed<bool> {
        Ok(self.expect(TokenKind::Boolean)?.raw.eq_ignore_ascii_case("true"))
    }

    /// ADD IDENTITY, which is next.
    pub(super) fn add_identity(&mut self) -> Parsed<Statement> {
        self.expect_words(&[Keyword::Add, Keyword::Identity])?;
        let if_not_exists = self.if_not_exists()?;
        let identity = self.identity()?;
        self.expect_words(&[Keyword::To, Keyword::Role])?;
        Ok(Statement::AddIdentity { identity, role: self.identity()?, if_not_exists })
    }
}
