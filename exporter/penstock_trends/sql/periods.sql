-- Sums over the fleet in some periods: messages that came, that were lost, conditions that began and how long they lasted.
WITH periods AS (
  SELECT * FROM VALUES {rows} AS periods (name, newest, oldest, begin, until)
), came AS (
  SELECT name, sum(added) AS added, sum(hours) AS hours FROM periods JOIN weeks ON back BETWEEN newest AND oldest
  GROUP BY name
), gone AS (
  SELECT name, sum(messages) AS lost
  FROM periods JOIN fates ON lost AND unix_date(day) * 86400 >= begin AND unix_date(day) * 86400 < until GROUP BY name
), clipped AS (
  SELECT name, unix_micros(episodes.begin) / 1e6 >= periods.begin AS began,
         least(unix_micros(end) / 1e6, until) - greatest(unix_micros(episodes.begin) / 1e6, periods.begin) AS seconds
  FROM periods JOIN episodes ON end > timestamp_seconds(periods.begin) AND episodes.begin < timestamp_seconds(until)
  WHERE severity != 'info'
), stood AS (
  SELECT name, count_if(began) AS conditions, sum(seconds) AS seconds FROM clipped GROUP BY name
)
SELECT name, begin, until, added, hours, coalesce(lost, 0) AS lost, coalesce(conditions, 0) AS conditions,
       coalesce(seconds, 0) AS seconds
FROM periods LEFT JOIN came USING (name) LEFT JOIN gone USING (name) LEFT JOIN stood USING (name)
