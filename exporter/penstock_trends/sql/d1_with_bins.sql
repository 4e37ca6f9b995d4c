-- Rows of a day from rows of its hours, by series and life, with their bins.
WITH day AS (
  SELECT sid, inc, start div 86400 * 86400 AS start, {merged},
         array_sort(map_entries(aggregate(collect_list(bins), CAST(map() AS MAP<BIGINT, BIGINT>), (sums, hour) ->
           map_zip_with(sums, hour, (bin, sum, polls) -> coalesce(sum, 0L) + coalesce(polls, 0L))))) AS counted
  FROM h1 WHERE NOT before GROUP BY 1, 2, 3
)
SELECT sid, inc, start, {names}, CASE WHEN size(counted) > 0 THEN map_from_entries(counted) END AS bins FROM day
