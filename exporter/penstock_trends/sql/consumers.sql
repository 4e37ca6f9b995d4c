-- What is known of the consumers of each client, from their days. n counts the polls of each of them. most_settled: the
-- most that one of them settled between two polls, in messages a second.
SELECT sid, sum(hours) AS hours, sum(n) / sum(expected / 24 * hours) AS consumers,
       sum(buffered_sum) / sum(n) AS held, max(buffered_max) AS most_held, max(buffered_bytes_max) AS most_bytes,
       sum(empty_sum) / sum(n) AS empty_share, sum(settled_sum) AS settled,
       max(settled_max * expected) / 86400 AS most_settled
FROM d1 GROUP BY sid
