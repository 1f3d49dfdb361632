//! The tabular side of an analysis, on polars: long tables of partial sums are grouped, sorted and
//! joined here. Rows never get this far, only sums over them, so these tables are small.

use anyhow::Result;
use polars::prelude::*;

use super::report::{FailureRow, RunReport, WorstWindow};

/// Windows that a comparison shows.
const WORST_WINDOWS: u32 = 5;

/// Sorts failures by kind, then the most frequent first.
pub fn failures(rows: Vec<FailureRow>) -> Result<Vec<FailureRow>> {
    let texts = |of: fn(&FailureRow) -> &str| rows.iter().map(|row| of(row).to_owned()).collect::<Vec<_>>();
    let table = df!(
        "op" => texts(|row| &row.op),
        "status" => texts(|row| &row.status),
        "code" => texts(|row| &row.code),
        "count" => rows.iter().map(|row| row.count).collect::<Vec<_>>(),
    )?
    .lazy()
    .group_by([col("op"), col("status"), col("code")])
    .agg([col("count").sum()])
    .sort(
        ["op", "count", "status", "code"],
        SortMultipleOptions::default().with_order_descending_multi([false, true, false, false]),
    )
    .collect()?;
    let text = |name: &str, row: usize| -> Result<String> {
        Ok(table.column(name)?.str()?.get(row).unwrap_or_default().to_owned())
    };
    let counts = table.column("count")?.u64()?;
    (0..table.height())
        .map(|row| {
            let count = counts.get(row).unwrap_or(0);
            Ok(FailureRow {
                op: text("op", row)?,
                status: text("status", row)?,
                code: text("code", row)?,
                count,
            })
        })
        .collect()
}

/// Joins the windows of several runs and keeps those with the longest responses.
pub fn worst_windows(runs: &[&RunReport]) -> Result<Vec<WorstWindow>> {
    let max = |run: usize| format!("max {run}");
    let failed = |run: usize| format!("failed {run}");
    let mut tables = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let windows = &run.all.windows;
        let table = df!(
            "start" => windows.iter().map(|window| window.start_ns).collect::<Vec<_>>(),
            max(index) => windows.iter().map(|window| window.response_max_ns).collect::<Vec<_>>(),
            failed(index) => windows.iter().map(|window| window.failed).collect::<Vec<_>>(),
        )?;
        tables.push(table.lazy());
    }
    let starts: Vec<LazyFrame> = tables.iter().map(|table| table.clone().select([col("start")])).collect();
    let mut joined = concat(starts, UnionArgs::default())?.group_by([col("start")]).agg(Vec::<Expr>::new());
    for table in tables {
        joined = joined.join(table, [col("start")], [col("start")], JoinArgs::new(JoinType::Left));
    }
    let table = joined
        .with_column(
            concat_list((0..runs.len()).map(|run| col(max(run))).collect::<Vec<_>>())?
                .list()
                .max()
                .alias("worst"),
        )
        .sort(
            ["worst", "start"],
            SortMultipleOptions::default().with_order_descending_multi([true, false]).with_nulls_last(true),
        )
        .limit(WORST_WINDOWS)
        .collect()?;
    let starts = table.column("start")?.u64()?;
    let value =
        |name: String, row: usize| -> Result<Option<u64>> { Ok(table.column(&name)?.u64()?.get(row)) };
    (0..table.height())
        .map(|row| {
            Ok(WorstWindow {
                start_ns: starts.get(row).unwrap_or(0),
                response_max_ns: (0..runs.len()).map(|run| value(max(run), row)).collect::<Result<_>>()?,
                failed: (0..runs.len()).map(|run| value(failed(run), row)).collect::<Result<_>>()?,
            })
        })
        .collect()
}
