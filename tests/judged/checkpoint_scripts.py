"""Scripts of checkpoint actions, run with TensorFlow; checkpoint_script_probe.cpp runs the same ones with lockstep.

An action is a dict: "do" is what is done, "as" the name of what it makes, the other members its arguments."""

import json
import random

import numpy as np
import tensorflow as tf

ASSERTIONS = ["assert_nontrivial_match", "assert_existing_objects_matched", "assert_consumed"]
DTYPES = ["float32", "float32", "float64", "float16", "bfloat16", "int32", "int64", "int8", "uint8", "uint16", "bool", "string"]
NAMES = ["a", "b", "w", "layers", "x.y", "p/q", "kernel", "é", "_v", "A.B/C", "0", "_functional"]


def tensor(action):
    if action["dtype"] == "string":
        return tf.constant(action["value"], tf.string, shape=action["shape"])
    return tf.cast(tf.constant(np.array(action["value"], np.float64).reshape(action["shape"])), action["dtype"])


def value(variable):
    data = variable.numpy()
    if variable.dtype == tf.string:
        return [item.decode() for item in np.ravel(np.array(data, object)).tolist()]
    return np.ravel(np.asarray(data, np.float64)).tolist()


def resolved(objects, tree):
    if isinstance(tree, list):
        return [resolved(objects, item) for item in tree]
    if isinstance(tree, dict):
        return {name: resolved(objects, item) for name, item in tree.items()}
    return objects[tree]


def act(objects, action):
    def of(member):
        return objects[action[member]]

    members = resolved(objects, action.get("members", {}))
    match action["do"]:
        case "variable":
            objects[action["as"]] = tf.Variable(tensor(action), name=action["name"])
        case "module":
            objects[action["as"]] = tf.Module()
            for name, member in members.items():
                setattr(objects[action["as"]], name, member)
        case "attach":
            for name, member in members.items():
                setattr(of("to"), name, member)
        case "checkpoint":
            objects[action["as"]] = tf.train.Checkpoint(*([of("root")] if "root" in action else []), **members)
        case "save":
            path = of("checkpoint").save(action["path"], tf.train.CheckpointOptions(enable_async=action.get("async", False)))
            of("checkpoint").sync()
            return path
        case "write":
            return of("checkpoint").write(action["path"])
        case "table":
            objects[action["as"]] = tf.lookup.experimental.MutableHashTable(tf.string, action["dtype"], tf.constant(-1, action["dtype"]))
        case "insert":
            of("to").insert(tf.constant(action["keys"], tf.string), tf.cast(tf.constant(action["values"], tf.int64), of("to").value_dtype))
        case "entries":
            keys, values = of("of").export()
            return sorted([key.decode(), int(number)] for key, number in zip(keys.numpy(), values.numpy()))
        case "saver":
            objects[action["as"]] = tf.compat.v1.train.Saver(members)
        case "saver_save":
            return of("saver").save(None, action["path"])
        case "saver_restore":
            of("saver").restore(None, action["path"])
        case "restore":
            restore = of("checkpoint").read if action.get("read") else of("checkpoint").restore
            objects[action["as"]] = restore(action["path"])
            objects[action["as"]].expect_partial()
        case "assert":
            getattr(of("status"), action["how"])()
        case "assign":
            of("to").assign(tensor(action))
        case "value":
            return value(of("of"))
        case "counter":
            return value(of("of").save_counter)
        case "list":
            return [[name, str(tf.TensorShape(shape))] for name, shape in tf.train.list_variables(action["path"])]
        case "latest":
            return tf.train.latest_checkpoint(action["path"])
        case "manager":
            options = {"step_counter": of("step")} if "step" in action else {}
            if "init" in action:
                options["init_fn"] = lambda variable=of("init"): variable.assign_add(tf.ones_like(variable))
            objects[action["as"]] = tf.train.CheckpointManager(
                of("checkpoint"), action["directory"], action.get("max_to_keep"), keep_checkpoint_every_n_hours=action.get("hours"),
                checkpoint_name=action.get("checkpoint_name", "ckpt"), checkpoint_interval=action.get("interval"), **options)
        case "manager_save":
            return of("manager").save(action.get("number"), check_interval=action.get("check_interval", True))
        case "manager_restore":
            return of("manager").restore_or_initialize()
        case "manager_list":
            return [list(of("manager").checkpoints), of("manager").latest_checkpoint]


def run(script):
    objects, results = {}, []
    for action in script:
        try:
            results.append(act(objects, action))
        except Exception as error:
            results.append({"error": type(error).__name__, "text": str(error)})
    return results


def in_folder(script, folder):
    return json.loads(json.dumps(script).replace("FOLDER", str(folder)))


# ---- random scripts: modules are saved; others with other parts, some of which come later, are restored

def variable(rng, number):
    dtype, shape = rng.choice(DTYPES), [rng.randint(0, 3) for _ in range(rng.randint(0, 2))]
    make = {"string": lambda: f"t{rng.randint(0, 99)}", "bool": lambda: rng.randint(0, 1)}.get(dtype, lambda: rng.randint(0, 100))
    return {"do": "variable", "as": f"v{number}", "name": rng.choice(["w", "b", "s/w"]), "dtype": dtype, "shape": shape,
            "value": [make() for _ in range(int(np.prod(shape)))]}


def objects(rng):
    variables = [variable(rng, i) for i in range(rng.randint(1, 6))]
    known, modules = [v["as"] for v in variables], []

    def pick():
        return rng.choice(known)

    def member():
        return rng.choice([pick, pick, pick, lambda: [pick() for _ in range(rng.randint(0, 3))],
                           lambda: {name: pick() for name in sorted(rng.sample(NAMES, 2))}, lambda: [[pick()], {"k": [pick()]}]])()

    for i in range(rng.randint(1, 4)):
        modules.append({"do": "module", "as": f"m{i}", "members": {name: member() for name in rng.sample(NAMES, rng.randint(1, 4))}})
        known.append(f"m{i}")
    return variables, modules


def changed(rng, variables, modules):
    """The same objects with other values, and some other parts; and the parts that are attached later."""
    variables, modules, later = json.loads(json.dumps([variables, modules, []]))
    for each in variables:
        each["value"] = ["" if each["dtype"] == "string" else 0] * len(each["value"])
    for _ in range(rng.choice([0, 1, 2])):
        module, each = rng.choice(modules), rng.choice(variables)
        members = module["members"]
        name = rng.choice([*members, ""])
        kind = rng.choice(["remove", "rename", "add", "shape", "dtype", "alias", "later"])
        if kind == "add":
            variables.append(variable(rng, len(variables)))
            members["extra"] = variables[-1]["as"]
        elif kind == "shape":
            each["shape"], each["value"] = [2, 2], ["" if each["dtype"] == "string" else 0] * 4
        elif kind == "dtype" and each["dtype"] != "string":
            each["dtype"] = "float32"
        elif name and kind == "remove":
            members.pop(name)
        elif name and kind == "rename":
            members["renamed"] = members.pop(name)
        elif name and kind == "alias":
            members[name] = each["as"]
        elif name and kind == "later":
            later.append({"do": "attach", "to": module["as"], "members": {name: members.pop(name)}})
    return variables, modules, later


def pair(rng, number):
    """A script that saves, and one that restores what it saved."""
    variables, modules = objects(rng)
    names = [each["as"] for each in [*variables, *modules]]
    checkpoint = {"do": "checkpoint", "as": "c", "members": {name: rng.choice(names) for name in rng.sample(["model", "z", "a"], 2)}}
    if rng.random() < 0.3:
        checkpoint["root"] = modules[-1]["as"]
    how, prefix = rng.choice(["save", "write"]), f"FOLDER/{number}/ckpt"
    path = prefix + "-1" * (how == "save")
    # TensorFlow writes one file: it never ends where a row is larger than the size, and cannot read the slices of strings that
    # it writes.
    save = {"do": how, "checkpoint": "c", "path": prefix, "async": rng.random() < 0.2, "size": rng.choice([0, 0, 5, 40, 1000])}
    saving = [*variables, *modules, checkpoint, save,
              {"do": "list", "path": path}]
    variables, modules, later = changed(rng, variables, modules)
    checks = [{"do": "assert", "status": "s", "how": how} for how in ASSERTIONS] + [{"do": "value", "of": v["as"]} for v in variables]
    restore = {"do": "restore", "checkpoint": "c", "path": path, "as": "s", "read": rng.random() < (0.3 if how == "save" else 0.8)}
    return saving, [*variables, *modules, checkpoint, restore, *checks, *later, *checks]


def deferred(rng, number):
    """A script that saves twice while modules get their parts, and one that restores while they get them in another order."""
    variables = [variable(rng, i) for i in range(rng.randint(2, 7))]
    modules = [f"m{i}" for i in range(rng.randint(2, 6))]

    def pick():
        return rng.choice([v["as"] for v in variables] + modules)

    def part():
        return rng.choice([pick, pick, pick, lambda: [pick() for _ in range(rng.randint(0, 3))],
                           lambda: {name: pick() for name in sorted(rng.sample(NAMES, 2))}, lambda: [[pick()], {"k": [pick()]}]])()

    parts = [{"do": "attach", "to": m, "members": {name: part()}} for m in modules for name in rng.sample(NAMES, rng.randint(1, 3))]
    made = [*variables, *[{"do": "module", "as": m, "members": {}} for m in modules]]
    checkpoint = {"do": "checkpoint", "as": "c", "members": {name: rng.choice(modules) for name in ("model", "z")}}
    if rng.random() < 0.3:
        checkpoint["root"] = modules[0]
    others = [v | {"do": "assign", "to": v["as"], "value": ["q" if v["dtype"] == "string" else 1] * len(v["value"])} for v in variables]
    rng.shuffle(parts)
    half, first, second = rng.randint(0, len(parts)), f"FOLDER/{number}/a", f"FOLDER/{number}/b"
    saving = [*made, *parts[:half], checkpoint, {"do": "save", "checkpoint": "c", "path": first}, *others, *parts[half:],
              {"do": "write", "checkpoint": "c", "path": second}, {"do": "list", "path": second}]
    steps = json.loads(json.dumps(parts[rng.choice([0, 0, 1]):]))
    rng.shuffle(steps)
    # A checkpoint with a root gives its counter, in TensorFlow, the value of the first of two files.
    for i, path in enumerate(rng.sample([first + "-1", second], 1 if "root" in checkpoint else rng.randint(1, 2))):
        steps.insert(rng.randint(0, len(steps)), {"do": "restore", "checkpoint": "c", "path": path, "as": f"s{i}", "read": rng.random() < 0.4})
    restoring = [v | {"value": ["" if v["dtype"] == "string" else 0] * len(v["value"])} for v in variables] + made[len(variables):] + [checkpoint]
    known = []
    for step in [*steps, {"do": "save", "checkpoint": "c", "path": first + "x"}]:
        restoring.append(step)
        known += [step["as"]] if step["do"] == "restore" else []
        if rng.random() < 0.4 or step["do"] == "save":
            restoring += [{"do": "assert", "status": s, "how": how} for s in known for how in ASSERTIONS]
            restoring += [{"do": "value", "of": v["as"]} for v in variables]
    return saving, restoring


def by_names(rng, number):
    """The same with files by name: either side, or both, is a Saver."""
    saving, restoring = pair(rng, number)
    variables, writes, reads = [a for a in saving if a["do"] == "variable"], *rng.choice([(True, False), (False, True), (True, True)])
    path = f"FOLDER/{number}/ckpt"

    def saver(parts):
        named = {a["name"] if rng.random() < 0.7 else rng.choice(["w", "b", "a/b", "_v"]): a["as"] for a in parts}
        return {"do": "saver", "as": "saver", "members": named}

    if writes:
        saving = [*variables, saver(variables), {"do": "saver_save", "saver": "saver", "path": path}, {"do": "list", "path": path}]
    else:
        path = saving[-1]["path"]
    if reads:
        variables = [a for a in restoring if a["do"] == "variable"]
        parts = rng.sample(variables, rng.randint(1, len(variables)))
        restoring = [*variables, saver(parts), {"do": "saver_restore", "saver": "saver", "path": path},
                     *[{"do": "value", "of": v["as"]} for v in variables]]
    for action in restoring:
        if action["do"] == "restore":
            action["path"] = path
        action.pop("root", None)  # TensorFlow always misses the save counter of a checkpoint with a root there
    return saving, restoring


def with_tables(rng, number):
    """The same with tables, whose entries are stored."""
    saving, restoring = pair(rng, number)

    def made(script, dtypes, entries):
        tables = [{"do": "table", "as": f"t{i}", "dtype": dtype} for i, dtype in enumerate(dtypes)]
        fill = [{"do": "insert", "to": f"t{i}", "keys": list(each), "values": list(each.values())} for i, each in enumerate(entries)]
        for action in script:
            if action["do"] == "module" and action["as"] == "m0":
                action["members"] |= {"table": "t0", "other": rng.choice(["t0", "t1"])}
            elif action["do"] == "checkpoint":
                action["members"] |= {"first": "m0", "second": "t1"}
                action.pop("root", None)
        return [*tables, *fill, *script, {"do": "entries", "of": "t0"}, {"do": "entries", "of": "t1"}]

    def some():
        return {key: rng.randint(0, 9) for key in rng.sample("abcdef", rng.randint(0, 4))}

    dtypes = [rng.choice(["int64", "int64", "float32"]) for _ in range(2)]
    saving = made(saving, dtypes, [some(), some()])
    return saving, made(restoring, dtypes if rng.random() < 0.8 else ["int64", "int64"], [some(), some()])


def managed(rng, number):
    """A script of a CheckpointManager's life."""
    folder = f"FOLDER/{number}"
    script = [{"do": "variable", "as": "step", "name": "step", "dtype": "int64", "shape": [], "value": [0]},
              {"do": "variable", "as": "w", "name": "w", "dtype": "float32", "shape": [2], "value": [1, 2]}]

    def manager():
        chances = [("max_to_keep", 0.7, [1, 2, 3]), ("hours", 0.3, [1e-9, 100]), ("checkpoint_name", 0.3, ["model", "a-b", "ck.pt"]),
                   ("step", 0.5, ["step"]), ("interval", 0.3, [1, 2, 3]), ("init", 0.4, ["w"])]
        script.append({"do": "checkpoint", "as": "c", "members": {"step": "step", "w": "w"}})
        script.append({"do": "manager", "as": "m", "checkpoint": "c", "directory": folder} |
                      {name: rng.choice(values) for name, chance, values in chances if rng.random() < chance})

    manager()
    for _ in range(rng.randint(4, 12)):
        kind = rng.choice(["manager_save"] * 5 + ["assign", "assign", "manager_restore", "manager", "save"])
        if kind == "manager":
            manager()
        elif kind == "assign":
            script.append({"do": "assign", "to": "step", "dtype": "int64", "shape": [], "value": [rng.randint(0, 9)]})
        elif kind == "save":
            script.append({"do": "save", "checkpoint": "c", "path": f"{folder}/ckpt"})
        else:
            script.append({"do": kind, "manager": "m"} | rng.choice([{}, {}, {"number": 100}, {"check_interval": False}]))
        script += [{"do": "manager_list", "manager": "m"}, {"do": "value", "of": "step"}, {"do": "value", "of": "w"}]
    return [*script, {"do": "latest", "path": folder}]


def scripts(seed, count, make):
    rng = random.Random(seed)
    return [make(rng, i) for i in range(count)]
