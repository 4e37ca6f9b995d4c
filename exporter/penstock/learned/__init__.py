"""What is usual, learned from many polls: timeouts, absences, prefetch, saturation, churn; what this hour is like."""
