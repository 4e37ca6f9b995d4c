-- Episodes that are more than a notice, summed up by client, the longest in all first.
SELECT broker, queue, client, condition, count(*) AS count, percentile(seconds, 0.5) AS median,
       count_if(NOT end_known) AS unknown, max(seconds) AS longest, sum(seconds) AS total,
       max(unix_micros(begin)) / 1e6 AS last
FROM (SELECT *, (unix_micros(end) - unix_micros(begin)) / 1e6 AS seconds FROM episodes WHERE severity != 'info')
GROUP BY 1, 2, 3, 4 ORDER BY total DESC, broker, queue, client, condition LIMIT {most}
