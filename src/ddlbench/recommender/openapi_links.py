"""The links of replies in the OpenAPI description: what can be asked next with what a reply says."""

from typing import Any

_TABLE = "$response.body#/measurements/0/table"
_ASKED = {
    "table": _TABLE,
    "batch_size": "$response.body#/measurements/0/batch_size",
    "latency_ms": "$response.body#/measurements/0/latency_ms",
}
OF_IMPORT: dict[int | str, dict[str, Any]] = {
    201: {
        "links": {
            "Rows": {
                "operationId": "measurements",
                "parameters": {"table": "$response.body#/name"},
                "description": "the rows that were taken over",
            }
        }
    }
}
OF_MEASUREMENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "links": {
            "Recommendation": {
                "operationId": "recommend",
                "requestBody": _ASKED,
                "description": "how many workers to take for the first row's batch size and latency",
            },
            "Prediction": {
                "operationId": "predict",
                "requestBody": _ASKED,
                "description": "the time of the first row's batch size and latency with any workers",
            },
            "SameTable": {
                "operationId": "measurements",
                "parameters": {"table": _TABLE},
                "description": "the rows of the first row's table",
            },
        }
    }
}
