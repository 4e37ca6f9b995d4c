-- What each counter grew in each hour, with the step from the row before where that is of the same life: a step over
-- rows of another agent's life would count what those have counted. What came in a gap is apart: its hour is unknown.
WITH ordered AS (
  SELECT *, lag(inc) OVER past AS past_inc, lag(t1) OVER past AS past_t1, {past},
         sum(n) OVER (PARTITION BY sid, start) >= expected / 2 AS enough
  FROM h1 WINDOW past AS (PARTITION BY sid ORDER BY t1, inc)
), stepped AS (
  SELECT *, past_inc = inc AND past_t1 >= (start div 86400 - {look_back}) * 86400 AS same,
         t0 - past_t1 > coalesce({gap_polls} * 3600 / nullif(expected, 0), 3600) AS gap
  FROM ordered WHERE NOT before
), grown AS (
  SELECT *, {total} FROM stepped
)
SELECT {kept}, coalesce(enough, true) AS complete, {split} FROM grown
