-- Rows of a day from rows of its hours, by series and life.
SELECT sid, inc, start div 86400 * 86400 AS start, {merged} FROM h1 WHERE NOT before GROUP BY 1, 2, 3
