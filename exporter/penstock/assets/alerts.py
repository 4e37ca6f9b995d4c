"""The alerts. One alert a cause: a warning, and the same name as critical where the queue has come to a stop."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from penstock.assets.thresholds import BROKERS_OWN
from penstock.assets.thresholds import THRESHOLDS as T
from penstock.assets.wording import IN_ADDRESS, IN_QUEUE, age, described, present
from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import Alert as ConditionAlert
from penstock.conditions.condition import Condition, Scope
from penstock.series.labels import OTHER

Severity = Literal["critical", "warning", "info"]

QUEUE = ("broker", "address", "queue")
ADDRESS = ("broker", "address")
BROKER = ("broker",)

_STOPPED = " Nothing is settled meanwhile."
_DASHBOARDS = {Scope.BROKER: "penstock-broker", Scope.QUEUE: "penstock-queue", Scope.CLIENT: "penstock-clients"}


@dataclass(frozen=True, slots=True)
class AlertRule:
    """
    An alerting rule.

    wait, keep: `for` and `keep_firing_for`. dashboard: uid of the one that shows it; labels: what it is opened with.
    runbook: the file of docs/runbooks with a section of the alert's name.
    """

    name: str
    severity: Severity
    expr: str
    summary: str
    description: str
    dashboard: str
    labels: tuple[str, ...]
    runbook: str
    wait: str = T.judged_for
    keep: str = T.keep_firing


def _of_conditions(*runbooks: str) -> Iterator[AlertRule]:
    """The alerts of the conditions whose runbook is one of these."""
    for condition in CONDITIONS.values():
        if condition.alert is not None and condition.alert.runbook in runbooks:
            yield from _of_condition(condition, condition.alert)


def _of_condition(condition: Condition, alert: ConditionAlert) -> Iterator[AlertRule]:
    """A warning, and the same name as critical where the condition can bring its queue to a stop."""
    dashboard, labels = alert.dashboard or _DASHBOARDS[condition.scope], _labels(condition, alert)
    levels: tuple[tuple[Severity, int], ...] = (("warning", T.warning), ("critical", T.critical))
    for severity, level in levels if alert.critical and condition.may_be_critical else levels[:1]:
        yield AlertRule(
            alert.name,
            severity,
            _expression(condition, alert, level),
            condition.title,
            described(alert.description) + (_STOPPED if severity == "critical" else ""),
            dashboard,
            labels,
            alert.runbook,
        )


def _labels(condition: Condition, alert: ConditionAlert) -> tuple[str, ...]:
    """What its dashboard is opened with."""
    if condition.scope is Scope.BROKER:
        return BROKER
    if condition.scope is Scope.CLIENT:
        return (*QUEUE, "client")
    return ADDRESS if alert.runbook == "brokers" else QUEUE


def _expression(condition: Condition, alert: ConditionAlert, level: int) -> str:
    """One alert an address where the condition is the whole address's; how bad a client's is, its queue says."""
    cause = f'{{cause="{condition.name}"}}'
    if condition.scope is Scope.BROKER:
        return f"mq_broker_unhealthy{cause} >= {level}"
    if condition.scope is Scope.CLIENT:
        clients = f"mq_client_unhealthy_consumers{cause} >= 1"
        queue = f"on (job, instance, broker, address, queue, cause) mq_queue_unhealthy >= {level}"
        return clients if level == T.warning else f"{clients} and {queue}"
    if condition.of_address and alert.runbook == "brokers":
        return f"mq_address_unhealthy{cause} >= {level}"
    return f"mq_queue_unhealthy{cause} >= {level}"


def _of_queues() -> Iterator[AlertRule]:
    ready = present("mq_queue_ready_messages")
    consumers = present("mq_queue_consumers")
    yield AlertRule(
        "PenstockDrainTooLong",
        "warning",
        "mq_queue_drain_seconds > mq_queue_drain_target_seconds",
        "A backlog takes longer to work off than the configuration allows.",
        f"{IN_QUEUE} needs {{{{ $value | humanizeDuration }}}} to drain, wanted are"
        f" {present('mq_queue_drain_target_seconds')}; {ready} messages wait, {consumers} consumers.",
        "penstock-queue",
        QUEUE,
        "queues",
        wait=T.measured_for,
    )
    growth = f"increase(mq_queue_messages_added_total[{T.dead_letters_window}])"
    dead = 'on (job, instance, broker, address, queue) mq_queue_info{kind="dead_letter"}'
    yield AlertRule(
        "PenstockDeadLettersGrowing",
        "warning",
        f"({growth} and {dead}) > {T.dead_letters}",
        "Dead letters arrive.",
        f"{{{{ $value | printf `%.0f` }}}} messages came to the dead-letter queue {IN_QUEUE} within"
        f" {T.dead_letters_window}; it holds {present('mq_queue_messages')}. Queues that gave messages up:"
        f" {_sources(T.dead_letters_window)}.",
        "penstock-queue",
        QUEUE,
        "queues",
    )


def _sources(window: str) -> str:
    """Template: the queues of the broker that gave messages up within the window."""
    selector = "mq_queue_messages_killed_total{job=%q,instance=%q,broker=%q}"
    query = f"increase({selector}[{window}]) > 0"
    return (
        f"{{{{ range printf `{query}` $labels.job $labels.instance $labels.broker | query }}}}"
        "`{{ .Labels.queue }}` {{ .Value | printf `%.0f` }}, {{ else }}unknown, {{ end }}see the dashboard"
    )


def _of_rings() -> Iterator[AlertRule]:
    rings = "penstock-rings"
    yield AlertRule(
        "PenstockRingRetentionBelowTarget",
        "warning",
        "mq_queue_ring_retention_seconds < mq_queue_ring_retention_target_seconds",
        "A ring queue covers less time than the configuration wants.",
        f"{IN_QUEUE} covers {{{{ $value | humanizeDuration }}}} at the present rate, wanted are"
        f" {present('mq_queue_ring_retention_target_seconds')}; ring size"
        f" {present('mq_queue_ring_limit_messages')} messages.",
        rings,
        QUEUE,
        "rings",
        wait=T.measured_for,
    )
    on_address = "on (job, instance, broker, address)"
    yield AlertRule(
        "PenstockRingOnPagingAddress",
        "warning",
        f"mq_queue_ring_limit_messages and {on_address}"
        f" (mq_address_paging == 1 or mq_address_memory_used_ratio > {T.address_used_ratio:g})"
        f' and {on_address} mq_address_info{{policy="page"}}',
        "A ring queue is on an address that pages, or is about to.",
        f"The address of the ring {IN_QUEUE} uses {present('mq_address_memory_used_ratio')} of its limit and pages when"
        " full. Messages in page files are not held by the ring of {{ $value }}: it keeps more than its size and evicts"
        " late.",
        rings,
        QUEUE,
        "rings",
        wait=T.measured_for,
    )


def _of_brokers() -> Iterator[AlertRule]:
    lossless = 'mq_address_info{policy=~"page|remove_oldest|remove_low_priority"}'
    yield AlertRule(
        "PenstockAddressNearFull",
        "warning",
        f"mq_address_memory_used_ratio > {T.address_used_ratio:g}"
        f" unless on (job, instance, broker, address) {lossless}",
        "An address is nearly full and will block or refuse producers.",
        f"{IN_ADDRESS} uses {{{{ $value | humanizePercentage }}}} of its"
        f" {present('mq_address_limit_bytes')}; {present('mq_address_producers')} producers.",
        "penstock-broker",
        ADDRESS,
        "brokers",
        wait=T.measured_for,
    )
    yield AlertRule(
        "PenstockDiskNearFull",
        "critical",
        f"mq_broker_disk_used_ratio / mq_broker_disk_limit_ratio > {T.disk_of_limit_ratio:g}",
        "The broker's disk is nearly at the limit at which every producer is blocked.",
        f"The disk of {{{{ $labels.broker }}}} is used to {present('mq_broker_disk_used_ratio')}; at"
        f" {present('mq_broker_disk_limit_ratio')} the broker blocks every producer.",
        "penstock-broker",
        BROKER,
        "brokers",
        wait=T.measured_for,
    )
    yield AlertRule(
        "PenstockMessagesUnrouted",
        "warning",
        f'rate(mq_address_messages_unrouted_total{{address!~"{BROKERS_OWN}"}}[{T.unrouted_window}]) > 0',
        "Messages are accepted and given to no queue.",
        f"{{{{ $value | printf `%.3f` }}}} messages a second to {IN_ADDRESS} reach no queue and are gone.",
        "penstock-broker",
        ADDRESS,
        "brokers",
        wait=T.slow_for,
    )
    yield AlertRule(
        "PenstockLinkDown",
        "critical",
        "mq_link_up == 0",
        "A bridge, cluster connection, mirror or federation is down.",
        "{{ $labels.kind }} {{ $labels.link }} of {{ $labels.broker }} is not connected;"
        f" {present('mq_link_pending_messages')} messages wait to cross it.",
        "penstock-broker",
        BROKER,
        "brokers",
        wait=T.link_down_for,
    )
    start = (
        "mq_broker_start_timestamp_seconds"
        ' * on (job, instance, broker) group_left (node_id) mq_broker_info{role="active"}'
        " and on (job, instance, broker) mq_up == 1"
    )
    yield AlertRule(
        "PenstockTwoActives",
        "critical",
        f"max by (node_id) ({start}) - min by (node_id) ({start}) > {T.two_actives_start_seconds}",
        "Two brokers are active with the same node id.",
        "Node {{ $labels.node_id }} is served by two active brokers that started {{ $value | humanizeDuration }} apart:"
        " clients of the two see different messages.",
        "penstock-fleet",
        (),
        "brokers",
        wait=T.two_actives_for,
    )
    yield AlertRule(
        "PenstockBrokerDown",
        "critical",
        "mq_up == 0",
        "A broker cannot be reached.",
        "No poll of {{ $labels.broker }} reaches it; the last data are"
        f" {age('penstock_poll_timestamp_seconds')} old. Nothing is known of its queues.",
        "penstock-broker",
        BROKER,
        "brokers",
        wait=T.broker_down_for,
        keep=T.keep_down,
    )


def _of_the_agent() -> Iterator[AlertRule]:
    agent = "penstock-agent"
    window = T.failed_polls_window
    yield AlertRule(
        "PenstockPollFailing",
        "warning",
        f'sum without (result) (rate(penstock_polls_total{{result!="ok"}}[{window}]))'
        f" / sum without (result) (rate(penstock_polls_total[{window}])) > {T.failed_polls_ratio:g}",
        "Most polls of a broker fail or are incomplete.",
        "{{ $value | humanizePercentage }} of the polls of {{ $labels.broker }} within"
        f" {window} failed, were partial or were skipped. Failing collectors: {_failing_collectors()}.",
        agent,
        BROKER,
        "penstock",
        wait=T.poll_failing_for,
    )
    yield AlertRule(
        "PenstockDataStale",
        "warning",
        f"time() - penstock_poll_timestamp_seconds > {T.stale_seconds} unless on (job, instance, broker) mq_up == 0",
        "The data of a broker are old although it can be reached.",
        "The data of {{ $labels.broker }} are {{ $value | humanizeDuration }} old; the last poll took"
        f" {present('penstock_poll_duration_seconds')}.",
        agent,
        BROKER,
        "penstock",
    )
    yield AlertRule(
        "PenstockAgentDown",
        "critical",
        f"up == 0 and on (job, instance) present_over_time(penstock_build_info[{T.agent_seen_window}])",
        "An agent cannot be scraped.",
        "Prometheus cannot scrape {{ $labels.instance }}, which was a Penstock agent; nothing is known of its brokers.",
        agent,
        (),
        "penstock",
        wait=T.agent_down_for,
    )
    yield AlertRule(
        "PenstockAgentAbsent",
        "critical",
        "absent(penstock_build_info)",
        "No agent is scraped at all.",
        "Prometheus sees no Penstock agent: no alert about brokers can fire.",
        agent,
        (),
        "penstock",
        wait=T.agent_down_for,
    )
    yield AlertRule(
        "PenstockSeriesDropped",
        "info",
        f'sum by (job, instance, broker) (mq_client_consumers{{client="{OTHER}"}}) > 0',
        "More clients are there than the series budget allows.",
        f"{{{{ $value }}}} consumers of {{{{ $labels.broker }}}} belong to clients that are counted together;"
        f" {present('penstock_series', labels=BROKER)} series are shown.",
        agent,
        BROKER,
        "penstock",
        wait=T.dropped_for,
    )
    yield AlertRule(
        "PenstockConfigReloadFailed",
        "warning",
        "penstock_config_last_reload_successful == 0",
        "The configuration could not be loaded again.",
        "{{ $labels.instance }} goes on with the configuration loaded"
        f" {age('penstock_config_last_reload_success_timestamp_seconds')} ago.",
        agent,
        (),
        "penstock",
        wait=T.measured_for,
    )
    yield AlertRule(
        "PenstockStateNotSaved",
        "warning",
        "penstock_state_save_success == 0",
        "What was learned is not saved.",
        "{{ $labels.instance }} cannot write its state file: a restart forgets what is usual, and since when conditions"
        " hold.",
        agent,
        (),
        "penstock",
        wait=T.measured_for,
    )
    yield AlertRule(
        "PenstockHistoryFailing",
        "warning",
        "penstock_history_success == 0",
        "The history cannot be written.",
        "{{ $labels.instance }} could not write or publish its history; the last publication was"
        f" {age('penstock_history_publish_timestamp_seconds')} ago.",
        agent,
        (),
        "penstock",
        wait=T.slow_for,
    )
    yield AlertRule(
        "PenstockTrendJobStale",
        "warning",
        f"time() - mq_trend_timestamp_seconds > {T.trend_stale_seconds}",
        "The trend job has not run for two days.",
        "Trends and forecasts of {{ $labels.instance }} are {{ $value | humanizeDuration }} old.",
        "penstock-capacity",
        (),
        "penstock",
    )


def _failing_collectors() -> str:
    selector = "penstock_collector_success{job=%q,instance=%q,broker=%q} == 0"
    return (
        f"{{{{ range printf `{selector}` $labels.job $labels.instance $labels.broker | query }}}}"
        "{{ .Labels.collector }}, {{ else }}none, {{ end }}see the agent's log"
    )


def groups() -> dict[str, tuple[AlertRule, ...]]:
    """All alerts, by the group of the rule file."""
    return {
        "penstock-clients": tuple(_of_conditions("clients")),
        "penstock-queues": (*_of_conditions("queues"), *_of_queues()),
        "penstock-rings": (*_of_conditions("rings"), *_of_rings()),
        "penstock-brokers": (*_of_conditions("brokers"), *_of_brokers()),
        "penstock-agent": tuple(_of_the_agent()),
    }
