"""Valid objects of the built-in kinds, from which matrix.py makes its cases.

KINDS names each kind by plural and group ("pods", "deployments.apps", with the version where a group serves several) and
gives objects of it, by a word that distinguishes them. The first is the one that updates, patches and deletions start from.
`{ns}` and `{id}` stand for the run's namespace and id.
"""

CONTAINER = {"name": "c", "image": "registry.example/app:1"}
POD_SPEC = {"containers": [CONTAINER]}
RICH_POD_SPEC = {
    "initContainers": [{"name": "i", "image": "registry.example/init:1", "restartPolicy": "Always"}],
    "containers": [{
        "name": "c", "image": "registry.example/app:1", "ports": [{"name": "http", "containerPort": 80}],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}, "limits": {"cpu": "1"}},
        "livenessProbe": {"httpGet": {"path": "/", "port": "http"}},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "securityContext": {"runAsUser": 1, "capabilities": {"drop": ["ALL"]}},
    }],
    "volumes": [{"name": "v", "emptyDir": {}}],
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                                   "labelSelector": {"matchLabels": {"a": "b"}}}],
    "schedulingGates": [{"name": "example.com/gate"}],
    "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["h"]}],
}
LABELS = {"a": "b"}
SELECTOR = {"matchLabels": LABELS}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD_SPEC}
JOB_TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {**POD_SPEC, "restartPolicy": "Never"}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
WEBHOOK = {"name": "w.example.com", "clientConfig": {"url": "https://example.com/w"}, "sideEffects": "None",
           "admissionReviewVersions": ["v1"],
           "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"]}]}
MATCH = {"resourceRules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"]}]}
SCALE_TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
# A certificate signing request of CN=matrix, in base64 as it stands in the field.
SIGNING_REQUEST = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlITE1ITUNBUUF3RVRFUE1BMEdBMVVFQXd3R2JXRjBjbWw0TUZrd0V3WUhLb1"
    "pJemowQ0FRWUlLb1pJemowRApBUWNEUWdBRXI2Z3VxNWxUWWpkcXVtakx5aDFUU2VXLzhBY1dSQkVmeG5JZFNrV3lVVE9IVDdzSWpGV050eitE"
    "CnlpU204RVIvRFFvMC9TVG5tWVBEYjRrcWQ3b0VONkFBTUFvR0NDcUdTTTQ5QkFNQ0EwZ0FNRVVDSVFENEhYYkUKeXZQQ1VOY1FUalcrVVZEbF"
    "JuSWdhcWFaMVl4SDVQQUg2WUlLcmdJZ1I5cGVod2Vlb2VScHhZakh4VTMrOUFiQgowajZIVHhuTDhxV1JxbkgrellJPQotLS0tLUVORCBDRVJU"
    "SUZJQ0FURSBSRVFVRVNULS0tLS0K")

KINDS = {
    "pods": {
        "plain": {"spec": POD_SPEC},
        "rich": {"spec": RICH_POD_SPEC},
        "claims": {"spec": {**POD_SPEC, "resourceClaims": [{"name": "r", "resourceClaimName": "x"}],
                            "containers": [{**CONTAINER, "resources": {"claims": [{"name": "r"}]}}]}},
        "windows": {"spec": {**POD_SPEC, "os": {"name": "windows"}}},
        "totals": {"spec": {**POD_SPEC, "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}}}},
    },
    "podtemplates": {"plain": {"template": TEMPLATE}},
    "replicationcontrollers": {"plain": {"spec": {"selector": LABELS, "template": TEMPLATE}}},
    "services": {
        "plain": {"spec": {"selector": LABELS, "ports": [{"port": 80}]}},
        "node-port": {"spec": {"type": "NodePort", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}},
        "balancer": {"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}},
        "external": {"spec": {"type": "ExternalName", "externalName": "example.com"}},
        "headless": {"spec": {"clusterIP": "None", "selector": LABELS, "ports": [{"port": 80}]}},
    },
    "configmaps": {"plain": {"data": {"k": "v"}}, "bytes": {"binaryData": {"k": "YQ=="}}, "immutable": {"data": {"k": "v"}, "immutable": True}},
    "secrets": {
        "plain": {"data": {"k": "YQ=="}},
        "tls": {"type": "kubernetes.io/tls", "data": {"tls.crt": "YQ==", "tls.key": "YQ=="}},
        "docker": {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="}},
        "docker-old": {"type": "kubernetes.io/dockercfg", "data": {".dockercfg": "e30="}},
        "basic": {"type": "kubernetes.io/basic-auth", "data": {"username": "YQ=="}},
        "ssh": {"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": "YQ=="}},
        "token": {"metadata": {"annotations": {"kubernetes.io/service-account.name": "x"}}, "type": "kubernetes.io/service-account-token"},
    },
    "serviceaccounts": {"plain": {"secrets": [{"name": "s"}], "imagePullSecrets": [{"name": "p"}]}},
    "endpoints": {"plain": {"subsets": [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}]}},
    "events": {"plain": {"involvedObject": {"namespace": "{ns}", "kind": "Pod", "name": "p"},
                         "reason": "R", "message": "m", "type": "Normal"}},
    "limitranges": {"plain": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}, "default": {"cpu": "1"}}]}}},
    "resourcequotas": {"plain": {"spec": {"hard": {"pods": "1000000", "requests.cpu": "1000000"}}},
                       "scoped": {"spec": {"hard": {"pods": "1000000"}, "scopes": ["BestEffort"]}}},
    "persistentvolumeclaims": {
        "plain": {"spec": CLAIM},
        "source": {"spec": {**CLAIM, "dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}}},
    },
    "persistentvolumes": {
        "plain": {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}},
        "csi": {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": {"driver": "d.example.com", "volumeHandle": "h"}}},
        "local": {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": "/x"}, "nodeAffinity": {
            "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]}}}},
    },
    "nodes": {"plain": {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
                        "status": {"capacity": {"cpu": "1"}, "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}]}}},
    "namespaces": {"plain": {}},
    "deployments.apps": {"plain": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
                         "recreate": {"spec": {"selector": SELECTOR, "template": TEMPLATE, "strategy": {"type": "Recreate"}}}},
    "replicasets.apps": {"plain": {"spec": {"selector": SELECTOR, "template": TEMPLATE}}},
    "daemonsets.apps": {"plain": {"spec": {"selector": SELECTOR, "template": TEMPLATE}}},
    "statefulsets.apps": {"plain": {"spec": {"serviceName": "s", "selector": SELECTOR, "template": TEMPLATE}},
                          "claims": {"spec": {"serviceName": "s", "selector": SELECTOR, "template": TEMPLATE,
                                              "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": CLAIM}]}}},
    "controllerrevisions.apps": {"plain": {"data": {"x": 1}, "revision": 1}},
    "jobs.batch": {
        "plain": {"spec": {"template": JOB_TEMPLATE}},
        "indexed": {"spec": {"template": JOB_TEMPLATE, "completionMode": "Indexed", "completions": 3, "parallelism": 2, "backoffLimitPerIndex": 1,
                             "successPolicy": {"rules": [{"succeededIndexes": "0"}]}}},
        "policy": {"spec": {"template": JOB_TEMPLATE, "podFailurePolicy": {"rules": [
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]}}},
    },
    "cronjobs.batch": {"plain": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": JOB_TEMPLATE}}}}},
    "horizontalpodautoscalers.v1.autoscaling": {"plain": {"spec": {"scaleTargetRef": SCALE_TARGET, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}}},
    "horizontalpodautoscalers.v2.autoscaling": {
        "plain": {"spec": {"scaleTargetRef": SCALE_TARGET, "maxReplicas": 3}},
        "metrics": {"spec": {"scaleTargetRef": SCALE_TARGET, "maxReplicas": 3, "metrics": [
            {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}}}],
            "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}}},
    },
    "poddisruptionbudgets.policy": {"plain": {"spec": {"minAvailable": 1, "selector": SELECTOR}}},
    "ingresses.networking.k8s.io": {
        "plain": {"spec": {"rules": [{"host": "h.example.com", "http": {"paths": [
            {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}]}}]}},
        "default": {"spec": {"ingressClassName": "i", "tls": [{"hosts": ["h.example.com"], "secretName": "s"}],
                             "defaultBackend": {"resource": {"kind": "K", "name": "n"}}}},
    },
    "ingressclasses.networking.k8s.io": {"plain": {"spec": {"controller": "example.com/c"}},
                                         "parameters": {"spec": {"controller": "example.com/c", "parameters": {"kind": "K", "name": "n"}}}},
    "networkpolicies.networking.k8s.io": {"plain": {"spec": {"podSelector": {}, "ingress": [
        {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}], "ports": [{"port": 80, "protocol": "TCP"}]}]}}},
    "ipaddresses.networking.k8s.io": {"plain": {"metadata": {"name": "192.0.2.{octet}"}, "spec": {"parentRef": {
        "resource": "services", "namespace": "{ns}", "name": "s"}}}},
    "servicecidrs.networking.k8s.io": {"plain": {"spec": {"cidrs": ["192.168.{octet}.0/24"]}}},
    "endpointslices.discovery.k8s.io": {"plain": {"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"]}], "ports": [{"port": 80}]}},
    "events.events.k8s.io": {"plain": {"eventTime": "2024-01-01T00:00:00.000000Z", "reportingController": "example.com/c",
                                       "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal",
                                       "regarding": {"namespace": "{ns}", "kind": "Pod", "name": "p"}}},
    "leases.coordination.k8s.io": {"plain": {"spec": {"holderIdentity": "h", "leaseDurationSeconds": 10}}},
    "roles.rbac.authorization.k8s.io": {"plain": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}},
    "clusterroles.rbac.authorization.k8s.io": {
        "plain": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
        "urls": {"rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]},
        "aggregated": {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"never": "matches"}}]}},
    },
    "rolebindings.rbac.authorization.k8s.io": {"plain": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "n"}, {"kind": "User", "name": "u"}]}},
    "clusterrolebindings.rbac.authorization.k8s.io": {"plain": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "Group", "name": "g"}]}},
    "priorityclasses.scheduling.k8s.io": {"plain": {"value": 7}},
    "runtimeclasses.node.k8s.io": {"plain": {"handler": "h"},
                                   "scheduled": {"handler": "h", "overhead": {"podFixed": {"cpu": "1"}}, "scheduling": {
                                       "nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]}}},
    "storageclasses.storage.k8s.io": {"plain": {"provisioner": "example.com/p", "parameters": {"a": "b"}}},
    "csidrivers.storage.k8s.io": {"plain": {"spec": {"tokenRequests": [{"audience": "a"}]}}},
    "csinodes.storage.k8s.io": {"plain": {"spec": {"drivers": [{"name": "d.example.com", "nodeID": "n", "topologyKeys": ["k"]}]}}},
    "csistoragecapacities.storage.k8s.io": {"plain": {"storageClassName": "s", "capacity": "1Gi"}},
    "volumeattachments.storage.k8s.io": {"plain": {"spec": {"attacher": "a.example.com", "nodeName": "n", "source": {"persistentVolumeName": "p"}}}},
    "volumeattributesclasses.storage.k8s.io": {"plain": {"driverName": "d.example.com", "parameters": {"a": "b"}}},
    "apiservices.apiregistration.k8s.io": {
        "plain": {"metadata": {"name": "v1.{id}.example.com"}, "spec": {
            "group": "{id}.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "service": {"name": "s", "namespace": "n"}, "insecureSkipTLSVerify": True}},
    },
    "flowschemas.flowcontrol.apiserver.k8s.io": {"plain": {"spec": {
        "priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": 9999, "rules": [
            {"subjects": [{"kind": "User", "user": {"name": "u"}}],
             "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["n"]}]}]}}},
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": {
        "plain": {"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 1, "limitResponse": {
            "type": "Queue", "queuing": {"queues": 8, "handSize": 2, "queueLengthLimit": 5}}}}},
        "exempt": {"spec": {"type": "Exempt"}}},
    "validatingwebhookconfigurations.admissionregistration.k8s.io": {"plain": {"webhooks": [WEBHOOK]}},
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": {"plain": {"webhooks": [WEBHOOK]}},
    "validatingadmissionpolicies.admissionregistration.k8s.io": {"plain": {"spec": {
        "matchConstraints": MATCH, "validations": [{"expression": "object.spec.x == 1"}]}}},
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": {"plain": {"spec": {"policyName": "p", "validationActions": ["Deny"]}}},
    "mutatingadmissionpolicies.admissionregistration.k8s.io": {"plain": {"spec": {
        "matchConstraints": MATCH, "reinvocationPolicy": "Never", "mutations": [
            {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: \"add\", path: \"/x\", value: 1}]"}}]}}},
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": {"plain": {"spec": {"policyName": "p"}}},
    "resourceclaims.resource.k8s.io": {"plain": {"spec": {"devices": {"requests": [
        {"name": "r", "exactly": {"deviceClassName": "c.example.com"}}]}}}},
    "resourceclaimtemplates.resource.k8s.io": {"plain": {"spec": {"spec": {"devices": {"requests": [
        {"name": "r", "exactly": {"deviceClassName": "c.example.com"}}]}}}}},
    "deviceclasses.resource.k8s.io": {"plain": {"spec": {"selectors": [{"cel": {"expression": "true"}}]}}},
    "resourceslices.resource.k8s.io": {"plain": {"spec": {
        "driver": "d.example.com", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "x", "attributes": {"a": {"bool": True}}, "capacity": {"m": {"value": "1Gi"}}}]}}},
    "certificatesigningrequests.certificates.k8s.io": {"plain": {"spec": {
        "request": SIGNING_REQUEST, "signerName": "example.com/s", "usages": ["digital signature"]}}},
    "customresourcedefinitions.apiextensions.k8s.io": {"plain": {
        "metadata": {"name": "things.{id}.example.com"}, "spec": {
            "group": "{id}.example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}},
}
