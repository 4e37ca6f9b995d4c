-- Each series once, by its last labels. dt: the day of those that are not of the last run.
SELECT sid, kind, {labels}, min(coalesce(first_day, dt)) AS first_day, max(coalesce(last_day, dt)) AS last_day
FROM named GROUP BY sid, kind
