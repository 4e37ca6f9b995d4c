-- What is known of the consumers of each client, from their days. n counts the polls of each of them.
SELECT sid, sum(hours) AS hours, sum(n) / (max(expected) / 24 * sum(hours)) AS consumers,
       sum(buffered_sum) / sum(n) AS held, max(buffered_max) AS most_held, max(buffered_bytes_max) AS most_bytes,
       sum(buffered_bytes_sum) / nullif(sum(buffered_sum), 0) AS size, sum(empty_sum) / sum(n) AS empty_share,
       sum(settled_sum) AS settled, sum(settled_sum) / nullif(sum(steps_sum) * 86400 / max(expected), 0) AS mean_pace,
       max(settled_max) * max(expected) / 86400 AS pace, max(flow_limit_max) AS `limit`
FROM d1 GROUP BY sid
