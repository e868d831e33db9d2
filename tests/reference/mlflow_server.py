#!/usr/bin/env python3
"""The server application of the mlflow package, on loopback, without the processes that surround it.

usage: mlflow_server.py PORT FOLDER

Keeps runs in FOLDER/runs.db and artifacts in FOLDER/artifacts. Runs until it is killed.
"""
import os
import sys

port, folder = int(sys.argv[1]), sys.argv[2]
os.environ.update({
    "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "_MLFLOW_SERVER_FILE_STORE": f"sqlite:///{folder}/runs.db",
    "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/",
    "_MLFLOW_SERVER_ARTIFACT_DESTINATION": f"{folder}/artifacts",
    "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
})

from mlflow.server import app  # noqa: E402 (reads the variables above)
from werkzeug.serving import make_server  # noqa: E402

make_server("127.0.0.1", port, app, threaded=True).serve_forever()
