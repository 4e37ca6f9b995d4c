-- Messages by day, place, fate and client. Where clients are known, the row without a client has the rest, so that sums
-- count each message once.
WITH daily AS (
  SELECT sid, start div 86400 AS day, sum(messages + gap_messages) AS messages FROM i1 GROUP BY 1, 2
), ends AS (
  SELECT sid, max_by(most_last - hi_messages, t1) AS uncertain FROM d1 GROUP BY 1
), named AS (
  SELECT date_add(DATE '1970-01-01', CAST(day AS INT)) AS day, broker, address, queue, fate, client, messages, uncertain,
         sum(if(client = '', 0, messages)) OVER (PARTITION BY day, broker, address, queue, fate) AS of_clients
  FROM daily JOIN series USING (sid) JOIN ends USING (sid)
)
SELECT day, broker, address, queue, fate, client,
       if(client = '', greatest(messages - of_clients, 0), messages) AS messages,
       uncertain, fate IN ({losses}) AS lost
FROM named
