"""What the chart uses of objects whose definitions are not at hand: Grafana's operator, Spark's and OpenShift's."""

from typing import Any

TEXT = {"type": "string", "minLength": 1}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": required,
        "properties": properties,
    }


_MAPS = (
    "securityContext",
    "podSecurityContext",
    "nodeSelector",
    "affinity",
    "dnsConfig",
)
_LISTS = ("env", "envFrom", "volumeMounts", "tolerations", "hostAliases")
_POD = _object(
    ["cores", "memory"],
    cores={"type": "integer"},
    memory=TEXT,
    instances={"type": "integer"},
    serviceAccount=TEXT,
    **{key: {"type": "object"} for key in _MAPS},
    **{key: {"type": "array"} for key in _LISTS},
)

SPECS = {
    ("GrafanaDashboard", "grafana.integreatly.org/v1beta1"): _object(
        ["instanceSelector", "configMapRef"],
        allowCrossNamespaceImport={"type": "boolean"},
        configMapRef=_object(["name", "key"], name=TEXT, key=TEXT),
        folder=TEXT,
        instanceSelector=_object([], matchLabels={"type": "object"}),
        resyncPeriod={"type": "string", "pattern": "^([0-9]+(ms|s|m|h))+$"},
    ),
    ("ScheduledSparkApplication", "sparkoperator.k8s.io/v1beta2"): _object(
        ["schedule", "template"],
        schedule=TEXT,
        concurrencyPolicy={"enum": ["Allow", "Forbid", "Replace"]},
        successfulRunHistoryLimit={"type": "integer"},
        failedRunHistoryLimit={"type": "integer"},
        template=_object(
            ["type", "sparkVersion", "driver", "executor", "mainApplicationFile"],
            type={"enum": ["Java", "Scala", "Python", "R"]},
            pythonVersion={"enum": ["2", "3"]},
            mode={"enum": ["cluster", "client"]},
            image=TEXT,
            imagePullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
            mainApplicationFile={"type": "string", "pattern": "^local://"},
            arguments={"type": "array", "items": TEXT},
            sparkVersion=TEXT,
            restartPolicy=_object(
                ["type"], type={"enum": ["Never", "OnFailure", "Always"]}
            ),
            imagePullSecrets={"type": "array", "items": TEXT},
            volumes={"type": "array"},
            driver=_POD,
            executor=_POD,
        ),
    ),
    ("Route", "route.openshift.io/v1"): _object(
        ["to"],
        host=TEXT,
        to=_object(["kind", "name"], kind={"const": "Service"}, name=TEXT),
        port=_object(["targetPort"], targetPort=TEXT),
        tls=_object(
            ["termination"],
            termination={"enum": ["edge", "passthrough", "reencrypt"]},
            insecureEdgeTerminationPolicy={"enum": ["None", "Allow", "Redirect"]},
        ),
    ),
}
"""Kind and version → schema of `spec`."""
