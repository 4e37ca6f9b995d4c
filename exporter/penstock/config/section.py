"""What all sections of a configuration have in common: unknown keys are errors, secrets are not shown."""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    model_validator,
)

from penstock.config.values import NAME_IN_BRACES, Reading, mask


class Section(BaseModel):
    """A mapping of the file. What the environment put into its texts is kept apart, so that it can be masked."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True, validate_by_alias=True
    )
    ELSEWHERE: ClassVar[Mapping[str, str]] = {}
    """Keys that do not belong here, each with what to do about it."""
    _written: Mapping[str, str] = PrivateAttr(default_factory=dict)
    """Fields with `${NAME}` in their text: the text as it is in the file."""
    _expanded: Mapping[str, str] = PrivateAttr(default_factory=dict)
    """What stood in the environment, by these names."""

    @model_validator(mode="wrap")
    @classmethod
    def _note(cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        found = handler(data)
        if isinstance(data, Mapping):
            texts = {name: data.get(field.alias or name) for name, field in cls.model_fields.items()}
            written = {name: text for name, text in texts.items() if isinstance(text, str) and "${" in text}
            names = {name for text in written.values() for name in re.findall(NAME_IN_BRACES, text)}
            found.expanded_from(written, {k: v for k, v in Reading.of(info).expanded.items() if k in names})
        return found

    def expanded_from(self, written: Mapping[str, str], expanded: Mapping[str, str]) -> None:
        """Remember which fields the environment filled: as they were written, and what it gave."""
        self._written, self._expanded = written, expanded

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, value if name is None or isinstance(value, SecretStr) else self._written.get(name, value)

    def shown(self, field: str) -> str:
        """The field as a text to be shown: as it is in the file where the environment filled it."""
        return self._written.get(field) or str(getattr(self, field))

    def mask(self, text: str) -> str:
        """`text` with `${NAME}` in place of what the environment put into this section."""
        return mask(text, self._expanded)

    def masked(self) -> dict[str, Any]:
        """The section by its keys, fit to be served: secrets as `<secret>`, texts of the environment as `${NAME}`."""
        dumped = self.model_dump(by_alias=True, exclude_none=True)
        fields = {field.alias or name: name for name, field in type(self).model_fields.items()}
        return {key: self._masked(fields[key], value) for key, value in dumped.items()}

    def _masked(self, name: str, dumped: Any) -> Any:
        value = getattr(self, name)
        hidden = isinstance(value, SecretStr)
        return self._written[name] if name in self._written and not hidden else _shown(value, dumped)


def _shown(value: Any, dumped: Any) -> Any:
    """value: as it is; dumped: as pydantic writes it."""
    match value:
        case SecretStr():
            return "<secret>"
        case Section():
            return value.masked()
        case StrEnum():
            return value.value
        case Mapping():
            return {key: _shown(one, dumped[key]) for key, one in value.items()}
        case Sequence() if not isinstance(value, str):
            return [_shown(one, its) for one, its in zip(value, dumped, strict=True)]
        case _:
            return dumped
