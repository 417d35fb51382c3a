"""An operator on databases: it runs a config map for each, reports it in the status, and cleans up by its finalizer."""

import kopf
from kubernetes import client, config

GROUP = "kopf.example.org"


@kopf.on.startup()
def connected(settings, **_):
    config.load_kube_config()
    settings.posting.loggers = True  # what it logs about an object becomes an event


@kopf.on.create(GROUP, "v1", "databases")
@kopf.on.update(GROUP, "v1", "databases", field="spec")
def reconciled(name, namespace, spec, body, patch, **_):
    """The config map says what the spec wants; the status says that it does."""
    if spec["engine"] == "mysql":
        raise kopf.PermanentError("nobody runs mysql here")
    wanted = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data={"engine": spec["engine"], "replicas": str(spec["replicas"])})
    kopf.adopt(wanted, owner=body)
    maps = client.CoreV1Api()
    if maps.list_namespaced_config_map(namespace, field_selector=f"metadata.name={name}").items:
        maps.patch_namespaced_config_map(name, namespace, wanted)
    else:
        maps.create_namespaced_config_map(namespace, wanted)
    patch.status["host"] = f"{name}.example.org"
    patch.status["replicas"] = spec["replicas"]
    patch.status["conditions"] = [{"type": "Ready", "status": "True"}]


@kopf.on.delete(GROUP, "v1", "databases")
def deleted(name, namespace, **_):
    client.CoreV1Api().create_namespaced_config_map(namespace, client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"{name}-backup")))


@kopf.timer(GROUP, "v1", "databases", interval=0.5, labels={"timed": "yes"})
def ticked(patch, status, **_):
    patch.status["ticks"] = status.get("ticks", 0) + 1
