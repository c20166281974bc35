"""wrong_lines.py COMPILER SOURCE: each line "// expect: TEXT" of wrong_lines.cpp is a message of the compiler."""
import os
import re
import subprocess
import sys

compiler, source = sys.argv[1:]
file = os.path.join(source, "tests/api/wrong_lines.cpp")
expected = re.findall(r"// expect: (.*)", open(file).read())
run = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-I", source, file], capture_output=True, text=True)
assert run.returncode != 0, "wrong_lines.cpp compiles"
missing = [text for text in expected if text not in run.stderr]
assert expected and not missing, f"not said: {missing}\n{run.stderr}"
print(f"{len(expected)} messages")
