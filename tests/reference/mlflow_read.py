#!/usr/bin/env python3
"""What an experiment holds, by the client of the mlflow package, as JSON.

usage: mlflow_read.py URI EXPERIMENT
"""
import json
import os
import sys

os.environ.update({"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"})

from mlflow import MlflowClient  # noqa: E402


def metric_history(client, run, key):
    history = client.get_metric_history(run.info.run_id, key)
    return sorted([m.step, str(m.value)] for m in history)


def main():
    client = MlflowClient(tracking_uri=sys.argv[1])
    experiment = client.get_experiment_by_name(sys.argv[2])
    runs = []
    for run in client.search_runs([experiment.experiment_id]):
        folders = client.list_artifacts(run.info.run_id)
        files = [f.path for folder in folders for inner in client.list_artifacts(run.info.run_id, folder.path)
                 for f in client.list_artifacts(run.info.run_id, inner.path)]
        runs.append({"status": run.info.status, "name": run.info.run_name, "params": run.data.params,
                     "tags": {k: v for k, v in run.data.tags.items() if not k.startswith("accelerate.")},
                     "metrics": {key: metric_history(client, run, key) for key in run.data.metrics},
                     "artifacts": sorted(files)})
    print(json.dumps(runs))


if __name__ == "__main__":
    main()
