"""What is delivered beside the agent: Prometheus rules, Grafana dashboards, generated pages of the documentation.

Made from the catalogues of metrics, conditions and findings; nothing here runs in the agent.
"""
