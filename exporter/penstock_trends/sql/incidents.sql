-- Incidents that are more than a notice, the longest first: their root, begin and end, and the most victims they had.
WITH victims AS (
  SELECT broker, client, max(CAST(get_json_object(evidence, '$.victims') AS DOUBLE)) AS victims
  FROM condition WHERE condition LIKE 'incident %' GROUP BY 1, 2
)
SELECT episodes.broker, client AS id, replace(substring(condition, 10), '_', ' ') AS kind, address AS root, severity,
       unix_micros(begin) / 1e6 AS begin, unix_micros(end) / 1e6 AS end, open, end_known, victims,
       (unix_micros(end) - unix_micros(begin)) / 1e6 AS seconds
FROM of_all AS episodes LEFT JOIN victims USING (broker, client)
WHERE condition LIKE 'incident %' AND severity != 'info'
ORDER BY seconds DESC, broker, id LIMIT {most}
