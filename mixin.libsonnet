// For users of monitoring mixins: the same rules and dashboards as in alerts/ and dashboards/.
{
  prometheusAlerts+:: std.parseYaml(importstr 'alerts/alerts.yaml'),
  prometheusRules+:: std.parseYaml(importstr 'alerts/recording.yaml'),
  grafanaDashboards+:: {
    'penstock-fleet.json': import 'dashboards/penstock-fleet.json',
    'penstock-broker.json': import 'dashboards/penstock-broker.json',
    'penstock-queue.json': import 'dashboards/penstock-queue.json',
    'penstock-clients.json': import 'dashboards/penstock-clients.json',
    'penstock-rings.json': import 'dashboards/penstock-rings.json',
    'penstock-capacity.json': import 'dashboards/penstock-capacity.json',
    'penstock-messages.json': import 'dashboards/penstock-messages.json',
    'penstock-agent.json': import 'dashboards/penstock-agent.json',
  },
}
