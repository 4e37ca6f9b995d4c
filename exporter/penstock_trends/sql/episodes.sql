-- Episodes of conditions, from the reports of agents: enter (raised), severity (changed), leave (cleared), and hold
-- (still active), which is written at the first poll of every hour. Two agents may report on the same broker.
WITH reports AS (
  -- A report may be stored twice. Older agents wrote no `since` and no `seen` (when it was last seen to be active).
  SELECT DISTINCT struct(broker, address, queue, client, condition) AS subject, event, severity, stamp,
         coalesce(since, stamp) AS since, coalesce(seen, stamp) AS seen
  FROM condition
), spans AS (
  -- Reports with the same begin are one span, also those of two agents.
  SELECT subject, since, min(stamp) AS first_report, min_by(event, stamp) AS first_event,
         max(stamp) FILTER (WHERE event != 'leave') AS last_active,
         max(stamp) FILTER (WHERE event = 'leave') AS cleared_at,
         max_by(seen, stamp) FILTER (WHERE event = 'leave') AS last_seen,
         max(CASE severity WHEN 'critical' THEN 2 WHEN 'warning' THEN 1 ELSE 0 END) AS rank
  FROM reports GROUP BY subject, since
), pairs AS (
  -- Beside each span the one before it that lasted longest. A span is open unless its last report is a leave.
  SELECT *, max(struct(greatest(cleared_at, last_active) AS until,
                      coalesce(cleared_at < last_active, cleared_at IS NULL) AS open, last_active)) OVER earlier AS past
  FROM spans
  WINDOW earlier AS (PARTITION BY subject ORDER BY first_report, since ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), linked AS (
  -- Both are one episode if they overlap. They also are if the earlier one is open, and the later one says that the
  -- condition was active all the time: by its begin, by a leave without an enter, or by another report soon enough.
  SELECT *, first_report < past.until OR past.open AND (
              since <= past.last_active OR first_event = 'leave'
              OR first_event != 'enter' AND first_report - past.last_active <= INTERVAL '{unseen}' SECOND) AS goes_on
  FROM pairs
), numbered AS (
  SELECT *, count_if(goes_on IS NOT TRUE) OVER begun AS number FROM linked
  WINDOW begun AS (PARTITION BY subject ORDER BY first_report, since ROWS UNBOUNDED PRECEDING)
), episodes AS (
  -- A span of nothing but a leave has no begin: since when its condition was active is not known.
  SELECT subject, number, min(since) FILTER (WHERE last_active IS NOT NULL) AS begin, max(last_active) AS last_active,
         max(cleared_at) AS cleared_at, max_by(last_seen, cleared_at) AS last_seen, max(rank) AS rank
  FROM numbered GROUP BY subject, number HAVING begin IS NOT NULL
), polled AS (
  SELECT broker, max(t1) AS last_poll, max(start) AS last_hour FROM polls GROUP BY broker
), ended AS (
  -- By what it ended: its leave, the next enter, or a later hour of polls without a hold. NULL: it is still active.
  SELECT episodes.*, last_poll, greatest(last_seen, last_active) AS active_until,
         CASE WHEN cleared_at >= last_active THEN 'leave'
              WHEN lead(begin) OVER (PARTITION BY subject ORDER BY number) IS NOT NULL THEN 'enter'
              WHEN last_hour > unix_seconds(last_active) THEN 'missing hold' END AS ended_by
  FROM episodes LEFT JOIN polled ON subject.broker = polled.broker
), judged AS (
  -- A leave says when it ended if the agent saw it active shortly before; after a longer time it says only that it did.
  SELECT *, ended_by IS NULL AS open,
         ended_by = 'leave' AND cleared_at - active_until <= INTERVAL '{unseen}' SECOND AS end_seen
  FROM ended
)
SELECT subject.*, begin, open, ended_by, open OR end_seen AS end_known,
       CASE WHEN end_seen THEN cleared_at
            WHEN ended_by = 'leave' THEN active_until
            WHEN NOT open THEN last_active
            ELSE greatest(last_active, timestamp_seconds(last_poll)) END AS end,
       element_at(array('info', 'warning', 'critical'), rank + 1) AS severity
FROM judged
