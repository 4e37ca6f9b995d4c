-- How much each counter grew in each hour. c is the name of a counter; a line with it is repeated for each.
WITH readings AS (
  -- The last known value of each counter in each hour, its time, and the life of the broker (inc) in which it counts.
  SELECT *,
         if(hi_{c} IS NULL, NULL, struct(inc, coalesce(last_{c}, t1) AS time, hi_{c} AS value)) AS reading_{c},
         sum(n) OVER (PARTITION BY sid, start) >= expected / 2 AS enough
  FROM h1
), pairs AS (
  -- Beside it the reading before: not of the row before, where the counter was unknown in that.
  SELECT *,
         last(reading_{c}, true) OVER earlier AS past_{c},
         coalesce({gap_polls} * 3600 / nullif(expected, 0), 3600) AS longest_step FROM readings
  WINDOW earlier AS (PARTITION BY sid ORDER BY t1, inc ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), hours AS (
  SELECT *,
         -- Two readings are compared within one life only: after a restart a counter begins at 0, and the rows of a
         -- life that another agent saw have steps of their own.
         coalesce(past_{c}.inc = inc AND past_{c}.time >= (start div 86400 - {look_back}) * 86400, false) AS joins_{c},
         -- All growth since the reading before. What is unknown stays NULL: `greatest` alone would make 0 of it.
         if(hi_{c} IS NULL, NULL, greatest(hi_{c} - if(joins_{c}, past_{c}.value, lo_{c}), 0)) AS total_{c},
         -- After a gap the hour has only the growth between its own polls: when the rest came is unknown.
         joins_{c} AND coalesce(first_{c}, t0) - past_{c}.time > longest_step AS after_gap_{c},
         if(after_gap_{c}, least(hi_{c} - lo_{c}, total_{c}), total_{c}) AS in_hour_{c},
         coalesce(enough, true) AS complete
  FROM pairs WHERE NOT before -- rows of the days before have given their readings
)
SELECT
       in_hour_{c} AS {c}, total_{c} - in_hour_{c} AS gap_{c},
       {kept}, complete FROM hours
