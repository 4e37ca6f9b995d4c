"""What all sections of a configuration have in common: unknown keys are errors, secrets are not shown."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Self, Unpack

import pydantic
from pydantic import PrivateAttr, SecretStr

from penstock.config.values import NAME_IN_BRACES, Reading, mask
from penstock.core.catalogues import read_toml

TEXTS = read_toml("penstock.config", "texts.toml")
"""What each field is, by section; and of errors."""
MASKED = object()
"""Context in which a section is written as it may be served."""


class Section(pydantic.BaseModel):
    """A mapping of the file. What the environment put into its texts is kept apart, so that it can be masked."""

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, validate_by_alias=True
    )
    ELSEWHERE: ClassVar[Mapping[str, str]] = {}
    """Keys that do not belong here, each with what to do about it."""
    ONLY_GIVEN: ClassVar[bool] = False
    """Served without what the file does not say."""
    _written: Mapping[str, str] = PrivateAttr(default_factory=dict)
    """Fields with `${NAME}` in their text: the text as it is in the file."""
    _expanded: Mapping[str, str] = PrivateAttr(default_factory=dict)
    """The variables of the environment, by these names."""

    def __init_subclass__(cls, **given: Unpack[pydantic.ConfigDict]) -> None:
        """The descriptions of its fields are in `texts.toml`."""
        super().__init_subclass__(**given)
        for name, text in TEXTS.get(cls.__name__, {}).items():
            cls.__annotations__[name] = Annotated[
                cls.__annotations__[name], pydantic.Field(description=text)
            ]

    @pydantic.model_validator(mode="wrap")
    @classmethod
    def _note(
        cls,
        data: object,
        handler: pydantic.ModelWrapValidatorHandler[Self],
        info: pydantic.ValidationInfo,
    ) -> Self:
        section = handler(data)
        if isinstance(data, Mapping):
            texts = {
                name: data.get(field.alias or name)
                for name, field in cls.model_fields.items()
            }
            written = {
                name: text
                for name, text in texts.items()
                if isinstance(text, str) and "${" in text
            }
            names = {
                name
                for text in written.values()
                for name in re.findall(NAME_IN_BRACES, text)
            }
            section.expanded_from(
                written,
                {k: v for k, v in Reading.of(info).expanded.items() if k in names},
            )
        return section

    def expanded_from(
        self, written: Mapping[str, str], expanded: Mapping[str, str]
    ) -> None:
        """Remember which fields the environment filled: as they were written, and what it gave."""
        self._written = written
        self._expanded = expanded

    def __repr_args__(self) -> Iterator[tuple[str | None, object]]:
        for name, value in super().__repr_args__():
            yield (
                name,
                value
                if name is None or isinstance(value, SecretStr)
                else self._written.get(name, value),
            )

    def shown(self, field: str) -> str:
        """The field as a text to be shown: as it is in the file where the environment filled it."""
        return self._written.get(field) or str(getattr(self, field))

    def mask(self, text: str) -> str:
        """`text` with `${NAME}` in place of what the environment put into this section."""
        return mask(text, self._expanded)

    def masked(self) -> dict[str, object]:
        """The section by its keys, fit to be served: secrets as `<secret>`, texts of the environment as `${NAME}`."""
        return self.model_dump(
            mode="json", by_alias=True, exclude_none=True, context=MASKED
        )

    @pydantic.model_serializer(mode="wrap")
    def _dumped(
        self,
        handler: pydantic.SerializerFunctionWrapHandler,
        info: pydantic.SerializationInfo,
    ) -> dict[str, object]:
        dumped: dict[str, object] = handler(self)
        if info.context is not MASKED:
            return dumped
        for name, field in type(self).model_fields.items():
            key = field.alias or name
            if self.ONLY_GIVEN and name not in self.model_fields_set:
                dumped.pop(key, None)
            elif isinstance(getattr(self, name), SecretStr):
                dumped[key] = "<secret>"
            elif name in self._written:
                dumped[key] = self._written[name]
        return dumped
