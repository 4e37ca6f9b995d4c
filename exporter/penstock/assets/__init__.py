"""What is delivered beside the agent: Prometheus rules, Grafana dashboards, generated pages of the documentation."""
