"""What is usual, learned from many polls: timeouts of clients and queues, arrivals, prefetch, saturation, churn."""
