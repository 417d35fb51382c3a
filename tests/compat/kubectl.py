"""kubectl against the server: the commands of users, and their output.

kubectl speaks HTTP/2; the same cases run again over HTTP/1.1.
"""

import base64
import contextlib
import json
import os
import queue
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request

from cases import TOKEN, URL, WAIT_SECONDS, Api, Failed, Suite, equal, has, lacks, matches, until

COMMAND_SECONDS = 60
REMARK = "HTTP2 has been explicitly disabled"  # which it always makes over HTTP/1.1
CASES_AT_A_TIME = 4


class Kubectl:
    """kubectl as one case uses it: with a folder and a namespace of its own."""

    def __init__(self, namespace: str, folder: str, env: dict):
        self.namespace, self.folder = namespace, folder
        self.env = {**os.environ, **env}
        self.api = Api()

    def command(self, line: str) -> list:
        return [program(), "--namespace", self.namespace, *shlex.split(line)]

    def run(self, line: str, text: str = "", env: dict = {}) -> subprocess.CompletedProcess:
        done = subprocess.run(self.command(line), cwd=self.folder, env={**self.env, **env}, input=text,
                              capture_output=True, text=True, timeout=COMMAND_SECONDS)
        done.stderr = "".join(line for line in done.stderr.splitlines(True) if REMARK not in line)
        return done

    def __call__(self, line: str, text: str = "", env: dict = {}) -> str:
        """Its standard output. `text` is its input."""
        done = self.run(line, text, env)
        if done.returncode != 0:
            raise Failed(f"kubectl {line}\nended with code {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def fails(self, line: str, text: str = "", code: int = 1) -> str:
        """Its error when it does not succeed."""
        done = self.run(line, text)
        if done.returncode != code:
            raise Failed(f"kubectl {line}\nended with code {done.returncode}, not {code}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def document(self, line: str) -> dict:
        return json.loads(self(f"{line} -o json"))

    def value(self, what: str, path: str) -> str:
        return self(f"get {what} -o jsonpath={{{path}}}")

    @contextlib.contextmanager
    def started(self, line: str):
        """kubectl, while it runs."""
        running = Running(subprocess.Popen(self.command(line), cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        try:
            yield running
        finally:
            running.process.kill()
            running.process.wait()

    def file(self, name: str, text: str) -> str:
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return name

    def path(self, resource: str, group: str = "api/v1") -> str:
        return f"/{group}/namespaces/{self.namespace}/{resource}"


class Running:
    def __init__(self, process: subprocess.Popen):
        self.process = process
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            if REMARK not in line:
                self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def line(self, *parts: str) -> str:
        """The next line; the parts stand in it."""
        try:
            line = self.lines.get(timeout=WAIT_SECONDS)
        except queue.Empty:
            raise Failed(f"no line came within {WAIT_SECONDS} s; wanted {parts}") from None
        if line is None:
            raise Failed(f"kubectl ended; wanted a line with {parts}")
        has(line, *parts)
        return line

    def ends(self, code: int = 0) -> str:
        """The rest of its output until it ends."""
        try:
            got = self.process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"still running after {WAIT_SECONDS} s") from None
        text = "\n".join(iter(lambda: self.lines.get(timeout=WAIT_SECONDS), None))
        if got != code:
            raise Failed(f"ended with code {got}, not {code}: {text}")
        return text


def program() -> str:
    path = os.environ.get("KUBECTL_BIN") or shutil.which("kubectl")
    if not path:
        raise SystemExit('there is no kubectl: eval "$(scripts/fetch-tools)", or set KUBECTL_BIN')
    return path


suite = Suite("kubectl")
case = suite.case

CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web}}
data: {colour: blue, size: "1"}
"""

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: server, image: "nginx:1", ports: [{containerPort: 80}]}
      - {name: helper, image: "busybox:1"}
"""

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web-0, labels: {app: web}}
spec: {containers: [{name: server, image: "nginx:1"}]}
"""


def rows(text: str) -> list:
    return [line.split() for line in text.splitlines()]


# Connections and protocols.

@case
def it_speaks_the_version_of_HTTP_that_this_run_is_about(kubectl):
    spoken = kubectl.run("get ns default", env={"GODEBUG": "http2debug=1"}).stderr
    equal("http2: Transport" in spoken, "DISABLE_HTTP2" not in kubectl.env)


@case
def cluster_info_and_version_name_the_server(kubectl):
    has(kubectl("cluster-info"), "Kubernetes control plane", URL)
    matches(kubectl("version"), r"^Server Version: v1\.36\.\d+")
    has(kubectl(f"cluster-info dump --namespaces {kubectl.namespace}"), '"kind": "NodeList"')


@case
def whoami_and_can_i_answer_for_the_admin_and_for_another(kubectl):
    has(kubectl("auth whoami"), "Username", "admin", "Groups", "system:masters")
    has(kubectl("auth whoami --as bob --as-group dev"), "bob", "dev")
    equal(kubectl("auth can-i create pods"), "yes\n")
    equal(kubectl("auth can-i '*' '*' --all-namespaces"), "yes\n")
    has(kubectl("auth can-i --list"), "Resources", "*.*", "[*]")


@case
def a_token_for_a_service_account_logs_in_as_it(kubectl):
    kubectl("create sa robot")
    token = kubectl("create token robot --duration 1h").strip()
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    equal(claims["sub"], f"system:serviceaccount:{kubectl.namespace}:robot")
    equal(claims["exp"] - claims["iat"], 3600)
    plain = f"--server {URL} --insecure-skip-tls-verify"
    nobody = {"KUBECONFIG": "/dev/null"}
    has(kubectl(f"auth whoami {plain} --token {token}", env=nobody), claims["sub"], "system:serviceaccounts")
    kubectl("delete sa robot")
    refused = kubectl.run(f"get cm {plain} --token {token}", env=nobody)
    has(refused.stderr, "error: You must be logged in to the server (Unauthorized)")


@case
def api_resources_and_api_versions_list_what_is_served(kubectl):
    versions = kubectl("api-versions").split()
    equal([v for v in ["v1", "apps/v1", "batch/v1", "rbac.authorization.k8s.io/v1"] if v not in versions], [])
    everything = kubectl("api-resources")
    matches(everything, r"^configmaps +cm +v1 +true +ConfigMap$")
    matches(everything, r"^deployments +deploy +apps/v1 +true +Deployment$")
    lacks(kubectl("api-resources --namespaced=false"), "ConfigMap")
    equal(sorted(row[0] for row in rows(kubectl("api-resources --api-group=apps --no-headers"))),
          ["controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"])
    has(kubectl("api-resources --api-group= -o wide"), "pods", "create,delete,deletecollection,get,list,patch,update,watch", "all")


@case
def explain_describes_fields(kubectl):
    has(kubectl("explain pod"), "KIND:       Pod", "VERSION:    v1", "DESCRIPTION:", "FIELDS:", "spec\t<PodSpec>")
    has(kubectl("explain pod.spec.containers"), "FIELD: containers <[]Container>", "image\t<string>",
        "name\t<string> -required-")
    has(kubectl("explain deploy --recursive"), "GROUP:      apps", "  strategy\t<DeploymentStrategy>",
        "    rollingUpdate\t<RollingUpdateDeployment>", "      maxSurge\t<IntOrString>")
    has(kubectl("explain hpa --api-version=autoscaling/v1"), "VERSION:    v1", "spec\t<HorizontalPodAutoscalerSpec>")
    has(kubectl.fails("explain pod.spec.nothing"), 'field "nothing" does not exist')
    has(kubectl.fails("explain nothing"), 'the server doesn\'t have a resource type "nothing"')


@case
def a_proxy_passes_lists_and_watches_on(kubectl):
    with kubectl.started("proxy --port 0") as proxy:
        url = "http://" + proxy.line("Starting to serve on").split()[-1]
        configs = f"{url}{kubectl.path('configmaps')}"
        with urllib.request.urlopen(f"{configs}?watch=true&timeoutSeconds=20", timeout=WAIT_SECONDS) as watch:
            kubectl("create cm a")
            event = json.loads(watch.readline())
            equal((event["type"], event["object"]["metadata"]["name"]), ("ADDED", "a"))
        with urllib.request.urlopen(configs, timeout=WAIT_SECONDS) as answer:
            equal(json.load(answer)["kind"], "ConfigMapList")


# Reading.

@case
def get_prints_a_table(kubectl):
    kubectl("create cm a --from-literal=x=1")
    kubectl("create cm b")
    header, first, second = rows(kubectl("get cm"))
    equal(header, ["NAME", "DATA", "AGE"])
    equal([first[:2], second[:2]], [["a", "1"], ["b", "0"]])
    matches(first[2], r"^\d+s$")


@case
def get_says_when_there_is_nothing(kubectl):
    done = kubectl.run("get cm")
    equal((done.returncode, done.stdout, done.stderr), (0, "", f"No resources found in {kubectl.namespace} namespace.\n"))
    equal(kubectl.fails("get cm a"), 'Error from server (NotFound): configmaps "a" not found\n')
    equal(kubectl("get cm a --ignore-not-found"), "")


@case
def get_wide_shows_more_columns(kubectl):
    kubectl("apply -f -", DEPLOYMENT)
    header, web = rows(kubectl("get deploy -o wide"))
    equal(header, ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"])
    equal([web[:4], web[5:]], [["web", "0/2", "0", "0"], ["server,helper", "nginx:1,busybox:1", "app=web"]])
    kubectl("apply -f -", POD)
    kubectl("patch pod web-0 --subresource=status --type=merge -p "
            """'{"status":{"phase":"Running","podIP":"10.1.2.3","podIPs":[{"ip":"10.1.2.3"}],"containerStatuses":
            [{"name":"server","ready":true,"restartCount":3,"image":"nginx:1","imageID":"","state":{"running":{}}}]}}'""")
    header, pod = rows(kubectl("get pod -o wide"))
    equal(header[:5] + header[5:7], ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"])
    equal(pod[:4] + pod[5:7], ["web-0", "1/1", "Running", "3", "10.1.2.3", "<none>"])


@case
def get_prints_objects_in_the_form_that_is_asked_for(kubectl):
    kubectl("create -f -", CONFIG)
    document = kubectl.document("get cm settings")
    equal((document["kind"], document["apiVersion"], document["data"]), ("ConfigMap", "v1", {"colour": "blue", "size": "1"}))
    has(kubectl("get cm settings -o yaml"), "apiVersion: v1\ndata:\n  colour: blue\n", "kind: ConfigMap\n", "uid: ")
    equal(kubectl("get cm settings -o name"), "configmap/settings\n")
    equal(kubectl("get cm settings -o jsonpath={.data.colour}"), "blue")
    equal(kubectl("get cm settings -o 'go-template={{.data.size}}'"), "1")
    equal(rows(kubectl("get cm -o custom-columns=N:.metadata.name,C:.data.colour")), [["N", "C"], ["settings", "blue"]])
    equal(kubectl.document("get cm")["kind"], "List")


@case
def get_selects_by_label_and_by_field(kubectl):
    for name in "abc":
        kubectl(f"create cm {name}")
    kubectl("label cm a b app=web")
    kubectl("label cm b tier=back")
    names = lambda flags: kubectl(f"get cm {flags} -o name").replace("configmap/", "").split()
    equal(names("-l app=web"), ["a", "b"])
    equal(names("-l app=web,tier!=back"), ["a"])
    equal(names("-l 'app in (web,db),!tier'"), ["a"])
    equal(names("--field-selector metadata.name=c"), ["c"])
    equal(names("--field-selector metadata.name!=c -l app"), ["a", "b"])
    has(kubectl("get cm --show-labels"), "LABELS", "app=web,tier=back", "<none>")
    equal([row[3:] for row in rows(kubectl("get cm -L app"))], [["APP"], ["web"], ["web"], []])
    has(kubectl.fails("get cm --field-selector data.x=1"), "(BadRequest)", '"data.x" is not a known field selector')


@case
def get_reads_several_kinds_and_all_namespaces(kubectl):
    kubectl("create cm a")
    kubectl("create secret generic a")
    equal(kubectl("get cm,secret -o name").split(), ["configmap/a", "secret/a"])
    equal(kubectl("get cm/a secret/a -o name").split(), ["configmap/a", "secret/a"])
    matches(kubectl("get cm -A"), rf"^{kubectl.namespace} +a +0 ")
    kubectl("apply -f -", DEPLOYMENT)
    has(kubectl("get all"), "deployment.apps/web")


@case
def get_reads_a_long_list_in_pages(kubectl):
    for number in range(25):
        kubectl.api("POST", kubectl.path("configmaps"), {"metadata": {"name": f"c{number:02}"}})
    talk = kubectl.run("get cm --chunk-size 10 -o name -v 8")
    equal(len(talk.stdout.split()), 25)
    asked = [line for line in talk.stderr.splitlines() if "GET " in line and "limit=10" in line]
    equal([("continue=" in line) for line in asked], [False, True, True])


@case
def get_sorts_and_prints_what_the_server_sends_raw(kubectl):
    for name, order in [("a", 2), ("b", 1)]:
        kubectl(f"create cm {name} --from-literal=order={order}")
    equal(kubectl("get cm --sort-by {.data.order} -o name").split(), ["configmap/b", "configmap/a"])
    equal(kubectl("get --raw /healthz"), "ok")
    has(kubectl("get --raw /metrics"), "# HELP", "# TYPE")
    equal(json.loads(kubectl("get --raw /version"))["major"], "1")
    equal(json.loads(kubectl(f"get --raw {kubectl.path('configmaps/a')}"))["data"], {"order": "2"})
    has(kubectl.fails("get --raw /nothing"), "Error from server (NotFound): the server could not find the requested resource")


@case
def get_watch_prints_each_change_as_a_row(kubectl):
    kubectl("create cm a")
    with kubectl.started("get cm --watch --output-watch-events") as watch:
        watch.line("EVENT", "NAME", "DATA", "AGE")
        watch.line("ADDED", "a", "0")
        kubectl("create cm b --from-literal=x=1")
        watch.line("ADDED", "b", "1")
        kubectl("patch cm b --type=merge -p '{\"data\":{\"y\":\"2\"}}'")
        watch.line("MODIFIED", "b", "2")
        kubectl("delete cm b")
        watch.line("DELETED", "b", "2")


@case
def get_watch_prints_objects_and_only_those_selected(kubectl):
    kubectl("create cm old")
    with kubectl.started("get cm --watch-only -l app=web -o name") as watch:
        # The watch begins with the first list: objects that are created before that would not be shown.
        until("the watch has begun", lambda: watches(kubectl) > 0)
        kubectl("create cm other")
        kubectl("create -f -", CONFIG)
        watch.line("configmap/settings")
        kubectl("label cm settings app-")
        watch.line("configmap/settings")
    with kubectl.started("get cm old -w -o 'custom-columns=X:.data.x' --no-headers") as watch:
        watch.line("<none>")
        kubectl("patch cm old --type=merge -p '{\"data\":{\"x\":\"new\"}}'")
        watch.line("new")


def watches(kubectl) -> int:
    """The number of watches on config maps that the server serves."""
    lines = [line for line in kubectl("get --raw /metrics").splitlines()
             if line.startswith("apiserver_longrunning_requests") and 'resource="configmaps"' in line]
    return sum(int(float(line.split()[-1])) for line in lines)


@case
def describe_shows_objects_with_their_events(kubectl):
    kubectl("apply -f -", POD)
    pod = kubectl.document("get pod web-0")
    kubectl.api("POST", kubectl.path("events"), {
        "metadata": {"name": "web-0.1"}, "type": "Warning", "reason": "FailedScheduling", "message": "no nodes",
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "web-0", "namespace": kubectl.namespace,
                           "uid": pod["metadata"]["uid"]}})
    has(kubectl("describe pod web-0"), "Name:", "web-0", "Status:", "Pending", "Image:", "nginx:1", "Events:",
        "FailedScheduling", "no nodes")
    has(kubectl("get events --field-selector involvedObject.name=web-0"), "LAST SEEN", "FailedScheduling", "pod/web-0", "no nodes")
    has(kubectl("events --for pod/web-0"), "FailedScheduling", "Pod/web-0", "no nodes")
    kubectl("apply -f -", DEPLOYMENT)
    has(kubectl("describe deploy web"), "Replicas:", "2 desired", "StrategyType:", "RollingUpdate", "Image:", "busybox:1")
    kubectl("expose deploy web --port 80")
    has(kubectl("describe service web"), "Selector:", "app=web", "Type:", "ClusterIP", "Port:", "80/TCP")
    kubectl("create secret generic s --from-literal=password=hidden")
    described = kubectl("describe secret s")
    has(described, "Opaque", "password:", "6 bytes")
    has(kubectl(f"describe ns {kubectl.namespace}"), "Name:", kubectl.namespace, "Status:", "Active", "No resource quota")
    has(kubectl.fails("describe cm nothing"), '(NotFound): configmaps "nothing" not found')


# Creating.

@case
def create_makes_objects_from_files_folders_and_input(kubectl):
    kubectl.file("two.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n"
                             "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {x: secret}\n")
    equal(kubectl("create -f two.yaml"), "configmap/a created\nsecret/a created\n")
    equal(base64.b64decode(kubectl.value("secret a", ".data.x")), b"secret")
    kubectl.file("folder/one.yaml", CONFIG)
    kubectl.file("folder/two.json", json.dumps({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "b"}}))
    equal(kubectl("create -f folder"), "configmap/settings created\nserviceaccount/b created\n")
    equal(kubectl("create -f -", DEPLOYMENT), "deployment.apps/web created\n")
    equal(kubectl("get -f two.yaml -o name"), "configmap/a\nsecret/a\n")
    matches(kubectl("create -f -", "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: gen-}\n"),
            r"^configmap/gen-[a-z0-9]{5} created$")


@case
def lists_are_taken_as_get_prints_them(kubectl):
    both = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in "ab"]
    kubectl.file("list.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": both}))
    equal(kubectl("create -f list.json --save-config"), "configmap/a created\nconfigmap/b created\n")
    equal(kubectl("apply -f list.json"), "configmap/a unchanged\nconfigmap/b unchanged\n")
    equal(kubectl("replace -f -", kubectl("get cm -o yaml")), "configmap/a replaced\nconfigmap/b replaced\n")


@case
def create_makes_what_its_subcommands_are_for(kubectl):
    kubectl.file("key.txt", "content")
    ns = kubectl.namespace
    for line, made in [
        (f"ns {ns}-other", f"namespace/{ns}-other"),
        ("cm c --from-literal=a=1 --from-file=key.txt", "configmap/c"),
        ("secret generic s --from-literal=a=1", "secret/s"),
        ("secret docker-registry r --docker-server=x --docker-username=u --docker-password=p", "secret/r"),
        ("sa robot", "serviceaccount/robot"),
        ("deploy web --image nginx:1 --replicas 2 --port 80", "deployment.apps/web"),
        ("job once --image busybox:1 -- true", "job.batch/once"),
        ("cronjob often --image busybox:1 --schedule '*/5 * * * *' -- true", "cronjob.batch/often"),
        ("role reader --verb get,list --resource pods,deployments.apps", "role.rbac.authorization.k8s.io/reader"),
        ("rolebinding readers --role reader --serviceaccount " + ns + ":robot", "rolebinding.rbac.authorization.k8s.io/readers"),
        (f"clusterrole {ns} --verb get --resource nodes", f"clusterrole.rbac.authorization.k8s.io/{ns}"),
        (f"clusterrolebinding {ns} --clusterrole {ns} --user bob", f"clusterrolebinding.rbac.authorization.k8s.io/{ns}"),
        ("service clusterip inside --tcp 80:8080", "service/inside"),
        ("service nodeport outside --tcp 80", "service/outside"),
        ("service loadbalancer balanced --tcp 80", "service/balanced"),
        ("service externalname far --external-name example.org", "service/far"),
        ("ingress in --rule example.org/=inside:80", "ingress.networking.k8s.io/in"),
        ("pdb steady --selector app=web --min-available 1", "poddisruptionbudget.policy/steady"),
        ("quota small --hard pods=3", "resourcequota/small"),
        (f"priorityclass {ns} --value 10", f"priorityclass.scheduling.k8s.io/{ns}"),
    ]:
        equal(kubectl(f"create {line}"), f"{made} created\n")
    equal(kubectl.document("get cm c")["data"], {"a": "1", "key.txt": "content"})
    equal(kubectl.document("get role reader")["rules"], [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"]}])
    matches(kubectl.value("service inside", ".spec.clusterIP"), r"^10\.0\.0\.\d+$")
    matches(kubectl.value("service outside", ".spec.ports[0].nodePort"), r"^3\d{4}$")
    equal(kubectl("create job again --from cronjob/often"), "job.batch/again created\n")
    kubectl(f"delete clusterrole,clusterrolebinding,priorityclass {ns}")


@case
def run_and_expose_make_a_pod_and_a_service(kubectl):
    equal(kubectl("run web --image nginx:1 --port 80 --labels app=web --env A=1"), "pod/web created\n")
    equal(kubectl("expose pod web --name front"), "service/front exposed\n")
    equal(kubectl.document("get service front")["spec"]["selector"], {"app": "web"})


@case
def create_twice_is_refused(kubectl):
    kubectl("create cm a")
    equal(kubectl.fails("create cm a"), 'error: failed to create configmap: configmaps "a" already exists\n')
    has(kubectl.fails("create -f -", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
        'Error from server (AlreadyExists): error when creating "STDIN": configmaps "a" already exists')


@case
def a_dry_run_changes_nothing(kubectl):
    has(kubectl("create cm a --dry-run=client -o yaml"), "kind: ConfigMap", "name: a")
    made = json.loads(kubectl("create cm a --dry-run=server -o json"))
    equal(made["metadata"]["namespace"], kubectl.namespace)
    equal(bool(made["metadata"]["uid"]), True)
    equal(kubectl("apply --dry-run=server -f -", CONFIG), "configmap/settings created (server dry run)\n")
    equal(kubectl("get cm -o name"), "")
    kubectl("create cm a")
    equal(kubectl("delete cm a --dry-run=server"), 'configmap "a" deleted (server dry run)\n')
    equal(kubectl("get cm -o name"), "configmap/a\n")


# Changing.

@case
def apply_creates_then_leaves_alone_then_changes_what_differs(kubectl):
    equal(kubectl("apply -f -", CONFIG), "configmap/settings created\n")
    before = kubectl.value("cm settings", ".metadata.resourceVersion")
    equal(kubectl("apply -f -", CONFIG), "configmap/settings unchanged\n")
    equal(kubectl.value("cm settings", ".metadata.resourceVersion"), before)
    kubectl("patch cm settings --type=merge -p '{\"data\":{\"foreign\":\"kept\"}}'")
    equal(kubectl("apply -f -", CONFIG.replace('size: "1"', 'shape: "round"')), "configmap/settings configured\n")
    equal(kubectl.document("get cm settings")["data"], {"colour": "blue", "shape": "round", "foreign": "kept"})
    has(kubectl("apply view-last-applied cm settings"), "shape: round")


@case
def apply_merges_lists_by_their_keys(kubectl):
    kubectl("apply -f -", DEPLOYMENT)
    # Another controller adds a container, which is not the applier's to remove.
    kubectl("patch deploy web -p "
            """'{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"proxy:1"}]}}}}'""")
    changed = DEPLOYMENT.replace("nginx:1", "nginx:2").replace('      - {name: helper, image: "busybox:1"}\n', "")
    equal(kubectl("apply -f -", changed), "deployment.apps/web configured\n")
    containers = kubectl.document("get deploy web")["spec"]["template"]["spec"]["containers"]
    equal(sorted((c["name"], c["image"]) for c in containers), [("server", "nginx:2"), ("sidecar", "proxy:1")])
    equal(kubectl.value("deploy web", ".metadata.generation"), "3")


@case
def apply_takes_over_what_was_created_otherwise(kubectl):
    kubectl("create -f -", CONFIG)
    done = kubectl.run("apply -f -", CONFIG.replace("blue", "red"))
    has(done.stderr, "is missing the kubectl.kubernetes.io/last-applied-configuration annotation")
    equal(done.stdout, "configmap/settings configured\n")
    equal(kubectl.value("cm settings", ".data.colour"), "red")
    kubectl("apply set-last-applied -f -", CONFIG)
    has(kubectl("apply view-last-applied cm settings"), "colour: blue")


@case
def apply_builds_a_kustomization(kubectl):
    kubectl.file("k/base.yaml", CONFIG)
    kubectl.file("k/kustomization.yaml", "resources: [base.yaml]\nnamePrefix: my-\nlabels: [{pairs: {team: a}}]\n")
    equal(kubectl("apply -k k"), "configmap/my-settings created\n")
    equal(kubectl.document("get cm my-settings")["metadata"]["labels"], {"app": "web", "team": "a"})


@case
def diff_shows_what_apply_would_change(kubectl):
    kubectl("apply -f -", CONFIG)
    equal(kubectl("diff -f -", CONFIG), "")
    has(kubectl.fails("diff -f -", CONFIG.replace("blue", "red")), "-  colour: blue", "+  colour: red")
    has(kubectl.fails("diff -f -", DEPLOYMENT), "+kind: Deployment")
    equal(kubectl.value("cm settings", ".data.colour"), "blue")


@case
def patch_takes_json_merge_and_strategic_patches(kubectl):
    kubectl("apply -f -", DEPLOYMENT)
    kubectl("""patch deploy web --type=json -p '[{"op":"test","path":"/spec/replicas","value":2},
            {"op":"replace","path":"/spec/replicas","value":3},{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]'""")
    equal(kubectl.value("deploy web", ".spec.replicas"), "3")
    has(kubectl.fails("""patch deploy web --type=json -p '[{"op":"test","path":"/spec/replicas","value":9}]'"""),
        "The request is invalid: the server rejected our request due to an error in our request")
    equal(kubectl("""patch deploy web -p '{"spec":{"template":{"spec":{"containers":[{"name":"helper","image":"h:2"}]}}}}'"""),
          "deployment.apps/web patched\n")
    images = lambda: kubectl.value("deploy web", ".spec.template.spec.containers[*].image").split()
    equal(sorted(images()), ["h:2", "nginx:1"])
    kubectl("""patch deploy web -p '{"spec":{"template":{"spec":{"containers":[{"name":"helper","$patch":"delete"}]}}}}'""")
    equal(images(), ["nginx:1"])
    kubectl("""patch deploy web --type=merge -p '{"metadata":{"labels":{"a":null}},
            "spec":{"template":{"spec":{"containers":[{"name":"only","image":"o:1"}]}}}}'""")
    equal(images(), ["o:1"])
    equal(kubectl("""patch deploy web --type=merge -p '{"spec":{"replicas":3}}'"""), "deployment.apps/web patched (no change)\n")
    kubectl("""patch deploy web --subresource=status --type=merge -p '{"status":{"replicas":1},"spec":{"replicas":9}}'""")
    equal(kubectl("get deploy web -o jsonpath={.spec.replicas}:{.status.replicas}"), "3:1")


@case
def edit_changes_what_the_editor_wrote(kubectl):
    kubectl("create -f -", CONFIG)
    equal(kubectl("edit cm settings", env={"KUBE_EDITOR": "sed -i s/blue/green/"}), "configmap/settings edited\n")
    equal(kubectl.value("cm settings", ".data.colour"), "green")
    has(kubectl.run("edit cm settings", env={"KUBE_EDITOR": "true"}).stderr, "Edit cancelled, no changes made.")


@case
def replace_puts_a_whole_object_unless_it_changed(kubectl):
    kubectl("create -f -", CONFIG)
    stale = kubectl("get cm settings -o json")
    equal(kubectl("replace -f -", CONFIG.replace('size: "1"', "a: b")), "configmap/settings replaced\n")
    equal(kubectl.document("get cm settings")["data"], {"colour": "blue", "a": "b"})
    has(kubectl.fails("replace -f -", stale), "(Conflict)", "the object has been modified; please apply your changes to the latest version")
    uid = kubectl.value("cm settings", ".metadata.uid")
    has(kubectl("replace --force -f -", CONFIG), "deleted", "replaced")
    equal(kubectl.value("cm settings", ".metadata.uid") != uid, True)
    has(kubectl.fails("replace -f -", POD), '(NotFound)', 'pods "web-0" not found')


@case
def label_and_annotate_add_change_and_remove(kubectl):
    for name in "ab":
        kubectl(f"create cm {name}")
    for verb, field, done in [("label", "labels", "labeled"), ("annotate", "annotations", "annotated")]:
        equal(kubectl(f"{verb} cm a example.org/x=1 y=2"), f"configmap/a {done}\n")
        equal(kubectl.document("get cm a")["metadata"][field], {"example.org/x": "1", "y": "2"})
        has(kubectl.fails(f"{verb} cm a y=3"), "--overwrite is false")
        equal(kubectl(f"{verb} cm a y=3 --overwrite example.org/x-").split()[-1] in ("labeled", "annotated", "unlabeled"), True)
        equal(kubectl.document("get cm a")["metadata"][field], {"y": "3"})
        equal(kubectl(f"{verb} cm --all z=1").count(done), 2)
        equal(sorted(kubectl(f"{verb} cm a --list").split()), ["y=3", "z=1"])
    equal(kubectl("label cm -l y=3 w=1"), "configmap/a labeled\n")
    has(kubectl.fails("label cm a 'x=not a label'"), "a valid label must be")


@case
def scale_and_autoscale_change_the_number_of_replicas(kubectl):
    kubectl("apply -f -", DEPLOYMENT)
    equal(kubectl("scale deploy web --replicas 5"), "deployment.apps/web scaled\n")
    equal(kubectl.value("deploy web", ".spec.replicas"), "5")
    has(kubectl.fails("scale deploy web --current-replicas 4 --replicas 6"), "Expected replicas to be 4, was 5")
    kubectl("patch deploy web --subresource=scale --type=merge -p '{\"spec\":{\"replicas\":1}}'")
    equal(kubectl("get deploy web --subresource=scale -o jsonpath={.kind}:{.spec.replicas}"), "Scale:1")
    kubectl("autoscale deploy web --min 1 --max 3 --cpu-percent 50")
    equal(kubectl("get hpa web -o jsonpath={.apiVersion}:{.spec.maxReplicas}:{.spec.metrics[0].resource.target.averageUtilization}"),
          "autoscaling/v2:3:50")
    equal(kubectl("get horizontalpodautoscalers.v1.autoscaling web -o jsonpath={.apiVersion}:{.spec.targetCPUUtilizationPercentage}"), "autoscaling/v1:50")


@case
def set_changes_images_environments_and_resources(kubectl):
    kubectl("apply -f -", DEPLOYMENT)
    kubectl("set image deploy/web server=nginx:9")
    kubectl("set env deploy/web -c helper COLOUR=blue")
    kubectl("set resources deploy/web -c server --limits cpu=200m,memory=1Gi")
    kubectl("set serviceaccount deploy/web robot")
    template = kubectl.document("get deploy web")["spec"]["template"]["spec"]
    server, helper = template["containers"]
    equal((server["image"], server["resources"]["limits"]), ("nginx:9", {"cpu": "200m", "memory": "1Gi"}))
    equal((helper["env"], template["serviceAccountName"]), ([{"name": "COLOUR", "value": "blue"}], "robot"))


@case
def rollout_status_follows_the_status_of_a_deployment(kubectl):
    kubectl("apply -f -", DEPLOYMENT)
    status = lambda **fields: kubectl.api.merge(
        kubectl.path("deployments/web/status", "apis/apps/v1"), {"status": {"observedGeneration": 1, **fields}})
    with kubectl.started("rollout status deploy/web --timeout 60s") as rollout:
        rollout.line("Waiting for deployment spec update to be observed")
        status(replicas=1, updatedReplicas=1)
        rollout.line("1 out of 2 new replicas have been updated")
        status(replicas=2, updatedReplicas=2, availableReplicas=1, readyReplicas=1)
        rollout.line("1 of 2 updated replicas are available")
        status(replicas=2, updatedReplicas=2, availableReplicas=2, readyReplicas=2)
        rollout.line('deployment "web" successfully rolled out')
        rollout.ends()
    header, web = rows(kubectl("get deploy web"))
    equal(web[:4], ["web", "2/2", "2", "2"])


@case
def rollout_pauses_resumes_restarts_and_goes_back(kubectl):
    kubectl("apply -f -", DEPLOYMENT)
    equal(kubectl("rollout pause deploy/web"), "deployment.apps/web paused\n")
    equal(kubectl.value("deploy web", ".spec.paused"), "true")
    has(kubectl.fails("rollout pause deploy/web"), "is already paused")
    equal(kubectl("rollout resume deploy/web"), "deployment.apps/web resumed\n")
    equal(kubectl("rollout restart deploy/web"), "deployment.apps/web restarted\n")
    has(kubectl.value("deploy web", ".spec.template.metadata.annotations"), "kubectl.kubernetes.io/restartedAt")
    has(kubectl.fails("rollout undo deploy/web"), "no rollout history found")
    web = kubectl.document("get deploy web")
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": web["metadata"]["uid"], "controller": True}
    for revision, image in [("1", "nginx:0"), ("2", "nginx:1")]:
        template = {"metadata": {"labels": {"app": "web", "pod-template-hash": revision}},
                    "spec": {"containers": [{"name": "server", "image": image}]}}
        kubectl.api("POST", kubectl.path("replicasets", "apis/apps/v1"), {
            "metadata": {"name": f"web-{revision}", "labels": {"app": "web"}, "ownerReferences": [owner],
                         "annotations": {"deployment.kubernetes.io/revision": revision}},
            "spec": {"selector": {"matchLabels": template["metadata"]["labels"]}, "template": template}})
    has(kubectl("rollout history deploy/web"), "REVISION", "1", "2")
    equal(kubectl("rollout undo deploy/web --to-revision 1"), "deployment.apps/web rolled back\n")
    equal(kubectl.value("deploy web", ".spec.template.spec.containers[*].image"), "nginx:0")


@case
def wait_ends_when_the_condition_holds(kubectl):
    kubectl("apply -f -", DEPLOYMENT)
    with kubectl.started("wait deploy/web --for condition=Available --timeout 60s") as wait:
        kubectl.api.merge(kubectl.path("deployments/web/status", "apis/apps/v1"),
                          {"status": {"conditions": [{"type": "Available", "status": "True"}]}})
        wait.line("deployment.apps/web condition met")
        wait.ends()
    kubectl("create -f -", CONFIG)
    with kubectl.started("wait cm/settings --for jsonpath={.data.colour}=red --timeout 60s") as wait:
        kubectl("patch cm settings --type=merge -p '{\"data\":{\"colour\":\"red\"}}'")
        wait.line("configmap/settings condition met")
        wait.ends()
    with kubectl.started("wait cm/settings --for delete --timeout 60s") as wait:
        kubectl("delete cm settings")
        wait.ends()
    with kubectl.started("wait cm/settings --for create --timeout 60s") as wait:
        kubectl("create -f -", CONFIG)
        wait.line("configmap/settings condition met")
        wait.ends()
    has(kubectl.fails("wait cm/settings --for jsonpath={.data.colour}=black --timeout 1s"),
        "timed out waiting for the condition on configmaps/settings")


# Deleting.

@case
def delete_removes_by_name_label_file_and_all(kubectl):
    for name in "abcde":
        kubectl(f"create cm {name}")
    kubectl("label cm c d group=1")
    equal(kubectl("delete cm a b"), 'configmap "a" deleted\nconfigmap "b" deleted\n')
    equal(kubectl("delete cm -l group=1"), 'configmap "c" deleted\nconfigmap "d" deleted\n')
    kubectl.file("e.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: e}\n")
    equal(kubectl("delete -f e.yaml"), 'configmap "e" deleted\n')
    kubectl("create cm f")
    equal(kubectl("delete cm --all"), 'configmap "f" deleted\n')
    equal(kubectl("get cm -o name"), "")
    has(kubectl.fails("delete cm f"), '(NotFound): configmaps "f" not found')
    equal(kubectl("delete cm f --ignore-not-found"), "")


@case
def delete_waits_for_finalizers_unless_told_not_to(kubectl):
    kubectl("create -f -", CONFIG.replace("labels:", "finalizers: [example.org/hold], labels:"))
    equal(kubectl("delete cm settings --wait=false"), 'configmap "settings" deleted\n')
    equal(bool(kubectl.value("cm settings", ".metadata.deletionTimestamp")), True)
    has(kubectl.fails("delete cm settings --timeout 1s"), "timed out waiting for the condition on configmaps/settings")
    with kubectl.started("delete cm settings") as delete:
        delete.line('configmap "settings" deleted')
        kubectl("patch cm settings --type=json -p '[{\"op\":\"remove\",\"path\":\"/metadata/finalizers\"}]'")
        delete.ends()
    equal(kubectl("get cm -o name"), "")


@case
def delete_says_what_becomes_of_dependents(kubectl):
    for cascade, finalizers in [("orphan", ["orphan"]), ("foreground", ["foregroundDeletion"])]:
        kubectl("create -f -", DEPLOYMENT)
        kubectl(f"delete deploy web --cascade={cascade} --wait=false")
        # Without a garbage collector the finalizer stays: it is that controller's to take away.
        equal(kubectl.document("get deploy web")["metadata"]["finalizers"], finalizers)
        kubectl("patch deploy web --type=merge -p '{\"metadata\":{\"finalizers\":null}}'")
        equal(kubectl("get deploy -o name"), "")
    kubectl("create -f -", DEPLOYMENT)
    kubectl("delete deploy web --cascade=background")
    equal(kubectl("get deploy -o name"), "")


@case
def delete_gives_a_pod_on_a_node_its_grace(kubectl):
    kubectl("create -f -", POD.replace("spec: {", "spec: {nodeName: somewhere, "))
    kubectl("delete pod web-0 --wait=false --grace-period 20")
    equal(kubectl.value("pod web-0", ".metadata.deletionGracePeriodSeconds"), "20")
    equal(rows(kubectl("get pod web-0"))[1][2], "Terminating")
    has(kubectl("delete pod web-0 --grace-period 0 --force"), 'pod "web-0" force deleted')
    equal(kubectl("get pod -o name"), "")


@case
def delete_of_a_namespace_takes_everything_in_it(kubectl):
    other = f"{kubectl.namespace}-gone"
    kubectl(f"create ns {other}")
    kubectl(f"create cm a -n {other}")
    kubectl(f"create deploy web --image nginx:1 -n {other}")
    equal(kubectl(f"delete ns {other}"), f'namespace "{other}" deleted\n')
    has(kubectl.fails(f"get ns {other}"), f'namespaces "{other}" not found')
    kubectl(f"create ns {other}")
    equal(kubectl(f"get cm,deploy -n {other} -o name"), "")


# Nodes.

@case
def nodes_are_cordoned_tainted_and_drained(kubectl):
    node = f"node-{kubectl.namespace}"
    kubectl("create -f -", f"apiVersion: v1\nkind: Node\nmetadata: {{name: {node}}}\n")
    kubectl("create -f -", POD.replace("spec: {", f"spec: {{nodeName: {node}, terminationGracePeriodSeconds: 0, "))
    equal(kubectl(f"cordon {node}"), f"node/{node} cordoned\n")
    has(kubectl("get nodes"), node, "SchedulingDisabled")
    has(kubectl(f"drain {node} --force --timeout 60s"), f"evicting pod {kubectl.namespace}/web-0", "pod/web-0 evicted", "drained")
    equal(kubectl("get pod -o name"), "")
    equal(kubectl(f"uncordon {node}"), f"node/{node} uncordoned\n")
    equal(kubectl(f"taint node {node} dedicated=db:NoSchedule"), f"node/{node} tainted\n")
    has(kubectl(f"describe node {node}"), "Taints:", "dedicated=db:NoSchedule")
    kubectl(f"taint node {node} dedicated-")
    kubectl(f"delete node {node}")


# Kinds that users define.

def definition(group: str, word: str) -> str:
    """Of boats, whose names in commands begin with a word, so that cases do not mix them up."""
    return f"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {word}boats.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: {word}boats, singular: {word}boat, kind: Boat, shortNames: [{word}bt], categories: [{word}fleet]}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {{status: {{}}, scale: {{specReplicasPath: .spec.crew, statusReplicasPath: .status.crew}}}}
    additionalPrinterColumns:
    - {{name: Crew, type: integer, jsonPath: .spec.crew}}
    - {{name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}}
    - {{name: Colour, type: string, priority: 1, jsonPath: .spec.colour}}
    selectableFields: [{{jsonPath: .spec.colour}}]
    schema:
      openAPIV3Schema:
        type: object
        description: A boat and who sails it.
        properties:
          spec:
            type: object
            required: [crew]
            properties:
              crew: {{type: integer, minimum: 1, description: How many sail it.}}
              colour: {{type: string, default: blue}}
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
"""


def boat(group: str, name: str, more: str = "crew: 2") -> str:
    return f"---\napiVersion: {group}/v1\nkind: Boat\nmetadata: {{name: {name}}}\nspec: {{{more}}}\n"


@case
def a_defined_kind_is_used_like_any_other(kubectl):
    group, word = f"{kubectl.namespace}.example.com", "x" + "".join(filter(str.isalnum, kubectl.namespace))
    boats, boat_ = f"{word}boats", f"{word}boat"
    kubectl("apply -f -", definition(group, word))
    kubectl(f"wait --for=condition=Established crd/{boats}.{group} --timeout=20s")
    has(kubectl("apply -f -", boat(group, "a") + boat(group, "b", "crew: 3, colour: red")), f"boat.{group}/a created",
        f"boat.{group}/b created")
    equal(rows(kubectl(f"get {word}bt")), [["NAME", "CREW", "READY"], ["a", "2"], ["b", "3"]])
    equal(rows(kubectl(f"get {boats} -o wide --no-headers")), [["a", "2", "blue"], ["b", "3", "red"]])
    has(kubectl(f"get {word}fleet"), "a")
    equal(rows(kubectl(f"get {boats} --field-selector spec.colour=red --no-headers")), [["b", "3"]])
    has(kubectl(f"api-resources --api-group={group}"), boats, f"{word}bt", f"{group}/v1", "Boat")
    has(kubectl(f"explain {boats}.spec"), f"GROUP:      {group}", "KIND:       Boat", "colour\t<string>",
        "crew\t<integer> -required-", "How many sail it.")
    has(kubectl(f"describe {boat_} a"), "Colour:  blue", "Crew:    2")
    has(kubectl(f"scale {boat_} a --replicas=5"), f"boat.{group}/a scaled")
    equal(kubectl(f"get {boat_} a -o jsonpath={{.spec.crew}}"), "5")
    kubectl(f"patch {boat_} a --subresource=status --type=merge -p "
            '\'{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}\'')
    kubectl(f"wait --for=condition=Ready {boat_}/a --timeout=20s")
    equal(rows(kubectl(f"get {boat_} a --no-headers")), [["a", "5", "True"]])
    kubectl(f"label {boat_} a wind=east")
    has(kubectl.fails("apply -f -", boat(group, "c", "crew: 0")), "should be greater than or equal to 1")
    has(kubectl.fails("apply -f -", boat(group, "c", "crew: 1, sail: big")), 'unknown field "spec.sail"')
    kubectl(f"delete crd {boats}.{group}")
    until("the kind is gone", lambda: boats not in kubectl(f"api-resources --api-group={group}"))


@case
def a_definition_and_its_objects_come_in_one_file(kubectl):
    group, word = f"one.{kubectl.namespace}.example.com", "y" + "".join(filter(str.isalnum, kubectl.namespace))
    boats, boat_ = f"{word}boats", f"{word}boat"
    kubectl("create -f -", definition(group, word))
    until("the kind is served", lambda: kubectl.run("create -f -", boat(group, "a")).returncode == 0)
    # kubectl itself looks up the kind of each document before it sends the first, so it succeeds the second time.
    kubectl("apply -f -", definition(group, word) + boat(group, "a", "crew: 4"))
    equal(kubectl(f"get {boats} a -o jsonpath={{.spec.crew}}"), "4")
    kubectl("delete -f -", definition(group, word))


# Mistakes of users.

@case
def what_does_not_exist_is_named(kubectl):
    equal(kubectl.fails("get nothing"), 'error: the server doesn\'t have a resource type "nothing"\n')
    has(kubectl.fails("create -f -", "apiVersion: v9\nkind: Nothing\nmetadata: {name: a}\n"),
        'no matches for kind "Nothing" in version "v9"')
    has(kubectl.fails("get pod.v9.example.org"), "the server doesn't have a resource type")
    has(kubectl.fails("create cm a -n nowhere"), 'namespaces "nowhere" not found')
    has(kubectl.fails("patch cm nothing -p '{}'"), 'configmaps "nothing" not found')


@case
def what_cannot_be_read_is_refused(kubectl):
    has(kubectl.fails("create -f -", "a: [b"), "error converting YAML to JSON")
    has(kubectl.fails("create -f -", CONFIG + "nothing: 1\n"), '(BadRequest)', 'strict decoding error: unknown field "nothing"')
    has(kubectl.fails("create -f -", DEPLOYMENT.replace("replicas: 2", "replicas: two")), "(BadRequest)", "cannot be handled as a Deployment")
    has(kubectl.fails("get cm -l 'a=(b'"), "unable to parse requirement")
    warned = kubectl.run("create --validate=warn -f -", CONFIG + "nothing: 1\n")
    equal((warned.returncode, warned.stdout), (0, "configmap/settings created\n"))
    has(warned.stderr, 'Warning: unknown field "nothing"')


@case
def what_is_not_valid_is_explained(kubectl):
    has(kubectl.fails("create cm Wrong_Name"), 'ConfigMap "Wrong_Name" is invalid', "metadata.name: Invalid value", "lowercase RFC 1123 subdomain")
    has(kubectl.fails("create -f -", POD.replace("image:", "imagePullPolicy: Sometimes, image:")),
        'The Pod "web-0" is invalid: spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes"')
    has(kubectl.fails("create -f -", DEPLOYMENT.replace("labels: {app: web}", "labels: {app: db}")),
        'The Deployment "web" is invalid', "`selector` does not match template `labels`")
    kubectl("create -f -", POD)
    has(kubectl.fails("""patch pod web-0 -p '{"spec":{"nodeSelector":{"a":"b"}}}'"""),
        'The Pod "web-0" is invalid', "pod updates may not change fields other than")


@case
def who_is_not_known_is_told_so(kubectl):
    plain = f"--server {URL} --insecure-skip-tls-verify"
    nobody = {"KUBECONFIG": "/dev/null"}
    wrong = kubectl.run(f"get cm {plain} --token wrong", env=nobody)
    equal((wrong.returncode, wrong.stderr.splitlines()[-1]), (1, "error: You must be logged in to the server (Unauthorized)"))
    known = kubectl.run(f"auth whoami {plain} --token {TOKEN}", env=nobody)
    has(known.stdout, "admin", "system:masters")


def run(suite: Suite, prefix: str, own_home: bool = False) -> int:
    """Runs the suite over HTTP/2 and again over HTTP/1.1. The cases share what kubectl caches, or each has a home of its own."""
    fine = True
    own_name = suite.name
    for name, prefix, env in [(own_name, prefix, {}), (f"{own_name} over HTTP/1.1", f"{prefix}1", {"DISABLE_HTTP2": "true"})]:
        home = tempfile.mkdtemp(prefix="keepwatch-kubectl-")

        @contextlib.contextmanager
        def fixture(number):
            namespace = Api().namespace(f"{prefix}-{number}")
            folder = os.path.join(home, namespace)
            os.makedirs(folder)
            yield Kubectl(namespace, folder, {**env, "HOME": folder if own_home else home})

        suite.name = name
        try:
            fine &= suite.run(fixture, CASES_AT_A_TIME)
        finally:
            shutil.rmtree(home, ignore_errors=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(run(suite, "k"))
