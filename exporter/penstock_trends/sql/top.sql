-- The queues that the report, the forecasts and the gauges are about: the {each} that lead in anything, {most} at most.
WITH placed AS (
  SELECT broker, address, queue, sum(unix_seconds(end) - unix_seconds(begin)) AS seconds
  FROM episodes WHERE severity != 'info' GROUP BY 1, 2, 3
), rated AS (
  SELECT queues.*, seconds FROM queues LEFT JOIN placed USING (broker, address, queue)
), leading AS (
  (SELECT sid, 1 AS place FROM rated WHERE evicted > 0 OR expired > 0 OR killed > 0
   ORDER BY coalesce(evicted, 0) + coalesce(expired, 0) + coalesce(killed, 0) DESC, sid LIMIT {each})
  UNION ALL (SELECT sid, 2 FROM rated WHERE seconds > 0 ORDER BY seconds DESC, sid LIMIT {each})
  UNION ALL (SELECT sid, 3 FROM rated WHERE added > 0 ORDER BY added DESC, sid LIMIT {each})
  UNION ALL (SELECT sid, 4 FROM rated WHERE growth_clear ORDER BY growth DESC, sid LIMIT {each})
  UNION ALL (SELECT sid, 5 FROM rated WHERE peak > 0 ORDER BY p95 DESC, peak DESC, sid LIMIT {each})
  UNION ALL (SELECT sid, 6 FROM rated WHERE ring IS NOT NULL ORDER BY sid LIMIT {each})
  UNION ALL (SELECT sid, 7 FROM rated WHERE idle_hours >= 336 ORDER BY idle_hours DESC, sid LIMIT {each})
  UNION ALL (SELECT sid, 8 FROM rated ORDER BY sid LIMIT {each})
)
SELECT sid FROM leading GROUP BY sid ORDER BY min(place), sid LIMIT {most}
