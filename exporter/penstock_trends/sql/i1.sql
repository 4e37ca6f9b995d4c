-- What each counter grew in each hour, with the step from when it was known last where that is of the same life: a step
-- over rows of another agent's life would count what those have counted. What came in a gap is apart: its hour is
-- unknown. A gap is also where there were polls, and the counter was not known at them.
WITH ordered AS (
  SELECT *, {past},
         sum(n) OVER (PARTITION BY sid, start) >= expected / 2 AS enough
  FROM h1
  WINDOW past AS (PARTITION BY sid ORDER BY t1, inc ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), stepped AS (
  SELECT *, (start div 86400 - {look_back}) * 86400 AS earliest,
         coalesce({gap_polls} * 3600 / nullif(expected, 0), 3600) AS longest_step
  FROM ordered WHERE NOT before
), joined AS (
  SELECT *, {same} FROM stepped
), grown AS (
  SELECT *, {total} FROM joined
)
SELECT {kept}, coalesce(enough, true) AS complete, {split} FROM grown
