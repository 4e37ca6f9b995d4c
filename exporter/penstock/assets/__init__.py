"""What is delivered beside the agent: Prometheus rules and Grafana dashboards, made from the catalogue's names."""
