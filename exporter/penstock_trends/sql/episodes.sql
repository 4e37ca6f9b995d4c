-- Episodes of conditions from the rows that say enter, severity, hold, leave. What is active is written at the first
-- poll of every hour: an episode without a leave has ended when the broker was polled in a later hour and no row came.
-- Rows of the same begin are one span, also of two agents; spans that were reported while another was are one episode.
WITH rows AS (
  SELECT DISTINCT broker, address, queue, client, condition, event, severity, stamp,
         coalesce(since, stamp) AS since, coalesce(seen, stamp) AS seen
  FROM condition
), grouped AS (
  SELECT broker, address, queue, client, condition, since, min(stamp) AS first, min_by(event, stamp) AS first_event,
         max(CASE WHEN event != 'leave' THEN stamp END) AS last,
         max(CASE WHEN event = 'leave' THEN stamp END) AS left_at,
         max_by(seen, CASE WHEN event = 'leave' THEN stamp END) AS left_seen,
         max(CASE severity WHEN 'critical' THEN 2 WHEN 'warning' THEN 1 ELSE 0 END) AS rank
  FROM rows GROUP BY 1, 2, 3, 4, 5, 6
), spans AS (
  SELECT broker, address, queue, client, condition, since, first, first_event, last, left_seen, rank,
         CASE WHEN last IS NULL OR left_at >= last THEN left_at END AS left_at
  FROM grouped
), ordered AS (
  SELECT *, max(struct(coalesce(left_at, last) AS until, left_at IS NULL AS open, last)) OVER before AS past FROM spans
  WINDOW before AS (PARTITION BY broker, address, queue, client, condition
                    ORDER BY first, since ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), numbered AS (
  SELECT *, sum(CASE WHEN first < past.until
                          OR past.open AND (since <= past.last OR first_event = 'leave' OR first_event != 'enter'
                             AND unix_micros(first) - unix_micros(past.last) <= {unseen} * 1000000)
                     THEN 0 ELSE 1 END) OVER running AS number
  FROM ordered
  WINDOW running AS (PARTITION BY broker, address, queue, client, condition
                     ORDER BY first, since ROWS UNBOUNDED PRECEDING)
), told AS (
  SELECT broker, address, queue, client, condition, number, min(CASE WHEN last IS NOT NULL THEN since END) AS begin,
         max(last) AS last, max(left_at) AS left_at, max_by(left_seen, left_at) AS left_seen, max(rank) AS rank
  FROM numbered GROUP BY 1, 2, 3, 4, 5, 6
), ended AS (
  SELECT broker, address, queue, client, condition, number, begin, last, rank,
         CASE WHEN left_at >= last THEN left_at END AS left_at, greatest(left_seen, last) AS left_last,
         lead(begin) OVER (PARTITION BY broker, address, queue, client, condition ORDER BY number) AS next_begin
  FROM told WHERE begin IS NOT NULL
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
