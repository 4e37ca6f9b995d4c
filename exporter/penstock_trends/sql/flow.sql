-- Availability of flow: the share of the hours in which a queue was seen, in the last weeks, without the time in which a
-- condition was active that keeps its messages from getting on. What overlaps counts once.
WITH seen AS (
  SELECT broker, address, queue, 3600 * sum(hours) AS seen FROM weeks WHERE back < {weeks} GROUP BY 1, 2, 3
), held AS (
  SELECT seen.broker, seen.address, seen.queue, greatest(unix_micros(begin) / 1e6, {begin}) AS since,
         least(unix_micros(end) / 1e6, {until}) AS until
  FROM episodes JOIN seen ON episodes.broker = seen.broker AND episodes.address = seen.address
                         AND episodes.queue IN ('', seen.queue)
  WHERE condition IN ({conditions}) AND severity != 'info'
    AND end > timestamp_seconds({begin}) AND begin < timestamp_seconds({until})
), reached AS (
  SELECT *, max(until) OVER (PARTITION BY broker, address, queue ORDER BY since, until
                             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS past
  FROM held
), lost AS (
  SELECT broker, address, queue, sum(greatest(until - greatest(since, coalesce(past, since)), 0)) AS seconds
  FROM reached GROUP BY 1, 2, 3
), shares AS (
  SELECT seen.*, least(coalesce(seconds, 0), seen) AS without_flow
  FROM seen LEFT JOIN lost USING (broker, address, queue)
)
SELECT *, 1 - without_flow / seen AS availability FROM shares WHERE seen > 0
