#!/usr/bin/env python3
"""Checks the manifests of examples/kubernetes, and launches each of them on this machine.

usage: kubernetes_test.py ACCELERATE

Resources that an operator defines are checked with schemas of ours (kubernetes/schemas.json), which follow the operators'
definitions as far as the examples use them. Kubernetes' own resources, and the pods in the others, are checked with
kubernetes-validate, if this Python has it (`scripts/setup --machines`). Then each manifest's command runs once for every
pod, with the variables that the manifest and its operator set, and the ranks must be those of one job.
"""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

try:
    import yaml
except ImportError:
    print("there is no yaml in this environment")
    sys.exit(77)
try:
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples/kubernetes"
SCHEMAS = json.loads((pathlib.Path(__file__).parent / "kubernetes/schemas.json").read_text())
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
PODS = 2
ACCELERATE = ""


def faults(value, schema, where):
    """Returns what contradicts `schema`, one text a fault."""
    if "$ref" in schema:
        return faults(value, SCHEMAS["definitions"][schema["$ref"]], where)
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(isinstance(value, TYPES[one]) and not (one == "integer" and value is True) for one in types):
        return [f"{where} is {value!r}, not of type {types}"]
    if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
        return [f"{where} is {value!r}"]
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return [f"{where} is {value!r}, which does not match {schema['pattern']}"]
    found = [f"{where} has no {name}" for name in schema.get("required", []) if name not in value]
    for name, inner in (value.items() if isinstance(value, dict) else ()):
        known = schema.get("properties", {})
        if name in known:
            found += faults(inner, known[name], f"{where}.{name}")
        elif schema.get("additionalProperties") is False:
            found.append(f"{where}.{name} is unknown")
    for number, inner in enumerate(value if isinstance(value, list) and "items" in schema else ()):
        found += faults(inner, schema["items"], f"{where}[{number}]")
    return found


def documents():
    """Yields each document of each manifest, with its file's name."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield path.name, document


def jobs(document):
    """Yields the Jobs in a JobSet, and a Job itself, as resources."""
    if document["kind"] == "Job":
        yield document
    for job in document["spec"].get("replicatedJobs", []):
        yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job["name"]}, "spec": job["template"]["spec"]}


def pods(document):
    """Yields the pods of any resource, as resources."""
    for replica in document["spec"].get("pytorchReplicaSpecs", {}).values():
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": replica["template"]["spec"]}
    for job in jobs(document):
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": job["spec"]["template"]["spec"]}


def of_operator(document, number, port):
    """Returns the variables that the operator gives to pod `number`."""
    kind, spec, name = document["kind"], document["spec"], document["metadata"]["name"]
    ours = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
    if kind == "PyTorchJob":
        replicas = sum(one["replicas"] for one in spec["pytorchReplicaSpecs"].values())
        first = f"{name}-master-0"
        ranks = spec["nprocPerNode"]
        return ours | {"PET_NNODES": str(replicas), "PET_NODE_RANK": str(number), "PET_NPROC_PER_NODE": ranks,
                       "PET_MASTER_ADDR": first, "PET_MASTER_PORT": str(port), "MASTER_ADDR": first,
                       "MASTER_PORT": str(port), "WORLD_SIZE": str(replicas * int(ranks)), "RANK": str(number)}
    if kind == "TrainJob":
        trainer = spec["trainer"]
        return ours | {"PET_NNODES": str(trainer["numNodes"]), "PET_NODE_RANK": str(number),
                       "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]), "JOB_COMPLETION_INDEX": str(number),
                       "PET_MASTER_ADDR": f"{name}-node-0-0.{name}", "PET_MASTER_PORT": str(port)}
    return ours | {"JOB_COMPLETION_INDEX": str(number)}


def container(document):
    if document["kind"] == "TrainJob":
        return document["spec"]["trainer"]
    return next(pods(document))["spec"]["containers"][0]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Manifests(unittest.TestCase):
    def test_follow_the_schemas_of_operators(self):
        seen = set()
        for name, document in documents():
            if document["kind"] in SCHEMAS:
                seen.add(document["kind"])
                self.assertEqual(faults(document, SCHEMAS[document["kind"]], name), [])
        self.assertEqual(seen, set(SCHEMAS) - {"definitions"})

    def test_faults_are_found(self):
        document = next(one for _, one in documents() if one["kind"] == "TrainJob")
        document["spec"]["trainer"]["numNodes"] = "2"
        document["spec"]["runtime"] = {}
        found = faults(document, SCHEMAS["TrainJob"], "it")
        self.assertEqual(found, ["it.spec.trainer.numNodes is '2', not of type ['integer']", "it.spec.runtime is unknown"])

    @unittest.skipIf(kubernetes_validate is None, "this Python has no kubernetes-validate")
    def test_follow_the_schemas_of_kubernetes(self):
        count = 0
        for name, document in documents():
            own = [document] if document["kind"] not in SCHEMAS else []
            for resource in own + list(jobs(document)) + list(pods(document)):
                count += 1
                with self.subTest(file=name, kind=resource["kind"]):
                    kubernetes_validate.validate(resource, "1.30", strict=True)
        self.assertGreaterEqual(count, 7)

    def test_numbers_agree(self):
        for name, document in documents():
            for job in jobs(document):
                environment = {one["name"]: one.get("value") for one in container(document)["env"]}
                self.assertEqual(int(environment["PET_NNODES"]), job["spec"]["completions"], name)
                self.assertEqual(job["spec"]["completions"], job["spec"]["parallelism"], name)

    def test_start_one_job(self):
        for name, document in documents():
            if document["kind"] != "Service":
                with self.subTest(file=name):
                    self.launch(document)

    def launch(self, document):
        """Runs the command of the manifest for each pod. The name of machine 0 becomes this machine."""
        port = free_port()
        told = {one["name"]: one["value"] for one in container(document)["env"] if "value" in one}
        command = container(document)["command"]
        self.assertEqual(command[:2], ["accelerate", "launch"])
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("PET_", "SLURM_", "OMPI_"))}
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "train"
            script.write_text('#!/bin/sh\nenv > "$MARKS/$RANK"\n')
            script.chmod(0o755)
            running = []
            for number in range(PODS):
                environment = plain | told | of_operator(document, number, port) | {"MARKS": folder}
                self.assertIn(".", environment["PET_MASTER_ADDR"] + ("." if document["kind"] == "PyTorchJob" else ""))
                environment |= {"PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": str(port), "HOSTNAME": "127.0.0.1"}
                running.append(subprocess.Popen([ACCELERATE, *command[1:]], cwd=folder, env=environment,
                                                stderr=subprocess.PIPE, text=True))
            for one in running:
                _, errors = one.communicate(timeout=60)
                self.assertEqual(one.returncode, 0, errors)
                self.assertIn("accelerate: taken from Kubernetes: num_machines 2 (PET_NNODES)", errors)
            for rank in range(8):
                marks = (pathlib.Path(folder) / str(rank)).read_text().splitlines()
                for line in (f"GROUP_RANK={rank // 4}", f"LOCAL_RANK={rank % 4}", "WORLD_SIZE=8"):
                    self.assertIn(line, marks)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    ACCELERATE = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
