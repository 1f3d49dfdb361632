//! How every SQL database gets or verifies the tables of a statement trace: the same questions in the same
//! order, so that the same refusals follow. A driver answers them on its connection.

use crate::statement::{Column, Schema, Table};

use super::statements::Family;
use super::{Preparation, ServerInfo, TargetError};

/// What the preparation of tables asks of a connection.
pub(super) trait Tables {
    /// Removes a table, if it is there.
    async fn drop_table(&mut self, name: &str) -> Result<(), TargetError>;
    /// Names of a table's columns; `None` if there is no such table.
    async fn columns(&mut self, name: &str) -> Result<Option<Vec<String>>, TargetError>;
    /// Executes the statement that makes a table.
    async fn create(&mut self, text: &str) -> Result<(), TargetError>;
    /// Is there a row in it?
    async fn has_rows(&mut self, name: &str) -> Result<bool, TargetError>;
}

/// Creates or verifies the tables of a statement trace; what was sent is noted in `info`.
pub(super) async fn prepare_tables(
    tables: &mut impl Tables,
    family: Family,
    schema: &Schema,
    preparation: Preparation,
    info: &mut ServerInfo,
) -> Result<(), TargetError> {
    for table in &schema.tables {
        let name = &table.name;
        if preparation == Preparation::DropAndCreate {
            tables.drop_table(name).await?;
        }
        let columns = tables.columns(name).await?;
        if columns.is_none() && preparation != Preparation::UseExisting {
            let text = family.create_table(table);
            tables.create(&text).await?;
            info.statements.insert(format!("CREATE {name}"), text);
            continue;
        }
        if let Some(lacking) = missing_column(table, &columns.unwrap_or_default(), &info.address) {
            return Err(lacking);
        }
        if preparation == Preparation::CreateIfEmpty && tables.has_rows(name).await? {
            return Err(TargetError::NotEmpty { table: name.clone(), address: info.address.clone() });
        }
    }
    Ok(())
}

/// The table of a schema that lacks something, in words.
fn missing_column(table: &Table, existing: &[String], address: &str) -> Option<TargetError> {
    let lacks = |column: &&Column| !existing.iter().any(|known| known.eq_ignore_ascii_case(&column.name));
    let column = table.columns.iter().find(lacks)?;
    let name = &table.name;
    Some(TargetError::Unusable(if existing.is_empty() {
        format!("there is no table {name} at {address}; run the load phase first (--phase load)")
    } else {
        format!(
            "table {name} at {address} has no column {} (it has {}); load it again with --drop",
            column.name,
            existing.join(", ")
        )
    }))
}
