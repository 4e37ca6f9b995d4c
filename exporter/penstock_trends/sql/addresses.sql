-- What is known of each address, from its days.
SELECT sid, min(t0) AS first, max(t1) AS last, sum(messages_sum) / sum(n) AS messages, max(messages_max) AS messages_peak,
       max_by(limit_messages_max, t1) AS limit_messages, sum(memory_bytes_sum) / sum(n) AS memory_bytes,
       max(memory_bytes_max) AS memory_bytes_peak, max_by(limit_bytes_max, t1) AS limit_bytes, max(paging_max) AS paging
FROM d1 GROUP BY sid
