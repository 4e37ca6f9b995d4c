"""Windows keep rows that have nothing to do nowhere, and say the same as if they kept all."""

import numpy as np
import pytest

from penstock.core.table import Column, Index, Mask
from penstock.core.windows import Sample, Values, Window, since


@pytest.mark.parametrize("seed", range(8))
def test_what_a_window_says_is_what_all_its_values_say(seed: int) -> None:
    random = np.random.default_rng(seed)
    index: Index[str] = Index.empty()
    window = Window()
    everything: list[Values] = []
    missing: list[Mask] = []
    keys = np.arange(12)
    for poll in range(10):
        # Now and then one goes and another comes.
        if poll % 4 == 3:
            gone = int(random.integers(len(keys)))
            came = int(keys.max()) + 1
            keys = np.append(np.delete(keys, gone), came)
            everything = [
                np.append(
                    np.delete(one, gone, axis=1), np.zeros((2, 1), np.float32), axis=1
                )
                for one in everything
            ]
            missing = [
                np.append(np.delete(one, gone, axis=1), np.ones((2, 1), bool), axis=1)
                for one in missing
            ]
        index, _ = index.advance(keys, lambda new: ["x"] * len(new))
        values = np.where(
            random.random((2, 12)) < 0.7, 0, random.integers(-5, 50, (2, 12))
        ).astype(np.float32)
        values[:, random.random(12) < 0.1] = np.nan
        known = random.random(12) > 0.05
        values[:, ~known] = np.nan
        window = window.reindexed(index, known).push(15.0 * poll, values, 1000.0, 0.0)
        for one, unknown in zip(everything, missing, strict=True):
            one[:, ~known], unknown[:, ~known] = 0.0, True
        everything.append(np.nan_to_num(values))
        missing.append(np.isnan(values))
    rows = np.arange(12)
    for variable in range(2):
        of = np.stack([one[variable] for one in everything])
        unknown = np.stack([one[variable] for one in missing])
        assert (window.of(variable, rows) == of).all()
        assert (np.isnan(window.of(variable, rows, np.nan)) == unknown).all()
        assert (window.sum(variable) == of.sum(axis=0)).all()
        assert (
            window.rose(variable) == ((of[-1] > of[0]) | unknown[0] | unknown[-1])
        ).all()
        seconds = 15.0 * (9 - unknown[1:].sum(axis=0))
        rate = of[1:].sum(axis=0) / np.where(seconds > 0, seconds, np.nan)
        np.testing.assert_allclose(window.rate(variable), rate)


def test_rows_with_nothing_to_do_take_no_place() -> None:
    values = np.zeros((5, 10_000), np.float32)
    values[2, 7], values[0, 9_000] = 3, -1
    sample = Sample.of(0.0, 15.0, 15.0, 1, values, np.zeros((5, 10_000), bool))
    assert (sample.rows.tolist(), sample.values.nbytes) == ([7, 9_000], 40)
    assert (sample.filled(sample.values) == values).all()
    joined = sample.joined(sample, levels=(0,))
    assert joined.filled(joined.values)[:, [7, 9_000]].tolist() == [
        [0, -1],
        [0, 0],
        [6, 0],
        [0, 0],
        [0, 0],
    ]


@pytest.mark.parametrize("now", [30.0, np.array([31.0, 32.0, 33.0, 34.0])])
def test_since_when_begins_with_this_poll_goes_on_and_ends(now: float | Column) -> None:
    before = np.array([np.nan, 10.0, 11.0, np.nan])
    after = since(np.array([True, True, False, False]), before, now)
    came = now if isinstance(now, float) else 31.0
    np.testing.assert_array_equal(after, [came, 10.0, np.nan, np.nan])
    np.testing.assert_array_equal(before, [np.nan, 10.0, 11.0, np.nan])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("largest", [50, 2**31, 0.1])
def test_sums_that_go_on_from_poll_to_poll_are_those_of_the_samples(
    seed: int, largest: float
) -> None:
    """While samples are joined and go, rows come and go, start again, and are missing; also of what float32 rounds."""
    random = np.random.default_rng(seed)
    index: Index[str] = Index.empty()
    window = Window()
    keys = np.arange(12)
    for poll in range(120):
        if poll % 5 == 3:
            keys = np.append(
                np.delete(keys, int(random.integers(len(keys)))), int(keys.max()) + 1
            )
        index, _ = index.advance(keys, lambda new: ["x"] * len(new))
        values = np.where(
            random.random((3, 12)) < 0.5, 0, random.uniform(-largest, largest, (3, 12))
        )
        values = (values if largest < 1 else np.round(values)).astype(np.float32)
        values[:, random.random(12) < 0.1] = np.nan
        known = random.random(12) > 0.05
        values[:, ~known] = np.nan
        window = window.reindexed(index, known).push(
            5.0 * poll, values, 100.0, 12.0, levels=(2,)
        )
        of_samples = [
            window.of(variable, np.arange(12)).sum(axis=0) for variable in range(3)
        ]
        np.testing.assert_array_equal(
            [window.sum(variable) for variable in range(3)], of_samples
        )
    assert len(window.samples) < 15
