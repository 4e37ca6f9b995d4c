-- Episodes of conditions from the rows that say enter, severity, hold, leave. What is active is written at the first
-- poll of every hour: an episode without a leave has ended when the broker was polled in a later hour and no row came.
WITH rows AS (
  SELECT DISTINCT broker, address, queue, client, condition, event, severity, stamp,
         coalesce(since, stamp) AS since, coalesce(seen, stamp) AS seen
  FROM condition
), ordered AS (
  SELECT *, lag(event) OVER past AS past_event, lag(stamp) OVER past AS past_stamp
  FROM rows
  WINDOW past AS (PARTITION BY broker, address, queue, client, condition ORDER BY stamp, event = 'enter')
), numbered AS (
  SELECT *, sum(CASE WHEN event = 'leave' THEN 0
                     WHEN past_event IS NULL OR past_event = 'leave' THEN 1
                     WHEN since > past_stamp
                          AND (event = 'enter' OR unix_micros(stamp) - unix_micros(past_stamp) > {unseen} * 1000000)
                     THEN 1 ELSE 0 END) OVER running AS number
  FROM ordered
  WINDOW running AS (PARTITION BY broker, address, queue, client, condition ORDER BY stamp, event = 'enter'
                     ROWS UNBOUNDED PRECEDING)
), spans AS (
  SELECT broker, address, queue, client, condition, number, min_by(since, stamp) AS begin,
         max(CASE WHEN event != 'leave' THEN stamp END) AS last,
         min(CASE WHEN event = 'leave' THEN stamp END) AS left_at,
         min(CASE WHEN event = 'leave' THEN seen END) AS left_seen,
         max(CASE severity WHEN 'critical' THEN 2 WHEN 'warning' THEN 1 ELSE 0 END) AS rank
  FROM numbered WHERE number > 0 GROUP BY 1, 2, 3, 4, 5, 6
), ended AS (
  SELECT *, lead(begin) OVER (PARTITION BY broker, address, queue, client, condition ORDER BY number) AS next_begin,
         greatest(left_seen, last) AS left_last
  FROM spans
), looked AS (
  SELECT broker, max(t1) AS last_poll, array_sort(collect_set(start)) AS hours FROM polls GROUP BY broker
), judged AS (
  SELECT ended.*, last_poll,
         CASE WHEN left_at IS NOT NULL THEN 'leave'
              WHEN next_begin IS NOT NULL THEN 'enter'
              WHEN exists(hours, hour -> hour > unix_seconds(last)) THEN 'missing hold' END AS ended_by
  FROM ended LEFT JOIN looked USING (broker)
)
SELECT broker, address, queue, client, condition, begin,
       CASE WHEN ended_by = 'leave' AND unix_micros(left_at) - unix_micros(left_last) <= {unseen} * 1000000 THEN left_at
            WHEN ended_by = 'leave' THEN left_last
            WHEN ended_by IS NOT NULL THEN last
            ELSE greatest(last, timestamp_seconds(last_poll)) END AS end,
       element_at(array('info', 'warning', 'critical'), rank + 1) AS severity,
       ended_by IS NULL AS open, ended_by,
       ended_by IS NULL OR (ended_by = 'leave' AND unix_micros(left_at) - unix_micros(left_last) <= {unseen} * 1000000)
         AS end_known
FROM judged
