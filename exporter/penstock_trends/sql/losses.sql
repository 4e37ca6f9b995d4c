-- Where messages went in all of the window, losses first.
WITH summed AS (
  SELECT broker, address, queue, fate, client, lost, sum(messages) AS own, max(uncertain) AS uncertain,
         unix_seconds(CAST(min(day) AS TIMESTAMP)) AS first
  FROM fates GROUP BY 1, 2, 3, 4, 5, 6
)
SELECT broker, address, queue, fate, client, uncertain, first,
       if(client = '', sum(own) OVER (PARTITION BY broker, address, queue, fate), own) AS messages
FROM summed ORDER BY lost DESC, messages DESC, broker, address, queue, fate, client LIMIT {most}
