"""Reports what lockstep.h costs a user's build: the number of headers that it includes, and the CPU seconds that g++ -O0 takes
for programs of growing size. Not a test, because times depend on the machine.

  tools/header_time.py [--table]      --table: each header of lockstep.h by itself
"""

import argparse
import os
import pathlib
import re
import resource
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMPILER = os.environ.get("CXX", "g++")
RUNS = 3
INCLUDE = re.compile(r'^#include "(lockstep/[^"]+)"', re.MULTILINE)
STANDARD = "".join(f"#include <{name}>\n" for name in ("functional", "map", "memory", "optional", "string", "variant", "vector"))
PROGRAM = """#include <iostream>
#include <lockstep/lockstep.h>

namespace ls = lockstep;

class Scale : public ls::keras::Layer {
 public:
  explicit Scale(double factor) : Layer("Scale"), factor_(factor) {}
  ls::Json get_config() const override { return {{"name", name()}, {"factor", factor_}}; }
  ls::keras::Structure call(const ls::keras::Structure& inputs, const ls::keras::CallContext&) override {
    return inputs.leaf() * factor_;
  }

 private:
  double factor_;
};

ls::keras::Model get_model(ls::distribute::Strategy& strategy) {
  auto scope = strategy.scope();
  ls::keras::Sequential model({
      ls::layers::Input({28, 28, 1}),
      ls::layers::Conv2D(32, 3, {.activation = "relu"}),
      ls::layers::MaxPooling2D(),
      ls::layers::Flatten(),
      ls::layers::Dense(64, {.activation = "relu"}),
      ls::layers::Dense(10),
  });
  model.compile({.optimizer = ls::optimizers::Adam(),
                 .loss = ls::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {ls::metrics::SparseCategoricalAccuracy({.name = "accuracy"})}});
  return model;
}

int main() {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto [train, test] = ls::datasets::fashion_mnist();
  const auto data = ls::data::Dataset::from_tensor_slices({train.images, train.labels}).shuffle(10'000).batch(128);
  auto model = get_model(strategy);
  const auto history = model.fit(data, {.epochs = 2});
  std::cout << history["loss"].back() << "\\n";
  model.save("fashion.keras");
  const auto again = ls::keras::load_model("fashion.keras");
  std::cout << again.name() << " " << ls::Json{{"params", again.count_params()}}.dump() << "\\n";
}
"""


def reached(header, seen):
    if header not in seen:
        seen.add(header)
        for target in INCLUDE.findall((ROOT / header).read_text()):
            reached(target, seen)
    return seen


def seconds(text):
    """CPU seconds of the compiler for a program, the least of some runs."""
    best = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "program.cpp")
        source.write_text(text)
        for _ in range(RUNS):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([COMPILER, "-std=c++20", "-O0", "-c", f"-I{ROOT}", source, "-o", f"{folder}/program.o"], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            best = min(best, after.ru_utime - before.ru_utime)
    return best


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--table", action="store_true", help="each header of lockstep.h by itself")
    table = options.parse_args().table
    direct = INCLUDE.findall((ROOT / "lockstep/lockstep.h").read_text())
    print(f"lockstep.h: {len(direct)} headers, with those that they include {len(reached('lockstep/lockstep.h', set())) - 1}")
    main_only = "int main() {}\n"
    print(f"{seconds(STANDARD + main_only):6.2f} s  headers of the standard library that it needs in any case")
    print(f"{seconds('#include <lockstep/lockstep.h>' + chr(10) + main_only):6.2f} s  lockstep.h")
    print(f"{seconds(PROGRAM):6.2f} s  lockstep.h and a program of {PROGRAM.count(chr(10))} lines")
    for header in direct if table else ():
        print(f"{seconds(f'#include <{header}>{chr(10)}' + main_only):6.2f} s  {header}")


main()
