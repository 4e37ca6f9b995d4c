-- Each series once, by its last labels.
SELECT sid, kind, {labels}, min(first_day) AS first_day, max(last_day) AS last_day FROM named GROUP BY sid, kind
