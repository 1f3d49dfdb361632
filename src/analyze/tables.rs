//! The tabular side of an analysis, on polars: long tables of partial sums are grouped, sorted and
//! joined here. Rows never get this far, only sums over them, so these tables are small.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use polars::prelude::*;

use super::report::{FailureRow, RunReport, Window, WorstWindow};
use super::scan::WindowTally;
use crate::op::OpKind;

/// The name of all kinds together.
pub const ALL: &str = "ALL";

/// Windows that a comparison shows.
const WORST_WINDOWS: u32 = 5;

/// Windows in ascending order, per kind and for [`ALL`].
pub fn windows(
    tallies: &HashMap<(u64, OpKind), WindowTally>,
    window_ns: u64,
) -> Result<BTreeMap<String, Vec<Window>>> {
    let entries: Vec<(&(u64, OpKind), &WindowTally)> = tallies.iter().collect();
    let numbers =
        |of: fn(&WindowTally) -> u64| entries.iter().map(|(_, tally)| of(tally)).collect::<Vec<_>>();
    let long = df!(
        "window" => entries.iter().map(|((window, _), _)| *window).collect::<Vec<_>>(),
        "op" => entries.iter().map(|((_, kind), _)| kind.name()).collect::<Vec<_>>(),
        "ops" => numbers(|tally| tally.ops),
        "ok" => numbers(|tally| tally.ok),
        // Whole numbers below 2^53, which is 104 days of responses per window: exact, in any order.
        "sum" => entries.iter().map(|(_, tally)| tally.response_sum_ns as f64).collect::<Vec<_>>(),
        "max" => numbers(|tally| tally.response_max_ns),
    )?;
    let long = long.lazy();
    let together = long.clone().with_column(lit(ALL).alias("op"));
    let table = concat([long, together], UnionArgs::default())?
        .group_by([col("op"), col("window")])
        .agg([col("ops").sum(), col("ok").sum(), col("sum").sum(), col("max").max()])
        .with_column((col("sum") / col("ok").cast(DataType::Float64)).alias("mean"))
        .sort(["op", "window"], SortMultipleOptions::default())
        .collect()?;
    let mut by_op: BTreeMap<String, Vec<Window>> = BTreeMap::new();
    let (op, window) = (table.column("op")?.str()?, table.column("window")?.u64()?);
    let (ops, ok) = (table.column("ops")?.u64()?, table.column("ok")?.u64()?);
    let (mean, max) = (table.column("mean")?.f64()?, table.column("max")?.u64()?);
    for row in 0..table.height() {
        let (ops, ok) = (ops.get(row).unwrap_or(0), ok.get(row).unwrap_or(0));
        by_op.entry(op.get(row).unwrap_or_default().to_owned()).or_default().push(Window {
            start_ns: window.get(row).unwrap_or(0) * window_ns,
            ops,
            ok,
            failed: ops - ok,
            response_mean_ns: mean.get(row).filter(|_| ok > 0).map(|mean| mean.round() as u64),
            response_max_ns: max.get(row).filter(|_| ok > 0),
            length_ns: window_ns,
            ..Window::default()
        });
    }
    Ok(by_op)
}

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
