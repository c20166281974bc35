"""The recorded sequences of batches, which epoch_iterator_test.cpp is tested with, are those of the installed Keras."""
import json

import pytest

import epoch_sequences

CASES = epoch_sequences.cases()


def recorded():
    return json.loads(epoch_sequences.GOLDEN.read_text().removeprefix('R"golden(').removesuffix(')golden"\n'))


def test_every_case_is_recorded():
    assert [{key: row[key] for key in epoch_sequences.KEYS} for row in recorded()] == CASES


# One case in eleven of each kind, which takes seconds; epoch_sequences.py records all of them.
@pytest.mark.parametrize("number", range(0, len(CASES), 11))
def test_the_recorded_sequences_are_those_of_keras(number):
    pytest.importorskip("tensorflow")
    assert recorded()[number]["expected"] == epoch_sequences.run(CASES[number]), CASES[number]
