//! Aggregates: what they keep while rows go by.
//!
//! Sums stay in the type of their argument and overflow as Java's arithmetic does, silently. Averages of
//! integers are cut, those of decimals rounded half to even with each row. Without rows a sum and an average
//! are zero, a minimum null.

use super::decimal;
use super::number::Number;
use crate::analysis::Expr;
use crate::error::Result;
use bytes::Bytes;
use model::types::CqlType;
use num_bigint::BigInt;

/// Which aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    /// Rows.
    CountRows,
    /// Values that are not null.
    Count,
    Min,
    Max,
    Sum,
    Avg,
}

impl Aggregate {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Aggregate::CountRows | Aggregate::Count => "count",
            Aggregate::Min => "min",
            Aggregate::Max => "max",
            Aggregate::Sum => "sum",
            Aggregate::Avg => "avg",
        }
    }
}

/// One aggregate of a SELECT clause.
#[derive(Clone, Debug)]
pub(crate) struct AggregateCall {
    pub(crate) op: Aggregate,
    pub(crate) argument_types: Vec<CqlType>,
    pub(crate) arguments: Vec<Expr>,
}

/// What an aggregate knows of the rows so far.
#[derive(Clone, Debug)]
pub(crate) struct State {
    op: Aggregate,
    ty: CqlType,
    count: i64,
    /// Minimum or maximum.
    best: Option<Bytes>,
    sum: Sum,
}

#[derive(Clone, Debug)]
enum Sum {
    None,
    Integer(i128),
    Big(BigInt),
    Decimal(BigInt, i32),
    /// Kahan's summation: the sum, its compensation, and the plain sum for infinities.
    Floating {
        sum: f64,
        compensation: f64,
        plain: f64,
    },
}

impl State {
    pub(crate) fn new(op: &Aggregate, types: &[CqlType]) -> State {
        let ty = types.first().cloned().unwrap_or(CqlType::Blob);
        let sum = match (op, &ty) {
            (Aggregate::Sum | Aggregate::Avg, CqlType::Varint) => Sum::Big(BigInt::ZERO),
            (Aggregate::Sum | Aggregate::Avg, CqlType::Decimal) => Sum::Decimal(BigInt::ZERO, 0),
            (Aggregate::Sum | Aggregate::Avg, CqlType::Float | CqlType::Double) => {
                Sum::Floating { sum: 0.0, compensation: 0.0, plain: 0.0 }
            }
            (Aggregate::Sum | Aggregate::Avg, _) => Sum::Integer(0),
            _ => Sum::None,
        };
        State { op: *op, ty, count: 0, best: None, sum }
    }

    /// Takes in the arguments of one row.
    pub(crate) fn add(&mut self, arguments: &[Option<Bytes>]) -> Result<()> {
        if self.op == Aggregate::CountRows {
            self.count += 1;
            return Ok(());
        }
        let Some(Some(value)) = arguments.first() else { return Ok(()) };
        match self.op {
            Aggregate::CountRows | Aggregate::Count => self.count += 1,
            Aggregate::Min | Aggregate::Max => {
                let better = match &self.best {
                    None => true,
                    Some(best) if self.op == Aggregate::Min => self.ty.compare(value, best).is_lt(),
                    Some(best) => self.ty.compare(value, best).is_gt(),
                };
                if better {
                    self.best = Some(value.clone());
                }
            }
            Aggregate::Sum | Aggregate::Avg => {
                if let Some(number) = Number::decode(&self.ty, value) {
                    self.count += 1;
                    self.accumulate(number)?;
                }
            }
        }
        Ok(())
    }

    fn accumulate(&mut self, number: Number) -> Result<()> {
        match &mut self.sum {
            Sum::None => {}
            Sum::Integer(sum) => *sum = sum.wrapping_add(i128::from(number.to_i64())),
            Sum::Big(sum) => *sum += number.to_big(),
            Sum::Decimal(sum, scale) => {
                if let Number::Decimal(unscaled, other) = number {
                    let mut step = (unscaled, other);
                    if self.op == Aggregate::Avg {
                        // The average moves by its part of each difference, rounded to the scale of that: as
                        // in Cassandra the result depends on the order of the rows.
                        step = decimal::subtract((&step.0, step.1), (sum, *scale));
                        step.0 = decimal::divide_half_even(&step.0, &BigInt::from(self.count));
                    }
                    (*sum, *scale) = decimal::add((sum, *scale), (&step.0, step.1));
                }
            }
            Sum::Floating { sum, compensation, plain } => {
                let v = number.to_f64();
                *plain += v;
                let y = v - *compensation;
                let total = *sum + y;
                *compensation = (total - *sum) - y;
                *sum = total;
            }
        }
        Ok(())
    }

    /// The value for the rows so far.
    pub(crate) fn result(&self) -> Result<Option<Bytes>> {
        let is_avg = self.op == Aggregate::Avg;
        let count = self.count.max(1);
        let number = match (&self.op, &self.sum) {
            (Aggregate::CountRows | Aggregate::Count, _) => {
                return Ok(Some(Bytes::copy_from_slice(&self.count.to_be_bytes())));
            }
            (Aggregate::Min | Aggregate::Max, _) => return Ok(self.best.clone()),
            (_, Sum::None) => return Ok(None),
            (_, Sum::Integer(sum)) if is_avg => Number::Integer((sum / i128::from(count)) as i64),
            (_, Sum::Integer(sum)) => Number::Integer(*sum as i64),
            (_, Sum::Big(sum)) if is_avg => Number::Big(sum / count),
            (_, Sum::Big(sum)) => Number::Big(sum.clone()),
            (_, Sum::Decimal(sum, scale)) => Number::Decimal(sum.clone(), *scale),
            (_, Sum::Floating { sum, compensation: _, plain }) => {
                let total = if sum.is_nan() && plain.is_infinite() { *plain } else { *sum };
                Number::Double(if is_avg { total / count as f64 } else { total })
            }
        };
        Ok(number.encode(&self.ty))
    }
}
