"""plot_model: boxes, frames and edges are those of Keras's model_to_dot(); the picture is drawn without overlaps."""

import re
import sys
import types
import xml.etree.ElementTree as ElementTree

import keras
import pytest

import lockstep_tool as tool

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="about the tool's own pictures")
L = keras.layers


class Recorded:
    """Stands for pydot.Dot and pydot.Cluster, and keeps what Keras puts into them."""

    def __init__(self, *_, **options):
        self.nodes, self.edges, self.frames, self.options = [], [], [], options

    def set(self, key, value):
        self.options[key] = value

    def set_node_defaults(self, **_):
        pass

    def get_edge(self, source, target):
        return [edge for edge in self.edges if edge == (source, target)]

    def add_edge(self, edge):
        self.edges.append(edge.ends)

    def add_node(self, node):
        self.nodes.append(node)

    def add_subgraph(self, frame):
        self.frames.append(frame)

    def contents(self, names):
        """(labels of boxes, frames), with the labels of all boxes in `names`."""
        for node in self.nodes:
            names[node.name] = node.label
        return sorted(node.label for node in self.nodes), sorted(
            ((frame.options["label"], frame.contents(names)) for frame in self.frames), key=str)

    def all_edges(self):
        return self.edges + [edge for frame in self.frames for edge in frame.all_edges()]


class Node:
    def __init__(self, name, label):
        self.name, self.label = name, re.sub(r'colspan="\d+" ?| ?colspan="\d+"', "", label)

    def set(self, *_):
        pass


class Edge(Node):
    def __init__(self, source, target):
        self.ends = (source, target)


def drawing_of_keras(model, **options):
    pydot = types.SimpleNamespace(Dot=Recorded, Cluster=Recorded, Node=Node, Edge=Edge)
    module = sys.modules["keras.src.utils.model_visualization"]
    before, module.pydot = module.pydot, pydot
    try:
        made = keras.utils.model_to_dot(model, **options)
    finally:
        module.pydot = before
    names = {}
    boxes = made.contents(names)
    return boxes, sorted({(names[a], names[b]) for a, b in made.all_edges()})


def drawing_of_file(path):
    """The same of a .dot file of ours."""
    names, stack, edges = {}, [Recorded()], []
    for line in path.read_text().splitlines():
        if line.startswith("subgraph"):
            stack.append(Recorded())
            stack[-2].add_subgraph(stack[-1])
        elif line == "}" and len(stack) > 1:
            stack.pop()
        elif len(stack) > 1 and line.startswith("label="):
            stack[-1].options["label"] = line[len('label="'):-2]
        elif found := re.fullmatch(r"(\d+) \[label=(<<.*>>), .*\];", line):
            stack[-1].add_node(Node(found[1], found[2]))
        elif found := re.fullmatch(r"(\d+) -> (\d+) .*", line):
            edges.append((found[1], found[2]))
    boxes = stack[0].contents(names)
    return boxes, sorted({(names[a], names[b]) for a, b in edges})


def nested():
    inner = keras.Sequential([keras.Input((5,)), L.Dense(4, activation="relu", name="inner_1"), L.Dense(4, name="inner_2")], name="stack")
    x, z = keras.Input((5,), name="x"), keras.Input((3,), name="z")
    a, b = keras.Input((4,), name="a"), keras.Input((3,), name="b")
    two = keras.Model([a, b], [L.Dense(2, name="left")(a), L.Concatenate(name="both")([a, b])], name="two")
    left, both = two([inner(x), z])
    h = L.Add(name="sum")([left, L.Dense(2, name="shortcut", trainable=False)(z)])
    return keras.Model([x, z], {"h": h * 2.0, "both": L.Activation("softmax", name="soft")(both)})


def chain():
    return keras.Sequential([keras.Input((6,), dtype="int32"), L.Embedding(7, 4, name="e"), L.LSTM(3, return_sequences=True, name="l"),
                             keras.Sequential([L.Dense(2, activation="tanh", name="d")], name="top"), L.Flatten(name="f")])


def shared():
    x, y = keras.Input((4,)), keras.Input((4,))
    layer = L.Dense(3, activation=L.LeakyReLU(name="leaky"), name="shared")
    return keras.Model([x, y], L.Dot(1, name="dot")([layer(x), layer(y)]))


FLAGS = {"show_shapes": "--show-shapes", "show_dtype": "--show-dtype", "show_layer_names": "--show-layer-names",
         "expand_nested": "--expand-nested", "show_layer_activations": "--show-layer-activations", "show_trainable": "--show-trainable"}


@pytest.mark.parametrize("on", [(), ("show_shapes", "show_layer_names"), ("expand_nested", "show_layer_names", "show_dtype"), tuple(FLAGS)],
                         ids=lambda on: "+".join(on) or "plain")
@pytest.mark.parametrize("make", [nested, chain, shared])
def test_boxes_and_edges(make, on, tmp_path):
    model = make()
    model.save(tmp_path / "m.keras")
    tool.ok("plot", tmp_path / "m.keras", tmp_path / "folder" / "m.dot", *[FLAGS[flag] for flag in on])
    model = keras.models.load_model(tmp_path / "m.keras")
    expected = drawing_of_keras(model, **{flag: flag in on for flag in FLAGS})
    assert drawing_of_file(tmp_path / "folder" / "m.dot") == expected


def number(element, key):
    return float(element.get(key))


@pytest.mark.parametrize("direction", ["TB", "BT", "LR", "RL"])
@pytest.mark.parametrize("make", [nested, chain, shared])
def test_picture(make, direction, tmp_path):
    model = make()
    model.save(tmp_path / "m.keras")
    tool.ok("plot", tmp_path / "m.keras", tmp_path / "m.svg", *FLAGS.values(), "--rankdir", direction)
    root = ElementTree.parse(tmp_path / "m.svg").getroot()
    names = {"".join(text.itertext()) for text in root.findall(".//{*}text")}
    for layer in [*model.layers, *(part for layer in model.layers if hasattr(layer, "layers") for part in layer.layers)]:
        assert any(name.startswith(layer.name) for name in names), layer.name
    page = (number(root, "width"), number(root, "height"))
    titles = [(number(r, "x"), number(r, "y"), number(r, "width"), number(r, "height")) for r in root.findall(".//{*}rect") if r.get("fill") == "black"]
    assert len(titles) == len([n for n in names if n.endswith(")") and " (" in n and ":" not in n])
    for i, (x, y, width, height) in enumerate(titles):
        assert x >= 0 and y >= 0 and x + width <= page[0] and y + height <= page[1]
        for x2, y2, width2, height2 in titles[:i]:
            assert x + width <= x2 or x2 + width2 <= x or y + height <= y2 or y2 + height2 <= y, "boxes overlap"
    assert len(list(root.findall(".//{*}path"))) > 3


def test_unknown_options(tmp_path):
    model = chain()
    model.save(tmp_path / "m.keras")
    assert "--rankdir" in tool.refused("plot", tmp_path / "m.keras", tmp_path / "m.svg", "--rankdir", "UP", code=2)
    assert ".svg" in tool.refused("plot", tmp_path / "m.keras", tmp_path / "m.png")
