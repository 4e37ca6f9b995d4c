"""The alerts. One alert a cause: a warning, and the same name as critical where the queue has come to a stop."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from penstock.assets.thresholds import BROKERS_OWN
from penstock.assets.thresholds import THRESHOLDS as T
from penstock.assets.wording import age, number
from penstock.flow.series import OTHER

Severity = Literal["critical", "warning", "info"]

QUEUE = ("broker", "address", "queue")
ADDRESS = ("broker", "address")
BROKER = ("broker",)

_IN_QUEUE = "`{{ $labels.queue }}` on {{ $labels.broker }}"
_STOPPED = " Nothing is settled meanwhile."


@dataclass(frozen=True, slots=True)
class Alert:
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


def _judged(
    name: str,
    cause: str,
    summary: str,
    description: str,
    *,
    runbook: str = "queues",
    dashboard: str = "penstock-queue",
    stops: bool = True,
) -> Iterator[Alert]:
    """Alerts on a condition of a queue; `stops`: it can bring the queue to a stop."""
    for severity, level, more in _levels(stops=stops):
        expr = f'mq_queue_unhealthy{{cause="{cause}"}} >= {level}'
        labels = ADDRESS if dashboard == "penstock-broker" else QUEUE
        yield Alert(name, severity, expr, summary, description + more, dashboard, labels, runbook)


def _judged_address(name: str, cause: str, summary: str, description: str) -> Iterator[Alert]:
    """Alerts on a condition of a whole address: one, however many queues it has."""
    for severity, level, more in _levels(stops=True):
        expr = f'mq_address_unhealthy{{cause="{cause}"}} >= {level}'
        yield Alert(name, severity, expr, summary, description + more, "penstock-broker", ADDRESS, "brokers")


def _judged_client(name: str, cause: str, summary: str, description: str) -> Iterator[Alert]:
    """Alerts on a condition of a client; how bad it is, its queue says."""
    for severity, level, more in _levels(stops=True):
        clients = f'mq_client_unhealthy_consumers{{cause="{cause}"}} >= 1'
        queue = f"on (job, instance, broker, address, queue, cause) mq_queue_unhealthy >= {level}"
        expr = clients if level == T.warning else f"{clients} and {queue}"
        yield Alert(
            name, severity, expr, summary, description + more, "penstock-clients", (*QUEUE, "client"), "clients"
        )


def _levels(*, stops: bool) -> Iterator[tuple[Severity, int, str]]:
    yield "warning", T.warning, ""
    if stops:
        yield "critical", T.critical, _STOPPED


def _of_clients() -> Iterator[Alert]:
    yield from _judged_client(
        "PenstockClientBlocked",
        "stalled",
        "A client holds messages and settles none.",
        f"{{{{ $labels.client }}}} holds {number('mq_client_buffered_messages')} messages of {_IN_QUEUE} and has"
        f" settled none for {age('mq_client_blocked_since_timestamp_seconds')}; usual are"
        f" {number('mq_client_patience_seconds')}. Blocked consumers: {{{{ $value }}}} of"
        f" {number('mq_client_consumers')}; {number('mq_queue_ready_messages')} messages wait.",
    )
    yield from _judged_client(
        "PenstockOpenTransaction",
        "open_transaction",
        "A client has acknowledged messages and does not commit.",
        f"{{{{ $labels.client }}}} has {number('mq_client_uncommitted_messages')} messages of {_IN_QUEUE} acknowledged"
        f" and uncommitted for {age('mq_client_blocked_since_timestamp_seconds')}; usual are"
        f" {number('mq_client_patience_seconds')}. Consumers in this state: {{{{ $value }}}}.",
    )
    yield from _judged_client(
        "PenstockChurnWithoutProgress",
        "churn_without_progress",
        "A client reconnects again and again and settles nothing.",
        f"Consumers of {{{{ $labels.client }}}} on {_IN_QUEUE} come and go (now: {{{{ $value }}}}), and nothing is"
        f" settled; {number('mq_queue_ready_messages')} messages wait.",
    )
    yield from _judged_client(
        "PenstockConsumerOrphaned",
        "orphaned",
        "A consumer is left over whose session has ended.",
        f"Consumers of {{{{ $labels.client }}}} on {_IN_QUEUE} whose session has ended: {{{{ $value }}}}; they hold"
        f" {number('mq_client_buffered_messages')} messages.",
    )


def _of_queues() -> Iterator[Alert]:
    ready = number("mq_queue_ready_messages")
    consumers = number("mq_queue_consumers")
    added = number("mq_queue_messages_added_total", over="rate({}[5m])")
    yield from _judged(
        "PenstockRedeliveryLoop",
        "redelivery_loop",
        "Messages are delivered, come back and are delivered again.",
        f"Deliveries of {_IN_QUEUE} keep coming back; {ready} messages wait, {consumers} consumers.",
    )
    yield from _judged(
        "PenstockNotDispatching",
        "not_dispatching",
        "Messages wait although a free consumer is there.",
        f"{ready} messages of {_IN_QUEUE} wait, its {consumers} consumers take none.",
    )
    yield from _judged(
        "PenstockConnectionPaused",
        "connection_paused",
        "One consumer uses up the flow limit of its connection.",
        f"{ready} messages of {_IN_QUEUE} wait while another consumer of the same connection fills the buffer of the"
        " client.",
    )
    yield from _judged(
        "PenstockProducerTransactionOpen",
        "producer_transaction_open",
        "A producer has sent messages and does not commit.",
        f"Messages sent to {_IN_QUEUE} have stayed uncommitted longer than usual; {ready} messages wait.",
    )
    yield from _judged(
        "PenstockNoConsumer",
        "no_consumer",
        "Messages wait and nobody reads the queue.",
        f"{ready} messages of {_IN_QUEUE} wait without a consumer, {added} come each second.",
    )
    yield from _judged(
        "PenstockTooFewConsumers",
        "too_few_consumers",
        "Fewer consumers are there than the configuration expects.",
        f"{_IN_QUEUE} has {consumers} of {number('mq_queue_expected_consumers')} consumers; {ready} messages wait.",
    )
    yield from _judged(
        "PenstockPausedWithBacklog",
        "paused",
        "A queue is paused by an operator while messages wait.",
        f"{_IN_QUEUE} is paused, {ready} messages wait, {added} come each second.",
    )
    yield from _judged(
        "PenstockFallingBehind",
        "falling_behind",
        "More messages come than the consumers work off.",
        f"The backlog of {_IN_QUEUE} grows: {ready} messages wait, {added} come each second, {consumers} consumers.",
        stops=False,
    )
    yield from _judged(
        "PenstockHoarding",
        "hoarding",
        "One consumer holds nearly all messages while its peers have none.",
        f"{number('mq_queue_delivering_messages')} messages of {_IN_QUEUE} are in delivery, nearly all with one of its"
        f" {consumers} consumers (imbalance {number('mq_queue_buffer_imbalance_ratio')}).",
        dashboard="penstock-clients",
        stops=False,
    )
    yield Alert(
        "PenstockDrainTooLong",
        "warning",
        "mq_queue_drain_seconds > mq_queue_drain_target_seconds",
        "A backlog takes longer to work off than the configuration allows.",
        f"{_IN_QUEUE} needs {{{{ $value | humanizeDuration }}}} to drain, wanted are"
        f" {number('mq_queue_drain_target_seconds')}; {ready} messages wait, {consumers} consumers.",
        "penstock-queue",
        QUEUE,
        "queues",
        wait=T.measured_for,
    )
    growth = f"increase(mq_queue_messages_added_total[{T.dead_letters_window}])"
    dead = 'on (job, instance, broker, address, queue) mq_queue_info{kind="dead_letter"}'
    yield Alert(
        "PenstockDeadLettersGrowing",
        "warning",
        f"({growth} and {dead}) > {T.dead_letters}",
        "Dead letters arrive.",
        f"{{{{ $value | printf `%.0f` }}}} messages came to the dead-letter queue {_IN_QUEUE} within"
        f" {T.dead_letters_window}; it holds {number('mq_queue_messages')}. Queues that gave messages up:"
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


def _of_rings() -> Iterator[Alert]:
    retention = number("mq_queue_ring_retention_seconds")
    rings = "penstock-rings"
    evicted = number("mq_queue_messages_evicted_total", labels=QUEUE, over="sum (increase({}[15m]))")
    yield from _judged(
        "PenstockRingLosing",
        "ring_losing",
        "A ring queue throws away messages that the configuration wants kept.",
        f"{_IN_QUEUE} threw {evicted} messages away unread within 15m; it covers {retention}, its size is"
        f" {number('mq_queue_ring_limit_messages')} messages.",
        runbook="rings",
        dashboard=rings,
        stops=False,
    )
    yield from _judged(
        "PenstockRingLostByConsumer",
        "ring_lost_by_consumer",
        "A consumer went and its messages did not fit back into the ring.",
        f"{number('mq_queue_messages_lost_by_consumer_total', over='increase({}[15m])')} messages of {_IN_QUEUE} were"
        f" lost within 15m as consumers closed or rolled back; {number('mq_queue_ring_at_risk_messages')} more are at"
        " risk.",
        runbook="rings",
        dashboard=rings,
        stops=False,
    )
    yield from _judged(
        "PenstockLimitLosing",
        "limit_losing",
        "A full destination throws away messages to make room.",
        f"{_IN_QUEUE} is at its limit and removed {evicted} messages within 15m;"
        f" {number('mq_queue_messages')} are there.",
        runbook="rings",
        dashboard=rings,
        stops=False,
    )
    yield Alert(
        "PenstockRingRetentionBelowTarget",
        "warning",
        "mq_queue_ring_retention_seconds < mq_queue_ring_retention_target_seconds",
        "A ring queue covers less time than the configuration wants.",
        f"{_IN_QUEUE} covers {{{{ $value | humanizeDuration }}}} at the present rate, wanted are"
        f" {number('mq_queue_ring_retention_target_seconds')}; ring size"
        f" {number('mq_queue_ring_limit_messages')} messages.",
        rings,
        QUEUE,
        "rings",
        wait=T.measured_for,
    )
    on_address = "on (job, instance, broker, address)"
    yield Alert(
        "PenstockRingOnPagingAddress",
        "warning",
        f"mq_queue_ring_limit_messages and {on_address}"
        f" (mq_address_paging == 1 or mq_address_memory_used_ratio > {T.address_used_ratio:g})"
        f' and {on_address} mq_address_info{{policy="page"}}',
        "A ring queue is on an address that pages, or is about to.",
        f"The address of the ring {_IN_QUEUE} uses {number('mq_address_memory_used_ratio')} of its limit and pages when"
        " full. Messages in page files are not held by the ring of {{ $value }}: it keeps more than its size and evicts"
        " late.",
        rings,
        QUEUE,
        "rings",
        wait=T.measured_for,
    )


def _of_brokers() -> Iterator[Alert]:
    address = "`{{ $labels.address }}` on {{ $labels.broker }}"
    yield from _judged_address(
        "PenstockProducersBlocked",
        "producers_blocked",
        "Producers are blocked.",
        f"Nothing comes in for {address}: it is full or closed. It uses {number('mq_address_memory_used_ratio')} of its"
        f" limit; {number('mq_address_messages')} messages are there, {number('mq_address_producers')} producers.",
    )
    yield from _judged_address(
        "PenstockRejecting",
        "rejecting",
        "A full address drops or refuses messages.",
        f"{address} uses {number('mq_address_memory_used_ratio')} of its limit and takes no more;"
        f" {number('mq_address_messages')} messages are there, {number('mq_address_producers')} producers.",
    )
    yield from _judged(
        "PenstockDepagingFrozen",
        "depaging_frozen",
        "Page files are no longer read because one consumer holds too much.",
        f"{number('mq_queue_delivering_messages')} messages of {_IN_QUEUE} are unacknowledged, as many as may be read"
        f" from page files at once; {number('mq_queue_messages')} are there.",
        runbook="brokers",
        dashboard="penstock-broker",
    )
    lossless = 'mq_address_info{policy=~"page|remove_oldest|remove_low_priority"}'
    yield Alert(
        "PenstockAddressNearFull",
        "warning",
        f"mq_address_memory_used_ratio > {T.address_used_ratio:g}"
        f" unless on (job, instance, broker, address) {lossless}",
        "An address is nearly full and will block or refuse producers.",
        f"{address} uses {{{{ $value | humanizePercentage }}}} of its"
        f" {number('mq_address_limit_bytes')}; {number('mq_address_producers')} producers.",
        "penstock-broker",
        ADDRESS,
        "brokers",
        wait=T.measured_for,
    )
    yield Alert(
        "PenstockDiskNearFull",
        "critical",
        f"mq_broker_disk_used_ratio / mq_broker_disk_limit_ratio > {T.disk_of_limit_ratio:g}",
        "The broker's disk is nearly at the limit at which every producer is blocked.",
        f"The disk of {{{{ $labels.broker }}}} is used to {number('mq_broker_disk_used_ratio')}; at"
        f" {number('mq_broker_disk_limit_ratio')} the broker blocks every producer.",
        "penstock-broker",
        BROKER,
        "brokers",
        wait=T.measured_for,
    )
    yield Alert(
        "PenstockMessagesUnrouted",
        "warning",
        f'rate(mq_address_messages_unrouted_total{{address!~"{BROKERS_OWN}"}}[{T.unrouted_window}]) > 0',
        "Messages are accepted and given to no queue.",
        f"{{{{ $value | printf `%.3f` }}}} messages a second to {address} reach no queue and are gone.",
        "penstock-broker",
        ADDRESS,
        "brokers",
        wait=T.slow_for,
    )
    yield Alert(
        "PenstockLinkDown",
        "critical",
        "mq_link_up == 0",
        "A bridge, cluster connection, mirror or federation is down.",
        "{{ $labels.kind }} {{ $labels.link }} of {{ $labels.broker }} is not connected;"
        f" {number('mq_link_pending_messages')} messages wait to cross it.",
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
    yield Alert(
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
    yield Alert(
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


def _of_the_agent() -> Iterator[Alert]:
    agent = "penstock-agent"
    window = T.failed_polls_window
    yield Alert(
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
    yield Alert(
        "PenstockDataStale",
        "warning",
        f"time() - penstock_poll_timestamp_seconds > {T.stale_seconds} unless on (job, instance, broker) mq_up == 0",
        "The data of a broker are old although it can be reached.",
        "The data of {{ $labels.broker }} are {{ $value | humanizeDuration }} old; the last poll took"
        f" {number('penstock_poll_duration_seconds')}.",
        agent,
        BROKER,
        "penstock",
    )
    yield Alert(
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
    yield Alert(
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
    yield Alert(
        "PenstockSeriesDropped",
        "info",
        f'sum by (job, instance, broker) (mq_client_consumers{{client="{OTHER}"}}) > 0',
        "More clients are there than the series budget allows.",
        f"{{{{ $value }}}} consumers of {{{{ $labels.broker }}}} belong to clients that are counted together;"
        f" {number('penstock_series', labels=BROKER)} series are shown.",
        agent,
        BROKER,
        "penstock",
        wait=T.dropped_for,
    )
    yield Alert(
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
    yield Alert(
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
    yield Alert(
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
    yield Alert(
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


def groups() -> dict[str, tuple[Alert, ...]]:
    """All alerts, by the group of the rule file."""
    return {
        "penstock-clients": tuple(_of_clients()),
        "penstock-queues": tuple(_of_queues()),
        "penstock-rings": tuple(_of_rings()),
        "penstock-brokers": tuple(_of_brokers()),
        "penstock-agent": tuple(_of_the_agent()),
    }
