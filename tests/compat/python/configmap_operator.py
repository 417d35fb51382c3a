"""An operator on config maps: it writes down on each what it last did about it, and keeps a copy of what is deleted."""

import kopf
from kubernetes import client, config

OPERATED = {"operated": "yes"}
HANDLED = "example.org/handled"


@kopf.on.create("configmaps", labels=OPERATED)
def created(body, patch, retry, **_):
    if retry < int(body["data"].get("failures", "0")):
        raise kopf.TemporaryError("not yet", delay=0.1)
    attempt = " at the third attempt" if retry == 2 else ""
    patch.metadata.annotations[HANDLED] = f"created {body['data']['colour']}{attempt}"
    kopf.info(body, reason="Handled", message="as it should be")


@kopf.on.update("configmaps", labels=OPERATED, field="data.colour")
def changed(old, new, patch, **_):
    patch.metadata.annotations[HANDLED] = f"changed {old} to {new}"


@kopf.on.delete("configmaps", labels=OPERATED)
def deleted(name, namespace, body, **_):
    config.load_kube_config()
    copy = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"{name}-was"), data=dict(body["data"]))
    client.CoreV1Api().create_namespaced_config_map(namespace, copy)
