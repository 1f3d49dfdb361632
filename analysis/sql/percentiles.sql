-- The percentiles of a result, computed independently of ycsb-trace: a test compares every number.
--
--   SET VARIABLE result = 'results/NAME.parquet';
--   SET VARIABLE percentiles = ['50', '99', '99.9'];
--
-- Definition (nearest rank): of n ops sorted by latency, the percentile q is number ceil(q / 100 * n),
-- counted from 1. Two populations:
--   ok    ops that ended OK
--   all   every op; one that did not end OK was never answered: it sorts after all others (NULL here).
--         Its lag is known if it was started.
-- One row per op, series, population and percentile; value_ns is NULL where the op of that rank was
-- never answered. quantile_disc is not used: it leaves NULLs out, and takes q as a floating-point
-- number, while ceil(0.999 * 1000) must be 999.

WITH results AS (
    SELECT op,
           status = 'OK'           AS ok,
           end_ns - intended_ns    AS response,
           end_ns - start_ns       AS service,
           start_ns - intended_ns  AS lag
    FROM read_parquet(getvariable('result'))
),
ops AS (
    SELECT * FROM results
    UNION ALL
    SELECT * REPLACE ('ALL' AS op) FROM results
),
latencies AS (
    SELECT op, 'response' AS series, 'ok' AS population, response AS ns FROM ops WHERE ok
    UNION ALL
    SELECT op, 'response', 'all', CASE WHEN ok THEN response END FROM ops
    UNION ALL
    SELECT op, 'service', 'ok', service FROM ops WHERE ok
    UNION ALL
    SELECT op, 'service', 'all', CASE WHEN ok THEN service END FROM ops
    UNION ALL
    SELECT op, 'lag', 'ok', lag FROM ops WHERE ok
    UNION ALL
    SELECT op, 'lag', 'all', lag FROM ops
),
ranked AS (
    SELECT op, series, population, ns,
           row_number() OVER (PARTITION BY op, series, population ORDER BY ns ASC NULLS LAST) AS rank,
           count(*)     OVER (PARTITION BY op, series, population)                            AS count
    FROM latencies
),
percentiles AS (
    -- As whole numbers of 10^-12 percent: exact.
    SELECT percentile,
           CAST(CAST(percentile AS DECIMAL(15, 12)) * 1000000000000 AS HUGEINT) AS picopercent
    FROM (SELECT unnest(getvariable('percentiles')) AS percentile)
)
SELECT op, series, population, percentile, count, ns AS value_ns
FROM ranked
JOIN percentiles
  ON rank = greatest(1, (picopercent * count + 99999999999999) // 100000000000000)
ORDER BY op, series, population, picopercent;
