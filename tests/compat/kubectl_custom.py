"""kubectl and custom resources: definitions and their objects, from `create` to `delete`.

Each case has a group of its own, and short names and categories with its namespace in them, because definitions are
cluster-wide. Each has a home of its own, because kubectl caches discovery in it.
"""

import json
import os
import sys

import kubectl as plain
from cases import Suite, equal, has, lacks, matches, until

suite = Suite("kubectl custom")

# The definition; `NS` in it is replaced by the case's namespace.
with open(os.environ["KEEPWATCH_DATABASE_YAML"]) as file:
    DEFINITION = "\n" + file.read()

ORDERS = """
apiVersion: NS.example.org/v1
kind: Database
metadata: {name: orders}
spec:
  engine: postgres
  users: [{name: ann, roles: [read]}]
  limits: {memory: 1Gi, cpus: 2}
"""

READY = json.dumps({"status": {"host": "db.example.org", "conditions": [{"type": "Ready", "status": "True"}]}})


class Given:
    """kubectl, and the names of the case's definition."""

    def __init__(self, kubectl: plain.Kubectl):
        self.kubectl = kubectl
        self.group = f"{kubectl.namespace}.example.org"
        self.short, self.category = f"{kubectl.namespace}-db", f"{kubectl.namespace}-all"
        self.crd, self.orders = f"crd/databases.{self.group}", f"databases.{self.group}/orders"
        self.created = f"database.{self.group}/orders"

    def text(self, template: str) -> str:
        return template.replace("NS", self.kubectl.namespace)

    def define(self, template: str = DEFINITION) -> None:
        self.kubectl("create -f -", self.text(template))
        # It fails where there are no conditions yet.
        established = f"wait --for=condition=Established --timeout=20s {self.crd}"
        until("the definition is established", lambda: self.kubectl.run(established).returncode == 0)

    def create(self) -> None:
        self.kubectl("create -f -", self.text(ORDERS))

    def merge(self, change: dict, *options: str) -> str:
        return f"patch {self.orders} --type=merge {' '.join(options)} -p '{json.dumps(change)}'"


def case(function):
    """The case is given kubectl and the names."""
    def given(kubectl):
        function(kubectl, Given(kubectl))

    given.__name__ = function.__name__
    return suite.case(given)


@case
def a_definition_and_an_object_are_applied_from_one_file(kubectl, given):
    kubectl.file("both.yaml", given.text(f"{DEFINITION}---{ORDERS}"))
    first = kubectl.run("apply -f both.yaml")
    has(first.stdout, f"customresourcedefinition.apiextensions.k8s.io/databases.{given.group} created\n")
    # kubectl looks for all kinds before it creates anything.
    if first.returncode:
        has(first.stderr, f'no matches for kind "Database" in version "{given.group}/v1"', "ensure CRDs are installed first")
    until("the definition is established", lambda: kubectl.run(f"wait --for=condition=Established {given.crd}").returncode == 0)
    has(kubectl("apply -f both.yaml"), f"databases.{given.group} unchanged", given.created)
    equal(kubectl("apply -f both.yaml"),
          f"customresourcedefinition.apiextensions.k8s.io/databases.{given.group} unchanged\n{given.created} unchanged\n")
    changed = given.text(ORDERS).replace("  users: [{name: ann, roles: [read]}]\n", "").replace("cpus: 2", "cpus: 4")
    equal(kubectl("apply -f -", changed), f"{given.created} configured\n")
    equal(kubectl.document(f"get {given.orders}")["spec"],
          {"engine": "postgres", "replicas": 1, "limits": {"memory": "1Gi", "cpus": 4}})


@case
def a_definition_says_when_it_is_served(kubectl, given):
    has(kubectl("create -f -", given.text(DEFINITION)), f"databases.{given.group} created")
    waited = lambda: kubectl.run(f"wait --for=condition=Established --timeout=20s {given.crd}").stdout
    until("it is established", lambda: waited() == f"customresourcedefinition.apiextensions.k8s.io/databases.{given.group} condition met\n")
    conditions = kubectl.document(f"get {given.crd}")["status"]["conditions"]
    equal(sorted((c["type"], c["status"], c["reason"]) for c in conditions),
          [("Established", "True", "InitialNamesAccepted"), ("NamesAccepted", "True", "NoConflicts")])
    given.create()
    matches(kubectl(f"get {given.crd}"), rf"^databases\.{given.group} +20\d\d-")
    has(kubectl(f"describe {given.crd}"), "Accepted Names:", "Kind:", "Database", "Stored Versions:", "v1")


@case
def discovery_names_the_kind_with_its_short_names_and_categories(kubectl, given):
    given.define()
    equal([row.split() for row in kubectl(f"api-resources --api-group={given.group} --no-headers -o wide").splitlines()],
          [["databases", given.short, f"{given.group}/v1", "true", "Database",
            "delete,deletecollection,get,list,patch,create,update,watch", given.category]])
    has(kubectl("api-versions"), f"{given.group}/v1\n")
    given.create()
    for name in [given.short, given.category, f"databases.{given.group}", f"databases.v1.{given.group}"]:
        equal(kubectl(f"get {name} -o name"), f"{given.created}\n")
    equal(kubectl(f"get {given.category},cm -l none=such -o name"), "")


@case
def get_shows_the_columns_of_the_definition(kubectl, given):
    given.define()
    given.create()
    matches(kubectl(f"get {given.short}"), r"^NAME +ENGINE +REPLICAS +READY +AGE\norders +postgres +1 +\d+s$")
    kubectl(given.merge(json.loads(READY), "--subresource=status"))
    matches(kubectl(f"get {given.short} -o wide"),
            r"^NAME +ENGINE +REPLICAS +READY +HOST +AGE\norders +postgres +1 +True +db.example.org +\d+s$")
    matches(kubectl(f"get {given.short} --show-labels"), r"LABELS\norders +postgres +1 +True +\d+s +<none>$")
    kubectl(f"patch {given.crd} --type=json -p "
            """'[{"op":"remove","path":"/spec/versions/0/additionalPrinterColumns"}]'""")
    until("the columns are gone", lambda: kubectl(f"get {given.short}").split()[:2] == ["NAME", "AGE"])
    matches(kubectl(f"get {given.short}"), r"^NAME +AGE\norders +\d+s$")


@case
def get_selects_by_fields_and_sorts_and_prints_paths(kubectl, given):
    given.define()
    for name, engine in [("a", "postgres"), ("b", "sqlite"), ("c", "postgres")]:
        kubectl("create -f -", given.text(ORDERS).replace("orders", name).replace("postgres", engine))
    names = lambda options: [line.split("/")[1] for line in kubectl(f"get {given.short} -o name {options}").splitlines()]
    equal(names("--field-selector spec.engine=postgres"), ["a", "c"])
    equal(names("--field-selector spec.engine!=postgres"), ["b"])
    equal(names("--sort-by=.spec.engine --field-selector metadata.name!=a"), ["c", "b"])
    has(kubectl.fails(f"get {given.short} --field-selector spec.image=x"), "(BadRequest)",
        'that match label selector "", field selector "spec.image=x": field label not supported: spec.image')
    equal(kubectl(f"get {given.short} a -o jsonpath={{.spec.users[0].name}}"), "ann")
    equal(kubectl(f"get {given.short} a -o custom-columns=E:.spec.engine,L:.spec.limits.cpus"), "E          L\npostgres   2\n")


@case
def get_watch_prints_rows_with_the_columns_of_the_definition(kubectl, given):
    given.define()
    given.create()
    with kubectl.started(f"get {given.short} --watch --output-watch-events") as watch:
        watch.line("EVENT", "NAME", "ENGINE", "REPLICAS", "READY", "AGE")
        watch.line("ADDED", "orders", "postgres", "1")
        kubectl(given.merge({"spec": {"replicas": 3}}))
        watch.line("MODIFIED", "orders", "postgres", "3")
        kubectl(given.merge(json.loads(READY), "--subresource=status"))
        watch.line("MODIFIED", "orders", "postgres", "3", "True")
        kubectl(f"delete {given.orders}")
        watch.line("DELETED", "orders", "postgres", "3", "True")


@case
def explain_describes_the_fields_of_the_schema(kubectl, given):
    given.define()
    explain = lambda field, options="": kubectl(f"explain {given.short}{field} {options}")
    until("the kind is described", lambda: kubectl.run(f"explain {given.short}").returncode == 0)
    has(explain(""), f"GROUP:      {given.group}", "KIND:       Database", "VERSION:    v1", "DESCRIPTION:\n    A database that somebody else runs.",
        "FIELDS:", "apiVersion\t<string>", "metadata\t<ObjectMeta>", "spec\t<Object> -required-\n    What is wanted.", "status\t<Object>")
    has(explain(".spec.users"), "FIELD: users <[]Object>", "Who may log in.", "name\t<string> -required-\n    How the user logs in.", "roles\t<[]string>")
    has(explain(".spec.engine"), "FIELD: engine <string>", "ENUM:", "postgres", "mysql", "sqlite", "Which program.")
    has(explain(".spec", "--recursive"), "engine\t<string> -required-", "limits\t<map[string]", "users\t<[]Object>\n    name\t<string> -required-")
    has(explain(".metadata.finalizers"), "FIELD: finalizers <[]string>")
    has(kubectl.fails(f"explain {given.short}.spec.nothing"), 'field "nothing" does not exist')
    kubectl(f"patch {given.crd} --type=json -p " """'[{"op":"add","value":{"type":"boolean","description":"Added later."},
            "path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/backup"}]'""")
    until("the new field is described", lambda: "Added later." in kubectl.run(f"explain {given.short}.spec.backup").stdout)


@case
def describe_prints_the_whole_object(kubectl, given):
    given.define()
    given.create()
    has(kubectl(f"describe {given.orders}"), "Name:         orders", f"API Version:  {given.group}/v1", "Kind:         Database", "Generation:          1",
        "Spec:\n  Engine:  postgres\n  Limits:\n    Cpus:    2\n    Memory:  1Gi\n  Replicas:  1\n  Users:\n    Name:  ann\n    Roles:\n      read\nEvents:  <none>")


@case
def patch_takes_merge_and_json_patches_but_no_strategic_ones(kubectl, given):
    given.define()
    given.create()
    spec = lambda: kubectl.document(f"get {given.orders}")["spec"]
    equal(kubectl(given.merge({"spec": {"replicas": 3, "limits": None}})), f"{given.created} patched\n")
    equal(spec(), {"engine": "postgres", "replicas": 3, "users": [{"name": "ann", "roles": ["read"]}]})
    equal(kubectl(given.merge({"spec": {"replicas": 3}})), f"{given.created} patched (no change)\n")
    # Null is the same as absent, and there is a default.
    kubectl(given.merge({"spec": {"replicas": None}}))
    equal(spec()["replicas"], 1)
    kubectl(f"""patch {given.orders} --type=json -p '[{{"op":"test","path":"/spec/replicas","value":1}},
            {{"op":"add","path":"/spec/users/0","value":{{"name":"bob"}}}}]'""")
    equal([user["name"] for user in spec()["users"]], ["bob", "ann"])
    has(kubectl.fails(f"""patch {given.orders} --type=json -p '[{{"op":"test","path":"/spec/replicas","value":9}}]'"""),
        "The request is invalid: the server rejected our request due to an error in our request")
    has(kubectl.fails(f"""patch {given.orders} -p '{{"spec":{{"replicas":3}}}}'"""),
        f"error: application/strategic-merge-patch+json is not supported by {given.group}/v1, Kind=Database: the body of the request was in "
        "an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml")
    warned = kubectl.run(given.merge({"spec": {"nothing": 1, "replicas": 2}}))
    equal((warned.returncode, warned.stderr), (0, 'Warning: unknown field "spec.nothing"\n'))
    lacks(kubectl(f"get {given.orders} -o json"), "nothing")
    kubectl(f"label {given.orders} a=b")
    kubectl(f"annotate {given.orders} c=d")
    metadata = kubectl.document(f"get {given.orders}")["metadata"]
    equal((metadata["labels"], metadata["annotations"], metadata["generation"]), ({"a": "b"}, {"c": "d"}, 5))


@case
def replace_and_diff_compare_with_what_is_there(kubectl, given):
    given.define()
    given.create()
    stale = kubectl(f"get {given.orders} -o json")
    equal(kubectl("replace -f -", given.text(ORDERS).replace("cpus: 2", "cpus: 3")), f"{given.created} replaced\n")
    has(kubectl.fails("replace -f -", stale), "(Conflict)", f'Operation cannot be fulfilled on databases.{given.group} "orders": the object has been modified')
    # Its second half is the annotation that `apply` would add.
    has(kubectl.fails("diff -f -", given.text(ORDERS)), "-    cpus: 3", "+    cpus: 2")


@case
def edit_changes_the_object_unless_the_schema_forbids_it(kubectl, given):
    given.define()
    given.create()
    edited = lambda change: kubectl.run(f"edit {given.orders}", env={"KUBE_EDITOR": f"sed -i {change}"})
    equal(edited("s/1Gi/2Gi/").stdout, f"{given.created} edited\n")
    equal(kubectl.value(given.orders, ".spec.limits.memory"), "2Gi")
    refused = edited("s/postgres/oracle/")
    equal(refused.returncode, 1)
    has(refused.stderr, f'databases.{given.group} "orders" is invalid', "Edit cancelled, no valid changes were saved.")
    equal(kubectl.value(given.orders, ".spec.engine"), "postgres")
    schema = kubectl.run(f"edit {given.crd}", env={"KUBE_EDITOR": "sed -i 's/maximum: 9/maximum: 7/'"})
    has(schema.stdout, f"customresourcedefinition.apiextensions.k8s.io/databases.{given.group} edited")
    until("the new schema is in force", lambda: kubectl.run(given.merge({"spec": {"replicas": 8}})).returncode == 1)


@case
def status_is_a_subresource_of_its_own_and_can_be_waited_for(kubectl, given):
    given.define()
    kubectl("create -f -", given.text(ORDERS) + "status: {host: made.up}\n")
    equal("status" in kubectl.document(f"get {given.orders}"), False)
    with kubectl.started(f"wait --for=condition=Ready --timeout=20s {given.orders}") as ready, \
         kubectl.started(f"wait --for=jsonpath={{.status.host}}=db.example.org --timeout=20s {given.orders}") as host:
        kubectl(given.merge({**json.loads(READY), "spec": {"replicas": 9}}, "--subresource=status"))
        equal((ready.ends(), host.ends()), (f"{given.created} condition met", f"{given.created} condition met"))
    found = kubectl.document(f"get {given.orders} --subresource=status")
    equal((found["spec"]["replicas"], found["metadata"]["generation"]), (1, 1))
    kubectl(given.merge({"status": {"host": "ignored"}, "spec": {"replicas": 2}}))
    found = kubectl.document(f"get {given.orders}")
    equal((found["status"]["host"], found["spec"]["replicas"], found["metadata"]["generation"]), ("db.example.org", 2, 2))


@case
def scale_reads_and_writes_where_the_definition_says(kubectl, given):
    given.define()
    given.create()
    kubectl(given.merge({"status": {"replicas": 1, "selector": "app=db"}}, "--subresource=status"))
    equal(kubectl(f"scale {given.orders} --replicas 5"), f"{given.created} scaled\n")
    scale = kubectl.document(f"get {given.orders} --subresource=scale")
    equal((scale["apiVersion"], scale["kind"], scale["spec"], scale["status"]),
          ("autoscaling/v1", "Scale", {"replicas": 5}, {"replicas": 1, "selector": "app=db"}))
    equal(kubectl.value(given.orders, ".spec.replicas"), "5")
    has(kubectl.fails(f"scale {given.orders} --current-replicas 4 --replicas 6"), "Expected replicas to be 4, was 5")
    has(kubectl.fails(f"scale {given.orders} --replicas 10"), 'The Database "orders" is invalid',
        "spec.replicas: Invalid value: 10: spec.replicas in body should be less than or equal to 9")
    kubectl(f"autoscale {given.orders} --min 1 --max 3 --cpu-percent 50")
    equal(kubectl("get hpa orders -o jsonpath={.spec.scaleTargetRef.kind}"), "Database")


@case
def what_the_schema_forbids_is_explained(kubectl, given):
    given.define()
    given.create()
    unchecked = "* <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation\n"
    for change, problems in [
        ({"spec": {"engine": "oracle", "image": "X", "replicas": 10}},
         ['spec.engine: Unsupported value: "oracle": supported values: "postgres", "mysql", "sqlite"',
          "spec.image: Invalid value: \"X\": spec.image in body should match '^[a-z]+:[0-9]+$'",
          "spec.replicas: Invalid value: 10: spec.replicas in body should be less than or equal to 9"]),
        ({"spec": {"users": [{"name": "abcdefghijklmnopqrstuvwxyz"}, {}]}},
         ["spec.users[0].name: Too long: may not be more than 20 bytes", "spec.users[1].name: Required value"]),
        ({"spec": {"users": "ann"}}, ['spec.users: Invalid value: "string": spec.users in body must be of type array: "string"']),
        ({"spec": {"users": [{"name": str(number)} for number in range(6)]}}, ["spec.users: Too many: 6: must have at most 5 items"]),
        ({"spec": {"limits": {"a": True}}}, ['spec.limits.a: Invalid value: "boolean": spec.limits.a in body must be of type integer,string: "boolean"']),
        ({"spec": None}, ["spec: Required value"]),
    ]:
        said = kubectl.fails(given.merge(change))
        has(said, 'The Database "orders" is invalid: \n')
        equal(sorted(said.splitlines(True)[1:]), sorted([f"* {problem}\n" for problem in problems] + [unchecked]))


@case
def what_rules_forbid_is_explained(kubectl, given):
    given.define()
    given.create()
    invalid = 'The Database "orders" is invalid: '
    for change, problem in [
        ({"spec": {"engine": "sqlite", "replicas": 2}}, "spec: Invalid value: sqlite has one replica"),
        ({"spec": {"engine": "mysql"}}, "spec.engine: Forbidden: nobody moves to mysql"),
    ]:
        equal(kubectl.fails(given.merge(change)), f"{invalid}{problem}\n")
    has(kubectl("create -f -", given.text(ORDERS).replace("orders", "sql").replace("postgres", "mysql")), "created")


@case
def what_lists_and_names_forbid_is_explained(kubectl, given):
    given.define()
    given.create()
    invalid = 'The Database "orders" is invalid: '
    for change, problem in [
        ({"spec": {"users": [{"name": "a"}, {"name": "a"}]}}, 'spec.users[1]: Duplicate value: {"name":"a"}'),
        ({"metadata": {"labels": {"a b": "c"}}}, 'metadata.labels: Invalid value: "a b": name part must consist of'),
    ]:
        has(kubectl.fails(given.merge(change)), f"{invalid}{problem}")
    has(kubectl.fails(given.merge({"kind": "Foo"})), 'The Foo "orders" is invalid: kind: Invalid value: "Foo": must be Database')
    has(kubectl.fails("create -f -", given.text(ORDERS).replace("orders", "Wrong_Name")), 'The Database "Wrong_Name" is invalid: metadata.name: Invalid value')


@case
def what_cannot_be_read_is_refused_when_it_is_created(kubectl, given):
    given.define()
    unknown = given.text(ORDERS) + "  colour: red\n  tone: {a: 1}\n"
    has(kubectl.fails("create -f -", unknown), "Error from server (BadRequest): error when creating \"STDIN\": Database in version \"v1\" cannot be handled as a Database: "
        'strict decoding error: unknown field "spec.colour", unknown field "spec.tone"')
    warned = kubectl.run("create --validate=warn -f -", unknown)
    equal((warned.returncode, warned.stdout), (0, f"{given.created} created\n"))
    equal(warned.stderr.splitlines(), ['Warning: unknown field "spec.colour"', 'Warning: unknown field "spec.tone"'])
    has(kubectl.fails("create -f -", given.text(ORDERS).replace("/v1", "/v2")), f'no matches for kind "Database" in version "{given.group}/v2"')
    has(kubectl.fails("create -f -", given.text(ORDERS)), f'(AlreadyExists): error when creating "STDIN": databases.{given.group} "orders" already exists')
    has(kubectl.fails(f"get {given.short} nothing"), f'(NotFound): databases.{given.group} "nothing" not found')


@case
def a_bad_definition_is_explained(kubectl, given):
    scope, missing = "scope: Namespaced", "must be specified"
    prefix = f'The CustomResourceDefinition "databases.{given.group}" is invalid'
    schema = "spec.validation.openAPIV3Schema"
    for old, new, *problem in [
        (scope, "scope: Everywhere", 'spec.scope: Unsupported value: "Everywhere": supported values: "Cluster", "Namespaced"'),
        ("plural: databases", "plural: dbs", 'metadata.name: Invalid value: "databases.NS.example.org": must be spec.names.plural+"."+spec.group'),
        ("storage: true", "storage: false", "must have exactly one version marked as storage version"),
        ("image: {type: string,", "image: {", f"{schema}.properties[spec].properties[image].type: Required value: must not be empty for specified object fields"),
        ("roles: {type: array, items: {type: string}}", "roles: {type: array}", f"{schema}.properties[spec].properties[users].items.properties[roles].items: Required value: {missing}"),
        ("default: 1}", "default: 10}", f"{schema}.properties[spec].properties[replicas].default: Invalid value: 10"),
        ("list-map-keys: [name]", "list-map-keys: [age]", f"{schema}.properties[spec].properties[users].x-kubernetes-list-map-keys: Invalid value: [\"age\"]: entries must all be names of item properties"),
        ("pattern: '^[a-z]+:[0-9]+$'", "pattern: '['", f"{schema}.properties[spec].properties[image].pattern: Invalid value: \"[\": must be a valid regular expression"),
    ]:
        said = kubectl.fails("create -f -", given.text(DEFINITION.replace(old, new)))
        has(said, prefix, *[given.text(part) for part in problem])
    has(kubectl.fails("create -f -", given.text(DEFINITION.replace("served: true", "served: true\n    nothing: 1"))),
        '(BadRequest)', 'CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition: strict decoding error: unknown field "spec.versions[0].nothing"')


@case
def a_bad_rule_is_explained(kubectl, given):
    rule = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: "
    for old, new, *problem in [
        ("self.replicas == 1", "self.replica == 1", "Invalid value", "undefined field 'replica'"),
        ("self.replicas == 1", "self.replicas = 1", "Invalid value", "Syntax error: token recognition error at: '= '"),
        ("self.replicas == 1", 'self.replicas == "1"', "Invalid value", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.replicas == 1", "self.limits.all(a, self.limits.all(b, self.limits.all(c, a != b || b != c)))",
         "Forbidden", "estimated rule cost exceeds budget by factor of more than 100x"),
    ]:
        said = kubectl.fails("create -f -", given.text(DEFINITION.replace(old, new)))
        has(said, f'The CustomResourceDefinition "databases.{given.group}" is invalid', rule, *problem)


@case
def several_versions_are_served_and_one_of_them_is_deprecated(kubectl, given):
    old = "  - {name: v1alpha1, served: true, storage: false, deprecated: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n"
    given.define(DEFINITION + old)
    given.create()
    shown = kubectl.run(f"get databases.v1alpha1.{given.group} orders -o json")
    equal(json.loads(shown.stdout)["apiVersion"], f"{given.group}/v1alpha1")
    equal(shown.stderr, f"Warning: {given.group}/v1alpha1 Database is deprecated; use {given.group}/v1 Database\n")
    equal(kubectl.document(f"get {given.short} orders")["apiVersion"], f"{given.group}/v1")


@case
def objects_of_a_cluster_scoped_kind_have_no_namespace(kubectl, given):
    given.define(DEFINITION.replace("scope: Namespaced", "scope: Cluster"))
    given.create()
    equal("namespace" in kubectl.document(f"get {given.orders}")["metadata"], False)
    equal(kubectl(f"get {given.short} -A -o name"), f"{given.created}\n")


@case
def deletion_of_the_definition_removes_the_objects(kubectl, given):
    given.define()
    given.create()
    kubectl("create -f -", given.text(ORDERS).replace("name: orders", "name: held, finalizers: [example.org/hold]"))
    held = f"databases.{given.group}/held"
    with kubectl.started(f"delete {given.crd}") as deletion:
        deletion.line("Warning: deleting cluster-scoped resources, not scoped to the provided namespace")
        deletion.line(f'customresourcedefinition.apiextensions.k8s.io "databases.{given.group}" deleted')
        kubectl(f"wait --for=delete --timeout=20s {given.orders}")
        conditions = kubectl.document(f"get {given.crd}")["status"]["conditions"]
        equal([c["status"] for c in conditions if c["type"] == "Terminating"], ["True"])
        has(kubectl.fails("create -f -", given.text(ORDERS)), "create not allowed while custom resource definition is terminating")
        kubectl(f"patch {held} --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'")
        deletion.ends()
    equal(kubectl(f"get crd databases.{given.group} --ignore-not-found"), "")
    has(kubectl.fails(f"get databases.v1.{given.group}"), "the server could not find the requested resource")
    until("discovery has forgotten it", lambda: given.group not in kubectl("api-versions"))
    # And it may come back, without what was there before.
    given.define()
    equal(kubectl(f"get {given.short} -o name"), "")


@case
def deletion_by_selector_and_of_a_whole_collection(kubectl, given):
    given.define()
    for name in "abcd":
        kubectl("create -f -", given.text(ORDERS).replace("name: orders", f"name: {name}, labels: {{odd: \"{name in 'ac'}\"}}"))
    equal(sorted(kubectl(f"delete {given.short} -l odd=True").splitlines()), [f'database.{given.group} "{name}" deleted' for name in "ac"])
    equal(kubectl(f"delete {given.short} --all -o name").split(), [f"database.{given.group}/b", f"database.{given.group}/d"])
    has(kubectl.fails(f"delete {given.orders}"), f'(NotFound): databases.{given.group} "orders" not found')


if __name__ == "__main__":
    sys.exit(plain.run(suite, "kc", own_home=True))
