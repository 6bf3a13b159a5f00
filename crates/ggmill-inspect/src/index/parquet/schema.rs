//! The schema of a table, and how its rows are grouped.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::Result;
use parquet::schema::types::{Type, TypePtr};

use crate::index::table::{Column, ColumnKind, Table};

/// Rows of a row group, at most.
pub(super) const GROUP_ROWS: usize = 1 << 17;
/// Bytes of the cells of a row group in memory, and of the path of each row: one that has as many
/// is ended.
pub(super) const GROUP_BYTES: usize = 32 << 20;
/// Bytes of the cells and the path of one row, at most: that with which a row group is ended.
pub(super) const ROW_BYTES: usize = 16 << 20;

/// The schema of a table's file.
pub(super) fn schema(table: &Table) -> Result<TypePtr> {
    let fields =
        table.columns.iter().map(|column| field(column).map(Arc::new)).collect::<Result<_>>()?;
    Ok(Arc::new(Type::group_type_builder(table.name).with_fields(fields).build()?))
}

fn field(column: &Column) -> Result<Type> {
    let repetition = if column.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let (physical, logical) = match column.kind {
        ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnKind::Integer => (Physical::INT64, None),
        ColumnKind::Float => (Physical::DOUBLE, None),
        ColumnKind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS))),
        ColumnKind::Integers => {
            // A list by the format's rule: a group that is repeated around the element.
            let element = Type::primitive_type_builder("element", Physical::INT64)
                .with_repetition(Repetition::REQUIRED)
                .build()?;
            let list = Type::group_type_builder("list")
                .with_repetition(Repetition::REPEATED)
                .with_fields(vec![Arc::new(element)])
                .build()?;
            return Type::group_type_builder(column.name)
                .with_repetition(repetition)
                .with_logical_type(Some(LogicalType::List))
                .with_fields(vec![Arc::new(list)])
                .build();
        }
    };
    Type::primitive_type_builder(column.name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()
}
