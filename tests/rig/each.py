"""One test of many small cases: a test of its own for each would take longer to begin and to report than to run."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

Case = TypeVar("Case")


def of_each(
    cases: Mapping[str, Case],
) -> Callable[[Callable[[Case], None]], Callable[[], None]]:
    """
    The test is called with each case, also after one that fails; what failed says which case it was.

    For checks without fixtures that take no time; others are better parametrized.
    """

    def decorated(test: Callable[[Case], None]) -> Callable[[], None]:
        def of_all() -> None:
            failures = list(failures_of(test, cases))
            if failures:
                raise ExceptionGroup(
                    f"{len(failures)} of {len(cases)} cases failed", failures
                )

        of_all.__name__ = test.__name__
        of_all.__qualname__ = test.__qualname__
        of_all.__module__ = test.__module__
        of_all.__doc__ = test.__doc__
        return of_all

    return decorated


def failures_of(
    test: Callable[[Case], None], cases: Mapping[str, Case]
) -> Iterable[Exception]:
    for name, case in cases.items():
        try:
            test(case)
        except Exception as error:  # noqa: BLE001 - raised with the others
            error.add_note(f"case: {name}")
            yield error
