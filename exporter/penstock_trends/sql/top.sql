-- The queues that the report, the forecasts and the gauges are about: the {each} that lead in anything, {most} at most.
WITH placed AS (
  SELECT broker, address, queue, sum(unix_seconds(end) - unix_seconds(begin)) AS seconds
  FROM episodes WHERE severity != 'info' GROUP BY 1, 2, 3
), rated AS (
  SELECT queues.*, seconds, coalesce(evicted, 0) + coalesce(expired, 0) + coalesce(killed, 0) AS lost
  FROM queues LEFT JOIN placed USING (broker, address, queue)
), scores AS (
  SELECT sid, broker, address, queue, queue_kind, stack(8,
           1, lost > 0, lost, 0D,
           2, seconds > 0, double(seconds), 0D,
           3, added > 0, added, 0D,
           4, growth_clear, growth, 0D,
           5, peak > 0, p95, peak,
           6, ring IS NOT NULL, 0D, 0D,
           7, idle_hours >= 336, idle_hours, 0D,
           8, true, 0D, 0D) AS (place, wanted, score, second)
  FROM rated
), ranked AS (
  SELECT *, row_number() OVER (PARTITION BY place ORDER BY score DESC, second DESC, sid) AS rank FROM scores WHERE wanted
)
SELECT sid, broker, address, queue, queue_kind FROM ranked WHERE rank <= {each}
GROUP BY 1, 2, 3, 4, 5 ORDER BY min(place), sid LIMIT {most}
