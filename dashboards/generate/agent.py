"""Penstock itself."""

from dashboards.generate.common import DONE
from dashboards.generate.frame import Dashboard
from dashboards.generate.panels import (
    CRITICAL,
    IDENTITY,
    OK,
    Query,
    Row,
    Scope,
    Step,
    above,
    apart,
    below,
    chosen,
    graph,
    largest,
    stat,
    timeline,
)

S = Scope(("broker",))
_TARGET = "{" + ",".join(map(chosen, (*IDENTITY, "job", "instance"))) + "}"
_BY_BROKER = "instance, broker"
_NO_HISTORY = "No history is kept"

_NOW = Row(
    "Now",
    (
        stat(
            "Agents",
            "Agents that Prometheus scrapes. Two on one broker are safe: sums count it once.",
            f"count({S('penstock_build_info')})",
            width=2,
        ),
        stat(
            "Brokers watched",
            "Brokers that the agents watch, configured or found. Fewer than expected: see faults of discovery below.",
            f"sum({S('penstock_brokers')})",
            width=3,
        ),
        stat(
            "Version",
            "Version of the agents. Two versions side by side are an upgrade that is not finished.",
            largest("version", S("penstock_build_info")),
            unit="none",
            text="name",
            legend="{{version}}",
            width=3,
        ),
        stat(
            "Oldest data",
            "Age of the oldest data shown. Far above the poll interval: polls fail or take too long, see below.",
            f"max(time() - {S('penstock_poll_timestamp_seconds')})",
            unit="s",
            steps=above(60, 300),
            width=3,
        ),
        stat(
            "Configuration",
            "Whether the last load of the configuration succeeded. If not, the one before is in use: see the agent's"
            " log, correct the file, reload.",
            f"min({S('penstock_config_last_reload_successful')})",
            unit="none",
            mappings=DONE,
            steps=below(1),
            width=3,
        ),
        stat(
            "State file",
            "Whether what was learned could be saved. If not, a restart forgets stall thresholds and since when"
            " conditions are active: look at the storage path.",
            f"min({S('penstock_state_save_success')})",
            unit="none",
            mappings=DONE,
            steps=below(1),
            empty="Nothing is kept over a restart",
            width=3,
        ),
        stat(
            "History",
            "Whether the history could be written and published at the last try. If not, trends will have a hole: look"
            " at the storage.",
            f"min({S('penstock_history_success')})",
            unit="none",
            empty=_NO_HISTORY,
            mappings=DONE,
            steps=below(1),
            width=3,
        ),
        stat(
            "Series held back",
            "Series of single consumers and connections that are not shown: only those that have buffered messages"
            " longest are. Usual"
            " where there are many; raise the limits in the configuration to see more of them. Clients are shown"
            " whole.",
            f"sum({S('penstock_series_dropped')})",
            width=4,
        ),
    ),
)

_POLLS = Row(
    "Polling",
    (
        graph(
            "Duration of polls",
            "How long a poll takes. Near the interval the broker is asked less often; find the slow part in the panel"
            " of collectors.",
            Query(
                largest(_BY_BROKER, S("penstock_poll_duration_seconds")), "{{broker}}"
            ),
            unit="s",
            decimals=2,
        ),
        graph(
            "Polls by result",
            "ok, partial (a part failed, its last data are shown for a while), failed, skipped (the one before still"
            " ran). Anything but ok needs a look at the agent's log.",
            Query(
                f"sum by ({apart('broker, result')}) (rate({S('penstock_polls_total')}[$__rate_interval]))",
                "{{broker}} {{result}}",
            ),
            unit="cps",
            decimals=2,
        ),
        graph(
            "Age of data",
            "Time since the shown data were read. It saws between 0 and the interval; a climb is a broker that does"
            " not answer.",
            Query(
                f"time() - {largest(_BY_BROKER, S('penstock_poll_timestamp_seconds'))}",
                "{{broker}}",
            ),
            unit="s",
        ),
        graph(
            "Clients not judged yet",
            "Clients of each broker of which nothing can be said: seen at fewer than three polls, or what the judgement"
            " needs was not read. Many for long: see the collectors, and `penstock check` for rights that are missing.",
            Query(largest(_BY_BROKER, S("penstock_undecided_clients")), "{{broker}}"),
            unit="locale",
            width=6,
        ),
        timeline(
            "Collectors",
            "The parts of a poll. One that fails all the time is a right that the account lacks: `penstock check` says"
            " which.",
            Query(
                f"min by ({apart('broker, collector')}) ({S('penstock_collector_success')})",
                "{{broker}} {{collector}}",
            ),
            mappings=DONE,
            steps=(Step(None, CRITICAL), Step(1, OK)),
            width=6,
        ),
        graph(
            "Duration of collectors",
            "Which part of a poll takes long. Listings of consumers and queues grow with their number: where one takes"
            " most of the interval, poll less often.",
            Query(
                largest("broker, collector", S("penstock_collector_duration_seconds")),
                "{{broker}} {{collector}}",
            ),
            unit="s",
            decimals=2,
            width=6,
        ),
        graph(
            "Values left out",
            "Numbers in the broker's answers that could not be read, or that cannot be, such as 2^63 - 1 messages. They"
            " are not used; the agent's log and `penstock check` name them.",
            Query(
                largest("broker, collector", S("penstock_collector_left_out_values")),
                "{{broker}} {{collector}}",
            ),
            unit="locale",
            width=6,
        ),
    ),
)

_AROUND = Row(
    "Discovery and history",
    (
        graph(
            "Faults of discovery",
            "Names in DNS and files of discovery that cannot be used now; the brokers found before stay. The log and"
            " penstock check name them.",
            Query(S("penstock_discovery_faults"), "{{instance}}"),
            unit="locale",
        ),
        graph(
            "Age of the history",
            "Time since the history was last published. It saws up to the interval of publication; a climb means that"
            " the store cannot be written.",
            Query(
                f"time() - {S('penstock_history_publish_timestamp_seconds')}",
                "{{instance}}",
            ),
            unit="s",
            empty=_NO_HISTORY,
            decimals=0,
        ),
        graph(
            "Lost to the history",
            "Polls that were not recorded, and parts of the spool that were dropped unpublished or could not be read"
            " in full, each second. Should be flat at 0.",
            Query(
                f"rate({S('penstock_history_polls_dropped_total')}[$__rate_interval])",
                "{{instance}} polls",
            ),
            Query(
                f"rate({S('penstock_history_segments_dropped_total')}[$__rate_interval])",
                "{{instance}} parts",
            ),
            Query(
                f"rate({S('penstock_history_segments_damaged_total')}[$__rate_interval])",
                "{{instance}} damaged",
            ),
            unit="cps",
            empty=_NO_HISTORY,
            decimals=2,
        ),
    ),
)

_COST = Row(
    "Cost",
    (
        graph(
            "Series",
            "Series shown for each broker, which Prometheus has to store. Too many: lower the limits in the agent's"
            " configuration; what they hold back is shown too, and rows of the broker that its budgets leave unread.",
            Query(largest(_BY_BROKER, S("penstock_series")), "{{broker}}"),
            Query(
                largest(_BY_BROKER, S("penstock_series_dropped")),
                "{{broker}} held back",
            ),
            Query(
                largest(_BY_BROKER, S("penstock_rows_dropped")),
                "{{broker}} rows not read",
            ),
            unit="locale",
            width=6,
        ),
        graph(
            "CPU",
            "CPU seconds a second of each agent. It follows the number of queues and consumers; steady growth at a"
            " steady number is worth a report.",
            Query(
                f"rate(process_cpu_seconds_total{_TARGET}[$__rate_interval])",
                "{{instance}}",
            ),
            unit="percentunit",
            decimals=1,
            width=6,
        ),
        graph(
            "Memory",
            "Memory of each agent. It follows the number of queues and consumers; steady growth at a steady number is"
            " worth a report.",
            Query(f"process_resident_memory_bytes{_TARGET}", "{{instance}}"),
            unit="bytes",
            width=6,
        ),
        graph(
            "Clock skew",
            "Clock of each broker minus clock of the agent. Times are corrected by it; seconds of it still call for"
            " NTP.",
            Query(largest(_BY_BROKER, S("mq_broker_clock_skew_seconds")), "{{broker}}"),
            unit="s",
            decimals=2,
            smallest=None,
            width=6,
        ),
    ),
)

AGENT = Dashboard(
    "penstock-agent",
    "Penstock / Penstock itself",
    "Whether the agents work, how fresh their data are, and what they cost.",
    ("broker",),
    (_NOW, _POLLS, _AROUND, _COST),
)
