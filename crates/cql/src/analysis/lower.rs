//! From expressions as written to [`Expr`]s.

use super::compat::{fit_type, same};
use super::context::{Analyzer, Receiver, SELECTION};
use super::expr::Expr;
use super::literal;
use super::masks;
use super::raw::Raw;
use super::types::{self, display};
use crate::ast::{Identifier, Subselection, WritetimeKind};
use crate::error::{CqlError, Result, bail};
use crate::functions::{self, AggregateCall, Body};
use crate::result::{CellInfo, CellPart, ColumnPart, ColumnRef, Keys, ValueStep};
use model::ColumnKind;
use model::types::CqlType;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Where an expression stands.
#[derive(Debug)]
pub(crate) enum Place<'p> {
    /// In WHERE, VALUES, SET and the like: no columns, no aggregates.
    Term,
    /// In a SELECT clause; aggregates are gathered.
    Selection(&'p mut Vec<AggregateCall>),
    /// In a SELECT clause, as the argument of an aggregate.
    AggregateArgument,
}

impl Place<'_> {
    fn is_term(&self) -> bool {
        matches!(self, Place::Term)
    }
}

impl Analyzer<'_> {
    /// A term for a receiver.
    pub(crate) fn term<'r>(&self, raw: impl Into<Raw<'r>>, receiver: &Receiver) -> Result<Expr> {
        let raw = raw.into();
        self.call_types.apart(|| {
            let _inside = self.call_types.enter();
            self.lower(&raw, receiver, &mut Place::Term)
        })
    }

    /// Something of a SELECT clause, and its type.
    pub(crate) fn selected(&self, raw: &Raw<'_>, place: &mut Place<'_>) -> Result<(Expr, CqlType)> {
        let _inside = self.call_types.enter();
        match raw {
            Raw::Column(name) => {
                let column = self.column(name)?;
                Ok((masks::shown(&self.table, &column), column.ty.clone()))
            }
            Raw::CellInfo { kind, column, path } => {
                let (info, ty) = self.cell_info(*kind, column, path)?;
                let times = Expr::CellInfo(Box::new(info));
                let is_of_keys = path.iter().any(|step| !matches!(step, Subselection::Field(_)));
                // The time of a key tells that the key is there.
                let expr = match is_of_keys && self.table.mask_of(column.as_str()).is_some() {
                    true => Expr::Masked { clear: times.into(), masked: Expr::NULL.into() },
                    false => times,
                };
                Ok((expr, ty))
            }
            Raw::Part { of, part } => self.part(of, part, place),
            Raw::CountRows
            | Raw::Function { .. }
            | Raw::Operation { .. }
            | Raw::Negation(_)
            | Raw::Cast { .. } => self.call(raw, None, place),
            Raw::Hint { target, .. } => {
                let ty = types::hint(target, self.schema, &self.table.keyspace)?;
                let expr = self.lower(raw, &Receiver::new(SELECTION, ty.clone()), place)?;
                Ok((expr, ty))
            }
            Raw::Tuple(items) if items.len() == 1 && !items.iter().any(is_field_like) => {
                match items.first() {
                    Some(single @ (Raw::Operation { .. } | Raw::Negation(_) | Raw::Hint { .. })) => {
                        self.selected(single, place)
                    }
                    _ => Err(cannot_infer(raw)),
                }
            }
            _ => match self.known_type(raw) {
                Some(ty) => {
                    let expr = self.lower(raw, &Receiver::new(SELECTION, ty.clone()), place)?;
                    Ok((expr, ty))
                }
                None => Err(cannot_infer(raw)),
            },
        }
    }

    /// An expression for a receiver, wherever it stands.
    pub(crate) fn lower(&self, raw: &Raw<'_>, receiver: &Receiver, place: &mut Place<'_>) -> Result<Expr> {
        match raw {
            Raw::Literal(literal) => literal::lower(literal, receiver),
            Raw::Null if receiver.ty.is_counter() => {
                bail!("Invalid null value for counter increment/decrement")
            }
            Raw::Null => Ok(Expr::NULL),
            Raw::Marker(index) => {
                self.mark(*index, receiver);
                Ok(Expr::Marker { index: *index, ty: receiver.ty.clone() })
            }
            Raw::List(items) => self.list(items, receiver, place),
            Raw::Set(items) => self.set(items, receiver, place),
            Raw::Map(entries) => match (&receiver.ty, raw.as_fields()) {
                (CqlType::Udt { .. }, Some(fields)) => self.user_type(&fields, receiver, place),
                (CqlType::Map { key, value, .. }, _) => self.map(entries, (key, value), receiver, place),
                _ => bail!("Invalid map literal for {} of type {}", receiver.name, display(&receiver.ty)),
            },
            Raw::UserType(fields) => {
                let fields: Vec<(&Identifier, &Raw<'_>)> = fields.iter().map(|(n, v)| (*n, v)).collect();
                self.user_type(&fields, receiver, place)
            }
            Raw::Tuple(items) => match (&receiver.ty, items.as_slice()) {
                (CqlType::Tuple(fields), _) => self.tuple(items, fields, receiver, place),
                (_, [single]) => self.lower(single, receiver, place),
                _ => bail!(
                    "Invalid tuple type literal for {} of type {}",
                    receiver.name,
                    display(&receiver.ty)
                ),
            },
            Raw::Hint { target, of } => {
                let ty = types::hint(target, self.schema, &self.table.keyspace)?;
                if !same(&ty, &receiver.ty) && !fit_type(&ty, &receiver.ty).is_assignable() {
                    bail!("Cannot assign value {raw} to {} of type {}", receiver.name, display(&receiver.ty));
                }
                if place.is_term() {
                    // The hint only chooses; the value is one of the receiver's type.
                    return self.lower(of, receiver, place);
                }
                if !self.fit(of, &ty).is_assignable() {
                    bail!("Cannot assign value {raw} to {raw} of type {}", display(&ty));
                }
                self.lower(of, &Receiver::new(SELECTION, ty), place)
            }
            Raw::Column(_) | Raw::CellInfo { .. } | Raw::Part { .. } => {
                if place.is_term() {
                    bail!("Column {raw} is not allowed here");
                }
                Ok(self.selected(raw, place)?.0)
            }
            Raw::CountRows
            | Raw::Function { .. }
            | Raw::Operation { .. }
            | Raw::Negation(_)
            | Raw::Cast { .. } => Ok(self.call(raw, Some(receiver), place)?.0),
        }
    }

    fn call(
        &self,
        raw: &Raw<'_>,
        receiver: Option<&Receiver>,
        place: &mut Place<'_>,
    ) -> Result<(Expr, CqlType)> {
        if let Raw::Function { name, .. } = raw
            && !place.is_term()
            && functions::is_from_json(name)
        {
            bail!("{}() cannot be used in the selection clause of a SELECT statement", name.name);
        }
        let function =
            functions::resolve(self, raw, receiver.map(|r| &r.ty)).map_err(|e| match (raw, &e) {
                // Terms and selectors have different words for this.
                (Raw::Function { name, .. }, CqlError::Invalid(message))
                    if place.is_term() && *message == format!("Unknown function '{name}'") =>
                {
                    CqlError::invalid(format!("Unknown function {name} called"))
                }
                _ => e,
            })?;
        if let Body::Aggregate(_) = function.body
            && place.is_term()
        {
            bail!("Aggregation function are not supported in the where clause");
        }
        if let Some(receiver) = receiver
            && !fit_type(&function.returns, &receiver.ty).is_assignable()
        {
            bail!(
                "Type error: cannot assign result of function {} (type {}) to {} (type {})",
                function.name,
                display(&function.returns),
                receiver.name,
                display(&receiver.ty)
            );
        }
        let given = functions::arguments_of(raw);
        let returns = function.returns.clone();
        match function.body {
            Body::Scalar(_) => {
                let arguments = self.arguments(&given, &function.name, &function.arguments, place)?;
                let Some(scalar) = function.into_scalar() else {
                    return Err(CqlError::Server("a scalar function has no body".to_owned()));
                };
                Ok((Expr::Call { function: Arc::new(scalar), arguments }, returns))
            }
            Body::Aggregate(op) => {
                let arguments = self.arguments(
                    &given,
                    &function.name,
                    &function.arguments,
                    &mut Place::AggregateArgument,
                )?;
                let Place::Selection(aggregates) = place else {
                    bail!("aggregate functions cannot be used as arguments of aggregate functions");
                };
                let index = aggregates.len();
                aggregates.push(AggregateCall { op, argument_types: function.arguments, arguments });
                Ok((Expr::Aggregate(index), returns))
            }
        }
    }

    fn arguments(
        &self,
        given: &[&Raw<'_>],
        function: &str,
        types: &[CqlType],
        place: &mut Place<'_>,
    ) -> Result<Vec<Expr>> {
        given
            .iter()
            .zip(types)
            .enumerate()
            .map(|(i, (argument, ty))| {
                let name = if place.is_term() { format!("arg{i}({function})") } else { SELECTION.to_owned() };
                self.lower(argument, &Receiver::new(name, ty.clone()), place)
            })
            .collect()
    }

    fn list(&self, items: &[Raw<'_>], receiver: &Receiver, place: &mut Place<'_>) -> Result<Expr> {
        match &receiver.ty {
            CqlType::List { element, .. } => {
                let items = self.items("list", items, &receiver.value(element), receiver, place)?;
                Ok(Expr::List(items))
            }
            CqlType::Vector { element, dimension } => {
                if items.len() != *dimension as usize {
                    bail!(
                        "Invalid vector literal for {} of type {}; expected {dimension} elements, but given {}",
                        receiver.name,
                        display(&receiver.ty),
                        items.len()
                    );
                }
                let items = self.items("vector", items, &receiver.value(element), receiver, place)?;
                Ok(Expr::Vector { element: Arc::clone(element), items })
            }
            other => {
                bail!("Unexpected receiver type '{}'; only list and vector are expected", display(other))
            }
        }
    }

    fn items(
        &self,
        kind: &str,
        items: &[Raw<'_>],
        element: &Receiver,
        whole: &Receiver,
        place: &mut Place<'_>,
    ) -> Result<Vec<Expr>> {
        for item in items {
            if !self.fit(item, &element.ty).is_assignable() {
                bail!(
                    "Invalid {kind} literal for {}: value {item} is not of type {}",
                    whole.name,
                    display(&element.ty)
                );
            }
        }
        let mut out = Vec::with_capacity(items.len());
        for item in items {
            out.push(self.lower(item, element, place)?);
            if kind != "vector" {
                refuse_marker(item, kind, whole, place)?;
            }
        }
        refuse_nulls(out.iter(), if kind == "vector" { "vectors" } else { "collections" }, place)?;
        Ok(out)
    }

    fn set(&self, items: &[Raw<'_>], receiver: &Receiver, place: &mut Place<'_>) -> Result<Expr> {
        match &receiver.ty {
            CqlType::Set { element, .. } => {
                let items = self.items("set", items, &receiver.value(element), receiver, place)?;
                Ok(Expr::Set { element: Arc::clone(element), items })
            }
            CqlType::Map { key, .. } if items.is_empty() => {
                Ok(Expr::Map { key: Arc::clone(key), entries: Vec::new() })
            }
            other => bail!("Invalid set literal for {} of type {}", receiver.name, display(other)),
        }
    }

    fn map(
        &self,
        entries: &[(Raw<'_>, Raw<'_>)],
        (key, value): (&Arc<CqlType>, &Arc<CqlType>),
        receiver: &Receiver,
        place: &mut Place<'_>,
    ) -> Result<Expr> {
        let (key_receiver, value_receiver) = (receiver.key(key), receiver.value(value));
        for (k, v) in entries {
            if !self.fit(k, key).is_assignable() {
                bail!("Invalid map literal for {}: key {k} is not of type {}", receiver.name, display(key));
            }
            if !self.fit(v, value).is_assignable() {
                bail!(
                    "Invalid map literal for {}: value {v} is not of type {}",
                    receiver.name,
                    display(value)
                );
            }
        }
        let mut out = Vec::with_capacity(entries.len());
        for (k, v) in entries {
            out.push((self.lower(k, &key_receiver, place)?, self.lower(v, &value_receiver, place)?));
            refuse_marker(k, "map", receiver, place)?;
            refuse_marker(v, "map", receiver, place)?;
        }
        refuse_nulls(out.iter().flat_map(|(k, v)| [k, v]), "collections", place)?;
        Ok(Expr::Map { key: Arc::clone(key), entries: out })
    }

    fn tuple(
        &self,
        items: &[Raw<'_>],
        fields: &[CqlType],
        receiver: &Receiver,
        place: &mut Place<'_>,
    ) -> Result<Expr> {
        if items.len() > fields.len() {
            bail!(
                "Invalid tuple literal for {}: too many elements. Type {} expects {} but got {}",
                receiver.name,
                display(&receiver.ty),
                fields.len(),
                items.len()
            );
        }
        let mut out = Vec::with_capacity(items.len());
        for (i, (item, ty)) in items.iter().zip(fields).enumerate() {
            if !self.fit(item, ty).is_assignable() {
                bail!(
                    "Invalid tuple literal for {}: component {i} is not of type {}",
                    receiver.name,
                    display(ty)
                );
            }
            let component = Receiver::new(format!("{}[{i}]", receiver.name), ty.clone());
            out.push(self.lower(item, &component, place)?);
        }
        Ok(Expr::Tuple(out))
    }

    fn user_type(
        &self,
        given: &[(&Identifier, &Raw<'_>)],
        receiver: &Receiver,
        place: &mut Place<'_>,
    ) -> Result<Expr> {
        let CqlType::Udt { definition, multi_cell } = &receiver.ty else {
            bail!("Invalid user type literal for {} of type {}", receiver.name, display(&receiver.ty));
        };
        let known: HashSet<&str> = definition.fields.iter().map(|(field, _)| field.as_str()).collect();
        let mut values: HashMap<&str, &Raw<'_>> = HashMap::with_capacity(given.len());
        for (name, value) in given {
            if !known.contains(name.as_str()) {
                bail!("Unknown field '{name}' in value of user defined type {}", definition.name);
            }
            values.entry(name.as_str()).or_insert(value);
        }
        let mut out = Vec::with_capacity(definition.fields.len());
        for (field, ty) in &definition.fields {
            let Some(value) = values.get(field.as_str()) else {
                out.push(Expr::NULL);
                continue;
            };
            if !self.fit(value, ty).is_assignable() {
                bail!(
                    "Invalid user type literal for {}: field {field} is not of type {}",
                    receiver.name,
                    display(ty)
                );
            }
            let receiver = Receiver::new(format!("{}.{field}", receiver.name), ty.clone());
            out.push(self.lower(value, &receiver, place)?);
        }
        Ok(Expr::UserType { definition: Arc::clone(definition), multi_cell: *multi_cell, fields: out })
    }

    fn part(&self, of: &Raw<'_>, part: &Subselection, place: &mut Place<'_>) -> Result<(Expr, CqlType)> {
        let (value, ty) = self.selected(of, place)?;
        let (part, part_ty) = self.subselection(&of.to_string(), &ty, part)?;
        Ok((part.of(value, &ty), part_ty))
    }

    /// A part of a value of type `ty`, which is `shown` in errors, and its type.
    fn subselection(&self, shown: &str, ty: &CqlType, part: &Subselection) -> Result<(Part, CqlType)> {
        match part {
            Subselection::Field(name) => {
                let (index, field) = field_of(shown, ty, name)?;
                Ok((Part::Field(index), field))
            }
            Subselection::Element(key) => {
                let (is_map, key_type, value_type) = keyed(shown, ty, "Element")?;
                let key = self.term(key, &selection_key(shown, is_map, &key_type))?;
                let keys = Keys::One(Box::new(key));
                Ok((Part::Keys(CellPart::of(shown, key_type, keys)), value_type))
            }
            Subselection::Slice { from, to } => {
                let (is_map, key_type, _) = keyed(shown, ty, "Slice")?;
                let receiver = selection_key(shown, is_map, &key_type);
                let end = |term: &Option<crate::ast::Term>| -> Result<Option<Box<Expr>>> {
                    term.as_ref().map(|t| self.term(t, &receiver).map(Box::new)).transpose()
                };
                let keys = Keys::Slice { from: end(from)?, to: end(to)? };
                Ok((Part::Keys(CellPart::of(shown, key_type, keys)), ty.frozen()))
            }
        }
    }

    /// `writetime(c)`, `maxwritetime(c)` and `ttl(c)`, of whole columns or of parts.
    pub(crate) fn cell_info(
        &self,
        kind: WritetimeKind,
        name: &Identifier,
        path: &[Subselection],
    ) -> Result<(CellInfo, CqlType)> {
        let column = self.column(name)?;
        if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
            bail!("Cannot use selection function {kind} on PRIMARY KEY part {name}");
        }
        let mut ty = column.ty.clone();
        let mut part: Option<CellPart> = None;
        let mut inside = Vec::new();
        let mut shown = name.to_string();
        for step in path {
            let (this, this_ty) = self.subselection(&shown, &ty, step)?;
            if ty.is_multi_cell() {
                part = Some(this.into_cells());
            } else if part.as_ref().is_none_or(CellPart::is_one) {
                inside.push(this.into_step(matches!(ty, CqlType::Map { .. })));
            }
            ty = this_ty;
            shown.push_str(&step.to_string());
        }
        let single = match kind {
            WritetimeKind::Writetime | WritetimeKind::MaxWritetime => CqlType::BigInt,
            WritetimeKind::Ttl => CqlType::Int,
        };
        let is_list = column.is_multi_cell()
            && kind != WritetimeKind::MaxWritetime
            && !part.as_ref().is_some_and(CellPart::is_one);
        let returns = if is_list { CqlType::list(single, false) } else { single };
        Ok((CellInfo { kind, column: ColumnRef::of(&column), part, inside, is_list }, returns))
    }
}

/// A part of a user type or a collection.
#[derive(Clone)]
enum Part {
    Field(usize),
    Keys(CellPart),
}

impl Part {
    /// As a part of a column whose cells are told apart.
    fn into_cells(self) -> CellPart {
        match self {
            Part::Field(index) => CellPart::field(index),
            Part::Keys(part) => part,
        }
    }

    /// As a step into a value.
    fn into_step(self, is_map: bool) -> ValueStep {
        match self {
            Part::Field(index) => ValueStep::Field(index),
            Part::Keys(part) => ValueStep::Elements { is_map, part },
        }
    }

    /// As a part of an expression of type `ty`.
    fn of(self, whole: Expr, ty: &CqlType) -> Expr {
        match (whole, self) {
            (Expr::Column(column), part) if column.is_multi_cell => {
                Expr::Part(Box::new(ColumnPart { column, part: part.into_cells() }))
            }
            (Expr::Masked { clear, masked }, part) => Expr::Masked {
                clear: part.clone().of(*clear, ty).into(),
                masked: part.of(*masked, ty).into(),
            },
            (whole, Part::Field(index)) => Expr::Field { of: whole.into(), index },
            (whole, Part::Keys(part)) => Expr::Elements {
                of: whole.into(),
                is_map: matches!(ty, CqlType::Map { .. }),
                is_frozen: !ty.is_multi_cell(),
                part,
            },
        }
    }
}

fn is_field_like(raw: &Raw<'_>) -> bool {
    matches!(raw, Raw::UserType(_))
}

fn cannot_infer(raw: &Raw<'_>) -> CqlError {
    CqlError::invalid(format!(
        "Cannot infer type for term {raw} in selection clause (try using a cast to force a type)"
    ))
}

/// A literal of nothing but constants holds no nulls. One that calls functions or has markers is judged when
/// it is evaluated.
fn refuse_nulls<'e>(
    items: impl Iterator<Item = &'e Expr> + Clone,
    inside: &str,
    place: &Place<'_>,
) -> Result<()> {
    if place.is_term() && items.clone().all(Expr::is_terminal) && items.clone().any(Expr::is_null) {
        bail!("null is not supported inside {inside}");
    }
    Ok(())
}

/// Lists, sets and maps that are written out in terms hold no markers; vectors do, and those in a SELECT
/// clause.
fn refuse_marker(raw: &Raw<'_>, kind: &str, receiver: &Receiver, place: &Place<'_>) -> Result<()> {
    if place.is_term() && raw.has_marker() {
        bail!(
            "Invalid {kind} literal for {}: bind variables are not supported inside collection literals",
            receiver.name
        );
    }
    Ok(())
}

/// The index and the type of a field.
fn field_of(shown: &str, ty: &CqlType, name: &Identifier) -> Result<(usize, CqlType)> {
    let CqlType::Udt { definition, .. } = ty else {
        bail!("Invalid field selection: {shown} of type {} is not a user type", display(ty));
    };
    match definition.fields.iter().enumerate().find(|(_, (field, _))| field == name.as_str()) {
        Some((index, (_, ty))) => Ok((index, ty.clone())),
        None => bail!("{shown} of type {} has no field {name}", display(ty)),
    }
}

/// Whether a collection is a map, the type of its keys and that of what `[key]` gives.
fn keyed(shown: &str, ty: &CqlType, what: &str) -> Result<(bool, CqlType, CqlType)> {
    match ty {
        CqlType::Map { key, value, .. } => Ok((true, key.as_ref().clone(), value.as_ref().clone())),
        CqlType::Set { element, .. } => Ok((false, element.as_ref().clone(), element.as_ref().clone())),
        CqlType::List { .. } => {
            bail!("{what} selection is only allowed on sets and maps, but {shown} is a list")
        }
        other => bail!(
            "Invalid {} selection: {shown} {}of type {} is not a collection",
            what.to_ascii_lowercase(),
            // Cassandra's grammar slips for elements only.
            if what == "Element" { "is " } else { "" },
            display(other)
        ),
    }
}

fn selection_key(shown: &str, is_map: bool, key_type: &CqlType) -> Receiver {
    let kind = if is_map { "key" } else { "value" };
    Receiver::new(format!("{kind}({shown})"), key_type.clone())
}
