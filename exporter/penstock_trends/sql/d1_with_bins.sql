-- Rows of a day from rows of its hours, by series and life, with their bins.
WITH day AS (
  SELECT sid, inc, start div 86400 * 86400 AS start, {merged} FROM h1 WHERE NOT before GROUP BY 1, 2, 3
), counted AS (
  SELECT sid, inc, start div 86400 * 86400 AS start, bin, sum(polls) AS polls
  FROM h1 LATERAL VIEW explode(bins) AS bin, polls WHERE NOT before GROUP BY 1, 2, 3, 4
), collected AS (
  SELECT sid, inc, start, map_from_entries(array_sort(collect_list(struct(bin, polls)))) AS bins
  FROM counted GROUP BY 1, 2, 3
)
SELECT * FROM day LEFT JOIN collected USING (sid, inc, start)
